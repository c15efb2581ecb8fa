// SPDX-License-Identifier: Apache-2.0
//! The thread that tells. It has a runtime of its own, so that nothing that a receiver does, or
//! does not do, holds up anything else.
//!
//! Every few seconds it looks at what is and at what was told. One message at a time is under way
//! to each receiver; one that does not arrive is tried again, ever less often.

use crate::deliver::deliver;
use crate::due::{DueNotice, ReceiverBook};
use crate::notice::{ClusterName, Notice};
use crate::reach::{DELIVERY_MAX, DeliveryError};
use directory::{NoticeReceiver, RECEIVERS_MAX, ReceiverTrouble, ToldCheck};
use operator::CheckReport;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// How often is looked.
const EVERY: Duration = Duration::from_secs(2);
/// So long a host waits for each host before it that answers, seconds: a look, and a message.
const TURN_SECONDS: u64 = 30;
/// The first and the longest pause after a message that did not arrive, seconds.
const PAUSE_SECONDS: u64 = 5;
const PAUSE_SECONDS_MAX: u64 = 300;
/// Doublings of the pause: more than the longest one needs.
const DOUBLINGS_MAX: u32 = 10;
/// How often is tried again to note what was told, seconds.
const NOTE_SECONDS: u64 = 10;
/// A receiver that could not be told so lately is not told that one cannot be told, seconds.
const OWN_TROUBLE_SECONDS: u64 = 120;
/// The group of checks about receivers.
const OWN_GROUP: &str = "notifications";
/// Threads that wait for names and shards: one for each receiver, and those that look and note.
const BLOCKING_MAX: usize = RECEIVERS_MAX + 4;

/// What is at a moment.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// Whose health it is.
    pub cluster: ClusterName,
    /// What all checks say.
    pub checks: Vec<CheckReport>,
    /// Who is told, with what they were told; none: nobody says.
    pub receivers: Option<Vec<NoticeReceiver>>,
    /// How many hosts answer that come before this one: they tell, and this one waits. None: nobody
    /// says.
    pub before: Option<u64>,
}

/// Where is seen what is to be told.
pub trait NotifySource: Send + Sync + 'static {
    /// What is now. May take seconds.
    fn see(&self) -> Sight;

    /// Notes what a receiver was told, and why it cannot be told; for other hosts, too. May take
    /// seconds. False: it is not noted.
    fn note(
        &self,
        receiver: (&str, u64),
        told: &[ToldCheck],
        trouble: Option<ReceiverTrouble>,
    ) -> bool;
}

/// What became of messages to a receiver, since the start of this program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverCounts {
    /// Messages that arrived.
    pub delivered: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Checks of which something is to be told that has not arrived.
    pub waiting: u64,
}

type Counts = Arc<Mutex<BTreeMap<String, ReceiverCounts>>>;
/// Names of receivers that were told something by hand since the last look: they can be told.
type Woken = Arc<Mutex<BTreeSet<String>>>;

/// Tells, until it is dropped.
#[derive(Debug)]
pub struct Notifier {
    handle: Handle,
    counts: Counts,
    woken: Woken,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Notifier {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has said why, if it panicked.
            let _ = thread.join();
        }
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Notifier {
    /// Begins to tell what `source` sees.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(source: Arc<dyn NotifySource>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING_MAX)
            .build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let counts = Counts::default();
        let woken = Woken::default();
        let mut rounds = Rounds::new(source, Arc::clone(&counts), Arc::clone(&woken));
        let work = move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = rounds.run() => {}
                }
            });
            // Whoever waits for a name or a shard does not hold up the end.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("notify".to_owned()).spawn(work)?;
        Ok(Self { handle, counts, woken, stop: Some(stop), thread: Some(thread) })
    }

    /// Sends a test message, and waits for what comes of it. Returns its id, and what the receiver
    /// said.
    ///
    /// # Errors
    /// [`DeliveryError`].
    pub fn test(
        &self,
        receiver: NoticeReceiver,
        cluster: &ClusterName,
    ) -> Result<(String, String), DeliveryError> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unique = u64::try_from(since.as_micros()).unwrap_or_default();
        let notice = Notice::test(cluster, &receiver, since.as_secs(), unique);
        let (id, name) = (notice.data.id.clone(), receiver.name.clone());
        let (sender, answer) = sync_channel(1);
        self.handle.spawn(async move {
            // Whoever asked may have gone.
            let _ = sender.send(deliver(&receiver, &notice).await);
        });
        let answer = answer.recv_timeout(DELIVERY_MAX + Duration::from_secs(2));
        let said = answer.unwrap_or(Err(DeliveryError::Late))?;
        lock(&self.woken).insert(name);
        Ok((id, said))
    }

    /// What became of messages to each receiver.
    #[must_use]
    pub fn counts(&self) -> Vec<(String, ReceiverCounts)> {
        lock(&self.counts).iter().map(|(name, counts)| (name.clone(), *counts)).collect()
    }
}

