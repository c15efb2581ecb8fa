// SPDX-License-Identifier: Apache-2.0
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

/** Each file of the built page gets a twin that is compressed: the server compresses nothing. */
function compressed(folder: string): Plugin {
  return {
    name: "compressed",
    apply: "build",
    closeBundle() {
      for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
        if (!/\.(html|js|css|svg)$/.test(name)) continue;
        const path = join(folder, name);
        writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: 9 }));
      }
    },
  };
}

export default defineConfig({
  build: {
    target: "es2022",
    // The policy of the page allows nothing inline.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
  plugins: [compressed("dist")],
  test: { include: ["test/**/*.test.ts"] },
} as Parameters<typeof defineConfig>[0]);
