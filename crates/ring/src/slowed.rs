// SPDX-License-Identifier: Apache-2.0
//! Disks that behave as slower ones would, for tests and benchmarks.
//!
//! The kernel is given every operation at once; what it answers is held back until the model says
//! that the disk of that kind would have answered. An operation that really takes longer than that
//! ends when it ends. What is read and written, errors and order of durability are the real disk's.

use crate::work::Work;
use base::{Instant, Map, Set};
use devicemodel::{DeviceModel, DeviceOp, RunningModel};
use env::Completion;

/// A disk that is open, or was when its last operations were submitted.
struct Disk {
    model: RunningModel,
    is_closed: bool,
    /// Operations that the model has ended and the kernel has not.
    over: Set<u64>,
    /// Operations that the kernel has ended and the model has not.
    held: Map<u64, Completion>,
}

/// All such disks of a driver.
#[derive(Default)]
pub(crate) struct Slowed {
    paths: Map<String, DeviceModel>,
    disks: Map<u32, Disk>,
}

impl Slowed {
    /// Disks that are opened by this path from now on follow the model.
    pub(crate) fn behave_as(&mut self, path: &str, model: DeviceModel) {
        self.paths.insert(path.to_owned(), model);
    }

    /// Whether the disk of this path follows a model.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.paths.contains_key(path)
    }

    pub(crate) fn opened(&mut self, path: &str, id: u32, size: u64) {
        if let Some(model) = self.paths.get(path) {
            let model = model.start(size);
            let (over, held) = (Set::new(), Map::new());
            self.disks.insert(id, Disk { model, is_closed: false, over, held });
        }
    }

    /// Its last operations still end when the model says.
    pub(crate) fn closed(&mut self, id: u32) {
        if let Some(disk) = self.disks.get_mut(&id) {
            disk.is_closed = true;
            self.disks.retain(|_, disk| !disk.is_gone());
        }
    }

    /// What the work asks of a disk that follows a model.
    pub(crate) fn op(&self, work: &Work) -> Option<(u32, DeviceOp)> {
        if self.disks.is_empty() {
            return None;
        }
        let (disk, op) = match work {
            Work::Read { disk, offset, into, at, .. } => {
                (disk, transfer(*offset, into.len() - *at))
            }
            Work::Write { disk, offset, from, .. } => (disk, transfer(*offset, from.len())),
            Work::Flush { disk } => (disk, DeviceOp::Flush),
            // Discards cost nothing: magnetic disks have none, others do them beside.
            _ => return None,
        };
        self.disks.contains_key(disk).then_some((*disk, op))
    }

    /// A flight of this name sets out.
    pub(crate) fn submit(&mut self, now: Instant, name: u64, (disk, op): (u32, DeviceOp)) {
        if let Some(disk) = self.disks.get_mut(&disk) {
            disk.model.submit(now, name, op);
        }
    }

    /// The kernel has ended a flight: its completion, if the model has too.
    pub(crate) fn hold(&mut self, disk: u32, name: u64, end: Completion) -> Option<Completion> {
        let Some(slowed) = self.disks.get_mut(&disk) else { return Some(end) };
        if !slowed.over.remove(&name) {
            slowed.held.insert(name, end);
            return None;
        }
        if slowed.is_gone() {
            self.disks.remove(&disk);
        }
        Some(end)
    }

    /// Gives out what the model has ended by now.
    pub(crate) fn release(&mut self, now: Instant, done: &mut Vec<Completion>) {
        for disk in self.disks.values_mut() {
            while let Some((name, _)) = disk.model.end(now) {
                match disk.held.remove(&name) {
                    Some(end) => done.push(end),
                    None => _ = disk.over.insert(name),
                }
            }
        }
        self.disks.retain(|_, disk| !disk.is_gone());
    }

    /// When the next operation ends by its model; exact after [`Slowed::release`].
    pub(crate) fn next_end(&self) -> Option<Instant> {
        self.disks.values().filter_map(|disk| disk.model.next_end()).min()
    }

    /// Whether no open disk follows a model.
    pub(crate) fn is_empty(&self) -> bool {
        self.disks.is_empty()
    }
}

impl Disk {
    fn is_gone(&self) -> bool {
        self.is_closed && self.model.is_idle() && self.over.is_empty() && self.held.is_empty()
    }
}

fn transfer(offset: u64, length: usize) -> DeviceOp {
    DeviceOp::Transfer { offset, bytes: length as u64 }
}
