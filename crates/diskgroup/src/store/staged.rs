// SPDX-License-Identifier: Apache-2.0
//! Chunks that direct writes have filled, and that the log names (store rules 15 and 18).
//!
//! A chunk of a component has one staged chunk at most: all entries of the log that a recovery
//! could replay name the same device chunk for it. So what is read by such an entry is always
//! found. The record of a staged chunk goes when the last durable header calls no segment needed
//! that names it. How many there may be is known from the log's layout
//! ([`crate::memory::staged_max`]).
//!
//! A staged chunk has an owner at every moment. At first the record owns it. When destage maps it,
//! the chunk map owns it. If a discard takes it from the map while the record is still there, the
//! record owns it again, so that nobody else gets it too soon.

use crate::keys::serial_of;
use crate::log::build::to_usize;
use crate::memory::widened;
use crate::store::CapacityStore;
use base::{CHUNK_BLOCKS, Instant, Set};
use format::NO_COMPONENT;
use std::ops::Range;

/// Direct writes leave one in so many chunks of a device to others.
const SPARE_PART: u64 = 16;

/// A bit for each block of a chunk.
pub(crate) type BlockSet = [u64; CHUNK_BLOCKS as usize / 64];

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Staged {
    pub(crate) device: usize,
    /// Of the device.
    pub(crate) chunk: u32,
    /// Blocks that a direct write wrote, or is writing.
    pub(crate) written: BlockSet,
    /// Direct writes whose entries are not durable yet.
    pub(crate) pending: u32,
    /// The segment behind the last one with an entry that names it.
    named_before: u64,
    /// The record owns it, not the map.
    is_owned: bool,
    /// No further direct write goes there.
    is_closed: bool,
}

/// The bits of some blocks of a chunk.
pub(crate) fn bits(blocks: Range<u64>) -> BlockSet {
    let mut bits = BlockSet::default();
    for block in blocks.map(|block| block % CHUNK_BLOCKS) {
        bits[to_usize(block / 64)] |= 1 << (block % 64);
    }
    bits
}

/// The bits that both have.
pub(crate) fn both(a: &BlockSet, b: &BlockSet) -> BlockSet {
    std::array::from_fn(|at| a[at] & b[at])
}

/// The bits of the first that the second does not have.
pub(crate) fn without(a: &BlockSet, b: &BlockSet) -> BlockSet {
    std::array::from_fn(|at| a[at] & !b[at])
}

/// How many there are.
pub(crate) fn count(bits: &BlockSet) -> u32 {
    bits.iter().map(|word| word.count_ones()).sum()
}

impl CapacityStore {
    /// Whether a device has no chunk to spare for direct writes.
    fn is_narrow(&self, device: usize) -> bool {
        let capacity = &self.capacity[device];
        let chunks = capacity.map.len() as u64;
        capacity.available() <= self.direct_spare.max(chunks / SPARE_PART)
    }

    /// Whether staged chunks take space of a device that has none to spare: then destage does not
    /// rest, for a staged chunk is one more than its chunk needs.
    pub(crate) fn wants_staged_back(&self) -> bool {
        let mut devices = 0..self.capacity.len();
        devices.any(|device| self.capacity[device].staged > 0 && self.is_narrow(device))
    }

    /// A device chunk for a direct write of these blocks of a chunk. None where such a write has to
    /// go through the log.
    pub(crate) fn stage(
        &mut self,
        (key, device): (u64, usize),
        blocks: Range<u64>,
        now: Instant,
    ) -> Option<u32> {
        let new = bits(blocks);
        if let Some(staged) = self.staged.get_mut(&key) {
            let is_over = both(&staged.written, &new) != BlockSet::default();
            if (staged.is_closed || is_over) && !self.mutations.direct_over_direct() {
                base::hit(base::Probe::DirectRefused);
                return None;
            }
            base::hit(base::Probe::DirectJoined);
            staged.written = std::array::from_fn(|at| staged.written[at] | new[at]);
            staged.pending += 1;
            return Some(staged.chunk);
        }
        if self.is_narrow(device) || widened(self.staged.len()) >= self.staged_max {
            base::hit(base::Probe::DirectFull);
            return None;
        }
        let capacity = &mut self.capacity[device];
        let chunk = capacity.take_stocked(now)?;
        capacity.staged += 1;
        let (written, pending, named_before) = (new, 1, 0);
        let (is_owned, is_closed) = (true, false);
        let staged = Staged { device, chunk, written, pending, named_before, is_owned, is_closed };
        self.staged.insert(key, staged);
        Some(chunk)
    }

