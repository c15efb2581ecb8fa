// SPDX-License-Identifier: Apache-2.0
// One disk group: its devices, where their bytes are, and the components on it.
import { useEffect } from "preact/hooks";
import { type Schemas, api, may, told } from "../core/api";
import { type Group, hostOf } from "../core/cluster";
import { clusterStore } from "../core/live";
import { go, to } from "../core/route";
import { refreshWhileSeen } from "../core/samples";
import { useStore } from "../core/store";
import { span } from "../core/units";
import { Bar, Card, Empty, Facts, State, Title, bytes, micros, percent } from "../parts/basics";
import { Dialog, Opens } from "../parts/dialog";
import { PerformanceHistory } from "../parts/history";
import { Shown, useLoaded } from "../parts/loading";
import { GroupBox } from "../parts/rack";
import { Table } from "../parts/table";
import { t, word } from "../texts";

type Device = Schemas["DeviceReport"];

function Devices({ devices }: { devices: readonly Device[] }) {
  const median = (of: Schemas["ClassReport"] | undefined) => (of && of.operations > 0 ? micros(of.median_us) : "\u2013");
  return (
    <Table
      label={t("group.devices")}
      items={devices}
      keyOf={(device) => device.path}
      empty={t("group.no-devices")}
      columns={[
        { name: t("device"), show: (device) => <code>{device.path}</code> },
        { name: t("device.role"), show: (device) => word("device-role", device.role) },
        { name: t("state"), show: (device) => <State of={device.state} kind="device" /> },
        { name: t("size"), right: true, show: (device) => bytes(device.size_bytes) },
        { name: t("used"), right: true, show: (device) => bytes(device.used_bytes) },
        { name: t("device.model"), minor: true, show: (device) => device.model ?? word("medium", device.kind) },
        { name: t("device.reads"), right: true, show: (device) => median(device.latency?.reads) },
        { name: t("device.durable"), right: true, show: (device) => median(device.latency?.durable) },
      ]}
    />
  );
}

const PARTS = ["allocated", "reserved", "promised", "freeing", "metadata", "free"] as const;

function Space({ devices }: { devices: readonly Device[] }) {
  const known = devices.filter((device) => device.space);
  if (known.length === 0) return <Empty>{t("group.no-space")}</Empty>;
  return (
    <>
      {known.map(({ path, size_bytes, space }) => (
        <div key={path} class="space-of">
          <code>{path.split("/").at(-1)}</code>
          <span class="stack" aria-hidden="true">
            {PARTS.map((part) => (
              <span key={part} class={part} style={{ flexGrow: space ? space[`${part}_bytes`] / size_bytes : 0 }} />
            ))}
          </span>
        </div>
      ))}
      <ul class="parts">
        {PARTS.map((part) => (
          <li key={part}>
            <span class={`swatch ${part}`} aria-hidden="true" />
            {word("space", part)}
            <b>{bytes(known.reduce((sum, { space }) => sum + (space ? space[`${part}_bytes`] : 0), 0))}</b>
          </li>
        ))}
      </ul>
    </>
  );
}

function Components({ group }: { group: Group }) {
  const params = { path: { shard: group.host, group: group.id } };
  const found = useLoaded(
    () => told(api.GET("/api/v1/shards/{shard}/groups/{group}", { params })),
    [group.host, group.id, group.state],
  );
  return (
    <Shown of={found}>
      {(detail) => (
        <Table
          label={t("group.components")}
          items={detail.components}
          keyOf={(component) => component.component}
          empty={t("host.no-copies")}
          columns={[
            {
              name: t("volume"),
              by: (it) => it.volume ?? "",
              show: (it) => (it.volume ? <a href={to("volumes", it.volume)}>{it.volume}</a> : t("group.no-volume")),
            },
            { name: t("component"), minor: true, show: (it) => <code>{it.component.slice(0, 12)}</code> },
            { name: t("device"), show: (it) => <code>{it.device?.split("/").at(-1) ?? "\u2013"}</code> },
            { name: t("used"), right: true, by: (it) => it.used_bytes, show: (it) => bytes(it.used_bytes) },
            { name: t("size"), right: true, by: (it) => it.size_bytes, show: (it) => bytes(it.size_bytes) },
          ]}
        />
      )}
    </Shown>
  );
}

