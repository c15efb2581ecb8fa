// SPDX-License-Identifier: Apache-2.0
//! The copy loop of a resync (rules 32, 34).

use super::check_joined;
use crate::away::Aborted;
use crate::owner::{Flow, LegRole, Owner, SourceAnswer, WriteContent};
use base::{BLOCK_SIZE, ComponentId, Quirk, SectorRange};
use env::LockMode;
use std::rc::Rc;
use std::time::Duration;

/// Longest copies whose bytes are sent and not answered: four keep a link busy without filling the
/// target's buffer.
const COPIES_LONG: u64 = 4;
/// Client I/O within this time makes the copying rest.
const BUSY: Duration = Duration::from_millis(10);
/// How long it rests.
const REST: Duration = Duration::from_millis(1);
/// What a copy costs beside its bytes: its lock, its read, its frame and its answer.
const COPY_COST: u64 = 32 << 10;
/// After copies that cost so much it rests: one of the longest.
const REST_AFTER: u64 = (256 << 10) + COPY_COST;
/// A round that has copied one eighth of what it began with is vain if no less is left by then.
const ROUND_PART: u64 = 8;
/// Attempts to read one range.
const TRIES_MAX: usize = 50;
/// Between two of them.
const RETRY: Duration = Duration::from_millis(50);

/// Copies until nothing is dirty and nothing is in flight, and new writes go to the target too.
///
/// At first new writes do not go to the target. They make their ranges dirty, and nobody waits for
/// the target (rule 32). The copies follow them, round by round. Where the target takes more than
/// the clients write, each round has less to do than the one before.
///
/// Near the end this changes, or where a round was vain ([`Round`]). New writes that touch a clean
/// block now go to the target and wait for it. From then on dirty blocks only get fewer, whatever
/// the load: a dirty block needs no second copy, and a clean block stays clean.
pub(super) async fn run(owner: &Rc<Owner>, component: ComponentId) -> Result<(), Aborted> {
    let watched = Rc::clone(owner);
    owner.spawn("lag", async move { watch_lag(&watched, component).await });
    let mut round = Round::default();
    let mut pace = Pace::default();
    let limits = owner.options().limits;
    let bytes_most = COPIES_LONG * limits.copy_blocks * BLOCK_SIZE;
    loop {
        let drained = owner.drained.wait();
        check_joined(owner, component)?;
        let next = {
            let mut guard = owner.state.borrow_mut();
            let state = &mut *guard;
            let resync = state.resyncs.get_mut(&component).ok_or(Aborted::Stopped)?;
            let leg = state.legs.iter_mut().find(|leg| leg.component == component);
            let leg = leg.ok_or(Aborted::Failed)?;
            let left = resync.dirty.bytes();
            if leg.may_take_part() && round.may_end(left, owner.options().join_bytes) {
                // Those under way that it was kept from are dirty, and their copies wait for them.
                leg.flow = Flow::Live;
            }
            let has_room = resync.copies < limits.copies && resync.copies_bytes < bytes_most;
            base::hit_if(!has_room, base::Probe::CopiesWaited);
            // Rule 32: a range leaves dirty when its copy is started.
            let next = if has_room { resync.dirty.take(limits.copy_blocks) } else { None };
            round.takes(next, left);
            if next.is_none() && resync.copies == 0 && leg.flow == Flow::Live {
                return Ok(());
            }
            next
        };
        match next {
            Some(range) => {
                if pace.is_due(range, owner.now().since(owner.busy_at.get()) < BUSY) {
                    owner.env().sleep(REST).await;
                }
                owner.context.copy_limit.pass(owner.env(), range.bytes()).await;
                copy(owner, component, range).await?;
            }
            None => {
                env::select(drained, owner.env().sleep(RETRY)).await;
            }
        }
    }
}

/// Copies beside client I/O rest by what they cost, not by their number: many short ones are not
/// kept to the rate of as many long ones.
#[derive(Default)]
struct Pace {
    /// Cost of the copies since the last rest.
    owed: u64,
}

impl Pace {
    /// Whether to rest before the copy of `range`.
    fn is_due(&mut self, range: SectorRange, is_busy: bool) -> bool {
        if !is_busy {
            self.owed = 0;
            return false;
        }
        self.owed += range.bytes() + COPY_COST;
        let is_due = self.owed >= REST_AFTER;
        self.owed %= REST_AFTER;
        is_due
    }
}

