// SPDX-License-Identifier: Apache-2.0
//! Disks that behave as slower ones would, for tests and benchmarks.
//!
//! The kernel is given every operation at once; what it answers is held back until the model says
//! that the disk of that kind would have answered. An operation that really takes longer than that
//! ends when it ends. What is read and written, errors and order of durability are the real disk's.

use crate::late::Late;
use crate::magnetic::Magnetic;
use crate::work::Work;
use base::{Instant, Map, Set};
use env::Completion;
use std::time::Duration;

/// What a file can be made to behave as; see [`crate::RingDriver::behave_as`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceModel {
    /// A magnetic disk of 7200 rpm: 8 ms to reach a random place, 150 MB/s, 32 requests to choose
    /// from, no volatile cache.
    Magnetic,
    /// A device that is slow by two figures: bytes pass one after the other, and each request ends
    /// so long after its last byte has passed.
    Late {
        /// What each request takes beside its bytes, however many are under way.
        latency: Duration,
        /// What passes in a second.
        bytes_per_second: u64,
    },
}

/// What is asked of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// A read or a write.
    Transfer { offset: u64, bytes: u64 },
    /// Everything submitted before.
    Flush,
}

/// How long a disk takes: what ends when.
enum Model {
    Magnetic(Magnetic),
    Late(Late),
}

impl Model {
    fn new(model: DeviceModel, size: u64) -> Self {
        match model {
            DeviceModel::Magnetic => Self::Magnetic(Magnetic::new(size)),
            DeviceModel::Late { latency, bytes_per_second } => {
                Self::Late(Late::new(latency, bytes_per_second))
            }
        }
    }

    fn submit(&mut self, now: Instant, name: u64, access: Access) {
        match self {
            Self::Magnetic(model) => model.submit(now, name, access),
            Self::Late(model) => model.submit(now, name, access),
        }
    }

    fn end(&mut self, now: Instant) -> Option<(u64, Instant)> {
        match self {
            Self::Magnetic(model) => model.end(now),
            Self::Late(model) => model.end(now),
        }
    }

    fn next_end(&self) -> Option<Instant> {
        match self {
            Self::Magnetic(model) => model.next_end(),
            Self::Late(model) => model.next_end(),
        }
    }

    fn is_idle(&self) -> bool {
        match self {
            Self::Magnetic(model) => model.is_idle(),
            Self::Late(model) => model.is_idle(),
        }
    }
}

/// A disk that is open, or was when its last operations were submitted.
struct Disk {
    model: Model,
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
            let model = Model::new(*model, size);
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
    pub(crate) fn access(&self, work: &Work) -> Option<(u32, Access)> {
        if self.disks.is_empty() {
            return None;
        }
        let (disk, access) = match work {
            Work::Read { disk, offset, into, at, .. } => {
                (disk, transfer(*offset, into.len() - *at))
            }
            Work::Write { disk, offset, from, .. } => (disk, transfer(*offset, from.len())),
            Work::Flush { disk } => (disk, Access::Flush),
            // Discards cost nothing: magnetic disks have none, others do them beside.
            _ => return None,
        };
        self.disks.contains_key(disk).then_some((*disk, access))
    }

    /// A flight of this name sets out.
    pub(crate) fn submit(&mut self, now: Instant, name: u64, (disk, access): (u32, Access)) {
        if let Some(disk) = self.disks.get_mut(&disk) {
            disk.model.submit(now, name, access);
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

fn transfer(offset: u64, length: usize) -> Access {
    Access::Transfer { offset, bytes: length as u64 }
}
