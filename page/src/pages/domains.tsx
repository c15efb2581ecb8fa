// SPDX-License-Identifier: Apache-2.0
// Fault domains: hosts in racks, racks in rooms.
import { useState } from "preact/hooks";
import { type Schemas, api, may, told } from "../core/api";
import { hosts } from "../core/cluster";
import { clusterStore } from "../core/live";
import { to } from "../core/route";
import { useStore } from "../core/store";
import { Choice, Facts, Note, TextField, bytes } from "../parts/basics";
import { Dialog, Opens } from "../parts/dialog";
import { Shown, useLoaded } from "../parts/loading";
import { Table } from "../parts/table";
import { t } from "../texts";

type Report = Schemas["DomainsReport"];

function Create({ all, done, close }: { all: Report; done: () => void; close: () => void }) {
  const [name, setName] = useState("");
  const [within, setWithin] = useState("");
  const run = async () => {
    await told(api.POST("/api/v1/domains", { body: { name: name.trim(), within: within || null } }));
    done();
    return t("settings.done");
  };
  return (
    <Dialog title={t("domains.create")} act={t("create.act")} disabled={name.trim() === ""} run={run} close={close}>
      <TextField label={t("name")} value={name} set={setName} required />
      <Choice
        label={t("domains.within")}
        value={within}
        set={setWithin}
        of={[["", t("domains.none")], ...all.domains.map((one): [string, string] => [one.name, one.name])]}
      />
    </Dialog>
  );
}

function Assign({ all, done, close }: { all: Report; done: () => void; close: () => void }) {
  const names = useStore(clusterStore, (cluster) => hosts(cluster).map((host) => host.name).join("\n")).split("\n");
  const [host, setHost] = useState(names[0] ?? "");
  const [domain, setDomain] = useState("");
  const body = { hosts: [host], domain: domain || null };
  const check = useLoaded(() => told(api.POST("/api/v1/domains/assignments", { body: { ...body, check: true } })), [host, domain]);
  const run = async () => {
    await told(api.POST("/api/v1/domains/assignments", { body: { ...body, check: false } }));
    done();
    return t("settings.done");
  };
  return (
    <Dialog title={t("domains.assign")} act={t("save")} run={run} close={close}>
      <Choice label={t("host")} value={host} set={setHost} of={names.map((one): [string, string] => [one, one])} />
      <Choice
        label={t("domains.domain")}
        value={domain}
        set={setDomain}
        of={[["", t("domains.none")], ...all.domains.map((one): [string, string] => [one.name, one.name])]}
      />
      <h3>{t("comes-to")}</h3>
      <Shown of={check}>
        {(report) => (
          <>
            <Facts of={[[t("maintenance.to-move"), `${report.to_move} \u00b7 ${bytes(report.move_bytes)}`]]} />
            {report.without_place > 0 && <Note tone="warn">{t("maintenance.without-place", { count: report.without_place })}</Note>}
          </>
        )}
      </Shown>
    </Dialog>
  );
}

export function Domains() {
  const found = useLoaded(() => told(api.GET("/api/v1/domains")), []);
  const remove = (name: string) => async () => {
    await told(api.DELETE("/api/v1/domains/{name}", { params: { path: { name } } }));
    found.again();
    return t("settings.done");
  };
  return (
    <Shown of={found}>
      {(report) => (
        <>
          <Table
            label={t("domains")}
            items={report.domains}
            keyOf={(domain) => domain.name}
            empty={t("domains.empty")}
            columns={[
              { name: t("name"), show: (domain) => <b>{`${"\u2003".repeat(domain.depth)}${domain.name}`}</b> },
              { name: t("domains.within"), show: (domain) => domain.within ?? "\u2013" },
              {
                name: t("way.hosts"),
                show: (domain) => domain.hosts.map((host) => <a class="item" key={host} href={to("hosts", host)}>{host}</a>),
              },
              {
                name: t("actions"),
                show: ({ name }) =>
                  may("DELETE /api/v1/domains/{name}") && (
                    <Opens
                      text={t("delete")}
                      class="danger-line"
                      dialog={(close) => (
                        <Dialog title={t("domains.delete-title", { name })} act={t("delete")} danger name={name} run={remove(name)} close={close}>
                          <p>{t("domains.delete-means")}</p>
                        </Dialog>
                      )}
                    />
                  ),
              },
            ]}
          />
          {report.domains.length > 0 && report.without.length > 0 && (
            <p class="soft">{t("domains.without", { hosts: report.without.join(", ") })}</p>
          )}
          {may("POST /api/v1/domains") && (
            <div class="buttons">
              <Opens text={t("domains.create")} dialog={(close) => <Create all={report} done={found.again} close={close} />} />
              {report.domains.length > 0 && (
                <Opens text={t("domains.assign")} dialog={(close) => <Assign all={report} done={found.again} close={close} />} />
              )}
            </div>
          )}
        </>
      )}
    </Shown>
  );
}
