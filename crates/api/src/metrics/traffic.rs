// SPDX-License-Identifier: Apache-2.0
//! What clients have volumes do, and how the volumes are.

use super::row::{Metric, Sample, Samples, Scrape, counter, gauge, histogram};
use operator::{OperationReport, OwnedVolume, TrafficReport};
use std::time::Duration;

const VOLUME: &[&str] = &["shard", "volume"];
const OPERATION: &[&str] = &["shard", "operation"];
const VOLUME_OPERATION: &[&str] = &["shard", "volume", "operation"];

/// Calls `put` with the labels of all requests through each shard, and with what was counted.
fn all(it: &Scrape, mut put: impl FnMut(&[&str], &OperationReport)) {
    for one in &it.answers {
        for operation in &one.all_traffic {
            put(&[&one.status.host, operation.operation.name()], operation);
        }
    }
}

/// The same of each volume.
fn each(it: &Scrape, mut put: impl FnMut(&[&str], &OperationReport)) {
    for one in &it.answers {
        for volume in &one.traffic {
            for operation in &volume.operations {
                let name = operation.operation.name();
                put(&[&one.status.host, &volume.volume, name], operation);
            }
        }
    }
}

fn used(it: &Scrape, mut put: impl FnMut(&[&str], &TrafficReport)) {
    for one in &it.answers {
        one.traffic.iter().for_each(|volume| put(&[&one.status.host, &volume.volume], volume));
    }
}

fn owned(it: &Scrape, out: &mut Samples<'_>, value: fn(&OwnedVolume) -> Sample) {
    for one in &it.answers {
        for volume in &one.owned {
            out.put(&[&one.status.host, &volume.volume], value(volume));
        }
    }
}

pub(super) const METRICS: &[Metric] = &[
    histogram(
        "gabion_request_duration_seconds",
        OPERATION,
        "Requests of clients that were answered, failed ones too, by how long they took",
        |it, out| all(it, |labels, one| out.put_latencies(labels, one)),
    ),
    counter(
        "gabion_request_bytes_total",
        OPERATION,
        "Bytes of requests of clients that were carried out",
        |it, out| all(it, |labels, one| out.put(labels, one.bytes)),
    ),
    counter(
        "gabion_request_failures_total",
        OPERATION,
        "Requests of clients that failed",
        |it, out| all(it, |labels, one| out.put(labels, one.failed)),
    ),
    histogram(
        "gabion_volume_request_duration_seconds",
        VOLUME_OPERATION,
        "The same of each volume that was used through the shard",
        |it, out| each(it, |labels, one| out.put_latencies(labels, one)),
    ),
    counter(
        "gabion_volume_request_bytes_total",
        VOLUME_OPERATION,
        "Bytes of its requests that were carried out",
        |it, out| each(it, |labels, one| out.put(labels, one.bytes)),
    ),
    counter(
        "gabion_volume_request_failures_total",
        VOLUME_OPERATION,
        "Its requests that failed",
        |it, out| each(it, |labels, one| out.put(labels, one.failed)),
    ),
    counter(
        "gabion_volume_limited_requests_total",
        VOLUME,
        "Its requests that waited for its limits; from zero again after its last client left",
        |it, out| used(it, |labels, one| out.put(labels, one.limited_requests)),
    ),
    counter(
        "gabion_volume_limited_seconds_total",
        VOLUME,
        "How long they waited, added up",
        |it, out| used(it, |labels, one| out.put(labels, Duration::from_millis(one.limited_ms))),
    ),
    gauge(
        "gabion_volume_clients",
        VOLUME,
        "Clients that are connected to it through the shard",
        |it, out| used(it, |labels, one| out.put(labels, one.clients)),
    ),
    gauge(
        "gabion_volume_health",
        VOLUME,
        "Its state: 0 green, 1 yellow, 2 red; from the shard that owns its first part alone",
        |it, out| owned(it, out, |one| one.health.into()),
    ),
    gauge("gabion_volume_size_bytes", VOLUME, "Its size; from the same", |it, out| {
        owned(it, out, |one| one.size_bytes.into());
    }),
    gauge(
        "gabion_volume_resync_left_bytes",
        VOLUME,
        "Bytes that are still to be copied to its copies; from the same",
        |it, out| owned(it, out, |one| one.resync_bytes_left.into()),
    ),
];
