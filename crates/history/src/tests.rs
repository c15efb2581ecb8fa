// SPDX-License-Identifier: Apache-2.0
//! The file at fast-forwarded time, and what becomes of one that is none.

use super::store::{HistoryRead, HistoryStore};
use super::*;
use operator::history::{
    HistoryKind, HistoryMeasure, HistoryRecord, HistorySpan, PerformanceReport, PerformanceTop,
    RESOLUTIONS,
};
use operator::{Command, OperationKind, OperationReport};
use serde_json::json;
use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// The name of the file.
const FILE: &str = "performance.redb";

fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("before the year 500,000,000")
}

/// As the API says it.
fn code(error: &PerformanceError) -> u16 {
    match error {
        PerformanceError::Question(_) => 400,
        PerformanceError::Unknown { .. } => 404,
        PerformanceError::File(_) | PerformanceError::Form(_) => 500,
    }
}

/// A folder of a test's own, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("gperf-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join(FILE)
    }

    fn store(&self) -> HistoryStore {
        open::open(&self.file()).expect("a store")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const BEGIN: u64 = 1_800_000_000;

/// What something did in five seconds: so many reads and writes, in so many classes.
fn record(count: u64, classes: usize) -> HistoryRecord {
    let mut record = HistoryRecord::default();
    for operation in [OperationKind::Read, OperationKind::Write] {
        let mut latencies = vec![0; 18];
        for (at, class) in latencies.iter_mut().skip(2).take(classes).enumerate() {
            *class = count + u64::try_from(at).expect("a few");
        }
        let requests: u64 = latencies.iter().sum();
        let (bytes, took_us) = (requests * 8192, requests * 317);
        record.add_operation(&OperationReport { operation, failed: 0, bytes, took_us, latencies });
    }
    record
}

fn bucket(volumes: usize, count: u64, classes: usize) -> HistoryBucket {
    let mut bucket = HistoryBucket::seen(5000);
    for volume in 0..volumes {
        let name = format!("volume{volume:03}");
        bucket.add_record(HistoryKind::Volume, &name, &record(count, classes));
    }
    let mut shard = record(count, classes);
    shard.add_measure(HistoryMeasure::CoveredMs, 5000);
    bucket.add_record(HistoryKind::Shard, "h1", &shard);
    bucket
}

fn one(at: u64, bucket: HistoryBucket) -> BTreeMap<u64, HistoryBucket> {
    BTreeMap::from([(at, bucket)])
}

fn span(now: u64, seconds: u64, resolution: HistoryResolution) -> HistorySpan {
    let step = resolution.seconds();
    let from = (now - seconds) - (now - seconds) % step;
    HistorySpan { from, to: now + step, resolution, every: step }
}

fn read(store: &HistoryStore, span: HistorySpan, name: &str) -> (u64, u64) {
    let read = store.read(span, HistoryKind::Volume, &[name.to_owned()]).expect("read");
    let HistoryRead { records, covered_ms } = read;
    let requests = records.values().map(HistoryRecord::requests).sum();
    (requests, covered_ms.values().sum())
}

/// Twenty-six hours: hours and a day were put together, an hour of five seconds is left, and every
/// request is in each resolution once.
#[test]
fn all_that_was_done_is_in_each_resolution_that_goes_back_so_far() {
    let folder = Folder::new("all");
    let mut store = folder.store();
    let (hours, mut count) = (26, 0);
    let end = BEGIN + hours * 3600;
    let mut batch = BTreeMap::new();
    for at in (BEGIN..end).step_by(60) {
        let done = bucket(2, at % 7 + 1, 1);
        count += done.record(HistoryKind::Volume, "volume001").requests();
        batch.insert(at, done);
        if batch.len() == 30 {
            store.write(at + 60, &std::mem::take(&mut batch)).expect("written");
        }
        if at % 18_000 == 0 {
            drop(store);
            store = folder.store();
        }
    }
    for resolution in [HistoryResolution::Minute, HistoryResolution::Coarse] {
        let all = span(end, hours * 3600, resolution);
        assert_eq!(read(&store, all, "volume001"), (count, hours * 60 * 5000), "{resolution:?}");
        assert_eq!(read(&store, all, "volume7").0, 0);
        let shard = store.read(all, HistoryKind::Shard, &["h1".to_owned()]).expect("read");
        assert_eq!(shard.covered_ms.values().sum::<u64>(), hours * 60 * 5000);
    }
    let fine = store.read(
        span(end, 7200, HistoryResolution::Fine),
        HistoryKind::Volume,
        &["volume001".to_owned()],
    );
    let fine = fine.expect("read").records;
    let (first, last) = (fine.keys().next(), fine.keys().last());
    assert_eq!((first, last), (Some(&(end - 3600)), Some(&(end - 60))), "an hour of five seconds");
}

/// Also what was written before a process was killed, and after it began again in the same minute.
#[test]
fn what_comes_later_is_added_to_what_is_there() {
    let folder = Folder::new("later");
    let mut store = folder.store();
    store.write(BEGIN + 20, &one(BEGIN, bucket(1, 4, 1))).expect("written");
    drop(store);
    let mut store = folder.store();
    store.write(BEGIN + 40, &one(BEGIN + 20, bucket(1, 3, 1))).expect("written");
    let minute = span(BEGIN + 60, 60, HistoryResolution::Minute);
    assert_eq!(read(&store, minute, "volume000"), (14, 10_000));
    // The hour is over and put together, and the clock goes back into it.
    store.write(BEGIN + 7200, &one(BEGIN + 7195, bucket(1, 1, 1))).expect("written");
    store.write(BEGIN + 50, &one(BEGIN + 45, bucket(1, 1, 1))).expect("written");
    store.write(BEGIN + 7300, &one(BEGIN + 7295, bucket(1, 1, 1))).expect("written");
    assert_eq!(read(&store, minute, "volume000"), (16, 15_000));
}

/// By default some days of a few volumes. `API_HISTORY_VOLUMES=200 API_HISTORY_DAYS=100` measures
/// what is said in `docs/operations/performance-history.md`.
#[test]
fn nothing_is_older_or_larger_than_its_bound() {
    let number = |name, usual: usize| match std::env::var(name) {
        Ok(text) => text.parse().expect("a number"),
        Err(_) => usual,
    };
    let volumes = number("API_HISTORY_VOLUMES", 2);
    let days = u64::try_from(number("API_HISTORY_DAYS", 12)).expect("a few");
    let (folder, is_measured) = (Folder::new("bound"), volumes > 2);
    let mut store = folder.store();
    let end = BEGIN + days * 86_400;
    // What is seldom asked for needs no more than one bucket of each resolution.
    let step = |at| {
        if end - at < 3600 {
            5
        } else if end - at < 9 * 86_400 {
            60
        } else {
            300
        }
    };
    let (mut at, mut largest) = (BEGIN, 0);
    let every = if is_measured { 1 } else { 20 };
    let mut batch = BTreeMap::new();
    while at < end {
        batch.insert(at, bucket(volumes, at % 3000, 8));
        at += step(at) * every;
        // A disk takes some milliseconds for each write.
        if batch.len() == 12 || at >= end {
            store.write(at.min(end), &std::mem::take(&mut batch)).expect("written");
            largest = largest.max(store.bytes());
        }
    }
    assert!(largest < store::BYTES_MAX + (64 << 20), "{largest}");
    let bytes = store.bytes();
    drop(store);
    let length = fs::metadata(folder.file()).expect("a file").len();
    if is_measured {
        eprintln!("{volumes} volumes, {days} days: {bytes} bytes in a file of {length}");
    }
    let store = folder.store();
    assert_eq!(store.bytes(), bytes, "it is kept");
    for resolution in RESOLUTIONS {
        let all = HistorySpan { from: 0, to: u64::MAX, resolution, every: resolution.seconds() };
        // A block is kept until all of it is too old.
        let slack = resolution.block_seconds().unwrap_or(0);
        let oldest = resolution.kept(end).0 - slack;
        let from = (BEGIN - BEGIN % 86_400).max(oldest - oldest % 86_400);
        let all = HistorySpan { from, ..all };
        let all = HistorySpan { to: end + 86_400, ..all };
        let read = store.read(all, HistoryKind::Volume, &["volume000".to_owned()]).expect("read");
        let first = read.records.keys().next().copied().expect("some");
        assert!(first >= oldest, "{resolution:?}: {first} is older than {oldest}");
        assert!(
            first <= oldest.max(BEGIN) + slack + step(first) * every,
            "{resolution:?}: {first}"
        );
    }
}

#[test]
fn what_was_written_while_the_clock_was_wrong_goes_when_it_is_right() {
    let folder = Folder::new("clock");
    let mut store = folder.store();
    let ahead = BEGIN + 400 * 86_400;
    store.write(ahead, &one(ahead - 5, bucket(1, 1, 1))).expect("written");
    store.write(ahead + 90_000, &one(ahead + 89_995, bucket(1, 1, 1))).expect("written");
    store.write(BEGIN, &one(BEGIN - 5, bucket(1, 1, 1))).expect("written");
    let bytes = store.bytes();
    let all = |resolution| HistorySpan { to: ahead + 100_000, ..span(BEGIN, 600, resolution) };
    for resolution in RESOLUTIONS {
        assert_eq!(read(&store, all(resolution), "volume000").0, 2, "{resolution:?}");
    }
    drop(store);
    fs::remove_file(folder.file()).expect("removed");
    let mut store = folder.store();
    store.write(BEGIN, &one(BEGIN - 5, bucket(1, 1, 1))).expect("written");
    assert_eq!(store.bytes(), bytes, "as if it had never been there");
}

#[test]
fn a_file_that_is_none_is_set_aside_and_another_one_is_begun() {
    let folder = Folder::new("aside");
    let aside = folder.0.join(format!("{FILE}.aside"));
    let works = |text: &[u8]| {
        let mut store = folder.store();
        store.write(BEGIN + 60, &one(BEGIN, bucket(1, 4, 1))).expect("written");
        let minute = span(BEGIN + 60, 60, HistoryResolution::Minute);
        assert_eq!(read(&store, minute, "volume000").0, 8);
        drop(store);
        assert!(fs::read(&aside).expect("it is there") == text, "it is kept as it was");
        fs::remove_file(&aside).expect("removed");
    };
    // Text, and nothing but the first half of what was there.
    fs::write(folder.file(), "not a database".repeat(999)).expect("written");
    works("not a database".repeat(999).as_bytes());
    let whole = fs::read(folder.file()).expect("a file");
    for part in [1, 100, 4096, whole.len() / 2] {
        fs::write(folder.file(), &whole[..part]).expect("written");
        works(&whole[..part]);
    }
    // One whose pages are another's.
    let mut file = fs::OpenOptions::new().write(true).open(folder.file()).expect("a file");
    file.seek(SeekFrom::Start(64)).expect("a place");
    file.write_all(&[0xa5; 256]).expect("written");
    drop(file);
    let broken = fs::read(folder.file()).expect("a file");
    works(&broken);
    assert_eq!(fs::metadata(folder.file()).expect("a file").permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_file_of_another_release_is_set_aside() {
    let folder = Folder::new("release");
    drop(folder.store());
    let database = redb::Database::create(folder.file()).expect("a database");
    let write = database.begin_write().expect("a write");
    let about: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("about");
    write.open_table(about).expect("a table").insert("format", 99).expect("written");
    write.commit().expect("written");
    drop(database);
    let error = HistoryStore::open(&folder.file()).err().expect("refused").to_string();
    assert!(error.contains("format 99"), "{error}");
    folder.store();
    assert!(folder.0.join(format!("{FILE}.aside")).exists());
}

/// Two processes, or one that is started twice: the second keeps nothing, and harms nothing.
#[test]
fn a_file_that_another_one_has_stays_as_it_is() {
    let folder = Folder::new("twice");
    let store = folder.store();
    assert!(open::open(&folder.file()).is_none());
    drop(store);
    assert!(!folder.0.join(format!("{FILE}.aside")).exists());
    folder.store();
}

#[test]
fn a_value_that_rotted_costs_itself_alone() {
    let folder = Folder::new("rotten");
    let mut store = folder.store();
    store.write(BEGIN + 20, &one(BEGIN, bucket(1, 4, 1))).expect("written");
    drop(store);
    let database = redb::Database::create(folder.file()).expect("a database");
    let write = database.begin_write().expect("a write");
    let table: redb::TableDefinition<'_, u64, &[u8]> = redb::TableDefinition::new("minute");
    write.open_table(table).expect("a table").insert(BEGIN, &b"rotten"[..]).expect("written");
    write.commit().expect("written");
    drop(database);
    let mut store = folder.store();
    let of = |resolution| span(BEGIN + 60, 60, resolution);
    assert_eq!(read(&store, of(HistoryResolution::Minute), "volume000").0, 0);
    assert_eq!(read(&store, of(HistoryResolution::Fine), "volume000").0, 8);
    store.write(BEGIN + 40, &one(BEGIN + 20, bucket(1, 3, 1))).expect("written");
    assert_eq!(store.damaged(), 1);
    assert_eq!(read(&store, of(HistoryResolution::Minute), "volume000").0, 6);
    assert_eq!(read(&store, of(HistoryResolution::Coarse), "volume000").0, 14);
}

/// What a shard says that was asked to write so often.
fn said(shard: &str, count: u64) -> MetricsReport {
    let writes = json!([{
        "operation": "write", "failed": 0, "bytes": count * 4096, "took_us": count * 100,
        "latencies": [0, count, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    }]);
    serde_json::from_value(json!({
        "status": {
            "host": shard, "health": "green", "directory": true, "alarms": [], "volumes": [],
            "groups": [], "hosts": [{ "name": shard, "host": "big", "state": "up", "peer": "" }],
        },
        "volumes": { "green": 1, "yellow": 0, "red": 0, "deleted": 0 }, "left_out": 0,
        "owned": [{
            "volume": "idle", "health": "green", "size_bytes": 1, "resync_bytes_left": 0,
        }],
        "traffic": [{
            "volume": "db", "clients": 1, "limited_requests": 0, "limited_ms": 0,
            "operations": writes,
        }],
        "all_traffic": writes, "stages": [], "scrubs": [],
        "resync": { "copying": 0, "waiting": 0, "bytes_left": 0, "copied_bytes": 0 },
        "links": {
            "made": 0, "silent": 0, "refused": 0, "messages_sent": 0, "messages_received": 0,
            "bytes_received": 0, "waiting_bytes": 0,
        },
    }))
    .expect("a report")
}

fn show(watch: &PerformanceBook, kind: &str, name: &str) -> Result<PerformanceReport, u16> {
    let command = json!({ "command": "performance-show", "kind": kind, "name": name });
    let command: Command = serde_json::from_value(command).expect("a command");
    let answer =
        watch.answer(wall_ms() / 1000, &command, |_| false).map_err(|error| code(&error))?;
    Ok(serde_json::from_value(answer).expect("a report"))
}

/// Two shards of one host, each of which was asked to write 50 times in five seconds.
#[test]
fn what_is_done_is_answered_at_once_and_after_a_start() {
    let folder = Folder::new("watch");
    let new = || {
        let watch = PerformanceBook::new(Some(folder.file()));
        watch.open();
        watch
    };
    let watch = new();
    let begun = wall_ms() - 60_000;
    for look in 0..=4 {
        let reports = ["a", "b"].map(|shard| said(shard, 1000 + look * 50));
        watch.take(begun + look * 5000, look * 5000, &reports, |_| None);
    }
    let written = |watch: &PerformanceBook, kind, name| {
        let report = show(watch, kind, name).expect("a report");
        let writes = report.all.writes.expect("writes");
        (writes.requests, writes.per_second.round(), report.all.covered_ms)
    };
    let check = |watch: &PerformanceBook| {
        assert_eq!(written(watch, "volume", "db"), (400, 20.0, 20_000));
        assert_eq!(written(watch, "cluster", "any"), (400, 20.0, 20_000), "beside each other");
        assert_eq!(written(watch, "host", "big"), (400, 20.0, 20_000));
        assert_eq!(written(watch, "shard", "b"), (200, 10.0, 20_000));
        assert_eq!(written(watch, "volume", "idle").0, 0, "it is there, and did nothing");
        assert_eq!(show(watch, "volume", "none").err(), Some(404));
        let command = json!({ "command": "performance-show", "kind": "volume", "name": "new" });
        let command: Command = serde_json::from_value(command).expect("a command");
        assert!(watch.answer(wall_ms() / 1000, &command, |name| name == "new").is_ok(), "unused");
        assert_eq!(show(watch, "host", "none").err(), Some(404));
    };
    check(&watch);
    let report = show(&watch, "volume", "db").expect("a report");
    assert_eq!(report.all.writes.and_then(|writes| writes.p99_us), Some(127.36));
    watch.close(wall_ms() / 1000);
    assert_eq!(show(&watch, "volume", "db").expect("known").all.covered_ms, 0, "it is closed");
    drop(watch);
    let watch = new();
    // It knows the host of a shard as soon as it has heard of it.
    watch.take(wall_ms(), 0, &["a", "b"].map(|shard| said(shard, 7)), |_| None);
    check(&watch);
    assert!(watch.counts().bytes > 0 && watch.counts().lost == 0);
}

#[test]
fn the_busiest_come_first() {
    let watch = PerformanceBook::new(None);
    let begun = wall_ms() - 10_000;
    for look in 0..=2 {
        let said = [said("a", look * 50), said("b", look * 90)];
        watch.take(begun + look * 5000, look * 5000, &said, |_| None);
    }
    let top = |kind: &str, limit: u64| -> Result<PerformanceTop, u16> {
        let command = json!({ "command": "performance-top", "kind": kind, "limit": limit });
        let command: Command = serde_json::from_value(command).expect("a command");
        let answer =
            watch.answer(wall_ms() / 1000, &command, |_| false).map_err(|error| code(&error))?;
        Ok(serde_json::from_value(answer).expect("a list"))
    };
    let rates = |top: &PerformanceTop| -> Vec<(String, f64)> {
        let row = |row: &operator::history::PerformanceRow| (row.name.clone(), row.point.load().0);
        top.items.iter().map(row).collect()
    };
    let shards = top("shard", 9).expect("shards");
    assert_eq!(rates(&shards), [("b".to_owned(), 18.0), ("a".to_owned(), 10.0)]);
    assert_eq!(rates(&top("host", 9).expect("hosts")), [("big".to_owned(), 28.0)]);
    let first = top("shard", 1).expect("one");
    assert_eq!((first.items.len(), first.total), (1, 2));
    assert_eq!(top("shard", 0).err(), Some(400));
    let wrong =
        |command| code(&watch.answer(wall_ms() / 1000, &command, |_| false).expect_err("refused"));
    let show = |from, to, points| Command::PerformanceShow {
        kind: operator::history::PerformanceKind::Volume,
        name: "db".to_owned(),
        from,
        to,
        points,
    };
    assert_eq!(wrong(show(Some(9), Some(8), None)), 400);
    assert_eq!(wrong(show(Some(9), Some(99), None)), 400, "nothing is kept so long");
    assert_eq!(wrong(show(None, None, Some(0))), 400);
    // Without a file nothing waits for one.
    watch.flush(wall_ms() / 1000);
    assert_eq!(watch.counts().lost, 0);
    assert!(lock(&watch.now).pending.is_empty());
}

#[test]
fn where_the_file_cannot_be_written_the_last_five_minutes_wait() {
    let folder = Folder::new("full");
    let watch = PerformanceBook::new(Some(folder.file()));
    let mut book = lock(&watch.now);
    for number in 0..70 {
        book.put(BEGIN + number * 5, bucket(1, 1, 1));
    }
    assert_eq!((book.pending.len(), book.counts.lost, book.recent.len()), (60, 10, 60));
    assert_eq!(book.pending.keys().next(), Some(&(BEGIN + 50)));
}
