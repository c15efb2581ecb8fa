// SPDX-License-Identifier: Apache-2.0
// What is known of the cluster: the lists of the API, and the changes that they get by events.
import type { Schemas } from "./api";

export type Volume = Schemas["VolumeReport"];
export type Copy = Schemas["ComponentReport"];
export type Trashed = Schemas["TrashedReport"];
export type Shard = Schemas["HostReport"];
export type Group = Schemas["GroupReport"];
export type Resync = Schemas["ResyncReport"];
export type Health = Schemas["Health"];

export type Items<T> = ReadonlyMap<string, T>;

export type Cluster = {
  answers: boolean;
  health: Health;
  alarms: readonly string[];
  volumes: Items<Volume>;
  deleted: Items<Trashed>;
  shards: Items<Shard>;
  groups: Items<Group>;
  resyncs: Items<Resync>;
};

export type ListName = "volumes" | "deleted" | "shards" | "groups" | "resyncs";

/** An event `change`, as the API tells it. */
export type Change = { list: string; key: string; item: unknown };

/** The path of each list, and what its items are found by again. */
export const LISTS = {
  volumes: { path: "/volumes", key: (it: Volume) => it.name },
  deleted: { path: "/deleted-volumes", key: (it: Trashed) => it.id },
  shards: { path: "/shards", key: (it: Shard) => it.name },
  // One that did not open has no id: its cache device tells it from others.
  groups: { path: "/groups", key: (it: Group) => `${it.host}/${it.id || (it.devices?.[0]?.path ?? "")}` },
  resyncs: {
    path: "/resyncs",
    key: (it: Resync) => `${it.volume}/${String(it.object).padStart(8, "0")}/${it.host}`,
  },
} as const;

const NAMES = Object.keys(LISTS) as ListName[];

export const EMPTY: Cluster = {
  answers: true,
  health: "green",
  alarms: [],
  volumes: new Map(),
  deleted: new Map(),
  shards: new Map(),
  groups: new Map(),
  resyncs: new Map(),
};

/** The list that a change is about. */
export function listOf(change: Change): ListName | null {
  return NAMES.find((name) => LISTS[name].path === change.list) ?? null;
}

/**
 * Whether a change cannot be told apart from others by its key: the place of a disk group in its
 * list is a part of it. Such a list is read anew.
 */
export function needsReading(change: Change): boolean {
  return change.list === LISTS.groups.path && change.item === null;
}

function keyOf(name: ListName, item: unknown): string {
  return (LISTS[name].key as (item: unknown) => string)(item);
}

/** A list as a map, by the keys of events. */
export function keyed<T>(name: ListName, items: readonly T[]): Items<T> {
  return new Map(items.map((item) => [keyOf(name, item), item]));
}

/** The cluster after a change. */
export function merged(cluster: Cluster, change: Change): Cluster {
  if (change.list === "/status") {
    if (change.key === "answers") return { ...cluster, answers: change.item === true };
    if (change.key === "health") return { ...cluster, health: change.item as Health };
    if (change.key === "alarms") return { ...cluster, alarms: (change.item ?? []) as string[] };
    return cluster;
  }
  const name = listOf(change);
  if (!name || needsReading(change)) return cluster;
  const items = new Map<string, unknown>(cluster[name]);
  if (change.item === null) items.delete(change.key);
  else items.set(keyOf(name, change.item), change.item);
  return { ...cluster, [name]: items };
}

/** Items in the order of their keys. */
export function sorted<T>(items: Items<T>): T[] {
  return [...items.entries()].sort(([one], [other]) => compare(one, other)).map(([, item]) => item);
}

/** Names as people count: vm2 comes before vm10. */
export function compare(one: string, other: string): number {
  return one.localeCompare(other, "en", { numeric: true });
}

/** The host that a shard is of. */
export const hostOf = (shard: Shard) => shard.host ?? shard.name;

/** All hosts, each with its shards. */
export function hosts(cluster: Cluster): { name: string; shards: Shard[] }[] {
  const found = new Map<string, Shard[]>();
  for (const shard of sorted(cluster.shards)) {
    const name = hostOf(shard);
    found.set(name, [...(found.get(name) ?? []), shard]);
  }
  return [...found].map(([name, shards]) => ({ name, shards }));
}
