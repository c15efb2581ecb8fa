// SPDX-License-Identifier: Apache-2.0
//! How the cluster is, as this host sees it: the shards are looked at, `operator::health` says what
//! that comes to, and what changed is kept in files of this machine.

use crate::gather::{ShardDoor, gather};
use crate::lines::{JsonLines, entries_in};
use crate::machine::MachineLook;
use crate::mailbox::exchange;
use crate::metrics;
use crate::once::Outcome;
use crate::problem::Problem;
use keys::write_durably;
use operator::health::{
    DeviceWear, Found, HealthBook, HealthFacts, HealthSilence, ShardCounts, StateChange,
    WINDOW_SECONDS, check_of, checks,
};
use operator::{
    CheckState, Command, CommandReply, DeviceMedium, HealthChange, HealthHistory, HealthReport,
    HostReport, HostState, StatusReport, by_host,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What changed: a file of this name beside the audit, and what is silenced.
const HISTORY_FILE: &str = "health.jsonl";
const SILENCES_FILE: &str = "health-silences.json";
const SILENCES_MODE: u32 = 0o600;
/// A history that is larger is put aside: together some ten thousand changes.
const HISTORY_BYTES_MAX: u64 = 4 << 20;
/// Changes of one answer, at most, and if it does not say how many.
const PAGE_MAX: u64 = 1000;
const PAGE_DEFAULT: u64 = 100;
/// Longest silence: what is silent for ever is forgotten.
const SILENCE_SECONDS_MAX: u64 = 30 * 86_400;
/// Longest reason of one.
const REASON_BYTES_MAX: usize = 500;
/// A look is good for so long: those who ask meanwhile cost none.
const FRESH: Duration = Duration::from_secs(1);
/// How often is looked while nobody asks.
const EVERY: Duration = Duration::from_secs(10);
/// The same while something changes.
const EVERY_SETTLING: Duration = Duration::from_secs(2);
/// With more volumes than this the time grows as their number does, up to so many times: a shard
/// tells of all of them in one turn of its thread.
const VOLUMES_USUAL: usize = 500;
const LONGER_MAX: u32 = 30;
/// The time between two notes of what shards have counted.
const COUNTS_EVERY: u64 = 30;
/// The time between two looks at the members of the directory, and at the wear of devices.
const MEMBERS_EVERY: Duration = Duration::from_secs(30);
const WEAR_EVERY: Duration = Duration::from_secs(3600);
/// Longest wait for the tokens, and for the receivers of notifications.
const LIST_MAX: Duration = Duration::from_secs(2);

/// Why nothing is kept.
type Kept<T> = io::Result<T>;

/// The health of a cluster.
pub struct HealthWatch {
    shards: Vec<ShardDoor>,
    machine: Arc<dyn MachineLook>,
    book: Mutex<Book>,
    /// Who looks. Others wait and get what was seen.
    looking: Mutex<Option<Instant>>,
    history: Option<Mutex<JsonLines>>,
    silences: Option<PathBuf>,
}

struct Book {
    states: HealthBook,
    /// What shards had counted, the oldest first, and when.
    counts: VecDeque<(u64, Vec<ShardCounts>)>,
    /// Volumes that there were at the last look.
    volumes: usize,
    /// Flash devices that there were.
    devices: Vec<String>,
    /// What is wrong with the members of the directory, and when that was looked at.
    members: (Option<Instant>, Option<Vec<String>>),
    /// How worn devices are.
    wear: (Option<Instant>, Vec<DeviceWear>),
    /// The host that looks, and how many that answer come before it; none: nobody has said yet.
    turn: Option<(String, u64)>,
}

/// The file of silences.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Silences {
    silences: Vec<HealthSilence>,
}

