#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Asks the API whatever its description allows, and what it does not allow, for a while: no answer may be its own fault,
# nothing may be had without a token, its description must be true, and the cluster must be well afterwards, no larger.
# usage: fuzz-api.sh GABION CACHE SECONDS      CACHE: where the tools that this needs are installed and kept
set -euo pipefail
GABION=${1:?usage: fuzz-api.sh GABION CACHE SECONDS}
CACHE=${2:?usage: fuzz-api.sh GABION CACHE SECONDS}
SECONDS_MAX=${3:?usage: fuzz-api.sh GABION CACHE SECONDS}
# How much more the process may take after the first quarter of the time, MiB.
GROWTH_MAX=32
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
mkdir -p "$CACHE"; CACHE=$(realpath "$CACHE")
CHECKS=not_a_server_error,content_type_conformance,response_schema_conformance,status_code_conformance,ignored_auth
requirements="schemathesis==4.32.5"

tools() {
  [ "$(cat "$CACHE/fuzz-requirements" 2>/dev/null)" = "$requirements" ] && return
  rm -rf "$CACHE/fuzz"
  python3 -m venv "$CACHE/fuzz"
  "$CACHE/fuzz/bin/pip" install --quiet --disable-pip-version-check "$requirements"
  echo "$requirements" >"$CACHE/fuzz-requirements"
}
memory() {
  local pid; pid=$(pgrep -f "gabion up --background --data $GABION_DATA" | head -1)
  awk '/^VmRSS/ { print int($2 / 1024) }' "/proc/$pid/status"
}
# Devices are files of this machine, at any path: nothing makes groups of made-up ones here. Signing in and joining are
# paced, a second for each attempt.
ask() { # seconds
  local url ca token
  url=$(gabion status --output json | field "it['api']['urls'][0]")
  ca=$(gabion status --output json | field "it['api']['ca_file']")
  token=$(gabion token create "fuzz-$1-$RANDOM" --role administrator --output json | field "it['token']")
  (cd "$area" && "$CACHE/fuzz/bin/schemathesis" run "$area/described.json" --url "$url" --tls-verify "$ca" \
    --header "Authorization: Bearer $token" --max-time "$1" --phases coverage,fuzzing --continue-on-failure \
    --checks "$CHECKS" \
    --exclude-operation-id group_create --exclude-operation-id group_extend --exclude-operation-id event_stream \
    --exclude-operation-id session_create --exclude-operation-id host_join --exclude-operation-id session_delete \
    --exclude-operation-id token_delete --exclude-operation-id notify_add --request-timeout 60 --no-color \
    --suppress-health-check all --warnings off | tee "$area/asked")
}
well() {
  [ "$(gabion host list --output json | field "all(h['state'] == 'up' for h in it)")" = True ]
  gabion volume create after --size 8MiB
  gabion volume delete after --now --yes
}

step "tools" tools
gabion up --detach --sparse --cache-size 128MiB --capacity-size 512MiB
gabion volume create one --size 16MiB
gabion api describe >"$area/described.json"
first() { ask "$((SECONDS_MAX / 4))"; }
rest() { ask "$((SECONDS_MAX * 3 / 4))"; }
step "a quarter of the time" first
before=$(memory)
step "the rest of it" rest
after=$(memory)
say "fuzz-api: the process took $before MiB after a quarter of the time, $after MiB at the end"
grown() { [ "$after" -le "$((before + GROWTH_MAX))" ]; }
grep -iA4 "^test cases" "$area/asked" || true
step "it has not grown" grown
step "the cluster is well" well
gabion down
conclude "fuzzing the API"
