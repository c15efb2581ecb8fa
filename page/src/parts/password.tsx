// SPDX-License-Identifier: Apache-2.0
import { useState } from "preact/hooks";
import { choosePassword } from "../core/sign-in";
import { t } from "../texts";
import { TextField } from "./basics";
import { Dialog } from "./dialog";

const SHORTEST = 12;

/** Gives a user a password: oneself, or somebody else. */
export function ChoosePassword({ name, close }: { name: string; close: () => void }) {
  const [password, setPassword] = useState("");
  const [again, setAgain] = useState("");
  const isLong = [...password].length >= SHORTEST;
  const run = async () => {
    await choosePassword(name, password);
    return t("password.done", { name });
  };
  return (
    <Dialog title={t("password.title", { name })} act={t("save")} disabled={!isLong || password !== again} run={run} close={close}>
      <TextField
        label={t("sign-in.password")}
        value={password}
        set={setPassword}
        autocomplete="new-password"
        password
        hint={t("password.hint")}
        error={password !== "" && !isLong ? t("password.short") : null}
      />
      <TextField
        label={t("password.again")}
        value={again}
        set={setAgain}
        autocomplete="new-password"
        password
        error={again !== "" && again !== password ? t("password.other") : null}
      />
    </Dialog>
  );
}
