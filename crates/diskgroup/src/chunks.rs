// SPDX-License-Identifier: Apache-2.0
//! Which chunk of a component is where: on capacity, and what the log says about it.

use crate::index::{FixedMap, Place};

/// What the log and its queue hold of one chunk.
#[derive(Clone, Copy, Default)]
pub(crate) struct Overlay {
    /// Blocks of it in the index.
    pub(crate) live: u16,
    /// Appends that are not durable yet.
    pub(crate) queued: u16,
    /// A device chunk is set aside for it.
    pub(crate) is_reserved: bool,
    /// All of it was discarded by this entry; blocks in the index are newer.
    pub(crate) cleared: Option<(Place, u64)>,
    /// Highest lsn of an entry.
    pub(crate) lsn: u64,
}

impl Overlay {
    /// Whether nothing needs it any more.
    fn is_idle(&self) -> bool {
        self.live == 0 && self.queued == 0 && self.cleared.is_none()
    }
}

/// Both maps, keyed by [`chunk_key`].
#[derive(Default)]
pub(crate) struct Chunks {
    /// Device chunk of each chunk that capacity holds.
    base: FixedMap<u32>,
    over: FixedMap<Overlay>,
}

/// The key of a chunk of a component.
pub(crate) fn chunk_key(serial: u32, chunk: u64) -> u64 {
    u64::from(serial) << 32 | chunk
}

/// The key of a block of a component.
pub(crate) fn block_key(serial: u32, block: u64) -> u64 {
    u64::from(serial) << 40 | block
}

impl Chunks {
    pub(crate) fn base(&self, key: u64) -> Option<u32> {
        self.base.get(&key).copied()
    }

    /// All chunks that capacity holds, for counting: in no order.
    pub(crate) fn bases(&self) -> impl Iterator<Item = u64> {
        self.base.keys().copied()
    }

    /// All overlays, for counting: in no order.
    pub(crate) fn overlays(&self) -> impl Iterator<Item = (u64, &Overlay)> {
        self.over.iter().map(|(key, over)| (*key, over))
    }

    pub(crate) fn set_base(&mut self, key: u64, chunk: Option<u32>) {
        match chunk {
            Some(chunk) => self.base.insert(key, chunk),
            None => self.base.remove(&key),
        };
    }

    pub(crate) fn over(&self, key: u64) -> Option<&Overlay> {
        self.over.get(&key)
    }

    pub(crate) fn over_mut(&mut self, key: u64) -> &mut Overlay {
        self.over.entry(key).or_default()
    }

    /// Drops the overlay if nothing needs it; whether a device chunk set aside came free.
    pub(crate) fn settle(&mut self, key: u64) -> bool {
        let Some(over) = self.over.get(&key).filter(|over| over.is_idle()) else { return false };
        let was_reserved = over.is_reserved;
        self.over.remove(&key);
        was_reserved
    }

    /// Drops the overlay of a chunk of a deleted component; whether a device chunk was set aside.
    pub(crate) fn drop_over(&mut self, key: u64) -> bool {
        self.over.remove(&key).is_some_and(|over| over.is_reserved)
    }
}