/// How many times longer than usual is waited where there are so many volumes.
fn longer(volumes: usize) -> u32 {
    let times = u32::try_from(volumes / VOLUMES_USUAL).unwrap_or(LONGER_MAX);
    times.clamp(1, LONGER_MAX)
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A time as RFC 3339 writes it. What lies behind the year 9999 is its end.
fn said(seconds: u64) -> String {
    const LAST: u64 = 253_402_300_799;
    let time = UNIX_EPOCH + Duration::from_secs(seconds.min(LAST));
    humantime::format_rfc3339_seconds(time).to_string()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HealthWatch {
    /// Of these shards. What changes is kept beside the file of the audit, if there is one.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn open(
        shards: Vec<ShardDoor>,
        machine: Arc<dyn MachineLook>,
        audit: Option<&Path>,
    ) -> Kept<Self> {
        let history = audit.map(|path| path.with_file_name(HISTORY_FILE));
        let silences = audit.map(|path| path.with_file_name(SILENCES_FILE));
        let before = history.as_deref().map(last_states).transpose()?.unwrap_or_default();
        let known = silences.as_deref().map(read_silences).transpose()?.unwrap_or_default();
        let states = HealthBook::new(now(), known, &before);
        let history = history.map(|path| JsonLines::open(path, HISTORY_BYTES_MAX)).transpose()?;
        Ok(Self {
            shards,
            machine,
            book: Mutex::new(Book::new(states)),
            looking: Mutex::new(None),
            history: history.map(Mutex::new),
            silences,
        })
    }

    /// How long is waited for the next look.
    fn pause(&self) -> Duration {
        let book = lock(&self.book);
        let every = if book.states.is_settling() { EVERY_SETTLING } else { EVERY };
        every * longer(book.volumes)
    }

    /// Looks at everything, unless somebody has just done so.
    pub fn look(&self) {
        let mut last = lock(&self.looking);
        if last.is_some_and(|last| last.elapsed() < FRESH) {
            return;
        }
        let facts = self.facts();
        // Where nobody answers, whoever asks next looks again: hosts may have come meanwhile.
        let is_answered = facts.status.is_some();
        let found: Vec<Found> = checks().map(|check| check.look(&facts)).collect();
        let mut book = lock(&self.book);
        book.volumes = facts.status.as_ref().map_or(0, |status| status.volumes.len());
        book.devices = facts.status.iter().flat_map(flash).collect();
        if let Some(status) = &facts.status {
            book.turn = turn_of(&self.shards, status);
        }
        let changes = book.states.take(facts.now, found);
        drop(book);
        self.keep(&changes);
        *last = is_answered.then(Instant::now);
    }

    /// Looks at what may take seconds, where it is time. Nobody waits for it.
    fn look_aside(&self) {
        let is_due = |last: Option<Instant>, every| last.is_none_or(|last| last.elapsed() >= every);
        let (members, wear, devices) = {
            let book = lock(&self.book);
            let is_worth = !book.devices.is_empty() && is_due(book.wear.0, WEAR_EVERY);
            (is_due(book.members.0, MEMBERS_EVERY), is_worth, book.devices.clone())
        };
        if members {
            let alarms = self.machine.member_alarms();
            lock(&self.book).members = (Some(Instant::now()), alarms);
        }
        if wear {
            let worn = devices.into_iter().filter_map(|device| {
                let percent = self.machine.wear(&device)?;
                Some(DeviceWear { device, percent })
            });
            let worn = worn.collect();
            lock(&self.book).wear = (Some(Instant::now()), worn);
        }
    }

    /// What is shown of each check: group, id, state. Nobody is asked for it.
    pub fn states(&self) -> Vec<(&'static str, &'static str, CheckState)> {
        lock(&self.book).states.states().collect()
    }

    /// Answers a command about health.
    pub fn answer(&self, command: &Command) -> Outcome {
        match command {
            Command::HealthShow => {
                self.look();
                value(&self.report())
            }
            Command::HealthHistory { limit, after } => {
                value(&self.history(*limit, after.as_deref())?)
            }
            Command::HealthSilence { check, for_seconds, reason } => {
                let check = known(check)?;
                if !(1..=SILENCE_SECONDS_MAX).contains(for_seconds) {
                    return Err(Problem::usage("'for_seconds' is a number from 1 to 2592000"));
                }
                if reason.len() > REASON_BYTES_MAX {
                    return Err(Problem::usage("'reason' has 500 bytes at most"));
                }
                let (now, reason) = (now(), reason.clone());
                let until = now.saturating_add(*for_seconds);
                let silence = HealthSilence { check: check.to_owned(), until, reason };
                self.silenced(check, |states| states.silence(now, silence))
            }
            Command::HealthUnsilence { check } => {
                let check = known(check)?;
                self.silenced(check, |states| states.unsilence(now(), check))
            }
            _ => Err(Problem::internal("this is no command about health")),
        }
    }

    /// The host that looks, and how many hosts that answer come before it.
    pub fn turn(&self) -> Option<(String, u64)> {
        lock(&self.book).turn.clone()
    }

    /// What was seen last. Nobody is asked for it.
    pub fn report(&self) -> HealthReport {
        lock(&self.book).states.report(said)
    }

    /// Changes what is silenced, and keeps it before anybody is told.
    fn silenced(
        &self,
        check: &str,
        change: impl FnOnce(&mut HealthBook) -> Vec<StateChange>,
    ) -> Outcome {
        let mut book = lock(&self.book);
        let mut states = book.states.clone();
        let changes = change(&mut states);
        if let Some(path) = &self.silences {
            let silences = Silences { silences: states.silences().to_vec() };
            let failed = |error: io::Error| Problem::internal(error.to_string());
            let bytes =
                serde_json::to_vec_pretty(&silences).map_err(|error| failed(error.into()))?;
            write_durably(path, &bytes, SILENCES_MODE).map_err(failed)?;
        }
        book.states = states;
        drop(book);
        self.keep(&changes);
        let report = self.report().checks.into_iter().find(|one| one.id == check);
        value(&report)
    }

    fn facts(&self) -> HealthFacts {
        let status = gather(self.shards.clone());
        let metrics = metrics::answers(&self.shards);
        let first = metrics.first().map(|said| said.status.host.clone());
        let door = self.shards.iter().find(|(name, _)| Some(name) == first.as_ref());
        let tokens = door.and_then(|(_, socket)| list(socket, &Command::TokenList));
        let receivers = door.and_then(|(_, socket)| list(socket, &Command::NotifyList));
        let now = now();
        let counts: Vec<ShardCounts> = metrics.iter().map(ShardCounts::of).collect();
        let mut book = lock(&self.book);
        let before = book.before(now, counts);
        let (members, wear) = (book.members.1.clone(), book.wear.1.clone());
        HealthFacts { now, status, metrics, tokens, receivers, before, members, wear }
    }

    /// Keeps what changed. Where it cannot be written, the log says so.
    fn keep(&self, changes: &[StateChange]) {
        let Some(history) = &self.history else { return };
        let mut lines = lock(history);
        for change in changes {
            let change = HealthChange {
                number: lines.next(),
                time: said(change.at),
                check: change.check.to_owned(),
                from: change.from,
                to: change.to,
                evidence: change.evidence.clone(),
            };
            if let Err(error) = lines.add(&change) {
                let path = lines.path().display();
                tracing::error!(%error, %path, "a change of health is not in its history");
            }
        }
    }

    fn history(&self, limit: Option<u64>, after: Option<&str>) -> Result<HealthHistory, Problem> {
        let limit = limit.unwrap_or(PAGE_DEFAULT);
        if !(1..=PAGE_MAX).contains(&limit) {
            return Err(Problem::usage("'limit' is a number from 1 to 1000"));
        }
        let wrong = |_| Problem::usage("'after' is the 'next' of the page before");
        let before = after.map(str::parse::<u64>).transpose().map_err(wrong)?;
        let Some(history) = &self.history else {
            return Ok(HealthHistory { items: Vec::new(), total: 0, next: None });
        };
        let path = lock(history).path().to_owned();
        let failed = |error: io::Error| Problem::internal(error.to_string());
        let mut items: Vec<HealthChange> = entries_in(&path).map_err(failed)?.collect();
        let total = items.len();
        items.retain(|change| before.is_none_or(|before| change.number < before));
        items.reverse();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let is_more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| is_more).map(|change| change.number.to_string());
        Ok(HealthHistory { items, total, next })
    }
}

