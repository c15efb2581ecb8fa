// SPDX-License-Identifier: Apache-2.0
import { useState } from "preact/hooks";
import { api, may, told } from "../core/api";
import { type Trashed, type Volume, sorted } from "../core/cluster";
import { clusterStore } from "../core/live";
import { to } from "../core/route";
import { useStore } from "../core/store";
import { span } from "../core/units";
import { Card, Choice, State, TextField, Title, bytes } from "../parts/basics";
import { Dialog, Opens } from "../parts/dialog";
import { Table } from "../parts/table";
import { t, word } from "../texts";
import { CreateVolume } from "./volume-create";

export function VolumeTable({ volumes }: { volumes: readonly Volume[] }) {
  return (
    <Table
      label={t("way.volumes")}
      items={volumes}
      keyOf={(volume) => volume.name}
      empty={t("volumes.none")}
      columns={[
        {
          name: t("name"),
          by: (volume) => volume.name,
          show: (volume) => (
            <a class="strong" href={to("volumes", volume.name)}>
              {volume.name}
            </a>
          ),
        },
        { name: t("health"), by: (volume) => volume.health, show: (volume) => <State of={volume.health} kind="health" /> },
        { name: t("size"), right: true, by: (volume) => volume.size_bytes, show: (volume) => bytes(volume.size_bytes) },
        { name: t("volume.copies"), right: true, by: (volume) => volume.ftt, show: (volume) => volume.ftt + 1 },
        {
          name: t("policy"),
          minor: true,
          by: (volume) => volume.policy?.name ?? "",
          show: (volume) => volume.policy?.name ?? "\u2013",
        },
        {
          name: t("volume.hosts"),
          minor: true,
          show: (volume) => [...new Set(volume.components.map((copy) => copy.host))].join(", "),
        },
        { name: t("volume.clients"), right: true, minor: true, by: (volume) => volume.clients, show: (volume) => volume.clients },
      ]}
    />
  );
}

function Deleted({ volumes }: { volumes: readonly Trashed[] }) {
  const undelete = (volume: Trashed, name: string) => async () => {
    const params = { path: { volume: volume.id } };
    await told(api.POST("/api/v1/deleted-volumes/{volume}/undelete", { params, body: { name } }));
    return t("volumes.back", { name });
  };
  const purge = (volume: Trashed) => async () => {
    await told(api.DELETE("/api/v1/deleted-volumes/{volume}", { params: { path: { volume: volume.id } } }));
    return t("volumes.gone", { name: volume.name });
  };
  return (
    <Table
      label={t("volumes.deleted")}
      items={volumes}
      keyOf={(volume) => volume.id}
      empty={t("volumes.none-deleted")}
      columns={[
        { name: t("name"), by: (volume) => volume.name, show: (volume) => <b>{volume.name}</b> },
        { name: t("size"), right: true, show: (volume) => bytes(volume.size_bytes) },
        { name: t("volumes.when"), show: (volume) => t("ago", { time: span(volume.deleted_seconds_ago) }) },
        { name: t("volumes.goes"), show: (volume) => t("in", { time: span(volume.goes_in_seconds) }) },
        {
          name: t("actions"),
          show: (volume) =>
            may("POST /api/v1/deleted-volumes/{volume}/undelete") && (
              <div class="buttons">
                <Opens text={t("volumes.undelete")} dialog={(close) => <Undelete volume={volume} run={undelete} close={close} />} />
                <Opens
                  text={t("volumes.purge")}
                  class="danger-line"
                  dialog={(close) => (
                    <Dialog
                      title={t("volumes.purge-title", { name: volume.name })}
                      act={t("volumes.purge")}
                      danger
                      name={volume.name}
                      run={purge(volume)}
                      close={close}
                    >
                      <p>{t("volumes.purge-means", { size: bytes(volume.size_bytes) })}</p>
                    </Dialog>
                  )}
                />
              </div>
            ),
        },
      ]}
    />
  );
}

function Undelete(props: { volume: Trashed; run: (volume: Trashed, name: string) => () => Promise<string>; close: () => void }) {
  const { volume, run, close } = props;
  const [name, setName] = useState(volume.name);
  return (
    <Dialog
      title={t("volumes.undelete-title", { name: volume.name })}
      act={t("volumes.undelete")}
      disabled={name.trim() === ""}
      run={run(volume, name.trim())}
      close={close}
    >
      <TextField label={t("name")} value={name} set={setName} hint={t("volumes.undelete-hint")} required />
    </Dialog>
  );
}

export function Volumes() {
  const cluster = useStore(clusterStore, (value) => value);
  const [name, setName] = useState("");
  const [health, setHealth] = useState("");
  const [policy, setPolicy] = useState("");
  const all = sorted(cluster.volumes);
  const policies = [...new Set(all.map((volume) => volume.policy?.name ?? ""))].filter(Boolean).sort();
  const wanted = all.filter((volume) => {
    const labels = Object.entries(volume.labels ?? {}).map(([key, value]) => `${key}=${value}`);
    const isNamed = [volume.name, ...labels].some((text) => text.includes(name.trim()));
    return isNamed && (!health || volume.health === health) && (!policy || volume.policy?.name === policy);
  });
  const healths: [string, string][] = ["green", "yellow", "red"].map((one) => [one, word("health", one)]);
  return (
    <>
      <Title
        text={t("way.volumes")}
        aside={may("POST /api/v1/volumes") && <Opens text={t("create.open")} class="first" dialog={(close) => <CreateVolume close={close} />} />}
      />
      <Card>
        <div class="filters">
          <TextField label={t("volumes.filter")} value={name} set={setName} />
          <Choice label={t("health")} value={health} set={setHealth} of={[["", t("volumes.any")], ...healths]} />
          <Choice
            label={t("policy")}
            value={policy}
            set={setPolicy}
            of={[["", t("volumes.any")], ...policies.map((one): [string, string] => [one, one])]}
          />
          <span class="soft count-of" role="status">
            {t("volumes.count", { count: wanted.length, all: all.length })}
          </span>
        </div>
        <VolumeTable volumes={wanted} />
      </Card>
      <Card title={t("volumes.deleted")}>
        <Deleted volumes={sorted(cluster.deleted)} />
      </Card>
    </>
  );
}
