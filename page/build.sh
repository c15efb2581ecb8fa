#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the page into page/dist, where `cargo build` finds it, if anything of it changed.
set -euo pipefail
cd "$(dirname "$0")"
sources="src index.html package-lock.json tsconfig.json vite.config.ts"
# shellcheck disable=SC2086
now=$(find $sources -type f | LC_ALL=C sort | xargs sha256sum | sha256sum)
[ -e dist/index.html ] && [ "$(cat node_modules/.built 2>/dev/null)" = "$now" ] && exit
./install.sh
npm run --silent build
echo "$now" >node_modules/.built