/// The copies go through the object in order of address, round by round.
#[derive(Default)]
struct Round {
    at: u64,
    /// Bytes to copy when it began.
    begun_with: Option<u64>,
    /// Bytes of the copies that it started.
    taken: u64,
    /// It ended with more than half of what it had begun with, or there is more after a part of it:
    /// the load is faster than the copies.
    is_vain: bool,
}

impl Round {
    /// Notes what is taken next, with `left` bytes dirty before.
    fn takes(&mut self, range: Option<SectorRange>, left: u64) {
        let Some(range) = range else { return };
        let begun_with = self.begun_with.unwrap_or(left);
        let is_over = range.start < self.at;
        // A round that goes badly is not waited for: one over a large volume takes long. Less of it
        // says little, for writes come in bursts.
        let is_known = self.taken > 0 && self.taken >= begun_with / ROUND_PART;
        if is_over {
            self.is_vain = left > begun_with / 2;
        } else if is_known && left >= begun_with {
            self.is_vain = true;
        }
        if is_over || self.begun_with.is_none() {
            self.begun_with = Some(left);
            self.taken = 0;
        }
        self.at = range.end();
        self.taken += range.bytes();
    }

    /// Whether it is time for new writes to go to the target.
    fn may_end(&self, left: u64, join_bytes: u64) -> bool {
        if self.is_vain {
            base::hit(base::Probe::ResyncInVain);
        }
        self.is_vain || left <= join_bytes
    }
}

/// One range: lock, read, lsn and send in one turn, unlock (rule 34). The lsn is given after the
/// read, which under the lock is the same as before it, and keeps every leg in lsn order.
async fn copy(
    owner: &Rc<Owner>,
    component: ComponentId,
    range: SectorRange,
) -> Result<(), Aborted> {
    let guard = match owner.options().mutations.copy_without_lock() {
        true => None,
        false => Some(owner.lock.lock(range, LockMode::Exclusive).await),
    };
    let data = read(owner, component, range).await?;
    owner.env().linger(Quirk::CopyLingers).await;
    check_joined(owner, component)?;
    base::hit(base::Probe::ResyncCopied);
    let content = WriteContent::copy_of(data);
    tracing::trace!(object = %owner.id, %component, ?range, "copy");
    let Some(answer) = owner.submit_copy(component, range, &content) else {
        return Err(Aborted::Failed);
    };
    drop(guard);
    count_copy(owner, component, range, true);
    let owner2 = Rc::clone(owner);
    owner.spawn("copy", async move {
        let is_done = answer.recv().await.is_some();
        {
            let clear = owner2.options().mutations.clear_dirty_at_answer();
            let mut state = owner2.state.borrow_mut();
            if let Some(resync) = state.resyncs.get_mut(&component) {
                if is_done {
                    resync.rate.add(range.bytes(), owner2.now());
                    owner2.context.copied.update(|copied| copied + range.bytes());
                } else {
                    resync.dirty.insert(range); // rule 32: it comes back
                }
                if is_done && clear {
                    resync.dirty.remove(range);
                }
            }
        }
        count_copy(&owner2, component, range, false);
    });
    Ok(())
}

/// One copy is under way, or no longer.
fn count_copy(owner: &Owner, component: ComponentId, range: SectorRange, begins: bool) {
    if let Some(resync) = owner.state.borrow_mut().resyncs.get_mut(&component) {
        let sign = if begins { 1 } else { -1 };
        resync.copies = resync.copies.saturating_add_signed(sign);
        let bytes = i64::try_from(range.bytes()).unwrap_or(i64::MAX);
        resync.copies_bytes = resync.copies_bytes.saturating_add_signed(bytes * sign as i64);
    }
    owner.drained.notify();
}

