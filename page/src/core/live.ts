// SPDX-License-Identifier: Apache-2.0
// Keeps what is known of the cluster as it is: reads the lists, follows the events, says when it
// has lost touch, and comes back by itself.
import { NoAnswer, Refused, api, told } from "./api";
import { type Noted, noted } from "./changes";
import { type Change, type Cluster, EMPTY, LISTS, type ListName, keyed, merged, needsReading } from "./cluster";
import { EventParser, type ServerEvent } from "./event-stream";
import { session, signedOut } from "./session";
import { createStore } from "./store";

/** `first`: nothing was read so far. `lost`: since when nothing was heard. */
export type Touch = { state: "first" | "live" | "lost"; since: number };

export const clusterStore = createStore<Cluster>(EMPTY);
export const touchStore = createStore<Touch>({ state: "first", since: Date.now() });
/** What changed while this page was open, the newest first. */
export const notedStore = createStore<readonly Noted[]>([]);

const NOTED_MAX = 500;
const PAGE = 1000;
/** The API says something every 15 seconds; who hears nothing for so long is cut off. */
const SILENCE_MS = 40_000;
const PAUSES_MS = [500, 1000, 2000, 4000, 8000, 15_000];

let count = 0;
let last: string | null = null;
let wake: (() => void) | null = null;
/** Ends the connection of now. */
let cut: (() => void) | null = null;

type Page = { items: unknown[]; next: string | null };

async function readList(name: ListName): Promise<ReadonlyMap<string, unknown>> {
  const all: unknown[] = [];
  for (let after: string | null = null; ; ) {
    const query: { limit: number; after?: string } = after === null ? { limit: PAGE } : { limit: PAGE, after };
    const path = `/api/v1${LISTS[name].path}` as "/api/v1/volumes";
    const page = (await told(api.GET(path, { params: { query } }))) as Page;
    all.push(...page.items);
    after = page.next;
    if (after === null) return keyed(name, all);
  }
}

/** Reads some lists anew. */
export async function readLists(...names: ListName[]): Promise<void> {
  const read = await Promise.all(names.map(async (name) => [name, await readList(name)] as const));
  clusterStore.update((cluster) => ({ ...cluster, ...Object.fromEntries(read) }));
}

async function readStatus(): Promise<void> {
  const { health, alarms } = await told(api.GET("/api/v1/status"));
  clusterStore.update((cluster) => ({ ...cluster, health, alarms: alarms ?? [], answers: true }));
}

async function readAll(): Promise<void> {
  await Promise.all([readStatus(), readLists(...(Object.keys(LISTS) as ListName[]))]);
}

function take(change: Change): void {
  const cluster = clusterStore.get();
  const note = noted(cluster, change, ++count, Date.now());
  if (note) notedStore.update((all) => [note, ...all].slice(0, NOTED_MAX));
  clusterStore.set(merged(cluster, change));
  if (needsReading(change)) void readLists("groups").catch(() => undefined);
}

/** Makes changes wait until the lists are read: one that is older than they are does no harm. */
class Intake {
  private waiting: Change[] | null = null;

  constructor(private readonly failed: (error: unknown) => void) {}

  event(event: ServerEvent): void {
    if (event.id !== null) last = event.id;
    if (event.event === "change") {
      const change = JSON.parse(event.data) as Change;
      if (this.waiting) this.waiting.push(change);
      else take(change);
    } else if (event.event === "reset" || touchStore.get().state === "first") {
      this.begin();
    } else {
      live();
      // What only counts is no event: it is read once more after a gap.
      void readLists("groups", "resyncs").catch(() => undefined);
    }
  }

  /** Comes back without a word where nothing was missed. */
  private begin(): void {
    this.waiting = [];
    readAll().then(() => {
      const changes = this.waiting ?? [];
      this.waiting = null;
      for (const change of changes) take(change);
      live();
    }, this.failed);
  }
}

function live(): void {
  if (touchStore.get().state !== "live") touchStore.set({ state: "live", since: Date.now() });
}

function lost(): void {
  if (touchStore.get().state === "live") touchStore.set({ state: "lost", since: Date.now() });
}

/** One connection, until it ends. */
async function follow(outer: AbortSignal, heard: () => void): Promise<void> {
  const inner = new AbortController();
  const end = () => inner.abort();
  cut = end;
  outer.addEventListener("abort", end);
  let silence = setTimeout(end, SILENCE_MS);
  const intake = new Intake(end);
  try {
    const headers: Record<string, string> = { Authorization: `Bearer ${session.token() ?? ""}` };
    if (last !== null) headers["Last-Event-ID"] = last;
    const response = await fetch("/api/v1/events", { headers, signal: inner.signal, cache: "no-store" });
    if (response.status === 401) return signedOut("expired");
    if (!response.ok || !response.body) throw new NoAnswer(response.statusText);
    const parser = new EventParser();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(silence);
      silence = setTimeout(end, SILENCE_MS);
      heard();
      for (const event of parser.feed(value)) intake.event(event);
    }
  } finally {
    clearTimeout(silence);
    outer.removeEventListener("abort", end);
    inner.abort();
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((done) => {
    const timer = setTimeout(done, ms * (0.75 + Math.random() / 2));
    wake = () => {
      clearTimeout(timer);
      done();
    };
  });
}

/** Follows the cluster until it is told to stop. */
export function startLive(): () => void {
  const stop = new AbortController();
  const { signal } = stop;
  last = null;
  touchStore.set({ state: "first", since: Date.now() });
  const again = () => wake?.();
  addEventListener("online", again, { signal });
  addEventListener("offline", () => cut?.(), { signal });
  document.addEventListener("visibilitychange", again, { signal });
  const run = async () => {
    for (let failures = 0; !signal.aborted; failures++) {
      await follow(signal, () => (failures = 0)).catch(() => undefined);
      if (signal.aborted) return;
      lost();
      await pause(PAUSES_MS[Math.min(failures, PAUSES_MS.length - 1)] ?? 0);
    }
  };
  void run();
  return () => stop.abort();
}

/** Tries to come back now, and not when its turn is. */
export function tryNow(): void {
  wake?.();
}

/** What to say of an error. */
export function saidOf(error: unknown, noAnswer: string): string {
  return error instanceof Refused ? error.detail : error instanceof NoAnswer ? noAnswer : String(error);
}
