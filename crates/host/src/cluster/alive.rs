// SPDX-License-Identifier: Apache-2.0
//! The lease key by which others see that a host lives, and how much room it has. The key is a
//! hint; safety rests on the grants of rule 52.
//!
//! A put whose outcome is unknown may land late and bind the key to a lease that nobody keeps. Two
//! things keep that from making a live host look dead for ever: every put expects the revision that
//! was read before it, and every round reads the key back.

use crate::cluster::membership;
use base::{Incarnation, Instant, ShardId};
use directory::{
    AliveRecord, Directory, DirectoryError, Entry, Expect, LeaseId, Level, Transaction,
};
use env::Env;
use std::time::Duration;
use tracing::{error, info, warn};

/// Life of the lease key after the last sign of life. Shorter than a grant: a directory that elects
/// a new leader prolongs all leases by what is left of their life and the election, and a take-over
/// waits for the later of the two (docs/decisions/2026-11-21-leases.md).
const LEASE_TTL: Duration = Duration::from_secs(3);
/// Time between signs of life.
const LEASE_KEEP: Duration = Duration::from_millis(750);
/// Time between attempts while the directory is away.
const RETRY: Duration = Duration::from_millis(200);
/// Time between two figures of free space, at least: each costs the directory a durable write.
const ROOM_EVERY: Duration = Duration::from_secs(5);
/// A change of free space is told when it is this part of the capacity.
pub(crate) const ROOM_PART: u64 = 16;
/// Time after which smaller changes are told too, and how small.
const SMALL_ROOM_EVERY: Duration = Duration::from_secs(60);
const SMALL_ROOM_PART: u64 = 128;

/// Room on a host's disk groups, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) free_bytes: u64,
    pub(crate) capacity_bytes: u64,
}

/// A lease that is kept and the key that was written under it.
struct Held {
    lease: LeaseId,
    revision: u64,
    free_bytes: u64,
    written: Instant,
}

struct Alive<R, A> {
    env: Env,
    directory: Directory,
    me: ShardId,
    incarnation: Incarnation,
    level: Level,
    room: R,
    announce: A,
}

/// Holds the lease key for as long as it runs. `announce` is called with each new lease.
pub(crate) async fn stay_alive(
    env: Env,
    directory: Directory,
    (me, incarnation, level): (ShardId, Incarnation, Level),
    room: impl Fn() -> Room,
    announce: impl Fn(LeaseId),
) {
    let alive = Alive { env: env.clone(), directory, me, incarnation, level, room, announce };
    let mut held: Option<Held> = None;
    loop {
        held = match held {
            None => alive.take().await,
            Some(held) => alive.keep(held).await,
        };
        env.sleep(if held.is_some() { LEASE_KEEP } else { RETRY }).await;
    }
}

impl<R: Fn() -> Room, A: Fn(LeaseId)> Alive<R, A> {
    async fn take(&self) -> Option<Held> {
        let entry = self.directory.get(&directory::alive_key(self.me)).await.ok()?;
        if entry.as_ref().is_some_and(|entry| self.is_newer(entry)) {
            error!(me = %self.me, "another daemon runs as this host: stop one of them");
            self.env.sleep(LEASE_TTL).await;
            return None;
        }
        // A directory that lost its records, or fell back: the next run must be above this one.
        let me = [(membership::incarnation_key(self.me), self.incarnation.0)];
        membership::raise_runs(&self.directory, &me.into_iter().collect()).await.ok()?;
        let expect = entry.map_or(Expect::Absent, |entry| Expect::Revision(entry.revision));
        let lease = self.directory.lease_grant(LEASE_TTL).await.ok()?;
        let held = self.write(lease, expect).await?;
        (self.announce)(lease);
        Some(held)
    }

    /// `None`: a new lease is needed, and a new key.
    async fn keep(&self, held: Held) -> Option<Held> {
        if let Err(DirectoryError::LeaseGone) = self.directory.lease_keep(held.lease).await {
            info!("the lease ran out; taking a new one");
            return None;
        }
        let Ok(entry) = self.directory.get(&directory::alive_key(self.me)).await else {
            return Some(held); // the directory is away: the lease may yet be kept
        };
        if entry.is_none_or(|entry| entry.revision != held.revision) {
            warn!("the lease key is not the one that was written; writing it again");
            return None;
        }
        let room = (self.room)();
        let moved = room.free_bytes.abs_diff(held.free_bytes);
        let part = match self.env.now().since(held.written) {
            since if since >= SMALL_ROOM_EVERY => Some(SMALL_ROOM_PART),
            since if since >= ROOM_EVERY => Some(ROOM_PART),
            _ => None,
        };
        let is_told = |part| moved > 0 && moved >= room.capacity_bytes / part;
        if part.is_some_and(is_told) {
            return self.write(held.lease, Expect::Revision(held.revision)).await;
        }
        Some(held)
    }

    /// A put of unknown outcome counts as lost: the next one reads the key first, and whichever of
    /// the two comes second finds another revision than it expects.
    async fn write(&self, lease: LeaseId, expect: Expect) -> Option<Held> {
        let free_bytes = (self.room)().free_bytes;
        let record = AliveRecord { incarnation: self.incarnation, free_bytes, level: self.level };
        let key = directory::alive_key(self.me);
        let put = Transaction::new().expect(key.clone(), expect);
        let put = put.put_leased(key, record.encode(), lease);
        let transacted = self.directory.transact(put).await.ok()?;
        let (revision, written) = (transacted.revision, self.env.now());
        transacted.succeeded.then_some(Held { lease, revision, free_bytes, written })
    }

