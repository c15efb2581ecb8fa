#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The API: its description is valid, a client is made from it, and that client does what an operator does.
# usage: api.sh GABION CACHE      CACHE: where the tools that this needs are installed and kept
set -euo pipefail
GABION=${1:?usage: api.sh GABION CACHE}
CACHE=${2:?usage: api.sh GABION CACHE}
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
mkdir -p "$CACHE"; CACHE=$(realpath "$CACHE")

tools() {
  cmp -s "$here/api-requirements.txt" "$CACHE/requirements.txt" && return
  rm -rf "$CACHE/venv"
  python3 -m venv "$CACHE/venv"
  "$CACHE/venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$here/api-requirements.txt"
  cp "$here/api-requirements.txt" "$CACHE/requirements.txt"
}
description() {
  gabion api describe >"$area/described.json"
  "$CACHE/venv/bin/openapi-spec-validator" "$area/described.json"
}
# Its warnings are what is wrong with the description; what it says of tools for formatting is not.
client() {
  rm -rf "$area/client"
  "$CACHE/venv/bin/openapi-python-client" generate --meta none --path "$area/described.json" \
    --output-path "$area/client/gabion_client" >"$area/said" 2>&1 || { cat "$area/said"; return 1; }
  not grep -A8 "Unable to\|WARNING parsing" "$area/said"
}
api() { gabion status --output json | field "it['api']['socket']"; }
served() {
  curl --silent --fail --unix-socket "$(api)" http://gabion/api/v1/openapi.json >"$area/served.json"
  python3 -c "import json, sys; a, b = (json.load(open(p)) for p in sys.argv[1:]); assert a == b" \
    "$area/described.json" "$area/served.json"
}
operate() {
  PYTHONPATH="$area/client" "$CACHE/venv/bin/python" "$here/api_client.py" "$(api)"
}
# One who listens hears of a volume, and of its end.
events() {
  curl --silent --no-buffer --unix-socket "$(api)" http://gabion/api/v1/events >"$area/events" & background=$!
  await 20 grep -q "^event: ready" "$area/events"
  gabion volume create heard --size 8MiB
  await 20 grep -q '"key":"heard"' "$area/events"
  gabion volume delete heard --now --yes
  await 20 grep -q '^data: {"item":null,"key":"heard","list":"/volumes"}' "$area/events"
}
# Whoever may not ask a host may not ask the API either.
stranger() {
  local socket; socket=$(api)
  chmod a+rx "$area" "$GABION_DATA"
  not setpriv --reuid=65534 --regid=65534 --clear-groups \
    curl --silent --fail --unix-socket "$socket" http://gabion/api/v1/openapi.json
  curl --silent --fail --unix-socket "$socket" http://gabion/api/v1/openapi.json >/dev/null
}
# What hosts hold is for nobody else on their machine.
unreadable() {
  local all=("(" -name '*.img' -o -name directory.redb -o -name gabion.log -o -name ca-key.pem ")")
  [ "$(find "$GABION_DATA" "${all[@]}" | wc -l)" -ge 9 ]
  [ -z "$(find "$GABION_DATA" "${all[@]}" -perm /077)" ]
}
url() { gabion status --output json | field "it['api']['urls'][0]"; }
ca() { gabion status --output json | field "it['api']['ca_file']"; }
# One who asks over the network, with a token or none: prints the status, and leaves the answer in a file.
asks() { # TOKEN METHOD PATH [BODY]
  curl --silent --output "$area/answer" --write-out "%{http_code}" --cacert "$(ca)" --request "$2" \
    --header "Authorization: Bearer $1" ${4:+--header "Content-Type: application/json" --data "$4"} "$(url)/api/v1$3"
}
# A token opens what its role may, from when it is made until it is deleted or has expired.
tokens() {
  local view operate short
  view=$(gabion token create looks --role viewer --output json | field "it['token']")
  operate=$(gabion token create changes --role operator --output json | field "it['token']")
  [ "$(asks "$view" GET /volumes)" = 200 ]
  [ "$(asks "$view" POST /volumes '{"name":"net","size_bytes":8388608,"ftt":1}')" = 403 ]
  [ "$(asks "$operate" POST /volumes '{"name":"net","size_bytes":8388608,"ftt":1}')" = 200 ]
  [ "$(field "it['name']" <"$area/answer")" = net ]
  [ "$(asks "$operate" DELETE "/volumes/net?for_good=true")" = 200 ]
  [ "$(asks "$operate" GET /tokens)" = 403 ]
  gabion token delete looks
  [ "$(asks "$view" GET /volumes)" = 401 ]
  [ "$(asks "gbn_$(printf '0%.0s' {1..64})" GET /volumes)" = 401 ]
  [ "$(asks "" GET /openapi.json)" = 401 ]
  short=$(gabion token create short --role viewer --expires-in 1s --output json | field "it['token']")
  await 10 expired "$short"
  # No certificate but the cluster's own is believed, and nothing but TLS is spoken.
  not curl --silent "$(url)/api/v1/status"
  not curl --silent --fail "http://$(url | cut -d/ -f3)/api/v1/status"
  not curl --silent --tls-max 1.2 --cacert "$(ca)" "$(url)/api/v1/status"
  # Who did what is known, also what was refused.
  gabion audit export >"$area/audit"
  [ "$(grep -c '"caller":"changes"' "$area/audit")" = 2 ]
  grep -q '"caller":"looks".*"status":403' "$area/audit"
  grep -q "\"caller\":\"uid $(id -u)\",\"from\":\"unix\".*\"command\":\"token-create\"" "$area/audit"
  gabion audit list --last 100 >"$area/audited"; grep -q "volume-create.* name=net" "$area/audited"
  # The text of a token is nowhere in what the hosts keep.
  not grep --recursive --quiet --text "${operate#gbn_}" "$GABION_DATA" --exclude='*.img'
}
expired() { [ "$(asks "$1" GET /volumes)" = 401 ]; }
# The first host is gone: another one is asked. Its own shard is named as the one that does not answer.
lost_host() {
  gabion host kill host1
  [ "$(curl --silent --unix-socket "$(api)" http://gabion/api/v1/policies | field "it[0]['name']")" = default ]
  curl --silent --unix-socket "$(api)" http://gabion/api/v1/shards/host1/scrub >"$area/problem"
  [ "$(field "it['status']" <"$area/problem")" = 503 ]
  field "it['detail']" <"$area/problem" | grep -q "host1 does not answer"
  gabion host start host1
}
down() {
  local socket; socket=$(api)
  gabion down
  not test -e "$socket"
}

step "tools" tools
step "the description is valid" description
step "a client is made of it without a warning" client
gabion up --detach --cache-size 128MiB --capacity-size 512MiB
step "the description is served" served
step "the client does what an operator does" operate
step "a listener hears what changes" events
step "nobody else gets in" stranger
step "nobody else reads what hosts hold" unreadable
step "over the network by token" tokens
step "a host that is down" lost_host
step "down" down
conclude "the API"
