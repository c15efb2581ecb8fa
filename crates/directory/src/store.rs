// SPDX-License-Identifier: Apache-2.0
//! The directory itself, without I/O and without a clock: revisioned keys, transactions, leases
//! that end at a given time, and the history that watches read.
//!
//! A change happens in two steps. [`Store::prepare`] (or one of its siblings) computes a
//! [`EventBatch`] and changes nothing. The caller makes the batch durable. Then [`Store::commit`]
//! applies it in memory. Between the two steps no other change may be prepared.

use crate::types::{
    DirectoryError, Entry, Expect, LeaseId, Listing, Transacted, Transaction, WatchEvent,
};
use base::{Instant, Map, Set};
use std::collections::VecDeque;
use std::time::Duration;

/// Changes that the history keeps; a watch that is further behind gets a reset.
pub const HISTORY_MAX: usize = 8192;
/// Most bytes of keys and values that the history keeps. Beyond it the oldest changes are
/// forgotten.
pub const HISTORY_BYTES_MAX: usize = 64 << 20;
/// Leases at once: one per host, and those of hosts that restarted lately.
pub const LEASES_MAX: usize = 4096;
/// The longest time to live of a lease.
pub const TTL_MAX: Duration = Duration::from_secs(3600);

/// One key's change. All changes of one [`EventBatch`] have its revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A key was set.
    Put {
        /// The key.
        key: String,
        /// Its value.
        value: Vec<u8>,
        /// The lease with which it vanishes.
        lease: Option<LeaseId>,
    },
    /// A key was deleted.
    Delete {
        /// The key.
        key: String,
    },
}

/// A lease's begin or end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseChange {
    /// A new lease with its time to live.
    Granted(LeaseId, Duration),
    /// It ended.
    Gone(LeaseId),
}

/// What happens at once, or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventBatch {
    /// The directory's revision afterwards: one more than before if a key changes, else the same.
    pub revision: u64,
    /// Keys, each at most once.
    pub changes: Vec<Change>,
    /// Leases, each at most once.
    pub leases: Vec<LeaseChange>,
}

impl EventBatch {
    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.leases.is_empty()
    }
}

/// All that must survive a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The directory's revision.
    pub revision: u64,
    /// Every key with its entry and its lease.
    pub entries: Vec<(String, Entry, Option<LeaseId>)>,
    /// Every lease with its time to live.
    pub leases: Vec<(LeaseId, Duration)>,
}

/// The whole directory.
#[derive(Debug)]
pub struct Store {
    revision: u64,
    keys: Map<String, (Entry, Option<LeaseId>)>,
    leases: Map<LeaseId, Lease>,
    history: VecDeque<(u64, WatchEvent)>,
    history_bytes: usize,
    /// Changes that the history keeps.
    history_most: usize,
    /// The history holds every change after this revision.
    history_start: u64,
}

#[derive(Debug)]
struct Lease {
    ttl: Duration,
    ends: Instant,
    keys: Set<String>,
}

impl Store {
    /// The directory that `snapshot` describes. The time of every lease begins again at `now`,
    /// because a lease may end late but never early (rule 50). A key whose lease is not in the
    /// snapshot is bound to no lease.
    #[must_use]
    pub fn restore(snapshot: Snapshot, now: Instant) -> Self {
        let lease = |(id, ttl)| (id, Lease { ttl, ends: now + ttl, keys: Set::new() });
        let mut leases: Map<_, _> = snapshot.leases.into_iter().map(lease).collect();
        let mut keys = Map::new();
        for (key, entry, lease) in snapshot.entries {
            let lease = lease.filter(|id| leases.contains_key(id));
            if let Some(lease) = lease.and_then(|id| leases.get_mut(&id)) {
                lease.keys.insert(key.clone());
            }
            keys.insert(key, (entry, lease));
        }
        let revision = snapshot.revision;
        Self {
            revision,
            keys,
            leases,
            history: VecDeque::new(),
            history_bytes: 0,
            history_most: HISTORY_MAX,
            history_start: revision,
        }
    }

    /// The same directory with a history of at most so many changes, [`HISTORY_MAX`] at most.
    #[must_use]
    pub fn with_history(self, most: usize) -> Self {
        assert!(most <= HISTORY_MAX, "a history of {most} changes is too long");
        Self { history_most: most, ..self }
    }

