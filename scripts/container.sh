#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The container image: built of the package, and run as docs/operations/container.md says. Needs root and a Debian
# mirror.
# usage: container.sh PACKAGE FOLDER      FOLDER: where the Debian is kept that the image begins with
set -euo pipefail
package=$(realpath "${1:?usage: container.sh PACKAGE FOLDER}")
FOLDER=${2:?usage: container.sh PACKAGE FOLDER}
GABION=$package
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
mkdir -p "$FOLDER"; FOLDER=$(realpath "$FOLDER")
base=$FOLDER/slim.tar
image=localhost/gabion-test
container=gabion-test-$$
port=7970
devices=""

shut() {
  local code=$?
  set +e
  podman rm --force --volumes $container >/dev/null 2>&1
  podman volume rm --force $container-etc $container-var >/dev/null 2>&1
  podman image rm --force $image localhost/gabion-base >/dev/null 2>&1
  for device in $devices; do losetup --detach "$device"; done
  (exit $code)
  finish
}
trap shut EXIT

limits=(--ulimit "memlock=-1:-1" --ulimit "nofile=65536:65536")
# A machine that is a guest itself may not be able to raise them.
if ! prlimit --memlock=unlimited --nofile=65536:65536 true 2>/dev/null; then
  limits=(--ulimit "nofile=$(ulimit -Hn):$(ulimit -Hn)" --ulimit "nproc=4096:4096")
fi
# What no option of Gabion's is about: how this machine's kernel and cgroups are. crun refuses to work where both
# versions of cgroups are mounted.
podman() {
  local runtime=()
  if [ -d /sys/fs/cgroup/unified ]; then runtime=(--runtime=runc --cgroup-manager=cgroupfs); fi
  command podman "${runtime[@]}" "$@"
}
# No registry is asked: a Debian of this machine's release, as small as an image of a registry, is made and kept.
made() {
  if [ ! -e "$base" ]; then
    mmdebstrap --quiet --format=tar --variant=minbase "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" "$base.new"
    mv "$base.new" "$base"
  fi
  mkdir "$area/context"
  cp "$package" "$area/context/"
  podman import --quiet "$base" localhost/gabion-base
  podman build --quiet --network=host --build-arg BASE=localhost/gabion-base --tag $image \
    --file "$here/../packaging/Containerfile" "$area/context"
}
# The guide's own words.
seccomp() { sed -n 's/^    \(jq .*\) >gabion-seccomp.json$/\1/p' "$here/../docs/operations/container.md"; }
options() {
  bash -c "$(seccomp)" >"$area/seccomp.json"
  grep -q io_uring_setup "$area/seccomp.json"
}
# run OPTION.. IMAGE WORD..: as the guide says
run() {
  podman run --network=host --cap-drop=all --security-opt=no-new-privileges --group-add=6 \
    --security-opt="seccomp=$area/seccomp.json" "${limits[@]}" \
    --device="$area/cache:/dev/cache" --device="$area/capacity:/dev/capacity" \
    --volume $container-etc:/etc/gabion --volume $container-var:/var/lib/gabion --volume "$area/run:/run/gabion" "$@"
}
creates() {
  local uid; uid=$(podman run --rm --network=none "${limits[@]}" --entrypoint=/usr/bin/id $image --user)
  install -d -m 0750 -o "$uid" -g "$uid" "$area/run"
  run --rm $image cluster create --name host1 --address 127.0.0.1 --port $port --directory-port $((port + 20)) \
    --cache /dev/cache --capacity /dev/capacity --ignore-device-kind
  run --detach --name $container --stop-timeout=30 $image >/dev/null
  await 20 is_green
}
is_green() { [ "$(podman exec $container gabion status --output json | field "it['health']" 2>/dev/null)" = green ]; }
confined() {
  local pid; pid=$(podman inspect --format '{{.State.Pid}}' $container)
  grep -qx $'CapPrm:\t0000000000000000' "/proc/$pid/status"
  grep -qx $'Seccomp:\t2' "/proc/$pid/status"
  not grep -qP '^Uid:\t0\t' "/proc/$pid/status"
}
serves() {
  podman exec $container gabion volume create data --size 64MiB --ftt 0
  head -c 1M /dev/urandom >"$area/bytes"
  nbdcopy "$area/bytes" "nbd+unix:///data?socket=$area/run/nbd.sock"
  reads
}
reads() {
  nbdcopy "nbd+unix:///data?socket=$area/run/nbd.sock" "$area/back"
  cmp --bytes=1M "$area/bytes" "$area/back"
}
# A container that is made anew is the same host.
again() {
  podman stop $container >/dev/null
  [ "$(podman inspect --format '{{.State.ExitCode}}' $container)" = 0 ]
  podman rm $container >/dev/null
  run --detach --name $container $image >/dev/null
  await 20 is_green
  reads
}
without_rings() {
  not podman run --rm --network=none "${limits[@]}" $image \
    cluster create --name x --address 127.0.0.1 >"$area/refused" 2>&1
  grep -q "io_uring" "$area/refused"
}

for disk in cache capacity; do
  truncate -s 1GiB "$area/$disk.img"
  device=$(losetup --find --show "$area/$disk.img")
  devices="$devices $device"
  # As udev makes them, which is not everywhere.
  mknod --mode=0660 "$area/$disk" b "$(stat -c 0x%t "$device")" "$(stat -c 0x%T "$device")"
  chgrp disk "$area/$disk"
done
step "the image is built" made
step "the guide's seccomp profile" options
step "a cluster is created, and its host runs" creates
step "the host has no capability" confined
step "it serves a volume" serves
step "a container made anew is the same host" again
step "without the profile there is no io_uring" without_rings
conclude "the container image"
