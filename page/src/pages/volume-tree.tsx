// SPDX-License-Identifier: Apache-2.0
// What a volume is made of, from the volume down to its components, and why each is where it is.
import { useState } from "preact/hooks";
import { type Schemas, api, told } from "../core/api";
import { type Copy, type Volume } from "../core/cluster";
import { clusterStore } from "../core/live";
import { to } from "../core/route";
import { useStore } from "../core/store";
import { layout, stateOf } from "../core/tree";
import { Bar, Chip, Facts, State, type Tone, bytes, toneOf } from "../parts/basics";
import { Shown, useLoaded } from "../parts/loading";
import { Table } from "../parts/table";
import { t, word } from "../texts";

function worst(copies: readonly Copy[]): Tone {
  const tones = copies.map((copy) => toneOf(stateOf(copy)));
  return tones.every((tone) => tone === "bad") ? "bad" : tones.every((tone) => tone === "good") ? "good" : "warn";
}

function CopyLine({ volume, copy }: { volume: Volume; copy: Copy }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <li class="copy">
      <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <State of={stateOf(copy)} kind="copy" />
          <b>{copy.host}</b>
          {copy.group && <code>{copy.group.slice(0, 8)}</code>}
          {copy.resync_bytes_left > 0 && <span class="soft">{t("tree.left", { size: bytes(copy.resync_bytes_left) })}</span>}
          {copy.replaces && <span class="soft">{t("tree.replaces", { host: copy.replaces })}</span>}
        </summary>
        {isOpen && <Component volume={volume} copy={copy} />}
      </details>
    </li>
  );
}

/** A component, as the group says it that holds it. */
function Component({ volume, copy }: { volume: Volume; copy: Copy }) {
  const isUp = useStore(clusterStore, (cluster) => cluster.shards.get(copy.host)?.state === "up");
  return (
    <div class="component">
      {copy.why && <p class="why">{t("tree.why-state", { why: copy.why })}</p>}
      <Facts
        of={[
          [t("host"), <a key="host" href={to("hosts", copy.host)}>{copy.host}</a>],
          [t("host.domains"), copy.domain ?? "\u2013"],
          [
            t("group"),
            copy.group ? <a key="group" href={to("groups", copy.host, copy.group)}>{copy.group.slice(0, 8)}</a> : "\u2013",
          ],
          [t("state"), `${word("copy", stateOf(copy))}: ${word("copy-means", stateOf(copy))}`],
          [t("tree.waiting"), copy.writes_waiting ?? 0],
        ]}
      />
      {copy.group && isUp && stateOf(copy) !== "away" && <Held copy={copy} volume={volume} />}
      {!isUp && <p class="soft">{t("tree.not-asked", { host: copy.host })}</p>}
    </div>
  );
}

function Held({ copy, volume }: { copy: Copy; volume: Volume }) {
  const group = copy.group ?? "";
  const params = { path: { shard: copy.host, group } };
  const found = useLoaded(
    () => told(api.GET("/api/v1/shards/{shard}/groups/{group}", { params })),
    [copy.host, group, stateOf(copy)],
  );
  if (found.error && !found.value) return <p class="soft">{t("tree.not-asked", { host: copy.host })}</p>;
  return (
    <Shown of={found}>
      {(detail) => (
        <ul class="lines">
          {detail.components
            .filter((held) => held.volume === volume.name)
            .map((held) => (
              <li key={held.component}>
                <code>{held.component.slice(0, 12)}</code> {t("tree.on-device")} <code>{held.device ?? "\u2013"}</code>{" "}
                <Bar part={held.used_bytes} whole={held.size_bytes} label={t("used")} />{" "}
                <span class="soft">
                  {bytes(held.used_bytes)} {t("overview.of", { size: bytes(held.size_bytes) })}
                </span>
              </li>
            ))}
        </ul>
      )}
    </Shown>
  );
}

const PLACES: Record<Schemas["PlaceKind"], Tone> = { copy: "good", "too-close": "warn", next: "info", able: "calm", not: "bad" };

function WhyThere({ volume }: { volume: Volume }) {
  const hosts = volume.components.map((copy) => `${copy.host} ${stateOf(copy)}`).join();
  const params = { path: { name: volume.name } };
  const found = useLoaded(
    () => told(api.GET("/api/v1/volumes/{name}/placement", { params })),
    [volume.name, hosts],
  );
  return (
    <Shown of={found}>
      {(report) => (
        <>
          {report.kept_on && <p>{t("tree.kept-on", { host: report.kept_on })}</p>}
          {report.layouts.map((one) => (
            <div key={one.parts.join()} class="layout">
              <p class="soft">{t("tree.parts", { parts: one.parts.join(", ") })}</p>
              <Table
                label={t("tree.why-there")}
                items={one.hosts}
                keyOf={(place) => place.host}
                empty=""
                columns={[
                  { name: t("host"), show: (place) => <a href={to("hosts", place.host)}>{place.host}</a> },
                  { name: t("tree.place"), show: (place) => <Chip tone={PLACES[place.place]}>{word("place", place.place)}</Chip> },
                  { name: t("tree.why"), show: (place) => place.why },
                  { name: t("host.domains"), minor: true, show: (place) => place.domains.join(" / ") || "\u2013" },
                  { name: t("tree.room"), right: true, show: (place) => (place.room_bytes == null ? "\u2013" : bytes(place.room_bytes)) },
                ]}
              />
            </div>
          ))}
          {(report.more_parts ?? 0) > 0 && <p class="soft">{t("tree.more", { count: report.more_parts ?? 0 })}</p>}
        </>
      )}
    </Shown>
  );
}

export function VolumeTree({ volume }: { volume: Volume }) {
  const [isOpen, setOpen] = useState(false);
  const { rows, isStriped } = layout(volume);
  return (
    <>
      <ul class="tree">
        <li>
          <p class="node">
            <b>{volume.name}</b>
            <State of={volume.health} kind="health" />
            <span class="soft">
              {bytes(volume.size_bytes)}
              {isStriped && ` \u00b7 ${t("tree.striped", { width: volume.stripe_width ?? 1 })}`}
            </span>
          </p>
          <ul>
            {rows.map((row) => (
              <li key={row.first}>
                {isStriped && <p class="node soft">{t("tree.row", { from: row.first + 1, to: row.first + row.objects.length })}</p>}
                <ul class={isStriped ? "" : "flat"}>
                  {row.objects.map(({ object, copies }) => (
                    <li key={object}>
                      <details open={rows.length === 1 && row.objects.length <= 4 ? true : worst(copies) !== "good"}>
                        <summary class="node">
                          <span class={`dot ${worst(copies)}`} aria-hidden="true" />
                          {t("tree.object", { number: object + 1 })}
                          <span class="soft">
                            {copies.length > 1 ? t("tree.mirror", { count: copies.length }) : t("tree.single")}
                          </span>
                        </summary>
                        <ul>
                          {copies.map((copy) => (
                            <CopyLine key={`${copy.host}/${copy.group}`} volume={volume} copy={copy} />
                          ))}
                        </ul>
                      </details>
                    </li>
                  ))}
                </ul>
              </li>
            ))}
          </ul>
        </li>
      </ul>
      <details class="why-there" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>{t("tree.why-there")}</summary>
        {isOpen && <WhyThere volume={volume} />}
      </details>
    </>
  );
}
