// SPDX-License-Identifier: Apache-2.0
//! Ownership: take-over from claim to first I/O (rules 22-29), stepping down (20), what becomes
//! of the owner's own CASes (15, 16).

use super::moves::{Moves, Outgoing};
use super::mutation::Mutation;
use super::setup::Resend;
use super::state::{
    Attempt, BLOCKS_MAX, Few, HOSTS_MAX, Host, InFlight, Kind, Load, Lsn, Member, Owner, Phase,
    Record, Row, State,
};
use super::step::Step;

/// An owner of `record` that no component has answered yet.
pub(super) fn new_owner(record: Record, phase: Phase) -> Owner {
    Owner {
        phase,
        record,
        pending: None,
        counter: 1,
        fence_commit: Lsn::default(),
        in_flight: Vec::new(),
        seats: Row([0; HOSTS_MAX]),
        requests: Few::NONE,
        fenced: Few::NONE,
        tails: Row([Row([Lsn::default(); BLOCKS_MAX]); HOSTS_MAX]),
        returning: None,
    }
}

/// The fence round is over. Next the components that answered have to be made equal.
fn choose_next(owner: &mut Owner) {
    owner.phase = Phase::Choosing;
    owner.fenced = owner.fenced.within(owner.record.active());
    owner.returning = None;
}

