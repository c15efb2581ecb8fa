// SPDX-License-Identifier: Apache-2.0
// The rules of a policy, as a form has them and as the API takes them.
import type { Schemas } from "./api";
import { exactBytes, parseBytes, parseSpan } from "./units";

type Policy = Schemas["PolicyReport"];
type Rules = Schemas["PolicyRules"];

export type RuleForm = {
  ftt: string;
  reserve: string;
  cache: string;
  stripes: string;
  delay: string;
  iops: string;
  bandwidth: string;
  affinity: Schemas["Affinity"];
  force: boolean;
};

export type RuleField = keyof RuleForm;

export const NEW_RULES: RuleForm = {
  ftt: "1",
  reserve: "0",
  cache: "0",
  stripes: "1",
  delay: "cluster",
  iops: "",
  bandwidth: "",
  affinity: "none",
  force: false,
};

export function delayText(delay: Schemas["RepairDelay"]): string {
  return typeof delay === "string" ? delay : `${delay.seconds} s`;
}

/** What a form of a policy begins with. */
export function formOf(policy: Policy): RuleForm {
  return {
    ftt: String(policy.ftt),
    reserve: String(policy.reserve_percent),
    cache: String(policy.cache_percent ?? 0),
    stripes: String(policy.stripe_width ?? 1),
    delay: delayText(policy.repair_delay),
    iops: policy.limits?.iops == null ? "" : String(policy.limits.iops),
    bandwidth: policy.limits?.bytes_per_second == null ? "" : exactBytes(policy.limits.bytes_per_second),
    affinity: policy.affinity ?? "none",
    force: policy.force ?? false,
  };
}

function whole(text: string, most: number): number | null {
  const value = /^\s*\d+\s*$/.test(text) ? Number(text) : null;
  return value !== null && value <= most ? value : null;
}

/** The rules that a form says, and which of its fields say nothing that could be meant. */
export function rulesOf(form: RuleForm): { rules: Rules; wrong: RuleField[] } {
  const wrong: RuleField[] = [];
  const read = <T>(field: RuleField, value: T | null): T | undefined => {
    if (value === null) wrong.push(field);
    return value ?? undefined;
  };
  const delay = form.delay.trim();
  const seconds = delay === "cluster" || delay === "never" ? delay : parseSpan(delay);
  const limit = (value: number | null) => (value === null ? null : { at: value });
  const rules = {
    ftt: read("ftt", whole(form.ftt, 3)),
    reserve_percent: read("reserve", whole(form.reserve, 100)),
    cache_percent: read("cache", whole(form.cache, 100)),
    stripe_width: read("stripes", whole(form.stripes, 12)),
    repair_delay: read("delay", typeof seconds === "number" ? { seconds } : seconds),
    iops: form.iops.trim() === "" ? "none" : read("iops", limit(whole(form.iops, Number.MAX_SAFE_INTEGER))),
    bytes_per_second: form.bandwidth.trim() === "" ? "none" : read("bandwidth", limit(parseBytes(form.bandwidth))),
    affinity: form.affinity,
    force: form.force,
  };
  return { rules: Object.fromEntries(Object.entries(rules).filter(([, value]) => value !== undefined)) as Rules, wrong };
}
