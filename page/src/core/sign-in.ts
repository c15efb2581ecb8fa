// SPDX-License-Identifier: Apache-2.0
// How somebody signs in: with a token, with a code of one use, or with a name and a password. These
// requests go without the token of before, and are never sent twice.
import { NoAnswer, Refused, type Schemas, api, told } from "./api";
import { hasPassword, session, sessionStore, signedIn, signedOut } from "./session";

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
  const response = await send("/sessions", { headers: { Authorization: `Bearer ${token}` } });
  if (!response.ok) throw await refused(response);
  const who = (await response.json()) as Schemas["SessionReport"];
  signedIn({ token, name: who.name, role: who.role, isUser: who.is_user, lacksPassword: who.lacks_password });
}

/** Makes a session of what was typed. */
export async function signInBy(said: { code: string } | { user: string; password: string }): Promise<void> {
  const headers = { "Content-Type": "application/json" };
  const response = await send("/sessions", { method: "POST", headers, body: JSON.stringify(said) });
  if (!response.ok) throw await refused(response);
  const { token, name, role, lacks_password } = (await response.json()) as Schemas["NewSessionReport"];
  signedIn({ token, name, role, isUser: true, lacksPassword: lacks_password });
}

/** Gives a user a password. One's own ends one's other sessions. */
export async function choosePassword(name: string, password: string): Promise<void> {
  await told(api.PUT("/api/v1/users/{name}/password", { params: { path: { name } }, body: { password } }));
  if (sessionStore.get().who?.name === name) hasPassword();
}

/** Ends the session, and forgets the token in any case. */
export async function signOut(): Promise<void> {
  const token = session.token();
  const isUser = sessionStore.get().who?.isUser;
  signedOut("left");
  if (!token || !isUser) return;
  const headers = { Authorization: `Bearer ${token}` };
  await send("/sessions", { method: "DELETE", headers }).catch(() => undefined);
}
