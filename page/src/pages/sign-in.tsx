// SPDX-License-Identifier: Apache-2.0
import { useState } from "preact/hooks";
import { Refused } from "../core/api";
import { saidOf } from "../core/live";
import { sessionStore } from "../core/session";
import { isToken, signInBy, signInByToken } from "../core/sign-in";
import { useStore } from "../core/store";
import { Note, TextField } from "../parts/basics";
import { LanguageSwitch } from "../parts/frame";
import { type TextKey, t } from "../texts";

const WAYS = ["token", "password", "code"] as const;
type Way = (typeof WAYS)[number];

function problem(error: unknown, way: Way): string {
  if (!(error instanceof Refused)) return saidOf(error, t("no-answer"));
  if (error.status === 404) return t("sign-in.no-sessions");
  if (error.status === 401) return t(`sign-in.wrong-${way}`);
  return error.detail;
}

export function SignIn() {
  const reason = useStore(sessionStore, (session) => session.reason);
  const [way, setWay] = useState<Way>("token");
  const [said, setSaid] = useState({ token: "", user: "", password: "", code: "" });
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState<string | null>(null);
  const set = (name: keyof typeof said) => (value: string) => setSaid((was) => ({ ...was, [name]: value }));
  const submit = async (event: Event) => {
    event.preventDefault();
    setFailed(null);
    if (way === "token" && !isToken(said.token)) return setFailed(t("sign-in.no-token"));
    setBusy(true);
    try {
      if (way === "token") await signInByToken(said.token);
      else if (way === "code") await signInBy({ code: said.code.trim() });
      else await signInBy({ user: said.user, password: said.password });
    } catch (error) {
      setFailed(problem(error, way));
      setBusy(false);
    }
  };
  return (
    <main class="sign-in">
      <form onSubmit={submit}>
        <div class="name">
          <span class="mark" aria-hidden="true" />
          <h1>Gabion</h1>
          <LanguageSwitch />
        </div>
        {reason === "expired" && <Note tone="warn">{t("sign-in.expired")}</Note>}
        <fieldset class="tabs">
          <legend class="unseen">{t("sign-in.how")}</legend>
          {WAYS.map((one) => (
            <label key={one} class={one === way ? "on" : ""}>
              <input type="radio" name="way" checked={one === way} onChange={() => setWay(one)} />
              {t(`sign-in.by-${one}` as TextKey)}
            </label>
          ))}
        </fieldset>
        {way === "token" && (
          <TextField
            label={t("sign-in.token")}
            value={said.token}
            set={set("token")}
            hint={
              <>
                {t("sign-in.token-hint")} <code>gabion token create NAME --role operator</code>
              </>
            }
            placeholder="gbn_..."
            password
            required
          />
        )}
        {way === "password" && (
          <>
            <TextField label={t("sign-in.user")} value={said.user} set={set("user")} autocomplete="username" required />
            <TextField
              label={t("sign-in.password")}
              value={said.password}
              set={set("password")}
              autocomplete="current-password"
              password
              required
            />
          </>
        )}
        {way === "code" && (
          <TextField
            label={t("sign-in.code")}
            value={said.code}
            set={set("code")}
            hint={t("sign-in.code-hint")}
            autocomplete="one-time-code"
            required
          />
        )}
        <div role="alert">{failed && <Note tone="bad">{failed}</Note>}</div>
        <button type="submit" class="first" disabled={busy} aria-busy={busy}>
          {busy ? t("under-way") : t("sign-in")}
        </button>
        <p class="hint">{t("sign-in.kept")}</p>
      </form>
    </main>
  );
}
