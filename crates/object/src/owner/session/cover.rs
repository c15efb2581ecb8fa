// SPDX-License-Identifier: Apache-2.0
//! Whether the grants of the replicas cover an answer to a client (rules 21, 52a).

use crate::owner::leg::{FencedAt, Leg};
use crate::owner::state::Owner;

impl Owner {
    /// Rule 52a. A leg that was fenced before the grants of its host began anew is fenced again:
    /// the answer tells whether somebody else was there in between (rule 21).
    pub(in crate::owner) fn is_covered(&self) -> bool {
        let leases = &self.context.leases;
        let mut stale = Vec::new();
        let mut is_covered = true;
        let mut is_any = false;
        {
            let state = self.state.borrow();
            let remote = |leg: &&Leg| {
                leg.shard != self.context.me.shard && state.counts_for_lease(leg.component)
            };
            let mut counted = 0;
            for leg in state.legs.iter().filter(remote) {
                counted += 1;
                let Some(FencedAt { at, incarnation, grant_epoch }) = leg.fenced else {
                    is_covered = false;
                    continue;
                };
                if leases.covers(leg.shard, incarnation, grant_epoch) {
                    is_any = true;
                    continue;
                }
                is_covered = false;
                if leases.has_newer(leg.shard, at, incarnation, grant_epoch) {
                    stale.push((leg.component, leg.session));
                }
                leases.hurry(leg.shard);
            }
            // Every component that counts has a leg: without one nothing is known of it.
            is_covered &= counted == state.remote_for_lease(self.context.me.shard);
        }
        for (component, session) in stale {
            self.break_leg(component, session, "its grants began anew");
        }
        is_covered || is_any && self.options().mutations.any_grant()
    }
}
