// SPDX-License-Identifier: Apache-2.0
// What is read when somebody comes to it, for it has no events.
import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useState } from "preact/hooks";
import { saidOf, touchStore } from "../core/live";
import { useStore } from "../core/store";
import { t } from "../texts";
import { Empty, Note } from "./basics";

export type Loaded<T> = { value: T | null; error: unknown; again: () => void };

/** Reads something at first, when one of `on` changes, after a gap in the touch, and on demand. */
export function useLoaded<T>(read: () => Promise<T>, on: readonly unknown[]): Loaded<T> {
  const [found, setFound] = useState<{ value: T | null; error: unknown }>({ value: null, error: null });
  const [turn, setTurn] = useState(0);
  const since = useStore(touchStore, (touch) => (touch.state === "live" ? touch.since : 0));
  useEffect(() => {
    let wanted = true;
    read().then(
      (value) => wanted && setFound({ value, error: null }),
      (error: unknown) => wanted && setFound((was) => ({ value: was.value, error })),
    );
    return () => {
      wanted = false;
    };
  }, [...on, turn, since]);
  return { ...found, again: useCallback(() => setTurn((was) => was + 1), []) };
}

/** Shows what was read, or why it is not there. */
export function Shown<T>({ of, children }: { of: Loaded<T>; children: (value: T) => ComponentChildren }) {
  if (of.value !== null) return <>{children(of.value)}</>;
  if (of.error) return <Note tone="bad">{saidOf(of.error, t("no-answer"))}</Note>;
  return <Empty>{t("loading")}</Empty>;
}
