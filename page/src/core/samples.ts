// SPDX-License-Identifier: Apache-2.0
// What is done now: counters of all shards, asked for while somebody looks at them. Counters are no
// events: only two looks at them make a rate.
import { api, told, type Schemas } from "./api";
import { clusterStore, readLists, touchStore } from "./live";
import { createStore } from "./store";

/** What was done in a second, on average between two looks. */
export type Sample = {
  at: number;
  reads: number;
  writes: number;
  readBytes: number;
  writeBytes: number;
  /** Of all that were answered in between; none where nothing was. */
  readUs: number | null;
  writeUs: number | null;
};

export type Counters = { at: number; of: ReadonlyMap<string, Schemas["OperationReport"][]> };

export const samplesStore = createStore<readonly Sample[]>([]);

export const SAMPLE_MS = 3000;
const SAMPLES_MAX = 200;

const total = (report: Schemas["OperationReport"]) => report.latencies.reduce((sum, count) => sum + count, 0);

/** What was done between two looks at the counters; a shard that began anew counts from then on. */
export function sampled(was: Counters, is: Counters): Sample | null {
  const seconds = (is.at - was.at) / 1000;
  if (seconds <= 0) return null;
  const sum = { read: { count: 0, bytes: 0, us: 0 }, write: { count: 0, bytes: 0, us: 0 } };
  for (const [shard, reports] of is.of) {
    const before = was.of.get(shard);
    if (!before) continue;
    for (const report of reports) {
      const kind = report.operation;
      if (kind !== "read" && kind !== "write") continue;
      const old = before.find((one) => one.operation === kind);
      const count = total(report) - (old ? total(old) : 0);
      if (count < 0) continue;
      sum[kind].count += count;
      sum[kind].bytes += report.bytes - (old?.bytes ?? 0);
      sum[kind].us += report.took_us - (old?.took_us ?? 0);
    }
  }
  const mean = (kind: "read" | "write") => (sum[kind].count > 0 ? sum[kind].us / sum[kind].count : null);
  return {
    at: is.at,
    reads: sum.read.count / seconds,
    writes: sum.write.count / seconds,
    readBytes: sum.read.bytes / seconds,
    writeBytes: sum.write.bytes / seconds,
    readUs: mean("read"),
    writeUs: mean("write"),
  };
}

async function look(): Promise<Counters> {
  const up = [...clusterStore.get().shards.values()].filter((shard) => shard.state === "up");
  const asked = up.map(async ({ name }) => {
    const path = { params: { path: { shard: name } } };
    const report = await told(api.GET("/api/v1/shards/{shard}/metrics", path)).catch(() => null);
    return [name, report?.all_traffic] as const;
  });
  const of = new Map<string, Schemas["OperationReport"][]>();
  for (const [name, traffic] of await Promise.all(asked)) if (traffic) of.set(name, traffic);
  return { at: Date.now(), of };
}

let watchers = 0;
let last: Counters | null = null;

async function turn(): Promise<void> {
  if (document.hidden || touchStore.get().state !== "live") return;
  const is = await look();
  const sample = last && is.at - last.at < 5 * SAMPLE_MS ? sampled(last, is) : null;
  last = is;
  if (sample) samplesStore.update((all) => [...all, sample].slice(-SAMPLES_MAX));
}

/** Looks at the counters for as long as somebody wants them. */
export function watchCounters(): () => void {
  watchers += 1;
  if (watchers === 1) void run();
  return () => {
    watchers -= 1;
  };
}

async function run(): Promise<void> {
  while (watchers > 0) {
    await turn().catch(() => undefined);
    await new Promise((done) => setTimeout(done, SAMPLE_MS));
  }
}

/** Reads lists again whose numbers are shown, as long as somebody looks. */
export function refreshWhileSeen(...names: Parameters<typeof readLists>): () => void {
  const timer = setInterval(() => {
    if (!document.hidden && touchStore.get().state === "live") void readLists(...names).catch(() => undefined);
  }, SAMPLE_MS);
  return () => clearInterval(timer);
}
