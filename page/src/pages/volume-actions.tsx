// SPDX-License-Identifier: Apache-2.0
// What may be done with a volume. Each says first what will happen.
import { useState } from "preact/hooks";
import { type Schemas, api, may, told } from "../core/api";
import type { Volume } from "../core/cluster";
import { go } from "../core/route";
import { exactBytes, parseBytes } from "../core/units";
import { Check, Choice, Facts, Note, TextField, bytes } from "../parts/basics";
import { Dialog, Opens } from "../parts/dialog";
import { Shown, useLoaded } from "../parts/loading";
import { t } from "../texts";

type Props = { volume: Volume; close: () => void };

function Grow({ volume, close }: Props) {
  const [typed, setTyped] = useState(exactBytes(volume.size_bytes));
  const size = parseBytes(typed);
  const more = size === null ? 0 : size - volume.size_bytes;
  const run = async () => {
    const params = { path: { name: volume.name } };
    await told(api.PUT("/api/v1/volumes/{name}/size", { params, body: { size_bytes: size ?? 0 } }));
    return t("grow.done", { name: volume.name, size: bytes(size ?? 0) });
  };
  return (
    <Dialog title={t("grow.title", { name: volume.name })} act={t("grow")} disabled={more <= 0} run={run} close={close}>
      <TextField
        label={t("grow.size")}
        value={typed}
        set={setTyped}
        error={size === null ? t("create.no-size") : more < 0 ? t("grow.smaller") : null}
        hint={t("grow.hint", { size: bytes(volume.size_bytes) })}
      />
      {more > 0 && <p>{t("grow.means", { more: bytes(more), most: bytes(more * (volume.ftt + 1)) })}</p>}
      <p class="soft">{t("grow.no-way-back")}</p>
    </Dialog>
  );
}

function Effects({ of }: { of: Schemas["PolicyCheckReport"] }) {
  return (
    <>
      {of.impossible && <Note tone="bad">{of.impossible}</Note>}
      {of.effects.length === 0 && <p class="soft">{t("policy.no-effects")}</p>}
      {of.effects.map((effect) => (
        <Facts
          key={effect.volume}
          of={[
            [t("volume"), effect.volume],
            [t("policy.copied"), bytes(effect.copied_bytes)],
            [t("policy.freed"), bytes(effect.freed_bytes)],
            [t("policy.reserved"), bytes(effect.reserved_bytes)],
          ]}
        />
      ))}
    </>
  );
}

function SetPolicy({ volume, close }: Props) {
  const [wanted, setWanted] = useState(volume.policy?.name ?? "");
  const policies = useLoaded(() => told(api.GET("/api/v1/policies")), []);
  const effects = useLoaded(async () => {
    if (wanted === "") return null;
    const body = { volumes: [volume.name] };
    return told(api.POST("/api/v1/policies/{name}/what-if", { params: { path: { name: wanted } }, body }));
  }, [wanted]);
  const run = async () => {
    const params = { path: { name: volume.name } };
    await told(api.PUT("/api/v1/volumes/{name}/policy", { params, body: { policy: wanted || null } }));
    return t("policy.set-done", { name: volume.name });
  };
  return (
    <Dialog title={t("policy.set-title", { name: volume.name })} act={t("policy.set")} run={run} close={close}>
      <Choice
        label={t("policy")}
        value={wanted}
        set={setWanted}
        of={[["", t("volume.no-policy")], ...(policies.value ?? []).map((one): [string, string] => [one.name, one.name])]}
      />
      <h3>{t("comes-to")}</h3>
      {wanted === "" ? <p class="soft">{t("policy.none-means")}</p> : <Shown of={effects}>{(report) => report && <Effects of={report} />}</Shown>}
    </Dialog>
  );
}

