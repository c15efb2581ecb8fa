// SPDX-License-Identifier: Apache-2.0
//! Which chunks of a device are allocated, set aside, promised, free or on their way back.
//!
//! What a device counts as set aside are the chunks that [`super::chunks`] names, and what it
//! promises is the sum of what its components wait for. Both sides change together here.

use crate::keys::{chunk_key, serial_of};
use crate::store::CapacityStore;
use crate::store::capacity::CapacityState;
use crate::store::components::Component;
use base::{CHUNK_SECTORS, ComponentId, Instant};
use format::ChunkEntry;
use std::ops::Range;

/// A component that is gone, durably, and how far its chunks have come back.
pub(super) struct Deletion {
    serial: u32,
    device: usize,
    next: u64,
    chunks: u64,
}

impl CapacityStore {
    /// Chunks of each device that are likely to stay free: its components are expected to take half
    /// of what they may. By what is free now alone, thin components that are made one after the
    /// other would all go to one device.
    pub(crate) fn prospects(&self) -> Vec<i64> {
        let signed = |chunks: u64| i64::try_from(chunks).unwrap_or(i64::MAX);
        let free = self.capacity.iter().map(|capacity| signed(capacity.available()));
        let mut prospects: Vec<i64> = free.collect();
        for serial in self.components.serials() {
            let Some(component) = self.components.get(serial) else { continue };
            let most = component.row.sectors.div_ceil(CHUNK_SECTORS);
            let known = u64::from(component.held) + component.promised();
            prospects[component.device] -= signed(most.saturating_sub(known)) / 2;
        }
        prospects
    }

    /// Opening looks at a device chunk: the component that it names has it. Whether there is none,
    /// so that it is free.
    pub(crate) fn take_over(&mut self, device: usize, chunk: u32) -> bool {
        let entry = self.entry(device, chunk);
        // A row that is gone may have left chunks: its serial is never given again.
        self.note_serial(entry.serial);
        let owner = self.components.get_mut(entry.serial);
        let Some(owner) = owner.filter(|component| component.device == device) else {
            // Free, or of a component that was deleted.
            self.capacity[device].map[chunk as usize] = ChunkEntry::default();
            return true;
        };
        owner.held += 1;
        owner.row.durable = owner.row.durable.max(entry.lsn);
        self.chunks.set_base(chunk_key(entry.serial, u64::from(entry.index)), Some(chunk));
        false
    }

    /// Opening has looked at all chunks of a device: what its components wait for is promised.
    pub(crate) fn count_promised(&mut self, device: usize) {
        let all = self.components.serials().into_iter();
        let mine = all.filter_map(|s| self.components.get(s)).filter(|c| c.device == device);
        self.capacity[device].promised = mine.map(Component::promised).sum();
    }

    /// When freed chunks of any device may be given back.
    pub(crate) fn reclaims_next(&self) -> Option<Instant> {
        self.capacity.iter().filter_map(CapacityState::reclaims_at).min()
    }

    /// Keeps so many chunks for a component, those that it has included.
    pub(crate) fn promise(&mut self, serial: u32, chunks: u32) {
        self.change(serial, |component| component.row.reserve = chunks);
    }

    /// A component has one more chunk, on capacity or set aside.
    fn hold(&mut self, serial: u32) {
        self.change(serial, |component| component.held = component.held.saturating_add(1));
    }

    /// It has one less.
    fn let_go(&mut self, serial: u32) {
        self.change(serial, |component| component.held = component.held.saturating_sub(1));
    }

    /// Changes what a component has or is to have, and what its device promises it.
    fn change(&mut self, serial: u32, change: impl Fn(&mut Component)) {
        let Some(component) = self.components.get_mut(serial) else { return };
        let before = component.promised();
        change(component);
        let (device, after) = (component.device, component.promised());
        let promised = &mut self.capacity[device].promised;
        *promised = *promised + after - before;
    }

    /// Sets a device chunk aside for a chunk that will need one; whether there was one.
    pub(crate) fn set_aside(&mut self, key: u64, device: usize) -> bool {
        if self.base(key).is_some() || self.chunks.aside.contains_key(&key) {
            return true;
        }
        let promised = self.components.get(serial_of(key)).map_or(0, Component::promised);
        let is_given = self.capacity[device].available_to(promised) > 0 || self.is_recovering;
        if is_given {
            self.put_aside(key, device);
        }
        is_given
    }

