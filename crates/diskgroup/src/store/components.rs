// SPDX-License-Identifier: Apache-2.0
//! The components of a group, as they are in memory.

use crate::log::lowest::Lowest;
use base::{ComponentId, FixedMap, Lsn, Map, RequestId, SectorRange};
use format::ComponentRow;
use std::collections::VecDeque;

/// The component; random ids are never it but by a chance of 2^-64.
pub(crate) const KEPT: ComponentId = ComponentId(u64::MAX);

/// An entry above K.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) range: SectorRange,
    pub(crate) lsn: Lsn,
    /// The request that it carries out.
    pub(crate) id: Option<RequestId>,
}

/// One component.
pub(crate) struct Component {
    /// As in the table, with K, W and the highest lsn as they are now.
    pub(crate) row: ComponentRow,
    /// Which capacity device.
    pub(crate) device: usize,
    /// Which row of its table.
    pub(crate) place: u32,
    /// Entries above K in commit order; as many as the log has entries at most.
    pub(crate) tail: VecDeque<Tail>,
    /// What the log needs of it.
    pub(crate) lowest: Lowest,
    /// Its place among the marks of the segment that it last said something about requests in.
    pub(crate) marked_at: Option<(u64, usize)>,
    /// K as the log's headers last said it.
    pub(crate) commit_logged: Lsn,
    /// W as the journal last said it.
    pub(crate) destaged_logged: Lsn,
    /// Marks of entries up to this lsn are in the row on the device.
    pub(crate) marks_kept: Lsn,
    /// No discard above this lsn has left the log without a trace on capacity: a chunk that only
    /// the log holds may lack blocks whose discard is at or below it.
    pub(crate) erased: Lsn,
    /// The same for earlier runs alone: this one's discards are in the history.
    pub(crate) erased_before: Lsn,
    /// Every block that was destaged by an lsn above this one is in the history.
    pub(crate) remembered_from: Lsn,
    pub(crate) is_damaged: bool,
    /// It is one of its object's active components, as far as is known: it lacks nothing that has
    /// an lsn up to W elsewhere.
    pub(crate) is_active: bool,
    /// Its chunks that have a device chunk or one set aside.
    pub(crate) held: u32,
}

impl Component {
    pub(crate) fn new(row: ComponentRow, device: usize, place: u32) -> Self {
        Self {
            device,
            place,
            tail: VecDeque::new(),
            lowest: Lowest::default(),
            marked_at: None,
            commit_logged: Lsn::ZERO,
            destaged_logged: row.destaged,
            marks_kept: row.durable,
            erased: Lsn::ZERO,
            erased_before: Lsn::ZERO,
            remembered_from: Lsn::ZERO,
            is_damaged: false,
            is_active: false,
            held: 0,
            row,
        }
    }

    /// Chunks of its reserve that it has not taken yet: nobody else may.
    pub(crate) fn promised(&self) -> u64 {
        u64::from(self.row.reserve.saturating_sub(self.held))
    }

    /// Raises K; whether it rose.
    pub(crate) fn advance(&mut self, commit: Lsn) -> bool {
        if commit <= self.row.commit {
            return false;
        }
        self.row.commit = commit;
        while self.tail.front().is_some_and(|tail| tail.lsn <= commit) {
            self.tail.pop_front();
        }
        true
    }
}

/// All of them, by serial and by id.
#[derive(Default)]
pub(crate) struct Components {
    by_serial: FixedMap<Component>,
    by_id: Map<ComponentId, u32>,
}

impl Components {
    pub(crate) fn insert(&mut self, component: Component) {
        self.by_id.insert(component.row.id, component.row.serial);
        self.by_serial.insert(u64::from(component.row.serial), component);
    }

    pub(crate) fn remove(&mut self, id: ComponentId) -> Option<Component> {
        let serial = self.by_id.remove(&id)?;
        self.by_serial.remove(&u64::from(serial))
    }

    pub(crate) fn serial(&self, id: ComponentId) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn get(&self, serial: u32) -> Option<&Component> {
        self.by_serial.get(&u64::from(serial))
    }

    pub(crate) fn get_mut(&mut self, serial: u32) -> Option<&mut Component> {
        self.by_serial.get_mut(&u64::from(serial))
    }

    pub(crate) fn by_id(&self, id: ComponentId) -> Option<&Component> {
        self.get(self.serial(id)?)
    }

    pub(crate) fn by_id_mut(&mut self, id: ComponentId) -> Option<&mut Component> {
        let serial = self.serial(id)?;
        self.get_mut(serial)
    }

    /// At the end of recovery: what was erased before is not known, so it is all that may be.
    pub(crate) fn forget_erased(&mut self) {
        for component in self.by_serial.values_mut() {
            component.erased = component.row.durable;
            component.erased_before = component.row.durable;
        }
    }

    pub(crate) fn ids(&self) -> Vec<ComponentId> {
        self.by_id.keys().copied().collect()
    }

    pub(crate) fn serials(&self) -> Vec<u32> {
        self.by_id.values().copied().collect()
    }
}
