// SPDX-License-Identifier: Apache-2.0
// A new volume: by a policy or by rules of its own, with what that comes to before it is made.
import { useState } from "preact/hooks";
import { type Schemas, api, told } from "../core/api";
import { hostOf } from "../core/cluster";
import { clusterStore } from "../core/live";
import { go } from "../core/route";
import { useStore } from "../core/store";
import { parseBytes } from "../core/units";
import { Check, Choice, Facts, Note, TextField, bytes } from "../parts/basics";
import { Dialog } from "../parts/dialog";
import { Shown, useLoaded } from "../parts/loading";
import { t } from "../texts";

type Form = { name: string; size: string; policy: string; ftt: string; reserve: string; stripes: string; force: boolean };

const FTT_MAX = 3;
const STRIPES_MAX = 12;

/** What the policy asks of the cluster, and whether there is room for so much. */
function ComesTo({ policy, form, size }: { policy: Schemas["PolicyReport"] | undefined; form: Form; size: number | null }) {
  const name = policy?.name ?? "default";
  const check = useLoaded(
    () => told(api.POST("/api/v1/policies/{name}/check", { params: { path: { name } }, body: { rules: {} } })),
    [name],
  );
  const hostCount = useStore(clusterStore, (cluster) => {
    const up = [...cluster.shards.values()].filter((shard) => shard.state === "up" && !shard.maintenance);
    return new Set(up.map((shard) => shard.domains?.at(-1) ?? hostOf(shard))).size;
  });
  const copies = (policy?.ftt ?? Number(form.ftt)) + 1;
  const reserve = policy?.reserve_percent ?? Number(form.reserve || 0);
  return (
    <Shown of={check}>
      {(report) => {
        const most = (size ?? 0) * copies;
        const room = report.room_bytes ?? null;
        return (
          <>
            <Facts
              of={[
                [t("create.copies"), t("create.copies-on", { copies, hosts: hostCount })],
                [t("create.most"), size ? bytes(most) : "\u2013"],
                [t("create.kept"), size ? bytes((most * reserve) / 100) : "\u2013"],
                [t("create.room"), room === null ? "\u2013" : bytes(room)],
                ...(policy ? ([[t("create.stripes"), policy.stripe_width ?? 1]] as [string, number][]) : []),
              ]}
            />
            {copies > hostCount && <Note tone="bad">{t("create.few-hosts", { copies, hosts: hostCount })}</Note>}
            {room !== null && size !== null && (most * reserve) / 100 > room && <Note tone="bad">{t("create.no-room")}</Note>}
            {room !== null && size !== null && most > room && <Note tone="warn">{t("create.thin")}</Note>}
            {policy && report.impossible && <Note tone="bad">{report.impossible}</Note>}
          </>
        );
      }}
    </Shown>
  );
}

export function CreateVolume({ close }: { close: () => void }) {
  const policies = useLoaded(() => told(api.GET("/api/v1/policies")), []);
  const [form, setForm] = useState<Form>({ name: "", size: "", policy: "default", ftt: "1", reserve: "0", stripes: "1", force: false });
  const set = <K extends keyof Form>(name: K) => (value: Form[K]) => setForm((was) => ({ ...was, [name]: value }));
  const size = parseBytes(form.size);
  const policy = policies.value?.find((one) => one.name === form.policy);
  const run = async () => {
    const name = form.name.trim();
    const own = {
      ftt: Number(form.ftt),
      reserve_percent: Number(form.reserve || 0),
      stripe_width: Number(form.stripes),
    };
    const rules = policy ? { ftt: policy.ftt, policy: policy.name } : own;
    const body = { name, size_bytes: size ?? 0, ...rules, force: form.force };
    const volume = await told(api.POST("/api/v1/volumes", { body }));
    go("volumes", name);
    return volume.note ?? t("create.done", { name });
  };
  const numbers = (from: number, most: number): [string, string][] =>
    Array.from({ length: most - from + 1 }, (_, at) => [`${at + from}`, `${at + from}`]);
  return (
    <Dialog
      title={t("create.title")}
      act={t("create.act")}
      disabled={form.name.trim() === "" || size === null}
      run={run}
      close={close}
    >
      <div class="pair">
        <TextField label={t("name")} value={form.name} set={set("name")} required />
        <TextField
          label={t("size")}
          value={form.size}
          set={set("size")}
          placeholder="10 GiB"
          required
          error={form.size !== "" && size === null ? t("create.no-size") : null}
          hint={size === null ? t("create.size-hint") : bytes(size)}
        />
      </div>
      <Choice
        label={t("policy")}
        value={policy ? form.policy : ""}
        set={set("policy")}
        of={[...(policies.value ?? []).map((one): [string, string] => [one.name, one.name]), ["", t("create.own-rules")]]}
      />
      {!policy && (
        <div class="pair">
          <Choice label={t("rule.ftt")} value={form.ftt} set={set("ftt")} of={numbers(0, FTT_MAX)} />
          <Choice label={t("rule.stripes")} value={form.stripes} set={set("stripes")} of={numbers(1, STRIPES_MAX)} />
          <TextField label={t("rule.reserve")} value={form.reserve} set={set("reserve")} />
        </div>
      )}
      <Check label={t("create.force")} value={form.force} set={set("force")} />
      <h3>{t("comes-to")}</h3>
      <ComesTo policy={policy} form={form} size={size} />
    </Dialog>
  );
}
