// SPDX-License-Identifier: Apache-2.0
// How a machine becomes a host: an invitation, and the command that takes it.
import { useState } from "preact/hooks";
import { type Schemas, api, told } from "../core/api";
import { parseSpan, span } from "../core/units";
import { Code, Note, TextField } from "../parts/basics";
import { Dialog } from "../parts/dialog";
import { language, t } from "../texts";

type Invitation = Schemas["InviteReport"];

export function Invite({ made, close }: { made: (invitation: Invitation) => void; close: () => void }) {
  const [time, setTime] = useState("1 h");
  const seconds = parseSpan(time);
  const run = async () => {
    made(await told(api.POST("/api/v1/invitations", { body: { seconds: seconds ?? 0 } })));
    return null;
  };
  return (
    <Dialog title={t("invite.title")} act={t("create.act")} disabled={!seconds} run={run} close={close}>
      <p>{t("invite.means")}</p>
      <TextField
        label={t("token.for")}
        value={time}
        set={setTime}
        error={seconds ? null : t("settings.no-time")}
        hint={seconds ? span(seconds) : ""}
      />
    </Dialog>
  );
}

export function Invited({ invitation, done }: { invitation: Invitation; done: () => void }) {
  const until = new Intl.DateTimeFormat(language(), { timeStyle: "short" }).format(invitation.expires * 1000);
  const command = [
    `gabion host join --invitation ${invitation.invitation} \\`,
    "  --name NAME --address ADDRESS --cache /dev/CACHE --capacity /dev/CAPACITY",
  ].join("\n");
  return (
    <Note tone="good">
      <p>{t("invite.once", { time: until })}</p>
      <Code text={command} label={t("invite.command")} />
      <button type="button" onClick={done}>
        {t("token.noted")}
      </button>
    </Note>
  );
}
