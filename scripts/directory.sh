#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A directory that forgot: a backup from before is restored over younger volumes, then etcd is wiped. Whatever the
# records said, every volume is there again, byte for byte, once it is adopted.
# usage: directory.sh GABION
set -euo pipefail
GABION=${1:?usage: directory.sh GABION}
# Hosts look every 30 s.
FOUND_SECONDS_MAX=120
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

# Writes and remembers; what was there before must still be allowed by then.
fill() { verifier load --uri "$(uri "$1" 0)" --state "$area/$1.state" --seconds 2 --depth 8 --mib 32 >/dev/null; }
whole() { # every volume, at every host
  local volume host
  for volume in "$@"; do for host in 0 1 2; do
    verifier check --uri "$(uri "$volume" $host)" --state "$area/$volume.state" --mib 32 >/dev/null ||
      { say "$volume is not what was written, at host $host"; return 1; }
  done; done
}
orphans() { gabion orphan list --output json | field "' '.join(sorted({o['volume'] for o in it}))"; }
until_orphans() { # NAMES: these are in no record
  local _
  for _ in $(seq "$FOUND_SECONDS_MAX"); do [ "$(orphans 2>/dev/null)" = "$*" ] && return; sleep 1; done
  gabion orphan list; gabion status; say "never seen as volumes without a record: $*"; return 1
}
is_red() { # PATTERN: status is red and says the command
  gabion status >"$area/said" 2>&1 || true
  grep -q "health red" "$area/said" || { cat "$area/said"; say "status is not red"; return 1; }
  grep -q "$1" "$area/said" || { cat "$area/said"; say "status does not say: $1"; return 1; }
}
adopt() { # refused until all hosts have told of their copies
  local _
  for _ in $(seq "$FOUND_SECONDS_MAX"); do
    gabion orphan adopt "$1" >"$area/said" 2>&1 && return
    grep -q "is not found" "$area/said" || break
    sleep 1
  done
  cat "$area/said"; say "$1 cannot be adopted"; return 1
}
adopt_each() {
  local volume
  for volume in "$@"; do adopt "$volume"; done
  until_whole "$@"
}
adopt_all() { # by one command, until nothing is refused
  local _ done=0
  for _ in $(seq "$FOUND_SECONDS_MAX"); do
    gabion orphan adopt --all >"$area/said" 2>&1 && { done=1; break; }
    grep -q "is not found" "$area/said" || break
    sleep 1
  done
  [ $done = 1 ] || { cat "$area/said"; say "not all volumes can be adopted"; return 1; }
  until_whole "$@"
}
# Nobody opens them: copies that are not surely whole are copied again all the same.
until_whole() {
  local volume
  for volume in "$@"; do cluster wait-health "$volume" green 60; done
  whole "$@"
}
etcd_of() { grep -o 'http://[0-9.:]*' "$GABION_DATA/host1/host.toml" | head -n 1; }

second() {
  if gabion --config "$area/second.toml" cluster create --etcd "$(etcd_of)" --name host9 --address 127.0.0.1 \
    --run-dir "$area/second" 2>"$area/said"; then say "it was made"; return 1; fi
  grep -q 'host join' "$area/said" || { say "no word of what to do instead:"; cat "$area/said"; return 1; }
}
restored() {
  gabion volume create old --size 64MiB
  fill old
  gabion directory backup "$area/before.gdb"
  gabion volume create young --size 64MiB
  gabion volume create younger --size 64MiB --ftt 2
  fill young; fill younger; fill old
  # A change of the old one: it lost a copy and got it back, which its record of before knows nothing of.
  local other
  other=$(gabion volume show old --output json |
    field "[c['host'] for c in it['components'] if c['host'] != 'host1'][0]")
  gabion host kill "$other"; fill old; gabion host start "$other"
  for volume in old young younger; do cluster wait-health "$volume" green 60; done
  gabion directory restore --replace "$area/before.gdb"
  local begin=$SECONDS
  until_orphans old young younger
  is_red "gabion orphan adopt"
  adopt_each old young younger
  say "note: all back $((SECONDS - begin)) s later"
}
wiped() {
  ETCDCTL_API=3 etcdctl --endpoints "$(etcd_of)" del "" --prefix >/dev/null
  local begin=$SECONDS
  for _ in $(seq 60); do is_red "gabion cluster recover" >/dev/null 2>&1 && break; sleep 1; done
  is_red "gabion cluster recover"
  gabion cluster recover
  until_orphans old young younger
  is_red "gabion orphan adopt"
  adopt_all old young younger
  say "note: all back $((SECONDS - begin)) s later"
  fill young; whole young
}

gabion up --detach --yes --sparse --processes --cache-size 256MiB --capacity-size 1GiB
step "no second cluster is made in one etcd" second
step "a backup from before is restored, all is adopted" restored
step "etcd is wiped, the cluster recovered, all is adopted" wiped
conclude "directory"
