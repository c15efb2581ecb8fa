// SPDX-License-Identifier: Apache-2.0
//! How the cluster is, as this host sees it: the shards are looked at, `operator::health` says what
//! that comes to, and what changed is kept in files of this machine.

use crate::gather::{ShardDoor, gather};
use crate::lines::{JsonLines, entries_in};
use crate::mailbox::exchange;
use crate::metrics;
use crate::once::Outcome;
use crate::problem::Problem;
use operator::health::{
    Found, HealthBook, HealthFacts, HealthSilence, ShardCounts, StateChange, WINDOW_SECONDS,
    check_of, checks,
};
use operator::{
    CheckState, Command, CommandReply, HealthChange, HealthHistory, HealthReport, TokenReport,
};
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
/// The time between two looks is so many times as long as a look, so that a cluster of many volumes
/// does not keep its hosts busy with it; at most as long as here.
const REST: u32 = 500;
const EVERY_MAX: Duration = Duration::from_secs(60);
/// The time between two notes of what shards have counted.
const COUNTS_EVERY: u64 = 30;
/// Longest wait for the tokens.
const TOKENS_MAX: Duration = Duration::from_secs(2);

/// Why nothing is kept.
type Kept<T> = io::Result<T>;

/// The health of a cluster.
pub struct HealthWatch {
    shards: Vec<ShardDoor>,
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
}

/// The file of silences.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Silences {
    silences: Vec<HealthSilence>,
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
    pub fn open(shards: Vec<ShardDoor>, audit: Option<&Path>) -> Kept<Self> {
        let history = audit.map(|path| path.with_file_name(HISTORY_FILE));
        let silences = audit.map(|path| path.with_file_name(SILENCES_FILE));
        let before = history.as_deref().map(last_states).transpose()?.unwrap_or_default();
        let known = silences.as_deref().map(read_silences).transpose()?.unwrap_or_default();
        let states = HealthBook::new(now(), known, &before);
        let history = history.map(|path| JsonLines::open(path, HISTORY_BYTES_MAX)).transpose()?;
        Ok(Self {
            shards,
            book: Mutex::new(Book { states, counts: VecDeque::new() }),
            looking: Mutex::new(None),
            history: history.map(Mutex::new),
            silences,
        })
    }

    /// How long is waited for the next look, after one that took so long.
    fn pause(&self, took: Duration, all_answer: bool) -> Duration {
        let rest = if all_answer { took.saturating_mul(REST) } else { EVERY };
        match lock(&self.book).states.is_settling() {
            true => EVERY_SETTLING,
            false => rest.clamp(EVERY, EVERY_MAX),
        }
    }

    /// Looks at everything, unless somebody has just done so. Whether all shards answered.
    pub fn look(&self) -> bool {
        let mut last = lock(&self.looking);
        if last.is_some_and(|last| last.elapsed() < FRESH) {
            return true;
        }
        let (facts, all_answer) = self.facts();
        let found: Vec<Found> = checks().map(|check| check.look(&facts)).collect();
        let changes = lock(&self.book).states.take(facts.now, found);
        self.keep(&changes);
        *last = Some(Instant::now());
        all_answer
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

    fn report(&self) -> HealthReport {
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
            write_whole(path, &silences).map_err(|error| Problem::internal(error.to_string()))?;
        }
        book.states = states;
        drop(book);
        self.keep(&changes);
        let report = self.report().checks.into_iter().find(|one| one.id == check);
        value(&report)
    }

    fn facts(&self) -> (HealthFacts, bool) {
        let status = gather(self.shards.clone());
        let metrics = metrics::answers(&self.shards);
        let all_answer = metrics.len() == self.shards.len();
        let first = metrics.first().map(|said| said.status.host.clone());
        let door = self.shards.iter().find(|(name, _)| Some(name) == first.as_ref());
        let tokens = door.and_then(|(_, socket)| tokens(socket));
        let now = now();
        let counts: Vec<ShardCounts> = metrics.iter().map(ShardCounts::of).collect();
        let mut book = lock(&self.book);
        let before = book.before(now, counts);
        (HealthFacts { now, status, metrics, tokens, before }, all_answer)
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
    /// What shards had counted at the beginning of the window; takes in what they have by now.
    fn before(&mut self, now: u64, counts: Vec<ShardCounts>) -> Vec<ShardCounts> {
        let is_due =
            |(last, _): &(u64, Vec<ShardCounts>)| now.saturating_sub(*last) >= COUNTS_EVERY;
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
        let begun = Instant::now();
        let looked = tokio::task::spawn_blocking(move || looks.look());
        let all_answer = looked.await.unwrap_or(true);
        tokio::time::sleep(health.pause(begun.elapsed(), all_answer)).await;
    }
}

fn value(answer: &impl Serialize) -> Outcome {
    serde_json::to_value(answer).map_err(|error| Problem::internal(error.to_string()))
}

fn known(check: &str) -> Result<&'static str, Problem> {
    check_of(check).map(|check| check.id).ok_or_else(|| Problem::no_such_check(check))
}

fn tokens(socket: &Path) -> Option<Vec<TokenReport>> {
    match exchange(socket, &Command::TokenList, TOKENS_MAX).ok()? {
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

/// Writes a file that is whole, whenever the power goes.
fn write_whole(path: &Path, value: &impl Serialize) -> Kept<()> {
    let new = path.with_extension("json.new");
    fs::write(&new, serde_json::to_vec_pretty(value)?)?;
    fs::File::open(&new)?.sync_all()?;
    fs::rename(&new, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
