// SPDX-License-Identifier: Apache-2.0
//! All steps that are possible in one state, and what must be true after each.

use super::Mirror;
use super::mutation::Mutation;
use super::orders::Orders;
use super::setup::{Lease, Order, Setup};
use super::state::{Few, Frame, Host, Kind, Load, Lsn, Owner, Phase, ReadState, State, Value};
use super::step::Step;
use crate::search::Next;

/// An answer that no order of the history explains.
pub(super) const NOT_LINEARIZABLE: &str = "the clients' history is not linearizable";
/// Rules 27, 35: with nothing in flight, active components hold the same.
const NOT_EQUAL: &str = "active components differ at rest";
/// Rule 5: what is answered is on every active component.
const LOST: &str = "a completed write is lost, or one that was overwritten is back";
/// Rule 15: the last active component is never marked absent.
const NO_MEMBER: &str = "no component is active in the record";

/// Rules 39, 40: what the record counts is never deleted.
const DELETED: &str = "a component that counts was deleted";

/// Rule 41a: what an operator gave up is kept until he says otherwise.
const GIVEN_UP_DELETED: &str = "a component that was given up was deleted";

/// The state whose successors are wanted, and where they are put.
pub(super) struct Moves<'a> {
    pub(super) setup: Setup,
    pub(super) from: &'a State,
    pub(super) orders: &'a mut Orders,
    pub(super) out: &'a mut Vec<Next<Mirror>>,
}

