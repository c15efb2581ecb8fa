// SPDX-License-Identifier: Apache-2.0
//! The copy loop of a resync (rules 32, 34).

use super::{Aborted, check_joined};
use crate::owner::{Content, Found, Link, Mode, Owner, Role};
use base::{ComponentId, Quirk, SectorRange};
use std::rc::Rc;
use std::time::Duration;

/// Blocks of one copy: 256 KiB, long enough to be cheap, short enough not to be felt as a lock.
const COPY_BLOCKS: u64 = 64;
/// Copies sent and not answered: keeps a link busy without filling the target's buffer.
const COPIES_MAX: usize = 4;
/// Client I/O within this time makes the copying yield.
const BUSY: Duration = Duration::from_millis(10);
/// How long it yields before each copy.
const YIELD: Duration = Duration::from_millis(1);
/// Attempts to read one range.
const TRIES_MAX: usize = 50;
/// Between two of them.
const RETRY: Duration = Duration::from_millis(50);

/// Copies until nothing is dirty and nothing is in flight.
pub(super) async fn run(owner: &Rc<Owner>, component: ComponentId) -> Result<(), Aborted> {
    let watched = Rc::clone(owner);
    owner.spawn("lag", async move { watch_lag(&watched, component).await });
    loop {
        let drained = owner.drained.wait();
        check_joined(owner, component)?;
        let (next, copies) = {
            let mut state = owner.state.borrow_mut();
            let resync = state.resyncs.get_mut(&component).ok_or(Aborted::Stopped)?;
            let has_room = resync.copies < COPIES_MAX;
            // Rule 32: a range leaves dirty when its copy is started.
            let next = if has_room { resync.dirty.take(COPY_BLOCKS) } else { None };
            (next, resync.copies)
        };
        match next {
            Some(range) => copy(owner, component, range).await?,
            None if copies == 0 => return Ok(()),
            None => {
                env::select(drained, owner.env().sleep(RETRY)).await;
            }
        }
    }
}

/// One range: lock, read, lsn and send in one turn, unlock (rule 34). The lsn is given after the
/// read, which under the lock is the same as before it, and keeps every leg in lsn order.
async fn copy(
    owner: &Rc<Owner>,
    component: ComponentId,
    range: SectorRange,
) -> Result<(), Aborted> {
    if owner.now().since(owner.busy_at.get()) < BUSY {
        owner.env().sleep(YIELD).await;
    }
    let guard = match owner.options().mutations.copy_without_lock {
        true => None,
        false => Some(owner.lock.lock(range, Mode::Exclusive).await),
    };
    let data = read(owner, component, range).await?;
    owner.env().linger(Quirk::CopyLingers).await;
    check_joined(owner, component)?;
    base::hit(base::Probe::ResyncCopied);
    let content = Content::copy_of(data);
    tracing::trace!(object = %owner.id, %component, ?range, "copy");
    let Some(answer) = owner.submit_copy(component, range, &content) else {
        return Err(Aborted::Failed);
    };
    drop(guard);
    count_copies(owner, component, 1);
    let owner2 = Rc::clone(owner);
    owner.spawn("copy", async move {
        let is_done = answer.recv().await.is_some();
        {
            let clear = owner2.options().mutations.clear_dirty_at_answer;
            let mut state = owner2.state.borrow_mut();
            if let Some(resync) = state.resyncs.get_mut(&component) {
                if !is_done {
                    resync.dirty.insert(range); // rule 32: it comes back
                } else if clear {
                    resync.dirty.remove(range);
                }
            }
        }
        count_copies(&owner2, component, -1);
    });
    Ok(())
}

fn count_copies(owner: &Owner, component: ComponentId, change: isize) {
    if let Some(resync) = owner.state.borrow_mut().resyncs.get_mut(&component) {
        resync.copies = resync.copies.saturating_add_signed(change);
    }
    owner.drained.notify();
}

/// From an active component whose copy is good (rules 36, 37).
async fn read(
    owner: &Rc<Owner>,
    component: ComponentId,
    range: SectorRange,
) -> Result<crate::objects::ReadData, Aborted> {
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
            Found::Data(data) => return Ok(data),
            Found::Bad => avoid |= source.bit,
            Found::Again => owner.env().sleep(RETRY).await,
        }
    }
    Err(Aborted::Failed)
}

/// While the target answers in time, writes wait for it, so that the resync converges; when it
/// does not, they complete without it and their ranges become dirty again (rule 32).
async fn watch_lag(owner: &Rc<Owner>, component: ComponentId) {
    let limit = owner.options().join_wait;
    loop {
        owner.env().sleep(limit / 4).await;
        let now = owner.now();
        {
            let mut state = owner.state.borrow_mut();
            let Some(leg) = state.leg_mut(component) else { return };
            if leg.role != Role::Joining {
                return;
            }
            let oldest = leg.unacked.front();
            leg.is_lagging = leg.link != Link::Live
                || oldest.is_some_and(|frame| now.since(frame.since) > limit);
            if !leg.is_lagging {
                continue;
            }
        }
        owner.settle();
    }
}
