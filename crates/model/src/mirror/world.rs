// SPDX-License-Identifier: Apache-2.0
//! What happens by itself: hosts crash, leases and grants end, frames and CASes arrive.

use super::moves::{Moves, answer};
use super::mutation::Mutation;
use super::setup::{Commits, Order, Resend};
use super::state::{Few, Host, Kind, State};
use super::step::Step;

impl Moves<'_> {
    /// A host that is down can start. Until then nothing else happens there.
    pub(super) fn restart(&mut self, host: Host) {
        let mut next = self.from.clone();
        next.up.add(host);
        if !self.has_grants() {
            // The lease key of its earlier run goes away: the device lock proves that run dead
            // (22).
            next.leases.keys.remove(host);
            next.leases.held.remove(host);
        }
        self.go(Step::Restart(host), next);
    }

    /// A crash takes the owner, the lease, and frames that are not durable.
    pub(super) fn crash(&mut self, host: Host) {
        if self.from.budget.crashes == 0 {
            return;
        }
        let mut next = self.from.clone();
        next.budget.crashes -= 1;
        next.up.remove(host);
        next.leases.held.remove(host);
        next.condemned[host] = None;
        self.stop(&mut next, host);
        if self.breaks(Mutation::ForgetGrants) {
            next.leases.grants_given[host] = Few::NONE;
        }
        if self.breaks(Mutation::TermNotDurable) {
            next.components[host].term = 1;
        }
        next.frames.retain(|frame| !(frame.is_accepted && frame.to == host));
        self.go(Step::Crash(host), next);
    }

    /// A lease of the directory ends first at its host, then in the directory (rule 48).
    pub(super) fn lease(&mut self, host: Host) {
        if self.has_grants() {
            return;
        }
        let is_held = self.from.leases.held.has(host);
        if is_held && self.from.budget.lapses > 0 && self.from.owners[host].is_some() {
            let mut next = self.from.clone();
            next.budget.lapses -= 1;
            next.leases.held.remove(host);
            self.go(Step::LeaseEndsAtHost(host), next);
        }
        if is_held {
            return;
        }
        let mut next = self.from.clone();
        next.leases.held.add(host);
        next.leases.keys.add(host);
        // Rule 21: the lease first, then the record.
        let term = self.from.record.term;
        let is_other = next.owners[host].as_ref().is_some_and(|owner| owner.record.term != term);
        if is_other && !self.breaks(Mutation::RegainWithoutLook) {
            self.stop(&mut next, host);
        }
        self.go(Step::LeaseIsWonAgain(host), next);
    }

    /// The keys of hosts that lost their lease, or died, leave the directory.
    pub(super) fn lease_keys(&mut self) {
        if self.has_grants() {
            return;
        }
        for host in self.from.leases.keys.without(self.from.leases.held).each() {
            let mut next = self.from.clone();
            next.leases.keys.remove(host);
            self.go(Step::LeaseEndsInDirectory(host), next);
        }
    }

    /// Grants to the owner on `host` are given. They run out at that host first (rule 52a).
    pub(super) fn grants_of_owner(&mut self, host: Host, term: u8) {
        if !self.has_grants() {
            return;
        }
        for other in self.hosts().filter(|&other| other != host) {
            let is_held = self.from.leases.grants_held[host].has(other);
            let knows_owner = self.from.components[other].term == term;
            if self.from.up.has(other) && !is_held && knows_owner {
                let mut next = self.from.clone();
                next.leases.grants_held[host].add(other);
                next.leases.grants_given[other].add(host);
                self.go(Step::Grant(other, host), next);
            }
            if self.from.budget.lapses > 0 && is_held {
                let mut next = self.from.clone();
                next.budget.lapses -= 1;
                next.leases.grants_held[host].remove(other);
                self.go(Step::GrantEndsAtOwner(host, other), next);
            }
        }
    }

    /// Grants run out at the hosts that gave them, once no owner relies on them.
    pub(super) fn grants_given(&mut self) {
        if !self.has_grants() {
            return;
        }
        for from in self.hosts() {
            for to in self.from.leases.grants_given[from].each() {
                if to != from && !self.from.leases.grants_held[to].has(from) {
                    let mut next = self.from.clone();
                    next.leases.grants_given[from].remove(to);
                    self.go(Step::GrantEndsAtComponent(from, to), next);
                }
            }
        }
    }

    /// Each CAS on its way can land, however late (rule 16).
    pub(super) fn directory(&mut self) {
        for (at, attempt) in self.from.attempts.iter().enumerate() {
            if attempt.base == self.from.record.version {
                let mut next = self.from.clone();
                next.record = next.attempts.remove(at).next;
                self.go(Step::Land(attempt.next.owner), next);
            }
        }
    }

    /// Each frame on its way can arrive. Each frame that was accepted can become durable.
    pub(super) fn frames(&mut self) {
        for (at, frame) in self.from.frames.iter().enumerate() {
            let component = &self.from.components[frame.to];
            let is_for_it = component.exists && component.id == frame.id;
            if !self.from.up.has(frame.to) || !is_for_it {
                continue;
            }
            if !frame.is_accepted {
                if self.refuses(component.term, component.seat, frame) {
                    continue;
                }
                if self.setup.commits == Commits::InFlight {
                    self.accept(at);
                    continue;
                }
            }
            if self.setup.order == Order::Lsn
                || self.breaks(Mutation::ArrivalOrder)
                || self.is_next_of_session(at)
            {
                let mut next = self.from.clone();
                self.apply(&mut next, at);
                let step = Step::Apply(frame.to, frame.block, frame.value, frame.lsn);
                self.go(step, next);
            }
        }
    }

    /// Whether nothing before frame `at` of its session is still on its way (rule 4).
    fn is_next_of_session(&self, at: usize) -> bool {
        let frame = &self.from.frames[at];
        let session = (frame.to, frame.from, frame.term, frame.seat);
        let mut others = self.from.frames.iter();
        !others.any(|f| (f.to, f.from, f.term, f.seat) == session && f.lsn < frame.lsn)
    }

    fn accept(&mut self, at: usize) {
        let frame = self.from.frames[at];
        let mut next = self.from.clone();
        next.frames[at].is_accepted = true;
        next.frames.sort_unstable();
        if self.breaks(Mutation::AnswerWhenReceived) {
            answer(&mut next, &frame);
        }
        self.go(Step::Accept(frame.to, frame.block, frame.lsn), next);
    }

    /// Frame `at` is durable, and its owner hears of it (rule 4).
    fn apply(&self, state: &mut State, at: usize) {
        let frame = state.frames.remove(at);
        let component = &mut state.components[frame.to];
        if self.setup.resend == Resend::Once
            && !self.breaks(Mutation::WriteAgain)
            && frame.value > 0
        {
            component.requests.add(frame.value - 1);
        }
        let is_forced = self.setup.order == Order::Session
            || self.breaks(Mutation::CopyOverNewer) && frame.kind == Kind::Copy;
        let held = component.lsns[frame.block];
        if frame.lsn > held || is_forced {
            component.values[frame.block] = frame.value;
            component.lsns[frame.block] = frame.lsn.max(held);
        }
        component.commit = component.commit.max(frame.commit);
        answer(state, &frame);
    }
}
