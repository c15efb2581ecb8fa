#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Disk groups that change while a volume is written: made, extended, closed, opened, given a new device, removed.
# Every step is taken with a verifying client at work; no host is stopped.
# usage: groups.sh GABION
set -euo pipefail
GABION=${1:?usage: groups.sh GABION}
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

folder() { dirname "$(gabion disk list --output json | field "[d['path'] for d in it if d['host'] == '$1'][0]")"; }
groups_of() { gabion group list --output json | field "' '.join(g['id'] for g in it if g['host'] == '$1')"; }
health() { gabion volume show "$1" --output json | field "it['health']"; }
until_green() {
  for _ in $(seq 120); do [ "$(health "$1")" = green ] && return; sleep 0.5; done
  gabion status; say "$1 is not whole again after 60 s"; return 1
}
refused() { # COMMAND...: it must fail, and what it says be one line with the part before --
  local part=$1; shift
  if "$@" 2>"$area/said"; then say "not refused: $*"; return 1; fi
  grep -q "$part" "$area/said" || { cat "$area/said"; say "not the reason: $part"; return 1; }
}
# work NAME FUNCTION: the step, with a client that writes and checks meanwhile, and checks all afterwards.
work() {
  verifier load --uri "$(uri steady 0)" --state "$area/state" --seconds 8 --depth 4 >"$area/load.json" & load=$!
  background="$load"
  sleep 1
  # The load ends and saves what it knows also where the step fails: the next step goes on from there.
  local code
  set +e; ( set -e; "$1" ); code=$?; set -e
  wait "$load" || { cat "$area/load.json"; say "I/O failed"; return 1; }
  background=""
  [ "$code" -eq 0 ] || return "$code"
  verifier check --uri "$(uri steady 1)" --state "$area/state"
  say "note: longest stall $(field "it['longest_stall_ms']" <"$area/load.json") ms"
}

