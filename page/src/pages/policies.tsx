// SPDX-License-Identifier: Apache-2.0
import { useState } from "preact/hooks";
import { type Schemas, api, may, told } from "../core/api";
import { to } from "../core/route";
import { NEW_RULES, type RuleField, type RuleForm, delayText, formOf, rulesOf } from "../core/rules";
import { span } from "../core/units";
import { Card, Check, Chip, Choice, Empty, Facts, Note, TextField, Title, bytes } from "../parts/basics";
import { Dialog, Opens } from "../parts/dialog";
import { Shown, useLoaded } from "../parts/loading";
import { t, word } from "../texts";

type Policy = Schemas["PolicyReport"];

function Rules({ form, set, wrong }: { form: RuleForm; set: (form: RuleForm) => void; wrong: RuleField[] }) {
  const field = (name: Exclude<RuleField, "force" | "affinity">, hint?: string) => (
    <TextField
      label={t(`rule.${name}`)}
      value={form[name]}
      set={(value) => set({ ...form, [name]: value })}
      error={wrong.includes(name) ? t("rule.wrong") : null}
      hint={hint}
    />
  );
  return (
    <>
      <div class="pair">
        {field("ftt", t("rule.ftt-hint"))}
        {field("stripes", t("rule.stripes-hint"))}
        {field("reserve", t("rule.percent-hint"))}
        {field("cache", t("rule.percent-hint"))}
        {field("delay", t("rule.delay-hint"))}
        <Choice
          label={t("rule.affinity")}
          value={form.affinity}
          set={(value) => set({ ...form, affinity: value as RuleForm["affinity"] })}
          of={(["none", "host"] as const).map((one): [string, string] => [one, word("affinity", one)])}
        />
        {field("iops", t("rule.none-hint"))}
        {field("bandwidth", t("rule.none-hint"))}
      </div>
      <Check label={t("create.force")} value={form.force} set={(force) => set({ ...form, force })} />
    </>
  );
}

function Create({ done, close }: { done: () => void; close: () => void }) {
  const [name, setName] = useState("");
  const [form, setForm] = useState(NEW_RULES);
  const { rules, wrong } = rulesOf(form);
  const run = async () => {
    await told(api.POST("/api/v1/policies", { body: { name: name.trim(), rules } }));
    done();
    return t("policy.created", { name: name.trim() });
  };
  return (
    <Dialog title={t("policy.create")} act={t("create.act")} disabled={name.trim() === "" || wrong.length > 0} run={run} close={close}>
      <TextField label={t("name")} value={name} set={setName} required />
      <Rules form={form} set={setForm} wrong={wrong} />
    </Dialog>
  );
}

function WhatChanges({ policy, rules }: { policy: Policy; rules: Schemas["PolicyRules"] }) {
  const params = { path: { name: policy.name } };
  const check = useLoaded(
    () => told(api.POST("/api/v1/policies/{name}/check", { params, body: { rules } })),
    [JSON.stringify(rules)],
  );
  return (
    <Shown of={check}>
      {(report) => {
        const sum = (of: (effect: Schemas["EffectReport"]) => number) => report.effects.reduce((all, one) => all + of(one), 0);
        return (
          <>
            {report.impossible && <Note tone="bad">{report.impossible}</Note>}
            {report.effects.length === 0 ? (
              <p class="soft">{t("policy.no-effects")}</p>
            ) : (
              <Facts
                of={[
                  [t("policy.changes"), report.effects.map((effect) => effect.volume).join(", ")],
                  [t("policy.copied"), bytes(sum((one) => one.copied_bytes))],
                  [t("policy.freed"), bytes(sum((one) => one.freed_bytes))],
                  [t("policy.reserved"), bytes(sum((one) => one.reserved_bytes))],
                  ...(report.room_bytes == null ? [] : ([[t("create.room"), bytes(report.room_bytes)]] as [string, string][])),
                ]}
              />
            )}
          </>
        );
      }}
    </Shown>
  );
}

