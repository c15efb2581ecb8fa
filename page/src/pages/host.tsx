// SPDX-License-Identifier: Apache-2.0
// One host: its shards, its disk groups, the copies on it, and what may be done with it.
import { useEffect, useState } from "preact/hooks";
import { type Schemas, api, may, told } from "../core/api";
import { type Copy, type Shard, type Volume, hostOf, sorted } from "../core/cluster";
import { clusterStore } from "../core/live";
import { go, to } from "../core/route";
import { refreshWhileSeen } from "../core/samples";
import { useStore } from "../core/store";
import { stateOf } from "../core/tree";
import { span } from "../core/units";
import { Card, Choice, Empty, Facts, Note, State, Title, bytes, percent } from "../parts/basics";
import { Dialog, Opens } from "../parts/dialog";
import { PerformanceHistory } from "../parts/history";
import { Shown, useLoaded } from "../parts/loading";
import { Rack } from "../parts/rack";
import { Table } from "../parts/table";
import { attempt } from "../parts/toasts";
import { t, word } from "../texts";
import { HostStates } from "./hosts";

type Mode = Schemas["MaintenanceMode"];
const MODES: Mode[] = ["ensure-accessibility", "full-evacuation", "none"];

export function MaintenanceFacts({ of }: { of: Schemas["MaintenanceReport"] }) {
  return (
    <>
      <Facts
        of={[
          [t("maintenance.copies"), of.copies],
          [t("maintenance.only"), of.only],
          [t("maintenance.to-move"), `${of.to_move} \u00b7 ${bytes(of.move_bytes)}`],
          [t("maintenance.free"), bytes(of.free_bytes)],
        ]}
      />
      {of.without_place > 0 && <Note tone="warn">{t("maintenance.without-place", { count: of.without_place })}</Note>}
      {(of.obstacles ?? []).map((line) => (
        <Note tone="bad" key={line}>
          {line}
        </Note>
      ))}
    </>
  );
}

function Enter({ host, close }: { host: string; close: () => void }) {
  const [mode, setMode] = useState<Mode>("ensure-accessibility");
  const params = { path: { host } };
  const check = useLoaded(
    () => told(api.GET("/api/v1/hosts/{host}/maintenance", { params: { ...params, query: { mode } } })),
    [host, mode],
  );
  const run = async () => {
    await told(api.PUT("/api/v1/hosts/{host}/maintenance", { params, body: { mode } }));
    return t("maintenance.entered", { host });
  };
  return (
    <Dialog title={t("maintenance.enter-title", { host })} act={t("maintenance.enter")} danger run={run} close={close}>
      <Choice
        label={t("maintenance.mode")}
        value={mode}
        set={(value) => setMode(value as Mode)}
        of={MODES.map((one): [string, string] => [one, word("maintenance", one)])}
        hint={word("maintenance-means", mode)}
      />
      <h3>{t("comes-to")}</h3>
      <Shown of={check}>{(report) => <MaintenanceFacts of={report} />}</Shown>
    </Dialog>
  );
}

function Remove({ host, close }: { host: string; close: () => void }) {
  const run = async () => {
    await told(api.DELETE("/api/v1/hosts/{host}", { params: { path: { host } } }));
    go("hosts");
    return t("host.removed", { host });
  };
  return (
    <Dialog title={t("host.remove-title", { host })} act={t("host.remove")} danger name={host} run={run} close={close}>
      <p>{t("host.remove-means", { host })}</p>
    </Dialog>
  );
}

function Actions({ name, shards }: { name: string; shards: readonly Shard[] }) {
  const inside = shards.some((shard) => shard.maintenance);
  const leave = async () => {
    await told(api.DELETE("/api/v1/hosts/{host}/maintenance", { params: { path: { host: name } } }));
  };
  return (
    <>
      {inside
        ? may("DELETE /api/v1/hosts/{host}/maintenance") && (
            <button type="button" onClick={() => void attempt(leave, t("maintenance.left", { host: name }))}>
              {t("maintenance.leave")}
            </button>
          )
        : may("PUT /api/v1/hosts/{host}/maintenance") && (
            <Opens text={t("maintenance.enter")} dialog={(close) => <Enter host={name} close={close} />} />
          )}
      {may("DELETE /api/v1/hosts/{host}") && (
        <Opens text={t("host.remove")} class="danger-line" dialog={(close) => <Remove host={name} close={close} />} />
      )}
    </>
  );
}

