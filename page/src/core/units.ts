// SPDX-License-Identifier: Apache-2.0
// Sizes and times as people read and type them.

const STEPS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const WORDS: Record<string, number> = {};
for (const [at, name] of STEPS.entries()) {
  WORDS[name.toLowerCase()] = 1024 ** at;
  WORDS[name[0]?.toLowerCase() ?? ""] = 1024 ** at;
}
for (const [at, name] of ["b", "kb", "mb", "gb", "tb", "pb"].entries()) WORDS[name] = 1000 ** at;
WORDS.b = 1;
const BLOCK = 4096;

/** Bytes with three digits or so: `1.5 GiB`. */
export function bytes(value: number, language = "en"): string {
  let at = 0;
  let scaled = value;
  while (scaled >= 1000 && at < STEPS.length - 1) {
    scaled /= 1024;
    at += 1;
  }
  const digits = at === 0 || scaled >= 100 ? 0 : scaled >= 10 ? 1 : 2;
  return `${number(scaled, language, digits)} ${STEPS[at]}`;
}

/** A number as a language writes it, with so many digits behind its point at most. */
export function number(value: number, language = "en", digits = 0): string {
  return value.toLocaleString(language, { maximumFractionDigits: digits });
}

/** A part of a whole: `42 %`. */
export function percent(part: number, whole: number, language = "en"): string {
  if (whole <= 0) return "\u2013";
  const value = (100 * part) / whole;
  return `${number(value, language, value > 0 && value < 1 ? 1 : 0)} %`;
}

/** Bytes of what somebody typed: `10 GiB`, `1.5T`; none where it is no size of whole blocks. */
export function parseBytes(text: string): number | null {
  const found = /^\s*(\d+(?:[.,]\d+)?)\s*([a-z]*)\s*$/i.exec(text);
  if (!found) return null;
  const unit = found[2] === "" ? 1024 ** 3 : WORDS[(found[2] ?? "").toLowerCase()];
  if (unit === undefined) return null;
  const value = Math.round(Number((found[1] ?? "").replace(",", ".")) * unit);
  const whole = Math.ceil(value / BLOCK) * BLOCK;
  return Number.isSafeInteger(whole) && whole > 0 ? whole : null;
}

/** A size so that it is read back as it is: `10 GiB`. */
export function exactBytes(value: number): string {
  for (let at = STEPS.length - 1; at > 0; at--) {
    const scaled = value / 1024 ** at;
    if (scaled >= 1 && Number.isInteger(scaled * 100)) return `${scaled} ${STEPS[at]}`;
  }
  return `${value} B`;
}

const SPANS: readonly [number, string][] = [
  [86_400, "d"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
];

/** A span of time in its two largest units: `2 h 5 min`. */
export function span(seconds: number): string {
  let rest = Math.max(0, Math.round(seconds));
  const at = SPANS.findIndex(([length]) => rest >= length);
  if (at < 0) return "0 s";
  const parts: string[] = [];
  for (const [length, name] of SPANS.slice(at, at + 2)) {
    const count = Math.floor(rest / length);
    rest -= count * length;
    if (count > 0) parts.push(`${count} ${name}`);
  }
  return parts.join(" ");
}

/** Seconds of what somebody typed: `90 s`, `2h`, `1d`; none where it is no time. */
export function parseSpan(text: string): number | null {
  const found = /^\s*(\d+)\s*(s|m|min|h|d)?\s*$/i.exec(text);
  if (!found) return null;
  const units: Record<string, number> = { s: 1, m: 60, min: 60, h: 3600, d: 86_400 };
  return Number(found[1]) * (units[(found[2] ?? "s").toLowerCase()] ?? 1);
}

/** Microseconds: `850 us`, `2.4 ms`. */
export function micros(value: number, language = "en"): string {
  if (value < 1000) return `${number(value, language)} \u00b5s`;
  if (value < 1_000_000) return `${number(value / 1000, language, value < 10_000 ? 1 : 0)} ms`;
  return `${number(value / 1_000_000, language, 1)} s`;
}