/// A receiver, as long as it is the same one.
type Key = (String, u64);

/// The way to one receiver.
#[derive(Debug, Default)]
struct Line {
    book: ReceiverBook,
    /// What it was told, as long as nobody has noted it.
    told: Vec<ToldCheck>,
    /// Why it cannot be told.
    trouble: Option<ReceiverTrouble>,
    is_busy: bool,
    failures: u32,
    /// When the last attempt failed, and when the next one may be made.
    failed_at: u64,
    next: u64,
    /// When was tried last to note something.
    noted: u64,
}

/// What came of messages to one receiver.
struct Came {
    key: Key,
    told: Vec<ToldCheck>,
    error: Option<DeliveryError>,
}

struct Rounds {
    source: Arc<dyn NotifySource>,
    counts: Counts,
    woken: Woken,
    lines: BTreeMap<Key, Line>,
    /// The receivers, as they were heard of last.
    known: Vec<NoticeReceiver>,
    under_way: JoinSet<Came>,
    host: String,
}

impl Rounds {
    fn new(source: Arc<dyn NotifySource>, counts: Counts, woken: Woken) -> Self {
        let (lines, known, under_way) = (BTreeMap::new(), Vec::new(), JoinSet::new());
        Self { source, counts, woken, lines, known, under_way, host: String::new() }
    }

    async fn run(&mut self) {
        loop {
            let source = Arc::clone(&self.source);
            // A look that ends in a panic has said why; the next one may not.
            if let Ok(sight) = tokio::task::spawn_blocking(move || source.see()).await {
                self.look(sight).await;
            }
            let pause = tokio::time::sleep(EVERY);
            tokio::pin!(pause);
            loop {
                tokio::select! {
                    () = &mut pause => break,
                    Some(came) = self.under_way.join_next() => {
                        if let Ok(came) = came {
                            self.came(came).await;
                        }
                    }
                }
            }
        }
    }

    async fn look(&mut self, sight: Sight) {
        if let Some(receivers) = sight.receivers {
            self.known = receivers;
        }
        self.host.clone_from(&sight.cluster.host);
        let keys: Vec<Key> = self.known.iter().map(key).collect();
        self.lines.retain(|key, _| keys.contains(key));
        lock(&self.counts).retain(|name, _| keys.iter().any(|(known, _)| known == name));
        for name in std::mem::take(&mut *lock(&self.woken)) {
            for (_, line) in self.lines.iter_mut().filter(|((known, _), _)| *known == name) {
                (line.next, line.failures, line.trouble) = (0, 0, None);
            }
        }
        let Some(before) = sight.before else { return };
        let now = now();
        for mut receiver in self.known.clone() {
            let key = key(&receiver);
            let line = self.lines.entry(key.clone()).or_default();
            let is_noted = |told: &ToldCheck| {
                receiver.told_of(&told.check).is_some_and(|known| known.number >= told.number)
            };
            line.told.retain(|told| !is_noted(told));
            line.told.iter().for_each(|told| receiver.take(told));
            let is_own_trouble = now.saturating_sub(line.failed_at) < OWN_TROUBLE_SECONDS;
            let checks = sight.checks.iter();
            let checks: Vec<CheckReport> = checks
                .filter(|check| !is_own_trouble || check.group != OWN_GROUP)
                .cloned()
                .collect();
            line.book.take(now, &receiver, &checks);
            let due = line.book.due(now, &receiver, before * TURN_SECONDS);
            let waiting = u64::try_from(line.book.owed()).unwrap_or(u64::MAX);
            lock(&self.counts).entry(receiver.name.clone()).or_default().waiting = waiting;
            let is_time = !line.is_busy && now >= line.next;
            if is_time && !due.is_empty() {
                line.is_busy = true;
                let notices = notices(&sight.cluster, &receiver, (due, &checks), now);
                self.under_way.spawn(tell(key, receiver, notices));
            } else if !line.told.is_empty() && now.saturating_sub(line.noted) >= NOTE_SECONDS {
                self.note(&key).await;
            }
        }
    }