    /// What is known of the staged chunk of a chunk.
    pub(crate) fn staged(&self, key: u64) -> Option<Staged> {
        self.staged.get(&key).copied()
    }

    /// Bytes of their table.
    pub(crate) fn staged_bytes(&self) -> usize {
        self.staged.allocation_size()
    }

    /// All of them, for counting: in no order.
    pub(crate) fn all_staged(&self) -> impl Iterator<Item = (u64, &Staged)> {
        self.staged.iter().map(|(key, staged)| (*key, staged))
    }

    /// An entry that names it is durable in a segment: for the first time where it `is_new`.
    /// Whether the segment did not name it before.
    pub(crate) fn staged_is_named(&mut self, key: u64, segment: u64, is_new: bool) -> bool {
        let Some(staged) = self.staged.get_mut(&key) else { return false };
        staged.pending -= u32::from(is_new);
        let is_first = staged.named_before != segment + 1;
        staged.named_before = segment + 1;
        is_first
    }

    /// Opening finds an entry that names it; false where another chunk was named before.
    pub(crate) fn staged_is_found(
        &mut self,
        key: u64,
        (device, chunk): (usize, u32),
        blocks: Range<u64>,
    ) -> bool {
        let staged = self.staged.entry(key).or_insert(Staged {
            device,
            chunk,
            written: BlockSet::default(),
            pending: 0,
            named_before: 0,
            is_owned: false,
            is_closed: true,
        });
        let new = bits(blocks);
        staged.written = std::array::from_fn(|at| staged.written[at] | new[at]);
        (staged.device, staged.chunk) == (device, chunk)
    }

    /// Opening has found all entries: the record owns the chunks that the map does not give to
    /// anybody. Fails with a segment that names a chunk which is another's: by the map, or by
    /// another entry of the log. What `is_live` says no to is not needed and owns nothing.
    pub(crate) fn claim_staged(&mut self, is_live: impl Fn(u64) -> bool) -> Result<(), u64> {
        let mut keys: Vec<u64> = self.staged.keys().copied().collect();
        keys.sort_unstable();
        let mut claimed: Set<(usize, u32)> = Set::new();
        for key in keys {
            let Some(staged) = self.staged.get_mut(&key) else { continue };
            let (serial, index) = (serial_of(key), key & u64::from(u32::MAX));
            let entry = self.capacity[staged.device].map[to_usize(staged.chunk.into())];
            if (entry.serial, u64::from(entry.index)) == (serial, index) {
                continue; // the map has it already
            }
            let is_free = entry.serial == NO_COMPONENT;
            if is_free && claimed.insert((staged.device, staged.chunk)) {
                staged.is_owned = true;
                base::hit(base::Probe::RecoveryStaged);
            } else if is_live(key) {
                return Err(staged.named_before.saturating_sub(1));
            } else {
                self.staged.remove(&key);
            }
        }
        for (device, capacity) in self.capacity.iter_mut().enumerate() {
            let free = capacity.free.len();
            capacity.free.retain(|chunk| !claimed.contains(&(device, *chunk)));
            capacity.staged = u32::try_from(free - capacity.free.len()).unwrap_or(u32::MAX);
        }
        Ok(())
    }

