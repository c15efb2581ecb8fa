// SPDX-License-Identifier: Apache-2.0
//! Disk groups. What they count begins anew when they are opened.

use super::row::{Metric, Samples, Scrape, counter, gauge, name_of};
use operator::{ReadCacheReport, RequestsReport};
use std::time::Duration;

const GROUP: &[&str] = &["shard", "group"];

/// A row for each field of a report, so that none is forgotten.
fn purposes(requests: &RequestsReport) -> [(&'static str, u64); 13] {
    let RequestsReport {
        commits,
        log_read,
        blocks,
        direct,
        merged,
        records,
        heads,
        pages_read,
        pages_written,
        map_pages,
        rows,
        read_back,
        flushes,
    } = *requests;
    [
        ("commits", commits),
        ("log_read", log_read),
        ("blocks", blocks),
        ("direct", direct),
        ("merged", merged),
        ("records", records),
        ("heads", heads),
        ("pages_read", pages_read),
        ("pages_written", pages_written),
        ("map_pages", map_pages),
        ("rows", rows),
        ("read_back", read_back),
        ("flushes", flushes),
    ]
}

/// Of groups that have a read cache.
fn cache(it: &Scrape, out: &mut Samples<'_>, value: fn(&ReadCacheReport) -> u64) {
    for group in it.groups() {
        out.put(&[&group.host, name_of(group)], group.read_cache.as_ref().map(value));
    }
}

pub(super) const METRICS: &[Metric] = &[
    gauge(
        "gabion_group_health",
        GROUP,
        "A disk group's state: 0 green, 1 yellow, 2 red",
        |it, out| out.groups(it, |group| group.health),
    ),
    gauge("gabion_group_open", GROUP, "Whether it serves", |it, out| {
        out.groups(it, |group| group.is_open);
    }),
    gauge(
        "gabion_group_attention",
        GROUP,
        "Things of it that an operator should look at: the lines of 'gabion group show'",
        |it, out| out.groups(it, |group| group.attention.len()),
    ),
    gauge("gabion_group_capacity_bytes", GROUP, "Its capacity", |it, out| {
        out.groups(it, |group| group.capacity_bytes);
    }),
    gauge("gabion_group_used_bytes", GROUP, "What of it has data", |it, out| {
        out.groups(it, |group| group.used_bytes);
    }),
    gauge("gabion_group_write_buffer_bytes", GROUP, "Size of its write buffer", |it, out| {
        out.groups(it, |group| group.buffer_bytes);
    }),
    gauge(
        "gabion_group_write_buffer_fill_ratio",
        GROUP,
        "Fill of its write buffer, 0 to 1",
        |it, out| out.groups(it, |group| group.buffer_fill),
    ),
    gauge(
        "gabion_group_write_buffer_oldest_seconds",
        GROUP,
        "Age of what has been in the write buffer for longest",
        |it, out| out.groups(it, |group| group.oldest_entry_seconds),
    ),
    gauge("gabion_group_writes_waiting", GROUP, "Writes that are not durable yet", |it, out| {
        out.groups(it, |group| group.writes_waiting);
    }),
    gauge(
        "gabion_group_writes_limited",
        GROUP,
        "Whether destage or the cache device holds writes up now",
        |it, out| out.groups(it, |group| !matches!(group.limited_by.as_str(), "" | "nothing")),
    ),
    counter(
        "gabion_group_appended_bytes_total",
        GROUP,
        "Bytes that its components were given to write, by clients and by resync",
        |it, out| out.groups(it, |group| group.appended_bytes),
    ),
    counter(
        "gabion_group_direct_bytes_total",
        GROUP,
        "Bytes of them that went to capacity and not to the write buffer",
        |it, out| out.groups(it, |group| group.direct_bytes),
    ),
    counter(
        "gabion_group_mapped_bytes_total",
        GROUP,
        "Bytes of those that stayed where they were written first",
        |it, out| out.groups(it, |group| group.mapped_bytes),
    ),
    counter(
        "gabion_group_unaligned_writes_total",
        GROUP,
        "Writes that are not whole aligned blocks of 4,096 bytes",
        |it, out| out.groups(it, |group| group.unaligned_writes),
    ),
    counter(
        "gabion_group_device_requests_total",
        &["shard", "group", "purpose"],
        "Requests to its devices, by what they were for",
        |it, out| {
            for group in it.groups() {
                for (purpose, count) in purposes(&group.requests) {
                    out.put(&[&group.host, name_of(group), purpose], count);
                }
            }
        },
    ),
    counter(
        "gabion_group_rotten_log_blocks_total",
        GROUP,
        "Blocks of its write buffer's log that were rotten or unreadable",
        |it, out| out.groups(it, |group| group.rotten_log_blocks),
    ),
    gauge(
        "gabion_group_recovery_seconds",
        GROUP,
        "How long its recovery took when it was opened",
        |it, out| out.groups(it, |group| group.recovery_ms / 1e3),
    ),
    gauge(
        "gabion_group_scrub_progress_ratio",
        GROUP,
        "The part of a scrub pass under way that is done, 0 to 1",
        |it, out| out.groups(it, |group| group.scrub_progress),
    ),
    gauge(
        "gabion_group_oldest_unverified_seconds",
        GROUP,
        "Everything on its capacity devices was verified within that time; missing: not all was",
        |it, out| out.groups(it, |one| one.oldest_unverified_seconds.map(Duration::from_secs)),
    ),
    gauge(
        "gabion_read_cache_bytes",
        GROUP,
        "Size of the read cache of a hybrid group",
        |it, out| cache(it, out, |cache| cache.size_bytes),
    ),
    gauge("gabion_read_cache_used_bytes", GROUP, "What of it holds something", |it, out| {
        cache(it, out, |cache| cache.used_bytes);
    }),
    counter("gabion_read_cache_hits_total", GROUP, "Reads that it served", |it, out| {
        cache(it, out, |cache| cache.hits);
    }),
    counter("gabion_read_cache_misses_total", GROUP, "Reads that went to capacity", |it, out| {
        cache(it, out, |cache| cache.misses);
    }),
    counter(
        "gabion_read_cache_bypassed_bytes_total",
        GROUP,
        "Bytes of sequential reads, which go round it",
        |it, out| cache(it, out, |cache| cache.bypassed_bytes),
    ),
    counter(
        "gabion_read_cache_filled_bytes_total",
        GROUP,
        "Bytes that were read of capacity and written to it",
        |it, out| cache(it, out, |cache| cache.filled_bytes),
    ),
    counter(
        "gabion_read_cache_rotten_blocks_total",
        GROUP,
        "Blocks that its device did not give as they were; they were read from capacity",
        |it, out| cache(it, out, |cache| cache.rotten_blocks),
    ),
];
