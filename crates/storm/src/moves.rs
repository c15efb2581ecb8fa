// SPDX-License-Identifier: Apache-2.0
//! Copies of volumes are moved to other hosts, and called back, while hosts, links and devices fail
//! (rules 38-40).

use crate::campaign::{SeedRun, Violation};
use crate::fault::Fault;
use base::{ComponentId, HostId};
use directory::{ComponentState, ObjectRecord};

/// The random numbers of this story.
const STREAM: u64 = 19;

/// What happens next to a replacement that was asked for.
struct Asked {
    owner: Option<usize>,
    old: usize,
    new: usize,
    component: ComponentId,
}

impl SeedRun {
    /// A host is asked to move a random copy of a random object to a random host, or to call that
    /// off.
    pub(crate) fn move_copy(&mut self, index: usize) {
        let records: Vec<ObjectRecord> = self.records().collect();
        if records.is_empty() {
            return;
        }
        let record = &records[self.rng.below(records.len() as u64) as usize];
        let components = &record.components;
        let component = components[self.rng.below(components.len() as u64) as usize].id;
        let to = 1 + self.rng.below(self.cluster.machines.len() as u64) as u32;
        let to = (self.rng.below(5) > 0).then_some(HostId(to));
        self.cluster.replace(index, record.id, component, to);
    }

    /// Copies of one object move. At a chosen moment of each move something fails, or somebody
    /// changes his mind.
    pub(crate) fn moves(&mut self) -> Result<(), Violation> {
        self.with_stream(STREAM, |run| {
            for _ in 0..2 + run.one_of(4) {
                run.one_move()?;
                run.pass(0, 5000)?;
                if run.one_of(3) > 0 {
                    run.cluster.world.heal_all();
                    run.boot_what_is_down(false);
                }
            }
            Ok(())
        })
    }

    fn one_move(&mut self) -> Result<(), Violation> {
        let Some(asked) = self.ask_for_a_move() else {
            return self.pass(0, 3000);
        };
        let component = asked.component;
        let is_new = move |record: &ObjectRecord, wanted: Option<ComponentState>| {
            let components = &mut record.components.iter();
            components.any(|c| {
                c.replaces == Some(component) && wanted.is_none_or(|wanted| c.state == wanted)
            })
        };
        match self.one_of(5) {
            0 => self.pass(0, 300)?,
            1 => self.until(move |record| is_new(record, None))?,
            2 => self.until(move |record| is_new(record, Some(ComponentState::Resyncing)))?,
            3 => {
                self.until(move |record| is_new(record, Some(ComponentState::Resyncing)))?;
                self.pass(0, 200)?;
            }
            _ => self.until(move |record| record.components.iter().all(|c| c.id != component))?,
        }
        self.decisive();
        self.disturb(&asked);
        Ok(())
    }

    /// Asks some host to move a copy of the round's object to one that has none.
    fn ask_for_a_move(&mut self) -> Option<Asked> {
        let record = self.record()?;
        let index = |host: HostId| host.0 as usize - 1;
        let taken: Vec<usize> = record.components.iter().map(|c| index(c.host)).collect();
        let hosts = 0..self.cluster.machines.len();
        let free: Vec<usize> = hosts.filter(|host| !taken.contains(host)).collect();
        if free.is_empty() {
            return None;
        }
        let new = free[self.rng.below(free.len() as u64) as usize];
        let components = &record.components;
        let old = components[self.rng.below(components.len() as u64) as usize];
        let owner = record.owner.map(|owner| index(owner.host));
        let at = self.any_host();
        let to = Some(HostId(self.cluster.machines[new].number));
        self.cluster.replace(at, record.id, old.id, to);
        Some(Asked { owner, old: index(old.host), new, component: old.id })
    }

    fn disturb(&mut self, asked: &Asked) {
        let owner = asked.owner.unwrap_or(asked.old);
        match self.one_of(9) {
            0 => self.take_down_somehow(owner),
            1 => self.take_down_somehow(asked.old),
            2 => self.take_down_somehow(asked.new),
            3 => self.isolate(owner),
            4 => self.isolate(asked.new),
            5 => {
                let Some(record) = self.record() else { return };
                let at = self.any_host();
                self.cluster.replace(at, record.id, asked.component, None);
            }
            6 => {
                let at = self.any_host();
                self.inject_at(Fault::MoveCopy, at);
            }
            7 => self.inject(Fault::DirectoryCut),
            _ => {}
        }
    }

    /// Whether every component of every record is active, and what was taken out is deleted.
    pub(crate) fn is_settled(&self) -> bool {
        self.records().all(|record| {
            let mut components = record.components.iter();
            record.removed.is_empty() && components.all(|c| c.state == ComponentState::Active)
        })
    }
}
