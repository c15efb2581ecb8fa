// SPDX-License-Identifier: Apache-2.0
// What changed, one line each.
import type { Difference, Noted } from "../core/changes";
import { LISTS } from "../core/cluster";
import { to } from "../core/route";
import { language, t, word } from "../texts";
import { Empty, bytes } from "./basics";

function value(field: string, text: string): string {
  if (field.endsWith("_bytes") && /^\d+$/.test(text)) return bytes(Number(text));
  const kind = field.endsWith("state") ? ["copy", "host", "compliance", "device"].find((one) => word(one, text) !== text) : null;
  if (field === "" || field === "health") return word("health", text);
  if (kind) return word(kind, text);
  return text.length > 90 ? `${text.slice(0, 90)}\u2026` : text;
}

/** The part of an item that is different, and its field. */
function label(field: string): string {
  const [path = "", last = ""] = field.includes(".") ? [field.slice(0, field.lastIndexOf(".")), field.slice(field.lastIndexOf(".") + 1)] : ["", field];
  const of = path.replace(/^(components|devices|compliance) ?/, "");
  return `${of} ${word("field", last)}`.trim();
}

function Different({ of: { field, was, is } }: { of: Difference }) {
  return (
    <span class="different">
      {field && <span class="soft">{label(field)}</span>} {value(field, was)}
      <span aria-hidden="true"> {"\u2192"} </span>
      <span class="unseen">{t("events.then")}</span>
      <b>{value(field, is)}</b>
    </span>
  );
}

/** An item, as people know it. */
function called({ list, key, name }: Noted): string {
  const [first = "", second = "", third = ""] = key.split("/");
  if (list === "/status") return word("status", key);
  if (list === LISTS.groups.path) return `${first} ${second.slice(0, 8)}`;
  return list === LISTS.resyncs.path ? `${first} ${Number(second) + 1} \u2192 ${third}` : name;
}

function place({ list, key }: Noted): string | null {
  if (list === LISTS.volumes.path) return to("volumes", key);
  if (list === LISTS.shards.path) return to("hosts", key);
  if (list === LISTS.resyncs.path) return to("resync");
  if (list === LISTS.deleted.path) return to("volumes");
  if (list === LISTS.groups.path) return to("groups", ...key.split("/").slice(0, 2));
  return to("health");
}

export function EventList({ events }: { events: readonly Noted[] }) {
  if (events.length === 0) return <Empty>{t("events.none")}</Empty>;
  const time = new Intl.DateTimeFormat(language(), { timeStyle: "medium" });
  return (
    <ol class="events" reversed>
      {events.map((event) => {
        const href = event.kind === "gone" ? null : place(event);
        const name = called(event);
        return (
          <li key={event.number} class={event.kind}>
            <time dateTime={new Date(event.at).toISOString()}>{time.format(event.at)}</time>
            <span class="soft">{word("list", event.list)}</span>
            <span>
              {href ? <a href={href}>{name}</a> : <b>{name}</b>}{" "}
              {event.kind === "changed"
                ? event.differences.map((one) => <Different key={one.field} of={one} />)
                : word("events", event.kind)}
            </span>
          </li>
        );
      })}
    </ol>
  );
}
