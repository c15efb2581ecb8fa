#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The package in a Debian that is made for it, whose systemd runs a host on loop devices as the unit says, and in a
# container image. Needs root and a Debian mirror.
# usage: installed.sh PACKAGE FOLDER      FOLDER: where a Debian is kept from which the fresh ones are made
set -euo pipefail
package=$(realpath "${1:?usage: installed.sh PACKAGE FOLDER}")
FOLDER=${2:?usage: installed.sh PACKAGE FOLDER}
GABION=$package
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
mkdir -p "$FOLDER"; FOLDER=$(realpath "$FOLDER")
base=$FOLDER/debian.tar
fresh=$area/debian
address=10.91.7.1
devices=""; nspawn=""; machine=""

# It ends before what it uses is taken away.
shut() {
  local code=$?
  set +e
  if [ -n "$machine" ]; then kill -KILL "$machine"; wait "$nspawn"; fi
  for device in $devices; do losetup --detach "$device"; done
  (exit $code)
  finish
}
trap shut EXIT

# The Debian of this machine, for the program was linked here. It is kept: only what is tried in it is new each time.
debian() {
  local suite; suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
  if [ ! -e "$base" ]; then
    mmdebstrap --quiet --format=tar --variant=minbase \
      --include=systemd,systemd-sysv,etcd-server,iproute2,libnbd-bin,procps "$suite" "$base.new"
    mv "$base.new" "$base"
  fi
  mkdir "$fresh"
  tar --extract --file="$base" --directory="$fresh" --exclude='./dev/*'
  cp "$package" "$fresh/opt/gabion.deb"
}

loops() {
  local name
  for name in cache capacity more; do
    truncate -s 1GiB "$area/$name.img"
    devices="$devices $(losetup --find --show "$area/$name.img")"
  done
}

# A machine of its own, but for the kernel.
boot() {
  systemd-nspawn --quiet --directory="$fresh" --machine="gabion-$$" --boot --register=no --keep-unit --private-network \
    --console=pipe --system-call-filter="io_uring_setup io_uring_enter io_uring_register" \
    >"$area/boot.log" 2>&1 </dev/null &
  nspawn=$!
  for _ in $(seq 600); do
    machine=$(pgrep --parent "$nspawn" || true)
    # Units of Debian's own may fail in a container.
    case $([ -z "$machine" ] || inside systemctl is-system-running 2>/dev/null) in running | degraded) return 0 ;; esac
    sleep 0.1
  done
  cat "$area/boot.log"; return 1
}

# inside COMMAND...: in the booted Debian, as its root.
inside() {
  nsenter --target "$machine" --mount --uts --ipc --net --pid --root --wd -- \
    env --ignore-environment PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@" </dev/null
}
host() { inside systemctl show gabion.service --property="$1" --value; }
of_daemon() { inside sed -n "s/^$1:\s*//p" "/proc/$(host MainPID)/status"; }
is_green() { [ "$(inside gabion status --output json | field "it['health']" 2>/dev/null)" = green ]; }

installs() {
  inside dpkg --install /opt/gabion.deb
  grep -q ":/usr/sbin/nologin$" <<<"$(inside getent passwd gabion)"
  # Nobody asked for a host.
  [ "$(host ActiveState) $(host UnitFileState)" = "inactive disabled" ]
}
# With the strictest umask of an operator: what root makes is the daemon's all the same.
creates() {
  local device
  for device in $devices; do
    # As udev makes them.
    inside mknod --mode=0660 "$device" b "$(stat -c 0x%t "$device")" "$(stat -c 0x%T "$device")"
    inside chgrp disk "$device"
  done
  read -r cache capacity _ <<<"$devices"
  inside ip address add $address/32 dev lo
  inside sh -c "umask 077; gabion cluster create --name host1 --address $address --nbd-socket-group gabion \
    --cache $cache --capacity $capacity --ignore-device-kind"
  inside systemctl enable --now gabion
  await 20 is_green
}
confined() {
  local uid; uid=$(inside id --user gabion)
  [ "$(of_daemon Uid | cut -f1)" = "$uid" ]
  [ "$(of_daemon CapPrm)$(of_daemon CapBnd)" = "$(printf '%032d' 0)" ]
  [ "$(of_daemon NoNewPrivs) $(of_daemon Seccomp)" = "1 2" ]
  # It has rings all the same, and its etcd is as confined as itself.
  grep -q io_uring <<<"$(inside ls -l "/proc/$(host MainPID)/fd")"
  inside pgrep --uid gabion --exact etcd
}
# as_member GROUP COMMAND...: a user who is in this group and nothing else.
as_member() {
  local group; group=$(inside getent group "$1" | cut -d: -f3); shift
  inside setpriv --reuid=nobody --regid=nogroup --groups="$group" "$@"
}
serves() {
  local uri="nbd+unix:///data?socket=/run/gabion/nbd.sock"
  inside gabion volume create data --size 64MiB --ftt 0
  head -c 4M /dev/urandom >"$area/bytes"
  cp "$area/bytes" "$fresh/opt/bytes"
  as_member gabion nbdcopy /opt/bytes "$uri"
  not as_member nogroup nbdinfo --size "$uri"
  reads
}
# The daemon writes its own configuration, and who asked for the change.
grows() {
  local cache more; read -r cache _ more <<<"$devices"
  inside gabion group add-disk "$cache" "$more" --ignore-device-kind
  grep -q "$more" "$fresh/etc/gabion/host.toml"
  inside gabion audit export >"$area/audit"
  grep -q '"caller":"uid 0".*"command":"group-extend"' "$area/audit"
  [ "$(stat -c "%u %a" "$fresh/etc/gabion/ca-key.pem")" = "$(inside id --user gabion) 600" ]
}
# Over the network it answers who has a token.
answers() {
  local token; token=$(inside gabion token create looks --role viewer --output json | field "it['token']")
  asks() { nsenter --target "$machine" --net -- curl --silent --output /dev/null --write-out "%{http_code}" \
    --cacert "$fresh/etc/gabion/ca.pem" --header "Authorization: Bearer $1" "https://$address:7443/api/v1/status"; }
  [ "$(asks "$token") $(asks nobody)" = "200 401" ]
}
reads() {
  as_member gabion nbdcopy "nbd+unix:///data?socket=/run/gabion/nbd.sock" - >"$area/back"
  cmp --bytes=4M "$area/bytes" "$area/back"
}
restarts() {
  local before; before=$(host MainPID)
  inside systemctl restart gabion
  await 20 is_green
  reads
  # An upgrade leaves what runs alone.
  before=$(host MainPID)
  inside dpkg --install /opt/gabion.deb
  [ "$(host MainPID)" = "$before" ]
}
# Whoever removes the package stops the host, and loses nothing.
removed() {
  inside dpkg --remove gabion
  not inside pgrep --uid gabion
  inside dpkg --purge gabion
  test -s "$fresh/etc/gabion/host.toml"
  test -d "$fresh/var/lib/gabion/directory"
  inside dpkg --install /opt/gabion.deb
  inside systemctl start gabion
  await 20 is_green
  reads
}

step "a fresh Debian" debian
[ "$failures" = 0 ]
loops
boot
step "it installs, and starts nothing" installs
step "a cluster is created" creates
step "the host is confined" confined
step "members of its group have a volume, others do not" serves
step "its disk group grows, and its configuration with it" grows
step "it answers over the network who has a token" answers
step "it is restarted; an upgrade does not do that" restarts
step "removed and purged, it leaves what it had" removed
conclude "the installed package"
