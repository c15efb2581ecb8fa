// SPDX-License-Identifier: Apache-2.0
//! The read cache of a hybrid group: slots on the flash device, each for one piece (64 KiB) of a
//! chunk of a magnetic one. Sixteen of them, a line, share a page of headers.
//!
//! A read looks into the log, then into the slots, then at capacity. Guarantees: what a slot gives
//! was compared with the checksum that capacity has for the block; whatever happens to the cache is
//! a miss, never an error and never other data. Not guaranteed: that anything is in it. Scrub does
//! not use it. Which pieces come in and go: [`policy`].
//!
//! **A slot and its piece** agree on every block that the slot knows, at every moment:
//! 1. Destage writes a block to capacity, and beside that to its piece's slot, if there is one.
//! 2. The journal record is durable; in one step the chunk map, the checksum page and the slot get
//!    the new checksum. A block that was not written in 1 leaves the slot; a chunk that is cleared,
//!    freed or allocated has nothing in any slot any more.
//! 3. Only then does the log forget the block. From 1 to 3 the log hides the block, in the slot as
//!    on capacity. A reader that looked before sees a checksum that does not match, and looks
//!    again.
//! 4. A fill writes what was read of capacity to the slot, and makes it known in one step, if the
//!    chunk did not change since its checksums were looked up. Destage does not write to a slot
//!    that is being filled, and no fill begins while destage or another fill writes to the slot:
//!    what is in it is of one of them.
//!
//! **Headers** outlive the process. What one says of a slot is believed at opening if the chunk
//! has, in the chunk map, the very entry that it names, lsn included. That the slot then knows
//! nothing else than the piece:
//! 5. A header is made of a slot and the map's entry in one step, so of a state that is durable.
//! 6. A record that raises the chunk's lsn makes all headers before it worthless.
//! 7. One that does not (a fold, a moved entry, a copy for this component alone), and one that
//!    allocates the chunk, first overwrites every header that would be believed afterwards and is
//!    of a piece that it changes, durably, and no header of the chunk is written until the record
//!    is applied. One that changes nothing, as when blocks are destaged once more after a crash,
//!    leaves headers as true as they were. Which headers stand on the device is known: those that
//!    were read at opening, for which such a record waits, and those written since, of which each
//!    batch ends with a flush and is read back, so that the ones before are gone. A slot that was
//!    given to another piece has the old header until the new one is written: that is known too,
//!    and no more slots are given away than can be remembered so.
//! 8. So no header on the device ever names a later lsn of a chunk of the same component than the
//!    map does. Data has checksums in the header: what was lost or torn there is a miss.

mod owners;
mod policy;
#[cfg(test)]
mod ratios;
pub(crate) mod slots;
mod streams;
#[cfg(test)]
mod tests;

pub use owners::CACHE_KEPT_MAX_PERCENT;
pub(crate) use slots::{Slots, key_of, piece_of, split};
pub(crate) use streams::{AheadState, Streams};

use crate::types::ReadCacheStatus;
use format::{Item, PIECE_SIZE, PIECES, ReadCacheLayout};

/// What is counted since open.
#[derive(Clone, Copy, Default)]
pub(crate) struct CacheCounters {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) fills: u64,
    pub(crate) bypassed_bytes: u64,
    pub(crate) rotten_blocks: u64,
    /// Slots that were taken over at opening.
    pub(crate) warm_slots: u64,
    /// Bytes that were read of capacity for readers, and ahead of them.
    pub(crate) capacity_bytes: u64,
    /// Bytes written to the cache: by fills, by destage, of headers.
    pub(crate) filled_bytes: u64,
    pub(crate) updated_bytes: u64,
    pub(crate) header_bytes: u64,
}

/// See the module.
pub(crate) struct ReadCache {
    pub(crate) layout: ReadCacheLayout,
    pub(crate) slots: Slots,
    pub(crate) streams: Streams,
    /// Every header on the device was looked at.
    pub(crate) is_loaded: bool,
    pub(crate) fills: usize,
    pub(crate) counters: CacheCounters,
}

impl ReadCache {
    pub(crate) fn new(layout: ReadCacheLayout) -> Self {
        Self {
            layout,
            slots: Slots::new(layout.lines),
            streams: Streams::default(),
            is_loaded: false,
            fills: 0,
            counters: CacheCounters::default(),
        }
    }

    pub(crate) fn status(&self) -> ReadCacheStatus {
        let counters = self.counters;
        let (asked, kept) = self.slots.kept();
        ReadCacheStatus {
            bytes: u64::from(self.layout.lines) * base::CHUNK_SIZE,
            slots: u64::from(self.layout.lines) * PIECES as u64,
            slots_used: self.slots.used() as u64,
            used_bytes: self.slots.used() as u64 * PIECE_SIZE,
            memory_bytes: self.slots.memory() as u64,
            asked_bytes: asked.saturating_mul(PIECE_SIZE),
            kept_bytes: kept * PIECE_SIZE,
            is_loaded: self.is_loaded,
            warm_slots: counters.warm_slots,
            hits: counters.hits,
            misses: counters.misses,
            fills: counters.fills,
            bypassed_bytes: counters.bypassed_bytes,
            rotten_blocks: counters.rotten_blocks,
            capacity_bytes: counters.capacity_bytes,
            filled_bytes: counters.filled_bytes,
            updated_bytes: counters.updated_bytes,
            header_bytes: counters.header_bytes,
        }
    }

    /// A durable item of the journal, in the step in which it is applied.
    pub(crate) fn apply(&mut self, device: usize, item: &Item) {
        let Some(chunk) = item.chunk() else { return };
        let (key, slots) = (key_of(device, chunk), &mut self.slots);
        match *item {
            Item::Block { block, crc, .. } => slots.set_block(key, block, crc),
            Item::Unset { block, .. } => slots.unset_block(key, block),
            _ => slots.replace_chunk(key),
        }
        self.streams.forget(key);
    }
}

const _: () = assert!(PIECE_SIZE == 64 << 10);
