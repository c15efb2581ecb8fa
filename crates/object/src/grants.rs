// SPDX-License-Identifier: Apache-2.0
//! The grants that this host's replicas gave to others: the promise not to let another owner in
//! before a grant ran out (rules 48, 52b). What others granted to this host is in [`crate::held`].
//!
//! Why one grant per pair is enough although objects change hands one by one: the granter counts
//! an *epoch* per other host, raised in the same step in which it accepts a Fence by somebody else
//! for a component that was that host's. Every grant and every Fence answer carries the epoch. An
//! owner relies on a grant only while its epoch is that of the owner's own last Fence there. So
//! suppose host A owns object O and host C fences O at B:
//! 1. B lets C in only when A's grant has run out by B's clock (rule 52b), and raises the epoch;
//! 2. a grant that A got before has run out by A's clock first (rule 48);
//! 3. a grant that A gets later carries the new epoch: A's owner of O must fence B again before it
//!    relies on it, and is refused by its term. A's other objects are fenced again and go on.
//!
//! The upper half of an epoch counts how often a disk group of this host went out of service. Each
//! time the replicas of that group forgot their sessions. An owner that neither reads nor writes
//! would not notice that by itself. When an owner sees that the upper half rose, it fences again.
//! It begins at a random number: a directory that forgot a run gives its number to another one, and
//! what that one grants must not be taken for a grant of the first.

use crate::mutations::Mutations;
use crate::options::ObjectOptions;
use base::{Incarnation, Instant, Map, ShardId};
use env::Env;
use peer::PeerId;
use std::cell::{Cell, RefCell};
use std::time::Duration;
use wire::Response;

/// A grant as its giver knows it.
#[derive(Clone, Copy, Debug)]
struct Given {
    incarnation: Incarnation,
    until: Instant,
}

/// Grants that this host has given to others. Volatile: see [`Grants::wait`].
pub(crate) struct Grants {
    me: PeerId,
    ttl: Duration,
    /// What an earlier run may have granted has run out by then.
    amnesia_until: Instant,
    given: RefCell<Map<ShardId, Given>>,
    epochs: RefCell<Map<ShardId, u64>>,
    /// Below 2^32.
    closings: Cell<u64>,
    mutations: Mutations,
}

impl Grants {
    pub(crate) fn new(env: &Env, me: PeerId, options: &ObjectOptions) -> Self {
        let grants = Self::at(env.now(), me, options);
        grants.closings.set(env.random() >> 33);
        grants
    }

    fn at(start: Instant, me: PeerId, options: &ObjectOptions) -> Self {
        let forgets = options.mutations.forget_grants();
        Self {
            me,
            ttl: options.lease_ttl,
            amnesia_until: if forgets { start } else { start + options.lease_ttl },
            given: RefCell::default(),
            epochs: RefCell::default(),
            closings: Cell::default(),
            mutations: options.mutations,
        }
    }

    /// Answers a Renew of `from` that arrived now.
    pub(crate) fn renew(&self, from: PeerId, sent: Instant, now: Instant) -> Response {
        let until = now + self.ttl;
        self.given.borrow_mut().insert(from.shard, Given { incarnation: from.incarnation, until });
        let ttl_ms = u32::try_from(self.ttl.as_millis()).unwrap_or(u32::MAX);
        Response::Granted { sent, ttl_ms, grant_epoch: self.epoch(from.shard) }
    }

    /// `from` uses no grant of this host any more.
    pub(crate) fn release(&self, from: PeerId, now: Instant) {
        let given = Given { incarnation: from.incarnation, until: now };
        self.given.borrow_mut().insert(from.shard, given);
    }

    /// The epoch that grants to `host` carry.
    pub(crate) fn epoch(&self, shard: ShardId) -> u64 {
        let given = self.epochs.borrow().get(&shard).copied().unwrap_or(0);
        (self.closings.get() << 32) + given
    }

    /// A component of `old` is given to somebody else now: call in the step that accepts the Fence.
    pub(crate) fn raise_epoch(&self, old: ShardId) {
        *self.epochs.borrow_mut().entry(old).or_insert(0) += 1;
    }

    /// A disk group of this host goes out of service now: all epochs rise.
    pub(crate) fn group_closes(&self) {
        self.closings.set(self.closings.get() + 1);
    }

    /// How long a Fence must wait because the owner `old` may still answer reads (rule 52b). Zero
    /// where it cannot:
    /// - Its grant has run out by this host's clock.
    /// - `newest`, the newest run of its host that was seen, is a later one. One run at a time
    ///   locks the devices of a host, so the older run is dead.
    /// - It is on this very host and needs no grant: whoever accepts the Fence stops it in the same
    ///   step (52c).
    ///
    /// This run does not know what the run before it granted. So where it gave `old` no grant
    /// itself, it waits until a full grant time has passed since it began.
    pub(crate) fn wait(&self, old: PeerId, newest: Option<Incarnation>, now: Instant) -> Duration {
        let is_dead = newest.is_some_and(|newest| newest > old.incarnation);
        if self.mutations.fence_ignores_grants() || old.shard == self.me.shard || is_dead {
            return Duration::ZERO;
        }
        let given = self.given.borrow();
        let until = match given.get(&old.shard) {
            Some(given) if given.incarnation >= old.incarnation => given.until,
            _ => self.amnesia_until,
        };
        until.since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PeerId = PeerId { shard: ShardId(1), incarnation: Incarnation(7) };
    const S: u64 = 1_000_000_000;

    fn grants(now: u64) -> Grants {
        let me = PeerId { shard: ShardId(2), incarnation: Incarnation(1) };
        let lease_ttl = Duration::from_secs(6);
        Grants::at(Instant(now * S), me, &ObjectOptions { lease_ttl, ..ObjectOptions::default() })
    }

    #[test]
    fn a_fence_waits_for_the_grant_and_for_what_may_be_forgotten() {
        let grants = grants(100);
        let wait = |newest: u64, now: u64| {
            grants.wait(A, Some(Incarnation(newest)), Instant(now * S)).as_secs()
        };
        assert_eq!(wait(7, 101), 5, "an earlier run may have granted just before it ended");
        assert_eq!(wait(7, 106), 0);
        assert_eq!(wait(8, 101), 0, "its run is over");
        grants.renew(A, Instant(0), Instant(110 * S));
        assert_eq!(wait(7, 112), 4);
        grants.release(A, Instant(113 * S));
        assert_eq!(wait(7, 113), 0, "it consented");
    }

    #[test]
    fn grants_carry_the_epoch_of_their_moment() {
        let grants = grants(0);
        let epoch = |response| match response {
            Response::Granted { grant_epoch, .. } => grant_epoch,
            other => panic!("a renewal was answered with {other:?}"),
        };
        assert_eq!(epoch(grants.renew(A, Instant(0), Instant(S))), 0);
        grants.raise_epoch(A.shard);
        assert_eq!(epoch(grants.renew(A, Instant(0), Instant(S))), 1);
        assert_eq!(grants.epoch(ShardId(3)), 0, "another host's stay");
        grants.group_closes();
        assert_eq!((grants.epoch(ShardId(3)), grants.epoch(A.shard)), (1 << 32, (1 << 32) + 1));
    }
}
