#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a new user does, with the clients that users have: on a fresh cluster, in a fresh folder.
# usage: acceptance.sh GABION      the path of the binary; KEEP=1 keeps the folder after a failure
set -euo pipefail
GABION=${1:?usage: acceptance.sh GABION}
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/volumes.sh
. "$(dirname "$0")/volumes.sh"

MIB=$((1 << 20))
TESTED_MIB=192 # more than one destage batch, small enough for a slow disk

start_cluster() {
  gabion up --detach --cache-size 512MiB --capacity-size 1GiB
  gabion status
  test "$(gabion host list --output json | field 'len(it)')" = 3
  test "$(gabion status --output json | field "it['health']")" = green
}

create_volume() {
  gabion volume create first --size 1GiB
  gabion volume show first
  test "$(gabion volume show first --output json | field \
    "sorted(set(['name','size_bytes','ftt','health','owner','term','nbd','components']) - set(it))")" = "[]"
  test "$(gabion volume show first --output json | field "it['size_bytes']")" = $((1024 * MIB))
  test "$(gabion volume show first --output json | field "it['health']")" = green
  test "$(gabion volume show first --output json | field "len(it['nbd'])")" = 3
}

nbd_info() {
  nbdinfo --json "$(uri first 0)" | tee "$area/info.json"
  field "it['exports'][0]['export-size']" <"$area/info.json" | grep -x $((1024 * MIB)) >/dev/null
  nbdinfo --list "$(uri first 0)" | grep first >/dev/null
  # A fresh volume is thin: nothing is allocated, and it reads as zeros.
  nbdinfo --map "$(uri first 0)" --json | field "set(e['type'] for e in it)" | grep -x '{3}' >/dev/null
  qemu-io -f raw -c "read -P 0 0 4M" "$(uri first 0)" | not_failed
}

not_failed() { # qemu-io says "Pattern verification failed" and ends with 0
  tee "$area/qemu-io.log"
  not grep -qiE 'failed|error' "$area/qemu-io.log"
}

nbd_copy() {
  head -c $((TESTED_MIB * MIB)) /dev/urandom >"$area/in.raw"
  truncate -s $((1024 * MIB)) "$area/in.raw"
  nbdcopy "$area/in.raw" "$(uri first 0)"
  nbdcopy "$(uri first 0)" "$area/out.raw"
  cmp "$area/in.raw" "$area/out.raw"
}

other_doors() {
  for index in 1 2; do
    rm -f "$area/out.raw"
    nbdcopy "$(uri first $index)" "$area/out.raw"
    cmp "$area/in.raw" "$area/out.raw"
  done
  rm -f "$area/out.raw"
}

qemu_convert() {
  head -c $((64 * MIB)) /dev/urandom >"$area/disk.raw"
  truncate -s $((256 * MIB)) "$area/disk.raw"
  qemu-img convert -f raw -O qcow2 "$area/disk.raw" "$area/disk.qcow2"
  gabion volume create image --size 256MiB
  qemu-img convert -n -f qcow2 -O raw "$area/disk.qcow2" "$(uri image 0)"
  qemu-img compare -f raw -F qcow2 "$(uri image 0)" "$area/disk.qcow2"
  qemu-img convert -f raw -O qcow2 "$(uri image 0)" "$area/back.qcow2"
  qemu-img compare -f qcow2 -F raw "$area/back.qcow2" "$area/disk.raw"
  gabion volume delete image --now --yes
  not gabion volume show image
}

qemu_patterns() {
  local at; at=$(uri first 0)
  qemu-io -f raw -c "write -P 0xa5 1M 64k" -c "read -P 0xa5 1M 64k" "$at" | not_failed
  # 512 bytes in the middle of a block: its neighbours keep what they have.
  qemu-io -f raw -c "write -P 0x5a 1052160 512" -c "read -P 0x5a 1052160 512" "$at" | not_failed
  qemu-io -f raw -c "read -P 0xa5 1M 3584" -c "read -P 0xa5 1052672 512" "$at" | not_failed
  qemu-io -f raw -c "write -P 0x11 8M 3M" -c "write -z 9M 1M" -c "read -P 0x11 8M 1M" \
    -c "read -P 0 9M 1M" -c "read -P 0x11 10M 1M" "$at" | not_failed
  qemu-io -f raw -c "write -P 0x77 1048064 1024" -c "read -P 0x77 1048064 1024" "$at" | not_failed
  qemu-io -f raw -c "write -f -P 0x33 4k 4k" -c "flush" -c "read -P 0x33 4k 4k" "$at" | not_failed
  qemu-io -f raw -d unmap -c "discard 16M 16M" -c "read -P 0 16M 16M" "$at" | not_failed
  nbdinfo --map "$at" --json | field "[e['type'] for e in it if e['offset'] <= 17 << 20 \
    < e['offset'] + e['length']]" | grep -x '\[3\]' >/dev/null
}

