#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Performance over time: what a load did is what is told of it, now, later, and after the daemon began anew.
# usage: history.sh GABION
set -euo pipefail
GABION=${1:?usage: history.sh GABION}
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

api() { gabion status --output json | field "it['api']['socket']"; }
code() { # METHOD PATH: prints the answer's status, and leaves the answer in a file
  curl --silent --output "$area/answer" --write-out "%{http_code}" --request "$1" --unix-socket "$(api)" \
    "http://gabion/api/v1$2"
}
show() { gabion performance show "$@" --output json; }
writes() { show volume web --since 30min | field "it['all']['writes']['requests']"; }
log() { cat "$GABION_DATA"/*.log; }

# fio writes and reads at a steady rate; what is counted is all of it, and as fast as fio says.
load() {
  gabion volume create web --size 64MiB
  gabion volume create idle --size 64MiB
  # What was done before the first look nobody knows.
  await 30 has_looked "$(host_name 0)"
  fio --name=load --ioengine=nbd --uri="$(uri web 0)" --rw=randrw --bs=4k --iodepth=4 --size=64M --time_based \
    --runtime=25 --rate_iops=300,100 --output-format=json --output="$area/fio.json" &
  background=$!
  sleep 15
  gabion top --once --over 5s --output json >"$area/top"
  gabion top --once --kind host --over 5s --output json >"$area/hosts"
  gabion top --once --kind group >"$area/groups"
  wait "$background"; background=""
  sleep 7 # the look after the load
  show volume web --since 2min --every 5s >"$area/shown"
  python3 - "$area" <<'P'
import json, sys
read = lambda name: json.load(open(f"{sys.argv[1]}/{name}"))
job, shown, top, hosts = read("fio.json")["jobs"][0], read("shown"), read("top"), read("hosts")
assert shown["resolution_seconds"] == 5 and shown["every_seconds"] == 5, shown
for fio, ours in (("read", "reads"), ("write", "writes")):
    done, told = job[fio], shown["all"][ours]
    # All of it, but for what somebody asks who only connects.
    assert abs(told["requests"] - done["total_ios"]) <= 0.01 * done["total_ios"], (told["requests"], done["total_ios"])
    assert abs(told["bytes"] - done["io_bytes"]) <= 0.01 * done["io_bytes"] + 65536, (told["bytes"], done["io_bytes"])
    # Points in the midst of the load: 5 % of fio's rate, where the machine let fio keep it.
    there = [at for at, point in enumerate(shown["points"]) if point[ours]["requests"]]
    midst = shown["points"][there[0] + 1:there[-1]]
    rates = [point[ours]["per_second"] for point in midst if point["covered_ms"]]
    mean = sum(rates) / len(rates)
    kept = done["iops"] > 0.95 * {"read": 300, "write": 100}[fio]
    assert not kept or abs(mean - done["iops"]) <= 0.05 * done["iops"], (rates, done["iops"])
    p50, p99, p999 = told["p50_us"], told["p99_us"], told["p999_us"]
    # A percentile is in the class of the true one; fio's has the way to the client besides.
    assert 0 < p50 <= p99 <= p999 and p50 <= 2 * done["clat_ns"]["percentile"]["50.000000"] / 1e3, told
    print(f"note: {fio}s {mean:.1f}/s, fio says {done['iops']:.1f}/s; {told['requests']} of {done['total_ios']}")
assert top["items"][0]["name"] == "web" and top["total"] == 1, "the idle one did nothing"
assert sum(item["point"]["reads"]["per_second"] for item in hosts["items"]) > 100, hosts
P
  grep -q "GROUP *APPENDED *DESTAGED" "$area/groups"
  gabion performance show volume web --since 5min >"$area/said"
  grep -q "requests/s.* up to" "$area/said"; grep -q "^ *all " "$area/said"
  gabion performance show volume idle | grep -q "^ *all *0 "
  local group device; group=$(gabion group list --output json | field "it[0]['id']")
  device=$(gabion disk list --output json | field "it[0]['path']")
  [ "$(show group "${group:0:6}" | field "it['all']['appended_bytes_per_second'] > 0")" = True ]
  [ "$(show device "$device" | field "it['all']['written_bytes_per_second'] > 0")" = True ]
  [ "$(show cluster | field "it['all']['writes']['requests']")" = "$(writes)" ]
  [ "$(show host "$(host_name 0)" | field "it['all']['cpus'] > 0")" = True ]
}
# A clean stop keeps all of it, and so does the end of a process, but for its last minute.
kept() {
  local before; before=$(writes)
  gabion down; gabion up --detach
  await 20 code GET /performance/cluster
  [ "$(writes)" = "$before" ]
  # shellcheck disable=SC2046
  kill -9 $(cluster pids gabion "$GABION_DATA")
  await 20 is_gone
  gabion up --detach
  [ "$(writes)" = "$before" ]
  note_bytes
}
is_gone() { [ -z "$(cluster pids gabion "$GABION_DATA")" ]; }
note_bytes() {
  curl --silent --unix-socket "$(api)" http://gabion/metrics >"$area/metrics"
  grep -q "^gabion_performance_lost_total 0" "$area/metrics"
  say "note: $(grep '^gabion_performance_kept_bytes' "$area/metrics")"
}
# A file that is none: it is named in the log, kept aside, and a new one is begun.
foreign() {
  gabion down
  local file; file=$(find "$GABION_DATA" -name performance.redb)
  head -c 100000 /dev/urandom >"$file"; cp "$file" "$area/foreign"
  gabion up --detach
  await 20 test -e "$file.aside"
  cmp "$file.aside" "$area/foreign"
  await 20 has_looked "$(host_name 0)"
  log | grep -q "performance of before cannot be read.*performance.redb"
  [ "$(writes)" = 0 ]
}
has_looked() { [ "$(show host "$1" --since 1min | field "it['all']['covered_ms'] > 0")" = True ]; } # HOST
by_http() {
  [ "$(code GET /performance/volume)" = 200 ]
  [ "$(code GET "/performance/volume/web?points=10")" = 200 ]
  [ "$(field "it['kind'], len(it['points']) <= 12" <"$area/answer")" = "('volume', True)" ]
  [ "$(code GET "/performance/volume/none")" = 404 ]
  [ "$(code GET "/performance/color/web")" = 400 ]
  [ "$(code GET "/performance/volume/web?points=0")" = 400 ]
  [ "$(code GET "/performance/volume/web?from=5&to=4")" = 400 ]
  [ "$(code GET "/performance/volume?seconds=301")" = 400 ]
  not gabion performance show volume none
  not gabion performance show volume web --since 91d
  not gabion top --once --sort color
  local token; token=$(gabion token create looks --role viewer --output json | field "it['token']")
  gabion status --output json >"$area/status"
  local url ca; url=$(field "it['api']['urls'][0]" <"$area/status"); ca=$(field "it['api']['ca_file']" <"$area/status")
  [ "$(curl --silent --output /dev/null --write-out "%{http_code}" --cacert "$ca" \
    --header "Authorization: Bearer $token" "$url/api/v1/performance/volume/web")" = 200 ]
  [ "$(curl --silent --output /dev/null --write-out "%{http_code}" --cacert "$ca" \
    "$url/api/v1/performance/volume")" = 401 ]
}
# Somebody looks, goes from table to table, holds it, and leaves: by a key, and by Ctrl-C.
on_a_terminal() {
  "$here/terminal.py" 60 "q quit" h "HOST " g "GROUP " p "(held)" q -- "$GABION" top --kind volume
  "$here/terminal.py" 60 "q quit" $'\x03' -- "$GABION" top
}
down() { gabion down; }

gabion up --detach --cache-size 128MiB --capacity-size 512MiB
step "what a load did is told" load
step "it is kept over a stop and a kill" kept
step "on a terminal" on_a_terminal
step "over HTTP" by_http
step "a file that is none is set aside" foreign
step "down" down
conclude "performance over time"
