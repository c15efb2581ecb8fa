// SPDX-License-Identifier: Apache-2.0
//! Performance over time, kept on one machine: what `operator::history` makes of looks at the
//! shards goes into a file and is answered from it. Whoever looks gives the times; nothing here
//! asks a clock or a shard.
//!
//! | module | what it is |
//! |---|---|
//! | `answer` | what is answered |
//! | `open` | how the file is opened, or begun anew |
//! | `store` | the file: what is put into it, read, put together and forgotten |
//!
//! Guarantees: the file and what is in memory are bounded; a file that cannot be read costs what
//! was in it and nothing else. Not guaranteed: that the last minute outlives a process that is
//! killed.
#![forbid(unsafe_code)]

mod answer;
mod open;
mod store;
#[cfg(test)]
mod tests;

pub use answer::PerformanceError;
use operator::MetricsReport;
use operator::history::{HistoryBucket, HistoryLooks, HistoryResolution, encode_bucket};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::HistoryStore;
pub use store::HistoryStoreError;

/// Buckets that are not in the file yet: a minute of them goes there together. Where the file
/// cannot be written five minutes wait, and then the oldest are lost.
const WRITTEN_TOGETHER: usize = 12;
const PENDING_MAX: usize = 60;
/// The last five minutes, for those who look at what is done now.
const RECENT_MAX: usize = 60;

/// What is counted of the history itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryCounts {
    /// Looks at the shards.
    pub looks: u64,
    /// Buckets that could not be kept.
    pub lost: u64,
    /// Values of the file that were not as they had been written.
    pub damaged: u64,
    /// Bytes of what is kept.
    pub bytes: u64,
    /// Volumes of the last look that were left out.
    pub left_out: u64,
}

/// The performance of the shards of one machine. All times are of one wall clock.
pub struct PerformanceBook {
    /// Where it is kept, if it is.
    file: Option<PathBuf>,
    /// Whoever waits for it waits for the file to be opened.
    store: Mutex<Option<HistoryStore>>,
    now: Mutex<NowBook>,
}

/// What is in memory.
#[derive(Default)]
struct NowBook {
    looks: HistoryLooks,
    /// Not in the file yet, by when each begins.
    pending: BTreeMap<u64, HistoryBucket>,
    /// The last ones as bytes, the oldest first.
    recent: VecDeque<(u64, Vec<u8>)>,
    /// Shards that were seen, and the host of each.
    hosts: BTreeMap<String, String>,
    /// Volumes, disk groups and devices of the last look.
    names: BTreeSet<String>,
    counts: HistoryCounts,
    /// It was said that the file cannot be written.
    is_told: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PerformanceBook {
    /// One that is kept in this file, or nowhere.
    #[must_use]
    pub fn new(file: Option<PathBuf>) -> Self {
        Self { file, store: Mutex::new(None), now: Mutex::new(NowBook::default()) }
    }

    /// Opens the file. It may have to be mended first, which takes time.
    pub fn open(&self) {
        let mut store = lock(&self.store);
        *store = self.file.as_deref().and_then(open::open);
        let bytes = store.as_ref().map_or(0, HistoryStore::bytes);
        drop(store);
        lock(&self.now).counts.bytes = bytes;
    }

    /// Takes in what the shards said, at a time of the wall clock (milliseconds since 1970) and one
    /// of a clock that does not go back, and keeps what they did since they were heard last.
    /// `cpu_time` says how long the thread of a shard ran since it began.
    pub fn take(
        &self,
        wall_ms: u64,
        now_ms: u64,
        reports: &[MetricsReport],
        cpu_time: impl Fn(&str) -> Option<Duration>,
    ) {
        let mut now = lock(&self.now);
        for report in reports {
            let known = report.status.hosts.iter().find(|shard| shard.name == report.status.host);
            let host = known.map_or(report.status.host.as_str(), |shard| shard.host()).to_owned();
            now.hosts.insert(report.status.host.clone(), host);
        }
        now.names = names(reports);
        let cpu_us = |shard: &str| u64::try_from(cpu_time(shard)?.as_micros()).ok();
        let bucket = now.looks.take(now_ms, reports, cpu_us).bounded();
        now.counts.looks += 1;
        now.counts.left_out = bucket.left_out;
        if bucket.covered_ms > 0 {
            // It is of the time before: the five seconds in which its middle is.
            let middle = wall_ms.saturating_sub(bucket.covered_ms / 2) / 1000;
            now.put(HistoryResolution::Fine.bucket_of(middle), bucket);
        }
        let is_minute_over = now.pending.len() >= WRITTEN_TOGETHER
            || now.pending.keys().next().is_some_and(|at| at / 60 < wall_ms / 60_000);
        drop(now);
        if is_minute_over {
            self.flush(wall_ms / 1000);
        }
    }

    /// Puts into the file what is not there yet.
    fn flush(&self, now: u64) {
        let mut store = lock(&self.store);
        let Some(file) = store.as_mut() else {
            drop(store);
            let mut book = lock(&self.now);
            let lost = book.pending.len();
            book.pending.clear();
            if self.file.is_some() {
                book.lose(lost);
            }
            return;
        };
        let pending = lock(&self.now).pending.clone();
        let written = file.write(now, &pending);
        let (bytes, damaged) = (file.bytes(), file.damaged());
        let is_broken = written.as_ref().is_err_and(store::HistoryStoreError::is_of_the_file);
        if is_broken {
            // The database cannot go on with it.
            *store = None;
            *store = self.file.as_deref().and_then(open::begin_anew);
        }
        drop(store);
        let mut book = lock(&self.now);
        book.counts.bytes = bytes;
        book.counts.damaged = damaged;
        match written {
            Ok(()) => {
                // Nobody else takes away what waits, and looks take turns with this.
                book.pending.retain(|at, _| !pending.contains_key(at));
                book.is_told = false;
            }
            Err(error) => book.failed(&error),
        }
    }

    /// Puts everything into the file that is to outlive the process, and closes it.
    pub fn close(&self, now: u64) {
        self.flush(now);
        drop(lock(&self.store).take());
    }

    /// What is counted of the history itself.
    #[must_use]
    pub fn counts(&self) -> HistoryCounts {
        lock(&self.now).counts
    }
}

/// Everything that has a name and may have done nothing so far.
fn names(reports: &[MetricsReport]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for report in reports {
        names.extend(report.owned.iter().map(|volume| volume.volume.clone()));
        names.extend(report.traffic.iter().map(|volume| volume.volume.clone()));
        for group in &report.status.groups {
            names.insert(group.id.clone());
            names.extend(group.devices.iter().map(|device| device.path.clone()));
        }
    }
    names
}

impl NowBook {
    fn put(&mut self, at: u64, bucket: HistoryBucket) {
        self.recent.push_back((at, encode_bucket(&bucket)));
        while self.recent.len() > RECENT_MAX {
            self.recent.pop_front();
        }
        self.pending.entry(at).or_default().add(&bucket);
        while self.pending.len() > PENDING_MAX {
            self.pending.pop_first();
            self.lose(1);
        }
    }

    fn lose(&mut self, buckets: usize) {
        let buckets = u64::try_from(buckets).unwrap_or(u64::MAX);
        self.counts.lost = self.counts.lost.saturating_add(buckets);
    }

    /// Says it once, until it works again.
    fn failed(&mut self, error: &store::HistoryStoreError) {
        if !std::mem::replace(&mut self.is_told, true) {
            tracing::error!(
                %error,
                "performance is not kept; tried again every minute, and the last five minutes are \
                 kept in memory"
            );
        }
    }
}
