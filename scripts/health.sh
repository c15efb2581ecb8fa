#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Health checks: what is wrong is told with its evidence, and the very command that is named mends it.
# usage: health.sh GABION
set -euo pipefail
GABION=${1:?usage: health.sh GABION}
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

# health EXPRESSION: of the report, as `it`; also where something is yellow or red
health() { { gabion health --output json || true; } | field "$1"; }
check() { health "[c for c in it['checks'] if c['id'] == '$1'][0]$2"; } # CHECK PART
state() { check "$1" "['state']"; }
is() { [ "$(state "$1")" = "$2" ]; } # CHECK STATE
overall() { [ "$(health "it['state']")" = "$1" ]; }
code() { local code=0; gabion health >/dev/null || code=$?; echo $code; }
api() { gabion status --output json | field "it['api']['socket']"; }
asks() { # METHOD PATH [BODY]: prints the answer's status, and leaves the answer in a file
  curl --silent --output "$area/answer" --write-out "%{http_code}" --request "$1" --unix-socket "$(api)" \
    ${3:+--header "Content-Type: application/json" --data "$3"} "http://gabion/api/v1$2"
}

# Everything that somebody can say is said, and is well.
green() {
  gabion volume create web --size 64MiB
  await 40 overall green
  await 20 is objects.redundancy green
  local id
  for id in hosts.answering network.pairs devices.working groups.serving objects.accessible objects.redundancy \
    capacity.hosts capacity.after-loss limits.components directory.reachable versions.hosts; do
    await 20 is $id green
  done
  [ "$(code)" = 0 ]
  gabion health >"$area/said"; grep -q "^health green" "$area/said"
  gabion health --all >"$area/said"; [ "$(grep -c " green " "$area/said")" -ge 25 ]
  [ "$(health "len(set(c['id'] for c in it['checks'])) == len(it['checks'])")" = True ]
}
# A host is lost: that is told of with what was seen and what to do, and doing it mends it.
lost_host() {
  local mend
  # Some data, so that a copy that was away has something to come back to.
  qemu-io -f raw -c "write -P 7 0 1M" "$(uri web 0)"
  gabion host kill host3
  await 20 is hosts.answering yellow
  [ "$(code)" = 3 ]
  check hosts.answering "['evidence'][0]" | grep -q "host3"
  [ "$(check hosts.answering "['means'] != ''")" = True ]
  mend=$(check hosts.answering "['mend'][0]")
  [ "$mend" = "gabion host start host3" ]
  gabion health >"$area/said" || true
  grep -q "^  \$ gabion host start host3" "$area/said"
  gabion health show hosts.answering | grep -q "host3"
  # What monitoring is told is the same.
  curl --silent --unix-socket "$(api)" http://gabion/metrics >"$area/metrics"
  grep -q 'gabion_health_check{check="hosts.answering",group="hosts"} 1' "$area/metrics"
  grep -q 'gabion_health_check{check="devices.working",group="devices"} 0' "$area/metrics"
  # The very command.
  $mend
  await 60 is hosts.answering green
  await 60 overall green
  [ "$(code)" = 0 ]
}
silence() {
  gabion host kill host2
  await 20 is hosts.answering yellow
  gabion health silence hosts.answering --for 1h --reason "new memory"
  is hosts.answering silenced
  [ "$(check hosts.answering "['actual']")" = yellow ]
  [ "$(check hosts.answering "['silenced_until'].endswith('Z')")" = True ]
  [ "$(check hosts.answering "['silenced_because']")" = "new memory" ]
  gabion health silence objects.redundancy --for 1h --reason "new memory"
  await 30 overall green
  [ "$(code)" = 0 ]
  curl --silent --unix-socket "$(api)" http://gabion/metrics >"$area/metrics"
  not grep 'gabion_health_check{check="hosts.answering"' "$area/metrics"
  gabion health unsilence objects.redundancy
  await 20 is objects.redundancy "$(gabion volume list --health yellow --output json |
    field "'yellow' if it else 'green'")"
  gabion health unsilence hosts.answering
  is hosts.answering yellow
  gabion host start host2
  await 60 overall green
}
# What changed is kept, over a start of everything too, and a silence as well.
history() {
  gabion health silence clocks.records --for 1h --reason "kept"
  gabion health history --last 200 --output json >"$area/before"
  field "[c['check'] for c in it if c['from'] == 'green' and c['to'] == 'yellow']" <"$area/before" |
    grep -q hosts.answering
  field "[c['evidence'] for c in it if c['to'] == 'yellow']" <"$area/before" | grep -q host3
  gabion health history | grep -q "hosts.answering *yellow -> green"
  gabion down
  gabion up --detach
  await 40 overall green
  is clocks.records silenced
  gabion health history --last 200 --output json >"$area/after"
  python3 - "$area/before" "$area/after" <<'P'
import json, sys
before, after = (json.load(open(path)) for path in sys.argv[1:])
assert before and after[-len(before):] == before, "the history goes on"
assert [c["number"] for c in after] == sorted((c["number"] for c in after), reverse=True)
P
  # Since when is taken from it: green since before the start.
  [ "$(check hosts.answering "['since']")" = "$(field "[c['time'] for c in it if c['check'] == 'hosts.answering'][0]" \
    <"$area/after")" ]
  gabion health unsilence clocks.records
}
# The same by HTTP, page by page, and what is wrong is refused.
by_http() {
  [ "$(asks GET /health)" = 200 ]
  [ "$(field "it['state'], it['checks'][0]['silenced_until']" <"$area/answer")" = "('green', None)" ]
  [ "$(asks GET "/health/history?limit=1")" = 200 ]
  [ "$(field "len(it['items']), it['total'] > 5" <"$area/answer")" = "(1, True)" ]
  local next; next=$(field "it['next']" <"$area/answer")
  [ "$(asks GET "/health/history?limit=1&after=$next")" = 200 ]
  [ "$(field "it['items'][0]['number']" <"$area/answer")" = $((next - 1)) ]
  [ "$(asks PUT /health/balance.hosts/silence '{"for_seconds":60,"reason":"by HTTP"}')" = 200 ]
  [ "$(field "it['state'], it['actual']" <"$area/answer")" = "('silenced', 'green')" ]
  [ "$(asks DELETE /health/balance.hosts/silence)" = 200 ]
  [ "$(field "it['state']" <"$area/answer")" = green ]
  [ "$(asks PUT /health/nothing/silence '{"for_seconds":60,"reason":""}')" = 404 ]
  [ "$(asks PUT /health/balance.hosts/silence '{"for_seconds":0,"reason":""}')" = 400 ]
  not gabion health silence balance.hosts --for 31d --reason "for ever"
  not gabion health show nothing
  local token; token=$(gabion token create looks --role viewer --output json | field "it['token']")
  gabion status --output json >"$area/status"
  local url ca; url=$(field "it['api']['urls'][0]" <"$area/status"); ca=$(field "it['api']['ca_file']" <"$area/status")
  looks() { # METHOD PATH
    curl --silent --output /dev/null --write-out "%{http_code}" --cacert "$ca" --request "$1" \
      --header "Authorization: Bearer $token" "$url/api/v1$2"
  }
  [ "$(looks GET /health)" = 200 ]
  [ "$(looks GET /health/history)" = 200 ]
  [ "$(looks DELETE /health/balance.hosts/silence)" = 403 ]
}
down() { gabion down; }

gabion up --detach --cache-size 128MiB --capacity-size 512MiB
step "at first all is green" green
step "a lost host is told of, and the command that is named brings it back" lost_host
step "what is silenced does not count" silence
step "what changed is kept" history
step "over HTTP" by_http
step "down" down
conclude "health checks"
