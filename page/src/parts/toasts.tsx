// SPDX-License-Identifier: Apache-2.0
// Short words on what was done, and on what was not.
import { createStore, useStore } from "../core/store";
import { saidOf } from "../core/live";
import { t } from "../texts";
import { Icon } from "./icons";

type Toast = { number: number; tone: "good" | "bad"; text: string };

const toasts = createStore<readonly Toast[]>([]);
const SHOWN_MS = 8000;
let count = 0;

export function say(tone: Toast["tone"], text: string): void {
  const number = ++count;
  toasts.update((all) => [...all, { number, tone, text }].slice(-4));
  // What went wrong stays until it is read.
  if (tone === "good") setTimeout(() => drop(number), SHOWN_MS);
}

const drop = (number: number) => toasts.update((all) => all.filter((one) => one.number !== number));

/** Does something that needs no question, and says why not where it fails. */
export async function attempt(run: () => Promise<unknown>, done?: string): Promise<void> {
  try {
    await run();
    if (done) say("good", done);
  } catch (error) {
    say("bad", saidOf(error, t("no-answer")));
  }
}

export function Toasts() {
  const all = useStore(toasts, (value) => value);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {all.map((toast) => (
        <div key={toast.number} class={`toast ${toast.tone}`}>
          <span>{toast.text}</span>
          <button type="button" class="plain" aria-label={t("close")} onClick={() => drop(toast.number)}>
            <Icon name="close" />
          </button>
        </div>
      ))}
    </div>
  );
}