fio_verify() {
  for size in 512 4k 64k; do
    fio --name=v --ioengine=nbd --uri="$(uri first 0)" --rw=randwrite --bs="$size" --iodepth=16 \
      --size=512M --io_size=$((size_mib * MIB)) --verify=crc32c --verify_fatal=1 --output-format=terse
  done
}
size_mib=32

file_system() {
  [ "$(id -u)" = 0 ] || skip "needs root for the loop mount"
  [ -c /dev/fuse ] || skip "no /dev/fuse here"
  losetup -f >/dev/null 2>&1 || skip "no loop devices here"
  gabion volume create files --size 512MiB
  fuse_folder="$area/fuse"; mkdir "$fuse_folder" "$area/mnt"
  nbdfuse "$fuse_folder" "$(uri files 0)" & background="$background $!"
  for _ in $(seq 50); do [ -s "$fuse_folder/nbd" ] && break; sleep 0.1; done
  loop=$(losetup -f --show "$fuse_folder/nbd")
  mkfs.ext4 -q "$loop"
  mount "$loop" "$area/mnt"; mounted="$area/mnt"
  mkdir "$mounted/tree"; cp -r "$here" "$mounted/tree/"
  head -c $((48 * MIB)) /dev/urandom >"$mounted/big"; sha256sum <"$mounted/big" >"$area/big.sum"
  unmount_all
  for _ in $(seq 50); do grep -q " $area/fuse " /proc/mounts || break; sleep 0.1; done
  # The second time through another host's door.
  fuse_folder="$area/fuse"
  nbdfuse "$fuse_folder" "$(uri files 1)" & background="$background $!"
  for _ in $(seq 50); do [ -s "$fuse_folder/nbd" ] && break; sleep 0.1; done
  loop=$(losetup -f --show "$fuse_folder/nbd")
  e2fsck -fn "$loop"
  mount "$loop" "$area/mnt"; mounted="$area/mnt"
  sha256sum <"$mounted/big" | cmp - "$area/big.sum"
  diff -r "$here" "$mounted/tree/$(basename "$here")"
  unmount_all
}

# refused CODE ARGUMENT...: that exit code, one line on standard error, nothing on standard output changed.
refused() {
  local expected=$1 code=0; shift
  gabion "$@" >"$area/stdout" 2>"$area/stderr" || code=$?
  local lines; lines=$(wc -l <"$area/stderr")
  if [ "$code" -ne "$expected" ] || [ "$lines" -ne 1 ]; then
    say "gabion $*: exit code $code (expected $expected), $lines lines on standard error (expected 1):"
    cat "$area/stderr"; bad=$((bad + 1))
  fi
}

