// SPDX-License-Identifier: Apache-2.0
//! Bad copies are written again from a good one (rule 13).

use super::leg::LegRole;
use super::read::SourceAnswer;
use super::state::{Owner, OwnerState, Ticket};
use super::window::Mask;
use super::write::WriteContent;
use crate::status::ObjectError;
use base::{ComponentId, Quirk, SectorRange, ShardId};
use env::LockMode;
use env::channel::oneshot;
use std::rc::Rc;

impl Owner {
    /// A read found bad copies: they are written again, and nobody waits for it.
    pub(super) fn repair_later(self: &Rc<Self>, range: SectorRange, bad: Mask) {
        let owner = Rc::clone(self);
        // What is not repaired is found again by the next read or scrub.
        self.spawn("repair", async move {
            let _ = owner.repair(range, |_| bad).await;
        });
    }

    /// The host of an active component says that what it holds in `range` is bad. Returns when that
    /// is written again and durable there. Doing it twice, or for data that is good, is harmless.
    ///
    /// # Errors
    /// [`ObjectError::Io`]: no other active component has a good copy, or the range is impossible.
    /// [`ObjectError::NotOwner`], [`ObjectError::Inaccessible`]: not now.
    pub(crate) async fn repair_component(
        self: &Rc<Self>,
        shard: ShardId,
        component: ComponentId,
        range: SectorRange,
    ) -> Result<(), ObjectError> {
        self.check_range(range)?;
        let leg_of = |state: &OwnerState| {
            let leg = state.leg(component).filter(|leg| leg.shard == shard);
            leg.map_or(0, |leg| leg.bit)
        };
        self.repair(range, leg_of).await?;
        // A write completes also when its leg was given up: then it may not be there.
        let is_there = active(&self.state.borrow(), leg_of(&self.state.borrow())) != 0;
        is_there.then_some(()).ok_or(ObjectError::Inaccessible)
    }

    /// Under the range lock and with an lsn, so that nothing newer is overwritten.
    async fn repair(
        self: &Rc<Self>,
        range: SectorRange,
        bad: impl FnOnce(&OwnerState) -> Mask,
    ) -> Result<(), ObjectError> {
        let guard = match self.options().mutations.repair_without_lock() {
            true => None,
            false => Some(self.lock.lock(range, LockMode::Exclusive).await),
        };
        self.check_serving()?;
        let bad = bad(&self.state.borrow());
        let mut avoid = bad;
        let data = loop {
            let Some(source) = self.source(avoid) else {
                let is_lost = self.all_tried(avoid);
                return Err(if is_lost { ObjectError::Io } else { ObjectError::Inaccessible });
            };
            match self.ask(&source, range).await {
                SourceAnswer::Data(data) => break data,
                SourceAnswer::Bad => avoid |= source.bit,
                SourceAnswer::Again => return Err(ObjectError::Inaccessible),
            }
        };
        self.env().linger(Quirk::CopyLingers).await;
        self.check_serving()?;
        let bad = active(&self.state.borrow(), bad);
        if bad == 0 {
            return Err(ObjectError::Inaccessible);
        }
        base::hit(base::Probe::ReadRepaired);
        tracing::warn!(object = %self.id, ?range, "a bad copy is written again");
        let (done, answer) = oneshot();
        // The ticket holds the lock until the copy is durable.
        self.submit(range, WriteContent::copy_of(data), Some(bad), Ticket::new(guard, Some(done)));
        answer.recv().await.unwrap_or(Err(ObjectError::NotOwner))
    }
}

/// Those of the legs in `mask` that are active: others get the data by their resync.
fn active(state: &OwnerState, mask: Mask) -> Mask {
    let legs = state.legs.iter().filter(|leg| leg.role == LegRole::Active);
    legs.fold(0, |all, leg| all | leg.bit) & mask
}
