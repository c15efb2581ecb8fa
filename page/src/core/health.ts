// SPDX-License-Identifier: Apache-2.0
// The checks of the cluster's health.
import { askPlain } from "./api";
import type { components } from "./schema";

export type HealthReport = components["schemas"]["HealthReport"];
export type HealthCheck = components["schemas"]["CheckReport"];

export const readHealth = () => askPlain<HealthReport>("GET", "/health");

export const silence = (id: string, seconds: number, reason: string) =>
  askPlain("PUT", `/health/${encodeURIComponent(id)}/silence`, { for_seconds: seconds, reason });

export const unsilence = (id: string) => askPlain("DELETE", `/health/${encodeURIComponent(id)}/silence`);
