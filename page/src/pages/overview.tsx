// SPDX-License-Identifier: Apache-2.0
import { useEffect } from "preact/hooks";
import { type Cluster, type Health, hosts, sorted } from "../core/cluster";
import { clusterStore, notedStore } from "../core/live";
import { to } from "../core/route";
import { refreshWhileSeen, samplesStore, watchCounters } from "../core/samples";
import { useStore } from "../core/store";
import { Bar, Card, Chip, Empty, State, Title, bytes, micros, number, percent } from "../parts/basics";
import { Chart } from "../parts/chart";
import { EventList } from "../parts/event-list";
import { t, word } from "../texts";
import { VolumeTable } from "./volumes";

const WORST_SHOWN = 5;
/** Steps of an axis of bytes. */
const BINARY = Array.from({ length: 40 }, (_, at) => 2 ** (at + 10));

function Summary({ cluster }: { cluster: Cluster }) {
  const groups = [...cluster.groups.values()];
  const sum = (of: (group: (typeof groups)[number]) => number) => groups.reduce((all, group) => all + of(group), 0);
  const [used, whole] = [sum((group) => group.used_bytes), sum((group) => group.capacity_bytes)];
  const up = [...cluster.shards.values()].filter((shard) => shard.state === "up").length;
  const volumes = [...cluster.volumes.values()];
  const given = volumes.reduce((all, volume) => all + volume.size_bytes, 0);
  const reds = (health: Health) => volumes.filter((volume) => volume.health === health).length;
  return (
    <div class="tiles">
      <a class="tile" href={to("health")}>
        <h2>{t("overview.health")}</h2>
        <p class="big">
          <State of={cluster.health} kind="health" />
        </p>
        <p>{cluster.alarms.length > 0 ? t("overview.alarms", { count: cluster.alarms.length }) : word("health-means", cluster.health)}</p>
      </a>
      <a class="tile" href={to("hosts")}>
        <h2>{t("way.hosts")}</h2>
        <p class="big">
          {hosts(cluster).length}
          {up < cluster.shards.size && <Chip tone="bad">{t("overview.not-up", { count: cluster.shards.size - up })}</Chip>}
        </p>
        <p>{t("overview.groups", { count: groups.length })}</p>
      </a>
      <a class="tile" href={to("volumes")}>
        <h2>{t("way.volumes")}</h2>
        <p class="big">
          {volumes.length}
          {reds("red") > 0 && <Chip tone="bad">{t("overview.red", { count: reds("red") })}</Chip>}
          {reds("yellow") > 0 && <Chip tone="warn">{t("overview.yellow", { count: reds("yellow") })}</Chip>}
        </p>
        <p>{t("overview.given", { size: bytes(given) })}</p>
      </a>
      <a class="tile" href={to("hosts")}>
        <h2>{t("overview.capacity")}</h2>
        <p class="big">
          {bytes(used)} <small>{t("overview.of", { size: bytes(whole) })}</small>
        </p>
        <Bar part={used} whole={whole} label={t("overview.capacity")} />
      </a>
    </div>
  );
}

function Performance() {
  const samples = useStore(samplesStore, (value) => value);
  useEffect(watchCounters, []);
  const now = samples.at(-1);
  const times = samples.map((sample) => sample.at / 1000);
  if (!now || samples.length < 2) return <Card title={t("overview.performance")}><Empty>{t("overview.first-sample")}</Empty></Card>;
  const rate = (value: number) => `${bytes(Math.round(value))}/s`;
  const reads = t("reads");
  const writes = t("writes");
  const charts = [
    { name: t("overview.requests"), one: samples.map((it) => it.reads), two: samples.map((it) => it.writes), format: (value: number) => number(value, value < 10 ? 1 : 0), least: 10, steps: undefined },
    { name: t("overview.throughput"), one: samples.map((it) => it.readBytes), two: samples.map((it) => it.writeBytes), format: rate, least: 1024 ** 2, steps: BINARY },
    { name: t("overview.latency"), one: samples.map((it) => it.readUs), two: samples.map((it) => it.writeUs), format: micros, least: 1000, steps: undefined },
  ];
  const said = (value: number | null | undefined, format: (value: number) => string) => (value == null ? "\u2013" : format(value));
  return (
    <Card title={t("overview.performance")} aside={<Legend />}>
      <div class="charts">
        {charts.map(({ name, one, two, format, least, steps }) => {
          const [read, written] = [said(one.at(-1), format), said(two.at(-1), format)];
          return (
            <figure key={name}>
              <figcaption>
                <span>{name}</span>
                <span class="now">
                  <b class="line-one">{read}</b> <b class="line-two">{written}</b>
                </span>
              </figcaption>
              <Chart
                label={`${name}: ${reads} ${read}, ${writes} ${written}`}
                times={times}
                lines={[
                  { name: reads, color: "one", values: one },
                  { name: writes, color: "two", values: two },
                ]}
                format={format}
                least={least}
                {...(steps ? { steps } : {})}
              />
            </figure>
          );
        })}
      </div>
    </Card>
  );
}

function Legend() {
  return (
    <span class="legend">
      <span class="line-one">{t("reads")}</span>
      <span class="line-two">{t("writes")}</span>
    </span>
  );
}

function HostBars({ cluster }: { cluster: Cluster }) {
  const groups = sorted(cluster.groups);
  return (
    <Card title={t("overview.by-host")}>
      <ul class="host-bars">
        {hosts(cluster).map(({ name, shards }) => {
          const own = groups.filter((group) => shards.some((shard) => shard.name === group.host));
          const used = own.reduce((all, group) => all + group.used_bytes, 0);
          const whole = own.reduce((all, group) => all + group.capacity_bytes, 0);
          const worst = shards.find((shard) => shard.state !== "up")?.state ?? "up";
          return (
            <li key={name}>
              <a href={to("hosts", name)}>{name}</a>
              <State of={worst} kind="host" />
              <Bar part={used} whole={whole} label={name} />
              <span class="soft">
                {whole > 0 ? `${percent(used, whole)} ${t("overview.of", { size: bytes(whole) })}` : "\u2013"}
              </span>
            </li>
          );
        })}
      </ul>
    </Card>
  );
}

export function Overview() {
  const cluster = useStore(clusterStore, (value) => value);
  const noted = useStore(notedStore, (value) => value);
  useEffect(() => refreshWhileSeen("groups"), []);
  const worst = sorted(cluster.volumes).filter((volume) => volume.health !== "green");
  return (
    <>
      <Title text={t("way.overview")} />
      <Summary cluster={cluster} />
      {cluster.alarms.length > 0 && (
        <Card title={t("overview.attention")}>
          <ul class="lines">
            {cluster.alarms.map((alarm) => (
              <li key={alarm}>{alarm}</li>
            ))}
          </ul>
        </Card>
      )}
      <Performance />
      {worst.length > 0 && (
        <Card title={t("overview.worst")} aside={<a href={to("volumes")}>{t("all")}</a>}>
          <VolumeTable volumes={worst.slice(0, WORST_SHOWN)} />
        </Card>
      )}
      <div class="two">
        <HostBars cluster={cluster} />
        <Card title={t("way.events")} aside={<a href={to("events")}>{t("all")}</a>}>
          <EventList events={noted.slice(0, 8)} />
        </Card>
      </div>
    </>
  );
}
