#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Notifications: what is wrong is told once to each receiver with the command that mends it, and so is that it is well
# again; and a support bundle has no secret that was planted anywhere.
# usage: notify.sh GABION
set -euo pipefail
GABION=${1:?usage: notify.sh GABION}
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
got="$area/got"; mkdir "$got"; : >"$got/hook.jsonl"; : >"$got/safe.jsonl"
: >"$got/mail.jsonl"; : >"$got/syslog.jsonl"
PASSWORD='Corr3ct-horse "battery'; TOKEN_IN_URL=t0ken-in-the-path

# serve NAME [PORT]: a receiver in the background; its process is in $got/NAME.pid
serve() {
  rm -f "$got/$1.port"
  python3 "$here/notify_servers.py" "$got" "$@" >>"$got/$1.log" 2>&1 &
  echo $! >"$got/$1.pid"
  await 10 test -e "$got/$1.port"
}
port() { cat "$got/$1.port"; }
# Ends a receiver that this script began.
away() { kill "$(cat "$got/$1.pid")"; rm "$got/$1.pid"; }
# of NAME EXPRESSION: of what a receiver got, as `it`, the oldest first
of() {
  python3 -c "import json, sys; it = [json.loads(line) for line in open(sys.argv[1])]; print(eval(sys.argv[2]))" \
    "$got/$1.jsonl" "$2"
}
# about KIND CHECK: how many messages the webhook got of a kind and a check
about() { of hook "len([m for m in it if m['type'] == 'health.$1' and m['data']['check'] == '$2'])"; }
count() { [ "$(about "$1" "$2")" = "$3" ]; } # KIND CHECK COUNT
mails() { of mail "len([m for m in it if '$1' in m['text'].replace('=\r\n', '')])"; } # TEXT
lines() { of syslog "len([m for m in it if '$1' in m['text']])"; } # TEXT
is_mailed() { [ "$(mails "$1")" = "$2" ]; }
is_logged() { [ "$(lines "$1")" = "$2" ]; }
health() { { gabion health --output json || true; } | field "$1"; }
is() { [ "$(health "[c for c in it['checks'] if c['id'] == '$1'][0]['state']")" = "$2" ]; } # CHECK STATE
overall() { [ "$(health "it['state']")" = "$1" ]; }
socket() { gabion status --output json | field "it['api']['socket']"; }

