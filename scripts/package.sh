#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Debian package: made, looked at, and a cluster started with the program in it. installed.sh goes on from there.
# usage: package.sh GABION FOLDER      GABION: the program, or a package that is there; FOLDER: where the package goes
set -euo pipefail
GABION=${1:?usage: package.sh GABION FOLDER}
FOLDER=${2:?usage: package.sh GABION FOLDER}
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
mkdir -p "$FOLDER"; FOLDER=$(realpath "$FOLDER")
tree=$area/tree

# What of a package the next run would take for its own is gone.
made() {
  rm -f "$FOLDER"/gabion_*.deb
  "$here/deb.sh" "$GABION" "$FOLDER"
  "$here/deb.sh" "$GABION" "$area/again"
  cmp "$FOLDER"/gabion_*.deb "$area"/again/gabion_*.deb
}
linted() {
  command -v lintian >/dev/null || skip "there is no lintian"
  lintian --allow-root --fail-on error "$package"
}
content() {
  dpkg-deb --extract "$package" "$tree"
  [ "$(dpkg-deb --contents "$package" | awk '{ print $2 }' | sort -u)" = root/root ]
  not grep -q . <<<"$(find "$tree" -perm /6022 ! -type l)"
  (cd "$tree" && dpkg-deb --control "$package" "$area/control" && md5sum --quiet --check "$area/control/md5sums")
  # The documents that it has, it also names.
  grep -q "share/doc/gabion/operations/install.md" "$tree/lib/systemd/system/gabion.service"
  test -s "$tree/usr/share/doc/gabion/operations/install.md"
  zgrep -q "tokio" "$tree/usr/share/doc/gabion/licences-of-crates.gz"
  zgrep -q "preact" "$tree/usr/share/doc/gabion/licences-of-crates.gz"
  [ "$(gabion --version)" = "$("$tree/usr/bin/gabion" --version)" ]
}
pages() {
  local page count=0
  for page in "$tree"/usr/share/man/man1/*.1.gz; do
    MANWIDTH=80 man --warnings --encoding=UTF-8 --local-file "$page" >"$area/page" 2>"$area/warnings"
    not grep -H --label="$page" . "$area/warnings"
    grep -q "^SYNOPSIS" "$area/page"
    count=$((count + 1))
  done
  [ "$count" -gt 60 ]
  say "note: $count pages"
}
# completed WORD..: what bash offers for the last word.
completed() {
  bash -c 'set -eu; . "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
    "$(complete -p gabion | sed "s/.*-F \([^ ]*\) .*/\1/")" gabion "${COMP_WORDS[COMP_CWORD]}" "$3"
    printf "%s\n" "${COMPREPLY[@]}"' - "$tree/usr/share/bash-completion/completions/gabion" "$@"
}
completions() {
  local without=""
  [ "$(completed gabion volume cre)" = create ]
  grep -qx -- --reserve <<<"$(completed gabion volume create --r)"
  if command -v zsh >/dev/null; then
    zsh -n "$tree/usr/share/zsh/vendor-completions/_gabion"
    # The file is the function: it is loaded as zsh does at the first completion.
    zsh -f -c "fpath=('$tree/usr/share/zsh/vendor-completions' \$fpath); autoload -Uz compinit
      compinit -D && autoload +X _gabion
      [[ \$_comps[gabion] = _gabion && \$(functions _gabion) = *_gabion__subcmd__volume_commands* ]]"
  else without="$without zsh"; fi
  if command -v fish >/dev/null; then
    grep -q ^create <<<"$(fish --no-config -c "source '$tree/usr/share/fish/vendor_completions.d/gabion.fish'
      complete --do-complete 'gabion volume cre'")"
  else without="$without fish"; fi
  [ -z "$without" ] || say "note: there is no$without"
}
# An exposure of 2.0 at most; without its restrictions the unit has 8.9.
unit() {
  command -v systemd-analyze >/dev/null || skip "there is no systemd-analyze"
  local unit=$tree/lib/systemd/system/gabion.service
  # It looks for the program where it will be.
  sed "s|^ExecStart=/usr|ExecStart=$tree/usr|" "$unit" >"$area/gabion.service"
  # Manual pages are looked for on this machine.
  systemd-analyze verify --man=no "$area/gabion.service"
  systemd-analyze security --offline=true --threshold=20 "$unit" | tail -n 1
}
used() {
  GABION=$tree/usr/bin/gabion
  gabion up --detach --cache-size 128MiB --capacity-size 256MiB
  gabion volume create first --size 64MiB
  head -c 1M /dev/urandom >"$area/bytes"
  nbdcopy "$area/bytes" "$(uri first 0)"
  nbdcopy "$(uri first 1)" "$area/back"
  cmp --bytes=1M "$area/bytes" "$area/back"
  gabion down
}

if [[ $GABION = *.deb ]]; then
  package=$GABION
  dpkg-deb --extract "$package" "$area/given"
  GABION=$area/given/usr/bin/gabion
else
  step "the package is made, twice the same" made
  package=$(echo "$FOLDER"/gabion_*.deb)
fi
step "its files" content
step "lintian finds no error" linted
step "manual pages render without warnings" pages
step "completions load" completions
step "the unit is right, and restricted" unit
step "a cluster and a volume by its program" used
conclude "the package"
