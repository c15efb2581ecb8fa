// SPDX-License-Identifier: Apache-2.0
//! What is on capacity, as data: components, chunks, checksums, space, the memory of what changed.
//!
//! Nothing here does I/O or knows of the log's task and of destage. Which chunks are allocated, set
//! aside, promised, free or on their way back is changed by methods of [`allocate`] alone; what a
//! durable record or a freed segment changes, by those of [`apply`]. Pages, rows and the state of
//! the journal are for the store's own tasks, `journal` and `recovery`.

mod allocate;
mod apply;
pub(crate) mod capacity;
pub(crate) mod chunks;
pub(crate) mod components;
pub(crate) mod history;
pub(crate) mod pending;
pub(crate) mod rows;
pub(crate) mod space;
pub(crate) mod staged;

use crate::limits::GroupLimits;
use crate::memory::staged_max;
use crate::mutations::Mutations;
use crate::store::allocate::Deletion;
use crate::store::capacity::{CapacityState, page_of};
use crate::store::chunks::Chunks;
use crate::store::components::Components;
use crate::store::history::History;
use crate::store::staged::Staged;
use base::FixedMap;
use format::{CacheLayout, ChunkEntry, CrcPage};
use std::collections::VecDeque;

/// Serials that there are: a key of a block has room for them.
const SERIALS: u32 = 1 << 24;

/// See the module.
pub(crate) struct CapacityStore {
    pub(crate) chunks: Chunks,
    pub(crate) components: Components,
    /// Components that are gone, of which chunks are still to come back.
    deletions: VecDeque<Deletion>,
    /// By [`crate::keys::chunk_key`].
    staged: FixedMap<Staged>,
    /// How many there may be.
    staged_max: u64,
    /// Chunks of a device that direct writes leave to others, beyond a part of them.
    direct_spare: u64,
    /// Chunks of a device whose space is kept for direct writes, at most.
    stock_max: usize,
    pub(crate) history: History,
    /// One per device.
    pub(crate) capacity: Vec<CapacityState>,
    pub(crate) serial_next: u32,
    /// One bit per device that was out when entries that it needs were dropped, and still is.
    pub(crate) given_up: u16,
    /// What devices and log say is still being put together.
    pub(crate) is_recovering: bool,
    mutations: Mutations,
}

impl CapacityStore {
    /// Of so many devices, of which nothing is known yet, below a log of that layout.
    pub(crate) fn new(
        log: &CacheLayout,
        devices: usize,
        limits: &GroupLimits,
        mutations: Mutations,
    ) -> Self {
        Self {
            chunks: Chunks::new(limits.leaf_bits),
            components: Components::default(),
            deletions: VecDeque::new(),
            staged: FixedMap::default(),
            staged_max: staged_max(log, limits),
            direct_spare: limits.direct_spare,
            stock_max: limits.stock_chunks,
            history: History::new(log, limits.history_blocks, mutations),
            capacity: (0..devices).map(|_| CapacityState::default()).collect(),
            serial_next: 1,
            given_up: 0,
            is_recovering: true,
            mutations,
        }
    }

    /// The device chunk of a chunk that capacity holds.
    pub(crate) fn base(&self, key: u64) -> Option<u32> {
        self.chunks.base(key)
    }

    /// What a device chunk holds.
    pub(crate) fn entry(&self, device: usize, chunk: u32) -> ChunkEntry {
        self.capacity[device].map[chunk as usize]
    }

    /// The page with the checksums of a device chunk, if it is in memory, and its place there.
    pub(crate) fn checksums(&mut self, device: usize, chunk: u32) -> Option<(&CrcPage, usize)> {
        let (number, place) = page_of(chunk);
        Some((self.capacity[device].page(number)?, place))
    }

    /// A serial was given once: it is never given again.
    pub(crate) fn note_serial(&mut self, serial: u32) {
        self.serial_next = self.serial_next.max(serial.saturating_add(1));
    }

    /// Gives the next serial to a row of a device; none where all were given.
    pub(crate) fn take_serial(&mut self, device: usize, place: usize) -> Option<u32> {
        let serial = self.serial_next;
        if serial >= SERIALS {
            return None;
        }
        self.serial_next += 1;
        self.capacity[device].rows[place].serial = serial;
        Some(serial)
    }
}
