#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A hybrid cluster, its capacity as slow as magnetic disks: what fits where, whose cache holds what, a warm start.
# usage: hybrid.sh GABION
set -euo pipefail
GABION=${1:?usage: hybrid.sh GABION}
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
SIZES="--cache-size 256MiB --capacity-size 1GiB"

uri_of() { gabion volume show "$1" --output json | field "it['nbd'][0]"; }
groups() { gabion group list --output json | field "$1"; }
# caches EXPRESSION: of the read caches of the groups that hold the volume, as `it`, in a list
caches() { groups "(lambda it: $1)([g['read_cache'] for g in it if g['used_bytes']])"; }
# A volume's regions of 8 MiB are spread over its copies by chance. Of 16 regions, one copy has none in one run of
# 30,000; of 8 it would be one of 128.
DATA_MIB=128
# Both caches hold something (7: the last pages of a region may be on their way), and together what was read, once.
SHARED="min(c['used_bytes'] for c in it) >> 20 >= 7 and $((DATA_MIB - 8)) <= sum(c['used_bytes'] for c in it) >> 20 \
  <= $((DATA_MIB + 2))"
# Reads the data in blocks, in an order that the number chooses.
read_random() {
  fio --name=read --ioengine=nbd --uri="$(uri_of cold)" --rw=randread --bs=4k --iodepth=32 --size="${DATA_MIB}M" \
    --randseed="$1" >/dev/null
}
is_drained() { groups "max(g['buffer_fill'] for g in it) < 0.1"; }
is_green() { gabion volume show cold --output json | field "it['health'] == 'green'"; }
until_true() { for _ in $(seq 60); do [ "$("$@")" = True ] && return; sleep 0.5; done; say "never: $*"; return 1; }

kinds() {
  # shellcheck disable=SC2086
  if gabion up --detach --magnetic-capacity $SIZES 2>"$area/said"; then say "taken as all-flash"; return 1; fi
  grep -q "has platters, and this disk group is all-flash" "$area/said"
  # shellcheck disable=SC2086
  gabion up --detach --processes --kind hybrid --magnetic-capacity $SIZES
  gabion disk list --output json | field "sorted({d['kind'] for d in it})" | grep -q "hdd"
  gabion volume create cold --size 256MiB
}
chosen_copies() {
  fio --name=data --ioengine=nbd --uri="$(uri_of cold)" --rw=write --bs=1M --iodepth=4 \
    --size="${DATA_MIB}M" --verify=crc32c --do_verify=0 >/dev/null
  until_true is_drained
  read_random 1; read_random 2
  local used; used=$(caches "[c['used_bytes'] >> 20 for c in it]")
  say "note: MiB in the two caches: $used of $DATA_MIB"
  [ "$(caches "len(it) == 2 and $SHARED")" = True ]
}
warm_start() {
  local host hits
  host=$(groups "[g['host'] for g in it if g['used_bytes']][0]")
  sleep 3 # headers are written a second behind
  gabion host kill "$host"; gabion host start "$host"
  until_true caches "$SHARED"
  until_true is_green
  read_random 3
  hits=$(caches "[round(c['hits'] / max(1, c['hits'] + c['misses']), 2) for c in it]")
  say "note: of the reads after the kill the caches served $hits"
  [ "$(caches "min(c['hits'] / max(1, c['hits'] + c['misses']) for c in it) > 0.8")" = True ]
}
# What is kept for the volume on its hosts, MiB each; it fits, and most of it is what was read.
kept() { gabion volume show cold --output json | field "[c['kept_bytes'] >> 20 for c in it['cached']]"; }
is_kept() { [ "$(kept)" = "$1" ] && echo True || echo False; }
reservation() {
  gabion volume change cold --read-cache 50
  until_true is_kept "[64, 64]"
  gabion volume show cold | tee "$area/said"
  grep -q "read cache: kept for 50 % (128MiB)" "$area/said" && grep -q "it is compliant" "$area/said"
  [ "$(caches "sum(c['kept_bytes'] for c in it) >> 20")" = 128 ]
  gabion volume change cold --read-cache 0
  until_true is_kept "[0, 0]"
}
right() {
  fio --name=data --ioengine=nbd --uri="$(uri_of cold)" --rw=write --bs=1M --iodepth=4 \
    --size="${DATA_MIB}M" --verify=crc32c --verify_only
}
# Host after host, while somebody writes and verifies.
becomes_all_flash() {
  local host group
  gabion volume create live --size 64MiB
  # Until it is told to end, however long three hosts take: not a function, so that it hears of it.
  /usr/bin/python3 "$here/verifier.py" load --uri "$(uri_of live)" --state "$area/state" --seconds 600 --depth 2 \
    >"$area/load.json" & load=$!
  background="$load"
  gabion cluster set kind all-flash
  [ "$(gabion cluster show --output json | field "it['kind']")" = all-flash ]
  for host in host1 host2 host3; do
    gabion host maintenance enter "$host" --mode full-evacuation --yes
    group=$(groups "[g['devices'][0]['path'] for g in it if g['host'] == '$host'][0]")
    gabion group remove "$group"
    gabion group create --host "$host" --cache "$area/$host.cache" --capacity "$area/$host.capacity" \
      --create-files 512MiB
    gabion host maintenance exit "$host"
  done
  [ "$(groups "[g.get('read_cache') for g in it]")" = "[None, None, None]" ]
  kill "$load" || { cat "$area/load.json"; return 1; }
  wait "$load" || { cat "$area/load.json"; return 1; }
  background=""
  say "note: longest stall $(field "it['longest_stall_ms']" <"$area/load.json") ms"
  # What a host's groups are stands in its configuration.
  gabion host kill host2; gabion host start host2
  until_true is_green
  [ "$(groups "[g.get('read_cache') for g in it]")" = "[None, None, None]" ]
}

step "what fits where" kinds
step "each region is cached by one host" chosen_copies
step "caches outlive their host's process" warm_start
step "a part of the cache is kept for a volume" reservation
step "it becomes all-flash in use" becomes_all_flash
step "all of it is right" right
conclude "hybrid"
