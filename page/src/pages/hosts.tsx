// SPDX-License-Identifier: Apache-2.0
import { useEffect, useState } from "preact/hooks";
import { type Schemas, may } from "../core/api";
import { type Shard, hosts, sorted } from "../core/cluster";
import { clusterStore } from "../core/live";
import { to } from "../core/route";
import { refreshWhileSeen } from "../core/samples";
import { useStore } from "../core/store";
import { span } from "../core/units";
import { Card, Chip, State, Title } from "../parts/basics";
import { Opens } from "../parts/dialog";
import { Rack } from "../parts/rack";
import { t, word } from "../texts";
import { Invite, Invited } from "./invite";

export function worstState(shards: readonly Shard[]): Shard["state"] {
  const order: Shard["state"][] = ["down", "not answering"];
  return order.find((state) => shards.some((shard) => shard.state === state)) ?? "up";
}

export function HostStates({ shards }: { shards: readonly Shard[] }) {
  const maintenance = shards.find((shard) => shard.maintenance)?.maintenance;
  const silent = Math.max(0, ...shards.map((shard) => shard.silent_seconds ?? 0));
  return (
    <>
      <State of={worstState(shards)} kind="host" />
      {silent > 0 && <span class="soft">{t("host.silent", { time: span(silent) })}</span>}
      {maintenance && <Chip tone="info">{t("host.in-maintenance", { mode: word("maintenance", maintenance.mode) })}</Chip>}
    </>
  );
}

export function Hosts() {
  const cluster = useStore(clusterStore, (value) => value);
  useEffect(() => refreshWhileSeen("groups"), []);
  const [invitation, setInvitation] = useState<Schemas["InviteReport"] | null>(null);
  const groups = sorted(cluster.groups);
  return (
    <>
      <Title
        text={t("way.hosts")}
        aside={
          may("POST /api/v1/invitations") && (
            <Opens text={t("invite")} class="first" dialog={(close) => <Invite made={setInvitation} close={close} />} />
          )
        }
      />
      <div role="status">{invitation && <Invited invitation={invitation} done={() => setInvitation(null)} />}</div>
      <ul class="legend-line soft" aria-label={t("hosts.legend")}>
        <li><span class="swatch cache" aria-hidden="true" /> {t("hosts.cache-slot")}</li>
        <li><span class="swatch capacity" aria-hidden="true" /> {t("hosts.capacity-slot")}</li>
      </ul>
      <div class="hosts">
      {hosts(cluster).map(({ name, shards }) => {
        const domains = shards[0]?.domains ?? [];
        return (
          <Card key={name} class="host">
            <header>
              <h2>
                <a href={to("hosts", name)}>{name}</a>
              </h2>
              <HostStates shards={shards} />
              <span class="soft">
                {shards.length > 1 && `${t("host.shards", { count: shards.length })} \u00b7 `}
                {domains.length > 0 && `${domains.join(" / ")} \u00b7 `}
                {shards[0]?.peer}
              </span>
            </header>
            <Rack groups={groups.filter((group) => shards.some((shard) => shard.name === group.host))} />
          </Card>
        );
      })}
      </div>
    </>
  );
}
