// SPDX-License-Identifier: Apache-2.0
// A line or two over the last minutes. What it shows stands in words beside it as well.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { language } from "../texts";

export type Line = { name: string; color: "one" | "two" | "three"; values: (number | null)[] };
type Props = { label: string; times: number[]; lines: Line[]; format: (value: number) => string; least: number; steps?: number[]; span?: number };

const HEIGHT = 150;
/** Seconds that are shown where less is known. */
const SHOWN = 180;

const color = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [1, 2, 5, 10, 20, 30].map((one) => one * MINUTE).concat([1, 3, 6, 12].map((one) => one * HOUR), [1, 2, 7, 14, 30].map((one) => one * DAY));

function options({ lines, format, least, steps, span = SHOWN }: Props, width: number): uPlot.Options {
  const axis = { stroke: color("soft"), grid: { stroke: color("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
  const time = new Intl.DateTimeFormat(
    language(),
    span > 2 * DAY ? { day: "numeric", month: "numeric" } : { hour: "2-digit", minute: "2-digit", hourCycle: "h23" },
  );
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    padding: [8, 14, 0, 0],
    scales: {
      x: { time: true, range: (_, from, until) => [Math.min(from, until - span), until] },
      y: { range: (_, __, most) => [0, Math.max((most ?? 0) * 1.15, least)] },
    },
    axes: [
      { ...axis, space: 50, size: 26, incrs: STEPS, values: (_, splits) => splits.map((at) => time.format(at * 1000)) },
      { ...axis, size: 74, space: 36, ...(steps ? { incrs: steps } : {}), values: (_, splits) => splits.map(format) },
    ],
    series: [
      {},
      ...lines.map((line) => ({
        label: line.name,
        stroke: color(`chart-${line.color}`),
        fill: `${color(`chart-${line.color}`)}1c`,
        width: 1.5,
        points: { show: false },
      })),
    ],
  };
}

export function Chart(props: Props) {
  const own = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const data = (): uPlot.AlignedData => [latest.current.times, ...latest.current.lines.map((line) => line.values)];
  useEffect(() => {
    const box = own.current;
    if (!box) return undefined;
    const draw = () => {
      plot.current?.destroy();
      plot.current = new uPlot(options(latest.current, box.clientWidth), data(), box);
    };
    draw();
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", draw);
    const sized = new ResizeObserver(() => plot.current?.setSize({ width: box.clientWidth, height: HEIGHT }));
    sized.observe(box);
    return () => {
      dark.removeEventListener("change", draw);
      sized.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [props.span]);
  useEffect(() => plot.current?.setData(data()), [props.times]);
  return <div ref={own} class="chart" role="img" aria-label={props.label} />;
}
