#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the test scripts share. Source it after setting GABION to the binary's path.
# It makes a fresh folder for one cluster and takes care that nothing of it is left when the script ends.
# shellcheck disable=SC2034

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
GABION=$(realpath "$GABION")
area=$(mktemp -d "${TMPDIR:-/tmp}/gabion-test.XXXXXX")
export GABION GABION_DATA="$area/data"
failures=0

cluster() { python3 "$here/cluster.py" "$@"; }
# Debian's libnbd is for Debian's python3.
verifier() { /usr/bin/python3 "$here/verifier.py" "$@"; }
gabion() { "$GABION" "$@" </dev/null; }
# field EXPRESSION: of JSON on standard input, as `it`
field() { cluster field "$1"; }
uri() { gabion volume show "$1" --output json | field "it['nbd'][$2]"; } # volume, host index
host_name() { gabion host list --output json | field "it[$1]['name']"; }
# not COMMAND...: it must fail. A line that begins with `!` ends no script under `set -e`, whatever the command does.
not() { if "$@"; then say "it was to fail: $*"; return 1; fi; }
say() { printf '%s\n' "$*"; }
await() { # SECONDS COMMAND...: tries it ten times a second until it succeeds
  local left=$(($1 * 10)); shift
  while [ $left -gt 0 ]; do "$@" && return 0; sleep 0.1; left=$((left - 1)); done
  echo "waited in vain for: $*"; gabion status; return 1
}
# What kept the hosts' threads from other work for longer than 20 ms, as far as they answer.
turns() {
  gabion status --output json 2>/dev/null | field "'; '.join('%s %d, longest %.0f ms (%s)' % (
    t['host'], t['long'], t['longest_ms'], t.get('longest_task', 'none')) for t in it['turns'])" || true
}

# Undone in reverse order by the step that sets them; empty when there is nothing to undo.
mounted=""; loop=""; fuse_folder=""; background=""

unmount_all() {
  if [ -n "$mounted" ]; then umount "$mounted" || umount -l "$mounted" || true; fi
  if [ -n "$loop" ]; then losetup -d "$loop" || true; fi
  if [ -n "$fuse_folder" ]; then fusermount3 -uz "$fuse_folder" || true; fi
  mounted=""; loop=""; fuse_folder=""
}

end_step() {
  # What runs in a shell function is a child of the shell in the background: it would go on alone, into the next step.
  for pid in $background; do
    pkill -P "$pid" || true; kill "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true
  done
  unmount_all
}

finish() {
  local code=$?
  trap - EXIT INT TERM
  end_step
  if [ -n "$(cluster pids gabion "$GABION_DATA")" ]; then
    say "turns longer than 20 ms: $(turns)"
    gabion down >/dev/null 2>&1 || true
  fi
  local left
  left=$(cluster kill gabion "$area"); left=$((left + $(cluster kill etcd "$area")))
  if [ "$left" -gt 0 ]; then say "note: $left processes outlived the end of the test and were killed"; fi
  if [ "$code" -eq 0 ] || [ -z "${KEEP:-}" ]; then rm -rf "$area"; else say "kept for a look: $area"; fi
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

# step NAME FUNCTION: runs it apart, prints one line, shows the end of its output when it fails.
# A function that calls `skip REASON` is neither passed nor failed.
step() {
  local name=$1 begin end code
  begin=$(date +%s.%N)
  # Not `( ... ) || code=$?`: bash would then ignore every failure inside.
  set +e
  ( set -euo pipefail; trap end_step EXIT; "$2" ) >"$area/step.log" 2>&1
  code=$?
  set -e
  end=$(date +%s.%N)
  local took; took=$(python3 -c "print(f'{$end - $begin:.1f}')")
  case $code in
    0) printf 'ok    %6s s  %s%s\n' "$took" "$name" "$(note)" ;;
    77) printf 'skip            %s%s\n' "$name" "$(note)" ;;
    *) printf 'FAIL  %6s s  %s\n' "$took" "$name"; tail -n 25 "$area/step.log" | sed 's/^/      | /'
       failures=$((failures + 1)) ;;
  esac
}
# The last line `note: ...` of a step's output is shown beside its name.
note() { sed -n 's/^note: \(.*\)/: \1/p' "$area/step.log" | tail -n 1; }
skip() { say "note: $*"; exit 77; }

conclude() {
  if [ "$failures" -eq 0 ]; then say "$1: all steps passed"; return 0; fi
  say "$1: $failures steps FAILED"; return 1
}
