// SPDX-License-Identifier: Apache-2.0
// What all pages are made of.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { language, t, word } from "../texts";
import * as units from "../core/units";
import { Icon } from "./icons";

export type Tone = "good" | "warn" | "bad" | "calm" | "info";

export const bytes = (value: number) => units.bytes(value, language());
export const percent = (part: number, whole: number) => units.percent(part, whole, language());
export const micros = (value: number) => units.micros(value, language());
export const number = (value: number, digits = 0) => units.number(value, language(), digits);

const TONES: Record<string, Tone> = {
  green: "good",
  yellow: "warn",
  red: "bad",
  up: "good",
  "not answering": "warn",
  down: "bad",
  active: "good",
  absent: "bad",
  away: "bad",
  degraded: "warn",
  resyncing: "info",
  ok: "good",
  slow: "warn",
  stuck: "bad",
  compliant: "good",
  changing: "info",
  "not-compliant": "warn",
  unknown: "calm",
  silenced: "calm",
};

export const toneOf = (value: string): Tone => TONES[value] ?? "warn";

/** A state: its colour never says it alone. */
export function Chip({ tone, children }: { tone: Tone; children: ComponentChildren }) {
  return (
    <span class={`chip ${tone}`}>
      <span class="dot" aria-hidden="true" />
      {children}
    </span>
  );
}

export function State({ of, kind }: { of: string; kind: string }) {
  return <Chip tone={toneOf(of)}>{word(kind, of)}</Chip>;
}

/** How full something is. */
export function Bar({ part, whole, label }: { part: number; whole: number; label: string }) {
  const full = whole > 0 ? Math.min(1, part / whole) : 0;
  const tone = full > 0.9 ? "bad" : full > 0.75 ? "warn" : "calm";
  const said = percent(part, whole);
  return (
    <span class={`bar ${tone}`} role="img" aria-label={`${label}: ${said}`} title={said}>
      <span style={{ width: `${(100 * full).toFixed(1)}%` }} />
    </span>
  );
}

export function Card(props: { title?: string; aside?: ComponentChildren; class?: string; children: ComponentChildren }) {
  const id = useId();
  return (
    <section class={`card ${props.class ?? ""}`} {...(props.title ? { "aria-labelledby": id } : {})}>
      {props.title && (
        <header>
          <h2 id={id}>{props.title}</h2>
          {props.aside && <div class="aside">{props.aside}</div>}
        </header>
      )}
      {props.children}
    </section>
  );
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}

/** Names and values. */
export function Facts({ of }: { of: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {of.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Note({ tone, children }: { tone: Tone; children: ComponentChildren }) {
  return <div class={`note ${tone}`}>{children}</div>;
}

/** The title of a page: it gets the focus when somebody comes to it, so that it is read aloud. */
export function Title(props: { text: string; above?: ComponentChildren; aside?: ComponentChildren }) {
  const own = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${props.text} \u00b7 Gabion`;
    own.current?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [props.text]);
  return (
    <header class="title">
      <div>
        {props.above && <div class="above">{props.above}</div>}
        <h1 ref={own} tabIndex={-1}>
          {props.text}
        </h1>
      </div>
      {props.aside && <div class="aside">{props.aside}</div>}
    </header>
  );
}

async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** A text to take along, with a button that does it. */
export function Code({ text, label }: { text: string; label: string }) {
  const [done, setDone] = useState(false);
  const own = useRef<HTMLPreElement>(null);
  const onClick = async () => {
    if (await copy(text)) {
      setDone(true);
      setTimeout(() => setDone(false), 2000);
    } else if (own.current) {
      getSelection()?.selectAllChildren(own.current);
    }
  };
  return (
    <div class="code">
      <pre ref={own} tabIndex={0} aria-label={label}>
        {text}
      </pre>
      <button type="button" class="plain" onClick={onClick} aria-label={`${t("copy")}: ${label}`}>
        <Icon name="copy" />
        <span aria-live="polite">{done ? t("copied") : t("copy")}</span>
      </button>
    </div>
  );
}

type FieldProps = { label: string; hint?: ComponentChildren; error?: string | null; children: (ids: FieldIds) => ComponentChildren };
export type FieldIds = { id: string; "aria-describedby": string; "aria-invalid": boolean };

export function Field({ label, hint, error, children }: FieldProps) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({ id, "aria-describedby": `${id}-hint`, "aria-invalid": Boolean(error) })}
      <div id={`${id}-hint`} class={error ? "hint error" : "hint"}>
        {error ?? hint}
      </div>
    </div>
  );
}

/** One line of text. */
export function TextField(props: {
  label: string;
  value: string;
  set: (value: string) => void;
  hint?: ComponentChildren;
  error?: string | null;
  required?: boolean;
  placeholder?: string;
  autocomplete?: string;
  password?: boolean;
}) {
  const { label, value, set, hint, error } = props;
  return (
    <Field label={label} hint={hint} error={error ?? null}>
      {(ids) => (
        <input
          {...ids}
          {...(props.password ? { type: "password" as const } : { type: "text" as const })}
          value={value}
          required={props.required ?? false}
          placeholder={props.placeholder ?? ""}
          autocomplete={props.autocomplete ?? "off"}
          autocapitalize="off"
          spellcheck={false}
          onInput={(event) => set(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

/** One of several. */
export function Choice(props: {
  label: string;
  value: string;
  set: (value: string) => void;
  of: [string, string][];
  hint?: ComponentChildren;
}) {
  return (
    <Field label={props.label} hint={props.hint}>
      {(ids) => (
        <select {...ids} value={props.value} onChange={(event) => props.set(event.currentTarget.value)}>
          {props.of.map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

export function Check(props: { label: string; value: boolean; set: (value: boolean) => void }) {
  return (
    <label class="check">
      <input type="checkbox" checked={props.value} onChange={(event) => props.set(event.currentTarget.checked)} />
      {props.label}
    </label>
  );
}
