// SPDX-License-Identifier: Apache-2.0
//! Two looks at a shard become records of what it did in between.

use super::bucket::HistoryBucket;
use super::measure::{HistoryKind, HistoryMeasure};
use super::record::HistoryRecord;
use crate::report::{GroupReport, MetricsReport, Role};
use std::collections::BTreeMap;

/// Two looks that are further apart say too little of when something was done. They are compared
/// with nothing.
pub const LOOK_MS_MAX: u64 = 30_000;

type Records = BTreeMap<(HistoryKind, String), HistoryRecord>;

/// What a shard had counted at a look.
#[derive(Clone, Debug)]
struct ShardLook {
    at_ms: u64,
    counters: Records,
    /// Not all volumes were in it.
    is_partial: bool,
}

/// The last look at each shard. Times are milliseconds of a clock that does not go back.
#[derive(Debug, Default)]
pub struct HistoryLooks {
    last: BTreeMap<String, ShardLook>,
}

impl HistoryLooks {
    /// Takes in what the shards say now, and returns what they did since they were looked at last.
    /// A shard that began anew, or was not seen for long, did nothing that is known. CPU time of a
    /// shard, microseconds since its thread began, is asked for by its name.
    pub fn take(
        &mut self,
        now_ms: u64,
        said: &[MetricsReport],
        cpu_us: impl Fn(&str) -> Option<u64>,
    ) -> HistoryBucket {
        let mut bucket = HistoryBucket::default();
        let mut seen = BTreeMap::new();
        for report in said {
            let shard = &report.status.host;
            let mut counters = counters(report);
            if let Some(cpu_us) = cpu_us(shard) {
                let own = counters.entry((HistoryKind::Shard, shard.clone())).or_default();
                own.add_measure(HistoryMeasure::CpuUs, cpu_us);
            }
            let is = ShardLook { at_ms: now_ms, counters, is_partial: report.left_out > 0 };
            if let Some(was) = self.last.get(shard) {
                add_since(&mut bucket, report, was, &is);
            }
            bucket.left_out = bucket.left_out.saturating_add(report.left_out);
            seen.insert(shard.clone(), is);
        }
        // A shard that does not answer is compared with what it said last, if it comes back soon.
        self.last.retain(|_, look| now_ms.saturating_sub(look.at_ms) <= LOOK_MS_MAX);
        self.last.extend(seen);
        bucket
    }
}

/// Adds what a shard did between two looks.
fn add_since(bucket: &mut HistoryBucket, report: &MetricsReport, was: &ShardLook, is: &ShardLook) {
    let took_ms = is.at_ms.saturating_sub(was.at_ms);
    if took_ms == 0 || took_ms > LOOK_MS_MAX {
        return;
    }
    let shard = (HistoryKind::Shard, report.status.host.clone());
    let of_shard = |look: &ShardLook| look.counters.get(&shard).cloned().unwrap_or_default();
    let Some(all) = of_shard(is).since(&of_shard(was)) else { return };
    let none = HistoryRecord::default();
    for (key, counted) in &is.counters {
        let known = was.counters.get(key);
        // A volume that nobody used so far counts from zero. Where not all were told of, it may
        // have been used and left out.
        let before = match known {
            None if key.0 == HistoryKind::Volume && !was.is_partial => Some(&none),
            known => known,
        };
        let Some(more) = before.and_then(|before| counted.since(before)) else { continue };
        // One volume does not do more than all together.
        if key.0 == HistoryKind::Volume && more.requests() > all.requests() {
            continue;
        }
        bucket.add_record(key.0, &key.1, &more);
    }
    let mut covered = HistoryRecord::default();
    covered.add_measure(HistoryMeasure::CoveredMs, took_ms);
    bucket.add_record(HistoryKind::Shard, &shard.1, &covered);
    add_states(bucket, report, took_ms);
    bucket.covered_ms = bucket.covered_ms.max(took_ms);
}

