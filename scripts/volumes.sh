#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Steps of acceptance.sh, which sources it: one volume, its life and what may be asked of it.
# shellcheck disable=SC2154

# typed TEXT ARGUMENT...: runs gabion on a terminal and types the text.
typed() {
  python3 - "$GABION" "$@" <<'P'
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], [sys.argv[1], *sys.argv[3:]])
os.write(terminal, sys.argv[2].encode() + b"\n")
said = b""
try:
    while part := os.read(terminal, 4096):
        said += part
except OSError:
    pass # the other end is closed
print(said.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
P
}

deletion_asks() {
  gabion volume create precious --size 64M
  not typed other volume delete precious
  not typed yes volume rm precious
  test "$(gabion volume show precious --output json | field "it['size_bytes']")" = $((64 * MIB))
  typed precious volume delete precious | grep "Type its name"
  not gabion volume show precious
}

# Labels from the creation on, and what the list finds by them.
labels() {
  local bad=0
  found() { gabion volume list "$@" --output json | field "' '.join(v['name'] for v in it)"; }
  gabion volume create web-1 --size 64MiB --label env=prod --label tier=web
  gabion volume create web-2 --size 64MiB --label env=test
  test "$(found --label env)" = "web-1 web-2"
  test "$(found --label env=prod --label tier)" = web-1
  test "$(found --name 'web-?' --sort name --reverse)" = "web-2 web-1"
  test "$(found --name 'web-*' --label env=none)" = ""
  gabion volume list --label env=none | grep -x "no volume is as asked for"
  gabion volume label web-2 env=prod tier=db
  gabion volume label web-2 tier-
  refused 1 volume label web-2 tier-
  grep -q "has no label 'tier'" "$area/stderr"
  refused 2 volume label web-2 tier
  refused 2 volume label web-2 env=a env-
  refused 2 volume create web-3 --size 64MiB --label env
  gabion volume rename web-2 db-2
  gabion volume show db-2 | grep -x "labels: env=prod"
  gabion volume list --label env=prod --labels | grep -E "^ *web-1 .* env=prod,tier=web"
  gabion volume delete web-1 --now --yes
  gabion volume delete db-2 --now --yes
  test "$bad" = 0
}

# Larger under a client, another name, deleted and back.
life_of_a_volume() {
  local bad=0
  size() { nbdinfo --size "$(uri "$1" "$2")"; }
  gabion volume create grows --size 64MiB
  qemu-io -f raw -c "write -P 0x61 60M 4M" "$(uri grows 0)" | not_failed
  # A client that is connected goes on; those that come see the new size.
  # Debian's libnbd is for Debian's python.
  /usr/bin/python3 - "$GABION" "$(uri grows 0)" <<'P'
import nbd, subprocess, sys

client = nbd.NBD()
client.connect_uri(sys.argv[2])
subprocess.run([sys.argv[1], "volume", "grow", "grows", "--by", "36MiB"], check=True)
assert client.get_size() == 64 << 20, client.get_size()
client.pwrite(b"a" * 4096, (64 << 20) - 4096)
P
  test "$(size grows 1)" = $((100 * MIB))
  qemu-io -f raw -c "write -P 0x62 63M 37M" "$(uri grows 1)" | not_failed
  qemu-io -f raw -c "read -P 0x61 60M 3M" -c "read -P 0x62 63M 37M" "$(uri grows 2)" | not_failed
  refused 2 volume grow grows --size 64MiB
  refused 2 volume grow grows
  gabion volume grow grows --size 101MiB --output json | field "it['size_bytes']" | grep -x $((101 * MIB))
  gabion volume rename grows grown
  not gabion volume show grows
  refused 1 volume rename grown first
  grep -q "there is a volume 'first' already" "$area/stderr"
  gabion volume delete grown --yes
  not gabion volume show grown
  gabion volume list --deleted | grep grown
  gabion volume create grown --size 64MiB
  refused 1 volume undelete grown
  gabion volume undelete grown --name back
  qemu-io -f raw -c "read -P 0x61 60M 3M" -c "read -P 0x62 63M 37M" "$(uri back 2)" | not_failed
  gabion volume delete grown --yes; gabion volume delete back --yes
  refused 2 volume purge back
  gabion volume purge back --yes
  gabion volume purge grown --yes
  refused 1 volume undelete back
  # The host that is asked may hear of it a moment later.
  local ours="[v['name'] for v in it if v['name'] in ('grown', 'back')]"
  left() { gabion volume list --deleted --output json | field "$ours"; }
  for _ in {1..50}; do
    [ "$(left)" != "[]" ] || break
    sleep 0.1
  done
  test "$(left)" = "[]"
  test "$bad" = 0
}

