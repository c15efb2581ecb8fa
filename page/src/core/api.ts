// SPDX-License-Identifier: Apache-2.0
// Asking the API: types by its description, the token with each request, and what goes wrong as one
// kind of error.
import createClient from "openapi-fetch";
import { NEEDED } from "./roles";
import type { components, paths } from "./schema";
import { session, signedOut } from "./session";

export type Schemas = components["schemas"];
export type Role = Schemas["AccessRole"];

/** Why a request was not carried out, in words of the API. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly detail: string,
  ) {
    super(detail);
  }
}

/** Nobody answered: it may be done or not. */
export class NoAnswer extends Error {}

const TRIES = 3;
const PAUSE_MS = 400;

function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Sends a request, again where the network fails: by its key it is not carried out twice. */
async function sendAgain(request: Request): Promise<Response> {
  if (request.method !== "GET") request.headers.set("Idempotency-Key", randomKey());
  const token = session.token();
  if (token) request.headers.set("Authorization", `Bearer ${token}`);
  for (let tries = 1; ; tries++) {
    try {
      const response = await fetch(request.clone());
      if (response.status === 401 && token) signedOut("expired");
      return response;
    } catch (error) {
      if (tries === TRIES) throw new NoAnswer(String(error));
      await new Promise((done) => setTimeout(done, PAUSE_MS * tries));
    }
  }
}

export const api = createClient<paths>({ baseUrl: location.origin, fetch: sendAgain });

type Answered<T> = { data?: T; error?: unknown; response: Response };

/** What was answered; throws what was refused. */
export async function told<T>(asked: Promise<Answered<T>>): Promise<T> {
  const { data, error, response } = await asked;
  if (response.ok) return data as T;
  const detail = (error as { detail?: string } | undefined)?.detail;
  throw new Refused(response.status, detail ?? `${response.status} ${response.statusText}`);
}

/** Asks for a path that the description does not have (yet). */
export async function askPlain<T>(method: string, path: string, body?: unknown): Promise<T> {
  const init: RequestInit = { method };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { "Content-Type": "application/json" };
  }
  const response = await sendAgain(new Request(`${location.origin}/api/v1${path}`, init));
  const text = await response.text();
  const said: unknown = text ? JSON.parse(text) : null;
  if (response.ok) return said as T;
  const detail = (said as { detail?: string } | null)?.detail;
  throw new Refused(response.status, detail ?? `${response.status} ${response.statusText}`);
}

const RANKS: readonly Role[] = ["viewer", "operator", "administrator"];

/** Whether whoever is signed in may send a request. */
export function may(request: keyof typeof NEEDED): boolean {
  const has = session.role() ?? "viewer";
  return RANKS.indexOf(has) >= RANKS.indexOf(NEEDED[request]);
}