/// From an active component whose copy is good (rules 36, 37).
async fn read(
    owner: &Rc<Owner>,
    component: ComponentId,
    range: SectorRange,
) -> Result<crate::status::ReadData, Aborted> {
    let mut avoid = 0;
    for _ in 0..TRIES_MAX {
        check_joined(owner, component)?;
        let Some(source) = owner.source(avoid) else {
            if avoid != 0 {
                // Every copy of this range is bad: the target cannot become better than that.
                return Err(Aborted::Failed);
            }
            owner.env().sleep(RETRY).await;
            continue;
        };
        match owner.ask(&source, range).await {
            SourceAnswer::Data(data) => return Ok(data),
            SourceAnswer::Bad => avoid |= source.bit,
            SourceAnswer::Again => owner.env().sleep(RETRY).await,
        }
    }
    Err(Aborted::Failed)
}

/// While the target answers, writes that go to it wait for it, so that the resync converges. One
/// that gives no answer for its patience gets none of them any more: they complete without it, and
/// their ranges become dirty again (rule 32).
async fn watch_lag(owner: &Rc<Owner>, component: ComponentId) {
    let mut patience = owner.options().join_wait;
    loop {
        owner.env().sleep(patience / 4).await;
        let now = owner.now();
        {
            let mut state = owner.state.borrow_mut();
            let Some(leg) = state.leg_mut(component) else { return };
            if leg.role != LegRole::Joining {
                return;
            }
            let is_silent = leg.waiting_since().is_some_and(|since| now.since(since) > patience);
            if leg.flow != Flow::Live || !is_silent {
                continue;
            }
            leg.flow = Flow::Deferred(now);
        }
        base::hit(base::Probe::ResyncLagged);
        patience = (patience * 2).min(owner.options().stall.max(patience));
        tracing::debug!(object = %owner.id, %component, ?patience, "the target lags: writes go on");
        owner.settle();
        owner.drained.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COPY: u64 = 256 << 10;

    /// The `at`th of the longest copies.
    fn nth(at: u64) -> Option<SectorRange> {
        let sectors = COPY / base::SECTOR_SIZE;
        Some(SectorRange::new(at * sectors, sectors))
    }

    /// Whether it is vain after each of 16 copies, and after the first of the next round, where so
    /// much becomes dirty again with each.
    fn verdicts(added: u64) -> Vec<bool> {
        let (mut round, mut left) = (Round::default(), 16 * COPY);
        let copies = (0..17).map(|at| {
            round.takes(nth(at % 16), left);
            left = left - COPY + added;
            round.is_vain
        });
        copies.collect()
    }

    #[test]
    fn a_round_is_vain_where_more_than_half_is_left_or_once_there_is_more_than_before() {
        assert_eq!(verdicts(COPY / 4), [false; 17]);
        assert_eq!(verdicts(COPY / 2), [false; 17]);
        let slow = verdicts(COPY / 2 + 1);
        assert_eq!(slow[..16], [false; 16], "the round may still get somewhere");
        assert!(slow[16], "it did not");
        let growing = verdicts(COPY);
        let known = (16 / ROUND_PART) as usize;
        assert!(!growing[..known].contains(&true), "too little to tell");
        assert!(!growing[known..].contains(&false), "nobody waits for the end of the round");
    }

    #[test]
    fn a_round_that_goes_better_is_not_vain_any_more() {
        let mut round = Round::default();
        round.takes(nth(0), 2 * COPY);
        round.takes(nth(9), 2 * COPY);
        assert!(round.may_end(2 * COPY, 0));
        round.takes(None, 2 * COPY);
        round.takes(nth(1), 2 * COPY);
        assert!(round.may_end(2 * COPY, 0), "the next has only begun");
        round.takes(nth(2), COPY);
        assert!(round.may_end(COPY, 0));
        round.takes(nth(0), COPY);
        assert!(!round.may_end(COPY, 0), "half of it is left");
        assert!(round.may_end(COPY, COPY), "hardly anything is left");
    }

    #[test]
    fn copies_beside_clients_rest_by_what_they_cost() {
        let rests = |sectors: u64, is_busy: bool| {
            let mut pace = Pace::default();
            let copy = SectorRange::new(0, sectors);
            (0..1000).filter(|_| pace.is_due(copy, is_busy)).count()
        };
        assert_eq!(rests(COPY / base::SECTOR_SIZE, true), 1000, "before each long one");
        assert_eq!(rests(8, true), 125, "before each eighth of 4 KiB");
        assert_eq!(rests(8, false), 0);
    }
}