large_volume() {
  gabion volume create large --size 8TiB | grep "^note: .* times the "
  test "$(gabion volume show large | wc -l)" -lt 24
  test "$(gabion volume show large --all | wc -l)" -gt 66
  gabion volume rm large --now --yes
}

# The same bytes in and out of a volume that is striped, larger by stripes, and seen through every host.
striped() {
  local bad=0
  gabion volume create wide --size 64MiB --stripe-width 3
  test "$(gabion volume show wide --output json | field "len({c['object'] for c in it['components']})")" = 3
  head -c $((64 * MIB)) /dev/urandom >"$area/wide"
  nbdcopy "$area/wide" "$(uri wide 0)"
  nbdcopy "$(uri wide 1)" "$area/wide-out"
  cmp "$area/wide" "$area/wide-out"
  gabion volume grow wide --by 21MiB
  qemu-io -f raw -c "write -P 0x77 63M 20M" "$(uri wide 2)" | not_failed
  qemu-io -f raw -c "read -P 0x77 63M 20M" -c "read -P 0 83M 2M" "$(uri wide 0)" | not_failed
  nbdcopy "$(uri wide 1)" "$area/wide-out"
  cmp -n $((63 * MIB)) "$area/wide" "$area/wide-out"
  # Another width is for what it gets from then on.
  gabion policy create narrow --stripe-width 2
  gabion volume set-policy wide narrow | grep "85MiB of it were made before it was to be striped over 2"
  refused 2 volume create wider --size 64MiB --stripe-width 13
  rm "$area/wide" "$area/wide-out"
  gabion volume delete wide --now --yes
  gabion policy delete narrow
  test "$bad" = 0
}

change_reserve() {
  local bad=0 kept
  local spaces="[d['space'] for g in it for d in g['devices'] if d['space']]"
  kept() {
    gabion group list --output json | field "sum(s['promised_bytes'] + s['allocated_bytes'] for s in $spaces)"
  }
  gabion volume create elastic --size 64MiB
  local before; before=$(kept)
  # In use meanwhile, by a client at another host than the one that is asked.
  qemu-io -f raw -c "write -P 0x51 0 1M" "$(uri elastic 1)" | not_failed
  gabion volume change elastic --reserve 100
  test "$(gabion volume show elastic --output json | field "it['reserve_percent']")" = 100
  test $(($(kept) - before)) -ge $((2 * 64 * MIB))
  gabion volume change elastic --reserve 100
  # Far more than there is: refused in one line that names a host, and nothing is changed.
  gabion volume create huge --size 1TiB
  refused 1 volume change huge --reserve 90
  grep -q "host.* missing on " "$area/stderr"
  test "$(gabion volume show huge --output json | field "it['reserve_percent']")" = 0
  refused 1 volume change absent --reserve 10
  refused 2 volume change elastic --reserve 101
  refused 2 volume change elastic
  gabion volume change elastic --reserve 0
  qemu-io -f raw -c "read -P 0x51 0 1M" "$(uri elastic 0)" | not_failed
  gabion volume delete huge --now --yes
  gabion volume delete elastic --now --yes
  test "$(gabion disk list --output json | field "set(d['latency']['health'] for d in it)")" = "{'ok'}"
  test "$bad" = 0
}

# A volume does what its limits let through, and says that requests waited for them.
limited() {
  if gabion policy create slow --iops 5 2>"$area/said"; then return 1; fi
  grep -e "--iops is from 32" "$area/said"
  gabion policy create slow --iops 500 --bandwidth 64MiB
  gabion volume create slow --size 64MiB --policy slow
  fio --name=v --ioengine=nbd --uri="$(uri slow 0)" --rw=randwrite --bs=4k --iodepth=16 --size=64M \
    --time_based --runtime=4 --output-format=json --output="$area/limited.json" &
  local load=$!
  background="$background $load"
  sleep 3
  gabion volume show slow | tee "$area/said"
  grep "limits: 500 IOPS, 64MiB/s" "$area/said"
  grep -E "^[0-9]+ requests waited for them on" "$area/said"
  wait "$load"
  python3 - "$area/limited.json" <<'P'
import json, sys
job = json.load(open(sys.argv[1]))["jobs"][0]["write"]
count, seconds = job["total_ios"], job["runtime"] / 1000
assert 0 < count <= 500 * (seconds + 1), (count, seconds)
print(f"note: {count / seconds:.0f} writes/s where 500 are let through")
P
  gabion policy edit slow --iops none --bandwidth none --yes
  gabion volume delete slow --now --yes
  gabion policy delete slow
}

