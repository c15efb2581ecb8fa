// SPDX-License-Identifier: Apache-2.0
//! Devices of disk groups, and what scrub finds on them.

use super::row::{Metric, Samples, Scrape, counter, gauge};
use operator::{ClassReport, LatencyReport, ScrubReport, SpaceReport};
use std::time::Duration;

const DEVICE: &[&str] = &["shard", "group", "device", "role"];
const DEVICE_CLASS: &[&str] = &["shard", "group", "device", "role", "class"];
const SCRUBBED: &[&str] = &["shard", "device"];
/// Bytes of a block that scrub counts.
const BLOCK_BYTES: u64 = 4096;

fn kinds(space: &SpaceReport) -> [(&'static str, u64); 7] {
    let SpaceReport {
        metadata_bytes,
        allocated_bytes,
        reserved_bytes,
        promised_bytes,
        freeing_bytes,
        free_bytes,
        unusable_bytes,
    } = *space;
    [
        ("metadata", metadata_bytes),
        ("allocated", allocated_bytes),
        ("reserved", reserved_bytes),
        ("promised", promised_bytes),
        ("freeing", freeing_bytes),
        ("free", free_bytes),
        ("unusable", unusable_bytes),
    ]
}

/// A series for each class of operations of a device that had any.
fn classes(it: &Scrape, out: &mut Samples<'_>, micros: fn(&ClassReport) -> u64) {
    for ([shard, group, path, role], device) in it.devices() {
        let Some(LatencyReport { reads, writes, durable, .. }) = &device.latency else { continue };
        for (class, report) in [("read", reads), ("write", writes), ("durable", durable)] {
            let is_known = report.operations > 0;
            let value = is_known.then(|| Duration::from_micros(micros(report)));
            out.put(&[shard, group, path, role, class], value);
        }
    }
}

fn scrubs(it: &Scrape, out: &mut Samples<'_>, value: fn(&ScrubReport) -> Option<u64>) {
    for scrub in it.answers.iter().flat_map(|one| &one.scrubs) {
        out.put(&[&scrub.host, &scrub.device], value(scrub));
    }
}

pub(super) const METRICS: &[Metric] = &[
    gauge("gabion_device_size_bytes", DEVICE, "A device's size", |it, out| {
        out.devices(it, |device| device.size_bytes);
    }),
    gauge(
        "gabion_device_used_bytes",
        DEVICE,
        "Cache: what of the write buffer is in use. Capacity: chunks with data or set aside for it",
        |it, out| out.devices(it, |device| device.used_bytes),
    ),
    counter(
        "gabion_device_written_bytes_total",
        DEVICE,
        "Bytes written to it since its group was opened; to capacity devices that is destage",
        |it, out| out.devices(it, |device| device.written_bytes),
    ),
    gauge(
        "gabion_device_state",
        &["shard", "group", "device", "role", "state"],
        "1; its state: 'ok', 'slow', 'stuck', 'filling up', 'full', 'takes no writes', 'out' or \
         'out of service'",
        |it, out| {
            for ([shard, group, path, role], device) in it.devices() {
                out.put(&[shard, group, path, role, &device.state], 1_u64);
            }
        },
    ),
    gauge(
        "gabion_device_space_bytes",
        &["shard", "group", "device", "role", "kind"],
        "Where the bytes of a capacity device are; all kinds together are its size",
        |it, out| {
            for ([shard, group, path, role], device) in it.devices() {
                for (kind, bytes) in device.space.iter().flat_map(kinds) {
                    out.put(&[shard, group, path, role, kind], bytes);
                }
            }
        },
    ),
    gauge(
        "gabion_device_operations_in_flight",
        DEVICE,
        "Operations that it has not answered",
        |it, out| out.devices(it, |device| device.latency.as_ref().map(|it| it.in_flight)),
    ),
    gauge(
        "gabion_device_oldest_operation_seconds",
        DEVICE,
        "What the oldest of them has waited",
        |it, out| {
            out.devices(it, |device| {
                device.latency.as_ref()?.oldest_seconds.map(Duration::from_secs)
            });
        },
    ),
    gauge(
        "gabion_device_latency_median_seconds",
        DEVICE_CLASS,
        "What half of the operations of its last window, 10 s or longer, took at most",
        |it, out| classes(it, out, |class| class.median_us),
    ),
    gauge(
        "gabion_device_latency_max_seconds",
        DEVICE_CLASS,
        "What the longest of them took",
        |it, out| classes(it, out, |class| class.max_us),
    ),
    counter(
        "gabion_scrub_verified_bytes_total",
        SCRUBBED,
        "Bytes that were read and compared with their checksums",
        |it, out| scrubs(it, out, |scrub| Some(scrub.verified_blocks * BLOCK_BYTES)),
    ),
    counter("gabion_scrub_bad_blocks_total", SCRUBBED, "Blocks found bad", |it, out| {
        scrubs(it, out, |scrub| Some(scrub.bad_blocks));
    }),
    counter(
        "gabion_scrub_repaired_blocks_total",
        SCRUBBED,
        "Blocks written again from another copy",
        |it, out| scrubs(it, out, |scrub| Some(scrub.repaired_blocks)),
    ),
    gauge(
        "gabion_scrub_unrepaired_blocks",
        SCRUBBED,
        "Bad blocks that were not repaired when they were last looked at",
        |it, out| scrubs(it, out, |scrub| Some(scrub.unrepaired_blocks)),
    ),
    counter(
        "gabion_scrub_read_errors_total",
        SCRUBBED,
        "Bad blocks that the device did not give at all",
        |it, out| scrubs(it, out, |scrub| Some(scrub.read_errors)),
    ),
    gauge(
        "gabion_scrub_last_pass_age_seconds",
        SCRUBBED,
        "Since the last whole pass ended; missing: there was none since the shard's start",
        |it, out| scrubs(it, out, |scrub| scrub.last_pass_seconds_ago),
    ),
];
