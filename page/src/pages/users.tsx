// SPDX-License-Identifier: Apache-2.0
// People who may sign in.
import { useState } from "preact/hooks";
import { type Role, type Schemas, api, told } from "../core/api";
import { sessionStore } from "../core/session";
import { useStore } from "../core/store";
import { parseSpan, span } from "../core/units";
import { Card, Chip, Choice, Code, Note, TextField, Title } from "../parts/basics";
import { Dialog, Opens } from "../parts/dialog";
import { Shown, useLoaded } from "../parts/loading";
import { ChoosePassword } from "../parts/password";
import { Table } from "../parts/table";
import { language, t, word } from "../texts";

type User = Schemas["UserReport"];
type NewCode = Schemas["NewCodeReport"];
type Made = (code: NewCode) => void;

const ROLES: Role[] = ["viewer", "operator", "administrator"];

function RoleChoice({ role, set }: { role: Role; set: (role: Role) => void }) {
  return (
    <Choice
      label={t("token.role")}
      value={role}
      set={(value) => set(value as Role)}
      of={ROLES.map((one): [string, string] => [one, word("role", one)])}
      hint={word("role-means", role)}
    />
  );
}

function Time({ time, set }: { time: string; set: (time: string) => void }) {
  const seconds = parseSpan(time);
  return (
    <TextField
      label={t("user.code-for")}
      value={time}
      set={set}
      error={seconds ? null : t("settings.no-time")}
      hint={seconds ? span(seconds) : ""}
    />
  );
}

function Create({ made, close }: { made: Made; close: () => void }) {
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("viewer");
  const [time, setTime] = useState("1 d");
  const seconds = parseSpan(time);
  const run = async () => {
    made(await told(api.POST("/api/v1/users", { body: { name: name.trim(), role, seconds: seconds ?? 0 } })));
    return null;
  };
  return (
    <Dialog title={t("user.create")} act={t("create.act")} disabled={name.trim() === "" || !seconds} run={run} close={close}>
      <TextField label={t("name")} value={name} set={setName} required />
      <RoleChoice role={role} set={setRole} />
      <Time time={time} set={setTime} />
    </Dialog>
  );
}

function NewCodeFor({ user, made, close }: { user: User; made: Made; close: () => void }) {
  const [time, setTime] = useState("1 d");
  const seconds = parseSpan(time);
  const params = { path: { name: user.name } };
  const run = async () => {
    made(await told(api.POST("/api/v1/users/{name}/code", { params, body: { seconds: seconds ?? 0 } })));
    return null;
  };
  return (
    <Dialog title={t("user.code-title", { name: user.name })} act={t("create.act")} disabled={!seconds} run={run} close={close}>
      <p>{t("user.code-means")}</p>
      <Time time={time} set={setTime} />
    </Dialog>
  );
}

function ChangeRole({ user, done, close }: { user: User; done: () => void; close: () => void }) {
  const [role, setRole] = useState<Role>(user.role);
  const run = async () => {
    await told(api.PUT("/api/v1/users/{name}/role", { params: { path: { name: user.name } }, body: { role } }));
    done();
    return t("settings.done");
  };
  return (
    <Dialog title={t("user.role-title", { name: user.name })} act={t("save")} disabled={role === user.role} run={run} close={close}>
      <RoleChoice role={role} set={setRole} />
      <p>{t("user.role-at-once")}</p>
    </Dialog>
  );
}

function Delete({ user, done, close }: { user: User; done: () => void; close: () => void }) {
  const own = useStore(sessionStore, (session) => session.who?.isUser && session.who.name === user.name);
  const run = async () => {
    await told(api.DELETE("/api/v1/users/{name}", { params: { path: { name: user.name } } }));
    done();
    return t("user.deleted", { name: user.name });
  };
  return (
    <Dialog title={t("user.delete-title", { name: user.name })} act={t("delete")} danger name={user.name} run={run} close={close}>
      <p>{t("user.delete-means", { count: user.sessions })}</p>
      {own && <Note tone="bad">{t("user.own")}</Note>}
    </Dialog>
  );
}

function Actions({ user, made, done }: { user: User; made: Made; done: () => void }) {
  return (
    <div class="buttons">
      <Opens text={t("user.code")} dialog={(close) => <NewCodeFor user={user} made={made} close={close} />} />
      <Opens text={t("token.role")} dialog={(close) => <ChangeRole user={user} done={done} close={close} />} />
      <Opens text={t("sign-in.password")} dialog={(close) => <ChoosePassword name={user.name} close={close} />} />
      <Opens text={t("delete")} class="danger-line" dialog={(close) => <Delete user={user} done={done} close={close} />} />
    </div>
  );
}

export function Users() {
  const found = useLoaded(() => told(api.GET("/api/v1/users")), []);
  const [code, setCode] = useState<NewCode | null>(null);
  const made = (one: NewCode) => {
    setCode(one);
    found.again();
  };
  const when = new Intl.DateTimeFormat(language(), { dateStyle: "medium", timeStyle: "short" });
  return (
    <>
      <Title
        text={t("way.users")}
        aside={<Opens text={t("user.create")} class="first" dialog={(close) => <Create made={made} close={close} />} />}
      />
      <div role="status">
        {code && (
          <Note tone="good">
            <p>{t("user.once", { name: code.name })}</p>
            <Code text={code.code} label={t("user.code-of", { name: code.name })} />
            <button type="button" onClick={() => setCode(null)}>
              {t("token.noted")}
            </button>
          </Note>
        )}
      </div>
      <Card>
        <Shown of={found}>
          {(users) => (
            <Table
              label={t("way.users")}
              items={users}
              keyOf={(user) => user.name}
              empty={t("user.none")}
              columns={[
                { name: t("name"), by: (user) => user.name, show: (user) => <b>{user.name}</b> },
                { name: t("token.role"), by: (user) => user.role, show: (user) => <Chip tone="calm">{word("role", user.role)}</Chip> },
                {
                  name: t("user.signs-in"),
                  show: (user) => (
                    <>
                      {user.has_password && t("user.by-password")}
                      {user.has_password && user.code_expires != null && ", "}
                      {user.code_expires != null && t("user.by-code", { time: when.format(user.code_expires * 1000) })}
                      {!user.has_password && user.code_expires == null && t("user.cannot")}
                    </>
                  ),
                },
                { name: t("user.sessions"), right: true, by: (user) => user.sessions, show: (user) => user.sessions },
                { name: t("actions"), show: (user) => <Actions user={user} made={made} done={found.again} /> },
              ]}
            />
          )}
        </Shown>
      </Card>
    </>
  );
}