# Clients of one host at a time write; another host takes over, and whoever was there is shut out.
one_writer() {
  local bad=0
  written_by() { test "$(gabion volume show lone --output json | field "it['writer'].get('host')")" = "$1"; }
  gabion volume create lone --size 64MiB
  written_by None
  # A machine that goes on where it is, for as long as its input is open.
  mkfifo "$area/orders"
  qemu-io -f raw "$(uri lone 0)" <"$area/orders" >"$area/machine.log" 2>&1 &
  local machine=$!
  background="$background $machine"
  exec 7>"$area/orders"
  echo "write -P 0x61 0 4k" >&7
  await 20 written_by host1
  # Anybody reads. Whoever writes elsewhere waits.
  qemu-io -f raw -c "read -P 0x61 0 4k" "$(uri lone 1)" | not_failed
  refused 1 volume takeover lone --host nobody
  gabion volume takeover lone --host host2 | tee "$area/said"
  grep -x "host2 writes to volume lone from now on" "$area/said"
  qemu-io -f raw -c "write -P 0x62 0 4k" -c "read -P 0x62 0 4k" "$(uri lone 1)" | not_failed
  await 20 written_by None
  # Nobody writes now, and the old machine may not all the same. Who comes anew may.
  echo "write -P 0x63 0 4k" >&7
  echo "read -P 0x62 0 4k" >&7
  exec 7>&-
  wait "$machine" || true
  cat "$area/machine.log"
  grep -q "write failed: Operation not permitted" "$area/machine.log"
  not grep -q "Pattern verification failed" "$area/machine.log"
  qemu-io -f raw -c "read -P 0x62 0 4k" -c "write -P 0x64 0 4k" "$(uri lone 0)" | not_failed
  gabion volume change lone --writers any | grep -x "writers: any host"
  refused 1 volume takeover lone --host host1
  refused 2 volume change lone --writers two
  refused 2 volume takeover lone
  gabion volume delete lone --now --yes
  test "$bad" = 0
}

# All of a volume of one copy is on the host that an operator names, and moves to another one under a client.
one_host() {
  local bad=0
  is_on() { # VOLUME HOST: all of it, whole
    local volume; volume=$(gabion volume show "$1" --output json)
    test "$(field "{c['host'] for c in it['components']}" <<<"$volume")" = "{'$2'}" &&
      test "$(field "it['compliance']['state']" <<<"$volume")" = compliant
  }
  refused 2 volume create near --size 64MiB --on host2
  refused 1 volume create near --size 64MiB --ftt 0 --on nobody
  gabion volume create near --size 64MiB --ftt 0 --on host2
  is_on near host2
  fio --name=v --ioengine=nbd --uri="$(uri near 0)" --rw=randwrite --bs=4k --iodepth=8 --size=64M --verify=crc32c \
    --do_verify=1 >"$area/fio.log" &
  local load=$!
  background="$background $load"
  gabion volume change near --on host3 | grep -x "volume near is kept on host3"
  await 60 is_on near host3
  wait "$load"
  refused 1 volume move near --from host3
  refused 2 volume change near --ftt 1
  refused 1 host maintenance enter host3 --mode full-evacuation --yes
  grep -q "volume near could not be used without it" "$area/stderr"
  gabion volume explain near | grep "the volume is kept on host3"
  gabion volume change near --anywhere | grep -x "volume near is kept wherever there is room"
  # A policy: each volume on the host that is asked, or on the one that is named.
  refused 2 policy create local --affinity host
  gabion policy create local --ftt 0 --affinity host | grep "0, on one host"
  gabion volume create there --size 64MiB --policy local --on host1
  is_on there host1
  gabion what-if policy local --volume near
  gabion volume set-policy near local
  gabion volume show near | grep -x "kept on: host3"
  refused 1 policy delete local
  gabion volume delete near --now --yes
  gabion volume delete there --now --yes
  gabion policy delete local
  test "$bad" = 0
}
