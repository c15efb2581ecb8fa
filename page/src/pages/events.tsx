// SPDX-License-Identifier: Apache-2.0
import { useState } from "preact/hooks";
import { LISTS } from "../core/cluster";
import { notedStore } from "../core/live";
import { useStore } from "../core/store";
import { Card, Choice, TextField, Title } from "../parts/basics";
import { EventList } from "../parts/event-list";
import { t, word } from "../texts";

export function Events() {
  const all = useStore(notedStore, (value) => value);
  const [list, setList] = useState("");
  const [name, setName] = useState("");
  const wanted = all.filter((event) => (!list || event.list === list) && event.key.includes(name.trim()));
  const lists = ["/status", ...Object.values(LISTS).map((one) => one.path)];
  return (
    <>
      <Title text={t("way.events")} />
      <p class="lead">{t("events.lead")}</p>
      <Card>
        <div class="filters">
          <Choice
            label={t("events.of")}
            value={list}
            set={setList}
            of={[["", t("events.all")], ...lists.map((path): [string, string] => [path, word("list", path)])]}
          />
          <TextField label={t("name")} value={name} set={setName} />
        </div>
        <EventList events={wanted} />
      </Card>
    </>
  );
}
