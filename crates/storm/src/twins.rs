// SPDX-License-Identifier: Apache-2.0
//! A story about two replicas that are not alike: they come back at once, or one has more of the
//! owner's last writes than the other.

use crate::campaign::{SeedRun, Violation};
use crate::fault::Fault;
use base::{Probe, ShardId};
use directory::{ComponentRecord, ComponentState, ObjectRecord};
use std::time::Duration;

/// The random numbers of this story.
const STREAM: u64 = 27;

/// An owner and two replicas, by the index of their machines.
struct Trio {
    owner: usize,
    replicas: [usize; 2],
}

impl SeedRun {
    /// Clients of three hosts meet in a few blocks meanwhile, so that a write that is sent again
    /// has rivals (rule 46).
    pub(crate) fn twins(&mut self) -> Result<(), Violation> {
        self.while_they_meet(STREAM, Self::unlike)
    }

    fn unlike(&mut self) -> Result<(), Violation> {
        for _ in 0..1 + self.one_of(3) {
            let Some(trio) = self.trio() else { return self.pass(0, 2000) };
            match self.one_of(2) {
                0 => self.return_together(&trio)?,
                _ => self.fall_apart(&trio)?,
            }
            self.pass(0, 6000)?;
            self.cluster.world.heal_all();
            for index in 0..self.cluster.machines.len() {
                self.boot_if_down(index);
            }
            self.until(|record| {
                record.components.iter().all(|one| one.state == ComponentState::Active)
            })?;
        }
        Ok(())
    }

    /// None where the object has fewer than three whole copies now, or no owner with one.
    fn trio(&mut self) -> Option<Trio> {
        let record = self.record()?;
        let machines = &self.cluster.machines;
        let index = |shard: ShardId| machines.iter().position(|one| ShardId(one.number) == shard);
        let owner = index(record.owner?.shard)?;
        let active = record.components.iter().filter(|one| one.state == ComponentState::Active);
        let mut others = active.filter_map(|one| index(one.shard)).filter(|host| *host != owner);
        let (first, second) = (others.next()?, others.next()?);
        let replicas = if self.one_of(2) == 0 { [first, second] } else { [second, first] };
        Some(Trio { owner, replicas })
    }

    /// Both replicas are away, and come back at the same moment. Then something fails while both
    /// are copied to, or when one is whole and the other is not.
    fn return_together(&mut self, trio: &Trio) -> Result<(), Violation> {
        let (owner, [one, other]) = (trio.owner, trio.replicas);
        self.take_down_somehow(one);
        if self.one_of(2) == 0 {
            self.pass(0, 4000)?; // their tails and the lsns at which they left differ
        }
        self.take_down_somehow(other);
        self.until_state(one, ComponentState::Absent)?;
        self.until_state(other, ComponentState::Absent)?;
        self.pass(0, 4000)?;
        if self.one_of(2) == 0 {
            let delay = Duration::from_micros(self.rng.between(100, 300_000));
            self.cluster.world.clog(self.key(owner), self.key(other), delay);
        }
        if self.one_of(2) == 0 {
            self.slow_cache(owner); // what is copied takes longer
        }
        self.boot_if_down(one);
        self.boot_if_down(other);
        let is_both = |record: &ObjectRecord| {
            let is_back = |one: &&ComponentRecord| one.state == ComponentState::Resyncing;
            record.components.iter().filter(is_back).count() >= 2
        };
        match self.one_of(3) {
            0 => {
                self.until(is_both)?;
                base::hit_if(self.record().as_ref().is_some_and(is_both), Probe::TwinsReturned);
            }
            1 => self.until_state(one, ComponentState::Active)?,
            _ => self.until_state(other, ComponentState::Active)?,
        }
        self.pass(0, 300)?;
        match self.one_of(6) {
            0 => {
                self.faults.add(Fault::Reset);
                self.cluster.world.reset_links(self.key(owner), self.key(one));
            }
            1 => self.take_down_somehow(one),
            2 => self.take_down_somehow(other),
            _ => {
                self.decisive();
                let is_crash = self.one_of(4) > 0;
                self.take_down(owner, is_crash);
            }
        }
        Ok(())
    }

    /// One replica hears the owner late or not at all, and the owner dies: the other one alone has
    /// its last writes, which their clients send again to whoever is the next owner.
    fn fall_apart(&mut self, trio: &Trio) -> Result<(), Violation> {
        let (owner, [one, _]) = (trio.owner, trio.replicas);
        let (from, to) = (self.key(owner), self.key(one));
        match self.one_of(3) {
            0 => self.cut(owner, one, true),
            1 => {
                self.faults.add(Fault::OneWay);
                self.cluster.world.cut_one_way(from, to, true);
            }
            _ => self.cluster.world.clog(from, to, Duration::from_millis(900)),
        }
        let term = self.term();
        self.pass(1, 700)?;
        self.decisive();
        self.take_down(owner, true);
        self.pass(0, 300)?;
        self.cluster.world.heal_all();
        self.until_term(term)
    }
}
