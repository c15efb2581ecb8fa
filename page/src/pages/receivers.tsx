// SPDX-License-Identifier: Apache-2.0
// Who is told of what health checks find.
import { useState } from "preact/hooks";
import { type Schemas, api, may, told } from "../core/api";
import { Chip, Choice, Note, State, TextField } from "../parts/basics";
import { Dialog, Opens } from "../parts/dialog";
import { Shown, useLoaded } from "../parts/loading";
import { Table } from "../parts/table";
import { language, t, word } from "../texts";

type Receiver = Schemas["ReceiverReport"];
type Way = Schemas["ReceiverWay"];
type Kind = Way["kind"];
type Tls = Schemas["MailTls"];
type Level = Schemas["NoticeLevel"];
const KINDS: Kind[] = ["webhook", "email", "syslog"];
const TLS: Tls[] = ["starttls", "tls", "none"];
const LEVELS: Level[] = ["yellow", "red"];
/** Who is told is reminded once a day. */
const REMIND_SECONDS = 86_400;

const named = <T extends string>(of: T[], say: (one: T) => string) => of.map((one): [string, string] => [one, say(one)]);

/** A receiver as somebody types it. */
interface Typed {
  kind: Kind;
  to: string;
  secret: string;
  smtp: string;
  from: string;
  user: string;
  tls: Tls;
}

const BLANK: Typed = { kind: "webhook", to: "", secret: "", smtp: "", from: "", user: "", tls: "starttls" };

function wayOf(typed: Typed): Way {
  const [to, secret, user] = [typed.to.trim(), typed.secret || null, typed.user.trim() || null];
  switch (typed.kind) {
    case "webhook":
      return { kind: "webhook", url: to, secret };
    case "email": {
      const from = typed.from.trim() || `gabion@${to.split("@").pop()}`;
      return { kind: "email", address: to, from, smtp: typed.smtp.trim(), tls: typed.tls, user, password: secret };
    }
    case "syslog":
      return { kind: "syslog", address: to || null, tcp: false };
  }
}

function Add({ done, close }: { done: () => void; close: () => void }) {
  const [name, setName] = useState("");
  const [level, setLevel] = useState<Level>("yellow");
  const [typed, setTyped] = useState<Typed>(BLANK);
  const set = (part: Partial<Typed>) => setTyped({ ...typed, ...part });
  const { kind } = typed;
  const lacks = name.trim() === "" || (kind !== "syslog" && typed.to.trim() === "") || (kind === "email" && typed.smtp.trim() === "");
  const run = async () => {
    const body = { name: name.trim(), way: wayOf(typed), from_state: level, groups: [], remind_seconds: REMIND_SECONDS };
    await told(api.POST("/api/v1/receivers", { body }));
    done();
    return t("receiver.added", { name: name.trim() });
  };
  return (
    <Dialog title={t("receiver.add")} act={t("receiver.add")} disabled={lacks} run={run} close={close}>
      <TextField label={t("name")} value={name} set={setName} required />
      <Choice label={t("receiver.kind")} value={kind} set={(value) => set({ kind: value as Kind })} of={named(KINDS, (one) => word("receiver-kind", one))} />
      <TextField label={word("receiver-to", kind)} value={typed.to} set={(to) => set({ to })} required={kind !== "syslog"} hint={word("receiver-hint", kind)} />
      {kind === "email" && (
        <>
          <TextField label={t("receiver.smtp")} value={typed.smtp} set={(smtp) => set({ smtp })} required hint={t("receiver.smtp-hint")} />
          <TextField label={t("receiver.from")} value={typed.from} set={(from) => set({ from })} hint={t("receiver.from-hint")} />
          <Choice label={t("receiver.tls")} value={typed.tls} set={(value) => set({ tls: value as Tls })} of={named(TLS, (one) => word("mail-tls", one))} />
          <TextField label={t("receiver.user")} value={typed.user} set={(user) => set({ user })} />
        </>
      )}
      {kind !== "syslog" && (
        <TextField
          label={t(kind === "email" ? "receiver.password" : "receiver.secret")}
          password
          value={typed.secret}
          set={(secret) => set({ secret })}
          hint={t("receiver.secret-hint")}
        />
      )}
      <Choice label={t("receiver.level")} value={level} set={(value) => setLevel(value as Level)} of={named(LEVELS, (one) => word("receiver-level", one))} />
    </Dialog>
  );
}