# A receiver is refused where it could not be one, and its secrets are never shown.
receivers() {
  not gabion notify add a --webhook ftp://a.example
  not gabion notify add a --webhook "http://anna:secret@a.example/"
  not gabion notify add a --email $'a@b.c\r\nBcc: x@y.z' --smtp m:25
  not gabion notify add a --email a@b.c --smtp m
  not gabion notify add a --webhook https://a.example --group "ho sts"
  gabion notify list | grep -q "nobody is told"
  gabion notify add hook --webhook "http://127.0.0.1:$(port hook)/in/$TOKEN_IN_URL?x=1" --secret-file "$got/secret"
  gabion notify add mail --email ops@example.com --smtp "localhost:$(port mail)" --user "$(cat "$got/smtp-user")" \
    --password-file "$got/smtp-password" --ca-file "$got/mail.pem" --from gabion@example.com
  gabion notify add log --syslog "127.0.0.1:$(port syslog)" --group hosts
  not gabion notify add log --syslog
  [ "$(gabion notify list --output json | field "[r['name'] for r in it]")" = "['hook', 'log', 'mail']" ]
  { gabion notify list; gabion notify show hook; gabion notify show mail; gabion notify list --output json
    gabion audit export; } >"$area/shown"
  not grep -F -e "$(cat "$got/secret")" -e "$TOKEN_IN_URL" -e Corr3ct "$area/shown"
  grep -q "secret *set" "$area/shown"
  curl --silent --unix-socket "$(socket)" http://gabion/api/v1/receivers >"$area/answer"
  [ "$(field "[r['has_secret'] for r in it]" <"$area/answer")" = "[True, False, True]" ]
  local token; token=$(gabion token create looks --role viewer --output json | field "it['token']")
  gabion status --output json >"$area/status"
  local url ca; url=$(field "it['api']['urls'][0]" <"$area/status"); ca=$(field "it['api']['ca_file']" <"$area/status")
  looks() { # METHOD PATH
    curl --silent --output /dev/null --write-out "%{http_code}" --cacert "$ca" --request "$1" \
      --header "Authorization: Bearer $token" "$url/api/v1$2"
  }
  [ "$(looks GET /receivers)" = 200 ]
  [ "$(looks DELETE /receivers/hook)" = 403 ]
  [ "$(looks POST /receivers/hook/test)" = 403 ]
}
tests() {
  gabion notify test hook | grep -q "status 204"
  gabion notify test mail | grep -q "250"
  gabion notify test log
  [ "$(of hook "[m['signed'] for m in it if m['type'] == 'test']")" = "[True]" ]
  is_mailed "a test message" 1
  await 5 is_logged "a test message" 1
  # By HTTPS, to whom the CA that was named has signed; to nobody else.
  gabion notify add safe --webhook "https://localhost:$(port safe)/" --secret-file "$got/secret" \
    --ca-file "$got/mail.pem" --from-state red
  gabion notify test safe | grep -q "status 204"
  [ "$(of safe "[m['signed'] for m in it]")" = "[True]" ]
  gabion notify delete safe
  gabion notify add safe --webhook "https://localhost:$(port safe)/" --from-state red
  not gabion notify test safe 2>"$area/why"
  grep -qi "certificate" "$area/why"
  gabion notify delete safe
  # A password that is wrong is told, and not shown, whatever the mail server says of it.
  echo wrong-horse-7 >"$area/wrong"
  gabion notify add wrong --email ops@example.com --smtp "localhost:$(port mail)" --user anna \
    --password-file "$area/wrong" --ca-file "$got/mail.pem" --from-state red
  not gabion notify test wrong 2>"$area/why"
  grep -q "535" "$area/why"; not grep -q -e wrong-horse -e "$(printf '\0anna\0wrong-horse-7' | base64)" "$area/why"
  gabion notify delete wrong
  # A server of a CA that nobody trusts hears nothing.
  gabion notify add wrong --email ops@example.com --smtp "localhost:$(port mail)" --from-state red
  not gabion notify test wrong 2>"$area/why"
  grep -qi "certificate" "$area/why"
  gabion notify delete wrong
  not gabion notify test wrong
}
lost_host() {
  gabion volume create web --size 64MiB
  await 60 overall green
  gabion host kill host3
  await 60 count worse hosts.answering 1
  await 20 is_mailed "hosts.answering is yellow" 1
  await 20 is_logged "hosts.answering is yellow" 1
  [ "$(of hook "all(m['signed'] for m in it)")" = True ]
  of hook "[m['data']['mend'] for m in it if m['data']['check'] == 'hosts.answering'][0]" |
    grep -q "gabion host start host3"
  [ "$(of hook "[m['data']['before'] for m in it if m['data']['check'] == 'hosts.answering'][0]")" = green ]
  is_mailed "next      \$ gabion host start host3" 1
  is_logged "next: gabion host start host3" 1
  [ "$(of syslog "[m['text'][:4] for m in it if 'is yellow' in m['text']][0]")" = "<28>" ]
  gabion host start host3
  await 60 count well hosts.answering 1
  await 20 is_mailed "hosts.answering is well again" 1
  await 20 is_logged "hosts.answering is well again" 1
  await 60 overall green
  sleep 5
  # Once, each of them, and nothing of another group where one group is wanted.
  count worse hosts.answering 1; count well hosts.answering 1
  is_mailed "hosts.answering is yellow" 1; is_logged "hosts.answering is yellow" 1
  [ "$(of syslog "[m for m in it if 'objects.' in m['text']]")" = "[]" ]
  [ "$(of hook "len(it) == len(set(m['data']['id'] for m in it))")" = True ]
}
# A receiver that is away is itself told of, and told everything once it is back.
away_receiver() {
  local at; at=$(port hook)
  away hook
  gabion host kill host2
  await 60 is notifications.delivery yellow
  health "[c['mend'] for c in it['checks'] if c['id'] == 'notifications.delivery'][0]" |
    grep -q "gabion notify test hook"
  gabion notify show hook | grep -q "not told since"
  curl --silent --unix-socket "$(socket)" http://gabion/metrics >"$area/metrics"
  grep -q 'gabion_notifications_total{receiver="hook",result="failed"} [1-9]' "$area/metrics"
  grep -q 'gabion_notifications_waiting{receiver="hook"} [1-9]' "$area/metrics"
  # The others are told that it is not.
  await 30 is_mailed "notifications.delivery is yellow" 1
  gabion host start host2
  await 60 is_mailed "hosts.answering is well again" 2
  serve hook "$at"
  gabion notify test hook
  await 60 count over hosts.answering 1
  count worse hosts.answering 1
  await 30 is notifications.delivery green
  await 60 overall green
}
silenced() {
  gabion health silence hosts.answering --for 1h --reason "known"
  local before; before=$(of hook "len([m for m in it if m['data']['check'] == 'hosts.answering'])")
  gabion host kill host1
  await 60 is objects.redundancy yellow
  sleep 6
  [ "$(of hook "len([m for m in it if m['data']['check'] == 'hosts.answering'])")" = "$before" ]
  gabion host start host1
  await 60 is objects.redundancy green
  gabion health unsilence hosts.answering
  await 60 overall green
}
# What was told is known after a start of everything: nothing is told again. What is well is told some seconds after it
# is: not before that is all told that there was.
started_anew() {
  await 30 all_is_well || { of hook "[(m['type'], m['data'].get('check')) for m in it]"; return 1; }
  local before; before=$(of hook "len(it)")
  gabion down
  gabion up --detach
  await 60 overall green
  sleep 5
  [ "$(of hook "len(it)")" = "$before" ] || { of hook "[m['data'] for m in it[$before:]]"; return 1; }
}
all_is_well() { # the last that was told of each check
  local last="{m['data']['check']: m['type'] for m in it if 'check' in m['data']}"
  [ "$(of hook "set($last.values()) <= {'health.well', 'health.over', 'health.calm', 'test'}")" = True ]
}
support_bundle() {
  local hex pem token invitation
  hex=$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')
  pem=$(sed -n 2p "$GABION_DATA/keys/ca-key.pem"); [ ${#pem} -gt 30 ]
  token=$(gabion token create planted --role viewer --output json | field "it['token']")
  invitation="gbj_$hex.$hex.127.0.0.1:7443"
  local code; code=$(gabion user create anna --role viewer --output json | field "it['code']")
  # In the log, in a configuration, in the audit, in what changed of health, and in names that operators give.
  { cat "$GABION_DATA/keys/ca-key.pem"; printf '%s\n' "$token" "$invitation" "$code" "$PASSWORD" "$TOKEN_IN_URL?x=1" \
      "GET / HTTP/1.1" "Authorization: Basic cGxhbnRlZDpzZWNyZXQ=" "the secret $(cat "$got/secret") was used" \
      "\$argon2id\$v=19\$m=19456,t=2,p=1\$cGxhbnRlZHNhbHQ\$cGxhbnRlZGhhc2g" "smtp_password = hunter2hunter2" |
      sed "s/^/$(date -u +%Y-%m-%dT%H:%M:%S.000000Z)  INFO /"; } >>"$GABION_DATA/gabion.log"
  printf '# %s %s\n# password = "hunter2hunter2"\n' "$token" "$code" >>"$GABION_DATA/host1/host.toml"
  gabion health silence clocks.records --for 1h --reason "$token $code Bearer cGxhbnRlZDpzZWNyZXQ="
  gabion health unsilence clocks.records
  gabion support-bundle --since 1h --to "$area/bundle.tar.gz" >"$area/list"
  not gabion support-bundle --to "$area/bundle.tar.gz"
  [ "$(stat -c %a "$area/bundle.tar.gz")" = 600 ]
  mkdir "$area/bundle"; tar -xzf "$area/bundle.tar.gz" -C "$area/bundle"
  local name
  for name in README.txt contents.json versions.txt logs/gabion.log api/status.json api/volumes.json api/health.json \
    api/health-history.json api/audit.json api/metrics.txt api/users.json api/receivers.json \
    api/shards/host1/metrics.json \
    config/host1-host.toml machine/kernel.txt; do
    [ -s "$area/bundle/gabion-support/$name" ] || { say "no $name"; return 1; }
  done
  grep -q "secrets were taken out" "$area/list"; grep -q "^api/status.json" "$area/list"
  grep -q "host is ready" "$area/bundle/gabion-support/logs/gabion.log"
  grep -q "(removed)" "$area/bundle/gabion-support/logs/gabion.log"
  local secret
  for secret in "$hex" "$pem" "$token" "$code" "$PASSWORD" "$TOKEN_IN_URL" "$(cat "$got/secret")" cGxhbnRlZ \
    hunter2hunter2 gbj_ 'Corr3ct'; do
    not grep -r -l -F -e "$secret" "$area/bundle"
  done
  say "note: $(stat -c %s "$area/bundle.tar.gz") bytes"
}
down() { gabion down; }

echo "whsec_$(head -c 24 /dev/urandom | base64)" >"$got/secret"
printf 'gabion-mailer' >"$got/smtp-user"; printf '%s\n' "$PASSWORD" >"$got/smtp-password"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
  -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE \
  -keyout "$got/mail.key" -out "$got/mail.pem" 2>/dev/null
# What receives outlives the steps, and is ended with the script.
receivers_away() {
  local code=$? one
  for one in "$got"/*.pid; do if [ -e "$one" ]; then kill "$(cat "$one")" 2>/dev/null || true; fi; done
  return $code
}
trap 'receivers_away || finish; finish' EXIT
serve hook; serve safe; serve mail; serve syslog
gabion up --detach --cache-size 128MiB --capacity-size 512MiB
step "receivers are added, and their secrets not shown" receivers
step "each is told that this is a test" tests
step "a lost host is told of once, with the command; and that it is well" lost_host
step "a receiver that was away is told afterwards" away_receiver
step "what is silenced is not told" silenced
step "nothing is told again after a start of everything" started_anew
step "a support bundle has no secret in it" support_bundle
step "down" down
conclude "notifications"
