// SPDX-License-Identifier: Apache-2.0
// What was done over time, as the machine that is asked kept it.
import { type Schemas, api, told } from "./api";
import { RANGES, type Range } from "./points";

export type Kind = Schemas["PerformanceKind"];
export type History = Schemas["PerformanceReport"];

const POINTS = 240;

export function readHistory(kind: Kind, name: string, range: Range): Promise<History> {
  const to = Math.floor(Date.now() / 1000);
  const query = { from: to - RANGES[range].seconds, to, points: POINTS };
  return told(api.GET("/api/v1/performance/{kind}/{name}", { params: { path: { kind, name }, query } }));
}