impl Moves<'_> {
    /// Rule 22. With grants the lease key is a hint only (52d).
    pub(super) fn take_over(&mut self, host: Host) {
        let from = self.from;
        let is_free = from.record.owner == host
            || !from.leases.keys.has(from.record.owner)
            || self.breaks(Mutation::TakeOverAtOnce)
            || self.has_grants();
        let may_ask = from.leases.held.has(host) || self.has_grants();
        if from.owners[host].is_some()
            || !may_ask
            || !is_free
            || from.record.term >= self.setup.terms
        {
            return;
        }
        let mut next = from.clone();
        next.record.version += 1;
        next.record.term += 1;
        next.record.owner = host;
        next.owners[host] = Some(new_owner(next.record.clone(), Phase::Fencing));
        self.go(Step::TakeOver(host, next.record.term), next);
    }

    /// An owner looks at the record. It learns that it is no owner any more, or what became of its
    /// CAS.
    pub(super) fn look_at_record(&mut self, host: Host, owner: &Owner) {
        if owner.record.term != self.from.record.term {
            self.step_down(host);
        }
        let Some(pending) = &owner.pending else { return };
        if *pending == self.from.record {
            let mut next = self.from.clone();
            let owner = next.owner(host);
            owner.record = pending.clone();
            owner.pending = None;
            let is_active = |target| pending.members[target] == Member::Active;
            if owner.returning.is_some_and(|returning| is_active(returning.target)) {
                owner.end_return();
            }
            if owner.phase == Phase::Fencing {
                choose_next(owner);
            }
            self.go(Step::Learn(host), next);
        } else if self.from.record.version >= pending.version {
            self.step_down(host);
        }
    }

    fn step_down(&mut self, host: Host) {
        let mut next = self.from.clone();
        self.stop(&mut next, host);
        self.go(Step::Resign(host), next);
    }

    /// Each active component can answer the fence (rule 24), and the round can end with what
    /// answered so far (rules 25, 26).
    pub(super) fn fencing(&mut self, host: Host, owner: &Owner) {
        if owner.pending.is_some() {
            return;
        }
        for at in self.hosts() {
            let is_asked =
                owner.record.members[at] == Member::Active || self.breaks(Mutation::AbsentServes);
            if is_asked && !owner.fenced.has(at) && self.answers_fence(host, owner, at) {
                self.fence(host, at, owner);
            }
        }
        if !owner.fenced.is_empty() {
            self.end_fencing(host, owner);
        }
    }

    /// Whether the component of `at` can answer a fence of `owner` on `host` now.
    fn answers_fence(&self, host: Host, owner: &Owner, at: Host) -> bool {
        let mut granted = self.from.leases.grants_given[at];
        granted.remove(host); // what it granted to the one who asks does not matter
        granted.remove(at); // rule 52c: the owner on its own host is stopped in the same step
        let may_fence =
            !self.has_grants() || granted.is_empty() || self.breaks(Mutation::FenceIgnoresGrants);
        may_fence && self.takes_fence(at, owner)
    }

    /// Whether the component of `at` is up, knows no later term, and has nothing in flight to its
    /// device (rules 8, 24).
    pub(super) fn takes_fence(&self, at: Host, owner: &Owner) -> bool {
        let is_drained = self.breaks(Mutation::FenceWithoutDrain) || !self.from.has_accepted(at);
        self.from.up.has(at) && self.from.components[at].term <= owner.record.term && is_drained
    }

    fn fence(&mut self, host: Host, at: Host, owner: &Owner) {
        let mut next = self.from.clone();
        if self.has_grants() && at != host {
            self.stop(&mut next, at); // rule 52c
        }
        let component = self.from.components[at];
        next.components[at].term = owner.record.term;
        let owner = next.owner(host);
        owner.fenced.add(at);
        owner.seats[at] = component.seat;
        owner.fence_commit = owner.fence_commit.max(component.commit);
        owner.tails[at] = component.lsns;
        self.go(Step::Fence(host, at), next);
    }

    /// Components that did not answer leave by CAS with `left` := K, before the first I/O (rule
    /// 26).
    fn end_fencing(&mut self, host: Host, owner: &Owner) {
        let unreached = owner.record.active().without(owner.fenced);
        let left = if self.breaks(Mutation::LeftFromNewTerm) {
            Lsn::before(owner.record.term)
        } else {
            owner.fence_commit // rule 17
        };
        let mut record = owner.record.clone();
        unreached.each().for_each(|at| record.members[at] = Member::Away { left });
        if self.breaks(Mutation::AbsentServes) {
            owner.fenced.each().for_each(|at| record.members[at] = Member::Active);
        }
        let mut next = self.from.clone();
        if record == owner.record || self.breaks(Mutation::ServeUnfenced) {
            choose_next(next.owner(host));
        } else if self.breaks(Mutation::ServeBeforeAbsent) {
            next.owner(host).record = record;
            choose_next(next.owner(host));
        } else if self.from.budget.absences > 0 {
            record.version += 1;
            next.budget.absences -= 1;
            self.propose(&mut next, host, record);
        } else {
            return;
        }
        self.go(Step::FenceDone(host), next);
    }

    /// Sends a CAS. Until its outcome is known both records count (rules 3, 16).
    pub(super) fn propose(&self, state: &mut State, host: Host, next: Record) {
        let owner = state.owner(host);
        let base = owner.record.version;
        owner.pending = Some(next.clone());
        state.attempts.push(Attempt { base, next });
    }

    /// Any component that answered can be the one that the others are made equal to (rule 27).
    pub(super) fn choosing(&mut self, host: Host, owner: &Owner) {
        for chosen in owner.fenced.each() {
            let component = &self.from.components[chosen];
            if self.from.up.has(chosen) && component.term == owner.record.term {
                self.choose(host, owner, chosen);
            }
        }
    }

    fn choose(&mut self, host: Host, owner: &Owner, chosen: Host) {
        let mut next = self.from.clone();
        if next.given_up.is_open && owner.record.term > next.given_up.term {
            self.go_on_from(&mut next, chosen);
        }
        next.owner(host).phase = Phase::Reconciling;
        let others = owner.record.active().without(Few::of(chosen));
        for block in 0..self.setup.blocks {
            let is_tail = |at: Host| owner.tails[at][block] > owner.fence_commit;
            let is_needed = owner.fenced.each().any(is_tail) && !others.is_empty();
            if is_needed && !self.breaks(Mutation::NoReconcile) {
                self.make_equal(&mut next, (host, chosen), block, others);
            }
        }
        // The copies say whose requests they carry (rule 46): here all of them do so at once.
        let requests = self.from.components[chosen].requests;
        if self.setup.resend == Resend::Once {
            next.components.0.iter_mut().for_each(|component| component.requests = requests);
        }
        let owner = next.owner(host);
        owner.requests = requests;
        owner.tails = new_owner(owner.record.clone(), Phase::Reconciling).tails;
        owner.fenced = Few::NONE;
        self.go(Step::Choose(host, chosen), next);
    }

    /// Copies `block` of the chosen one to all others with an lsn of the new term.
    fn make_equal(
        &self,
        next: &mut State,
        (host, chosen): (Host, Host),
        block: u8,
        mut others: Few,
    ) {
        let value = self.from.components[chosen].values[block];
        let owner = next.owner(host);
        let mut answered = Few::of(chosen);
        if self.breaks(Mutation::ServeUnfenced) {
            answered = answered.and(others.without(owner.fenced));
            others = others.within(owner.fenced);
        }
        let lsn = owner.next_lsn();
        let load = Load::Reconcile;
        owner.in_flight.push(InFlight { load, block, lsn, answered, is_deferred: false });
        self.send(next, host, others, Outgoing { block, value, lsn, kind: Kind::Write });
    }

    /// The first I/O is possible once the copies are everywhere (rule 29).
    pub(super) fn serve(&mut self, host: Host, owner: &Owner) {
        let required = self.required(owner);
        let is_equal = owner.in_flight.iter().all(|entry| entry.answered.covers(required));
        if owner.pending.is_none() && is_equal {
            let mut next = self.from.clone();
            let owner = next.owner(host);
            owner.phase = Phase::Serving;
            owner.in_flight.clear();
            owner.fence_commit = Lsn::default();
            self.go(Step::Serve(host), next);
        }
    }

    /// An owner may mark any other component absent, never the last one, and not the one that a
    /// take-over copies from (rules 15, 28).
    pub(super) fn mark_absent(&mut self, host: Host, owner: &Owner) {
        let active = owner.record.active();
        if owner.pending.is_some() || self.from.budget.absences == 0 || active.count() < 2 {
            return;
        }
        for at in active.without(Few::of(host)).each() {
            let is_source = owner.phase == Phase::Reconciling
                && owner.in_flight.iter().any(|entry| entry.answered == Few::of(at));
            if is_source {
                continue;
            }
            let left = self.commit(owner); // rule 17: K when the CAS is composed
            let mut next = self.from.clone();
            next.budget.absences -= 1;
            next.owner(host).end_return();
            self.propose(&mut next, host, owner.record.with(at, Member::Away { left }));
            self.go(Step::MarkAbsent(host, at), next);
        }
    }
}
