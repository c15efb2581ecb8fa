// SPDX-License-Identifier: Apache-2.0
// The checks of the cluster's health. All that is known of their part of the API is here. A cluster
// that has none of it is looked at by its status.
import { Refused, askPlain } from "./api";
import type { Cluster } from "./cluster";

export type CheckState = "green" | "yellow" | "red" | "unknown" | "silenced";
export type HealthCheck = {
  id: string;
  group: string;
  title: string;
  state: CheckState;
  summary: string;
  evidence: string[];
  since: string | null;
  means: string;
  mend: string[];
  silenced_until: string | null;
};
export type HealthReport = { state: "green" | "yellow" | "red"; checks: HealthCheck[]; isStatus: boolean };

/** Whether the cluster has no such part of the API. */
let isMissing = false;

export async function readHealth(cluster: Cluster): Promise<HealthReport> {
  if (isMissing) return ofStatus(cluster);
  try {
    const report = await askPlain<Omit<HealthReport, "isStatus">>("GET", "/health");
    return { ...report, isStatus: false };
  } catch (error) {
    isMissing = error instanceof Refused && error.status === 404;
    if (isMissing) return ofStatus(cluster);
    throw error;
  }
}

export const silence = (id: string, seconds: number, reason: string) =>
  askPlain("PUT", `/health/${encodeURIComponent(id)}/silence`, { for_seconds: seconds, reason });

export const unsilence = (id: string) => askPlain("DELETE", `/health/${encodeURIComponent(id)}/silence`);

type Found = { evidence: string[]; state: CheckState };

function check(id: string, group: string, found: Found, mend: string[]): HealthCheck {
  const { evidence, state } = found;
  const base = { id, group, title: "", summary: "", means: "", since: null, silenced_until: null };
  return { ...base, state, evidence, mend: state === "green" ? [] : mend };
}

const worst = (states: readonly string[]): CheckState =>
  states.includes("red") ? "red" : states.includes("yellow") ? "yellow" : "green";

/** The checks that the lists and the alarms amount to. Their texts are the page's own. */
export function ofStatus(cluster: Cluster): HealthReport {
  const away = [...cluster.shards.values()].filter((shard) => shard.state !== "up");
  const volumes = [...cluster.volumes.values()].filter((volume) => volume.health !== "green");
  const groups = [...cluster.groups.values()].filter((group) => (group.health ?? "green") !== "green" || !group.is_open);
  const checks = [
    check(
      "hosts.answering",
      "hosts",
      { evidence: away.map((shard) => `${shard.name}: ${shard.state}`), state: away.length > 0 ? "red" : "green" },
      away.map((shard) => `gabion host start ${shard.host ?? shard.name}`),
    ),
    check(
      "volumes.redundant",
      "volumes",
      {
        evidence: volumes.map((it) => `${it.name}: ${[it.health, ...(it.compliance?.why ?? [])].join("; ")}`),
        state: worst(volumes.map((volume) => volume.health)),
      },
      ["gabion repair now"],
    ),
    check(
      "groups.working",
      "groups",
      {
        evidence: groups.flatMap((it) => [`${it.host} ${it.id.slice(0, 8)}: ${it.state}`, ...(it.attention ?? [])]),
        state: worst(groups.map((group) => (group.is_open ? (group.health ?? "yellow") : "red"))),
      },
      ["gabion group list"],
    ),
    check(
      "directory.alarms",
      "directory",
      { evidence: [...cluster.alarms], state: cluster.alarms.length > 0 ? "yellow" : "green" },
      ["gabion status"],
    ),
  ];
  return { state: cluster.health, checks, isStatus: true };
}
