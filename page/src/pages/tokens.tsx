// SPDX-License-Identifier: Apache-2.0
import { useState } from "preact/hooks";
import { type Role, type Schemas, api, told } from "../core/api";
import { sessionStore } from "../core/session";
import { useStore } from "../core/store";
import { parseSpan, span } from "../core/units";
import { Card, Chip, Choice, Code, Note, TextField, Title } from "../parts/basics";
import { Dialog, Opens } from "../parts/dialog";
import { Shown, useLoaded } from "../parts/loading";
import { Table } from "../parts/table";
import { language, t, word } from "../texts";

type Token = Schemas["TokenReport"];
const ROLES: Role[] = ["viewer", "operator", "administrator"];

function Create({ made, close }: { made: (token: Schemas["NewTokenReport"]) => void; close: () => void }) {
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("viewer");
  const [time, setTime] = useState("90 d");
  const seconds = parseSpan(time);
  const run = async () => {
    made(await told(api.POST("/api/v1/tokens", { body: { name: name.trim(), role, seconds: seconds ?? 0 } })));
    return null;
  };
  return (
    <Dialog title={t("token.create")} act={t("create.act")} disabled={name.trim() === "" || !seconds} run={run} close={close}>
      <TextField label={t("name")} value={name} set={setName} required />
      <Choice
        label={t("token.role")}
        value={role}
        set={(value) => setRole(value as Role)}
        of={ROLES.map((one): [string, string] => [one, word("role", one)])}
        hint={word("role-means", role)}
      />
      <TextField label={t("token.for")} value={time} set={setTime} error={seconds ? null : t("settings.no-time")} hint={seconds ? span(seconds) : ""} />
    </Dialog>
  );
}

function Delete({ token, done, close }: { token: Token; done: () => void; close: () => void }) {
  const own = useStore(sessionStore, (session) => session.who?.name === token.name);
  const run = async () => {
    await told(api.DELETE("/api/v1/tokens/{name}", { params: { path: { name: token.name } } }));
    done();
    return t("token.deleted", { name: token.name });
  };
  return (
    <Dialog title={t("token.delete-title", { name: token.name })} act={t("delete")} danger name={token.name} run={run} close={close}>
      <p>{t("token.delete-means")}</p>
      {own && <Note tone="bad">{t("token.own")}</Note>}
    </Dialog>
  );
}

export function Tokens() {
  const found = useLoaded(() => told(api.GET("/api/v1/tokens")), []);
  const [made, setMade] = useState<Schemas["NewTokenReport"] | null>(null);
  const when = new Intl.DateTimeFormat(language(), { dateStyle: "medium", timeStyle: "short" });
  const date = (seconds: number) => when.format(seconds * 1000);
  return (
    <>
      <Title
        text={t("way.tokens")}
        aside={
          <Opens
            text={t("token.create")}
            class="first"
            dialog={(close) => (
              <Create
                made={(token) => {
                  setMade(token);
                  found.again();
                }}
                close={close}
              />
            )}
          />
        }
      />
      <div role="status">
        {made && (
          <Note tone="good">
            <p>{t("token.once", { name: made.name })}</p>
            <Code text={made.token} label={t("token.text", { name: made.name })} />
            <button type="button" onClick={() => setMade(null)}>
              {t("token.noted")}
            </button>
          </Note>
        )}
      </div>
      <Card>
        <Shown of={found}>
          {(tokens) => (
            <Table
              label={t("way.tokens")}
              items={tokens}
              keyOf={(token) => token.name}
              empty={t("token.none")}
              columns={[
                { name: t("name"), by: (token) => token.name, show: (token) => <b>{token.name}</b> },
                { name: t("token.role"), by: (token) => token.role, show: (token) => <Chip tone="calm">{word("role", token.role)}</Chip> },
                { name: t("token.created"), by: (token) => token.created, show: (token) => date(token.created) },
                { name: t("token.expires"), by: (token) => token.expires, show: (token) => date(token.expires) },
                {
                  name: t("actions"),
                  show: (token) => (
                    <Opens text={t("delete")} class="danger-line" dialog={(close) => <Delete token={token} done={found.again} close={close} />} />
                  ),
                },
              ]}
            />
          )}
        </Shown>
      </Card>
    </>
  );
}