impl Moves<'_> {
    pub(super) fn breaks(&self, mutation: Mutation) -> bool {
        self.setup.breaks(mutation)
    }

    pub(super) fn hosts(&self) -> impl Iterator<Item = Host> + use<> {
        0..self.setup.hosts
    }

    pub(super) fn has_grants(&self) -> bool {
        self.setup.lease == Lease::Grants
    }

    /// A step that tells clients nothing.
    pub(super) fn go(&mut self, step: Step, state: State) {
        self.go_with(step, state, true);
    }

    /// A step after which `is_possible` tells whether the clients' history is still linearizable.
    pub(super) fn go_with(&mut self, step: Step, mut state: State, is_possible: bool) {
        self.forget_dead(&mut state);
        let broken = if is_possible { self.broken_at_rest(&state) } else { Some(NOT_LINEARIZABLE) };
        self.out.push(Next { step, state, broken });
    }

    /// Forgets what can never have an effect, because it is as good as lost: a CAS whose version
    /// has passed, a frame that its component will refuse for ever (rules 8, 9).
    fn forget_dead(&self, state: &mut State) {
        let version = state.record.version;
        state.attempts.retain(|attempt| attempt.base == version);
        if !self.breaks(Mutation::TermNotDurable) {
            let components = state.components;
            let is_alive = |frame: &Frame| {
                let component = &components[frame.to];
                let is_for_it = component.exists && component.id == frame.id;
                let refuses = || self.refuses(component.term, component.seat, frame);
                is_for_it && (frame.is_accepted || !refuses())
            };
            state.frames.retain(is_alive);
        }
    }

    /// Whether a component of this term and seat refuses `frame` (rules 8, 9).
    pub(super) fn refuses(&self, term: u8, seat: u8, frame: &Frame) -> bool {
        let is_old = frame.term < term && !self.breaks(Mutation::NoTermCheck);
        let is_other = self.setup.order == Order::Session
            && frame.seat != seat
            && !self.breaks(Mutation::NoSeatCheck);
        is_old || is_other
    }

    /// Checks that all components that count exist, and an owner with nothing in flight: its active
    /// components must be equal, and must hold what clients were told.
    fn broken_at_rest(&self, state: &State) -> Option<&'static str> {
        let active = state.record.active();
        if active.is_empty() {
            return Some(NO_MEMBER);
        }
        let is_there = |host: Host| {
            let component = &state.components[host];
            component.exists && component.id == state.record.ids[host]
        };
        if !active.each().all(is_there) {
            return Some(DELETED);
        }
        if !state.given_up.copies.each().all(|host| state.components[host].exists) {
            return Some(GIVEN_UP_DELETED);
        }
        for owner in state.owners.0.iter().flatten() {
            let is_at_rest = owner.phase == Phase::Serving
                && owner.record == state.record
                && owner.pending.is_none()
                && owner.writes().next().is_none();
            if !is_at_rest {
                continue;
            }
            let mut active = owner.record.active().each().map(|host| &state.components[host]);
            let Some(first) = active.next() else { continue };
            if active.any(|other| other.values != first.values) {
                return Some(NOT_EQUAL);
            }
            if !self.orders.allow(state.clients.orders, &first.values, &self.setup) {
                return Some(LOST);
            }
        }
        None
    }

    /// The owner on `host` drops everything (rule 20); its clients hear nothing more of it.
    pub(super) fn stop(&mut self, state: &mut State, host: Host) {
        state.owners[host] = None;
        state.leases.grants_held[host] = Few::NONE;
        for read in 0..self.setup.reads {
            let loaded = state.clients.reads[read];
            let is_here = matches!(loaded, ReadState::Loaded { owner, .. } if owner == host);
            if is_here {
                state.clients.reads[read] = ReadState::Over;
                self.orders.given_up(read, &mut state.clients, &self.setup);
            }
        }
    }

    /// K (rule 6). Until the owner serves it is the K of the fence round. After that it is the lsn
    /// before the oldest write in flight.
    pub(super) fn commit(&self, owner: &Owner) -> Lsn {
        match owner.phase {
            Phase::Serving => {
                let before = owner.writes().map(|entry| entry.lsn.previous());
                before.min().unwrap_or_else(|| owner.given())
            }
            Phase::Choosing | Phase::Reconciling if self.breaks(Mutation::RaiseCommitEarly) => {
                owner.given()
            }
            _ => owner.fence_commit,
        }
    }

    /// Components that a write has to wait for (rules 3, 35): active in the record, or in an
    /// unresolved CAS.
    pub(super) fn required(&self, owner: &Owner) -> Few {
        let active = owner.record.active();
        let Some(pending) = owner.pending.as_ref().map(super::state::Record::active) else {
            return active;
        };
        let takes_away = pending.without(active).is_empty();
        let replaces = !takes_away && !active.without(pending).is_empty();
        if self.breaks(Mutation::CompleteBeforeAbsent) && takes_away
            || self.breaks(Mutation::CompleteBeforeReplaced) && replaces
        {
            return pending;
        }
        if self.breaks(Mutation::RequireAfterActive) {
            return active;
        }
        active.and(pending)
    }

    /// Sends a frame to each of `to`.
    pub(super) fn send(&self, state: &mut State, host: Host, to: Few, what: Outgoing) {
        let owner = state.owner(host).clone();
        let commit = self.commit(&owner);
        for to in to.each() {
            let frame = Frame {
                to,
                id: owner.record.ids[to],
                from: host,
                seat: owner.seats[to],
                term: owner.record.term,
                block: what.block,
                value: what.value,
                lsn: what.lsn,
                commit,
                is_accepted: false,
                kind: what.kind,
            };
            let at = state.frames.binary_search(&frame).unwrap_or_else(|at| at);
            state.frames.insert(at, frame);
        }
    }
}

/// What a frame carries.
pub(super) struct Outgoing {
    pub(super) block: u8,
    pub(super) value: Value,
    pub(super) lsn: Lsn,
    pub(super) kind: Kind,
}

/// The answer to `frame` reaches its owner, if it still serves in that term.
pub(super) fn answer(state: &mut State, frame: &Frame) {
    if let Some(owner) = &mut state.owners[frame.from]
        && owner.record.term == frame.term
    {
        let entries = owner.in_flight.iter_mut();
        for entry in entries.filter(|e| e.lsn == frame.lsn && e.block == frame.block) {
            entry.answered.add(frame.to);
        }
    }
}

/// Whether what is in flight is a copy to a returning component: neither K nor clients wait for it.
pub(super) fn is_copy(load: Load) -> bool {
    load == Load::Copy
}