function Edit({ policy, done, close }: { policy: Policy; done: () => void; close: () => void }) {
  const [form, setForm] = useState(() => formOf(policy));
  const { rules, wrong } = rulesOf(form);
  const run = async () => {
    const params = { path: { name: policy.name } };
    const report = await told(api.PATCH("/api/v1/policies/{name}", { params, body: { rules } }));
    done();
    const kept = report.refused.map((one) => `${one.volume}: ${one.why}`);
    return [t("policy.edited", { name: policy.name, count: report.changed.length }), ...kept].join(" \u00b7 ");
  };
  return (
    <Dialog title={t("policy.edit-title", { name: policy.name })} act={t("save")} disabled={wrong.length > 0} run={run} close={close}>
      <Rules form={form} set={setForm} wrong={wrong} />
      <h3>{t("comes-to")}</h3>
      {wrong.length === 0 && <WhatChanges policy={policy} rules={rules} />}
    </Dialog>
  );
}

function Delete({ policy, done, close }: { policy: Policy; done: () => void; close: () => void }) {
  const run = async () => {
    await told(api.DELETE("/api/v1/policies/{name}", { params: { path: { name: policy.name } } }));
    done();
    return t("policy.deleted", { name: policy.name });
  };
  return (
    <Dialog title={t("policy.delete-title", { name: policy.name })} act={t("delete")} danger name={policy.name} run={run} close={close}>
      <p>{t("policy.delete-means", { count: policy.volumes.length })}</p>
    </Dialog>
  );
}

function delay(of: Policy["repair_delay"]): string {
  return typeof of === "string" ? word("delay", delayText(of)) : span(of.seconds);
}

function One({ policy, again }: { policy: Policy; again: () => void }) {
  const { limits, volumes } = policy;
  const behind = volumes.filter((volume) => volume.version < policy.version);
  return (
    <Card class="policy">
      <header>
        <h2>{policy.name}</h2>
        <span class="soft">v{policy.version}</span>
        <div class="aside">
          {may("PATCH /api/v1/policies/{name}") && (
            <>
              <Opens text={t("edit")} dialog={(close) => <Edit policy={policy} done={again} close={close} />} />
              <Opens text={t("delete")} class="danger-line" dialog={(close) => <Delete policy={policy} done={again} close={close} />} />
            </>
          )}
        </div>
      </header>
      <Facts
        of={[
          [t("rule.ftt"), policy.ftt],
          [t("rule.stripes"), policy.stripe_width ?? 1],
          [t("rule.reserve"), `${policy.reserve_percent} %`],
          [t("rule.cache"), `${policy.cache_percent ?? 0} %`],
          [t("rule.delay"), delay(policy.repair_delay)],
          [t("rule.affinity"), word("affinity", policy.affinity ?? "none")],
          [t("rule.iops"), limits?.iops ?? t("rule.no-limit")],
          [t("rule.bandwidth"), limits?.bytes_per_second ? `${bytes(limits.bytes_per_second)}/s` : t("rule.no-limit")],
        ]}
      />
      <p class="followers">
        <span class="soft">{t("policy.followers", { count: volumes.length })}</span>{" "}
        {volumes.slice(0, 20).map((volume) => (
          <a key={volume.name} href={to("volumes", volume.name)}>
            {volume.name}
          </a>
        ))}
        {behind.length > 0 && <Chip tone="warn">{t("policy.behind", { count: behind.length })}</Chip>}
      </p>
    </Card>
  );
}

export function Policies() {
  const found = useLoaded(() => told(api.GET("/api/v1/policies")), []);
  return (
    <>
      <Title
        text={t("way.policies")}
        aside={
          may("POST /api/v1/policies") && (
            <Opens text={t("policy.create")} class="first" dialog={(close) => <Create done={found.again} close={close} />} />
          )
        }
      />
      <Shown of={found}>
        {(policies) =>
          policies.length === 0 ? (
            <Empty>{t("policy.none")}</Empty>
          ) : (
            <>
              {policies.map((policy) => (
                <One key={policy.name} policy={policy} again={found.again} />
              ))}
            </>
          )
        }
      </Shown>
    </>
  );
}
