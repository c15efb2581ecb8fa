// SPDX-License-Identifier: Apache-2.0
// How somebody signs in: with a token, with a code of one use, or with a name and a password. All
// that is known of sessions of the API is here.
import { NoAnswer, Refused, type Role } from "./api";
import { session, sessionStore, signedIn, signedOut } from "./session";

type NewSession = { token: string; name: string; role: Role; expires: string | number };

const TOKEN = /^gbn_[0-9a-f]{64}$/;

async function send(path: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(`/api/v1${path}`, init);
  } catch (error) {
    throw new NoAnswer(String(error));
  }
}

async function refused(response: Response): Promise<Refused> {
  const said = (await response.json().catch(() => null)) as { detail?: string } | null;
  return new Refused(response.status, said?.detail ?? response.statusText);
}

/** Whether a text could be a token at all. */
export const isToken = (text: string) => TOKEN.test(text.trim());

/** Asks whose token it is. */
export async function signInByToken(text: string): Promise<void> {
  const token = text.trim();
  const response = await send("/caller", { headers: { Authorization: `Bearer ${token}` } });
  if (!response.ok) throw await refused(response);
  const { name, role } = (await response.json()) as { name: string; role: Role };
  signedIn({ token, name, role, isSession: false });
}

/** Makes a session of what was typed. */
export async function signInBy(said: { code: string } | { user: string; password: string }): Promise<void> {
  const headers = { "Content-Type": "application/json" };
  const response = await send("/sessions", { method: "POST", headers, body: JSON.stringify(said) });
  if (!response.ok) throw await refused(response);
  const { token, name, role } = (await response.json()) as NewSession;
  signedIn({ token, name, role, isSession: true });
}

/** Ends the session, and forgets the token in any case. */
export async function signOut(): Promise<void> {
  const token = session.token();
  const isSession = sessionStore.get().who?.isSession;
  signedOut("left");
  if (!token || !isSession) return;
  const headers = { Authorization: `Bearer ${token}` };
  await send("/sessions", { method: "DELETE", headers }).catch(() => undefined);
}
