#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What encrypted links cost: the same load with links that are encrypted and with some that are not, in turns, on one
# cluster of three processes. For each turn: writes a second, and CPU of the three hosts per write (or per MiB).
# usage: bench-links.sh GABION [SECONDS] [TURNS]
set -euo pipefail
GABION=${1:?usage: bench-links.sh GABION [SECONDS] [TURNS]}
SECONDS_EACH=${2:-20} TURNS=${3:-3}
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
export GABION_DATA=$area/data
restore() { gabion down >/dev/null 2>&1; return "$1"; }
trap 'code=$?; set +e; restore "$code"; finish' EXIT

gabion up --detach --processes --cache-size 2GiB --capacity-size 4GiB >"$area/up.log" 2>&1
gabion volume create bench --size 1GiB >/dev/null
uri="nbd+unix:///bench?socket=$GABION_DATA/host1/nbd.sock"
ticks() { # of the three hosts' processes
  local pid sum=0
  for pid in $(pgrep -f "daemon --config $GABION_DATA"); do
    sum=$((sum + $(awk '{print $14 + $15}' "/proc/$pid/stat")))
  done
  echo "$sum"
}
load() { # NAME BLOCK PATTERN DEPTH
  local before after
  before=$(ticks)
  fio --name="$1" --ioengine=nbd --uri="$uri" --rw="$3" --bs="$2" --iodepth="$4" --size=1GiB --time_based \
    --runtime="$SECONDS_EACH" --output-format=json --output="$area/fio.json" >/dev/null
  after=$(ticks)
  /usr/bin/python3 - "$area/fio.json" "$((after - before))" "$1" "$5" <<'PYTHON'
import json, sys
job = json.load(open(sys.argv[1]))["jobs"][0]
done = job["write"]["total_ios"] + job["read"]["total_ios"]
latency = job["write"]["clat_ns"]["percentile"]["99.000000"] / 1000
print("%-6s links %-10s %8.0f/s  %6.1f us of CPU each  p99 %6.0f us" % (
    sys.argv[3], sys.argv[4], done / (job["job_runtime"] / 1000), int(sys.argv[2]) * 10000 / done, latency), flush=True)
PYTHON
}
load warm 1M write 8 plain >/dev/null
for _ in $(seq "$TURNS"); do
  for links in off on; do
    gabion cluster set encrypt-links "$links" >/dev/null; sleep 2
    how=plain; [ "$links" = off ] || how=encrypted
    load 4KiB 4k randwrite 32 "$how"
    load 1MiB 1M write 8 "$how"
  done
done
