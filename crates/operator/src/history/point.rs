// SPDX-License-Identifier: Apache-2.0
//! Records as rates, means and percentiles: what people read. It is taken of sums alone, so it
//! comes last.

use super::measure::HistoryMeasure;
use super::record::HistoryRecord;
use super::report::{OperationPoint, PerformanceKind, PerformancePoint};
use crate::report::{OperationKind, OperationReport};
use volume::LATENCY_BOUNDS_US;

/// A count as a number to reckon with. Beyond 2^53 it is right to 16 digits.
fn real(count: u64) -> f64 {
    let part = |bits: u64| u32::try_from(bits & 0xffff_ffff).map_or(0.0, f64::from);
    part(count >> 32) * 4_294_967_296.0 + part(count)
}

/// What so many of a thousand took at most, microseconds, by how many took how long: in the class
/// of the true value, and within it as if all of the class were spread evenly. What took longer
/// than any bound counts as the last bound. `None` where there were none.
#[must_use]
pub fn percentile(latencies: &[u64], thousandths: u64) -> Option<f64> {
    let total = latencies.iter().copied().fold(0, u64::saturating_add);
    if total == 0 {
        return None;
    }
    // The rank of the one that is asked for, from 1 on, rounded up.
    let rank = u128::from(total) * u128::from(thousandths.min(1000));
    let rank = u64::try_from(rank.div_ceil(1000)).unwrap_or(u64::MAX).max(1);
    let mut below = 0_u64;
    for (class, count) in latencies.iter().enumerate() {
        if below.saturating_add(*count) < rank {
            below = below.saturating_add(*count);
            continue;
        }
        let last = LATENCY_BOUNDS_US.len() - 1;
        let from = class.checked_sub(1).map_or(0, |class| LATENCY_BOUNDS_US[class.min(last)]);
        let to = LATENCY_BOUNDS_US[class.min(last)];
        let part = real(rank - below) / real((*count).max(1));
        return Some(real(from) + (real(to) - real(from)) * part);
    }
    None
}

/// What was done in so many milliseconds, for each second of them.
fn rate(count: u64, covered_ms: u64) -> f64 {
    if covered_ms == 0 { 0.0 } else { real(count) * 1000.0 / real(covered_ms) }
}

/// The average of a state.
fn mean(times: u64, covered_ms: u64) -> f64 {
    if covered_ms == 0 { 0.0 } else { real(times) / real(covered_ms) }
}

fn operation_point(all: &[OperationReport], covered_ms: u64) -> OperationPoint {
    let mut latencies = vec![0_u64; LATENCY_BOUNDS_US.len() + 1];
    let (mut bytes, mut failed, mut took_us) = (0_u64, 0_u64, 0_u64);
    for one in all {
        for (sum, count) in latencies.iter_mut().zip(&one.latencies) {
            *sum = sum.saturating_add(*count);
        }
        bytes = bytes.saturating_add(one.bytes);
        failed = failed.saturating_add(one.failed);
        took_us = took_us.saturating_add(one.took_us);
    }
    let requests = latencies.iter().copied().fold(0, u64::saturating_add);
    OperationPoint {
        per_second: rate(requests, covered_ms),
        bytes_per_second: rate(bytes, covered_ms),
        requests,
        bytes,
        failed,
        took_us,
        mean_us: (requests > 0).then(|| real(took_us) / real(requests)),
        p50_us: percentile(&latencies, 500),
        p95_us: percentile(&latencies, 950),
        p99_us: percentile(&latencies, 990),
        p999_us: percentile(&latencies, 999),
        latencies,
    }
}

impl PerformancePoint {
    /// What an object of this kind did from `at` on, of which so many milliseconds were seen.
    #[must_use]
    pub fn of(kind: PerformanceKind, at: u64, covered_ms: u64, record: &HistoryRecord) -> Self {
        let point = Self::nothing(at, covered_ms);
        match kind {
            PerformanceKind::Volume => point.with_requests(record),
            PerformanceKind::Cluster | PerformanceKind::Host | PerformanceKind::Shard => {
                point.with_requests(record).with_shard(record)
            }
            PerformanceKind::Group => point.with_group(record),
            PerformanceKind::Device => point.with_device(record),
        }
    }

