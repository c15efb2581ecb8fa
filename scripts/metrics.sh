#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Metrics: a real Prometheus scrapes a cluster, counts what clients did, and sees a host go and come back.
# usage: metrics.sh GABION CACHE      CACHE: where Prometheus is kept if the machine has none
set -euo pipefail
GABION=${1:?usage: metrics.sh GABION CACHE}
CACHE=${2:?usage: metrics.sh GABION CACHE}
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
mkdir -p "$CACHE"; CACHE=$(realpath "$CACHE")
packaging=$here/../packaging
export PATH=$PATH:$CACHE/prometheus/usr/bin

# Debian's package, unpacked: installed, it would be a service of this machine.
tools() {
  command -v prometheus && command -v promtool && return
  rm -rf "$CACHE/prometheus" "$CACHE/packages"; mkdir -p "$CACHE/packages"
  (cd "$CACHE/packages" && apt-get download --quiet prometheus) ||
    { echo "no Prometheus: install the package 'prometheus', or run 'apt-get update' first"; return 1; }
  dpkg-deb --extract "$CACHE"/packages/prometheus_*.deb "$CACHE/prometheus"
  prometheus --version && promtool --version
}
rules() {
  promtool check rules "$packaging/prometheus/gabion-alerts.yaml"
  promtool test rules "$packaging/prometheus/gabion-alerts-test.yaml"
}
metrics() { python3 "$here/metrics.py" "$@"; }
# What the annotations of alerts name are commands.
commands() { metrics commands "$packaging/prometheus/gabion-alerts.yaml"; }
api() { gabion status --output json | field "it['api']['socket']"; }
scrape() { curl --silent --fail --unix-socket "$(api)" --header "Accept: $1" http://gabion/metrics; }

# promtool knows the older text format; nothing may be said about either.
lint() {
  scrape text/plain >"$area/metrics.txt"
  test "$(wc -l <"$area/metrics.txt")" -gt 300
  promtool check metrics <"$area/metrics.txt" >"$area/said" 2>&1 || { cat "$area/said"; return 1; }
  not test -s "$area/said"
  scrape application/openmetrics-text >"$area/open.txt"
  test "$(tail -n 1 "$area/open.txt")" = "# EOF"
  test "$(scrape '*/*' | tail -n 1)" = "# EOF"
}

# Where Prometheus finds the API, and what it gets in with.
target() {
  gabion status --output json >"$area/status"
  url=$(field "it['api']['urls'][0]" <"$area/status"); ca=$(field "it['api']['ca_file']" <"$area/status")
  gabion token create prometheus --role viewer --output json | field "it['token']" >"$area/token"
}
prometheus_up() {
  cat >"$area/prometheus.yaml" <<Y
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: ["$packaging/prometheus/gabion-alerts.yaml"]
scrape_configs:
  - job_name: gabion
    scheme: https
    tls_config: {ca_file: "$ca"}
    authorization: {credentials_file: "$area/token"}
    static_configs: [{targets: ["${url#https://}"]}]
  - {job_name: prometheus, static_configs: [{targets: ["$address"]}]}
Y
  promtool check config "$area/prometheus.yaml"
  prometheus --config.file="$area/prometheus.yaml" --storage.tsdb.path="$area/series" --log.level=warn \
    --web.listen-address="$address" >"$area/prometheus.log" 2>&1 &
  background="$background $!"
  await 20 curl --silent --fail --output "$area/ready" "http://$address/-/ready"
}
asked() { metrics wait "http://$address" "$@"; } # QUERY VALUE: waits until Prometheus answers that

seen() {
  asked 'up{job="gabion"}' 1
  asked 'sum(gabion_shard_up)' 3
  asked 'max(gabion_cluster_health)' 0
  asked 'count(gabion_group_open == 1)' 3
}
# Exactly what a client did TIMES times, each kind of request, and the sums of the shards.
counted() {
  local each sum operation requests bytes
  while read -r operation requests bytes; do
    requests=$((requests * $1)); bytes=$((bytes * $1))
    each="volume=\"db\", operation=\"$operation\""; sum="operation=\"$operation\""
    asked "sum(gabion_volume_request_duration_seconds_count{$each})" "$requests"
    asked "sum(gabion_volume_request_bytes_total{$each})" "$bytes"
    asked "sum(gabion_volume_request_duration_seconds_bucket{$each, le=\"+Inf\"})" "$requests"
    asked "sum(gabion_request_duration_seconds_count{$sum})" "$requests"
    asked "sum(gabion_request_bytes_total{$sum})" "$bytes"
  done <"$area/did"
  test "$(wc -l <"$area/did")" = 4
}
load() {
  gabion volume create db --size 64MiB
  asked 'max(gabion_cluster_volumes{health="green"})' 1
  /usr/bin/python3 "$here/metrics.py" load "$(uri db 0)" >"$area/did"
  counted 1
  # The client left, and one comes again.
  /usr/bin/python3 "$here/metrics.py" load "$(uri db 0)" >"$area/again"
  cmp "$area/did" "$area/again"
  counted 2
  asked 'sum(increase(gabion_volume_request_bytes_total{operation="write"}[1m])) > bool 1e6' 1
  asked 'histogram_quantile(0.99, sum by (le) (gabion_request_duration_seconds_bucket{operation="write"})) < bool 4' 1
  asked 'sum(gabion_request_failures_total)' 0
  # Two copies of each write.
  asked 'sum(gabion_group_appended_bytes_total) >= bool 2 * sum(gabion_request_bytes_total{operation="write"})' 1
  asked 'count(gabion_volume_health{volume="db"})' 1
  asked 'sum(gabion_link_received_bytes_total) > bool 1e6' 1
}
lost_host() {
  gabion host kill host3
  asked 'gabion_shard_up{shard="host3"}' 0
  asked 'max(gabion_cluster_health) > bool 0' 1
  asked 'max by (state) (gabion_cluster_shards{state="down"})' 1
  asked 'count(ALERTS{alertname="GabionHostDown", alertstate="pending"})' 1
  gabion host start host3
  asked 'sum(gabion_shard_up)' 3
  asked 'max(gabion_cluster_shards{state="down"})' 0
  asked 'max(gabion_cluster_health)' 0
}
# No scrape of the whole run failed, or had a series twice.
clean() {
  asked 'min_over_time(up{job="gabion"}[5m])' 1
  asked 'sum(prometheus_target_scrapes_sample_duplicate_timestamp_total)' 0
  asked 'sum(prometheus_target_scrapes_sample_out_of_order_total)' 0
  asked 'max_over_time(scrape_duration_seconds{job="gabion"}[5m]) < bool 1' 1
  metrics targets "http://$address"
  not grep -i "gabion" "$area/prometheus.log"
}

down() { gabion down; }
watched() {
  local url ca address; address=127.0.0.1:$(metrics port)
  target
  prometheus_up
  seen; load; lost_host; clean
}

step "tools" tools
step "alerts fire when they are to, and not else" rules
step "what alerts say to do are commands" commands
gabion up --detach --cache-size 128MiB --capacity-size 512MiB
step "promtool has nothing to say" lint
step "Prometheus counts what clients do, and sees a host go and come back" watched
step "down" down
conclude "metrics"
