#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Other projects' NBD clients and tests, and every command of docs/clients.md, on a cluster of three processes.
# usage: clients.sh GABION [CACHE]      CACHE: where nbd-tester-client is built and kept
set -euo pipefail
GABION=${1:?usage: clients.sh GABION [CACHE]}
CACHE=${2:-target/clients}
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cache=$(mkdir -p "$CACHE" && realpath "$CACHE")
PATH=$PATH:/usr/sbin:/sbin
PYTHON=/usr/bin/python3 # the one that Debian's libnbd is for
port=""

socket() { echo "$GABION_DATA/host$1/nbd.sock"; }
# in_guide NAME: a block of the guide, with this cluster's places for the guide's
in_guide() {
  mkdir -p "$area/vm" "$area/fuse"
  python3 "$here/guide.py" "$1" "/run/gabion/nbd.sock=$(socket 1)" "/run/other/nbd.sock=$(socket 2)" \
    "192.0.2.1:10809=127.0.0.1:$port" "192.0.2.1 10809=127.0.0.1 $port" "/run/vm=$area/vm" \
    "/run/fuse=$area/fuse" "${@:2}"
}
run_guide() {
  in_guide "$@" >"$area/block.sh"; cat "$area/block.sh"
  (export -f gabion; bash -euo pipefail "$area/block.sh")
}
monitor() { python3 "$here/qmp.py" "$@" | tee "$area/monitor.log"; not grep -qiE 'failed|error' "$area/monitor.log"; }

port=$(python3 -c "import socket; s=socket.socket(); s.bind(('127.0.0.1',0)); print(s.getsockname()[1])")

start_cluster() {
  gabion up --processes --detach --cache-size 256MiB --capacity-size 1GiB --nbd-socket-mode 0666
  gabion down
  sed -i "s|^nbd = .*|nbd = [\"unix:$(socket 1)\", \"tcp:127.0.0.1:$port\"]|" "$GABION_DATA/host1/host.toml"
  gabion up --detach
  gabion volume create demo --size 256MiB
}

permissions() {
  test "$(stat -c %a "$(socket 1)")" = 666
  test "$(stat -c %a "$GABION_DATA/host1/control.sock")" = 600
  [ "$(id -u)" = 0 ] || skip "only root can be somebody else"
  chmod 755 "$area" "$GABION_DATA" "$GABION_DATA/host1"
  runuser -u nobody -- nbdinfo --size "$(uri demo 0)"
  cp "$GABION" "$area/gabion"
  # What the operator's tool says to whom it is not for.
  not runuser -u nobody -- env GABION_DATA="$GABION_DATA" "$area/gabion" status >"$area/denied.log" 2>&1
  grep "permission denied at the socket" "$area/denied.log"
}

tester() {
  local tester code=0
  tester=$("$here/nbd-tester.sh" "$cache") || code=$?
  [ "$code" != 77 ] || skip "no sources of nbd-tester-client"
  test "$code" = 0
  gabion volume create tester --size 16MiB
  gabion volume create fresh --size 64MiB
  for flags in "-h" "" "-w" "-w -f"; do
    # shellcheck disable=SC2086
    timeout 60 "$tester" -N tester $flags -u "$(socket 1)" >"$area/tester.log" 2>&1 ||
      { tail -c 500 "$area/tester.log"; exit 1; }
  done
  timeout 60 "$tester" -N tester@me -w -f 127.0.0.1 "$port" >/dev/null
  # It expects to read zeros before it writes.
  timeout 60 "$tester" -N fresh -i -t "$cache/integrity-test.tr" -u "$(socket 1)" >/dev/null
}

libnbd_aio() {
  "$PYTHON" -c "import nbd" 2>/dev/null || skip "no python3-libnbd"
  "$PYTHON" "$here/aio.py" "$(uri demo 0)" 1 3000 1
  "$PYTHON" "$here/aio.py" "nbd://127.0.0.1:$port/demo@aio" 1 3000 2
  "$PYTHON" "$here/aio.py" "$(uri demo 0)" 4 6000 3
}

# 30 clients that left, and 1,100 connections that say nothing.
crowd() {
  "$PYTHON" - "$(socket 1)" "$port" <<'P'
import socket, sys, time, subprocess
path, port = sys.argv[1], int(sys.argv[2])
go = b"\0\0\0\3IHAVEOPT" + b"".join(n.to_bytes(4, "big") for n in (7, 10, 4)) + b"demo\0\0"
for _ in range(30):
    client = socket.socket(socket.AF_UNIX); client.connect(path); client.sendall(go); client.close()
begin = time.monotonic()
subprocess.run(["nbdinfo", "--size", f"nbd+unix:///demo?socket={path}"], check=True, timeout=60)
behind = time.monotonic() - begin
silent = []
for _ in range(1100):
    client = socket.socket(); client.connect(("127.0.0.1", port)); silent.append(client)
begin = time.monotonic()
subprocess.run(["nbdinfo", "--size", f"nbd+unix:///demo?socket={path}"], check=True, timeout=60)
subprocess.run(["nbdinfo", "--size", f"nbd://127.0.0.1:{port}/demo@other"], check=True, timeout=60)
beside = time.monotonic() - begin
print(f"note: nbdinfo behind 30 that left {behind:.2f} s, two beside 1,100 silent ones {beside:.2f} s")
P
}

