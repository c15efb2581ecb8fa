#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Kills all hosts of a cluster with SIGKILL under load, at random moments, again and again. After each restart
# every acknowledged write must be there, through every host.
# usage: kill-all.sh GABION [ROUNDS] [--processes]     5 rounds by default; SEED=n repeats the moments of a run
set -euo pipefail
GABION=${1:?usage: kill-all.sh GABION [ROUNDS] [--processes]}
rounds=${2:-5}
mode=${3:-}
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

RANDOM=${SEED:=$$}
say "kill-all: $rounds rounds, seed $SEED ${mode:-(one process)}"
slowest=0

up() {
  local begin; begin=$(date +%s%N)
  # shellcheck disable=SC2086
  gabion up --detach $mode --cache-size 256MiB --capacity-size 1GiB >/dev/null
  up_ms=$((($(date +%s%N) - begin) / 1000000))
}

# On a busy machine the load may take longer to connect than the hosts have left to live.
is_connected() { [ "$(gabion volume show battered --output json | field "it['clients']")" -gt 0 ]; }

up
gabion volume create battered --size 64MiB
for round in $(seq "$rounds"); do
  moment=$(python3 -c "print(0.3 + $RANDOM / 32768 * 3)")
  verifier load --uri "$(uri battered $((round % 3)))" --state "$area/state" --seconds 60 --may-break \
    >"$area/load.json" & load=$!
  background="$load"
  await 10 is_connected
  sleep "$moment"
  killed=$(cluster kill gabion "$GABION_DATA")
  [ "$killed" -gt 0 ] || { say "no process of the cluster found to kill"; exit 1; }
  wait "$load" || { say "round $round: the load saw a wrong answer before the end"; exit 1; }
  background=""
  for _ in $(seq 50); do [ -n "$(cluster pids gabion "$GABION_DATA")" ] || break; sleep 0.1; done
  up
  for index in 0 1 2; do
    verifier check --uri "$(uri battered $index)" --state "$area/state" >"$area/check.json" || {
      say "round $round: LOST OR WRONG through host $index (seed $SEED)"; exit 1; }
    if [ $index = 0 ]; then first_read=$(field "it['first_read_ms']" <"$area/check.json"); fi
  done
  if [ "$up_ms" -gt "$slowest" ]; then slowest=$up_ms; fi
  counts=$(field "f\"{it['writes_acknowledged']} writes acknowledged, {it['undecided_blocks']} blocks undecided\"" \
    <"$area/load.json")
  say "round $round: killed $killed after ${moment:0:4} s, $counts; up again in $up_ms ms," \
    "first read $first_read ms later; all there"
done
say "kill-all: $rounds rounds, nothing lost; slowest restart $slowest ms"
