// SPDX-License-Identifier: Apache-2.0
import { useState } from "preact/hooks";
import { type Schemas, api, told } from "../core/api";
import { Card, Chip, TextField, Title } from "../parts/basics";
import { Shown, useLoaded } from "../parts/loading";
import { Table } from "../parts/table";
import { attempt } from "../parts/toasts";
import { language, t } from "../texts";

type Entry = Schemas["AuditEntry"];
const PAGE = 100;

const read = (before?: number) =>
  told(api.GET("/api/v1/audit", { params: { query: before === undefined ? { limit: PAGE } : { limit: PAGE, before } } }));

function said(entry: Entry): string {
  const fields = Object.entries((entry.command ?? {}) as Record<string, unknown>);
  return fields
    .filter(([name, value]) => name !== "command" && value !== null)
    .map(([name, value]) => `${name}=${typeof value === "object" ? JSON.stringify(value) : String(value)}`)
    .join(" ");
}

export function Audit() {
  const found = useLoaded(() => read(), []);
  const [older, setOlder] = useState<Entry[]>([]);
  const [end, setEnd] = useState(false);
  const [filter, setFilter] = useState("");
  const when = new Intl.DateTimeFormat(language(), { dateStyle: "short", timeStyle: "medium" });
  const more = async (all: Entry[]) => {
    const next = await read(Math.min(...all.map((entry) => entry.number)));
    setOlder((was) => [...was, ...next.reverse()]);
    setEnd(next.length < PAGE);
  };
  return (
    <>
      <Title
        text={t("way.audit")}
        aside={
          <button
            type="button"
            onClick={() => {
              setOlder([]);
              found.again();
            }}
          >
            {t("audit.again")}
          </button>
        }
      />
      <p class="lead">{t("audit.lead")}</p>
      <Card>
        <div class="filters">
          <TextField label={t("audit.filter")} value={filter} set={setFilter} />
        </div>
        <Shown of={found}>
          {(newest) => {
            const all = [...[...newest].reverse(), ...older];
            const wanted = all.filter((entry) => `${entry.caller} ${entry.request} ${said(entry)}`.includes(filter.trim()));
            return (
              <>
                <Table
                  label={t("way.audit")}
                  items={wanted}
                  keyOf={(entry) => String(entry.number)}
                  empty={t("audit.none")}
                  columns={[
                    { name: t("audit.when"), show: (entry) => <span class="whole-word">{when.format(entry.time * 1000)}</span> },
                    { name: t("audit.who"), by: (entry) => entry.caller, show: (entry) => <b>{entry.caller}</b> },
                    { name: t("audit.from"), minor: true, show: (entry) => entry.from },
                    { name: t("audit.request"), show: (entry) => <code>{entry.request.replace("/api/v1", "")}</code> },
                    { name: t("audit.fields"), show: (entry) => <span class="soft">{said(entry)}</span> },
                    {
                      name: t("audit.outcome"),
                      by: (entry) => entry.status,
                      show: (entry) => (
                        <>
                          <Chip tone={entry.status < 300 ? "good" : "bad"}>{entry.status}</Chip> {entry.problem}
                        </>
                      ),
                    },
                  ]}
                />
                {!end && all.length >= PAGE && (
                  <button type="button" onClick={() => void attempt(() => more(all))}>
                    {t("audit.older")}
                  </button>
                )}
              </>
            );
          }}
        </Shown>
      </Card>
    </>
  );
}
