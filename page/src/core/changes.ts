// SPDX-License-Identifier: Apache-2.0
// What an event changed, for people: the fields that are not as they were.
import { LISTS, type Change, type Cluster, listOf } from "./cluster";

export type Difference = { field: string; was: string; is: string };
export type Noted = {
  number: number;
  at: number;
  list: string;
  key: string;
  /** What people call it. */
  name: string;
  kind: "new" | "gone" | "changed";
  differences: Difference[];
};

/** Numbers that are a size or a choice; others only count. */
const CHOSEN = new Set(["size_bytes", "ftt", "reserve_percent", "cache_percent", "stripe_width", "clients"]);
const SHOWN_MAX = 6;

function text(value: unknown): string {
  if (value === null || value === undefined) return "\u2013";
  if (!Array.isArray(value)) return typeof value === "object" ? JSON.stringify(value) : String(value);
  if (value.length === 0) return "\u2013";
  return value.every((one) => typeof one === "string") ? value.join("; ") : String(value.length);
}

/** A value so that a time that runs out in a text makes no difference. */
const lasting = (value: unknown) => JSON.stringify(value)?.replace(/\d+(\.\d+)? ?(s|min|h|ms|%)\b/g, "#");

function called(value: unknown, at: number): string {
  const item = value as { host?: string; path?: string; name?: string; object?: number };
  const name = item?.path ?? item?.name ?? item?.host;
  if (name === undefined) return String(at + 1);
  return item.object === undefined ? name : `${item.object + 1} ${name}`;
}

function compare(was: unknown, is: unknown, field: string, found: Difference[]): void {
  const isCount = (value: unknown) => value == null || typeof value === "number";
  if (isCount(was) && isCount(is) && !CHOSEN.has(field.split(".").at(-1) ?? "")) return;
  if (lasting(was) === lasting(is)) return;
  const isObject = (value: unknown) => typeof value === "object" && value !== null && !Array.isArray(value);
  if (isObject(was) && isObject(is)) {
    const [one, other] = [was as Record<string, unknown>, is as Record<string, unknown>];
    for (const name of new Set([...Object.keys(one), ...Object.keys(other)])) {
      compare(one[name], other[name], field ? `${field}.${name}` : name, found);
    }
    return;
  }
  if (Array.isArray(was) && Array.isArray(is) && was.length === is.length && was.some(isObject)) {
    was.forEach((value, at) => compare(value, is[at], `${field} ${called(is[at], at)}`.trim(), found));
    return;
  }
  found.push({ field, was: text(was), is: text(is) });
}

/** What is different between two states of an item, as far as it lasts. */
export function differences(was: unknown, is: unknown): Difference[] {
  const found: Difference[] = [];
  compare(was, is, "", found);
  return found.slice(0, SHOWN_MAX);
}

function before(cluster: Cluster, change: Change): unknown {
  if (change.list === "/status") return cluster[change.key as "answers" | "health" | "alarms"];
  const name = listOf(change);
  if (!name) return undefined;
  const items = cluster[name] as ReadonlyMap<string, unknown>;
  const key = change.item === null ? change.key : (LISTS[name].key as (it: unknown) => string)(change.item);
  return items.get(key);
}

/** A change as it is listed; none where nothing that lasts is different. */
export function noted(cluster: Cluster, change: Change, number: number, at: number): Noted | null {
  const was = before(cluster, change);
  const { list, key } = change;
  const item = (change.item ?? was) as { name?: string } | null | undefined;
  const one = { number, at, list, key, name: item?.name ?? key };
  if (change.item === null) return was === undefined ? null : { ...one, kind: "gone", differences: [] };
  if (was === undefined) return { ...one, kind: "new", differences: [] };
  const found = differences(was, change.item);
  return found.length === 0 ? null : { ...one, kind: "changed", differences: found };
}
