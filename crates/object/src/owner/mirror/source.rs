// SPDX-License-Identifier: Apache-2.0
//! Which copy a read is answered from (rule 11).

use super::choice;
use crate::options::ReadFrom;
use crate::owner::leg::{Leg, LegRole, LegState};
use crate::owner::state::Owner;
use crate::owner::window::Mask;
use base::{ComponentId, SectorRange, Session, ShardId};
use wire::Target;

/// Whom to ask.
pub(crate) struct ReadSource {
    pub(crate) component: ComponentId,
    pub(crate) shard: ShardId,
    pub(crate) session: Session,
    pub(crate) target: Target,
    pub(crate) bit: Mask,
}

impl Owner {
    /// An active component to read from (rule 11), not in `avoid`: the local one if it is one.
    pub(crate) fn source(&self, avoid: Mask) -> Option<ReadSource> {
        self.pick(avoid, None)
    }

    /// The same for a client's read of `range`, which lies within one chunk: where the host reads
    /// from chosen copies, the one whose turn it is.
    pub(in crate::owner) fn source_of(
        &self,
        range: SectorRange,
        avoid: Mask,
    ) -> Option<ReadSource> {
        let region = match self.options().read_from {
            ReadFrom::Nearest => None,
            ReadFrom::Chosen => Some(choice::region_of(range.start)),
        };
        // Any active component may be asked (rule 11): one on a device that answers late is asked
        // where no other can be.
        let slow = self.slow_here();
        let fast = (slow != 0).then(|| self.pick(avoid | slow, region)).flatten();
        if fast.is_some() {
            base::hit(base::Probe::ReadMoved);
        }
        fast.or_else(|| self.pick(avoid, region))
    }

    /// Components of this host that answer late.
    fn slow_here(&self) -> Mask {
        let state = self.state.borrow();
        let mine = state.legs.iter().filter(|leg| leg.shard == self.context.me.shard);
        let slow = mine.filter(|leg| self.context.disks.is_slow(leg.component));
        slow.fold(0, |mask, leg| mask | leg.bit)
    }

    fn pick(&self, avoid: Mask, region: Option<u64>) -> Option<ReadSource> {
        let state = self.state.borrow();
        let any = self.options().mutations.joining_serves();
        let usable = |leg: &&Leg| {
            let is_readable = any || state.is_readable(leg.component);
            leg.link == LegState::Live && leg.bit & avoid == 0 && is_readable
        };
        let mut legs = state.legs.iter().filter(usable);
        let me = self.context.me.shard;
        let chosen = match region {
            Some(region) => choice::choose(region, legs, |leg| leg.component)?,
            None => legs.clone().find(|leg| leg.shard == me).or_else(|| legs.next())?,
        };
        let target = chosen.target(self.id, self.term);
        let (component, shard, session) = (chosen.component, chosen.shard, chosen.session);
        Some(ReadSource { component, shard, session, target, bit: chosen.bit })
    }

    /// Whether every active component is in `avoid`.
    pub(in crate::owner) fn all_tried(&self, avoid: Mask) -> bool {
        let state = self.state.borrow();
        let active = state.legs.iter().filter(|leg| leg.role == LegRole::Active);
        active.fold(0, |mask, leg| mask | leg.bit) & !avoid == 0
    }
}
