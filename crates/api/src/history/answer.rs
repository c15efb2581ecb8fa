// SPDX-License-Identifier: Apache-2.0
//! What is answered of performance.

use super::store::HistoryRead;
use super::{PerformanceWatch, lock, wall_ms};
use crate::gather::ShardDoor;
use crate::mailbox::exchange;
use crate::once::Outcome;
use crate::problem::Problem;
use operator::history::{
    HistoryBucket, HistoryKind, HistoryMeasure, HistoryRecord, HistorySpan, POINTS_DEFAULT,
    POINTS_MAX, PerformanceKind, PerformancePoint, PerformanceReport, PerformanceRow,
    PerformanceTop, decode_bucket, points, wanted,
};
use operator::{Command, CommandReply};
use std::collections::BTreeMap;
use std::time::Duration;

/// What is answered where nothing is said: an hour, and ten seconds.
const SHOWN_SECONDS: u64 = 3600;
const TOP_SECONDS: u64 = 10;
/// A shard that has not said by then whether it knows a volume is not waited for.
const ALIVE_MAX: Duration = Duration::from_secs(2);
/// What may be asked for.
const TOP_SECONDS_MIN: u64 = 5;
const TOP_SECONDS_MAX: u64 = 300;
const LIMIT_MAX: u64 = 1000;
const LIMIT_DEFAULT: u64 = 100;

fn value(answer: &impl serde::Serialize) -> Outcome {
    serde_json::to_value(answer).map_err(|error| Problem::internal(error.to_string()))
}

/// A number of a question, within bounds.
fn within(
    name: &str,
    said: Option<u64>,
    usual: u64,
    (least, most): (u64, u64),
) -> Result<u64, Problem> {
    let number = said.unwrap_or(usual);
    match (least..=most).contains(&number) {
        true => Ok(number),
        false => Err(Problem::usage(format!("'{name}' is a number from {least} to {most}"))),
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

impl PerformanceWatch {
    /// Answers a command about performance.
    pub(crate) fn answer(&self, command: &Command) -> Outcome {
        let now = wall_ms() / 1000;
        match command {
            Command::PerformanceShow { kind, name, from, to, points } => {
                let points = within("points", *points, POINTS_DEFAULT, (1, POINTS_MAX))?;
                let to = to.unwrap_or(now);
                let from = from.unwrap_or_else(|| to.saturating_sub(SHOWN_SECONDS));
                let span = wanted(now, (from, to), points).ok_or_else(|| {
                    Problem::usage(
                        "'from' is before 'to', within the last 90 days: seconds since 1970",
                    )
                })?;
                value(&self.show(*kind, name, span)?)
            }
            Command::PerformanceTop { kind, seconds, limit } => {
                let bounds = (TOP_SECONDS_MIN, TOP_SECONDS_MAX);
                let seconds = within("seconds", *seconds, TOP_SECONDS, bounds)?;
                let limit = within("limit", *limit, LIMIT_DEFAULT, (1, LIMIT_MAX))?;
                let limit = usize::try_from(limit).unwrap_or(usize::MAX);
                value(&self.top(*kind, now, seconds, limit))
            }
            _ => Err(Problem::internal("this is no command about performance")),
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
    ) -> Result<PerformanceReport, Problem> {
        let (parts, of) = (self.parts(kind, name), kept_as(kind));
        let read = lock(&self.store).as_ref().map(|store| store.read(span, of, &parts));
        let read = read.transpose().map_err(|error| Problem::internal(error.to_string()))?;
        let mut read = read.unwrap_or_default();
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
        if !is_there && !is_known && !self.is_volume(kind, name) {
            return Err(Problem::no_performance(kind.name(), name));
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

    /// Whether something is a volume that nobody used so far: shards tell of it when they are
    /// asked.
    fn is_volume(&self, kind: PerformanceKind, name: &str) -> bool {
        let command = Command::VolumeShow { name: name.to_owned() };
        let says = |(_, socket): &ShardDoor| match exchange(socket, &command, ALIVE_MAX) {
            Ok(CommandReply::Ok(_)) => Some(true),
            Ok(CommandReply::Error(_)) => Some(false),
            Err(_) => None,
        };
        kind == PerformanceKind::Volume && self.shards.iter().find_map(says).unwrap_or(false)
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