    fn put_aside(&mut self, key: u64, device: usize) {
        self.chunks.aside.insert(key, ());
        self.capacity[device].reserved += 1;
        self.hold(serial_of(key));
    }

    /// The log has nothing of a chunk any more: what was set aside for it is free.
    pub(crate) fn end_aside(&mut self, key: u64, device: usize) {
        if self.chunks.end_aside(key) && !self.mutations.leak_reserved() {
            self.capacity[device].reserved -= 1;
            self.let_go(serial_of(key));
        }
    }

    /// A durable record gives a device chunk, which was in hand, to a chunk.
    pub(super) fn allocated(&mut self, device: usize, chunk: u32, serial: u32, index: u32) {
        let key = chunk_key(serial, u64::from(index));
        self.capacity[device].in_hand -= 1;
        if self.components.get(serial).is_none() {
            // Deleted while it was destaged.
            self.capacity[device].map[chunk as usize] = ChunkEntry::default();
            if !self.mutations.leak_deleted() {
                self.capacity[device].freeing.push_back(chunk);
            }
            return;
        }
        let is_replaced = self.base(key).is_some();
        self.chunks.set_base(key, Some(chunk));
        if self.chunks.end_aside(key) {
            self.capacity[device].reserved -= 1;
        } else if !is_replaced {
            self.hold(serial);
        }
    }

    /// A durable record takes a device chunk from a chunk, of which the log may have something.
    pub(super) fn freed(&mut self, device: usize, chunk: u32, was: ChunkEntry, is_wanted: bool) {
        let key = chunk_key(was.serial, u64::from(was.index));
        let is_kept = self.keeps_staged(key, device, chunk) || self.mutations.leak_discarded();
        let is_replaced = self.base(key) != Some(chunk);
        if !is_kept && is_replaced {
            self.capacity[device].put_by(chunk, self.stock_max);
        } else if !is_kept {
            self.capacity[device].freeing.push_back(chunk);
        }
        if is_replaced {
            return; // another has taken its place: store rule 17
        }
        self.chunks.set_base(key, None);
        self.let_go(was.serial);
        self.note_erased(was.serial, was.lsn);
        // Appends that came meanwhile counted on this chunk: set one aside for them.
        if is_wanted {
            self.put_aside(key, device);
        }
    }

    /// The durable row says that a component is deleted: nobody finds it from here on.
    pub(crate) fn begin_deletion(&mut self, id: ComponentId) {
        let Some(gone) = self.components.remove(id) else { return };
        let capacity = &mut self.capacity[gone.device];
        capacity.promised -= gone.promised();
        capacity.rows[gone.place as usize].serial = 0;
        let (serial, device) = (gone.row.serial, gone.device);
        let chunks = gone.row.sectors.div_ceil(CHUNK_SECTORS);
        self.deletions.push_back(Deletion { serial, device, next: 0, chunks });
    }

    /// The deletion that is under way for a serial: its device.
    pub(crate) fn deleted_from(&self, serial: u32) -> Option<usize> {
        let of = self.deletions.iter().find(|deletion| deletion.serial == serial);
        of.map(|deletion| deletion.device)
    }

    /// What is left of the oldest deletion: device, serial, chunks.
    pub(crate) fn next_deleted(&self) -> Option<(usize, u32, Range<u64>)> {
        let deletion = self.deletions.front()?;
        base::hit_if(deletion.next > 0, base::Probe::DeletionPart);
        Some((deletion.device, deletion.serial, deletion.next..deletion.chunks))
    }

    /// Its chunks before that one are given back.
    pub(crate) fn deleted_before(&mut self, chunk: u64) {
        let Some(deletion) = self.deletions.front_mut() else { return };
        deletion.next = chunk;
        if chunk == deletion.chunks {
            self.deletions.pop_front();
        }
    }

    /// Gives a chunk of a deleted component back; the device chunk, if it had one.
    pub(crate) fn give_back(&mut self, device: usize, key: u64) -> Option<u32> {
        let capacity = &mut self.capacity[device];
        if self.chunks.end_aside(key) {
            capacity.reserved -= 1;
        }
        let base = self.chunks.base(key)?;
        self.chunks.set_base(key, None);
        // Recovery takes chunks of serials that no row names for free.
        capacity.map[base as usize] = ChunkEntry::default();
        capacity.map_meta[base as usize / format::MAP_PAGE_CHUNKS].is_dirty = true;
        capacity.freeing.push_back(base);
        Some(base)
    }
}
