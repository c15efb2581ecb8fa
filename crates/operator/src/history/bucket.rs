// SPDX-License-Identifier: Apache-2.0
//! The records of all objects in one span of time.

use super::measure::HistoryKind;
use super::record::HistoryRecord;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Most volumes of a bucket: the busiest are kept. What the others did is in what their shards did.
pub const VOLUMES_MAX: usize = 200;
/// Most shards of a machine: 16 hosts of 5, as `gabion up` makes them at most.
pub const SHARDS_MAX: usize = 80;
/// Most disk groups: 16 on each of a few hosts. Beyond, the busiest.
pub const GROUPS_MAX: usize = 80;
/// Most devices: eight of each disk group.
pub const DEVICES_MAX: usize = 640;

/// What was counted of all objects in one span of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryBucket {
    /// Milliseconds of the span that were seen. An object without a record did nothing in them.
    pub covered_ms: u64,
    /// Records that were left out because there were too many, and what is left out again as
    /// buckets are added up.
    pub left_out: u64,
    pub(super) records: BTreeMap<(HistoryKind, String), HistoryRecord>,
}

fn most(kind: HistoryKind) -> usize {
    match kind {
        HistoryKind::Volume => VOLUMES_MAX,
        HistoryKind::Shard => SHARDS_MAX,
        HistoryKind::Group => GROUPS_MAX,
        HistoryKind::Device => DEVICES_MAX,
    }
}

impl HistoryBucket {
    /// One in which nothing was done in so many milliseconds.
    #[must_use]
    pub fn seen(covered_ms: u64) -> Self {
        Self { covered_ms, ..Self::default() }
    }

    /// Adds a record of an object; an empty one is nothing.
    pub fn add_record(&mut self, kind: HistoryKind, name: &str, record: &HistoryRecord) {
        if !record.is_empty() {
            self.records.entry((kind, name.to_owned())).or_default().add(record);
        }
    }

    /// Adds the bucket of another time.
    pub fn add(&mut self, more: &Self) {
        self.covered_ms = self.covered_ms.saturating_add(more.covered_ms);
        self.left_out = self.left_out.saturating_add(more.left_out);
        for ((kind, name), record) in &more.records {
            self.add_record(*kind, name, record);
        }
    }

    /// Leaves out what is more than may be kept: of each kind the busiest stay, by requests, then
    /// bytes, then name.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        for kind in HistoryKind::ALL {
            let of_kind = self.records.iter().filter(|((one, _), _)| *one == kind);
            let mut load: Vec<_> = of_kind
                .map(|((_, name), record)| {
                    (Reverse(record.requests()), Reverse(record.bytes()), name.clone())
                })
                .collect();
            if load.len() <= most(kind) {
                continue;
            }
            load.sort();
            for (_, _, name) in load.split_off(most(kind)) {
                self.records.remove(&(kind, name));
                self.left_out = self.left_out.saturating_add(1);
            }
        }
        self
    }

    /// The record of an object; an empty one where it did nothing.
    #[must_use]
    pub fn record(&self, kind: HistoryKind, name: &str) -> HistoryRecord {
        self.records.get(&(kind, name.to_owned())).cloned().unwrap_or_default()
    }

    /// All records.
    pub fn records(&self) -> impl ExactSizeIterator<Item = (HistoryKind, &str, &HistoryRecord)> {
        self.records.iter().map(|((kind, name), record)| (*kind, name.as_str(), record))
    }
}