    async fn came(&mut self, came: Came) {
        let Came { key, told, error } = came;
        let Some(line) = self.lines.get_mut(&key) else { return };
        line.is_busy = false;
        {
            let mut counts = lock(&self.counts);
            let counts = counts.entry(key.0.clone()).or_default();
            counts.delivered += u64::try_from(told.len()).unwrap_or(0);
            counts.failed += u64::from(error.is_some());
        }
        line.told.extend(told);
        match error {
            None => (line.failures, line.trouble) = (0, None),
            Some(error) => {
                tracing::warn!(receiver = key.0, %error, "a notification did not arrive");
                let now = now();
                line.next = now + pause_seconds(line.failures);
                line.failures = line.failures.saturating_add(1);
                line.failed_at = now;
                let why = format!("from {}: {error}", self.host);
                line.trouble = Some(ReceiverTrouble { since: now, why });
            }
        }
        self.note(&key).await;
    }

    async fn note(&mut self, key: &Key) {
        let Some(line) = self.lines.get_mut(key) else { return };
        line.noted = now();
        let (told, trouble) = (line.told.clone(), line.trouble.clone());
        let (source, of) = (Arc::clone(&self.source), key.clone());
        let noted = tokio::task::spawn_blocking(move || source.note((&of.0, of.1), &told, trouble));
        if !noted.await.unwrap_or(false) {
            tracing::warn!(
                receiver = key.0,
                "what was told is not noted yet; it may be told twice"
            );
        }
    }
}

fn key(receiver: &NoticeReceiver) -> Key {
    (receiver.name.clone(), receiver.created)
}

/// The pause after so many failures and one.
fn pause_seconds(failures: u32) -> u64 {
    (PAUSE_SECONDS << failures.min(DOUBLINGS_MAX)).min(PAUSE_SECONDS_MAX)
}

type Messages = Vec<(Notice, ToldCheck)>;

fn notices(
    cluster: &ClusterName,
    receiver: &NoticeReceiver,
    (due, checks): (Vec<DueNotice>, &[CheckReport]),
    now: u64,
) -> Messages {
    let notice = |due: DueNotice| {
        let check = checks.iter().find(|check| check.id == due.check)?;
        Some((Notice::of(cluster, receiver, &due, check, now), due.told))
    };
    due.into_iter().filter_map(notice).collect()
}

/// Tells one message after the other, up to the first that does not arrive.
async fn tell(key: Key, receiver: NoticeReceiver, messages: Messages) -> Came {
    let mut told = Vec::new();
    for (notice, check) in messages {
        match deliver(&receiver, &notice).await {
            Ok(_) => told.push(check),
            Err(error) => return Came { key, told, error: Some(error) },
        }
    }
    Came { key, told, error: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end() {
        let pauses: Vec<u64> = (0..9).map(pause_seconds).collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
        assert_eq!(pause_seconds(u32::MAX), PAUSE_SECONDS_MAX);
    }
}
