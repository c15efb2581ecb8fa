#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A cluster of three machines, each a network namespace of its own, made with `cluster create` and `host join`.
# The third one has two shards. They keep the directory by themselves. Checks that one host can go silent (its link is
# cut) under load, and that it comes back; that a shard that ends is started again, and that none outlives its daemon;
# that the directory moves from a host that is lost to a fourth one, which has no disks and came with an invitation;
# that nobody on the network reads what is written, and that a stranger gets no link.
# Needs root.
# usage: three-machines.sh GABION
set -euo pipefail
GABION=${1:?usage: three-machines.sh GABION}
STALL_MS_MAX=7000
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

[ "$(id -u)" = 0 ] || { say "three-machines: skipped: network namespaces need root"; exit 0; }
net="gb$$"
daemons=""

cut_down() {
  for pid in $daemons; do kill -9 "$pid" 2>/dev/null || true; done
  pkill -9 -f "$area/directory[0-9]/etcd-" || true
  for number in 1 2 3 4; do ip netns del "$net-$number" 2>/dev/null || true; done
  ip link del "$net" 2>/dev/null || true
}
restore() { return "$1"; }
trap 'code=$?; set +e; cut_down; restore "$code"; finish' EXIT

ip link add "$net" type bridge
ip link set "$net" up
for number in 1 2 3 4; do
  ip netns add "$net-$number"
  ip link add "$net-v$number" type veth peer name eth0 netns "$net-$number"
  ip link set "$net-v$number" master "$net" up
  ip -n "$net-$number" addr add "10.77.0.$number/24" dev eth0
  ip -n "$net-$number" link set eth0 up
  ip -n "$net-$number" link set lo up
done
on() { local number=$1; shift; ip netns exec "$net-$number" "$@"; }
# The fourth one has nothing of the others' files.
folder_of() { case $1 in 4) echo "$area/own" ;; *) echo "$area" ;; esac; }
on_host() { local number=$1; shift; on "$number" "$GABION" --config "$(folder_of "$number")/host$number.toml" "$@"; }

enrol() { # number, command...
  local number=$1; shift
  on_host "$number" "$@" --name "host$number" --address "10.77.0.$number" --run-dir "$area/run$number" \
    --directory-dir "$area/directory$number"
}
with_disks() { # number, command...
  local number=$1; shift
  enrol "$number" "$@" --create-files 512MiB \
    --cache "$area/cache$number.img" --capacity "$area/capacity$number.img"
}
declare -A daemon_of
start() { # number
  # A member that is silent for so long loses its place: ten minutes where nothing else is said. Signs of life of its
  # host last 15 s: it is taken for gone by then, not for a host whose member lost what it had.
  local folder; folder=$(folder_of "$1")
  sed -i 's/^move_after_s = .*/move_after_s = 20/' "$folder/host$1.directory.toml"
  (exec ip netns exec "$net-$1" "$GABION" --config "$folder/host$1.toml" daemon >>"$area/host$1.log" 2>&1) &
  daemons="$daemons $!"; daemon_of[$1]=$!
}
voters() { # on which hosts the directory is, by number
  on_host 1 directory members --output json 2>/dev/null |
    field "' '.join(sorted(m['host'][4:] for m in it if m['role'] != 'learner'))" 2>/dev/null || true
}
wait_for_voters() {
  for _ in $(seq 600); do [ "$(voters)" = "$1" ] && return; sleep 0.1; done
  say "the directory is on '$(voters)', not on '$1'"; on_host 1 directory members || true; exit 1
}

with_disks 1 cluster create
start 1
for _ in $(seq 100); do on_host 1 directory members >/dev/null 2>&1 && break; sleep 0.1; done
if with_disks 2 cluster create --etcd http://10.77.0.1:7078 2>"$area/said"; then
  say "a second cluster was made in one etcd"; exit 1
fi
grep -q 'cannot be used with' "$area/said" || { say "no word of which option is too much:"; cat "$area/said"; exit 1; }
if on_host 2 cluster create --etcd http://10.77.0.1:7078 --name host2 --address 10.77.0.2 --run-dir "$area/run2" \
  2>"$area/said"; then say "a cluster was made in the directory of another one"; exit 1; fi
grep -q 'cannot be reached' "$area/said" || { say "the directory answers in plain text:"; cat "$area/said"; exit 1; }
if enrol 2 host join --directory 10.77.0.3 2>"$area/said"; then say "joined where nobody answers"; exit 1; fi
grep -q 'directory members' "$area/said" || { say "no word of where to ask:"; cat "$area/said"; exit 1; }
with_disks 2 host join --directory 10.77.0.1
with_disks 3 host join --directory 10.77.0.1 --cache "$area/cache4.img" --capacity "$area/capacity4.img"
grep -q '^shards = ' "$area/host3.toml" || { say "host3 has no two shards:"; cat "$area/host3.toml"; exit 1; }
start 2
start 3
up() { # how many hosts are; nothing where nobody answers yet
  local status; status=$(on_host 1 status --output json 2>/dev/null) || return 0
  field "sum(h['state'] == 'up' for h in it['hosts'])" <<<"$status"
}
all_up() { for _ in $(seq 150); do [ "$(up || true)" = 4 ] && return; sleep 0.1; done; }
all_up
[ "$(up)" = 4 ] || { say "not all hosts came up"; tail -n 5 "$area"/host*.log; exit 1; }
wait_for_voters "1 2 3"

