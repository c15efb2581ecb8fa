// SPDX-License-Identifier: Apache-2.0
// Makes the types of the API, and who may do what, of its description.
// usage: node types.mjs DESCRIPTION FOLDER        DESCRIPTION: what `gabion api describe` prints
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import openapi, { astToString } from "openapi-typescript";

const [, , path, folder] = process.argv;
if (!path || !folder) throw new Error("usage: node types.mjs DESCRIPTION FOLDER");
const described = JSON.parse(readFileSync(path, "utf8"));

const MADE = "// SPDX-License-Identifier: Apache-2.0\n// Made by page/types.mjs of `gabion api describe`.\n";
// What stands in the description is not said a second time.
const types = astToString(await openapi(described)).replace(/^[ \t]*\/\*\*[\s\S]*?\*\/[ \t]*\n/gm, "");
writeFileSync(join(folder, "schema.d.ts"), MADE + types);

const roles = [];
for (const [place, methods] of Object.entries(described.paths)) {
  for (const [method, operation] of Object.entries(methods)) {
    const role = /Needs the role (\w+)/.exec(operation.description ?? "")?.[1];
    if (role && role !== "viewer") roles.push(`  "${method.toUpperCase()} ${place}": "${role}",`);
  }
}
writeFileSync(
  join(folder, "roles.ts"),
  `${MADE}\n/** What a request needs, where it is more than a viewer has. */\n` +
    `export const NEEDED = {\n${roles.sort().join("\n")}\n} as const;\n`,
);
