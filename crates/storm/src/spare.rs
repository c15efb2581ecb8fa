// SPDX-License-Identifier: Apache-2.0
//! Spare volumes when all is calm: each is what its history allows, every host lists it so, it has
//! as many copies as can be, and what was written to it. Then it goes for good, and nothing of it
//! stays behind.

use crate::campaign::{SeedRun, Violation};
use crate::fault::Fault;
use crate::life::{
    BLOCK, BLOCKS_APART, BlockState, Ending, PREFIX, SpareDeed, SparePlace, called, ending_of,
    spare_volumes,
};
use crate::plan::Round;
use crate::plan::growth::LIFE_FROM;
use crate::story::Story;
use crate::{mirrors, rest};
use base::{ComponentId, ObjectId, Set, ShardId, VolumeId};
use directory::{
    ComponentState, DELETED_PREFIX, OBJECT_PREFIX, ObjectRecord, VOLUME_PREFIX, VolumeRecord,
};
use diskgroup::ComponentInfo;
use host::Node;
use operator::{Command, CommandReply, StatusReport, VolumeReport};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use volume::Device;

/// How long one host may read a spare volume.
const READ_MAX: Duration = Duration::from_secs(120);

/// Whether spare volumes have a place in a story: nothing is damaged, so that each copy comes back,
/// and the directory stays what it is.
fn has_place(story: Story) -> bool {
    let sets_back = matches!(story, Story::OldBackup | Story::EtcdSnapshot);
    !story.is_damage() && !story.is_beyond() && !sets_back
}

impl SeedRun {
    /// Some rounds have spare volumes beside everything else.
    pub(crate) fn begin_life(&self, round: &Round) {
        // What is left of a directory that was set back an operator deletes, whosever it is.
        if self.plan.seed < LIFE_FROM || !has_place(round.story) || self.log.went_back() {
            return;
        }
        let mut life = self.life.borrow_mut();
        life.is_on = life.rng.below(2) == 0;
    }

    /// Nobody asks for anything more in this round.
    pub(crate) fn stop_life(&self) {
        self.life.borrow_mut().is_on = false;
    }

    /// Spare volumes go on, if there are any.
    pub(crate) fn live(&self) -> Result<(), Violation> {
        let mut life = self.life.borrow_mut();
        if life.is_on || life.is_begun {
            let is_ahead = self.faults.iter().any(|(f, n)| f == Fault::WallJump && n > 0);
            life.history.may_age = is_ahead;
            life.go_on(&self.cluster, self.object_bytes());
        }
        match &life.wrong {
            Some(what) => Err(Violation::Record(what.clone())),
            None => Ok(()),
        }
    }

    /// The largest object that a volume may have.
    fn object_bytes(&self) -> u64 {
        self.plan.limits.creation.object_sectors.saturating_mul(base::SECTOR_SIZE)
    }

    /// Checks the round's spare volume, and has it go for good.
    pub(crate) fn end_life(&mut self) -> Result<(), Violation> {
        if !self.life.borrow().is_begun {
            return Ok(());
        }
        self.wait("commands about spare volumes over", |run| {
            let life = run.life.borrow();
            life.asked.is_none() && run.cluster.world.now() >= life.calm_at
        })?;
        self.look_at_life();
        self.life.borrow_mut().history.calm();
        self.wait("spare volumes listed as they are", |run| run.is_listed())?;
        self.wait("spare volumes with all copies that can be", |run| run.is_spare_settled())?;
        self.wait("a spare volume that can be used", |run| run.is_back())?;
        self.check_blocks()?;
        self.run_for(rest::SETTLE)?;
        let compared = mirrors::compare(&self.cluster, |host| self.is_excused(host));
        compared.map_err(Violation::Mirrors)?;
        self.wait("no spare volume", |run| run.is_gone())?;
        self.wait("nothing left of spare volumes", |run| {
            let left = run.what_is_left();
            tracing::debug!(?left, "of spare volumes");
            left.is_none()
        })
        .map_err(|stuck| match self.what_is_left() {
            Some(left) => Violation::Leaked(left),
            None => stuck,
        })?;
        base::hit(base::Probe::SpareEnded);
        let mut life = self.life.borrow_mut();
        life.is_begun = false;
        Ok(())
    }

    fn look_at_life(&self) {
        self.life.borrow_mut().look(&self.cluster, None);
    }

    /// Asks any host, and notes what came of it.
    fn do_to_spare(&mut self, command: Command) -> bool {
        let host = self.any_host();
        let answer = self.ask(host, command.clone());
        let deed = SpareDeed::Command(command);
        let ending = ending_of(&deed, answer);
        self.life.borrow_mut().note(&self.cluster, &deed, ending);
        ending == Ending::Done
    }

