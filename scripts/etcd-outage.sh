#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Takes etcd away from a cluster under load. I/O must not notice; afterwards the cluster accepts commands again.
# usage: etcd-outage.sh GABION [SECONDS] [stop|kill]
#   stop   SIGSTOP and SIGCONT: etcd is silent, its connections stay (default)
#   kill   SIGKILL, and again whenever somebody restarts it during the outage; then it is started as it was
set -euo pipefail
GABION=${1:?usage: etcd-outage.sh GABION [SECONDS] [stop|kill]}
seconds=${2:-60}
way=${3:-stop}
STALL_MS_MAX=1000
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

etcds() { cluster pids etcd "$GABION_DATA"; }

outage_stop() {
  local pids; pids=$(etcds)
  # shellcheck disable=SC2086
  kill -STOP $pids
  sleep "$seconds"
  # shellcheck disable=SC2086
  kill -CONT $pids
}

outage_kill() {
  local pid folder; pid=$(etcds | head -n 1)
  cp "/proc/$pid/cmdline" "$area/etcd.cmdline"; folder=$(readlink "/proc/$pid/cwd")
  local end=$((SECONDS + seconds))
  while [ $SECONDS -lt $end ]; do cluster kill etcd "$GABION_DATA" >/dev/null; sleep 0.2; done
  for _ in $(seq 50); do [ -n "$(etcds)" ] && return; sleep 0.1; done
  say "nobody restarted etcd: starting it as it was"
  (cd "$folder" && xargs -0 -a "$area/etcd.cmdline" setsid nohup >"$area/etcd.log" 2>&1 </dev/null &)
}

gabion up --detach --processes --cache-size 256MiB --capacity-size 1GiB
gabion volume create steady --size 64MiB
[ -n "$(etcds)" ] || { say "no etcd of this cluster found"; exit 1; }
verifier load --uri "$(uri steady 0)" --state "$area/state" --seconds $((seconds + 8)) --depth 4 \
  >"$area/load.json" & load=$!
background="$load"
sleep 3
"outage_$way"
wait "$load" || { say "etcd-outage: I/O failed"; exit 1; }
background=""
cat "$area/load.json"
stall=$(field "it['longest_stall_ms']" <"$area/load.json")
verifier check --uri "$(uri steady 1)" --state "$area/state"
for _ in $(seq 60); do gabion volume create later --size 64MiB 2>"$area/said" && break; sleep 1; done
gabion volume show later >/dev/null || { cat "$area/said"; say "no commands after the outage"; exit 1; }
say "etcd-outage: $way for $seconds s, longest stall $stall ms (at most $STALL_MS_MAX)"
python3 -c "import sys; sys.exit($stall > $STALL_MS_MAX)"
