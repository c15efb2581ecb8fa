// SPDX-License-Identifier: Apache-2.0
// Who is signed in: a token, kept for as long as this tab is open.
import { createStore } from "./store";
import type { components } from "./schema";

type Role = components["schemas"]["AccessRole"];

export type SignedIn = { token: string; name: string; role: Role; isUser: boolean; lacksPassword: boolean };
/** Why nobody is signed in: nobody was, somebody left, or the token opens nothing any more. */
export type Reason = "new" | "left" | "expired";

const PLACE = "gabion.session";

function kept(): SignedIn | null {
  try {
    return JSON.parse(sessionStorage.getItem(PLACE) ?? "null") as SignedIn | null;
  } catch {
    return null;
  }
}

const first = kept();
export const sessionStore = createStore<{ who: SignedIn | null; reason: Reason }>({
  who: first,
  reason: "new",
});

export const session = {
  token: () => sessionStore.get().who?.token ?? null,
  role: () => sessionStore.get().who?.role ?? null,
};

export function signedIn(who: SignedIn): void {
  sessionStorage.setItem(PLACE, JSON.stringify(who));
  sessionStore.set({ who, reason: "new" });
}

/** The user has a password from now on. */
export function hasPassword(): void {
  const { who } = sessionStore.get();
  if (who) signedIn({ ...who, lacksPassword: false });
}

export function signedOut(reason: Reason): void {
  sessionStorage.removeItem(PLACE);
  sessionStore.set({ who: null, reason });
}
