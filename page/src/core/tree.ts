// SPDX-License-Identifier: Apache-2.0
// The objects of a volume, in rows where it is striped.
import type { Copy, Volume } from "./cluster";

export type TreeObject = { object: number; copies: Copy[] };
export type Row = { first: number; objects: TreeObject[] };

/** What becomes of a copy: the record may call one active whose host is not there. */
export function stateOf(copy: Copy): string {
  return copy.state === "active" && copy.why ? "away" : copy.state;
}

/** What a volume is made of. A volume that was striped later has parts that are not in rows. */
export function layout(volume: Volume): { rows: Row[]; isStriped: boolean } {
  const objects = new Map<number, Copy[]>();
  for (const copy of volume.components) {
    const object = copy.object ?? 0;
    objects.set(object, [...(objects.get(object) ?? []), copy]);
  }
  const all = [...objects].sort(([one], [other]) => one - other).map(([object, copies]) => ({ object, copies }));
  const width = volume.stripe_width ?? 1;
  const isStriped = width > 1 && (volume.otherwise_striped_bytes ?? 0) === 0;
  if (!isStriped) return { rows: [{ first: 0, objects: all }], isStriped };
  const rows = new Map<number, TreeObject[]>();
  for (const one of all) {
    const row = Math.floor(one.object / width);
    rows.set(row, [...(rows.get(row) ?? []), one]);
  }
  return { rows: [...rows].map(([row, inRow]) => ({ first: row * width, objects: inRow })), isStriped };
}
