// SPDX-License-Identifier: Apache-2.0
// Points over a time: what can be chosen, and how they become curves and tables.
import type { Schemas } from "./api";

export type Point = Schemas["PerformancePoint"];

/** What can be chosen: seconds back, and seconds between two looks. */
export const RANGES = {
  hour: { seconds: 3600, again: 10 },
  day: { seconds: 86_400, again: 60 },
  week: { seconds: 7 * 86_400, again: 300 },
  quarter: { seconds: 90 * 86_400, again: 300 },
} as const;
export type Range = keyof typeof RANGES;

/** Values of points; none where nobody looked. A curve has a gap there. */
export function values(points: readonly Point[], of: (point: Point) => number | null | undefined): (number | null)[] {
  return points.map((point) => (point.covered_ms > 0 ? (of(point) ?? null) : null));
}

/** So many points that a person can read them as a table: some of them put together. */
export function thinned(points: readonly Point[], most: number): Point[] {
  const seen = points.filter((point) => point.covered_ms > 0);
  const step = Math.max(1, Math.ceil(seen.length / most));
  return seen.filter((_, at) => (seen.length - 1 - at) % step === 0);
}
