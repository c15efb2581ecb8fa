// SPDX-License-Identifier: Apache-2.0
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { type Schemas, api, may, told } from "../core/api";
import { exactBytes, parseBytes, parseSpan, span } from "../core/units";
import { Card, Chip, Facts, Note, TextField, Title, bytes } from "../parts/basics";
import { Dialog, Opens } from "../parts/dialog";
import { Shown, useLoaded } from "../parts/loading";
import { t, word } from "../texts";
import { Domains } from "./domains";
import { Receivers } from "./receivers";

type Cluster = Schemas["ClusterReport"];

function Setting(props: { name: string; value: string; means: string; children?: ComponentChildren }) {
  return (
    <li>
      <div>
        <h2>{props.name}</h2>
        <p class="soft">{props.means}</p>
      </div>
      <b>{props.value}</b>
      <div class="buttons">{props.children}</div>
    </li>
  );
}

/** A setting that is on or off, or one of two words. */
function Turn(props: { title: string; act: string; means: string; run: () => Promise<unknown>; done: () => void }) {
  const run = async () => {
    await props.run();
    props.done();
    return t("settings.done");
  };
  return (
    <Opens
      text={props.act}
      dialog={(close) => (
        <Dialog title={props.title} act={props.act} run={run} close={close}>
          <p>{props.means}</p>
        </Dialog>
      )}
    />
  );
}

/** A setting that somebody types. */
function Typed(props: {
  title: string;
  label: string;
  hint: string;
  first: string;
  read: (text: string) => number | null;
  show: (value: number) => string;
  send: (value: number | null) => Promise<unknown>;
  done: () => void;
}) {
  const [typed, setTyped] = useState(props.first);
  const isNone = typed.trim() === "";
  const value = isNone ? null : props.read(typed);
  const run = async () => {
    await props.send(value);
    props.done();
    return t("settings.done");
  };
  return (
    <Opens
      text={t("edit")}
      dialog={(close) => (
        <Dialog title={props.title} act={t("save")} disabled={!isNone && value === null} run={run} close={close}>
          <TextField
            label={props.label}
            value={typed}
            set={setTyped}
            error={!isNone && value === null ? t("rule.wrong") : null}
            hint={value === null ? props.hint : props.show(value)}
          />
        </Dialog>
      )}
    />
  );
}

function Upgrade({ done, close }: { done: () => void; close: () => void }) {
  const check = useLoaded(() => told(api.POST("/api/v1/cluster/upgrade", { body: { check: true } })), []);
  const isHigher = check.value !== null && check.value.to > check.value.from;
  const run = async () => {
    await told(api.POST("/api/v1/cluster/upgrade", { body: { check: false } }));
    done();
    return t("settings.done");
  };
  return (
    <Dialog title={t("settings.raise-title")} act={t("settings.raise")} danger disabled={!isHigher} run={run} close={close}>
      <Shown of={check}>
        {({ from, to, hosts }) => (
          <>
            <p>{isHigher ? t("settings.raise-means", { from, to }) : t("settings.raise-nothing", { to })}</p>
            <Facts of={hosts.map((host): [string, string] => [host.host, String(host.level ?? t("off"))])} />
          </>
        )}
      </Shown>
    </Dialog>
  );
}

