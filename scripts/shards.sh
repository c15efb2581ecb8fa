#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Hosts of two shards each: copies keep to different hosts, and what is done to a host is done to both of its shards.
# usage: shards.sh GABION
set -euo pipefail
GABION=${1:?usage: shards.sh GABION}
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

# The hosts that have a copy of a volume, each as often as it has one.
hosts_of() {
  gabion volume show "$1" --output json | field "' '.join(sorted(c['host'].split('.')[0] for c in it['components']))"
}
names_where() { gabion host list --output json | field "' '.join(h['name'] for h in it if $1)"; }
is_green() { test "$(gabion volume show "$1" --output json | field "it['health']")" = green; }
apart() { # every volume has its copies on two hosts
  local name
  for name in $names; do
    test "$(hosts_of "$name" | tr ' ' '\n' | uniq | wc -l)" = 2 || { echo "$name: $(hosts_of "$name")"; return 1; }
  done
}
names="a b c d e f"

hosts_have_their_shards() {
  gabion host list | tee /dev/stderr | grep -E '^ host2 +up, 2 shards'
  test "$(names_where "h.get('host') == 'host3'")" = "host3.1 host3.2"
  gabion host show host1 | grep "host1 has 2 shards"
  gabion host show host1.2 | grep "disk group"
}

copies_keep_to_different_hosts() {
  local name
  for name in $names; do gabion volume create "$name" --size 64MiB >/dev/null; done
  apart
  # Volumes that are made through one host are on both of its shards.
  for shard in host1.1 host1.2; do test -n "$(gabion volume list --host $shard --output json | field "it or ''")"; done
  test "$(gabion volume list --host host1 --output json | field "len(it)")" = 6
  gabion volume create three --size 64MiB --ftt 2
  test "$(hosts_of three)" = "host1 host2 host3"
  not gabion host maintenance enter host2 --mode full-evacuation --yes
  gabion volume delete three --yes --now
  gabion volume explain a | grep "on the same host, has a copy"
}

a_lost_host_is_made_again_on_the_others() {
  gabion cluster set repair-delay 3s
  verifier load --uri "$(uri a 0)" --state "$area/state" --seconds 12 --depth 8 >"$area/load.json" & background=$!
  sleep 1
  gabion host kill host2
  gabion host list | grep -E '^ host2 +(down|no shard answers)'
  whole() { local name; for name in $names; do is_green "$name" || return 1; done; }
  await 60 whole
  apart
  for name in $names; do not grep host2 <<<"$(hosts_of "$name")"; done
  wait $background; background=""
  gabion host start host2
  await 20 eval 'gabion host list | grep -qE "^ host2 +up, 2 shards"'
  verifier check --uri "$(uri a 1)" --state "$area/state" >/dev/null
}

one_shard_alone() {
  gabion host kill host3.1
  gabion host list | grep -E '^ host3 +1 of 2 shards up'
  refused_start=$(gabion host start host3.2 2>&1 || true)
  grep "host3.2 is running already" <<<"$refused_start"
  gabion host start host3
  await 20 eval 'gabion host list | grep -qE "^ host3 +up, 2 shards"'
}

a_host_is_emptied_with_both_shards() {
  gabion host maintenance enter host1 --mode full-evacuation --yes
  test "$(names_where "'maintenance' in h")" = "host1.1 host1.2"
  empty() { test "$(gabion volume list --host host1 --output json | field "len(it)")" = 0; }
  await 60 empty
  apart
  gabion host maintenance exit host1
  test "$(names_where "'maintenance' in h")" = ""
  # Between the shards of a host, and to a host, whichever of its shards it is.
  gabion volume move a --from "$(hosts_of a | cut -d ' ' -f 1)" --to host1
  await 30 eval 'hosts_of a | grep -q host1'
}

a_host_is_in_one_rack() {
  gabion domain create rack1
  gabion domain assign host1.1 host2 --to rack1 --yes
  in_rack() { gabion domain list --output json | field "' '.join(sorted(it['domains'][0]['hosts']))"; }
  test "$(in_rack)" = "host1.1 host1.2 host2.1 host2.2"
  gabion domain unassign host1 host2 --yes
  gabion domain delete rack1
}

gabion up --detach --hosts 3 --shards 2 --sparse --cache-size 256MiB --capacity-size 1GiB >/dev/null
step "hosts and their shards" hosts_have_their_shards
step "no two copies on one host" copies_keep_to_different_hosts
step "a host of two shards is killed under load" a_lost_host_is_made_again_on_the_others
step "one shard is killed" one_shard_alone
step "a host is emptied, and copies move to it" a_host_is_emptied_with_both_shards
step "a host is in one rack" a_host_is_in_one_rack
conclude shards
