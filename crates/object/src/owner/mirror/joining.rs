// SPDX-License-Identifier: Apache-2.0
//! Which new writes go to a component that is being resynced, and which wait for it (rule 32).

use crate::options::ObjectOptions;
use crate::owner::leg::{Leg, LegRole};
use crate::owner::state::OwnerState;
use crate::owner::window::Mask;
use base::SectorRange;

/// Bytes of client writes that a joining component may have to answer, in `join_bytes`: twice
/// those of its copies, so that the clients get two thirds of what it takes.
const JOIN_WRITES: u64 = 2;

impl OwnerState {
    /// Joining legs that a write to `range` is not sent to: those that take no new writes, and
    /// those where all of `range` is dirty anyway. The range is dirty at these legs from now on. A
    /// later copy of it brings the write along, for the copy has to wait for the write's lock.
    pub(crate) fn defer(&mut self, range: SectorRange, options: &ObjectOptions) -> Mask {
        if self.resyncs.is_empty() {
            return 0;
        }
        let mut deferred = 0;
        for leg in self.legs.iter().filter(|leg| leg.role == LegRole::Joining) {
            let Some(resync) = self.resyncs.get_mut(&leg.component) else { continue };
            if leg.takes_part() && !resync.dirty.covers(range) {
                continue;
            }
            base::hit(base::Probe::ResyncDeferred);
            deferred |= leg.bit;
            if !options.mutations.forget_missed_write() {
                resync.dirty.insert(range);
            }
        }
        deferred
    }

    /// Whether a write to `range` has to go to a joining leg.
    pub(crate) fn goes_to_joiner(&self, range: SectorRange) -> bool {
        !self.resyncs.is_empty() && self.legs.iter().any(|leg| self.is_clean_at(leg, range))
    }

    /// Whether such a leg has as much of the clients' writes to answer as its copies leave room
    /// for: a write that has to go there waits (the back-pressure of joining).
    pub(crate) fn is_pacing(&self, range: SectorRange, options: &ObjectOptions) -> bool {
        let most = (JOIN_WRITES * options.join_bytes).max(1);
        let is_busy = |leg: &Leg| leg.unacked.live_bytes() >= most;
        self.legs.iter().any(|leg| is_busy(leg) && self.is_clean_at(leg, range))
    }

    /// Whether a joining leg takes part in new writes and no copy will bring all of `range`.
    fn is_clean_at(&self, leg: &Leg, range: SectorRange) -> bool {
        leg.role == LegRole::Joining
            && leg.takes_part()
            && self.resyncs.get(&leg.component).is_some_and(|r| !r.dirty.covers(range))
    }

    /// Rule 32: what completed without a joining leg is dirty there (again).
    pub(crate) fn note_missing(
        &mut self,
        range: SectorRange,
        missing: Mask,
        options: &ObjectOptions,
    ) {
        if self.resyncs.is_empty() || options.mutations.forget_missed_write() {
            return;
        }
        for leg in self.legs.iter().filter(|leg| leg.role != LegRole::Active) {
            if leg.bit & missing == 0 {
                continue;
            }
            assert!(
                leg.role == LegRole::Joining || options.mutations.require_after_active(),
                "a write completed without a required component (rule 35)"
            );
            if let Some(resync) = self.resyncs.get_mut(&leg.component) {
                base::hit(base::Probe::ResyncDirtyAgain);
                resync.dirty.insert(range);
            }
        }
    }
}