function All({ cluster, again }: { cluster: Cluster; again: () => void }) {
  const mayChange = may("PUT /api/v1/cluster/repair-delay");
  const onOff = (on: boolean) => t(on ? "on" : "off");
  const turn = (on: boolean) => t(on ? "turn-off" : "turn-on");
  const rebalances = cluster.rebalances ?? false;
  const reserve = cluster.rebuild_reserve ?? false;
  const encrypts = cluster.encrypt_links ?? false;
  const other = cluster.kind === "hybrid" ? "all-flash" : "hybrid";
  const limit = cluster.resync_bytes_per_second;
  const delay = cluster.repair_delay_seconds;
  return (
    <ul class="settings">
      <Setting name={t("settings.delay")} means={t("settings.delay-means")} value={delay == null ? word("delay", "never") : span(delay)}>
        {mayChange && (
          <Typed
            title={t("settings.delay")}
            label={t("settings.delay")}
            hint={t("settings.delay-hint")}
            first={delay == null ? "" : `${delay} s`}
            read={parseSpan}
            show={span}
            send={(value) => told(api.PUT("/api/v1/cluster/repair-delay", { body: { repair_delay_seconds: value } }))}
            done={again}
          />
        )}
      </Setting>
      <Setting name={t("settings.limit")} means={t("settings.limit-means")} value={limit == null ? t("rule.no-limit") : `${bytes(limit)}/s`}>
        {mayChange && (
          <Typed
            title={t("settings.limit")}
            label={t("settings.limit")}
            hint={t("settings.limit-hint")}
            first={limit == null ? "" : exactBytes(limit)}
            read={parseBytes}
            show={(value) => `${bytes(value)}/s`}
            send={(value) => told(api.PUT("/api/v1/cluster/resync-limit", { body: { bytes_per_second: value } }))}
            done={again}
          />
        )}
      </Setting>
      <Setting name={t("settings.rebalance")} means={t("settings.rebalance-means")} value={onOff(rebalances)}>
        {mayChange && (
          <Turn
            title={t("settings.rebalance")}
            act={turn(rebalances)}
            means={t(rebalances ? "settings.rebalance-off" : "settings.rebalance-on")}
            run={() => told(api.PUT("/api/v1/cluster/rebalance", { body: { on: !rebalances } }))}
            done={again}
          />
        )}
      </Setting>
      <Setting name={t("settings.reserve")} means={t("settings.reserve-means")} value={onOff(reserve)}>
        {mayChange && (
          <Turn
            title={t("settings.reserve")}
            act={turn(reserve)}
            means={t(reserve ? "settings.reserve-off" : "settings.reserve-on")}
            run={() => told(api.PUT("/api/v1/cluster/rebuild-reserve", { body: { on: !reserve } }))}
            done={again}
          />
        )}
      </Setting>
      <Setting name={t("settings.links")} means={t("settings.links-means")} value={onOff(encrypts)}>
        {mayChange && (
          <Turn
            title={t("settings.links")}
            act={turn(encrypts)}
            means={t(encrypts ? "settings.links-off" : "settings.links-on")}
            run={() => told(api.PUT("/api/v1/cluster/encrypt-links", { body: { on: !encrypts } }))}
            done={again}
          />
        )}
      </Setting>
      <Setting name={t("settings.kind")} means={t("settings.kind-means")} value={word("cluster-kind", cluster.kind ?? "all-flash")}>
        {mayChange && (
          <Turn
            title={t("settings.kind")}
            act={t("settings.to-kind", { kind: word("cluster-kind", other) })}
            means={t("settings.kind-changes", { kind: word("cluster-kind", other) })}
            run={() => told(api.PUT("/api/v1/cluster/kind", { body: { kind: other } }))}
            done={again}
          />
        )}
      </Setting>
      <Setting name={t("level")} means={t("settings.level-means")} value={String(cluster.level ?? "\u2013")}>
        {mayChange && <Opens text={t("settings.raise")} dialog={(close) => <Upgrade done={again} close={close} />} />}
      </Setting>
    </ul>
  );
}

export function Settings() {
  const found = useLoaded(() => told(api.GET("/api/v1/cluster")), []);
  return (
    <>
      <Title text={t("way.settings")} aside={!may("PUT /api/v1/cluster/kind") && <Chip tone="calm">{t("settings.look-only")}</Chip>} />
      <Shown of={found}>
        {(cluster) => (
          <>
            {cluster.not_rebuilt && <Note tone="warn">{cluster.not_rebuilt}</Note>}
            <Card>
              <All cluster={cluster} again={found.again} />
            </Card>
          </>
        )}
      </Shown>
      <Card title={t("receivers")}>
        <Receivers />
      </Card>
      <Card title={t("domains")}>
        <Domains />
      </Card>
    </>
  );
}