# What a host says of a health check: STATE and what mends it.
check() { # number, CHECK
  { on_host "$1" health --output json || true; } |
    field "next('%s %s' % (c['state'], '; '.join(c['mend'])) for c in it['checks'] if c['id'] == '$2')" || true
}
wait_for_check() { # number, CHECK, SAID
  for _ in $(seq 450); do [[ $(check "$1" "$2") = $3 ]] && return; sleep 0.1; done
  say "the check $2 is '$(check "$1" "$2")', not '$3'"; exit 1
}
# The members of the directory are looked at every half a minute.
wait_for_check 1 directory.members "green *"

on_host 1 volume create far --size 64MiB
show() { on_host 1 volume show far --output json; }
socket_uri="nbd+unix:///far?socket=$area/run1/nbd.sock"
verifier load --uri "$socket_uri" --state "$area/state" --seconds 25 --depth 8 >"$area/load.json" & load=$!
background="$load"
sleep 3
other=$(show | field "[c['host'] for c in it['components'] if c['host'] != 'host1'][0].split('.')[0][-1]")
ip link set "$net-v$other" down
sleep 12
state=$(show | field "[c['state'] for c in it['components'] if c['host'].split('.')[0] == 'host$other'][0]")
[ "$state" = absent ] || { say "host$other is silent and its component is $state, not absent"; exit 1; }
wait_for_check 1 hosts.answering "yellow ssh host$other systemctl start gabion"
ip link set "$net-v$other" up
wait "$load" || { say "three-machines: I/O failed"; cat "$area/load.json"; exit 1; }
background=""
for _ in $(seq 300); do [ "$(show | field "it['health']")" = green ] && break; sleep 0.1; done
[ "$(show | field "it['health']")" = green ] || { say "not green again:"; show; exit 1; }
for folder in run1 run2 run3/host3.1 run3/host3.2; do
  verifier check --uri "nbd+unix:///far?socket=$area/$folder/nbd.sock" --state "$area/state" >/dev/null
done
stall=$(field "it['longest_stall_ms']" <"$area/load.json")
say "three-machines: host$other silent for 12 s, longest stall $stall ms (at most $STALL_MS_MAX), nothing lost"
python3 -c "import sys; sys.exit($stall > $STALL_MS_MAX)"

# Somebody on the network: what is written passes him, and says nothing as long as links are encrypted.
marker="gabion-marker-$RANDOM-$RANDOM-on-the-wire"
for _ in $(seq 20000); do echo "$marker"; done >"$area/marked"
truncate -s 512K "$area/marked"
on_host 1 volume create secret --size 16MiB --ftt 1
passed() { # how often the marker passes host 1's link while it is written
  local sniffer count
  rm -f "$area/sniffed"
  "$here/sniff.py" "$net-v1" "$marker" >"$area/sniffed" & sniffer=$!
  for _ in $(seq 100); do [ -s "$area/sniffed" ] && break; sleep 0.1; done
  nbdcopy --flush "$area/marked" "nbd+unix:///secret?socket=$area/run1/nbd.sock"
  kill "$sniffer"; wait "$sniffer" || true
  count=$(sed -n 's/ times in [1-9].*//p' "$area/sniffed")
  echo "${count:-nothing was heard}"
}
is_on=$(on_host 1 cluster show --output json | field "it['encrypt_links']")
[ "$is_on" = True ] || { say "links are not encrypted"; exit 1; }
secret=$(passed); on_host 1 cluster set encrypt-links off; plain=$(passed)
[ "$secret" = 0 ] || { say "somebody on the network read what was written: $secret"; exit 1; }
[ "$plain" -gt 100 ] || { say "what is not encrypted was to be seen: $plain"; exit 1; }
on_host 1 cluster set encrypt-links on
secret=$(passed)
[ "$secret" = 0 ] || { say "somebody read what was written, after it was set anew: $secret"; exit 1; }
stranger() { # what somebody without a certificate is told at the port of other hosts
  on 4 /usr/bin/python3 - <<'PYTHON'
import socket, ssl
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
context.set_alpn_protocols(["gabion-peer"])
try:
    with context.wrap_socket(socket.create_connection(("10.77.0.1", 7070), 5)) as link:
        link.sendall(b"hello")
        print("let in:", link.recv(100))
except ssl.SSLError as error:
    print(error.reason)
PYTHON
}
told=$(stranger)
case $told in *CERTIFICATE_REQUIRED*) ;; *) say "a stranger was told: $told"; exit 1 ;; esac
say "three-machines: nobody read what was written ($plain times in plain text where it is not encrypted)"

