// SPDX-License-Identifier: Apache-2.0
//! One mirrored object with its owner, its components, the directory and clients.

mod moves;
mod mutation;
mod orders;
mod recover;
mod replace;
mod resync;
mod serving;
mod setup;
pub(crate) mod state;
mod step;
mod takeover;
mod world;

use crate::search::{Model, Next, room};
use moves::Moves;
use orders::Orders;
use state::{
    Clients, Component, Few, GivenUp, HOSTS_MAX, Host, Leases, Lsn, Member, Phase, READS_MAX,
    ReadState, Record, Row, State, WRITES_MAX, WriteState,
};
use step::Step;

pub use mutation::{Known, MUTATIONS, Mutation, NOT_NEEDED};
pub use setup::{Commits, Joiner, Lease, Order, Resend, SETUPS, Setup};

/// The model within the bounds of one setup.
pub struct Mirror {
    setup: Setup,
    orders: Orders,
}

impl Mirror {
    /// The model of `setup`. At first the object is served by its first host.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        setup.check();
        Self { setup, orders: Orders::default() }
    }
}

impl Model for Mirror {
    type State = State;
    type Step = Step;

    fn initial(&mut self) -> State {
        let setup = &self.setup;
        let member = |host: usize| {
            let is_there = host < usize::from(setup.hosts - setup.spare);
            if is_there { Member::Active } else { Member::None }
        };
        let members = Row(std::array::from_fn(member));
        let record = Record { version: 1, term: 1, owner: 0, members, ids: Row([0; HOSTS_MAX]) };
        let component = |member: &Member| match member {
            Member::None => Component { exists: false, ..Component::empty(0) },
            _ => Component { term: 1, commit: Lsn::before(1), ..Component::empty(0) },
        };
        let components = Row(std::array::from_fn(|host| component(&record.members.0[host])));
        let all = Few::below(setup.hosts);
        let first = takeover::new_owner(record.clone(), Phase::Serving);
        let has_grants = setup.lease == Lease::Grants;
        let granted = if has_grants { Few::of(0) } else { Few::NONE };
        let held = if has_grants { all } else { Few::NONE };
        State {
            record,
            attempts: Vec::new(),
            up: all,
            leases: Leases {
                held: all,
                keys: all,
                grants_held: Row([held, Few::NONE, Few::NONE]),
                grants_given: Row([granted; HOSTS_MAX]),
            },
            components,
            condemned: Row([None; HOSTS_MAX]),
            owners: Row([Some(first), None, None]),
            given_up: GivenUp::default(),
            frames: Vec::new(),
            clients: Clients {
                writes: Row([WriteState::New; WRITES_MAX]),
                resent: Few::NONE,
                reads: Row([ReadState::New; READS_MAX]),
                orders: self.orders.initial(),
            },
            budget: setup.budget,
        }
    }

    fn successors(&mut self, state: &State, out: &mut Vec<Next<Self>>) {
        let mut moves = Moves { setup: self.setup, from: state, orders: &mut self.orders, out };
        for host in 0..self.setup.hosts {
            moves.of_host(host);
        }
        moves.lease_keys();
        moves.grants_given();
        moves.directory();
        moves.recover();
        moves.frames();
    }

    fn heap_bytes(state: &State) -> usize {
        let owners = state.owners.0.iter().flatten();
        let in_flight = owners.map(|owner| room(&owner.in_flight)).sum::<usize>();
        room(&state.frames) + room(&state.attempts) + in_flight
    }

    fn describe(&self, state: &State) -> Vec<String> {
        (0..self.setup.hosts).map(|host| self.describe_component(state, host)).collect()
    }
}

impl Mirror {
    fn describe_component(&self, state: &State, host: Host) -> String {
        let component = &state.components[host];
        let member = match state.record.members[host] {
            Member::Active => "active".into(),
            Member::Away { left } => format!("away, left {left}"),
            Member::None if component.exists => "no part of the object any more".into(),
            Member::None => return format!("no component of {}", step::name(host)),
        };
        let blocks: Vec<_> = (0..self.setup.blocks)
            .map(|block| {
                let value = step::value(component.values[block]);
                format!("{value} (lsn {})", component.lsns[block])
            })
            .collect();
        format!("component of {}: {member}, has {}", step::name(host), blocks.join(", "))
    }
}

impl Moves<'_> {
    /// Everything that can happen at `host`.
    fn of_host(&mut self, host: Host) {
        if !self.from.up.has(host) {
            self.restart(host);
            return;
        }
        self.crash(host);
        self.delete(host);
        self.lease(host);
        self.take_over(host);
        let from = self.from;
        let Some(owner) = &from.owners[host] else { return };
        self.grants_of_owner(host, owner.record.term);
        self.look_at_record(host, owner);
        match owner.phase {
            Phase::Fencing => self.fencing(host, owner),
            Phase::Choosing => self.choosing(host, owner),
            Phase::Reconciling => {
                self.serve(host, owner);
                self.mark_absent(host, owner);
            }
            Phase::Serving => {
                self.writes(host, owner);
                self.completions(host, owner);
                self.reads(host, owner);
                self.resync(host, owner);
                self.mark_absent(host, owner);
                self.membership(host, owner);
            }
        }
    }
}

#[cfg(test)]
mod tests;
