// SPDX-License-Identifier: Apache-2.0
//! The layout of a mirror: every component holds all of the object.
//!
//! So every write goes whole to every leg, waits for all that are required, and any active
//! component can answer a read. What orders, numbers, sends and counts writes knows nothing of
//! this ([`super::session`]): another layout answers the same questions in another way. Only
//! take-over and resync ([`crate::takeover`], [`crate::resync`]) are written for mirrors, too.

mod choice;
mod joining;
mod source;
mod space;

pub(crate) use source::ReadSource;

use super::leg::{Leg, LegRole};
use super::state::OwnerState;
use super::window::{Legs, Mask};
use crate::options::ObjectOptions;
use base::SectorRange;

impl OwnerState {
    /// For which legs a write to `range` is: a client's for all (`None`) but the joining ones that
    /// it is kept from, a repair for those in `only`.
    pub(super) fn share_out(
        &mut self,
        range: SectorRange,
        only: Option<Mask>,
        options: &ObjectOptions,
    ) -> Legs {
        let deferred = if only.is_none() { self.defer(range, options) } else { 0 };
        let all = self.legs.iter().fold(0, |mask, leg| mask | leg.bit);
        let meant = only.unwrap_or(Mask::MAX);
        Legs { sent: all & meant & !deferred, meant, deferred }
    }

    /// Legs that a write waits for, where it was sent to them: required ones (rules 3, 35), and a
    /// joining one that takes part in new writes, so that a resync converges.
    pub(crate) fn needed(&self, options: &ObjectOptions) -> Mask {
        let late = options.mutations.require_after_active();
        let waits = |leg: &&Leg| match leg.role {
            LegRole::Active => true,
            LegRole::Required => !late,
            LegRole::Joining => leg.takes_part(),
        };
        self.legs.iter().filter(waits).fold(0, |mask, leg| mask | leg.bit)
    }
}
