// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { bytes, exactBytes, micros, parseBytes, parseSpan, percent, span } from "../src/core/units";

test("sizes are shown with three digits or so, as a language writes them", () => {
  expect(bytes(0)).toBe("0 B");
  expect(bytes(999)).toBe("999 B");
  expect(bytes(1000)).toBe("0.98 KiB");
  expect(bytes(1536)).toBe("1.5 KiB");
  expect(bytes(1536, "de")).toBe("1,5 KiB");
  expect(bytes(64 * 1024 ** 2)).toBe("64 MiB");
  expect(bytes(2 ** 70)).toBe("1,048,576 PiB");
});

test("a size that is typed is whole blocks, or nothing", () => {
  expect(parseBytes("10 GiB")).toBe(10 * 1024 ** 3);
  expect(parseBytes("10")).toBe(10 * 1024 ** 3);
  expect(parseBytes("1.5T")).toBe(1.5 * 1024 ** 4);
  expect(parseBytes("1,5 tib")).toBe(1.5 * 1024 ** 4);
  expect(parseBytes("1 GB")).toBe(1_000_001_536);
  expect(parseBytes("1 B")).toBe(4096);
  for (const wrong of ["", "0", "-1", "ten", "1 XB", "1e3", "99999 PiB"]) expect(parseBytes(wrong)).toBeNull();
});

test("a size that is shown for changing is read back as it is", () => {
  for (const size of [4096, 5 * 4096, 96 * 1024 ** 2, 1.25 * 1024 ** 4, 123_456_789 * 4096]) {
    expect(parseBytes(exactBytes(size))).toBe(size);
  }
});

test("times have two units, and are read back", () => {
  expect(span(0)).toBe("0 s");
  expect(span(59.6)).toBe("1 min");
  expect(span(7500)).toBe("2 h 5 min");
  expect(span(90_000)).toBe("1 d 1 h");
  expect(parseSpan("2h")).toBe(7200);
  expect(parseSpan("90")).toBe(90);
  expect(parseSpan("soon")).toBeNull();
  expect(micros(850)).toBe("850 \u00b5s");
  expect(micros(2400)).toBe("2.4 ms");
  expect(percent(1, 0)).toBe("\u2013");
  expect(percent(1, 1000)).toBe("0.1 %");
});
