// SPDX-License-Identifier: Apache-2.0
//! Writes (rules 1-6), reads (10-12, 52a), and requests that were sent again (46).

use super::moves::{Moves, Outgoing, is_copy};
use super::mutation::Mutation;
use super::setup::{Joiner, Lease, Resend};
use super::state::{Few, Host, InFlight, Kind, Load, Owner, Phase, ReadState, Write, WriteState};
use super::step::Step;

/// A client's request: its first, or a second one for the same write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Request {
    First,
    Again,
}

impl Moves<'_> {
    /// The next new write can be sent to this owner, and unanswered ones can be sent again.
    pub(super) fn writes(&mut self, host: Host, owner: &Owner) {
        if owner.record.term <= self.from.given_up.term {
            return; // its clients are given up too (rule 41a)
        }
        let clients = &self.from.clients;
        let mut all = 0..self.setup.writes;
        if let Some(write) = all.find(|&write| clients.writes[write] == WriteState::New) {
            self.issue(host, owner, write, Request::First);
        }
        if self.setup.resend == Resend::Never || owner.record.term == 1 {
            return;
        }
        for write in 0..self.setup.writes {
            let is_open = clients.writes[write] == WriteState::Sent && !clients.resent.has(write);
            let is_here = owner.in_flight.iter().any(|entry| entry.load == Load::Write(write));
            if !is_open || is_here {
                continue;
            }
            if owner.requests.has(write) {
                self.answer_known(host, write);
            } else {
                self.issue(host, owner, write, Request::Again);
            }
        }
    }

    /// Rule 46: the write is known to have happened; it is answered and not written again.
    fn answer_known(&mut self, host: Host, write: Write) {
        let mut next = self.from.clone();
        next.clients.resent.add(write);
        next.clients.writes[write] = WriteState::Answered;
        let is_possible = self.orders.answered(write, &mut next.clients, &self.setup);
        self.go_with(Step::KnowsResent(host, write), next, is_possible);
    }

    /// Sends `write` to all required components (rule 3). A returning component may get it or not
    /// (rule 32).
    fn issue(&mut self, host: Host, owner: &Owner, write: Write, request: Request) {
        let block = self.setup.block_of(write);
        // Rule 1: no two overlapping writes in flight.
        let is_locked = owner.writes().any(|entry| entry.block == block);
        if is_locked && !self.breaks(Mutation::OverlappingWrites) {
            return;
        }
        let joining = owner.returning.filter(|_| owner.pending.is_none());
        let Some(joining) = joining else {
            self.issue_to(host, owner, (write, request), false);
            return;
        };
        let may_defer = self.setup.joiner == Joiner::Deferred;
        if !may_defer || !joining.dirty.has(block) {
            self.issue_to(host, owner, (write, request), false);
        }
        if may_defer {
            self.issue_to(host, owner, (write, request), true);
        }
    }

    fn issue_to(
        &mut self,
        host: Host,
        before: &Owner,
        (write, request): (Write, Request),
        is_deferred: bool,
    ) {
        let block = self.setup.block_of(write);
        let mut to = self.required(before);
        let mut next = self.from.clone();
        let forgets = self.breaks(Mutation::ForgetDeferredWrite);
        let owner = next.owner(host);
        if let Some(returning) = &mut owner.returning {
            if !is_deferred {
                to.add(returning.target);
            } else if !forgets {
                returning.dirty.add(block);
            }
        }
        if let Some(pending) = &before.pending
            && self.breaks(Mutation::RequireAfterActive)
        {
            to = to.and(pending.active());
        }
        let lsn = owner.next_lsn();
        let load = Load::Write(write);
        owner.in_flight.push(InFlight { load, block, lsn, answered: Few::NONE, is_deferred });
        let frame = Outgoing { block, value: write + 1, lsn, kind: Kind::Write };
        self.send(&mut next, host, to, frame);
        if request == Request::Again {
            next.clients.resent.add(write);
            self.go(Step::Resend(host, write), next);
            return;
        }
        next.clients.writes[write] = WriteState::Sent;
        self.orders.sent(&mut next.clients, &self.setup);
        let step = if is_deferred { Step::WriteDeferred } else { Step::Write };
        self.go(step(host, write, lsn), next);
    }

    /// A write is complete once all required components have it (rule 5), a copy once its target
    /// has it.
    pub(super) fn completions(&mut self, host: Host, owner: &Owner) {
        for (at, entry) in owner.in_flight.iter().enumerate() {
            if is_copy(entry.load) {
                let target = owner.returning.map(|returning| returning.target);
                if target.is_some_and(|target| entry.answered.has(target)) {
                    self.complete_copy(host, at);
                }
                continue;
            }
            let required = self.required(owner);
            let is_complete = entry.answered.covers(required)
                || self.breaks(Mutation::AnswerBeforeAll) && entry.answered.meets(required);
            if is_complete {
                self.complete(host, at);
            }
        }
    }

    fn complete(&mut self, host: Host, at: usize) {
        let mut next = self.from.clone();
        let owner = next.owner(host);
        let entry = owner.in_flight.remove(at);
        // Rule 32: a write that completed without the returning component makes its block dirty
        // there. One that was kept from it made the block dirty when it got its lsn.
        if let Some(returning) = &mut owner.returning {
            let is_missing = !entry.answered.has(returning.target) && !entry.is_deferred;
            if is_missing && !self.setup.breaks(Mutation::ForgetMissedWrite) {
                returning.dirty.add(entry.block);
            }
        }
        let mut is_possible = true;
        if let Load::Write(write) = entry.load
            && next.clients.writes[write] == WriteState::Sent
        {
            next.clients.writes[write] = WriteState::Answered;
            is_possible = self.orders.answered(write, &mut next.clients, &self.setup);
        }
        self.go_with(Step::Complete(host, entry.load), next, is_possible);
    }

    fn complete_copy(&mut self, host: Host, at: usize) {
        let mut next = self.from.clone();
        let clears_late = self.breaks(Mutation::ClearDirtyAtAnswer);
        let owner = next.owner(host);
        let entry = owner.in_flight.remove(at);
        if let Some(returning) = owner.returning.as_mut().filter(|_| clears_late) {
            returning.dirty.remove(entry.block);
        }
        self.go(Step::Complete(host, Load::Copy), next);
    }

    /// The next read can be sent, and can read any component that counts (rule 11).
    pub(super) fn reads(&mut self, host: Host, owner: &Owner) {
        debug_assert_eq!(owner.phase, Phase::Serving, "a read before the first I/O");
        if self.has_grants() && owner.record.term <= self.from.given_up.term {
            return self.answers(host, owner); // cut off, it goes on with what was given up
        }
        let mut all = 0..self.setup.reads;
        let next = all.find(|&read| self.from.clients.reads[read] == ReadState::New);
        if let Some(read) = next {
            for source in self.hosts() {
                let component = &self.from.components[source];
                let is_same_term =
                    component.term == owner.record.term || self.breaks(Mutation::NoTermCheck);
                let is_there = self.from.up.has(source) && is_same_term;
                if !is_there || !self.may_read(owner, source) {
                    continue;
                }
                for block in 0..self.setup.blocks {
                    let value = component.values[block];
                    let mut next = self.from.clone();
                    next.clients.reads[read] =
                        ReadState::Loaded { owner: host, source, block, value };
                    self.orders.sent(&mut next.clients, &self.setup);
                    self.go(Step::Load(host, source, block, value, read), next);
                }
            }
        }
        self.answers(host, owner);
    }

    fn may_read(&self, owner: &Owner, source: Host) -> bool {
        owner.readable().has(source) || self.breaks(Mutation::AbsentServes)
    }

    /// A read is answered if, after its data arrived, its owner still is the only one, its source
    /// still counts, and nothing overlapping is in flight (rules 10-12).
    fn answers(&mut self, host: Host, owner: &Owner) {
        for read in 0..self.setup.reads {
            let ReadState::Loaded { owner: at, source, block, value } =
                self.from.clients.reads[read]
            else {
                continue;
            };
            let is_locked = owner.writes().any(|entry| entry.block == block)
                && !self.breaks(Mutation::ReadsDoNotWait);
            if at != host || is_locked || !self.is_alone(host, owner) {
                continue;
            }
            if !self.may_read(owner, source) {
                continue;
            }
            let mut next = self.from.clone();
            next.clients.reads[read] = ReadState::Over;
            let is_possible = self.orders.returned(read, value, &mut next.clients, &self.setup);
            self.go_with(Step::Answer(host, read, value), next, is_possible);
        }
    }

    /// Whether the owner may believe that there is no other (rules 12, 52a).
    fn is_alone(&self, host: Host, owner: &Owner) -> bool {
        if self.breaks(Mutation::NoLeaseCheck) {
            return true;
        }
        if self.setup.lease == Lease::Directory {
            return self.from.leases.held.has(host);
        }
        let pending = owner.pending.as_ref().map_or(Few::NONE, super::state::Record::active);
        let needed = owner.record.active().and(pending).without(Few::of(host));
        let held = self.from.leases.grants_held[host];
        let is_any = self.breaks(Mutation::AnyGrant) && (held.meets(needed) || needed.is_empty());
        held.covers(needed) || is_any
    }
}
