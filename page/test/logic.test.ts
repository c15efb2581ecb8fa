// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { Schemas } from "../src/core/api";
import { door, kernel, libvirt, qemu } from "../src/core/attach";
import type { Volume } from "../src/core/cluster";
import { type Point, thinned, values } from "../src/core/points";
import { sampled } from "../src/core/rates";
import { NEW_RULES, formOf, rulesOf } from "../src/core/rules";
import { layout } from "../src/core/tree";

test("an address is taken apart, and comes into texts as what it is", () => {
  const unix = door("nbd+unix:///db?socket=/run/gabion/nbd.sock");
  expect(unix).toMatchObject({ socket: "/run/gabion/nbd.sock", name: "db" });
  expect(door("nbd://192.0.2.1:10810/db")).toMatchObject({ host: "192.0.2.1", port: 10810, name: "db" });
  expect(door("nbd://[2001:db8::1]/db")).toMatchObject({ host: "2001:db8::1", port: 10809 });
  expect(door("http://x/")).toBeNull();
  const evil = door("nbd+unix:///a'b,c%3C?socket=/run/s'$(x).sock");
  if (!unix || !evil) throw new Error("no door");
  expect(qemu(unix)).toContain("server.type=unix,server.path=/run/gabion/nbd.sock,export=db,reconnect-delay=60");
  expect(qemu(evil)).toContain("'driver=nbd,node-name=disk0,server.type=unix,server.path=/run/s'\\''$(x).sock,export=a'\\''b,,c<");
  expect(libvirt(evil)).toContain("name='a&apos;b,c&lt;'");
  expect(kernel(evil)).toContain("-unix '/run/s'\\''$(x).sock'");
});

test("a curve has a gap where nobody looked, and a table has its newest lines", () => {
  const points = [0, 5, 10, 15, 20].map((at) => ({ at, covered_ms: at === 5 ? 0 : 5000, buffer_fill: at / 10 }) as unknown as Point);
  expect(values(points, (it) => it.buffer_fill)).toEqual([0, null, 1, 1.5, 2]);
  expect(values(points, (it) => it.cpus)).toEqual([null, null, null, null, null]);
  expect(thinned(points, 9).map((it) => it.at)).toEqual([0, 10, 15, 20]);
  expect(thinned(points, 2).map((it) => it.at)).toEqual([10, 20]);
  expect(thinned([], 2)).toEqual([]);
});

const copy = (object: number, host: string) => ({ object, host, state: "active", resync_bytes_left: 0 });
const made = (width: number, copies: ReturnType<typeof copy>[], more = {}) =>
  ({ name: "v", stripe_width: width, components: copies, ...more }) as unknown as Volume;

test("the tree has rows where a volume is striped", () => {
  const copies = [0, 1, 2, 3].flatMap((object) => [copy(object, "a"), copy(object, "b")]);
  const striped = layout(made(2, copies));
  expect(striped.rows.map((row) => [row.first, row.objects.map((one) => one.object)])).toEqual([
    [0, [0, 1]],
    [2, [2, 3]],
  ]);
  expect(layout(made(1, copies)).rows.length).toBe(1);
  expect(layout(made(2, copies, { otherwise_striped_bytes: 1 })).isStriped).toBe(false);
});

const policy = {
  name: "gold",
  ftt: 2,
  reserve_percent: 10,
  cache_percent: 5,
  stripe_width: 3,
  repair_delay: { seconds: 600 },
  limits: { iops: 500, bytes_per_second: 1024 ** 2 },
  affinity: "none",
  force: false,
  version: 1,
  volumes: [],
} as Schemas["PolicyReport"];

test("a form says the rules that it was filled with", () => {
  const { rules, wrong } = rulesOf(formOf(policy));
  expect(wrong).toEqual([]);
  expect(rules).toMatchObject({ ftt: 2, repair_delay: { seconds: 600 }, iops: { at: 500 }, bytes_per_second: { at: 1024 ** 2 } });
  expect(rulesOf(NEW_RULES).rules).toMatchObject({ repair_delay: "cluster", iops: "none", bytes_per_second: "none" });
  expect(rulesOf({ ...NEW_RULES, ftt: "4", delay: "soon", reserve: "101" }).wrong).toEqual(["ftt", "reserve", "delay"]);
});

test("rates are of what was done between two looks, and a shard that began anew counts later", () => {
  const report = (count: number) =>
    [{ operation: "read", failed: 0, bytes: count * 4096, took_us: count * 100, latencies: [count, 0] }] as Schemas["OperationReport"][];
  const at = (time: number, count: number, other: number) => ({
    at: time,
    of: new Map([
      ["host1", report(count)],
      ["host2", report(other)],
    ]),
  });
  const sample = sampled(at(0, 100, 500), at(2000, 300, 7));
  expect(sample).toMatchObject({ reads: 100, readBytes: 100 * 4096, readUs: 100, writes: 0, writeUs: null });
  expect(sampled(at(0, 1, 1), at(0, 2, 2))).toBeNull();
});
