// SPDX-License-Identifier: Apache-2.0
//! Points over a time, of one object.

use super::record::HistoryRecord;
use super::report::{PerformanceKind, PerformancePoint};
use super::resolution::HistoryResolution;
use std::collections::BTreeMap;

/// Most points of an answer, and how many it has where nothing is said.
pub const POINTS_MAX: u64 = 1000;
/// The same, where nothing is said.
pub const POINTS_DEFAULT: u64 = 240;

/// Which buckets an answer is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistorySpan {
    /// Where the first point begins, seconds since 1970.
    pub from: u64,
    /// Where the last one ends.
    pub to: u64,
    /// How fine the buckets are that it is made of.
    pub resolution: HistoryResolution,
    /// Seconds of each point, a multiple of the resolution's.
    pub every: u64,
}

/// The span that is answered where so many points, at most, from `from` to `to` are wanted: the
/// finest that is kept so far back, and no finer than the points need. What is older than all that
/// is kept, and what is still to come, is left away. `None` where nothing is left.
#[must_use]
pub fn wanted(now: u64, (from, to): (u64, u64), points: u64) -> Option<HistorySpan> {
    let points = points.clamp(1, POINTS_MAX);
    let to = to.min(now);
    let oldest = HistoryResolution::Coarse.kept(now).0;
    let from = from.max(oldest);
    if from >= to {
        return None;
    }
    // What is seldom looked at so closely need not be read so closely either.
    let needed = (to - from).div_ceil(points);
    let fits = |one: &HistoryResolution| one.seconds() <= needed.max(5);
    let fine = HistoryResolution::that_has(from, now);
    let coarser = super::resolution::RESOLUTIONS.into_iter().rev().find(fits).unwrap_or(fine);
    let resolution = fine.max(coarser);
    let step = resolution.seconds();
    let every = needed.div_ceil(step).max(1) * step;
    let from = from - from % every;
    let to = to.div_ceil(every) * every;
    Some(HistorySpan { from, to, resolution, every })
}

/// Points of an object from its records and what was seen, each by the beginning of its bucket.
/// There is one for each step of the span; what nobody saw has no milliseconds.
#[must_use]
pub fn points(
    kind: PerformanceKind,
    span: HistorySpan,
    records: &BTreeMap<u64, HistoryRecord>,
    covered_ms: &BTreeMap<u64, u64>,
) -> (Vec<PerformancePoint>, PerformancePoint) {
    let mut all = (HistoryRecord::default(), 0_u64);
    let mut out = Vec::new();
    let mut at = span.from;
    while at < span.to {
        let until = at + span.every;
        let mut record = HistoryRecord::default();
        records.range(at..until).for_each(|(_, one)| record.add(one));
        let seen = covered_ms.range(at..until).map(|(_, ms)| *ms).fold(0, u64::saturating_add);
        out.push(PerformancePoint::of(kind, at, seen, &record));
        all.0.add(&record);
        all.1 = all.1.saturating_add(seen);
        at = until;
    }
    (out, PerformancePoint::of(kind, span.from, all.1, &all.0))
}
