// SPDX-License-Identifier: Apache-2.0
// Where somebody is: the part of the address behind the #.
import { createStore } from "./store";

function parts(): readonly string[] {
  const path = location.hash.replace(/^#\/?/, "");
  try {
    return path === "" ? [] : path.split("/").map(decodeURIComponent);
  } catch {
    return [];
  }
}

export const routeStore = createStore<readonly string[]>(parts());
addEventListener("hashchange", () => routeStore.set(parts()));

/** An address within the page. */
export const to = (...path: string[]) => `#/${path.map(encodeURIComponent).join("/")}`;

export function go(...path: string[]): void {
  location.hash = to(...path);
}