    /// All that must survive a restart.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let entries =
            self.keys.iter().map(|(k, (entry, lease))| (k.clone(), entry.clone(), *lease));
        let leases = self.leases.iter().map(|(id, lease)| (*id, lease.ttl));
        Snapshot { revision: self.revision, entries: entries.collect(), leases: leases.collect() }
    }

    /// Counts the batches that changed keys.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// A key's entry.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.keys.get(key).map(|(entry, _)| entry)
    }

    /// All keys with a prefix.
    #[must_use]
    pub fn list(&self, prefix: &str) -> Listing {
        let range = self
            .keys
            .range::<str, _>((std::ops::Bound::Included(prefix), std::ops::Bound::Unbounded));
        let entries = range
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(key, (entry, _))| (key.clone(), entry.clone()))
            .collect();
        Listing { entries, revision: self.revision }
    }

    /// What `transaction` would change.
    ///
    /// # Errors
    /// As [`Transaction::check`]; [`DirectoryError::LeaseGone`].
    pub fn prepare(
        &self,
        transaction: Transaction,
    ) -> Result<(Transacted, EventBatch), DirectoryError> {
        transaction.check()?;
        let succeeded = transaction.compare.iter().all(|(key, expect)| self.holds(key, *expect));
        let mut batch = EventBatch { revision: self.revision, ..EventBatch::default() };
        if succeeded {
            let mut leases = transaction.puts.iter().filter_map(|(_, _, lease)| *lease);
            if !leases.all(|lease| self.leases.contains_key(&lease)) {
                return Err(DirectoryError::LeaseGone);
            }
            let put = |(key, value, lease)| Change::Put { key, value, lease };
            let exists = |key: &String| self.keys.contains_key(key);
            let deletes = transaction.deletes.into_iter().filter(exists);
            batch.changes.extend(transaction.puts.into_iter().map(put));
            batch.changes.extend(deletes.map(|key| Change::Delete { key }));
            batch.revision += u64::from(!batch.changes.is_empty());
        }
        Ok((Transacted { succeeded, revision: batch.revision }, batch))
    }

    fn holds(&self, key: &str, expect: Expect) -> bool {
        match (self.get(key), expect) {
            (None, Expect::Absent) | (Some(_), Expect::Present) => true,
            (Some(entry), Expect::Revision(revision)) => entry.revision == revision,
            _ => false,
        }
    }

    /// A new lease, `id` being neither zero nor in use.
    ///
    /// # Errors
    /// [`DirectoryError::Malformed`]: a time to live of zero or above [`TTL_MAX`];
    /// [`DirectoryError::Unavailable`]: too many leases.
    pub fn prepare_grant(&self, id: LeaseId, ttl: Duration) -> Result<EventBatch, DirectoryError> {
        assert!(id.0 != 0, "zero is no lease");
        assert!(!self.leases.contains_key(&id), "a lease's id is given once");
        if ttl.is_zero() || ttl > TTL_MAX {
            return Err(DirectoryError::Malformed);
        }
        if self.leases.len() >= LEASES_MAX {
            return Err(DirectoryError::Unavailable);
        }
        let leases = vec![LeaseChange::Granted(id, ttl)];
        Ok(EventBatch { revision: self.revision, leases, ..EventBatch::default() })
    }

    /// The end of a lease with the keys that are bound to it.
    ///
    /// # Errors
    /// [`DirectoryError::LeaseGone`].
    pub fn prepare_end(&self, id: LeaseId) -> Result<EventBatch, DirectoryError> {
        let lease = self.leases.get(&id).ok_or(DirectoryError::LeaseGone)?;
        let delete = |key: &String| Change::Delete { key: key.clone() };
        let changes: Vec<_> = lease.keys.iter().map(delete).collect();
        let revision = self.revision + u64::from(!changes.is_empty());
        Ok(EventBatch { revision, changes, leases: vec![LeaseChange::Gone(id)] })
    }

    /// Whether there is such a lease.
    #[must_use]
    pub fn has_lease(&self, id: LeaseId) -> bool {
        self.leases.contains_key(&id)
    }

    /// Gives a lease its full time from `now`, and `late` more.
    ///
    /// # Errors
    /// [`DirectoryError::LeaseGone`].
    pub fn keep(
        &mut self,
        id: LeaseId,
        now: Instant,
        late: Duration,
    ) -> Result<(), DirectoryError> {
        let lease = self.leases.get_mut(&id).ok_or(DirectoryError::LeaseGone)?;
        lease.ends = lease.ends.max(now + lease.ttl + late);
        Ok(())
    }

    /// A lease that has run out at `now`.
    #[must_use]
    pub fn expired(&self, now: Instant) -> Option<LeaseId> {
        self.leases.iter().find(|(_, lease)| lease.ends <= now).map(|(id, _)| *id)
    }

    /// When the next lease runs out.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Instant> {
        self.leases.values().map(|lease| lease.ends).min()
    }

    /// Applies a prepared batch in memory. New leases begin at `now`.
    pub fn commit(&mut self, batch: EventBatch, now: Instant) {
        let expected = self.revision + u64::from(!batch.changes.is_empty());
        assert_eq!(batch.revision, expected, "a batch is committed before the next is prepared");
        self.revision = batch.revision;
        for change in batch.changes {
            let event = match change {
                Change::Put { key, value, lease } => self.put(key, value, lease),
                Change::Delete { key } => self.delete(key),
            };
            self.history_bytes += size(&event);
            self.history.push_back((self.revision, event));
        }
        for change in batch.leases {
            match change {
                LeaseChange::Granted(id, ttl) => {
                    self.leases.insert(id, Lease { ttl, ends: now + ttl, keys: Set::new() });
                }
                LeaseChange::Gone(id) => {
                    let lease = self.leases.remove(&id);
                    let is_empty = lease.is_some_and(|lease| lease.keys.is_empty());
                    assert!(is_empty, "a lease ends with its keys");
                }
            }
        }
        self.compact(self.history_most);
    }

    fn put(&mut self, key: String, value: Vec<u8>, lease: Option<LeaseId>) -> WatchEvent {
        let entry = Entry { value, revision: self.revision };
        self.unbind(&key);
        if let Some(lease) = lease.and_then(|id| self.leases.get_mut(&id)) {
            lease.keys.insert(key.clone());
        }
        self.keys.insert(key.clone(), (entry.clone(), lease));
        WatchEvent::Put(key, entry)
    }

    fn delete(&mut self, key: String) -> WatchEvent {
        self.unbind(&key);
        self.keys.remove(&key);
        WatchEvent::Delete(key, self.revision)
    }

    fn unbind(&mut self, key: &str) {
        let lease = self.keys.get(key).and_then(|(_, lease)| *lease);
        if let Some(lease) = lease.and_then(|id| self.leases.get_mut(&id)) {
            lease.keys.remove(key);
        }
    }

    /// Forgets all of the history but the last `keep` changes. Changes of one revision are only
    /// forgotten together.
    pub fn compact(&mut self, keep: usize) {
        while self.history.len() > keep || self.history_bytes > HISTORY_BYTES_MAX {
            let Some(revision) = self.history.front().map(|(revision, _)| *revision) else {
                return;
            };
            self.history_start = revision;
            while self.history.front().is_some_and(|(next, _)| *next == revision) {
                let Some((_, event)) = self.history.pop_front() else { return };
                self.history_bytes -= size(&event);
            }
        }
    }

    /// Changes of keys with `prefix` after revision `after`, in order. `None` where the history no
    /// longer holds them all. `None` also where `after` is above the present revision: the caller
    /// then saw changes that a restored backup does not have.
    #[must_use]
    pub fn changes_since(&self, prefix: &str, after: u64) -> Option<Vec<WatchEvent>> {
        if after < self.history_start || after > self.revision {
            return None;
        }
        let first = self.history.partition_point(|(revision, _)| *revision <= after);
        let is_wanted = |event: &&WatchEvent| match event {
            WatchEvent::Put(key, _) | WatchEvent::Delete(key, _) => key.starts_with(prefix),
            WatchEvent::Reset(_) => false,
        };
        let events = self.history.range(first..).map(|(_, event)| event);
        Some(events.filter(is_wanted).cloned().collect())
    }
}

fn size(event: &WatchEvent) -> usize {
    match event {
        WatchEvent::Put(key, entry) => key.len() + entry.value.len(),
        WatchEvent::Delete(key, _) => key.len(),
        WatchEvent::Reset(_) => unreachable!("the history has no resets"),
    }
}

#[cfg(test)]
mod tests;
