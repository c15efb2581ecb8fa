// SPDX-License-Identifier: Apache-2.0
// A picture of disk groups: a box for each, a slot for each of its devices.
import { type Group, LISTS } from "../core/cluster";
import { to } from "../core/route";
import { t, word } from "../texts";
import { Chip, State, bytes, percent, toneOf } from "./basics";
import type { Schemas } from "../core/api";

type Device = Schemas["DeviceReport"];

const lastPart = (path: string) => path.split("/").at(-1) ?? path;

function Slot({ device, group }: { device: Device; group: Group }) {
  // How full a device is that did not open is not known.
  const whole = device.role === "cache" ? (group.buffer_bytes ?? 0) : device.size_bytes;
  const full = whole > 0 ? Math.min(1, device.used_bytes / whole) : 0;
  const said = `${word("device-role", device.role)} ${device.path}, ${word("device", device.state)}, ${percent(device.used_bytes, whole)}`;
  return (
    <li class={`slot ${device.role} ${toneOf(device.state)}`} title={said}>
      <span class="fill" aria-hidden="true" style={{ height: `${(100 * full).toFixed(1)}%` }} />
      <span class="of">
        <small>{word("device-role", device.role)}</small>
        <b>{lastPart(device.path)}</b>
        <span>{device.size_bytes > 0 ? bytes(device.size_bytes) : "\u2013"}</span>
        <span class="soft">
          {device.kind === "unknown" ? "" : `${word("medium", device.kind)} \u00b7 `}
          {percent(device.used_bytes, whole)}
        </span>
        {device.state !== "ok" && <Chip tone={toneOf(device.state)}>{word("device", device.state)}</Chip>}
      </span>
    </li>
  );
}

export function GroupBox({ group }: { group: Group }) {
  const name = group.id ? group.id.slice(0, 8) : t("group.not-open");
  return (
    <article class={`group ${toneOf(group.health ?? "green")}`} aria-label={`${t("group")} ${name}`}>
      <header>
        {group.id ? <a href={to("groups", group.host, group.id)}>{name}</a> : <b>{name}</b>}
        <State of={group.health ?? "green"} kind="health" />
        <span class="soft">
          {bytes(group.used_bytes)} {t("overview.of", { size: bytes(group.capacity_bytes) })}
        </span>
      </header>
      <ul class="slots">
        {(group.devices ?? []).map((device) => (
          <Slot key={device.path} device={device} group={group} />
        ))}
      </ul>
      {group.state !== "ok" && <p class="attention">{group.state}</p>}
      {(group.attention ?? []).map((line) => (
        <p class="attention" key={line}>
          {line}
        </p>
      ))}
    </article>
  );
}

export function Rack({ groups }: { groups: readonly Group[] }) {
  if (groups.length === 0) return <p class="empty">{t("group.none")}</p>;
  return (
    <div class="rack">
      {groups.map((group) => (
        <GroupBox key={LISTS.groups.key(group)} group={group} />
      ))}
    </div>
  );
}
