// SPDX-License-Identifier: Apache-2.0
//! No whole component comes back, and an operator has the object go on from an older one (rule
//! 41a).
//!
//! Nothing is promised of what was acknowledged since that one left. The promise is about
//! everything after it: the object has one content, which the next owner chooses, and a history
//! that goes on from it. Not modelled are the clients of an owner that runs on: it gets no new
//! requests.

use super::moves::Moves;
use super::mutation::Mutation;
use super::state::{Few, GivenUp, Host, Lsn, Member, ReadState, Record, State};
use super::step::Step;

impl Moves<'_> {
    /// The record can be made anew from each component that is away and holds something. With
    /// grants a lease key is a hint only: the hosts of all others may well run on.
    pub(super) fn recover(&mut self) {
        let from = self.from;
        let is_within_reach = !self.has_grants()
            && from.record.active().meets(from.leases.keys)
            && !self.breaks(Mutation::RecoverBesideLease);
        if from.budget.recoveries == 0 || is_within_reach {
            return;
        }
        for chosen in self.hosts() {
            let Member::Away { left } = from.record.members[chosen] else { continue };
            if left == Lsn::default() || !from.up.has(chosen) {
                continue;
            }
            let mut next = from.clone();
            next.budget.recoveries -= 1;
            next.record = self.made_anew(&from.record, chosen);
            let copies = from.record.active().without(next.record.active());
            next.given_up = GivenUp { term: next.record.term, copies, is_open: true };
            self.go(Step::Recover(chosen), next);
        }
    }

    /// The record with `chosen` as its only active component. Those beside it get all of it anew.
    fn made_anew(&self, before: &Record, chosen: Host) -> Record {
        let mut record = before.clone();
        record.version += 1;
        record.term += 1;
        record.owner = chosen;
        for host in self.hosts() {
            record.members[host] = match before.members[host] {
                _ if host == chosen => Member::Active,
                Member::Active if self.breaks(Mutation::KeepGivenUp) => Member::Active,
                Member::Active | Member::None => Member::None,
                Member::Away { left } if self.breaks(Mutation::KeepLeft) => Member::Away { left },
                Member::Away { .. } => Member::Away { left: Lsn::default() },
            };
        }
        record
    }

    /// The first owner after that has chosen `chosen`: its content is what clients see from now on.
    /// Reads that are under way are answered by nobody.
    pub(super) fn go_on_from(&mut self, state: &mut State, chosen: Host) {
        state.given_up.is_open = false;
        for read in Few::below(self.setup.reads).each() {
            if state.clients.reads[read] != ReadState::New {
                state.clients.reads[read] = ReadState::Over;
            }
        }
        let values = state.components[chosen].values;
        self.orders.begin_anew(values, &mut state.clients);
    }
}
