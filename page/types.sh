#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the page's types of the API anew. usage: types.sh GABION
set -euo pipefail
GABION=$(realpath "${1:?usage: types.sh GABION}")
cd "$(dirname "$0")"
./install.sh
described=$(mktemp)
trap 'rm -f "$described"' EXIT
"$GABION" api describe >"$described"
node types.mjs "$described" src/core
