// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { differences, noted } from "../src/core/changes";
import { EMPTY, type Group, type Resync, type Volume, hosts, keyed, merged, needsReading } from "../src/core/cluster";
import { EventParser } from "../src/core/event-stream";

const volume = (name: string, more: Partial<Volume> = {}) =>
  ({ name, size_bytes: 4096, ftt: 1, health: "green", term: 1, clients: 0, nbd: [], components: [], ...more }) as Volume;

const STREAM = 'id: 1-4\nevent: ready\ndata: {}\n\n: keep\n\nid: 1-5\r\nevent: change\r\ndata: {"a":\r\ndata: 1}\r\n\r\n';

test("a stream is the same events wherever it is cut", () => {
  const expected = new EventParser().feed(STREAM);
  expect(expected).toEqual([
    { id: "1-4", event: "ready", data: "{}" },
    { id: "1-5", event: "change", data: '{"a":\n1}' },
  ]);
  for (let cut = 1; cut < STREAM.length; cut++) {
    const parser = new EventParser();
    expect([...parser.feed(STREAM.slice(0, cut)), ...parser.feed(STREAM.slice(cut))]).toEqual(expected);
  }
});

test("an event that did not come to its end is none", () => {
  expect(new EventParser().feed("event: change\ndata: {}\n")).toEqual([]);
});

test("changes are merged by key, and what is gone is gone", () => {
  let cluster = merged(EMPTY, { list: "/volumes", key: "db", item: volume("db") });
  cluster = merged(cluster, { list: "/volumes", key: "db", item: volume("db", { health: "red" }) });
  expect([...cluster.volumes.values()].map((it) => it.health)).toEqual(["red"]);
  expect(EMPTY.volumes.size).toBe(0);
  cluster = merged(cluster, { list: "/status", key: "health", item: "red" });
  expect(cluster.health).toBe("red");
  cluster = merged(cluster, { list: "/volumes", key: "db", item: null });
  expect(cluster.volumes.size).toBe(0);
  expect(merged(cluster, { list: "/new-in-a-later-release", key: "x", item: {} })).toBe(cluster);
});

test("an event that came before the lists were read changes nothing when it is merged again", () => {
  const read = { ...EMPTY, volumes: keyed("volumes", [volume("db")]) };
  const change = { list: "/volumes", key: "db", item: volume("db") };
  expect(merged(read, change).volumes).toEqual(read.volumes);
  expect(noted(read, change, 1, 0)).toBeNull();
});

test("the place of a disk group in its list is no part of what it is", () => {
  const group = { host: "host1", id: "ab", is_open: true, state: "ok" } as Group;
  const cluster = merged(EMPTY, { list: "/groups", key: "host1/ab/0003", item: group });
  expect([...cluster.groups.keys()]).toEqual(["host1/ab"]);
  const gone = { list: "/groups", key: "host1/ab/0003", item: null };
  expect(needsReading(gone)).toBe(true);
  expect(merged(cluster, gone)).toBe(cluster);
});

test("lists have the keys of events", () => {
  const resync = { volume: "db", object: 12, host: "host2" } as Resync;
  expect([...keyed("resyncs", [resync]).keys()]).toEqual(["db/00000012/host2"]);
});

test("what only counts is no difference, and what lasts is named", () => {
  const copy = (state: string, left: number) => ({ host: "host2", object: 0, state, resync_bytes_left: left });
  const was = volume("db", { term: 1, components: [copy("active", 0)] as Volume["components"] });
  const is = volume("db", { term: 2, size_bytes: 8192, components: [copy("absent", 9)] as Volume["components"] });
  expect(differences(was, is)).toEqual([
    { field: "size_bytes", was: "4096", is: "8192" },
    { field: "components 1 host2.state", was: "active", is: "absent" },
  ]);
  const cluster = { ...EMPTY, volumes: keyed("volumes", [was]) };
  expect(noted(cluster, { list: "/volumes", key: "db", item: is }, 1, 0)?.kind).toBe("changed");
  expect(noted(cluster, { list: "/volumes", key: "db", item: null }, 1, 0)?.kind).toBe("gone");
  expect(noted(cluster, { list: "/volumes", key: "x", item: volume("x") }, 1, 0)?.kind).toBe("new");
  expect(noted(cluster, { list: "/volumes", key: "y", item: null }, 1, 0)).toBeNull();
});

test("a time that runs out in a text is no difference", () => {
  const why = (seconds: number) => volume("db", { compliance: { state: "not-compliant", why: [`made again in ${seconds} s`] } });
  expect(differences(why(3599), why(3598))).toEqual([]);
  expect(differences(why(1), volume("db"))).toHaveLength(1);
});

test("shards are told by their host", () => {
  const shard = (name: string, host: string | null) => ({ name, host, state: "up", peer: "" }) as const;
  const shards = keyed("shards", [shard("host10", null), shard("host2.1", "host2"), shard("host2.2", "host2")]);
  const found = hosts({ ...EMPTY, shards }).map((host) => [host.name, host.shards.length]);
  expect(found).toEqual([
    ["host2", 2],
    ["host10", 1],
  ]);
});
