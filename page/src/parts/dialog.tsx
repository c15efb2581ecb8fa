// SPDX-License-Identifier: Apache-2.0
// Dialogs: what an action will do, by name, and whether it is to be done.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { t } from "../texts";
import { saidOf } from "../core/live";
import { Note, TextField } from "./basics";
import { say } from "./toasts";

type Props = {
  title: string;
  /** What the button says. */
  act: string;
  danger?: boolean;
  /** What somebody has to type first. */
  name?: string;
  disabled?: boolean;
  /** Does it; what it returns is said when it is done. */
  run: () => Promise<string | null>;
  close: () => void;
  children?: ComponentChildren;
};

export function Dialog(props: Props) {
  const own = useRef<HTMLDialogElement>(null);
  const id = useId();
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    const dialog = own.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  const ready = !busy && !props.disabled && (props.name === undefined || typed === props.name);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (!ready) return;
    setBusy(true);
    setProblem(null);
    try {
      const done = await props.run();
      if (done !== null) say("good", done);
      props.close();
    } catch (error) {
      setProblem(saidOf(error, t("no-answer")));
    } finally {
      setBusy(false);
    }
  };
  return (
    <dialog ref={own} aria-labelledby={id} onClose={props.close}>
      <form onSubmit={submit}>
        <h2 id={id}>{props.title}</h2>
        <div class="inside">
          {props.children}
          {props.name !== undefined && (
            <TextField label={t("dialog.type-name", { name: props.name })} value={typed} set={setTyped} />
          )}
          <div role="alert">{problem && <Note tone="bad">{problem}</Note>}</div>
        </div>
        <footer>
          <button type="button" onClick={props.close}>
            {t("cancel")}
          </button>
          <button type="submit" class={props.danger ? "danger" : "first"} disabled={!ready} aria-busy={busy}>
            {busy ? t("under-way") : props.act}
          </button>
        </footer>
      </form>
    </dialog>
  );
}

/** A button that opens a dialog. */
export function Opens(props: {
  text: string;
  class?: string;
  disabled?: boolean;
  dialog: (close: () => void) => ComponentChildren;
}) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" class={props.class ?? ""} disabled={props.disabled ?? false} onClick={() => setOpen(true)}>
        {props.text}
      </button>
      {open && props.dialog(() => setOpen(false))}
    </>
  );
}