# The directory answers nobody without a certificate of the cluster, and nobody on the network reads what it is told.
named="named-$RANDOM-$RANDOM"
rm -f "$area/sniffed"
"$here/sniff.py" "$net-v1" "$named" >"$area/sniffed" & sniffer=$!
for _ in $(seq 100); do [ -s "$area/sniffed" ] && break; sleep 0.1; done
on_host 2 volume create "$named" --size 16MiB --ftt 1
kill "$sniffer"; wait "$sniffer" || true
grep -q '^0 times in [1-9]' "$area/sniffed" || { say "somebody on the network: $(cat "$area/sniffed")"; exit 1; }
etcd() { on 1 env ETCDCTL_API=3 etcdctl --dial-timeout 2s --command-timeout 3s "$@" 2>&1 || true; }
holds="/directory1/member.pem"
at="--endpoints https://10.77.0.1:7078"
own="--cacert $area/ca.pem --cert $area$holds --key $area$holds"
# shellcheck disable=SC2086
known=$(etcd $at $own get "" --prefix --keys-only | wc -l)
[ "$known" -gt 10 ] || { say "a member's own proof is none: $known"; exit 1; }
openssl req -x509 -newkey ed25519 -nodes -keyout "$area/other.key" -out "$area/other.pem" -subj /CN=host1 -days 9 \
  2>"$area/said"
foreign="--cacert $area/ca.pem --cert $area/other.pem --key $area/other.key"
for port in 7078 7079; do
  for attempt in "--endpoints http://10.77.0.1:$port" "--endpoints https://10.77.0.1:$port --cacert $area/ca.pem" \
    "--endpoints https://10.77.0.1:$port $foreign"; do
    # shellcheck disable=SC2086
    said=$(etcd $attempt get "" --prefix --keys-only)
    case $said in */gabion-members/*) say "the directory answers a stranger ($attempt): $said"; exit 1 ;; esac
  done
done
say "three-machines: the directory answers no stranger ($known lines to one of the cluster)"

shard() { pgrep -f "daemon --config $area/host3.$1.toml" || true; } # its process
first=$(shard 2)
kill -9 "$first"
for _ in $(seq 100); do again=$(shard 2); [ -n "$again" ] && [ "$again" != "$first" ] && break; sleep 0.1; done
[ -n "$again" ] && [ "$again" != "$first" ] || { say "host3.2 was not started again"; exit 1; }
all_up
[ "$(up)" = 4 ] || { say "not all shards are up again"; tail -n 5 "$area"/host3*.log; exit 1; }
daemon=$(pgrep -f "daemon$" -a | sed -n "s|^\([0-9]*\) .*host3.toml daemon\$|\1|p")
kill -9 "$daemon"
gone() { [ -z "$(shard 1)$(shard 2)" ]; }
for _ in $(seq 100); do gone && break; sleep 0.1; done
gone || { say "shards outlived the daemon of their host"; exit 1; }
say "three-machines: a shard was started again, and none outlived its daemon"

# Host 3 and its etcd are gone. A fourth host without disks gets its place, and all else goes on. It comes with an
# invitation, which brings the CA's files along, and is good once.
pkill -9 -f "$area/directory3/etcd-" || true
for _ in $(seq 10); do
  on_host 1 directory members >/dev/null || { say "the members that are left do not answer"; exit 1; }
done
# An election that lasts longer than two seconds is not waited for: nothing is changed then, and the command says so.
for _ in $(seq 20); do invited=$(on_host 2 host invite --output json 2>"$area/said") && break; done
invitation=$(field "it['invitation']" <<<"$invited") || { cat "$area/said"; exit 1; }
mkdir "$area/own"
if enrol 4 host join --invitation "${invitation/gbj_????/gbj_0000}" 2>"$area/said"; then say "anybody joins"; exit 1; fi
grep -q 'host invite' "$area/said" || { say "no word of what to do instead:"; cat "$area/said"; exit 1; }
enrol 4 host join --invitation "$invitation"
cmp "$area/ca-key.pem" "$area/own/ca-key.pem"
start 4
if on 3 "$GABION" --config "$area/again/host5.toml" host join --invitation "$invitation" --name host5 \
  --address 10.77.0.3 --run-dir "$area/run5" --directory-dir "$area/directory5" 2>"$area/said"; then
  say "an invitation let two machines in"; exit 1
fi
wait_for_voters "1 2 4"
answered=$(on 1 curl -so "$area/answer" -w '%{http_code}' --cacert "$area/ca.pem" https://10.77.0.4:7443/api/v1/status)
[ "$answered" = 401 ] || { say "the new host's API answers $answered: it is not of the cluster's CA"; exit 1; }
on_host 1 volume create late --size 16MiB --ftt 1
# Each of the others may fail now: with the first one gone the directory still answers.
kill -9 "${daemon_of[1]}"; pkill -9 -f "$area/directory1/etcd-" || true
for _ in $(seq 300); do on_host 2 volume delete late --yes --now >/dev/null 2>"$area/said" && break; sleep 0.1; done
[ ! -s "$area/said" ] || { say "nothing can be changed:"; cat "$area/said"; exit 1; }
wait_for_check 2 directory.members "yellow gabion directory members"
say "three-machines: the directory moved from a lost host to one without disks, and outlived another one"