# Over TCP a running client stays when others come.
tcp_stays() {
  local in="$area/vm-io"
  mkfifo "$in"
  qemu-io -f raw "nbd://127.0.0.1:$port/demo" <"$in" >"$area/qemu-io.log" 2>&1 & background="$background $!"
  exec 8>"$in"
  echo "write -P 5 0 64k" >&8
  for _ in $(seq 100); do ! grep -q wrote "$area/qemu-io.log" || break; sleep 0.1; done
  not nbdinfo --size "nbd://127.0.0.1:$port/demo" 2>"$area/refused.log"
  cat "$area/refused.log"; grep -q "policy" "$area/refused.log"
  echo "read -P 5 0 64k" >&8; echo quit >&8; exec 8>&-
  wait "${background##* }"
  grep "read 65536/65536" "$area/qemu-io.log"; not grep -qiE 'failed|error' "$area/qemu-io.log"
  nbdinfo --size "nbd://127.0.0.1:$port/demo"
}

guide_tools() {
  run_guide names; run_guide connections | grep -E "connections: (exclusive|shared)"; run_guide elsewhere
  run_guide kernel
}

guide_libvirt() {
  { printf '<domain type="qemu"><name>vm</name><memory>65536</memory><os><type>hvm</type></os><devices>'
    in_guide disk.xml; printf '</devices></domain>'; } >"$area/domain.xml"
  if command -v virt-xml-validate >/dev/null; then virt-xml-validate "$area/domain.xml" domain
  else xmllint --noout "$area/domain.xml"; fi
}

stop_qemu() { for file in "$area"/vm/pid "$area"/vm2/pid; do [ ! -e "$file" ] || kill "$(cat "$file")" || true; done; }

guide_qemu() {
  command -v qemu-system-x86_64 >/dev/null || skip "no qemu-system-x86_64"
  trap 'stop_qemu; end_step' EXIT
  run_guide qemu
  monitor "$area/vm/qmp.sock" 'qemu-io disk0 "write -P 7 0 1M"'
  # The host's process dies under it and comes back: the request in between waits.
  gabion host kill host1
  ( sleep 2; gabion host start host1 ) & background="$background $!"
  monitor "$area/vm/qmp.sock" 'qemu-io disk0 "write -P 8 64k 64k"' 'qemu-io disk0 "read -P 7 0 64k"'
  # To another QEMU behind another host, and back to work there.
  mkdir -p "$area/vm2"
  in_guide qemu "$(socket 1)=$(socket 2)" "$area/vm/=$area/vm2/" >"$area/block.sh"
  sed -i "s|-device virtio|-incoming unix:$area/vm2/migrate.sock -device virtio|" "$area/block.sh"
  bash -euo pipefail "$area/block.sh"
  monitor "$area/vm/qmp.sock" "migrate -d unix:$area/vm2/migrate.sock"
  for _ in $(seq 200); do
    python3 "$here/qmp.py" "$area/vm/qmp.sock" "info migrate" >"$area/migrate.log"
    ! grep -qE "status: (completed|failed)" "$area/migrate.log" || break
    sleep 0.1
  done
  grep "status: completed" "$area/migrate.log"
  monitor "$area/vm2/qmp.sock" 'qemu-io disk0 "read -P 8 64k 64k"' 'qemu-io disk0 "write -P 9 128k 64k"' \
    'qemu-io disk0 "read -P 9 128k 64k"'
}

guide_fuse() {
  [ -w /dev/fuse ] || skip "no FUSE"
  touch "$area/fuse-is-here"
  in_guide fuse >"$area/block.sh"
  : >"$area/fuse/demo" # nbdfuse takes a file to mount on
  bash "$area/block.sh"
  fuse_folder="$area/fuse/demo"
  for _ in $(seq 100); do [ "$(stat -c %s "$area/fuse/demo")" = 0 ] || break; sleep 0.1; done
  test "$(stat -c %s "$area/fuse/demo")" = $((256 << 20))
  head -c 1M /dev/urandom >"$area/in"; dd if="$area/in" of="$area/fuse/demo" bs=64k conv=notrunc,fsync status=none
  cmp -n $((1 << 20)) "$area/in" "$area/fuse/demo"
}

step "three processes, one with TCP" start_cluster
[ "$failures" = 0 ] || { conclude clients; exit 1; }
step "socket permissions" permissions
step "nbd-tester-client" tester
step "libnbd, asynchronous" libnbd_aio
step "a crowd at the door" crowd
step "over TCP nobody is thrown out" tcp_stays
step "guide: nbdinfo, nbd-client" guide_tools
step "guide: libvirt" guide_libvirt
step "guide: QEMU, restart, migration" guide_qemu
step "guide: nbdfuse" guide_fuse
conclude clients