    fn nothing(at: u64, covered_ms: u64) -> Self {
        Self {
            at,
            covered_ms,
            reads: None,
            writes: None,
            others: None,
            clients: None,
            limited_per_second: None,
            queue_depth: None,
            writes_waiting: None,
            buffer_fill: None,
            appended_bytes_per_second: None,
            destaged_bytes_per_second: None,
            cache_hits: None,
            written_bytes_per_second: None,
            in_flight: None,
            resync_bytes_per_second: None,
            resync_left_bytes: None,
            link_messages_per_second: None,
            link_bytes_per_second: None,
            link_waiting_bytes: None,
            cpus: None,
            cpu_us_per_request: None,
        }
    }

    fn with_requests(self, record: &HistoryRecord) -> Self {
        use OperationKind::{Discard, Flush, Read, Write, Zero};
        let ms = self.covered_ms;
        let of = |kinds: &[OperationKind]| {
            let all: Vec<_> = kinds.iter().map(|kind| record.operation(*kind)).collect();
            operation_point(&all, ms)
        };
        let (reads, writes, others) = (of(&[Read]), of(&[Write]), of(&[Zero, Discard, Flush]));
        let took_us = [&reads, &writes, &others].map(|one| one.took_us);
        let took_us = took_us.into_iter().fold(0, u64::saturating_add);
        let limited = record.measure(HistoryMeasure::Limited);
        let clients = record.measure(HistoryMeasure::Clients);
        Self {
            reads: Some(reads),
            writes: Some(writes),
            others: Some(others),
            queue_depth: Some(mean(took_us, ms) / 1000.0),
            limited_per_second: (limited > 0).then(|| rate(limited, ms)),
            clients: (clients > 0).then(|| mean(clients, ms)),
            ..self
        }
    }

    fn with_shard(self, record: &HistoryRecord) -> Self {
        use HistoryMeasure::{
            CpuUs, LinkWaiting, Received, ReceivedBytes, ResyncLeft, Resynced, Sent,
        };
        let ms = self.covered_ms;
        let messages = record.measure(Sent).saturating_add(record.measure(Received));
        let (cpu_us, requests) = (record.measure(CpuUs), record.requests());
        Self {
            resync_bytes_per_second: Some(rate(record.measure(Resynced), ms)),
            resync_left_bytes: Some(mean(record.measure(ResyncLeft), ms) * 1024.0),
            link_messages_per_second: Some(rate(messages, ms)),
            link_bytes_per_second: Some(rate(record.measure(ReceivedBytes), ms)),
            link_waiting_bytes: Some(mean(record.measure(LinkWaiting), ms) * 1024.0),
            cpus: (cpu_us > 0).then(|| mean(cpu_us, ms) / 1000.0),
            cpu_us_per_request: (cpu_us > 0 && requests > 0).then(|| real(cpu_us) / real(requests)),
            ..self
        }
    }

    fn with_group(self, record: &HistoryRecord) -> Self {
        use HistoryMeasure::{
            Appended, BufferSize, BufferUsed, CacheHits, CacheMisses, Destaged, Waiting,
        };
        let ms = self.covered_ms;
        let (used, size) = (record.measure(BufferUsed), record.measure(BufferSize));
        let (hits, misses) = (record.measure(CacheHits), record.measure(CacheMisses));
        let reads = hits.saturating_add(misses);
        Self {
            writes_waiting: Some(mean(record.measure(Waiting), ms)),
            buffer_fill: (size > 0).then(|| real(used) / real(size)),
            appended_bytes_per_second: Some(rate(record.measure(Appended), ms)),
            destaged_bytes_per_second: Some(rate(record.measure(Destaged), ms)),
            cache_hits: (reads > 0).then(|| real(hits) / real(reads)),
            ..self
        }
    }

    fn with_device(self, record: &HistoryRecord) -> Self {
        let ms = self.covered_ms;
        Self {
            written_bytes_per_second: Some(rate(record.measure(HistoryMeasure::Written), ms)),
            in_flight: Some(mean(record.measure(HistoryMeasure::InFlight), ms)),
            ..self
        }
    }

    /// What it is sorted by among others of its kind: requests, then bytes, in a second.
    #[must_use]
    pub fn load(&self) -> (f64, f64) {
        let operations = [&self.reads, &self.writes, &self.others].into_iter().flatten();
        let (mut requests, mut bytes) = (0.0, 0.0);
        for one in operations {
            requests += one.per_second;
            bytes += one.bytes_per_second;
        }
        let others = [
            self.appended_bytes_per_second,
            self.destaged_bytes_per_second,
            self.written_bytes_per_second,
        ];
        (requests, bytes + others.into_iter().flatten().sum::<f64>())
    }
}
