#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A cluster of three machines, each a network namespace of its own, made with `cluster create` and `host join`.
# The third one has two shards. Checks that one host can go silent (its link is cut) under load, and that it comes back;
# that a shard that ends is started again, and that none outlives its daemon. Needs root.
# usage: three-machines.sh GABION
set -euo pipefail
GABION=${1:?usage: three-machines.sh GABION}
STALL_MS_MAX=7000
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

[ "$(id -u)" = 0 ] || { say "three-machines: skipped: network namespaces need root"; exit 0; }
net="gb$$"
daemons=""

cut_down() {
  for pid in $daemons; do kill -9 "$pid" 2>/dev/null || true; done
  for number in 1 2 3; do ip netns del "$net-$number" 2>/dev/null || true; done
  ip link del "$net" 2>/dev/null || true
}
restore() { return "$1"; }
trap 'code=$?; set +e; cut_down; restore "$code"; finish' EXIT

ip link add "$net" type bridge
ip link set "$net" up
for number in 1 2 3; do
  ip netns add "$net-$number"
  ip link add "$net-v$number" type veth peer name eth0 netns "$net-$number"
  ip link set "$net-v$number" master "$net" up
  ip -n "$net-$number" addr add "10.77.0.$number/24" dev eth0
  ip -n "$net-$number" link set eth0 up
  ip -n "$net-$number" link set lo up
done
on() { local number=$1; shift; ip netns exec "$net-$number" "$@"; }
on_host() { local number=$1; shift; on "$number" "$GABION" --config "$area/host$number.toml" "$@"; }

(exec ip netns exec "$net-1" etcd --data-dir "$area/etcd" --listen-client-urls http://10.77.0.1:2379 \
  --advertise-client-urls http://10.77.0.1:2379 --listen-peer-urls http://127.0.0.1:2380 \
  >"$area/etcd.log" 2>&1) &
daemons="$!"
for _ in $(seq 100); do
  on 1 etcdctl --endpoints http://10.77.0.1:2379 endpoint health >/dev/null 2>&1 && break; sleep 0.1
done

enrol() { # number, command...
  local number=$1; shift
  on_host "$number" "$@" --etcd http://10.77.0.1:2379 --name "host$number" --address "10.77.0.$number" \
    --run-dir "$area/run$number" --create-files 512MiB \
    --cache "$area/cache$number.img" --capacity "$area/capacity$number.img"
}
enrol 1 cluster create
if enrol 2 cluster create 2>"$area/said"; then say "a second cluster was made in one etcd"; exit 1; fi
grep -q 'host join' "$area/said" || { say "no word of what to do instead:"; cat "$area/said"; exit 1; }
rm -f "$area/cache2.img" "$area/capacity2.img"
enrol 2 host join
enrol 3 host join --cache "$area/cache4.img" --capacity "$area/capacity4.img"
grep -q '^shards = ' "$area/host3.toml" || { say "host3 has no two shards:"; cat "$area/host3.toml"; exit 1; }
for number in 1 2 3; do
  (exec ip netns exec "$net-$number" "$GABION" --config "$area/host$number.toml" daemon \
    >"$area/host$number.log" 2>&1) &
  daemons="$daemons $!"
done
up() { # how many hosts are; nothing where nobody answers yet
  local status; status=$(on_host 1 status --output json 2>/dev/null) || return 0
  field "sum(h['state'] == 'up' for h in it['hosts'])" <<<"$status"
}
all_up() { for _ in $(seq 150); do [ "$(up || true)" = 4 ] && return; sleep 0.1; done; }
all_up
[ "$(up)" = 4 ] || { say "not all hosts came up"; tail -n 5 "$area"/host*.log; exit 1; }

on_host 1 volume create far --size 64MiB
show() { on_host 1 volume show far --output json; }
socket_uri="nbd+unix:///far?socket=$area/run1/nbd.sock"
verifier load --uri "$socket_uri" --state "$area/state" --seconds 25 --depth 8 >"$area/load.json" & load=$!
background="$load"
sleep 3
other=$(show | field "[c['host'] for c in it['components'] if c['host'] != 'host1'][0].split('.')[0][-1]")
ip link set "$net-v$other" down
sleep 12
state=$(show | field "[c['state'] for c in it['components'] if c['host'].split('.')[0] == 'host$other'][0]")
[ "$state" = absent ] || { say "host$other is silent and its component is $state, not absent"; exit 1; }
ip link set "$net-v$other" up
wait "$load" || { say "three-machines: I/O failed"; cat "$area/load.json"; exit 1; }
background=""
for _ in $(seq 300); do [ "$(show | field "it['health']")" = green ] && break; sleep 0.1; done
[ "$(show | field "it['health']")" = green ] || { say "not green again:"; show; exit 1; }
for folder in run1 run2 run3/host3.1 run3/host3.2; do
  verifier check --uri "nbd+unix:///far?socket=$area/$folder/nbd.sock" --state "$area/state" >/dev/null
done
stall=$(field "it['longest_stall_ms']" <"$area/load.json")
say "three-machines: host$other silent for 12 s, longest stall $stall ms (at most $STALL_MS_MAX), nothing lost"
python3 -c "import sys; sys.exit($stall > $STALL_MS_MAX)"

shard() { pgrep -f "daemon --config $area/host3.$1.toml" || true; } # its process
first=$(shard 2)
kill -9 "$first"
for _ in $(seq 100); do again=$(shard 2); [ -n "$again" ] && [ "$again" != "$first" ] && break; sleep 0.1; done
[ -n "$again" ] && [ "$again" != "$first" ] || { say "host3.2 was not started again"; exit 1; }
all_up
[ "$(up)" = 4 ] || { say "not all shards are up again"; tail -n 5 "$area"/host3*.log; exit 1; }
daemon=$(pgrep -f "daemon$" -a | sed -n "s|^\([0-9]*\) .*host3.toml daemon\$|\1|p")
kill -9 "$daemon"
gone() { [ -z "$(shard 1)$(shard 2)" ]; }
for _ in $(seq 100); do gone && break; sleep 0.1; done
gone || { say "shards outlived the daemon of their host"; exit 1; }
say "three-machines: a shard was started again, and none outlived its daemon"
