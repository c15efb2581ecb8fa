// SPDX-License-Identifier: Apache-2.0
// Rates of counters.
import type { Schemas } from "./api";

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
