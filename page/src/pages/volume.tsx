// SPDX-License-Identifier: Apache-2.0
// One volume: how it is, what it is made of and why there, how it is attached, what may be done.
import { type Volume } from "../core/cluster";
import { clusterStore, notedStore } from "../core/live";
import { to } from "../core/route";
import { useStore } from "../core/store";
import { span } from "../core/units";
import { Card, Chip, Empty, Facts, Note, State, Title, bytes } from "../parts/basics";
import { EventList } from "../parts/event-list";
import { PerformanceHistory } from "../parts/history";
import { t, word } from "../texts";
import { Attach } from "./volume-attach";
import { VolumeActions } from "./volume-actions";
import { VolumeTree } from "./volume-tree";
import { useState } from "preact/hooks";

function facts(volume: Volume): Parameters<typeof Facts>[0]["of"] {
  const labels = Object.entries(volume.labels ?? {});
  const limits = volume.policy?.limits;
  return [
    [t("size"), bytes(volume.size_bytes)],
    [t("rule.ftt"), volume.ftt],
    [t("rule.stripes"), volume.stripe_width ?? 1],
    [t("rule.reserve"), `${volume.reserve_percent ?? 0} %`],
    [
      t("policy"),
      volume.policy ? (
        <a href={to("policies")}>
          {volume.policy.name} v{volume.policy.version}
        </a>
      ) : (
        t("volume.no-policy")
      ),
    ],
    [t("volume.compliance"), <State key="state" of={volume.compliance?.state ?? "compliant"} kind="compliance" />],
    [t("volume.owner"), volume.owner ?? t("volume.no-owner")],
    [t("volume.writer"), volume.writer?.host ?? word("writers", volume.writer?.writers ?? "any")],
    [t("volume.clients"), volume.clients],
    ...(limits?.iops ? ([[t("rule.iops"), limits.iops]] as [string, number][]) : []),
    ...(limits?.bytes_per_second ? ([[t("rule.bandwidth"), `${bytes(limits.bytes_per_second)}/s`]] as [string, string][]) : []),
    ...(volume.home ? ([[t("volume.home"), volume.home.host]] as [string, string][]) : []),
    [
      t("volume.labels"),
      labels.length === 0
        ? "\u2013"
        : labels.map(([key, value]) => (
            <span class="label" key={key}>
              {key}={value}
            </span>
          )),
    ],
  ];
}

/** What is missing, and what is done about it. */
function Trouble({ volume }: { volume: Volume }) {
  const lines = [
    ...(volume.compliance?.why ?? []),
    ...(volume.not_repaired ? [t("volume.not-repaired", { why: volume.not_repaired })] : []),
    ...(volume.repair_in_seconds != null ? [t("volume.repair-in", { time: span(volume.repair_in_seconds) })] : []),
    ...(volume.copied_in_seconds != null ? [t("volume.copied-in", { time: span(volume.copied_in_seconds) })] : []),
    ...(volume.reduced_seconds != null ? [t("volume.reduced", { time: span(volume.reduced_seconds) })] : []),
  ];
  if (lines.length === 0) return null;
  return (
    <Note tone={volume.health === "red" ? "bad" : "warn"}>
      <ul>
        {lines.map((line) => (
          <li key={line}>{line}</li>
        ))}
      </ul>
    </Note>
  );
}

const TABS = ["tree", "attach", "events"] as const;

export function VolumePage({ name }: { name: string }) {
  const volume = useStore(clusterStore, (cluster) => cluster.volumes.get(name));
  const events = useStore(notedStore, (value) => value);
  const [tab, setTab] = useState<(typeof TABS)[number]>("tree");
  const above = <a href={to("volumes")}>{t("way.volumes")}</a>;
  if (!volume) {
    return (
      <>
        <Title text={name} above={above} />
        <Empty>
          {t("volume.gone")} <a href={to("volumes")}>{t("way.volumes")}</a>
        </Empty>
      </>
    );
  }
  return (
    <>
      <Title text={name} above={above} aside={<VolumeActions volume={volume} />} />
      <p class="states">
        <State of={volume.health} kind="health" />
        <span class="soft">{word("volume-health", volume.health)}</span>
        {volume.connections === "exclusive" && <Chip tone="calm">{t("volume.exclusive")}</Chip>}
      </p>
      <Trouble volume={volume} />
      <div class="side">
        <div>
          <div class="tabs" role="tablist" aria-label={name}>
            {TABS.map((one) => (
              <button
                key={one}
                type="button"
                role="tab"
                id={`tab-${one}`}
                aria-selected={tab === one}
                aria-controls="tab-panel"
                tabIndex={tab === one ? 0 : -1}
                class={tab === one ? "on" : ""}
                onClick={() => setTab(one)}
                onKeyDown={(event) => {
                  const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? TABS.length - 1 : 0;
                  const next = step ? TABS[(TABS.indexOf(one) + step) % TABS.length] : undefined;
                  if (!next) return;
                  setTab(next);
                  document.getElementById(`tab-${next}`)?.focus();
                }}
              >
                {t(`volume.tab-${one}`)}
              </button>
            ))}
          </div>
          <section class="card" role="tabpanel" id="tab-panel" aria-labelledby={`tab-${tab}`} tabIndex={0}>
            {tab === "tree" && <VolumeTree volume={volume} />}
            {tab === "attach" && <Attach volume={volume} />}
            {tab === "events" && <EventList events={events.filter((event) => event.list === "/volumes" && event.key === name)} />}
          </section>
        </div>
        <Card title={t("volume.facts")}>
          <Facts of={facts(volume)} />
        </Card>
      </div>
      <PerformanceHistory kind="volume" name={name} />
    </>
  );
}
