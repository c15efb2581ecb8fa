// SPDX-License-Identifier: Apache-2.0
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { de } from "../src/texts/de";
import { en } from "../src/texts/en";

const names = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).sort();

test("both languages have all texts, with the same values in them", () => {
  expect(Object.keys(de)).toEqual(Object.keys(en));
  for (const [key, text] of Object.entries(en)) {
    const other = de[key as keyof typeof en];
    expect(other.trim(), key).not.toBe("");
    expect(names(other), key).toEqual(names(text));
  }
});

test("no text is kept that nothing says", () => {
  const root = join(import.meta.dirname, "../src");
  const files = readdirSync(root, { recursive: true, encoding: "utf8" }).filter((name) => /\.tsx?$/.test(name) && !/texts\/(en|de)/.test(name));
  const source = files.map((name) => readFileSync(join(root, name), "utf8")).join("\n");
  const kinds = [...source.matchAll(/word\("([a-z-]+)"|kind="([a-z-]+)"|\bt\(`([a-z-]+\.(?:[a-z]+-)?)\$/g)].map((found) => found[1] ?? found[2] ?? found[3] ?? "");
  const isSaid = (key: string) => source.includes(`"${key}"`) || kinds.some((kind) => key.startsWith(kind.includes(".") ? kind : `${kind}.`));
  expect(Object.keys(en).filter((key) => !isSaid(key))).toEqual([]);
});
