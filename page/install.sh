#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what the page is made with, where that is not there yet.
set -euo pipefail
cd "$(dirname "$0")"
cmp -s package-lock.json node_modules/.installed && exit
npm ci --silent
cp package-lock.json node_modules/.installed