bad_input() {
  local bad=0 before after long
  before=$(gabion volume list --output json)
  long=$(printf 'a%.0s' $(seq 64))
  refused 2 volume create x --size 0
  refused 2 volume create x --size 511
  refused 2 volume create x --size 63TiB
  refused 2 volume create x --size 1.3G
  refused 2 volume create x --size 1GX
  refused 2 volume create x --size -1GiB
  refused 2 volume create x --size ten
  refused 2 volume create x --size 99999999999999999999GiB
  refused 2 volume create x
  refused 2 volume create --size 1GiB
  refused 2 volume create x --size 1GiB --ftt 9
  refused 2 volume create x --size 1GiB --ftt one
  refused 2 volume create x --size 1GiB --colour red
  grep -q "(see 'gabion volume create --help')" "$area/stderr"
  refused 2 volume create X --size 1GiB
  refused 2 volume create a_b --size 1GiB
  refused 2 volume create -- -a --size 1GiB
  refused 2 volume create "" --size 1GiB
  refused 2 volume create "$long" --size 1GiB
  refused 2 volume create "a/b" --size 1GiB
  refused 1 volume create first --size 1GiB
  refused 1 volume show absent
  refused 1 volume delete absent
  refused 2 volume delete first
  grep -q -- "--yes is needed (see 'gabion volume delete --help')" "$area/stderr"
  refused 1 host kill absent
  refused 1 host start absent
  refused 1 host start "$(host_name 0)"
  refused 1 up --detach
  refused 2 frobnicate
  refused 2 volume frobnicate
  refused 2 status --output xml
  refused 2 up --hosts 0 --data "$area/none"
  refused 2 up --hosts three --data "$area/none"
  refused 2 up --cache-size 1 --data "$area/none"
  refused 1 status --data "$area/none"
  refused 1 down --data "$area/none"
  mkdir -p "$area/foreign"; echo hello >"$area/foreign/diary.txt"
  refused 1 up --detach --data "$area/foreign"
  grep -qx hello "$area/foreign/diary.txt"
  test "$(ls -A "$area/foreign")" = diary.txt
  refused 1 up --detach --data "$area/foreign/diary.txt"
  refused 1 --config "$area/host.toml" cluster create --etcd http://127.0.0.1:1 --name one \
    --address 127.0.0.1 --cache "$area/none/cache" --capacity "$area/none/capacity"
  test ! -e "$area/host.toml"
  test ! -e "$area/none"
  after=$(gabion volume list --output json)
  test "$before" = "$after"
  test "$(gabion status --output json | field "it['health']")" = green
  test "$bad" = 0
}

# At once after a host was killed, long before its lease ends.
truth_of_now() {
  local name; name=$(gabion volume show first --output json | field "it['components'][1]['host']")
  gabion host kill "$name"
  gabion status --output json >"$area/status.json"
  state() { field "$1" <"$area/status.json"; }
  test "$(state "[h['state'] for h in it['hosts'] if h['name'] == '$name']")" = "['not answering']"
  test "$(state "it['health']")" = yellow
  test "$(state "[v['health'] for v in it['volumes'] if v['name'] == 'first']")" = "['yellow']"
  test "$(state "[v['reduced_seconds'] <= 2 for v in it['volumes'] if v['name'] == 'first']")" = "[True]"
  # Again and again, until nobody reads it.
  timeout 20 "$GABION" status --watch </dev/null | grep -m 3 "first .*reduced for"
  timeout 20 "$GABION" status --watch --output json </dev/null | head -n 2 | tail -n 1 | field "it['health']"
  # Until Ctrl-C: it ends by itself, and not by the signal.
  "$GABION" status --watch </dev/null >/dev/null & local watch=$!
  sleep 1.5; kill -INT "$watch"; wait "$watch"
  gabion host start "$name"
  say "note: green after $(cluster wait-health first green 60) s"
  # Its old lease goes after its links are back: for a moment it is away once more.
  local reduced
  for _ in {1..100}; do
    reduced=$(gabion volume ls --output json | field "[v['name'] for v in it if v.get('reduced_seconds') is not None]")
    [ "$reduced" != "[]" ] || return 0
    sleep 0.1
  done
  say "still reduced after 10 s: $reduced"; return 1
}

full_disk() {
  [ "$(id -u)" = 0 ] || skip "needs root for the small file system"
  losetup -f >/dev/null 2>&1 || skip "no loop devices here"
  local bad=0
  truncate -s 64M "$area/small.img"; mkfs.ext4 -q "$area/small.img"; mkdir -p "$area/small"
  mount -o loop "$area/small.img" "$area/small"; mounted="$area/small"
  refused 1 up --detach --data "$area/small/data"
  test -z "$(cluster pids gabion "$area/small/data")"
  test "$bad" = 0
}

comes_back() {
  qemu-io -f raw -c "write -P 0xc3 40M 8M" "$(uri first 0)" | not_failed
  gabion down
  test -z "$(cluster pids gabion "$GABION_DATA")"
  gabion up --detach
  qemu-io -f raw -c "read -P 0xc3 40M 8M" "$(uri first 1)" | not_failed
  gabion volume delete first --now --yes
  gabion down
}

