// SPDX-License-Identifier: Apache-2.0
// How a volume is attached: text for each kind of client, made of the address that a host serves.

export type Door = { uri: string; socket: string | null; host: string | null; port: number; name: string };

/** Takes an NBD URI apart (`nbd+unix:///NAME?socket=PATH`, `nbd://HOST:PORT/NAME`). */
export function door(uri: string): Door | null {
  const found = /^(nbd(?:\+unix)?):\/\/([^/]*)\/([^?]*)(?:\?(.*))?$/.exec(uri);
  if (!found) return null;
  const [, scheme, place = "", path = "", query = ""] = found;
  const name = decodeURIComponent(path);
  if (scheme === "nbd+unix") {
    const socket = new URLSearchParams(query).get("socket");
    return socket ? { uri, socket, host: null, port: 0, name } : null;
  }
  const at = /^\[?([^\]]*?)\]?(?::(\d+))?$/.exec(place);
  return { uri, socket: null, host: at?.[1] ?? place, port: Number(at?.[2] ?? 10809), name };
}

/** As a word of a POSIX shell. */
export function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** As text between tags or in quotes of XML. */
export function inXml(text: string): string {
  const signs: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", "'": "&apos;", '"': "&quot;" };
  return text.replace(/[&<>'"]/g, (sign) => signs[sign] ?? sign);
}

export function qemu(of: Door): string {
  // A comma within a value is written twice.
  const value = (text: string) => text.replaceAll(",", ",,");
  const server = of.socket
    ? `server.type=unix,server.path=${value(of.socket)}`
    : `server.type=inet,server.host=${value(of.host ?? "")},server.port=${of.port}`;
  const drive = `driver=nbd,node-name=disk0,${server},export=${value(of.name)},reconnect-delay=60`;
  return `-blockdev ${quoted(drive)} \\\n-device virtio-blk-pci,drive=disk0`;
}

export function libvirt(of: Door): string {
  const host = of.socket
    ? `<host transport='unix' socket='${inXml(of.socket)}'/>`
    : `<host name='${inXml(of.host ?? "")}' port='${of.port}'/>`;
  return [
    "<disk type='network' device='disk'>",
    "  <driver name='qemu' type='raw' cache='none' discard='unmap' error_policy='stop'/>",
    `  <source protocol='nbd' name='${inXml(of.name)}'>`,
    `    ${host}`,
    "  </source>",
    "  <target dev='vda' bus='virtio'/>",
    "</disk>",
  ].join("\n");
}

/** The kernel's client of a machine. */
export function kernel(of: Door): string {
  const place = of.socket ? `-unix ${quoted(of.socket)}` : `${quoted(of.host ?? "")} ${of.port}`;
  return `nbd-client ${place} /dev/nbd0 -N ${quoted(of.name)} -block-size 4096 -timeout 90 -persist`;
}

/** A block device of a node, as a volume of Kubernetes that is there alone. */
export function kubernetes(of: Door, size: number, node: string): string {
  const name = of.name.toLowerCase().replace(/[^a-z0-9-]+/g, "-").replace(/^-+|-+$/g, "") || "volume";
  return [
    "apiVersion: v1",
    "kind: PersistentVolume",
    "metadata:",
    `  name: ${name}`,
    "spec:",
    "  capacity:",
    `    storage: "${size}"`,
    "  volumeMode: Block",
    "  accessModes: [ReadWriteOnce]",
    "  persistentVolumeReclaimPolicy: Retain",
    '  storageClassName: ""',
    "  local:",
    "    path: /dev/nbd0",
    "  nodeAffinity:",
    "    required:",
    "      nodeSelectorTerms:",
    "        - matchExpressions:",
    `            - { key: kubernetes.io/hostname, operator: In, values: ["${node}"] }`,
  ].join("\n");
}