impl Book {
    fn new(states: HealthBook) -> Self {
        Self {
            states,
            counts: VecDeque::new(),
            volumes: 0,
            devices: Vec::new(),
            members: (None, None),
            wear: (None, Vec::new()),
            turn: None,
        }
    }

    /// What shards had counted at the beginning of the window; takes in what they have by now.
    fn before(&mut self, now: u64, counts: Vec<ShardCounts>) -> Vec<ShardCounts> {
        let is_due = |(last, known): &(u64, Vec<ShardCounts>)| {
            now.saturating_sub(*last) >= COUNTS_EVERY || known.len() < counts.len()
        };
        if self.counts.back().is_none_or(is_due) {
            self.counts.push_back((now, counts));
        }
        let is_old = |(at, _): &(u64, Vec<ShardCounts>)| now.saturating_sub(*at) > WINDOW_SECONDS;
        while self.counts.len() > 1 && self.counts.front().is_some_and(is_old) {
            self.counts.pop_front();
        }
        // Of a shard that was away or began anew, the first of what it has said since.
        let mut before: Vec<ShardCounts> = Vec::new();
        for (_, said) in self.counts.iter().rev() {
            for one in said {
                match before.iter_mut().find(|known| known.shard == one.shard) {
                    Some(known) if known.since(one).is_some() => known.clone_from(one),
                    Some(_) => {}
                    None => before.push(one.clone()),
                }
            }
        }
        before
    }
}

