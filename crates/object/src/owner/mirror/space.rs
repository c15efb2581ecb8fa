// SPDX-License-Identifier: Apache-2.0
//! Whether there is space for a write on every copy, before it has an lsn (rule 2).

use crate::owner::leg::LegRole;
use crate::owner::state::Owner;
use crate::status::ObjectError;
use base::{CHUNK_SECTORS, SectorRange};
use std::rc::Rc;
use wire::{Request, Response};

impl Owner {
    pub(in crate::owner) fn has_full_leg(&self) -> bool {
        self.state.borrow().legs.iter().any(|leg| leg.is_full() && leg.role != LegRole::Joining)
    }

    /// Rule 2: "full" is found out before an lsn is given, never by one replica alone. What is
    /// allocated already can be written for ever (trap 14): the local component says so, or where
    /// there is none, those that are full.
    pub(in crate::owner) async fn check_space(
        self: &Rc<Self>,
        range: SectorRange,
    ) -> Result<(), ObjectError> {
        let me = self.context.me.shard;
        let chunk = range.start / CHUNK_SECTORS;
        let (local, full) = {
            let state = self.state.borrow();
            let local =
                state.legs.iter().find(|leg| leg.shard == me && leg.role == LegRole::Active);
            let full =
                state.legs.iter().filter(|leg| leg.is_full() && leg.role != LegRole::Joining);
            let full: Vec<_> =
                full.map(|leg| (leg.shard, leg.target(self.id, self.term))).collect();
            (local.map(|leg| leg.component), full)
        };
        if let Some((id, group)) = local.and_then(|id| Some((id, self.context.disks.holding(id)?)))
        {
            let start = chunk * CHUNK_SECTORS;
            let whole = SectorRange::new(start, CHUNK_SECTORS.min(self.sectors - start));
            let extents = group.extents(id, whole);
            let is_allocated = extents.iter().any(|(_, is_allocated)| *is_allocated);
            return if is_allocated { Ok(()) } else { Err(ObjectError::Full) };
        }
        let since = self.state.borrow().window.given();
        for (shard, target) in full {
            let request = Request::ListChanged { target, since, cursor: chunk };
            let call = self.context.ask(shard, request);
            let answer = self.env().timeout(self.options().lease_wait, call).await;
            // One that does not answer is asked with the write itself.
            if let Ok(Ok(Response::Changed { held, .. })) = answer
                && held.first().is_none_or(|word| word & 1 == 0)
            {
                return Err(ObjectError::Full);
            }
        }
        Ok(())
    }
}
