// SPDX-License-Identifier: Apache-2.0
import { useState } from "preact/hooks";
import { session } from "../core/session";
import { type HealthCheck, readHealth, silence, unsilence } from "../core/health";
import { clusterStore } from "../core/live";
import { useStore } from "../core/store";
import { parseSpan, span } from "../core/units";
import { Chip, Code, State, TextField, Title } from "../parts/basics";
import { Dialog, Opens } from "../parts/dialog";
import { Shown, useLoaded } from "../parts/loading";
import { attempt } from "../parts/toasts";
import { language, t, word } from "../texts";

const ORDER = ["red", "yellow", "unknown", "silenced", "green"];

function Silence({ check, done, close }: { check: HealthCheck; done: () => void; close: () => void }) {
  const [time, setTime] = useState("1 h");
  const [reason, setReason] = useState("");
  const seconds = parseSpan(time);
  const run = async () => {
    await silence(check.id, seconds ?? 0, reason.trim());
    done();
    return t("health.silenced-done");
  };
  return (
    <Dialog title={t("health.silence-title", { name: check.title })} act={t("health.silence")} disabled={!seconds || reason.trim() === ""} run={run} close={close}>
      <p>{t("health.silence-means")}</p>
      <TextField label={t("health.for")} value={time} set={setTime} error={seconds ? null : t("settings.no-time")} hint={seconds ? span(seconds) : ""} />
      <TextField label={t("health.reason")} value={reason} set={setReason} required />
    </Dialog>
  );
}

function One({ check, again, canSilence }: { check: HealthCheck; again: () => void; canSilence: boolean }) {
  const isFine = check.state === "green";
  const when = new Intl.DateTimeFormat(language(), { dateStyle: "medium", timeStyle: "short" });
  return (
    <li class={`check-of ${check.state}`}>
      <details open={check.state === "red" || check.state === "yellow"}>
        <summary>
          <State of={check.state} kind="check-state" />
          <b>{check.title}</b>
          <span class="soft">{check.summary}</span>
        </summary>
        <div class="inside">
          <p>{check.means}</p>
          {check.evidence.length > 0 && (
            <ul class="lines">
              {check.evidence.map((line) => (
                <li key={line}>{line}</li>
              ))}
            </ul>
          )}
          {check.mend.length > 0 && (
            <>
              <h3>{t("health.mend")}</h3>
              {check.mend.map((command) => (
                <Code key={command} text={command} label={t("health.command")} />
              ))}
            </>
          )}
          <p class="soft">
            {check.since && t("health.since", { time: when.format(new Date(check.since)) })}{" "}
            {check.silenced_until && t("health.until", { time: when.format(new Date(check.silenced_until)) })}
          </p>
          {check.silenced_because && <p class="soft">{check.silenced_because}</p>}
          {canSilence && !isFine && check.state !== "silenced" && (
            <Opens text={t("health.silence")} dialog={(close) => <Silence check={check} done={again} close={close} />} />
          )}
          {canSilence && check.state === "silenced" && (
            <button type="button" onClick={() => void attempt(() => unsilence(check.id).then(again), t("health.heard"))}>
              {t("health.unsilence")}
            </button>
          )}
        </div>
      </details>
    </li>
  );
}

export function HealthPage() {
  const cluster = useStore(clusterStore, (value) => value);
  // Whatever changes in the cluster may change its health.
  const found = useLoaded(readHealth, [cluster]);
  return (
    <>
      <Title text={t("way.health")} />
      <Shown of={found}>
        {(report) => {
          const groups = [...new Set(report.checks.map((check) => check.group))];
          const mayChange = session.role() !== "viewer";
          return (
            <>
              <p class="states">
                <State of={report.state} kind="health" />
                <span class="soft">{word("health-means", report.state)}</span>
                {ORDER.slice(0, 4).map((state) => {
                  const count = report.checks.filter((check) => check.state === state).length;
                  return count > 0 && <Chip key={state} tone="calm">{`${count} ${word("check-state", state)}`}</Chip>;
                })}
              </p>
              {groups.map((group) => (
                <section class="card" key={group} aria-label={word("check-group", group)}>
                  <header>
                    <h2>{word("check-group", group)}</h2>
                  </header>
                  <ul class="checks">
                    {report.checks
                      .filter((check) => check.group === group)
                      .sort((one, other) => ORDER.indexOf(one.state) - ORDER.indexOf(other.state))
                      .map((check) => (
                        <One key={check.id} check={check} again={found.again} canSilence={mayChange} />
                      ))}
                  </ul>
                </section>
              ))}
            </>
          );
        }}
      </Shown>
    </>
  );
}
