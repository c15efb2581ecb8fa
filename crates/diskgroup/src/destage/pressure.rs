// SPDX-License-Identifier: Apache-2.0
//! What holds up writes, and whether destage stands still: looked at when somebody asks.

use crate::pressure::{Limit, Pressure};
use crate::state::{GroupInner, GroupState};
use base::Instant;

impl GroupState {
    /// The group was opened: what it found counts from now on.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.destage.progressed_at = now;
        if self.read_cache.is_some() {
            self.pace.make_room(self.log.layout.segments);
        }
        let found = self.log.segments_mut().filter(|info| info.used > 0);
        found.for_each(|info| info.since = Some(now));
    }

    /// See [`Pressure`].
    pub(crate) fn pressure(&self, now: Instant) -> Pressure {
        let log = &self.log;
        let waiting = log.ticket_last - log.ticket_done;
        let fill = self.fill();
        let is_behind = log.is_writing && !(log.build.is_empty() && log.deferred.is_empty());
        let limit = match waiting {
            0 => Limit::Nothing,
            _ if self.log.is_pressed || self.pace.is_pressed(fill) => Limit::Destage,
            _ if is_behind => Limit::CacheDevice,
            _ => Limit::Nothing,
        };
        // Destage that waits for a fuller log, for tokens or for time is not stuck: it rests as it
        // should. Waiting for K is no rest.
        let is_resting = self.destage.wait.is_some() && !self.destage.waits_for_commit();
        let is_due = self.pace.is_steady(self.fill_of_segments()) && !is_resting && !self.is_over();
        let oldest = log.segment(log.tail).since;
        Pressure {
            limit,
            waiting,
            oldest: oldest.filter(|_| log.used_bytes() > 0).map(|since| now.since(since)),
            stuck: is_due.then(|| now.since(self.destage.progressed_at)),
            waits_for_copies: self.destage.waits_for_commit() || self.is_held(),
        }
    }
}

impl GroupInner {
    /// Destage got something done, or has nothing to do.
    pub(super) fn note_destage(&self) {
        self.state.borrow_mut().destage.progressed_at = self.env.now();
    }
}
