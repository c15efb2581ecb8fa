#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds nbd-tester-client of Debian's source package nbd in a cache folder, and prints its path.
# usage: nbd-tester.sh CACHE      NBD_SOURCE names a folder with the sources, where they are not to be fetched
# Ends with 77 where the sources are not to be had.
set -euo pipefail
cache=$(mkdir -p "${1:?usage: nbd-tester.sh CACHE}" && cd "$1" && pwd)
tester=$cache/nbd-tester-client

fetch() {
  local suite options
  suite=$(. /etc/os-release && echo "${VERSION_CODENAME:?}")
  mkdir -p "$cache/lists/partial"
  echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $suite main" \
    >"$cache/sources.list"
  options=(-q -o "Dir::Etc::sourcelist=$cache/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::lists=$cache/lists" -o APT::Sandbox::User=root)
  apt-get "${options[@]}" update && cd "$cache" && apt-get "${options[@]}" source nbd
}

if [ ! -x "$tester" ]; then
  if [ -z "${NBD_SOURCE:-}" ]; then
    fetch >"$cache/fetch.log" 2>&1 || { echo "the source package nbd is not to be had here" >&2; exit 77; }
    NBD_SOURCE=$(find "$cache" -maxdepth 1 -type d -name "nbd-*" | head -n 1)
  fi
  # The client needs neither TLS nor anything else that its configure script looks for.
  mkdir -p "$cache/include"
  printf '#define %s 1\n' HAVE_MKSTEMP HAVE_FDATASYNC NBD_LFS >"$cache/include/config.h"
  # shellcheck disable=SC2046
  gcc -O1 -w -D_GNU_SOURCE -I"$cache/include" -I"$NBD_SOURCE" $(pkg-config --cflags glib-2.0) \
    -o "$tester.new" "$NBD_SOURCE/tests/run/nbd-tester-client.c" "$NBD_SOURCE/cliserv.c" $(pkg-config --libs glib-2.0)
  cp "$NBD_SOURCE"/tests/run/integrity*-test.tr "$cache"
  mv "$tester.new" "$tester"
fi
echo "$tester"