function Scrub({ shard }: { shard: string }) {
  const params = { path: { shard } };
  const found = useLoaded(() => told(api.GET("/api/v1/shards/{shard}/scrub", { params })), [shard]);
  const ago = (seconds: number | null | undefined) => (seconds == null ? t("never") : t("ago", { time: span(seconds) }));
  const send = async (asked: Promise<unknown>, said: string) => {
    await attempt(() => asked, said);
    found.again();
  };
  return (
    <>
      <Shown of={found}>
        {(scrubs) => (
          <Table
            label={t("scrub")}
            items={scrubs}
            keyOf={(scrub) => scrub.device}
            empty={t("group.none")}
            columns={[
              { name: t("device"), show: (scrub) => <code>{scrub.device}</code> },
              {
                name: t("state"),
                show: (scrub) => (scrub.progress == null ? scrub.state : `${scrub.state} ${percent(scrub.progress, 1)}`),
              },
              { name: t("scrub.last"), show: (scrub) => ago(scrub.last_pass_seconds_ago) },
              { name: t("scrub.bad"), show: (scrub) => scrub.bad_blocks, right: true },
              { name: t("scrub.unrepaired"), show: (scrub) => scrub.unrepaired_blocks, right: true },
            ]}
          />
        )}
      </Shown>
      {may("POST /api/v1/shards/{shard}/scrub") && (
        <div class="buttons">
          <button
            type="button"
            onClick={() => void send(told(api.POST("/api/v1/shards/{shard}/scrub", { params, body: {} })), t("scrub.started"))}
          >
            {t("scrub.start")}
          </button>
          <button
            type="button"
            onClick={() => void send(told(api.DELETE("/api/v1/shards/{shard}/scrub", { params })), t("scrub.paused"))}
          >
            {t("scrub.pause")}
          </button>
        </div>
      )}
    </>
  );
}

function CopiesHere({ shards, volumes }: { shards: readonly Shard[]; volumes: readonly Volume[] }) {
  const names = new Set(shards.map((shard) => shard.name));
  const here: { volume: Volume; copy: Copy }[] = volumes.flatMap((volume) =>
    volume.components.filter((copy) => names.has(copy.host)).map((copy) => ({ volume, copy })),
  );
  return (
    <Table
      label={t("host.copies")}
      items={here}
      keyOf={({ volume, copy }) => `${volume.name}/${copy.object ?? 0}/${copy.host}`}
      empty={t("host.no-copies")}
      columns={[
        {
          name: t("volume"),
          by: ({ volume }) => volume.name,
          show: ({ volume }) => <a href={to("volumes", volume.name)}>{volume.name}</a>,
        },
        { name: t("part"), right: true, by: ({ copy }) => copy.object ?? 0, show: ({ copy }) => (copy.object ?? 0) + 1 },
        { name: t("state"), by: ({ copy }) => stateOf(copy), show: ({ copy }) => <State of={stateOf(copy)} kind="copy" /> },
        {
          name: t("group"),
          minor: true,
          show: ({ copy }) =>
            copy.group ? <a href={to("groups", copy.host, copy.group)}>{copy.group.slice(0, 8)}</a> : "\u2013",
        },
      ]}
    />
  );
}

export function HostPage({ name }: { name: string }) {
  const cluster = useStore(clusterStore, (value) => value);
  useEffect(() => refreshWhileSeen("groups"), []);
  const host = hostOf(cluster.shards.get(name) ?? ({ name } as Shard));
  const shards = sorted(cluster.shards).filter((shard) => hostOf(shard) === host);
  const above = <a href={to("hosts")}>{t("way.hosts")}</a>;
  if (shards.length === 0) {
    return (
      <>
        <Title text={host} above={above} />
        <Empty>{t("host.gone")}</Empty>
      </>
    );
  }
  const groups = sorted(cluster.groups).filter((group) => shards.some((shard) => shard.name === group.host));
  return (
    <>
      <Title text={host} above={above} aside={<Actions name={host} shards={shards} />} />
      <p class="states">
        <HostStates shards={shards} />
      </p>
      <Card title={t("host.groups")}>
        <Rack groups={groups} />
      </Card>
      <PerformanceHistory kind="host" name={host} />
      <div class="two">
        <Card title={t("host.shards-title")}>
          <Table
            label={t("host.shards-title")}
            items={shards}
            keyOf={(shard) => shard.name}
            empty=""
            columns={[
              { name: t("name"), show: (shard) => shard.name },
              { name: t("state"), show: (shard) => <State of={shard.state} kind="host" /> },
              { name: t("host.address"), show: (shard) => <code>{shard.peer}</code> },
              { name: t("host.domains"), show: (shard) => (shard.domains ?? []).join(" / ") || "\u2013" },
              { name: t("level"), right: true, show: (shard) => shard.level ?? "\u2013" },
            ]}
          />
        </Card>
        <Card title={t("host.copies")}>
          <CopiesHere shards={shards} volumes={sorted(cluster.volumes)} />
        </Card>
      </div>
      {shards
        .filter((shard) => shard.state === "up")
        .map((shard) => (
          <Card key={shard.name} title={shards.length > 1 ? `${t("scrub")} \u00b7 ${shard.name}` : t("scrub")}>
            <Scrub shard={shard.name} />
          </Card>
        ))}
    </>
  );
}