    /// Whether every host lists the spare volumes as the records have them.
    fn is_listed(&self) -> bool {
        let records = spare_volumes(&self.cluster);
        let (trashed, there): (Vec<_>, Vec<_>) =
            records.into_iter().partition(|record| record.trashed.is_some());
        let ids: Set<String> = trashed.iter().map(|record| record.id.to_string()).collect();
        (0..self.cluster.machines.len()).all(|index| {
            let Some(CommandReply::Ok(value)) = self.ask(index, Command::Status) else {
                return false;
            };
            let Ok(status) = serde_json::from_value::<StatusReport>(value) else { return false };
            let mine = status.volumes.iter().filter(|volume| volume.name.starts_with(PREFIX));
            let mine: Vec<&VolumeReport> = mine.collect();
            let old = status.trash.iter().filter(|volume| volume.name.starts_with(PREFIX));
            mine.len() == there.len()
                && there.iter().all(|record| mine.iter().any(|one| is_reported(record, one)))
                && old.map(|volume| volume.id.clone()).collect::<Set<_>>() == ids
        })
    }

    /// Whether each object of a spare volume has as many copies as can be, all of them active.
    pub(crate) fn is_spare_settled(&self) -> bool {
        if !self.life.borrow().is_begun {
            return true;
        }
        let places = self.places();
        spare_volumes(&self.cluster).iter().all(|volume| {
            // Some were made while more could be apart than now: those stay.
            let copies = usize::from(volume.ftt) + 1;
            let wanted = copies.min(places)..=copies;
            let home = self.home_of(volume);
            let objects = volume.objects.iter().map(|id| self.cluster.records.of_id(*id));
            objects.into_iter().all(|object| {
                object.is_some_and(|object| {
                    let mut components = object.components.iter();
                    let is_at_home = |at: ShardId| home.as_ref().is_none_or(|h| h.contains(&at));
                    object.removed.is_empty()
                        && wanted.contains(&components.len())
                        && components
                            .all(|c| c.state == ComponentState::Active && is_at_home(c.shard))
                })
            })
        })
    }

    /// The shards of the host that a volume is kept on, where it is in the cluster.
    fn home_of(&self, volume: &VolumeRecord) -> Option<Vec<ShardId>> {
        let name = volume.kept_on.as_ref()?;
        let machines = self.cluster.machines.iter().enumerate();
        let members = machines.filter(|(index, _)| {
            self.plan.host_of(*index) == *name && self.cluster.node(*index).is_some()
        });
        let home: Vec<ShardId> = members.map(|(_, machine)| ShardId(machine.number)).collect();
        (!home.is_empty()).then_some(home)
    }

    /// Whether a volume is a spare one that is to have more copies than can be apart: it is never
    /// whole.
    pub(crate) fn is_never_whole(&self, volume: &VolumeReport) -> bool {
        volume.name.starts_with(PREFIX) && usize::from(volume.ftt) + 1 > self.places()
    }

    fn place(&self) -> SparePlace {
        self.life.borrow().history.last.place.clone()
    }

    /// Whether there is no spare volume that was deleted and can be brought back.
    fn is_back(&mut self) -> bool {
        let SparePlace::Trashed(volume) = self.place() else { return true };
        self.do_to_spare(Command::VolumeUndelete { volume, name: None })
    }

    /// Whether there is no spare volume.
    fn is_gone(&mut self) -> bool {
        match self.place() {
            SparePlace::Unmade | SparePlace::Gone => true,
            SparePlace::There(name) => {
                self.do_to_spare(Command::VolumeDelete { name, for_good: true })
            }
            SparePlace::Trashed(volume) => self.do_to_spare(Command::VolumePurge { volume }),
        }
    }

    /// Reads what was written, and what was not, through every host.
    fn check_blocks(&mut self) -> Result<(), Violation> {
        let SparePlace::There(name) = self.place() else { return Ok(()) };
        let bytes = self.life.borrow().history.last.bytes;
        for index in 0..self.cluster.machines.len() {
            let mut found = None;
            self.wait("a host that reads a spare volume", |run| {
                found = run.read_blocks(index, &name, bytes);
                found.is_some()
            })?;
            let mut life = self.life.borrow_mut();
            for (block, byte) in (0..).zip(found.into_iter().flatten()) {
                let state = life.blocks.entry(block).or_insert_with(BlockState::zero);
                let Some(byte) = byte.filter(|byte| state.can.contains(byte)) else {
                    let host = index + 1;
                    return Err(Violation::Record(format!(
                        "block {block} of spare volume '{name}' is {byte:?} on host{host}, not one \
                         of {:?}",
                        state.can
                    )));
                };
                state.can = vec![byte];
            }
        }
        Ok(())
    }