inspect_devices() {
  local device copy="$area/copy.img"
  for device in "$GABION_DATA"/host1/*.img; do gabion disk inspect "$device" --read-blocks; done
  cp --sparse=always "$device" "$copy"
  printf 'rot' | dd of="$copy" bs=1 seek=65600 conv=notrunc status=none
  if gabion disk inspect "$copy" --output json >"$area/found.json"; then
    say "a damaged superblock is not noticed"; return 1
  fi
  test "$(field "it['findings'][0]['structure']" <"$area/found.json")" = superblock
  rm "$copy"
}

start_processes() {
  gabion up --detach --processes --sparse --cache-size 512M --capacity-size 1g 2>"$area/said"
  grep "of disk space in .* at once and 4.50GiB when they are full" "$area/said"
  # All of the caches, and of the capacity devices what the store needs for itself.
  test "$(du -cm "$GABION_DATA"/host*/*.img | tail -n 1 | cut -f 1)" -lt 1700
}

# fio writes through host 1, again and again, until the file `$area/enough` is there. After each pass fio
# verifies what it wrote; the last pass's seed is kept for the other doors.
fio_passes() {
  local seed=1 target; target=$(uri moved 0)
  while true; do
    echo "$seed" >"$area/seed"
    fio --name=v --ioengine=nbd --uri="$target" --rw=randwrite --bs=4k --iodepth=16 --size=128M \
      --rate_iops=4000 --randseed="$seed" --verify=crc32c --verify_fatal=1 --do_verify=1 \
      --output-format=json --output="$area/pass.$seed.json" || return 1
    [ ! -e "$area/enough" ] || return 0
    seed=$((seed + 1))
  done
}

# The hosts that have a copy.
hosts() { gabion volume show moved --output json | field "' '.join(c['host'] for c in it['components'])"; }

# gone_from HOST BEGAN: waits until nothing is left there and all is redundant, for two minutes from BEGAN on.
gone_from() {
  until case " $(hosts) " in *" $1 "*) false ;; esac; do
    test $((SECONDS - $2)) -lt 120 || { gabion volume show moved; return 1; }
    sleep 0.5
  done
  cluster wait-health moved green 60
}

# The copy on one host goes to the one without, under load, and its old place is freed.
move_a_copy() {
  local from to began=$SECONDS
  from=$(hosts); from=${from##* }
  for to in "$(host_name 0)" "$(host_name 1)" "$(host_name 2)"; do
    case " $(hosts) " in *" $to "*) ;; *) break ;; esac
  done
  if gabion volume move moved --from "$from" --to "$(hosts | cut -d ' ' -f 1)" 2>"$area/said"; then return 1; fi
  grep "has a copy already" "$area/said"
  gabion volume move moved --from "$from" --to "$to"
  gone_from "$from" "$began"
  say "note: the copy on $from was on $to after $((SECONDS - began)) s"
}

# A host stays away: what it had is made again on the one without, under load and unasked.
made_again() {
  local gone began=$SECONDS
  gone=$(hosts | tr ' ' '\n' | grep -v "^$(host_name 0)$" | head -n 1)
  gabion cluster set repair-delay 3s
  if gabion resync limit 1KiB 2>"$area/said"; then return 1; fi
  grep "from 1MiB to 1TiB a second, or none" "$area/said"
  gabion resync limit 64MiB | grep "each host copies at most 64MiB/s"
  gabion cluster show | grep "^repair-delay *3s$"
  # A new cluster has what this release knows.
  gabion cluster upgrade | grep "nothing to raise"
  gabion cluster show | grep "^resync-limit *64MiB/s at each host$"
  gabion resync limit none
  gabion host kill "$gone"
  gone_from "$gone" "$began"
  say "note: what $gone had was elsewhere $((SECONDS - began)) s after it was killed, 3 s of them waited for it"
  gabion host start "$gone"
  gabion cluster set repair-delay 1h
}

