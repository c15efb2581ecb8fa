// SPDX-License-Identifier: Apache-2.0
//! What is answered of performance.

use super::store::{HistoryRead, HistoryStoreError};
use super::{PerformanceBook, lock};
use operator::Command;
use operator::history::{
    HistoryBucket, HistoryKind, HistoryMeasure, HistoryRecord, HistorySpan, POINTS_DEFAULT,
    POINTS_MAX, PerformanceKind, PerformancePoint, PerformanceReport, PerformanceRow,
    PerformanceTop, decode_bucket, points, wanted,
};
use std::collections::BTreeMap;

/// What is answered where nothing is said: an hour, and ten seconds.
const SHOWN_SECONDS: u64 = 3600;
const TOP_SECONDS: u64 = 10;
/// What may be asked for.
const TOP_SECONDS_MIN: u64 = 5;
const TOP_SECONDS_MAX: u64 = 300;
const LIMIT_MAX: u64 = 1000;
const LIMIT_DEFAULT: u64 = 100;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum PerformanceError {
    /// The question is wrong: what it is to be.
    #[error("{0}")]
    Question(String),
    /// Nothing was kept of it, and it is not there.
    #[error("there is no {kind} '{name}' here, and nothing was kept of one")]
    Unknown {
        /// What was asked for.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// The file was not read.
    #[error("the file of performance cannot be read: {0}")]
    File(#[from] HistoryStoreError),
    /// The answer cannot be written.
    #[error("{0}")]
    Form(#[from] serde_json::Error),
}

type Answer = Result<serde_json::Value, PerformanceError>;

fn value(answer: &impl serde::Serialize) -> Answer {
    Ok(serde_json::to_value(answer)?)
}

/// A number of a question, within bounds.
fn within(
    name: &str,
    said: Option<u64>,
    usual: u64,
    (least, most): (u64, u64),
) -> Result<u64, PerformanceError> {
    let number = said.unwrap_or(usual);
    match (least..=most).contains(&number) {
        true => Ok(number),
        false => {
            Err(PerformanceError::Question(format!("'{name}' is a number from {least} to {most}")))
        }
    }
}

fn kept_as(kind: PerformanceKind) -> HistoryKind {
    match kind {
        PerformanceKind::Cluster | PerformanceKind::Host | PerformanceKind::Shard => {
            HistoryKind::Shard
        }
        PerformanceKind::Volume => HistoryKind::Volume,
        PerformanceKind::Group => HistoryKind::Group,
        PerformanceKind::Device => HistoryKind::Device,
    }
}

impl PerformanceBook {
    /// Answers a command about performance at a time, seconds since 1970. `is_volume` says whether
    /// there is a volume that no shard has told of so far: one that nobody used.
    ///
    /// # Errors
    /// [`PerformanceError`].
    pub fn answer(
        &self,
        now: u64,
        command: &Command,
        is_volume: impl FnOnce(&str) -> bool,
    ) -> Answer {
        match command {
            Command::PerformanceShow { kind, name, from, to, points } => {
                let points = within("points", *points, POINTS_DEFAULT, (1, POINTS_MAX))?;
                let to = to.unwrap_or(now);
                let from = from.unwrap_or_else(|| to.saturating_sub(SHOWN_SECONDS));
                let span = wanted(now, (from, to), points).ok_or_else(|| {
                    PerformanceError::Question(
                        "'from' is before 'to', within the last 90 days: seconds since 1970"
                            .to_owned(),
                    )
                })?;
                value(&self.show(*kind, name, span, is_volume)?)
            }
            Command::PerformanceTop { kind, seconds, limit } => {
                let bounds = (TOP_SECONDS_MIN, TOP_SECONDS_MAX);
                let seconds = within("seconds", *seconds, TOP_SECONDS, bounds)?;
                let limit = within("limit", *limit, LIMIT_DEFAULT, (1, LIMIT_MAX))?;
                let limit = usize::try_from(limit).unwrap_or(usize::MAX);
                value(&self.top(*kind, now, seconds, limit))
            }
            _ => Err(PerformanceError::Question("this is no command about performance".to_owned())),
        }
    }

    /// The objects in the file that something is made of.
    fn parts(&self, kind: PerformanceKind, name: &str) -> Vec<String> {
        let book = lock(&self.now);
        let shards = book.hosts.iter();
        match kind {
            PerformanceKind::Cluster => shards.map(|(shard, _)| shard.clone()).collect(),
            PerformanceKind::Host => {
                let shards = shards.filter(|(_, host)| *host == name);
                shards.map(|(shard, _)| shard.clone()).collect()
            }
            _ => vec![name.to_owned()],
        }
    }

    fn show(
        &self,
        kind: PerformanceKind,
        name: &str,
        span: HistorySpan,
        is_volume: impl FnOnce(&str) -> bool,
    ) -> Result<PerformanceReport, PerformanceError> {
        let (parts, of) = (self.parts(kind, name), kept_as(kind));
        let read = lock(&self.store).as_ref().map(|store| store.read(span, of, &parts));
        let mut read = read.transpose()?.unwrap_or_default();
        let book = lock(&self.now);
        for (at, bucket) in book.pending.range(span.from..span.to) {
            read.add(span.resolution.bucket_of(*at), bucket, of, &parts);
        }
        let is_known = match kind {
            PerformanceKind::Cluster => true,
            PerformanceKind::Host => !parts.is_empty(),
            PerformanceKind::Shard => book.hosts.contains_key(name),
            _ => book.names.contains(name),
        };
        // Nobody has looked so far: nobody knows what there is.
        let is_known = is_known || book.counts.looks == 0;
        drop(book);
        let HistoryRead { records, covered_ms } = read;
        let is_there = records.values().any(|record| !record.is_empty());
        let is_unused = || kind == PerformanceKind::Volume && is_volume(name);
        if !(is_there || is_known || is_unused()) {
            return Err(PerformanceError::Unknown { kind: kind.name(), name: name.to_owned() });
        }
        let (points, all) = points(kind, span, &records, &covered_ms);
        Ok(PerformanceReport {
            kind,
            name: name.to_owned(),
            from: span.from,
            to: span.to,
            resolution_seconds: span.resolution.seconds(),
            every_seconds: span.every,
            points,
            all,
        })
    }

    fn top(&self, kind: PerformanceKind, now: u64, seconds: u64, limit: usize) -> PerformanceTop {
        // The newest bucket begins five seconds ago at least.
        let from = now.saturating_sub(seconds + 5);
        let book = lock(&self.now);
        let recent = book.recent.iter().filter(|(at, _)| *at >= from);
        let recent: Vec<_> = recent.cloned().collect();
        let hosts = book.hosts.clone();
        drop(book);
        let mut all = HistoryBucket::default();
        for (_, bytes) in &recent {
            if let Ok(bucket) = decode_bucket(bytes) {
                all.add(&bucket);
            }
        }
        // Several shards are beside each other: each was seen for as long as it says.
        let mut items: BTreeMap<String, (HistoryRecord, u64)> = BTreeMap::new();
        for (of, name, record) in all.records().filter(|(of, ..)| *of == kept_as(kind)) {
            let shown = match kind {
                PerformanceKind::Cluster => "cluster",
                PerformanceKind::Host => hosts.get(name).map_or(name, String::as_str),
                _ => name,
            };
            let (sum, covered) = items.entry(shown.to_owned()).or_default();
            sum.add(record);
            *covered = (*covered).max(match of {
                HistoryKind::Shard => record.measure(HistoryMeasure::CoveredMs),
                _ => all.covered_ms,
            });
        }
        let first = recent.first().map_or(from, |(at, _)| *at);
        let row = |(name, (record, covered)): (String, (HistoryRecord, u64))| PerformanceRow {
            name,
            point: PerformancePoint::of(kind, first, covered, &record),
        };
        let mut items: Vec<_> = items.into_iter().map(row).collect();
        items.sort_by(|one, other| {
            let ((count, bytes), (others, more)) = (one.point.load(), other.point.load());
            others.total_cmp(&count).then(more.total_cmp(&bytes))
        });
        let total = items.len();
        items.truncate(limit);
        let to = recent.last().map_or(now, |(at, _)| at + 5);
        PerformanceTop { kind, from: first, to, items, total, left_out: all.left_out }
    }
}