    fn is_newer(&self, entry: &Entry) -> bool {
        AliveRecord::decode(&entry.value).is_ok_and(|there| there.incarnation > self.incarnation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::with_directory;
    use std::cell::Cell;
    use std::rc::Rc;

    const ME: ShardId = ShardId(3);
    const ROOM: Room = Room { free_bytes: 1600, capacity_bytes: 1600 };

    fn alive(incarnation: u64, free_bytes: u64) -> AliveRecord {
        let incarnation = Incarnation(incarnation);
        AliveRecord { incarnation, free_bytes, level: Level::NEWEST }
    }

    async fn read(directory: &Directory) -> Option<AliveRecord> {
        let entry = directory.get(&directory::alive_key(ME)).await.expect("it answers")?;
        Some(AliveRecord::decode(&entry.value).expect("a record"))
    }

    async fn settle(env: &Env, seconds: u64) {
        env.sleep(Duration::from_secs(seconds)).await;
    }

    #[test]
    fn a_late_put_under_a_lease_that_nobody_keeps_does_not_make_the_host_look_dead() {
        with_directory(|env, directory| async move {
            let me = (ME, Incarnation(1), Level::NEWEST);
            let run = stay_alive(env.clone(), directory.clone(), me, || ROOM, |_| {});
            let _task = env.spawn("alive", run);
            settle(&env, 3).await;
            assert!(read(&directory).await.is_some());

            let lost = directory.lease_grant(LEASE_TTL).await.expect("a lease");
            let record = alive(1, 0).encode();
            let late = Transaction::new().put_leased(directory::alive_key(ME), record, lost);
            directory.transact(late).await.expect("it lands");

            settle(&env, 20).await;
            for _ in 0..20 {
                settle(&env, 1).await;
                assert!(read(&directory).await.is_some(), "the lost lease took the key with it");
            }
        });
    }

    #[test]
    fn a_key_that_was_deleted_comes_back() {
        with_directory(|env, directory| async move {
            let me = (ME, Incarnation(1), Level::NEWEST);
            let run = stay_alive(env.clone(), directory.clone(), me, || ROOM, |_| {});
            let _task = env.spawn("alive", run);
            settle(&env, 3).await;
            let gone = Transaction::new().delete(directory::alive_key(ME));
            directory.transact(gone).await.expect("it lands");
            settle(&env, 3).await;
            assert!(read(&directory).await.is_some());
        });
    }

    #[test]
    fn a_directory_that_forgot_a_run_that_goes_on_gives_its_number_to_no_later_one() {
        with_directory(|env, directory| async move {
            let me = (ME, Incarnation(7), Level::NEWEST);
            let run = stay_alive(env.clone(), directory.clone(), me, || ROOM, |_| {});
            let _task = env.spawn("alive", run);
            settle(&env, 3).await;
            let key = membership::incarnation_key(ME);
            // As after a restore of before: the lease key is gone too.
            let back = Transaction::new().put(&key, "2").delete(directory::alive_key(ME));
            directory.transact(back).await.expect("it lands");
            settle(&env, 5).await;
            let entry = directory.get(&key).await.expect("it answers").expect("a number");
            assert_eq!(entry.value, b"7");
        });
    }

    #[test]
    fn the_key_of_a_newer_run_is_left_alone() {
        with_directory(|env, directory| async move {
            let newer = alive(2, 7);
            let put = Transaction::new().put(directory::alive_key(ME), newer.encode());
            directory.transact(put).await.expect("it lands");
            let me = (ME, Incarnation(1), Level::NEWEST);
            let run = stay_alive(env.clone(), directory.clone(), me, || ROOM, |_| {});
            let _task = env.spawn("alive", run);
            settle(&env, 20).await;
            assert_eq!(read(&directory).await, Some(newer));
        });
    }

    #[test]
    fn free_space_is_told_when_it_moves_and_not_at_every_byte() {
        with_directory(|env, directory| async move {
            let free = Rc::new(Cell::new(1600));
            let now = Rc::clone(&free);
            let room = move || Room { free_bytes: now.get(), capacity_bytes: 1600 };
            let run = stay_alive(
                env.clone(),
                directory.clone(),
                (ME, Incarnation(1), Level::NEWEST),
                room,
                |_| {},
            );
            let _task = env.spawn("alive", run);
            settle(&env, 8).await;
            let told = async || read(&directory).await.map(|record| record.free_bytes);
            assert_eq!(told().await, Some(1600));
            free.set(1501);
            settle(&env, 10).await;
            assert_eq!(told().await, Some(1600), "less than a sixteenth");
            free.set(1500);
            settle(&env, 10).await;
            assert_eq!(told().await, Some(1500));
            free.set(1487);
            settle(&env, 50).await;
            assert_eq!(told().await, Some(1500), "a little is told seldom");
            settle(&env, 15).await;
            assert_eq!(told().await, Some(1487));
            free.set(1477);
            settle(&env, 100).await;
            assert_eq!(told().await, Some(1487), "and very little never");
        });
    }
}
