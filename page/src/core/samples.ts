// SPDX-License-Identifier: Apache-2.0
// What is done now: counters of all shards, asked for while somebody looks at them. Counters are no
// events: only two looks at them make a rate.
import { type Schemas, api, told } from "./api";
import { clusterStore, readLists, touchStore } from "./live";
import { type Counters, type Sample, sampled } from "./rates";
import { createStore } from "./store";

export const samplesStore = createStore<readonly Sample[]>([]);

const SAMPLE_MS = 3000;
const FIRST_MS = 1000;
const SAMPLES_MAX = 200;

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
    // Two looks make the first rate, and two rates a line: that much soon.
    const wait = samplesStore.get().length < 2 ? FIRST_MS : SAMPLE_MS;
    await new Promise((done) => setTimeout(done, wait));
  }
}

/** Reads lists again whose numbers are shown, as long as somebody looks. */
export function refreshWhileSeen(...names: Parameters<typeof readLists>): () => void {
  const timer = setInterval(() => {
    if (!document.hidden && touchStore.get().state === "live") void readLists(...names).catch(() => undefined);
  }, SAMPLE_MS);
  return () => clearInterval(timer);
}