# A third copy under load, and two again.
more_and_fewer() {
  local began=$SECONDS
  gabion volume change moved --ftt 2
  until test "$(hosts | wc -w)" = 3 && cluster wait-health moved green 60; do
    test $((SECONDS - began)) -lt 120 || { gabion volume show moved; return 1; }
    sleep 0.5
  done
  say "note: the third copy counted after $((SECONDS - began)) s"
  gabion policy create pair --ftt 2
  gabion volume set-policy moved pair
  gabion policy check pair --ftt 1
  if gabion policy edit pair --ftt 1 </dev/null 2>"$area/said"; then return 1; fi
  grep -e "--yes" "$area/said"
  gabion policy edit pair --ftt 1 --yes
  until test "$(hosts | wc -w)" = 2; do
    test $((SECONDS - began)) -lt 180 || { gabion volume show moved; return 1; }
    sleep 0.5
  done
  cluster wait-health moved green 60
  gabion volume show moved | grep "it is compliant"
  gabion volume show moved --output json | python3 -c '
import json, sys
volume = json.load(sys.stdin)
assert volume["compliance"] == {"state": "compliant"}, volume["compliance"]
assert (volume["policy"]["name"], volume["policy"]["version"]) == ("pair", 2), volume["policy"]'
  if gabion policy delete pair 2>"$area/said"; then return 1; fi
  grep "followed by moved" "$area/said"
  gabion volume set-policy moved --none
  gabion policy delete pair
}

# A host is stopped on purpose: first one whose volumes are reduced meanwhile, then one that is emptied before.
# The cluster has three hosts, its volumes two copies.
maintenance() {
  local name mode=ensure-accessibility
  gabion volume create rested --size 128MiB
  for name in $(host_name 1) $(host_name 2); do
    if gabion host maintenance enter "$name" --mode "$mode" </dev/null 2>"$area/said"; then return 1; fi
    grep -e "--yes is needed" "$area/said"
    gabion host maintenance check "$name" --mode "$mode"
    gabion host maintenance enter "$name" --mode "$mode" --yes | grep "may be stopped"
    gabion host list | grep "$name *up, in maintenance: may be stopped"
    if [ "$mode" = full-evacuation ]; then test "$(copies_on "$name")" = 0; fi
    gabion host kill "$name"
    fio --name=v --ioengine=nbd --uri="$(uri rested 0)" --rw=randwrite --bs=4k --iodepth=16 --size=128M \
      --io_size=32M --verify=crc32c --verify_fatal=1 --output-format=terse
    if [ "$(copies_on "$name")" = 0 ]; then
      test "$(gabion status --output json | field "it['health']")" = green
    fi
    gabion host start "$name"
    say "green after $(cluster wait-health moved green 120) s, $(cluster wait-health rested green 120) s"
    gabion host maintenance exit "$name"
    mode=full-evacuation
  done
  if gabion host maintenance exit "$name" 2>"$area/said"; then return 1; fi
  grep "is not in maintenance" "$area/said"
  gabion what-if host-failure "$(host_name 0)"
  gabion volume delete rested --now --yes
}

# A rack is made around the two hosts with a copy, under load: one of these moves to the third host.
racks() {
  local both load began=$SECONDS
  gabion volume create racked --size 128MiB
  both=$(gabion volume show racked --output json | field "' '.join(sorted(c['host'] for c in it['components']))")
  fio --name=v --ioengine=nbd --uri="$(uri racked 0)" --rw=randwrite --bs=4k --iodepth=8 --rate_iops=500 \
    --size=128M --time_based --runtime=15 --verify=crc32c --verify_fatal=1 --output-format=terse >"$area/fio" &
  load=$!
  sleep 2
  gabion domain create rack1
  gabion domain assign $both --to rack1 --check | grep "nothing was changed"
  if gabion domain assign $both --to rack1 </dev/null 2>"$area/said"; then return 1; fi
  grep -e "--yes is needed" "$area/said"
  gabion domain assign $both --to rack1 --yes | grep "move to another host"
  gabion host list | grep -c "rack1$" | grep "^2$"
  until test "$(gabion domain list --output json | field "it['to_move']")" = 0; do
    test $((SECONDS - began)) -lt 120 || return 1
    sleep 0.5
  done
  gabion volume show racked --output json | field "it['compliance']['state']" | grep "^compliant$"
  gabion volume show racked | grep -c "(rack1)" | grep "^1$"
  wait "$load"
  if gabion volume create three --size 64MiB --ftt 2 2>"$area/said"; then return 1; fi
  grep "needs 3 fault domains with a host that has room; there are 2" "$area/said"
  if gabion domain delete rack1 2>"$area/said"; then return 1; fi
  grep "gabion domain unassign" "$area/said"
  gabion domain unassign $both
  gabion domain delete rack1
  gabion volume delete racked --now --yes
}

# How many copies of volumes a host has.
copies_on() {
  gabion volume list --output json | field "sum(c['host'] == '$1' for v in it for c in v['components'])"
}