/// Looks for ever, from time to time.
pub async fn watch(health: Arc<HealthWatch>) {
    loop {
        let looks = Arc::clone(&health);
        // One that ends in a panic has said why; the next one may not.
        let look = move || {
            looks.look_aside();
            looks.look();
        };
        let _ = tokio::task::spawn_blocking(look).await;
        tokio::time::sleep(health.pause()).await;
    }
}

/// Which host has these shards, and how many that answer come before it in the list of hosts, which
/// is the same everywhere. None: the cluster has no such shard.
fn turn_of(shards: &[ShardDoor], status: &StatusReport) -> Option<(String, u64)> {
    let is_mine = |shard: &HostReport| shards.iter().any(|(name, _)| *name == shard.name);
    let mut before = 0;
    for (host, shards) in by_host(&status.hosts) {
        if shards.iter().any(|shard| is_mine(shard)) {
            return Some((host.to_owned(), before));
        }
        before += u64::from(shards.iter().any(|shard| shard.state == HostState::Up));
    }
    None
}

/// The paths of the flash devices of a cluster.
fn flash(status: &StatusReport) -> impl Iterator<Item = String> {
    let devices = status.groups.iter().flat_map(|group| &group.devices);
    devices.filter(|device| device.kind == DeviceMedium::Ssd).map(|device| device.path.clone())
}

fn value(answer: &impl Serialize) -> Outcome {
    serde_json::to_value(answer).map_err(|error| Problem::internal(error.to_string()))
}

fn known(check: &str) -> Result<&'static str, Problem> {
    check_of(check).map(|check| check.id).ok_or_else(|| Problem::no_such_check(check))
}

/// What a shard answers to a command that lists something.
fn list<T: DeserializeOwned>(socket: &Path, command: &Command) -> Option<T> {
    match exchange(socket, command, LIST_MAX).ok()? {
        CommandReply::Ok(value) => serde_json::from_value(value).ok(),
        CommandReply::Error(_) => None,
    }
}

/// What the history says of each check last.
fn last_states(path: &Path) -> Kept<BTreeMap<String, (CheckState, u64)>> {
    let changes = entries_in::<HealthChange>(path)?.filter_map(|change| {
        let at = humantime::parse_rfc3339(&change.time).ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some((change.check, (change.to, at.as_secs())))
    });
    Ok(changes.collect())
}