function Test({ receiver, close }: { receiver: Receiver; close: () => void }) {
  const run = async () => {
    const said = await told(api.POST("/api/v1/receivers/{name}/test", { params: { path: { name: receiver.name } } }));
    return t("receiver.tested", { name: said.name, answer: said.answer });
  };
  return (
    <Dialog title={t("receiver.test-title", { name: receiver.name })} act={t("receiver.test")} run={run} close={close}>
      <p>{t("receiver.test-means", { target: receiver.target })}</p>
    </Dialog>
  );
}

function Delete({ receiver, done, close }: { receiver: Receiver; done: () => void; close: () => void }) {
  const run = async () => {
    await told(api.DELETE("/api/v1/receivers/{name}", { params: { path: { name: receiver.name } } }));
    done();
    return t("receiver.deleted", { name: receiver.name });
  };
  return (
    <Dialog title={t("receiver.delete-title", { name: receiver.name })} act={t("delete")} danger name={receiver.name} run={run} close={close}>
      <p>{t("receiver.delete-means")}</p>
    </Dialog>
  );
}

function Target({ receiver }: { receiver: Receiver }) {
  return (
    <>
      {receiver.target}
      {receiver.is_in_clear && <div class="soft">{t("receiver.in-clear")}</div>}
      {receiver.trouble && <Note tone="warn">{receiver.trouble}</Note>}
    </>
  );
}

function How({ receiver }: { receiver: Receiver }) {
  if (receiver.trouble) return <Chip tone="warn">{t("receiver.not-told")}</Chip>;
  return <Chip tone="good">{receiver.open > 0 ? t("receiver.knows", { count: receiver.open }) : t("receiver.well")}</Chip>;
}

function Buttons({ receiver, again }: { receiver: Receiver; again: () => void }) {
  return (
    <div class="buttons">
      {may("POST /api/v1/receivers/{name}/test") && (
        <Opens text={t("receiver.test")} dialog={(close) => <Test receiver={receiver} close={close} />} />
      )}
      {may("DELETE /api/v1/receivers/{name}") && (
        <Opens text={t("delete")} class="danger-line" dialog={(close) => <Delete receiver={receiver} done={again} close={close} />} />
      )}
    </div>
  );
}

export function Receivers() {
  const found = useLoaded(() => told(api.GET("/api/v1/receivers")), []);
  const when = new Intl.DateTimeFormat(language(), { dateStyle: "medium", timeStyle: "short" });
  const told_at = (receiver: Receiver) => (receiver.told_at == null ? t("receiver.never") : when.format(receiver.told_at * 1000));
  return (
    <>
      <p class="soft">{t("receiver.means")}</p>
      <Shown of={found}>
        {(receivers) => (
          <Table
            label={t("receivers")}
            items={receivers}
            keyOf={(receiver) => receiver.name}
            empty={t("receiver.none")}
            columns={[
              { name: t("name"), by: (receiver) => receiver.name, show: (receiver) => <b>{receiver.name}</b> },
              { name: t("receiver.kind"), by: (receiver) => receiver.kind, show: (receiver) => word("receiver-kind", receiver.kind) },
              { name: t("receiver.target"), by: (receiver) => receiver.target, show: (receiver) => <Target receiver={receiver} /> },
              { name: t("receiver.level"), by: (receiver) => receiver.from_state, show: (receiver) => <State of={receiver.from_state} kind="health" /> },
              { name: t("receiver.told"), by: (receiver) => receiver.told_at ?? 0, show: told_at },
              { name: t("state"), by: (receiver) => receiver.trouble ?? "", show: (receiver) => <How receiver={receiver} /> },
              { name: t("actions"), show: (receiver) => <Buttons receiver={receiver} again={found.again} /> },
            ]}
          />
        )}
      </Shown>
      {may("POST /api/v1/receivers") && <Opens text={t("receiver.add")} dialog={(close) => <Add done={found.again} close={close} />} />}
    </>
  );
}
