// SPDX-License-Identifier: Apache-2.0
import { useState } from "preact/hooks";
import { door, kernel, kubernetes, libvirt, qemu } from "../core/attach";
import { type Volume, compare, hostOf, sorted } from "../core/cluster";
import { clusterStore } from "../core/live";
import { useStore } from "../core/store";
import { Choice, Code, Empty } from "../parts/basics";
import { t } from "../texts";

export function Attach({ volume }: { volume: Volume }) {
  const shards = useStore(clusterStore, (cluster) => cluster.shards);
  const [at, setAt] = useState(0);
  if (volume.nbd.length === 0) return <Empty>{t("attach.none")}</Empty>;
  // They are in the order of the hosts.
  const names = sorted(shards).map((shard) => shard.name).sort(compare);
  const uri = volume.nbd[at] ?? volume.nbd[0] ?? "";
  const found = door(uri);
  const called = (index: number) => (names.length === volume.nbd.length ? `${names[index]}: ` : "");
  const node = shards.get(names[at] ?? "");
  return (
    <div class="attach">
      <p>{t("attach.lead")}</p>
      <Choice
        label={t("attach.door")}
        value={String(at)}
        set={(value) => setAt(Number(value))}
        of={volume.nbd.map((one, index): [string, string] => [String(index), `${called(index)}${one}`])}
      />
      <h2>URI</h2>
      <Code text={uri} label="URI" />
      {found && (
        <>
          <h2>QEMU</h2>
          <p class="soft">{t("attach.qemu")}</p>
          <Code text={qemu(found)} label="QEMU" />
          <h2>libvirt</h2>
          <p class="soft">{t("attach.libvirt")}</p>
          <Code text={libvirt(found)} label="libvirt" />
          <h2>{t("attach.kernel")}</h2>
          <p class="soft">{t("attach.kernel-note")}</p>
          <Code text={kernel(found)} label={t("attach.kernel")} />
          <h2>Kubernetes</h2>
          <p class="soft">{t("attach.kubernetes")}</p>
          <Code text={kubernetes(found, volume.size_bytes, node ? hostOf(node) : "NODE")} label="Kubernetes" />
        </>
      )}
    </div>
  );
}