/// What is silenced. A file that cannot be understood silences nothing.
fn read_silences(path: &Path) -> Kept<Vec<HealthSilence>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => {
            let read: Silences = serde_json::from_slice(&read?).unwrap_or_else(|error| {
                tracing::error!(%error, path = %path.display(), "nothing is silenced any more");
                Silences::default()
            });
            let is_known = |silence: &HealthSilence| check_of(&silence.check).is_some();
            Ok(read.silences.into_iter().filter(is_known).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::NoLook;

    fn counts(shard: &str, failed: u64) -> Vec<ShardCounts> {
        vec![ShardCounts { shard: shard.to_owned(), failed, ..ShardCounts::default() }]
    }

    fn book() -> Book {
        let states = HealthBook::new(0, Vec::new(), &BTreeMap::new());
        Book::new(states)
    }

    #[test]
    fn counters_are_compared_with_those_of_ten_minutes_ago() {
        let mut book = book();
        assert_eq!(book.before(0, Vec::new()), []);
        assert_eq!(book.before(1, counts("a", 5)), counts("a", 5), "it has just come");
        for at in (31..=WINDOW_SECONDS).step_by(30) {
            assert_eq!(book.before(at, counts("a", at)), counts("a", 5));
        }
        let later = book.before(WINDOW_SECONDS + 60, counts("a", WINDOW_SECONDS));
        assert!(later[0].failed > 5 && later[0].failed < 100, "{later:?}");
        assert!(book.counts.len() <= 22, "{}", book.counts.len());
        // It was started anew.
        let after = book.before(WINDOW_SECONDS + 100, counts("a", 1));
        assert_eq!(after, counts("a", 1));
    }

    fn with_peer(mut host: serde_json::Value) -> serde_json::Value {
        host["peer"] = "".into();
        host
    }

    /// Whose turn it is to tell: the first that answers, then the others.
    #[test]
    fn hosts_that_answer_come_before_those_behind_them() {
        let host = |name: &str, host: Option<&str>, state: &str| {
            let said = serde_json::json!({ "name": name, "host": host, "state": state });
            with_peer(said)
        };
        let status = |states: [&str; 4]| -> StatusReport {
            let [a, one, two, c] = states;
            let hosts = [
                host("a", None, a),
                host("b.1", Some("b"), one),
                host("b.2", Some("b"), two),
                host("c", None, c),
            ];
            let said = serde_json::json!({
                "host": "a", "health": "green", "directory": true, "hosts": hosts, "volumes": [],
                "groups": [], "turns": [],
            });
            serde_json::from_value(said).expect("a status")
        };
        let turn = |name: &str, states| {
            let doors = [(name.to_owned(), PathBuf::new())];
            turn_of(&doors, &status(states))
        };
        let said = |host: &str, before| Some((host.to_owned(), before));
        let all = ["up"; 4];
        assert_eq!(turn("a", all), said("a", 0));
        assert_eq!((turn("b.2", all), turn("c", all)), (said("b", 1), said("c", 2)));
        assert_eq!(turn("c", ["down", "down", "up", "up"]), said("c", 1));
        assert_eq!(turn("c", ["not answering", "down", "down", "up"]), said("c", 0));
        assert_eq!(turn("d", all), None);
    }

    #[test]
    fn many_volumes_are_looked_at_less_often() {
        let times = [0, 1, 999, 1000, 12_800, usize::MAX].map(longer);
        assert_eq!(times, [1, 1, 1, 2, 25, LONGER_MAX]);
    }

    #[test]
    fn silences_and_last_states_outlive_the_process() {
        let folder = std::env::temp_dir().join(format!("ghealth-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let audit = folder.join("audit.jsonl");
        let open = || HealthWatch::open(Vec::new(), Arc::new(NoLook), Some(&audit)).expect("files");
        let silence = |health: &HealthWatch| {
            health.answer(&Command::HealthSilence {
                check: "capacity.hosts".to_owned(),
                for_seconds: 60,
                reason: "known".to_owned(),
            })
        };
        let state = |health: &HealthWatch| {
            let found = health.states().into_iter().find(|(_, id, _)| *id == "capacity.hosts");
            found.expect("a check").2
        };
        let health = open();
        let said = silence(&health).expect("silenced");
        assert_eq!((&said["state"], &said["actual"]), (&"silenced".into(), &"unknown".into()));
        drop(health);
        let health = open();
        assert_eq!(state(&health), CheckState::Silenced);
        let check = "capacity.hosts".to_owned();
        let said = health.answer(&Command::HealthUnsilence { check }).expect("it counts again");
        assert_eq!(said["silenced_until"], serde_json::Value::Null);
        let page = health.history(Some(1), None).expect("a page");
        assert_eq!((page.items[0].to, page.total), (CheckState::Unknown, 2));
        assert_eq!(page.next.as_deref(), Some("2"));
        let page = health.history(Some(1), Some("2")).expect("a page");
        assert_eq!((page.items[0].to, page.next), (CheckState::Silenced, None));
        let wrong = |command| health.answer(&command).expect_err("refused").status;
        let nothing = "nothing".to_owned();
        assert_eq!(wrong(Command::HealthUnsilence { check: nothing }), 404);
        assert_eq!(wrong(Command::HealthHistory { limit: Some(0), after: None }), 400);
        let after = Some("x".to_owned());
        assert_eq!(wrong(Command::HealthHistory { limit: None, after }), 400);
        // A file that somebody broke silences nothing, and stops nothing.
        fs::write(folder.join(SILENCES_FILE), "{").expect("written");
        assert_eq!(state(&open()), CheckState::Unknown);
        fs::remove_dir_all(&folder).expect("removed");
    }
}