function Rename({ volume, close }: Props) {
  const [name, setName] = useState(volume.name);
  const run = async () => {
    const params = { path: { name: volume.name } };
    await told(api.PUT("/api/v1/volumes/{name}/name", { params, body: { new: name.trim() } }));
    go("volumes", name.trim());
    return t("rename.done", { name: name.trim() });
  };
  return (
    <Dialog title={t("rename.title", { name: volume.name })} act={t("rename")} disabled={name.trim() === "" || name.trim() === volume.name} run={run} close={close}>
      <TextField label={t("name")} value={name} set={setName} hint={t("rename.hint")} />
    </Dialog>
  );
}

function Label({ volume, close }: Props) {
  const was = volume.labels ?? {};
  const [typed, setTyped] = useState(Object.entries(was).map(([key, value]) => `${key}=${value}`).join("\n"));
  const lines = typed.split("\n").map((line) => line.trim()).filter(Boolean);
  const wrong = lines.find((line) => !/^[^=\s]+=/.test(line));
  const run = async () => {
    const set = Object.fromEntries(lines.map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]));
    const remove = Object.keys(was).filter((key) => !(key in set));
    const params = { path: { name: volume.name } };
    await told(api.PATCH("/api/v1/volumes/{name}/labels", { params, body: { set, remove } }));
    return t("label.done", { name: volume.name });
  };
  return (
    <Dialog title={t("label.title", { name: volume.name })} act={t("save")} disabled={wrong !== undefined} run={run} close={close}>
      <label class="field">
        {t("volume.labels")}
        <textarea rows={5} value={typed} spellcheck={false} onInput={(event) => setTyped(event.currentTarget.value)} />
        <span class={wrong ? "hint error" : "hint"}>{wrong ? t("label.wrong", { line: wrong }) : t("label.hint")}</span>
      </label>
    </Dialog>
  );
}

function Delete({ volume, close }: Props) {
  const [forGood, setForGood] = useState(false);
  const run = async () => {
    const params = { path: { name: volume.name }, query: { for_good: forGood } };
    await told(api.DELETE("/api/v1/volumes/{name}", { params }));
    go("volumes");
    return t(forGood ? "delete.done-for-good" : "delete.done", { name: volume.name });
  };
  return (
    <Dialog title={t("delete.title", { name: volume.name })} act={t("delete")} danger name={volume.name} run={run} close={close}>
      <p>{t(forGood ? "delete.means-for-good" : "delete.means", { name: volume.name, size: bytes(volume.size_bytes) })}</p>
      {volume.clients > 0 && <Note tone="bad">{t("delete.in-use", { count: volume.clients })}</Note>}
      <Check label={t("delete.for-good")} value={forGood} set={setForGood} />
    </Dialog>
  );
}

function Repair({ volume, close }: Props) {
  const run = async () => {
    const report = await told(api.POST("/api/v1/repairs", { body: { volume: volume.name } }));
    const refused = report.refused.map((one) => one.why);
    return [t("repair.begun", { count: report.begun.length }), ...refused].join(" \u00b7 ");
  };
  return (
    <Dialog title={t("repair.title", { name: volume.name })} act={t("repair")} run={run} close={close}>
      <p>{t("repair.means")}</p>
    </Dialog>
  );
}

export function VolumeActions({ volume }: { volume: Volume }) {
  if (!may("DELETE /api/v1/volumes/{name}")) return null;
  return (
    <>
      {volume.health !== "green" && <Opens text={t("repair")} dialog={(close) => <Repair volume={volume} close={close} />} />}
      <Opens text={t("grow")} class="first" dialog={(close) => <Grow volume={volume} close={close} />} />
      <Opens text={t("policy")} dialog={(close) => <SetPolicy volume={volume} close={close} />} />
      <Opens text={t("volume.labels")} dialog={(close) => <Label volume={volume} close={close} />} />
      <Opens text={t("rename")} dialog={(close) => <Rename volume={volume} close={close} />} />
      <Opens text={t("delete")} class="danger-line" dialog={(close) => <Delete volume={volume} close={close} />} />
    </>
  );
}