/// All that only grows.
fn counters(report: &MetricsReport) -> Records {
    let mut all = Records::new();
    let mut put = |kind, name: &str, record| drop(all.insert((kind, name.to_owned()), record));
    for volume in &report.traffic {
        let mut record = HistoryRecord::default();
        volume.operations.iter().for_each(|operation| record.add_operation(operation));
        record.add_measure(HistoryMeasure::Limited, volume.limited_requests);
        record.add_measure(HistoryMeasure::LimitedMs, volume.limited_ms);
        put(HistoryKind::Volume, &volume.volume, record);
    }
    let mut own = HistoryRecord::default();
    report.all_traffic.iter().for_each(|operation| own.add_operation(operation));
    own.add_measure(HistoryMeasure::Resynced, report.resync.copied_bytes);
    own.add_measure(HistoryMeasure::Sent, report.links.messages_sent);
    own.add_measure(HistoryMeasure::Received, report.links.messages_received);
    own.add_measure(HistoryMeasure::ReceivedBytes, report.links.bytes_received);
    put(HistoryKind::Shard, &report.status.host, own);
    for group in report.status.groups.iter().filter(|group| is_open(group)) {
        let mut record = HistoryRecord::default();
        record.add_measure(HistoryMeasure::Appended, group.appended_bytes);
        record.add_measure(HistoryMeasure::Direct, group.direct_bytes);
        if let Some(cache) = &group.read_cache {
            record.add_measure(HistoryMeasure::CacheHits, cache.hits);
            record.add_measure(HistoryMeasure::CacheMisses, cache.misses);
        }
        for device in &group.devices {
            if device.role == Role::Capacity {
                record.add_measure(HistoryMeasure::Destaged, device.written_bytes);
            }
            let mut written = HistoryRecord::default();
            written.add_measure(HistoryMeasure::Written, device.written_bytes);
            put(HistoryKind::Device, &device.path, written);
        }
        put(HistoryKind::Group, &group.id, record);
    }
    all
}

fn is_open(group: &GroupReport) -> bool {
    group.is_open && !group.id.is_empty()
}

/// Whole numbers of what is known to be one.
fn times(value: u64, took_ms: u64) -> u64 {
    value.saturating_mul(took_ms)
}

/// What is a state: as it is now, for as long as the look is of.
fn add_states(bucket: &mut HistoryBucket, report: &MetricsReport, took_ms: u64) {
    for volume in report.traffic.iter().filter(|volume| volume.clients > 0) {
        // One that does nothing has no record for its clients alone: there may be thousands.
        if bucket.records.contains_key(&(HistoryKind::Volume, volume.volume.clone())) {
            let mut record = HistoryRecord::default();
            record.add_measure(HistoryMeasure::Clients, times(volume.clients, took_ms));
            bucket.add_record(HistoryKind::Volume, &volume.volume, &record);
        }
    }
    let mut own = HistoryRecord::default();
    let left = report.resync.bytes_left.div_ceil(1024);
    own.add_measure(HistoryMeasure::ResyncLeft, times(left, took_ms));
    let waiting = report.links.waiting_bytes.div_ceil(1024);
    own.add_measure(HistoryMeasure::LinkWaiting, times(waiting, took_ms));
    bucket.add_record(HistoryKind::Shard, &report.status.host, &own);
    for group in report.status.groups.iter().filter(|group| is_open(group)) {
        let mut record = HistoryRecord::default();
        record.add_measure(HistoryMeasure::Waiting, times(group.writes_waiting, took_ms));
        let cache = group.devices.iter().find(|device| device.role == Role::Cache);
        let used = cache.map_or(0, |device| device.used_bytes);
        record.add_measure(HistoryMeasure::BufferUsed, times(used.div_ceil(1024), took_ms));
        let size = group.buffer_bytes.div_ceil(1024);
        record.add_measure(HistoryMeasure::BufferSize, times(size, took_ms));
        bucket.add_record(HistoryKind::Group, &group.id, &record);
        for device in &group.devices {
            let in_flight = device.latency.as_ref().map_or(0, |latency| latency.in_flight);
            let mut record = HistoryRecord::default();
            record.add_measure(HistoryMeasure::InFlight, times(in_flight.into(), took_ms));
            bucket.add_record(HistoryKind::Device, &device.path, &record);
        }
    }
}
