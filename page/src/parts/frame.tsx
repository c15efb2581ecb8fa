// SPDX-License-Identifier: Apache-2.0
// What is around each page: the ways to all of them, who is signed in, and whether there is touch.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { clusterStore, touchStore, tryNow } from "../core/live";
import { routeStore, to } from "../core/route";
import { sessionStore } from "../core/session";
import { signOut } from "../core/sign-in";
import { useStore } from "../core/store";
import { span } from "../core/units";
import { type Language, type TextKey, setLanguage, t, useLanguage, word } from "../texts";
import { State } from "./basics";
import { Opens } from "./dialog";
import { Icon, type IconName } from "./icons";
import { ChoosePassword } from "./password";

type Way = { path: string; icon: IconName; role?: "administrator" };

const WAYS: Way[][] = [
  [
    { path: "", icon: "overview" },
    { path: "hosts", icon: "hosts" },
    { path: "volumes", icon: "volumes" },
    { path: "resync", icon: "resync" },
  ],
  [
    { path: "health", icon: "health" },
    { path: "events", icon: "events" },
    { path: "audit", icon: "audit", role: "administrator" },
  ],
  [
    { path: "policies", icon: "policies" },
    { path: "users", icon: "users", role: "administrator" },
    { path: "tokens", icon: "tokens", role: "administrator" },
    { path: "settings", icon: "settings" },
  ],
];

/** Each page is a part of the way that leads to it. */
const PARTS: Record<string, string> = { groups: "hosts" };

function Ways({ close }: { close: () => void }) {
  const here = useStore(routeStore, (route) => PARTS[route[0] ?? ""] ?? route[0] ?? "");
  const role = useStore(sessionStore, (session) => session.who?.role);
  const resyncs = useStore(clusterStore, (cluster) => cluster.resyncs.size);
  return (
    <>
      {WAYS.map((ways, at) => (
        <ul key={at}>
          {ways
            .filter((way) => !way.role || way.role === role)
            .map(({ path, icon }) => (
              <li key={path}>
                <a href={path ? to(path) : "#/"} aria-current={here === path ? "page" : undefined} onClick={close}>
                  <Icon name={icon} />
                  {t(`way.${path || "overview"}` as TextKey)}
                  {path === "resync" && resyncs > 0 && <span class="count">{resyncs}</span>}
                </a>
              </li>
            ))}
        </ul>
      ))}
    </>
  );
}

export function LanguageSwitch() {
  const language = useLanguage();
  return (
    <label class="language">
      <span class="unseen">{t("language")}</span>
      <select value={language} onChange={(event) => setLanguage(event.currentTarget.value as Language)}>
        <option value="en">English</option>
        <option value="de">Deutsch</option>
      </select>
    </label>
  );
}

/** The seconds since a moment, while somebody looks. */
export function useNow(on: boolean): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!on) return undefined;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [on]);
  return now;
}

function LostTouch() {
  const touch = useStore(touchStore, (value) => value);
  const answers = useStore(clusterStore, (cluster) => cluster.answers);
  const isLost = touch.state === "lost";
  const now = useNow(isLost);
  return (
    <div role="status" aria-live="polite">
      {isLost && (
        <div class="banner bad">
          <span>{t("lost.touch", { time: new Date(touch.since).toLocaleTimeString() })}</span>
          <span aria-hidden="true">{span((now - touch.since) / 1000)}</span>
          <button type="button" onClick={tryNow}>
            {t("lost.try")}
          </button>
        </div>
      )}
      {!isLost && !answers && <div class="banner bad">{t("lost.hosts")}</div>}
    </div>
  );
}

/** Who has signed in with a code is asked to choose a password; who has one may choose another. */
function Password() {
  const who = useStore(sessionStore, (session) => session.who);
  if (!who?.lacksPassword) return null;
  return (
    <div class="banner info">
      <span>{t("password.lacks")}</span>
      <Opens text={t("password.choose")} dialog={(close) => <ChoosePassword name={who.name} close={close} />} />
    </div>
  );
}

function Top({ open, setOpen }: { open: boolean; setOpen: (open: boolean) => void }) {
  const who = useStore(sessionStore, (session) => session.who);
  const health = useStore(clusterStore, (cluster) => cluster.health);
  const touch = useStore(touchStore, (value) => value.state);
  return (
    <header class="top">
      <button
        type="button"
        class="plain menu"
        aria-expanded={open}
        aria-controls="ways"
        aria-label={t("menu")}
        onClick={() => setOpen(!open)}
      >
        <Icon name={open ? "close" : "menu"} />
      </button>
      <a class="name" href="#/">
        <span class="mark" aria-hidden="true" />
        Gabion
      </a>
      <a class="state" href={to("health")} aria-label={`${t("way.health")}: ${word("health", health)}`}>
        <State of={health} kind="health" />
      </a>
      <span class={`touch ${touch}`}>
        <span class="dot" aria-hidden="true" />
        {t(`touch.${touch}`)}
      </span>
      <span class="space" />
      <LanguageSwitch />
      {who && (
        <span class="who">
          <span>
            <b>{who.name}</b>
            <small>{word("role", who.role)}</small>
          </span>
          <button type="button" class="plain" aria-label={t("sign-out")} title={t("sign-out")} onClick={() => void signOut()}>
            <Icon name="leave" />
          </button>
        </span>
      )}
    </header>
  );
}

export function Frame({ children }: { children: ComponentChildren }) {
  const [open, setOpen] = useState(false);
  const isFirst = useStore(touchStore, (touch) => touch.state === "first");
  useEffect(() => {
    const close = (event: KeyboardEvent) => event.key === "Escape" && setOpen(false);
    addEventListener("keydown", close);
    return () => removeEventListener("keydown", close);
  }, []);
  const toMain = (event: Event) => {
    event.preventDefault();
    document.getElementById("main")?.focus();
  };
  return (
    <div class="frame">
      <a class="skip" href="#main" onClick={toMain}>
        {t("skip")}
      </a>
      <Top open={open} setOpen={setOpen} />
      <nav id="ways" class={open ? "open" : ""} aria-label={t("ways")}>
        <Ways close={() => setOpen(false)} />
      </nav>
      <main id="main" tabIndex={-1}>
        <LostTouch />
        <Password />
        {isFirst ? <p class="empty" role="status">{t("loading")}</p> : children}
      </main>
    </div>
  );
}
