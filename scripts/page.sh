#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The page: its logic, its door, and an operator's day at it in a browser.
# usage: page.sh GABION FOLDER      FOLDER: where pictures of each page are kept
set -euo pipefail
GABION=${1:?usage: page.sh GABION FOLDER}
FOLDER=${2:?usage: page.sh GABION FOLDER}
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
page=$(realpath "$here/../page")
mkdir -p "$FOLDER"; FOLDER=$(realpath "$FOLDER")

tools() { "$page/install.sh"; }
# What the page believes of the API is what this program has.
types() {
  mkdir -p "$area/types"
  gabion api describe >"$area/described.json"
  node "$page/types.mjs" "$area/described.json" "$area/types"
  local file
  for file in schema.d.ts roles.ts; do
    diff -u "$page/src/core/$file" "$area/types/$file" >"$area/difference" && continue
    head -40 "$area/difference"
    say "the API has changed: run page/types.sh $GABION, and look at what the page makes of it"
    return 1
  done
}
logic() { (cd "$page" && npm run --silent check && npm test --silent); }
token() { gabion token create "page-$1" --role "$1" --output json | field "it['token']"; }
url() { gabion status --output json | field "it['api']['urls'][0]"; }
ca() { gabion status --output json | field "it['api']['ca_file']"; }
get() { curl --silent --cacert "$(ca)" "$@"; }
# Files of the page are for all, everything else is not; browsers are told what the page may do.
page_door() {
  local asset
  get --dump-header "$area/head" "$(url)/" >"$area/index.html"
  grep -q '<div id="page">' "$area/index.html"
  grep -qi "^content-security-policy: default-src 'self'; base-uri 'none'" "$area/head"
  not grep -qi "unsafe-" "$area/head"
  grep -qi "^x-content-type-options: nosniff" "$area/head"
  grep -qi "^x-frame-options: DENY" "$area/head"
  grep -qi "^referrer-policy: no-referrer" "$area/head"
  grep -qi "^cache-control: no-cache" "$area/head"
  not grep -qE "<script>|<style|style=|https?://" "$area/index.html"
  asset=$(grep -oE '/assets/[^"]*\.js' "$area/index.html")
  get --dump-header "$area/head" "$(url)$asset" >"$area/asset.js"
  get --compressed "$(url)$asset" | cmp - "$area/asset.js"
  grep -qi "^cache-control: .*immutable" "$area/head"
  [ "$(get --output /dev/null --write-out "%{http_code}" "$(url)/api/v1/status")" = 401 ]
  [ "$(get --output /dev/null --write-out "%{http_code}" "$(url)/assets/none.js")" = 401 ]
  [ "$(get --output /dev/null --write-out "%{http_code}" --request POST "$(url)/")" = 401 ]
  curl --silent --unix-socket "$(gabion status --output json | field "it['api']['socket']")" http://gabion/ |
    cmp - "$area/index.html"
}
browser() { node "$page/e2e/walk.mjs" "$(url)" "$area/tokens.json" "$FOLDER"; }
roles() {
  printf '{"viewer":"%s","operator":"%s","administrator":"%s"}\n' \
    "$(token viewer)" "$(token operator)" "$(token administrator)" >"$area/tokens.json"
}

step "tools" tools
step "its types are those of the API" types
step "its logic" logic
gabion up --detach --sparse --cache-size 128MiB --capacity-size 512MiB
step "its door" page_door
step "tokens" roles
step "an operator's day in a browser" browser
gabion down
conclude "the page"
