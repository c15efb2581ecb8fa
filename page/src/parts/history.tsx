// SPDX-License-Identifier: Apache-2.0
// What something did over time: curves, and the same as a table.
import { useEffect, useState } from "preact/hooks";
import { type History as Report, type Kind, readHistory } from "../core/history";
import { type Point, RANGES, type Range, thinned, values } from "../core/points";
import { micros as microsOf, number as numberOf } from "../core/units";
import { type TextKey, language, t } from "../texts";
import { Card, Empty, bytes } from "./basics";
import { Chart, type Line } from "./chart";
import { Shown, useLoaded } from "./loading";
import { type Column, Table } from "./table";

type Of = (point: Point) => number | null | undefined;
type Curve = { name: TextKey; color: Line["color"]; of: Of };
type Figure = { title: TextKey; curves: Curve[]; format: (value: number) => string; least: number; steps?: number[] };

const BINARY = Array.from({ length: 40 }, (_, at) => 2 ** (at + 10));
const rate = (value: number) => `${bytes(Math.round(value))}/s`;
const count = (value: number) => numberOf(value, language(), value < 10 ? 1 : 0);
const micros = (value: number) => microsOf(value, language());
const part = (value: number) => `${numberOf(value * 100, language())} %`;

const percentiles = (title: TextKey, of: (point: Point) => Point["reads"]): Figure => ({
  title,
  curves: [
    { name: "history.p50", color: "one", of: (it) => of(it)?.p50_us },
    { name: "history.p99", color: "two", of: (it) => of(it)?.p99_us },
    { name: "history.p999", color: "three", of: (it) => of(it)?.p999_us },
  ],
  format: micros,
  least: 1000,
});

const REQUESTS: Figure[] = [
  {
    title: "overview.requests",
    curves: [
      { name: "reads", color: "one", of: (it) => it.reads?.per_second },
      { name: "writes", color: "two", of: (it) => it.writes?.per_second },
    ],
    format: count,
    least: 10,
  },
  {
    title: "overview.throughput",
    curves: [
      { name: "reads", color: "one", of: (it) => it.reads?.bytes_per_second },
      { name: "writes", color: "two", of: (it) => it.writes?.bytes_per_second },
    ],
    format: rate,
    least: 1024 ** 2,
    steps: BINARY,
  },
  percentiles("history.read-latency", (it) => it.reads),
  percentiles("history.write-latency", (it) => it.writes),
];

const GROUP: Figure[] = [
  {
    title: "overview.throughput",
    curves: [
      { name: "history.appended", color: "one", of: (it) => it.appended_bytes_per_second },
      { name: "history.destaged", color: "two", of: (it) => it.destaged_bytes_per_second },
    ],
    format: rate,
    least: 1024 ** 2,
    steps: BINARY,
  },
  { title: "group.buffer", curves: [{ name: "group.buffer", color: "one", of: (it) => it.buffer_fill }], format: part, least: 1 },
  { title: "group.waiting", curves: [{ name: "group.waiting", color: "one", of: (it) => it.writes_waiting }], format: count, least: 10 },
];

const CPUS: Figure = {
  title: "history.cpus",
  curves: [{ name: "history.cpus", color: "one", of: (it) => it.cpus }],
  format: (value) => numberOf(value, language(), 2),
  least: 1,
};

const figuresOf = (kind: Kind) => (kind === "group" ? GROUP : kind === "volume" ? REQUESTS : [...REQUESTS, CPUS]);
const said = (value: number | null | undefined, format: (value: number) => string) => (value == null ? "\u2013" : format(value));

function Curves({ report, figure }: { report: Report; figure: Figure }) {
  const lines = figure.curves.map((curve) => ({ name: t(curve.name), color: curve.color, values: values(report.points, curve.of) }));
  const all = figure.curves.map((curve) => `${t(curve.name)} ${said(curve.of(report.all), figure.format)}`);
  return (
    <figure>
      <figcaption>
        <span>{t(figure.title)}</span>
        <span class="now">
          {figure.curves.map((curve) => (
            <b key={curve.name} class={`line-${curve.color}`}>
              {figure.curves.length > 1 ? `${t(curve.name)} ` : ""}
              {said(curve.of(report.all), figure.format)}
            </b>
          ))}
        </span>
      </figcaption>
      <Chart
        label={`${t(figure.title)}: ${all.join(", ")}`}
        times={report.points.map((point) => point.at)}
        lines={lines}
        format={figure.format}
        least={figure.least}
        span={report.to - report.from}
        {...(figure.steps ? { steps: figure.steps } : {})}
      />
    </figure>
  );
}

/** Rows that somebody reads, or has read out. */
const ROWS = 24;

function AsTable({ report, figures }: { report: Report; figures: Figure[] }) {
  const time = new Intl.DateTimeFormat(language(), { dateStyle: "short", timeStyle: "short", hourCycle: "h23" });
  const columns: Column<Point>[] = figures.flatMap((figure) =>
    figure.curves.map((curve) => ({
      name: curve.name === figure.title ? t(curve.name) : `${t(figure.title)}: ${t(curve.name)}`,
      right: true,
      by: (point: Point) => curve.of(point) ?? -1,
      show: (point: Point) => said(curve.of(point), figure.format),
    })),
  );
  return (
    <Table
      label={t("history.title")}
      items={thinned(report.points, ROWS).reverse()}
      keyOf={(point) => String(point.at)}
      empty={t("history.nothing")}
      columns={[{ name: t("history.from"), by: (point) => point.at, show: (point) => time.format(point.at * 1000) }, ...columns]}
    />
  );
}

/** A card with all of it. */
export function PerformanceHistory({ kind, name }: { kind: Kind; name: string }) {
  const [range, setRange] = useState<Range>("hour");
  const [isTable, setTable] = useState(false);
  const found = useLoaded(() => readHistory(kind, name, range), [kind, name, range]);
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && found.again(), RANGES[range].again * 1000);
    return () => clearInterval(timer);
  }, [range, found.again]);
  const figures = figuresOf(kind);
  const choices = (
    <span class="ranges" role="group" aria-label={t("history.range")}>
      {(Object.keys(RANGES) as Range[]).map((one) => (
        <button key={one} type="button" class={one === range ? "on" : ""} aria-pressed={one === range} onClick={() => setRange(one)}>
          {t(`history.${one}`)}
        </button>
      ))}
      <button type="button" class={isTable ? "on" : ""} aria-pressed={isTable} onClick={() => setTable(!isTable)}>
        {t("history.table")}
      </button>
    </span>
  );
  return (
    <Card title={t("history.title")} aside={choices}>
      <Shown of={found}>
        {(report) =>
          !report.points.some((point) => point.covered_ms > 0) ? (
            <Empty>{t("history.nothing")}</Empty>
          ) : isTable ? (
            <AsTable report={report} figures={figures} />
          ) : (
            <div class="charts">
              {figures.map((figure) => (
                <Curves key={figure.title} report={report} figure={figure} />
              ))}
            </div>
          )
        }
      </Shown>
    </Card>
  );
}