make() {
  local dir; dir=$(folder host2)
  gabion group create --host host2 --cache "$dir/c1.img" --capacity "$dir/d1.img" --create-files 512MiB
  [ "$(groups_of host2 | wc -w)" = 2 ]
  refused "is a device of a disk group" gabion group create --host host2 --cache "$dir/c1.img" \
    --capacity "$dir/d9.img" --create-files 512MiB || refused "named twice" gabion group create --host host2 \
    --cache "$dir/c1.img" --capacity "$dir/d9.img" --create-files 512MiB
  gabion volume create wide --size 128MiB --ftt 2
}
extend() {
  local dir group; dir=$(folder host2); group=$(groups_of host2 | cut -d' ' -f1)
  gabion group add-disk "$group" "$dir/more.img" --create-files 512MiB
  gabion group show "$group" --output json | field "len(it['devices'])" | grep -qx 3
  until_green steady
}
close_and_open() {
  local group; group=$(groups_of host1 | cut -d' ' -f1)
  gabion group close "$group"
  gabion status | grep -q "out of service: closed by an operator"
  sleep 2
  gabion group open "$group"
  until_green steady
}
new_device() {
  local cache; cache=$(gabion disk list --output json | field "[d['path'] for d in it if d['host'] == 'host1'][0]")
  rm "$cache"
  for _ in $(seq 40); do gabion status | grep -q "not what stands at this path" && break; sleep 0.5; done
  gabion status | grep "not what stands at this path"
  gabion disk replace "$cache"
  until_green steady; until_green wide
}
device_state() { gabion disk list --output json | field "[d['state'] for d in it if d['path'] == '$1'][0]"; }
until_out() { # DEVICE: its group goes on without it
  for _ in $(seq 60); do [ "$(device_state "$1")" = out ] && return; sleep 0.5; done
  gabion status; say "$1 is not out of its group after 30 s"; return 1
}
until_yellow() {
  for _ in $(seq 60); do [ "$(health "$1")" = yellow ] && return; sleep 0.5; done
  gabion status; say "$1 misses no copy after 30 s"; return 1
}
# One capacity device of several costs the copies on it: away and back, cut off, deleted.
lost_capacity() {
  local dir group device; dir=$(folder host2); group=$(groups_of host2 | cut -d' ' -f1); device="$dir/roomy.img"
  gabion group add-disk "$group" "$device" --create-files 2GiB
  until_green steady
  gabion volume create beside --size 64MiB --ftt 2 # its copy on host2 is where most room is
  qemu-io -f raw -c "write -P 5 0 64M" "$(uri beside 0)" >/dev/null
  mv "$device" "$device.away"
  until_out "$device"
  gabion status | grep "is out of the disk group"
  gabion group show "$group" --output json | field "[d['state'] for d in it['devices']]" | grep -q "'out'"
  until_green steady; until_green wide
  until_yellow beside # an idle owner is told at the next renewal of its grant
  qemu-io -f raw -c "write -P 6 0 16M" "$(uri beside 0)" >/dev/null
  mv "$device.away" "$device"
  until_green beside
  [ "$(device_state "$device")" = ok ]
  truncate -s 100M "$device"
  until_out "$device"
  until_green steady
  gabion disk replace "$device"
  until_green beside
  rm "$device"
  until_out "$device"
  gabion disk replace "$device"
  until_green beside; until_green steady; until_green wide
  for host in 0 1 2; do
    qemu-io -r -f raw -c "read -P 6 0 16M" -c "read -P 5 16M 48M" "$(uri beside $host)" >"$area/read"
    [ "$(grep -c "^read " "$area/read")" = 2 ] || { cat "$area/read"; return 1; }
  done
  gabion volume delete beside --now --yes
}
# A lost cache device costs what was in its write buffer alone: what is copied is told.
lost_cache() {
  gabion volume create cold --size 128MiB
  qemu-io -f raw -c "write -P 7 0 128M" "$(uri cold 0)" >/dev/null
  sleep 3 # destage begins when nothing has been written for a while
  for _ in $(seq 120); do
    gabion group list --output json | field "max(g['buffer_fill'] for g in it) < 0.06" | grep -q True && break
    sleep 0.5
  done
  local cache id copied held
  cache=$(gabion disk list --output json | field "[d['path'] for d in it if d['host'] == 'host1'][0]")
  rm "$cache"
  gabion disk replace "$cache"
  until_green steady; until_green cold
  id=$(groups_of host1 | cut -d' ' -f1)
  copied=$(gabion group show "$id" --output json | field "it['appended_bytes'] >> 20")
  held=$(gabion group show "$id" --output json | field "sum(c['used_bytes'] for c in it['components']) >> 20")
  say "note: $copied MiB copied of $held MiB that the group holds"
  [ "$copied" -lt $((held / 2)) ]
  qemu-io -r -f raw -c "read -P 7 0 128M" "$(uri cold 0)" | grep -q "read 134217728"
}
remove() {
  local group; group=$(groups_of host2 | cut -d' ' -f1)
  refused "holds . components" gabion group remove "$group"
  gabion volume delete wide --now --yes
  local dir; dir=$(folder host3)
  gabion group create --host host3 --cache "$dir/c1.img" --capacity "$dir/d1.img" --create-files 512MiB
  gabion group remove "$dir/c1.img"
  [ "$(groups_of host3 | wc -w)" = 1 ]
}
restart() {
  local before after; before=$(groups_of host2)
  gabion host kill host2; gabion host start host2; until_green steady
  after=$(groups_of host2)
  [ "$before" = "$after" ] || { say "groups before: $before, after: $after"; return 1; }
}

gabion up --detach --processes --cache-size 256MiB --capacity-size 1GiB
gabion volume create steady --size 64MiB
for one in make extend close_and_open lost_capacity new_device remove restart; do
  eval "under_load() { work $one; }"
  step "$one, under load" under_load
done
step "lost cache device, at rest" lost_cache
conclude "groups"
