// SPDX-License-Identifier: Apache-2.0
// The texts of the page in the language of its reader.
import { createStore, useStore } from "../core/store";
import { de } from "./de";
import { en, type Texts } from "./en";

export const LANGUAGES = { en, de } as const;
export type Language = keyof typeof LANGUAGES;
export type TextKey = keyof Texts;

const PLACE = "gabion.language";

function chosen(): Language {
  const kept = localStorage.getItem(PLACE);
  if (kept === "en" || kept === "de") return kept;
  const wanted = navigator.languages.map((name) => name.slice(0, 2));
  return wanted.find((name): name is Language => name in LANGUAGES) ?? "en";
}

export const languageStore = createStore<Language>(chosen());

export function setLanguage(language: Language): void {
  localStorage.setItem(PLACE, language);
  languageStore.set(language);
}

/** A text with the values for the names in its braces. */
export function t(key: TextKey, values: Record<string, string | number> = {}): string {
  return filled(LANGUAGES[languageStore.get()][key], values);
}

/** The same where the key is made of a word of the API; the word itself where there is no text. */
export function word(kind: string, value: string): string {
  const key = `${kind}.${value}`;
  const texts: Record<string, string> = LANGUAGES[languageStore.get()];
  return texts[key] ?? value;
}

export function filled(text: string, values: Record<string, string | number>): string {
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));
}

export const language = () => languageStore.get();
export const useLanguage = () => useStore(languageStore, (value) => value);
