// SPDX-License-Identifier: Apache-2.0
//! What a group holds in memory now.

use crate::devices::superblock::plan_cache;
use crate::log::Log;
use crate::memory::{HISTORY_BLOCK_BYTES, MemoryParts, widened};
use crate::state::DiskGroup;
use crate::store::CapacityStore;
use crate::store::capacity::CapacityState;
use crate::types::{CreateSizes, GroupOptions, GroupShape};
use format::{CapacityLayout, ChunkEntry, PAGE_SIZE};

/// Bytes of a block that the log holds in parts, about: most have two pieces.
const SIDE_RECORD_BYTES: u64 = 120;

impl DiskGroup {
    /// What the tables of a group of so many new devices would take when all of it is full. None
    /// where they are too small.
    #[must_use]
    pub fn memory_of_new(
        sizes: CreateSizes,
        devices: usize,
        shape: GroupShape,
        options: &GroupOptions,
    ) -> Option<MemoryParts> {
        let (log, read_cache) = plan_cache(sizes.cache, shape)?;
        let layouts = vec![CapacityLayout::plan(sizes.capacity)?; devices];
        Some(MemoryParts::needed(&log, read_cache.as_ref(), &layouts, options))
    }

    /// What its tables take when all of it is full.
    #[must_use]
    pub fn memory_needed(&self) -> MemoryParts {
        self.shared().memory.needed
    }

    /// What they take now. Checksum pages are not among it: they are shared. Of what is under way
    /// only pages of a checkpoint are counted.
    #[must_use]
    pub fn memory_used(&self) -> MemoryParts {
        let state = self.shared().state.borrow();
        let pinned: usize = state.store.capacity.iter().map(|c| c.pages_held().1).sum();
        MemoryParts {
            buffers: state.log.memory()
                + state.store.history.memory()
                + widened(state.store.staged_bytes()),
            maps: state.store.memory(),
            caches: state.read_cache.as_deref().map_or(0, |cache| cache.status().memory_bytes),
            under_way: 2 * widened(pinned * PAGE_SIZE),
        }
    }
}

impl Log {
    /// Index and counts by chunk. The index is set aside at opening, for a full buffer.
    fn memory(&self) -> u64 {
        let (made, unused) = self.index.side_records();
        let parts = widened(made - unused) * SIDE_RECORD_BYTES;
        widened(self.index.table_bytes() + self.counts_bytes()) + parts
    }
}

impl crate::store::history::History {
    fn memory(&self) -> u64 {
        widened(self.len()) * HISTORY_BLOCK_BYTES
    }
}

impl CapacityStore {
    /// Chunk maps and pending changes of all devices.
    fn memory(&self) -> u64 {
        let devices: u64 = self.capacity.iter().map(CapacityState::memory).sum();
        widened(self.chunks.table_bytes()) + devices
    }
}

impl CapacityState {
    fn memory(&self) -> u64 {
        let map = self.map.capacity() * size_of::<ChunkEntry>() + self.settled.capacity();
        widened(map + self.list_bytes() + self.pending.table_bytes())
    }
}