    /// Destage gives it to the chunk that it is staged for: a record that says so is on its way.
    /// False while a direct write to it is under way, and where it is not the record's.
    pub(crate) fn take_staged(&mut self, key: u64) -> Option<u32> {
        let staged = self.staged.get_mut(&key)?;
        if staged.pending > 0 || !staged.is_owned {
            return None;
        }
        (staged.is_owned, staged.is_closed) = (false, true);
        let capacity = &mut self.capacity[staged.device];
        capacity.staged -= 1;
        capacity.in_hand += 1;
        Some(staged.chunk)
    }

    /// The record that would have given it to the chunk is not written: it is staged as before.
    pub(crate) fn keep_staged(&mut self, key: u64) {
        let Some(staged) = self.staged.get_mut(&key) else { return };
        staged.is_owned = true;
        let capacity = &mut self.capacity[staged.device];
        capacity.in_hand -= 1;
        capacity.staged += 1;
    }

    /// The map gives a device chunk up. Whether the record of a staged chunk keeps it: the log may
    /// still name it (store rule 18).
    pub(super) fn keeps_staged(&mut self, key: u64, device: usize, chunk: u32) -> bool {
        let Some(staged) = self.staged.get_mut(&key) else { return false };
        let is_it = (staged.device, staged.chunk, staged.is_owned) == (device, chunk, false);
        if !is_it || self.mutations.reuse_named() {
            return false;
        }
        base::hit(base::Probe::StagedKept);
        staged.is_owned = true;
        self.capacity[device].staged += 1;
        true
    }

    /// No recovery reads that segment any more, nor one before it: what is still only staged goes
    /// back. Whether a chunk did.
    pub(crate) fn staged_has_left(&mut self, key: u64, segment: u64) -> bool {
        let is_over = |staged: &Staged| staged.pending == 0 && staged.named_before <= segment + 1;
        let Some(staged) = self.staged.get(&key).copied().filter(is_over) else { return false };
        self.staged.remove(&key);
        if !staged.is_owned {
            return false;
        }
        base::hit(base::Probe::StagedGivenBack);
        let capacity = &mut self.capacity[staged.device];
        capacity.staged -= 1;
        capacity.put_by(staged.chunk, self.stock_max);
        true
    }
}

impl Staged {
    /// Whether the record owns it.
    pub(crate) fn is_owned(&self) -> bool {
        self.is_owned
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::GroupLimits;
    use crate::memory::{STAGED_BYTES, staged_max, table_bytes};
    use crate::mutations::Mutations;
    use format::{CacheLayout, ChunkEntry};

    /// The smallest log has room for 16 chunks in whole; its device has many more.
    #[test]
    fn there_are_no_more_than_their_memory_is_accounted_for() {
        let layout = CacheLayout::plan((1 << 20) + (6 << 16), 64 << 10).expect("a small log");
        let limits = GroupLimits { direct_blocks: CHUNK_BLOCKS, ..GroupLimits::default() };
        let mut store = CapacityStore::new(&layout, 1, &limits, Mutations::default());
        store.capacity[0].map = vec![ChunkEntry::default(); 1000];
        store.capacity[0].free = (0..1000).collect();
        let most = staged_max(&layout, &limits);
        assert_eq!(most, 16);
        let now = Instant::default();
        for key in 0..most {
            assert!(store.stage((key, 0), 0..CHUNK_BLOCKS, now).is_some(), "chunk {key}");
        }
        assert_eq!(store.stage((most, 0), 0..CHUNK_BLOCKS, now), None, "through the log");
        assert_eq!(widened(size_of::<(u64, Staged)>()), STAGED_BYTES);
        assert!(widened(store.staged_bytes()) <= table_bytes(most, STAGED_BYTES));
        store.staged_is_named(0, 5, true);
        assert!(store.staged_has_left(0, 5));
        assert!(store.stage((most, 0), 0..CHUNK_BLOCKS, now).is_some(), "one has left");
    }
}