# A host is gone for good: nobody waits for it, and it does not come back.
remove_a_host() {
  local gone began=$SECONDS
  gone=$(hosts | tr ' ' '\n' | grep -v "^$(host_name 0)$" | head -n 1)
  if gabion host remove "$gone" --lost --yes 2>"$area/said"; then return 1; fi
  grep "is up" "$area/said"
  gabion host kill "$gone"
  until gabion host remove "$gone" --lost --yes; do
    test $((SECONDS - began)) -lt 60 || return 1
    sleep 1
  done
  gone_from "$gone" "$began"
  test "$(gabion host list --output json | field 'len(it)')" = 2
  if gabion host start "$gone" 2>"$area/said"; then return 1; fi
  grep "was taken out of the cluster" "$area/said"
  gabion down
  gabion up --detach --processes
  grep "this host was taken out of the cluster" "$GABION_DATA/gabion.log"
  test "$(gabion status --output json | field "(len(it['hosts']), it['removed'])")" = "(2, ['$gone'])"
  cluster wait-health moved green 60
  fio --name=v --ioengine=nbd --uri="$(uri moved 0)" --rw=randwrite --bs=4k --iodepth=16 \
    --size=128M --randseed="$(cat "$area/seed")" --verify=crc32c --verify_fatal=1 --verify_only \
    --output-format=terse
}

killed_hosts() {
  gabion volume create moved --size 256MiB
  fio_passes & local load=$!
  background="$background $load"
  sleep 2
  for index in 1 2; do
    local name; name=$(host_name $index)
    say "killing host $name"; gabion host kill "$name"
    sleep 3
    kill -0 "$load" || { say "fio failed"; wait "$load" || true; return 1; }
    gabion host start "$name"
    say "green after $(cluster wait-health moved green 120) s"
  done
  move_a_copy
  made_again
  more_and_fewer
  touch "$area/enough"
  wait "$load" || { cat "$area"/pass.*.json | tail -n 40; return 1; }
  for index in 0 1 2; do
    say "verifying through host $index"
    fio --name=v --ioengine=nbd --uri="$(uri moved $index)" --rw=randwrite --bs=4k --iodepth=16 \
      --size=128M --randseed="$(cat "$area/seed")" --verify=crc32c --verify_fatal=1 --verify_only \
      --output-format=terse
  done
  local stall; stall=$(python3 - "$area"/pass.*.json <<'P'
import json, sys
jobs = [json.load(open(path))["jobs"][0] for path in sys.argv[1:]]
print(round(max(job[side]["lat_ns"]["max"] for job in jobs for side in ("read", "write")) / 1e6))
P
)
  test "$stall" -lt 7000
  say "note: longest stall $stall ms (aim: under 1000)"
}

say "acceptance of $(gabion --version 2>/dev/null || echo "$GABION"), in $area"
step "a cluster of three hosts starts" start_cluster
step "a volume is created and shown" create_volume
step "nbdinfo" nbd_info
step "nbdcopy in and out" nbd_copy
step "the same bytes through every host" other_doors
step "qemu-img convert in and out" qemu_convert
step "qemu-io patterns, 512 bytes too" qemu_patterns
step "fio --verify" fio_verify
step "ext4 through nbdfuse and a loop mount" file_system
step "bad input is refused and changes nothing" bad_input
step "status tells the truth of now" truth_of_now
step "deletion asks for the name on a terminal" deletion_asks
step "volumes are found by their labels" labels
step "a volume grows, is renamed, deleted and brought back" life_of_a_volume
step "a volume of many objects fits a screen" large_volume
step "a striped volume" striped
step "a reserve is changed, on all hosts or on none" change_reserve
step "a volume keeps to its limits" limited
step "one host writes at a time, and another takes over" one_writer
step "a volume of one copy stays on one host, and moves to another" one_host
step "a full disk is refused" full_disk
step "data survives down and up" comes_back
step "gabion disk inspect" inspect_devices
GABION_DATA="$area/processes"
step "a cluster of processes with etcd starts" start_processes
step "hosts 2 and 3 killed under fio --verify" killed_hosts
step "no two copies in one rack" racks
step "hosts are stopped in maintenance" maintenance
step "a lost host is taken out of the cluster" remove_a_host
conclude acceptance
