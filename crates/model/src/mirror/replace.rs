// SPDX-License-Identifier: Apache-2.0
//! Components are added to the record, replaced and taken out of it (rules 38-40).

use super::moves::Moves;
use super::mutation::Mutation;
use super::state::{Component, Few, Host, Id, Lsn, Member, Owner, Phase, Record, State};
use super::step::Step;

impl Moves<'_> {
    /// A component on a host without one can be added (rule 38), and any be taken out, but for the
    /// last one that counts (rule 40).
    pub(super) fn membership(&mut self, host: Host, owner: &Owner) {
        debug_assert_eq!(owner.phase, Phase::Serving, "a change of members before the first I/O");
        if owner.pending.is_some() {
            return;
        }
        for at in self.hosts() {
            let member = owner.record.members[at];
            if member == Member::None && self.from.budget.additions > 0 {
                self.add(host, at, owner);
            }
            let is_last = owner.record.active() == Few::of(at);
            if member != Member::None && !is_last && self.from.budget.removals > 0 {
                self.remove(host, at, owner);
            }
        }
    }

    /// Nothing is promised of it: `left` is zero. It is filled as one that returns.
    fn add(&mut self, host: Host, at: Host, owner: &Owner) {
        let mut next = self.from.clone();
        next.budget.additions -= 1;
        let mut record = owner.record.with(at, Member::Away { left: Lsn::default() });
        if !self.breaks(Mutation::SameId) {
            record.ids[at] += 1;
        }
        self.propose(&mut next, host, record);
        self.go(Step::Add(host, at), next);
    }

    fn remove(&mut self, host: Host, at: Host, owner: &Owner) {
        let mut next = self.from.clone();
        next.budget.removals -= 1;
        let proposer = next.owner(host);
        if proposer.returning.is_some_and(|returning| returning.target == at) {
            proposer.end_return();
        }
        self.propose(&mut next, host, owner.record.with(at, Member::None));
        self.go(Step::Remove(host, at), next);
    }

    /// One CAS makes `new`, which is filled, active and takes another one out, whether that counts
    /// or is away (rule 39). A return of the other one that comes first makes the CAS lose.
    pub(super) fn replace(&mut self, host: Host, owner: &Owner, new: Host) {
        for old in self.hosts().filter(|old| *old != new) {
            if owner.record.members[old] != Member::None && self.from.budget.removals > 0 {
                let mut next = self.from.clone();
                next.budget.removals -= 1;
                let mut record = owner.record.with(new, Member::Active);
                record.members[old] = Member::None;
                self.propose(&mut next, host, record);
                self.go(Step::Replace(host, old), next);
            }
        }
    }

    /// A fence makes the component anew, if the host has none of that id. What an earlier one of
    /// the host held is deleted for good.
    pub(super) fn make_anew(&self, state: &mut State, at: Host, id: Id) {
        let component = &mut state.components[at];
        if !component.exists || component.id != id {
            *component = Component::empty(id);
        }
    }

    /// A host deletes its component in two steps: it reads the record, and then deletes (rule 40).
    pub(super) fn delete(&mut self, host: Host) {
        let component = &self.from.components[host];
        if let Some(id) = self.from.condemned[host] {
            let mut next = self.from.clone();
            next.condemned[host] = None;
            if component.exists && component.id == id {
                next.components[host] = Component { exists: false, ..Component::empty(id) };
            }
            self.go(Step::Delete(host), next);
            return;
        }
        let is_given_up = self.from.given_up.copies.has(host);
        if is_given_up && !self.breaks(Mutation::DeleteGivenUp) {
            return; // rule 41a: the record does not note it as removed
        }
        let is_out = |record: &Record| {
            record.members[host] == Member::None || record.ids[host] != component.id
        };
        let is_about_to_be = self.breaks(Mutation::DeleteBeforeKnown)
            && self.from.attempts.iter().any(|attempt| is_out(&attempt.next));
        if component.exists && (is_out(&self.from.record) || is_about_to_be) {
            let mut next = self.from.clone();
            next.condemned[host] = Some(component.id);
            self.go(Step::Condemn(host), next);
        }
    }
}