function Actions({ group }: { group: Group }) {
  const params = { path: { shard: group.host, group: group.id } };
  const close = async () => {
    await told(api.POST("/api/v1/shards/{shard}/groups/{group}/close", { params, body: {} }));
    return t("group.closed");
  };
  const open = async () => {
    await told(api.POST("/api/v1/shards/{shard}/groups/{group}/open", { params, body: {} }));
    return t("group.opened");
  };
  const remove = async () => {
    await told(api.DELETE("/api/v1/shards/{shard}/groups/{group}", { params }));
    go("hosts", group.host);
    return t("group.removed");
  };
  const short = group.id.slice(0, 8);
  if (!may("POST /api/v1/shards/{shard}/groups/{group}/close")) return null;
  return (
    <>
      {group.is_open ? (
        <Opens
          text={t("group.close")}
          dialog={(done) => (
            <Dialog title={t("group.close-title", { group: short, host: group.host })} act={t("group.close")} danger run={close} close={done}>
              <p>{t("group.close-means")}</p>
            </Dialog>
          )}
        />
      ) : (
        <Opens
          text={t("group.open")}
          dialog={(done) => (
            <Dialog title={t("group.open-title", { group: short, host: group.host })} act={t("group.open")} run={open} close={done} />
          )}
        />
      )}
      <Opens
        text={t("group.remove")}
        class="danger-line"
        dialog={(done) => (
          <Dialog title={t("group.remove-title", { group: short, host: group.host })} act={t("group.remove")} danger name={short} run={remove} close={done}>
            <p>{t("group.remove-means", { host: group.host })}</p>
          </Dialog>
        )}
      />
    </>
  );
}

export function GroupPage({ shard, id }: { shard: string; id: string }) {
  const group = useStore(clusterStore, (cluster) => cluster.groups.get(`${shard}/${id}`));
  const host = useStore(clusterStore, (cluster) => {
    const found = cluster.shards.get(shard);
    return found ? hostOf(found) : shard;
  });
  useEffect(() => refreshWhileSeen("groups"), []);
  const above = (
    <>
      <a href={to("hosts")}>{t("way.hosts")}</a> / <a href={to("hosts", host)}>{host}</a>
    </>
  );
  const title = `${t("group")} ${id.slice(0, 8)}`;
  if (!group) {
    return (
      <>
        <Title text={title} above={above} />
        <Empty>{t("group.gone")}</Empty>
      </>
    );
  }
  return (
    <>
      <Title text={title} above={above} aside={<Actions group={group} />} />
      <Card>
        <GroupBox group={group} />
      </Card>
      <div class="two">
        <Card title={t("group.now")}>
          <Facts
            of={[
              [t("group.buffer"), <Bar key="bar" part={group.buffer_fill} whole={1} label={t("group.buffer")} />],
              [t("group.limited"), group.limited_by ?? "\u2013"],
              [t("group.waiting"), group.writes_waiting ?? 0],
              [
                t("group.oldest"),
                group.oldest_entry_seconds == null ? t("group.empty") : span(group.oldest_entry_seconds),
              ],
              [t("group.recovery"), `${Math.round(group.recovery_ms)} ms`],
              [
                t("group.verified"),
                group.oldest_unverified_seconds == null ? t("group.not-all") : span(group.oldest_unverified_seconds),
              ],
              ...(group.read_cache
                ? ([
                    [t("group.read-cache"), `${bytes(group.read_cache.used_bytes)} ${t("overview.of", { size: bytes(group.read_cache.size_bytes) })}`],
                    [t("group.hits"), percent(group.read_cache.hits, group.read_cache.hits + group.read_cache.misses)],
                  ] as [string, string][])
                : []),
            ]}
          />
        </Card>
        <Card title={t("group.space")}>
          <Space devices={group.devices ?? []} />
        </Card>
      </div>
      <PerformanceHistory kind="group" name={id} />
      <Card title={t("group.devices")}>
        <Devices devices={group.devices ?? []} />
      </Card>
      <Card title={t("group.components")}>
        <Components group={group} />
      </Card>
    </>
  );
}
