// SPDX-License-Identifier: Apache-2.0
//! The books of a capacity device: where its bytes are.

use crate::store::capacity::CapacityState;
use base::CHUNK_SIZE;
use format::CapacityLayout;

/// Where the bytes of a capacity device are; each is in exactly one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Before the first chunk: superblocks, component table, journal, chunk map, checksum pages and
    /// the gaps between them.
    pub metadata_bytes: u64,
    /// Chunks of components.
    pub allocated_bytes: u64,
    /// Chunks set aside for data that only the write buffer holds, or that direct writes have
    /// filled and that it still names.
    pub reserved_bytes: u64,
    /// Chunks kept for volumes with a reserve, beyond what these have taken.
    pub promised_bytes: u64,
    /// Chunks given back that wait for their discard, beyond those that are set aside again.
    pub freeing_bytes: u64,
    /// Chunks that any component may take.
    pub free_bytes: u64,
    /// Behind the last chunk: less than a chunk, or what the device grew by since its format.
    pub unusable_bytes: u64,
}

impl Space {
    /// All of it: the device's size.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.metadata_bytes + self.chunk_bytes() + self.unusable_bytes
    }

    /// All chunks.
    #[must_use]
    pub fn chunk_bytes(&self) -> u64 {
        self.taken_bytes() + self.freeing_bytes + self.free_bytes
    }

    /// Chunks that a new component cannot have.
    #[must_use]
    pub fn taken_bytes(&self) -> u64 {
        self.allocated_bytes + self.reserved_bytes + self.promised_bytes
    }

    /// Part of the chunks that a new component cannot have, percent, rounded down.
    #[must_use]
    pub fn taken_percent(&self) -> u64 {
        let chunks = (self.chunk_bytes() / CHUNK_SIZE).max(1);
        self.taken_bytes() / CHUNK_SIZE * 100 / chunks
    }
}

/// A device is short of space with less than one in so many of its chunks to give ...
pub(super) const SHORT_PART: u64 = 16;
/// ... or with fewer than so many, half as many again as owners leave free; small devices with less
/// than half of their chunks.
const SHORT_CHUNKS: u64 = 24;

impl CapacityState {
    pub(crate) fn is_short(&self) -> bool {
        let (available, chunks) = (self.available(), self.map.len() as u64);
        available < chunks / SHORT_PART || available < SHORT_CHUNKS.min(chunks / 2)
    }

    /// The books of a device of `size` bytes.
    pub(crate) fn space(&self, layout: &CapacityLayout, size: u64) -> Space {
        let chunks = self.map.len() as u64;
        let unallocated = self.unallocated().min(chunks);
        // What destage has in hand it took for something set aside.
        let reserved = u64::from(self.reserved.max(self.in_hand)) + self.staged();
        let reserved = reserved.min(unallocated);
        let promised = self.promised.min(unallocated - reserved);
        let rest = unallocated - reserved - promised;
        let freeing = (self.freeing.len() as u64 + u64::from(self.discarding)).min(rest);
        Space {
            metadata_bytes: layout.chunk_start,
            allocated_bytes: (chunks - unallocated) * CHUNK_SIZE,
            reserved_bytes: reserved * CHUNK_SIZE,
            promised_bytes: promised * CHUNK_SIZE,
            freeing_bytes: freeing * CHUNK_SIZE,
            free_bytes: (rest - freeing) * CHUNK_SIZE,
            unusable_bytes: size.saturating_sub(layout.chunk_start + chunks * CHUNK_SIZE),
        }
    }
}
