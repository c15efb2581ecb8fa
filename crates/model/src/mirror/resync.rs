// SPDX-License-Identifier: Apache-2.0
//! The return of a component (rules 31-36).

use super::moves::{Moves, Outgoing, is_copy};
use super::mutation::Mutation;
use super::setup::Order;
use super::state::{Few, Host, InFlight, Kind, Load, Lsn, Member, Owner, Return};
use super::step::Step;

impl Moves<'_> {
    /// A component that is away can be let back; one that returns can be copied to, given up, or
    /// become active.
    pub(super) fn resync(&mut self, host: Host, owner: &Owner) {
        if owner.pending.is_some() {
            return;
        }
        match owner.returning {
            None if self.from.budget.returns > 0 => {
                for target in self.hosts() {
                    if let Member::Away { left } = owner.record.members[target]
                        && self.takes_fence(target, owner)
                    {
                        self.begin_return(host, owner, target, left);
                    }
                }
            }
            None => {}
            Some(returning) => {
                for block in returning.dirty.each() {
                    self.copies(host, owner, block);
                }
                let mut next = self.from.clone();
                next.owner(host).end_return();
                self.go(Step::ReturnEnds(host), next);
                self.join(host, owner, returning);
            }
        }
    }

    /// A component that an active one's content can be read from (rule 37).
    fn sources(&self, owner: &Owner) -> impl Iterator<Item = Host> + use<> {
        let from = self.from;
        let (active, term) = (owner.record.active(), owner.record.term);
        let can = |host: &Host| from.up.has(*host) && from.components[*host].term == term;
        let able: Vec<_> = active.each().filter(can).collect();
        able.into_iter()
    }

    /// Fences the target, then: dirty is what the source has above `left`, what the target has
    /// above `left` (rule 33), and what is in flight (rule 32).
    fn begin_return(&mut self, host: Host, owner: &Owner, target: Host, left: Lsn) {
        let Some(source) = self.sources(owner).next() else { return };
        let mut next = self.from.clone();
        next.budget.returns -= 1;
        self.make_anew(&mut next, target, owner.record.ids[target]);
        next.components[target].term = owner.record.term;
        if self.setup.order == Order::Session {
            next.components[target].seat += 1;
        }
        let mut dirty = Few::NONE;
        for block in 0..self.setup.blocks {
            let changed = |host: Host| next.components[host].lsns[block] > left;
            let is_own_tail = changed(target) && !self.breaks(Mutation::ForgetOwnTail);
            let is_in_flight = owner.in_flight.iter().any(|entry| entry.block == block);
            if changed(source) || is_own_tail || is_in_flight {
                dirty.add(block);
            }
        }
        let seat = next.components[target].seat;
        let owner = next.owner(host);
        owner.seats[target] = seat;
        owner.returning = Some(Return { target, dirty });
        self.go(Step::Return(host, target, dirty), next);
    }

    /// A dirty block is copied from any source, with its range locked for lsn and read (rule 34).
    /// It leaves dirty now, not when the copy is answered (rule 32).
    fn copies(&mut self, host: Host, owner: &Owner, block: u8) {
        let is_under_way =
            owner.in_flight.iter().any(|entry| is_copy(entry.load) && entry.block == block);
        let is_locked = owner.in_flight.iter().any(|entry| entry.block == block)
            && !self.breaks(Mutation::CopyWithoutLock);
        if is_under_way || is_locked {
            return;
        }
        for source in self.sources(owner) {
            self.copy(host, source, block);
        }
    }

    fn copy(&mut self, host: Host, source: Host, block: u8) {
        let held = &self.from.components[source];
        let value = held.values[block];
        let mut next = self.from.clone();
        let (old_lsn, clears_late) =
            (self.breaks(Mutation::CopyWithOldLsn), self.breaks(Mutation::ClearDirtyAtAnswer));
        let owner = next.owner(host);
        let Some(returning) = &mut owner.returning else { return };
        if !clears_late {
            returning.dirty.remove(block);
        }
        let target = Few::of(returning.target);
        let lsn = if old_lsn { held.lsns[block] } else { owner.next_lsn() };
        let load = Load::Copy;
        let answered = Few::NONE;
        owner.in_flight.push(InFlight { load, block, lsn, answered, is_deferred: false });
        self.send(&mut next, host, target, Outgoing { block, value, lsn, kind: Kind::Copy });
        self.go(Step::Copy(host, source, block, lsn), next);
    }

    /// Dirty is empty and the target has answered everything: it may become active (rule 35).
    fn join(&mut self, host: Host, owner: &Owner, returning: Return) {
        let is_answered = owner.in_flight.iter().all(|entry| {
            let has_it = entry.answered.has(returning.target);
            !is_copy(entry.load) && (has_it || self.breaks(Mutation::RequireAfterActive))
        });
        let is_filled = returning.dirty.is_empty() || self.breaks(Mutation::JoinUnfilled);
        if is_filled && is_answered {
            let mut next = self.from.clone();
            let record = owner.record.with(returning.target, Member::Active);
            self.propose(&mut next, host, record);
            self.go(Step::Join(host), next);
            self.replace(host, owner, returning.target);
        }
    }
}
