// SPDX-License-Identifier: Apache-2.0
//! Performance over time, as this host sees it: the shards are looked at every five seconds,
//! `operator::history` says what they did in between, and it is kept in a file of this machine.
//!
//! | module | what it is |
//! |---|---|
//! | `answer` | what is answered of it |
//! | `store` | the file: what is put into it, read, put together and forgotten |
//! | `open` | how the file is opened, or begun anew |

mod answer;
mod open;
mod store;
#[cfg(test)]
mod tests;

use crate::gather::ShardDoor;
use crate::machine::MachineLook;
use crate::metrics;
use operator::MetricsReport;
use operator::history::{HistoryBucket, HistoryLooks, HistoryResolution, encode_bucket};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use store::HistoryStore;

/// What is kept: a file of this name beside the audit. It is described in
/// `docs/formats/performance-history.md`.
const FILE: &str = "performance.redb";
/// Between two looks.
const EVERY_MS: u64 = 5000;
/// A look begins so long after the beginning of five seconds, so that it is none too early.
const AFTER_MS: u64 = 50;
/// Buckets that are not in the file yet: a minute of them goes there together. Where the file
/// cannot be written five minutes wait, and then the oldest are lost.
const WRITTEN_TOGETHER: usize = 12;
const PENDING_MAX: usize = 60;
/// The last five minutes, for those who look at what is done now.
const RECENT_MAX: usize = 60;

/// What is counted of the history itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HistoryCounts {
    /// Looks at the shards.
    pub(crate) looks: u64,
    /// Buckets that could not be kept.
    pub(crate) lost: u64,
    /// Values of the file that were not as they had been written.
    pub(crate) damaged: u64,
    /// Bytes of what is kept.
    pub(crate) bytes: u64,
    /// Volumes of the last look that were left out.
    pub(crate) left_out: u64,
}

/// The performance of a cluster.
pub struct PerformanceWatch {
    shards: Vec<ShardDoor>,
    machine: Arc<dyn MachineLook>,
    begun: Instant,
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

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since 1970.
fn wall_ms() -> u64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// How long to wait for the next look: it is a little after five seconds begin.
fn pause(wall_ms: u64) -> Duration {
    Duration::from_millis(EVERY_MS - wall_ms % EVERY_MS + AFTER_MS)
}

impl PerformanceWatch {
    /// Of these shards. What they do is kept beside the file of the audit, if there is one.
    pub(crate) fn new(
        shards: Vec<ShardDoor>,
        machine: Arc<dyn MachineLook>,
        audit: Option<&Path>,
    ) -> Self {
        Self {
            shards,
            machine,
            begun: Instant::now(),
            file: audit.map(|path| path.with_file_name(FILE)),
            store: Mutex::new(None),
            now: Mutex::new(NowBook::default()),
        }
    }

    /// Opens the file. It may have to be mended first, so nobody else waits for it.
    fn open(&self) {
        let mut store = lock(&self.store);
        *store = self.file.as_deref().and_then(open::open);
        let bytes = store.as_ref().map_or(0, HistoryStore::bytes);
        drop(store);
        lock(&self.now).counts.bytes = bytes;
    }

    /// Looks at the shards, and keeps what they did.
    fn look(&self) {
        let reports = metrics::answers(&self.shards);
        self.take(wall_ms(), millis(self.begun.elapsed()), &reports);
    }

    /// Takes in what the shards said, at a time of the wall clock and one of a clock that does not
    /// go back.
    fn take(&self, wall_ms: u64, now_ms: u64, reports: &[MetricsReport]) {
        let mut now = lock(&self.now);
        for report in reports {
            let known = report.status.hosts.iter().find(|shard| shard.name == report.status.host);
            let host = known.map_or(report.status.host.as_str(), |shard| shard.host()).to_owned();
            now.hosts.insert(report.status.host.clone(), host);
        }
        now.names = names(reports);
        let cpu = |shard: &str| {
            let time = self.machine.cpu_time(shard)?;
            u64::try_from(time.as_micros()).ok()
        };
        let bucket = now.looks.take(now_ms, reports, cpu).bounded();
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
    pub(crate) fn flush(&self, now: u64) {
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

    /// Puts everything into the file that is to outlive the process.
    pub(crate) fn close(&self) {
        self.flush(wall_ms() / 1000);
        drop(lock(&self.store).take());
    }

    /// What is counted of the history itself.
    pub(crate) fn counts(&self) -> HistoryCounts {
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

/// Looks for ever.
pub(crate) async fn watch(performance: Arc<PerformanceWatch>) {
    let opens = Arc::clone(&performance);
    // One that ends in a panic has said why; nothing is kept then.
    let _ = tokio::task::spawn_blocking(move || opens.open()).await;
    loop {
        let looks = Arc::clone(&performance);
        let _ = tokio::task::spawn_blocking(move || looks.look()).await;
        tokio::time::sleep(pause(wall_ms())).await;
    }
}
