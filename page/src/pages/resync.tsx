// SPDX-License-Identifier: Apache-2.0
import { useEffect } from "preact/hooks";
import { LISTS, type Resync, sorted } from "../core/cluster";
import { clusterStore } from "../core/live";
import { to } from "../core/route";
import { refreshWhileSeen } from "../core/samples";
import { useStore } from "../core/store";
import { span } from "../core/units";
import { Bar, Card, Title, bytes } from "../parts/basics";
import { Table } from "../parts/table";
import { t, word } from "../texts";

function reason({ reason: of }: Resync): string {
  if (typeof of === "string") return word("resync-reason", of);
  return "moves" in of ? t("resync.moves", { from: of.moves.from }) : t("resync.repairs", { from: of.repairs.from });
}

export function ResyncPage() {
  const resyncs = useStore(clusterStore, (cluster) => cluster.resyncs);
  useEffect(() => refreshWhileSeen("resyncs"), []);
  const all = sorted(resyncs);
  const left = all.reduce((sum, one) => sum + one.bytes_left, 0);
  const rate = all.reduce((sum, one) => sum + one.bytes_per_second, 0);
  const known = all.map((one) => one.seconds_left).filter((seconds) => seconds != null);
  return (
    <>
      <Title text={t("way.resync")} />
      <div class="tiles">
        <div class="tile">
          <h2>{t("resync.copies")}</h2>
          <p class="big">{all.length}</p>
        </div>
        <div class="tile">
          <h2>{t("resync.left")}</h2>
          <p class="big">{bytes(left)}</p>
        </div>
        <div class="tile">
          <h2>{t("resync.rate")}</h2>
          <p class="big">{`${bytes(rate)}/s`}</p>
        </div>
        <div class="tile">
          <h2>{t("resync.done-in")}</h2>
          <p class="big">{all.length > 0 && known.length === all.length ? span(Math.max(...known)) : "\u2013"}</p>
        </div>
      </div>
      <Card>
        <Table
          label={t("way.resync")}
          items={all}
          keyOf={LISTS.resyncs.key}
          empty={t("resync.none")}
          columns={[
            { name: t("volume"), by: (it) => it.volume, show: (it) => <a href={to("volumes", it.volume)}>{it.volume}</a> },
            { name: t("part"), right: true, show: (it) => it.object + 1 },
            { name: t("resync.to"), by: (it) => it.host, show: (it) => it.host },
            { name: t("resync.by"), minor: true, show: (it) => it.by },
            { name: t("resync.reason"), show: reason },
            {
              name: t("resync.progress"),
              show: (it) =>
                it.waits ? (
                  <span class="soft">{t("resync.waits", { what: it.waits })}</span>
                ) : (
                  <Bar part={it.bytes_copied} whole={it.bytes_copied + it.bytes_left} label={t("resync.progress")} />
                ),
            },
            { name: t("resync.left"), right: true, by: (it) => it.bytes_left, show: (it) => bytes(it.bytes_left) },
            { name: t("resync.rate"), right: true, minor: true, show: (it) => `${bytes(it.bytes_per_second)}/s` },
            {
              name: t("resync.done-in"),
              right: true,
              by: (it) => it.seconds_left ?? Number.MAX_SAFE_INTEGER,
              show: (it) => (it.seconds_left == null ? "\u2013" : span(it.seconds_left)),
            },
          ]}
        />
      </Card>
    </>
  );
}