    /// What each block is all of, if it is one byte. `None`: the host does not answer.
    fn read_blocks(&self, index: usize, name: &str, bytes: u64) -> Option<Vec<Option<u8>>> {
        let env = self.cluster.world.env(self.cluster.machines[index].key)?;
        let node = self.cluster.node(index)?;
        let found = Rc::new(RefCell::new(None));
        let (place, name) = (Rc::clone(&found), name.to_owned());
        let task = env.spawn("last look", async move {
            let read = read_all(&node, &name, bytes).await;
            *place.borrow_mut() = Some(read);
        });
        self.cluster.world.run_until(READ_MAX, || found.borrow().is_some());
        drop(task);
        let found = found.borrow_mut().take();
        found.flatten()
    }

    /// What is there although no volume needs it.
    fn what_is_left(&self) -> Option<String> {
        let entries = self.cluster.records.snapshot().entries;
        if let Some((key, ..)) = entries.iter().find(|(key, ..)| key.starts_with(DELETED_PREFIX)) {
            return Some(format!("the record {key}"));
        }
        let values = |prefix: &'static str| {
            let all = entries.iter().filter(move |(key, ..)| key.starts_with(prefix));
            all.map(|(_, entry, _)| &entry.value)
        };
        let volumes = values(VOLUME_PREFIX).filter_map(|value| VolumeRecord::decode(value).ok());
        let volumes = volumes.filter(|record| !called(record).starts_with(PREFIX));
        let volumes: Set<VolumeId> = volumes.map(|record| record.id).collect();
        let objects = values(OBJECT_PREFIX).filter_map(|value| ObjectRecord::decode(value).ok());
        let objects: Vec<ObjectRecord> = objects.collect();
        if let Some(object) = objects.iter().find(|object| !volumes.contains(&object.volume)) {
            return Some(format!("an object of no volume: {object:?}"));
        }
        let known = objects.iter().flat_map(|object| &object.components);
        let known: Set<ComponentId> = known.map(|component| component.id).collect();
        (0..self.cluster.machines.len()).find_map(|host| self.component_beside(host, &known))
    }

    /// A component on a host that is none of these.
    fn component_beside(&self, host: usize, known: &Set<ComponentId>) -> Option<String> {
        let records = &self.cluster.records;
        let groups = self.cluster.node(host).map(|node| node.groups()).unwrap_or_default();
        groups.iter().find_map(|group| {
            let others = group.components().into_iter().filter(|id| !known.contains(id));
            let mut infos = others.filter_map(|id| Some((id, group.component(id)?)));
            // One that was never used, nor a part of a volume, may stay for hours: it was made for
            // a record that did not come, for its creation failed or its object was deleted
            // meanwhile. Of a creation in several steps the first ones may have been recorded.
            let was_part = |id: ComponentId, object: ObjectId| {
                let record = records.of_id(object).filter(|_| records.was_listed(id));
                record.is_some_and(|record| records.was_volume(record.volume))
            };
            let is_left = |(id, info): &(ComponentId, ComponentInfo)| {
                info.meta.term.0 > 0 || was_part(*id, info.object)
            };
            let left = infos.find(is_left);
            left.map(|(id, info)| format!("component {id} on host{}: {info:?}", host + 1))
        })
    }
}

/// Whether a host reports a volume as its record has it.
fn is_reported(record: &VolumeRecord, report: &VolumeReport) -> bool {
    report.name == record.name
        && report.size_bytes == record.size_bytes
        && report.labels == record.labels
        && report.home.as_ref().map(|home| &home.host) == record.kept_on.as_ref()
        && (report.ftt, report.reserve_percent) == (record.ftt, record.reserve_percent)
        && report.cache_percent == record.cache_percent
}

async fn read_all(node: &Node, name: &str, bytes: u64) -> Option<Vec<Option<u8>>> {
    let device = node.exports().attach(name).ok().filter(|device| device.size() == bytes)?;
    let mut found = Vec::new();
    let length = u64::try_from(BLOCK).unwrap_or(4096);
    for block in 0..bytes / BLOCKS_APART {
        let pieces = device.read(block * BLOCKS_APART, length).await.ok()?;
        let mut read = pieces.iter().flat_map(|piece| piece.iter().copied());
        let first = read.next();
        found.push(first.filter(|first| read.all(|byte| byte == *first)));
    }
    Some(found)
}
