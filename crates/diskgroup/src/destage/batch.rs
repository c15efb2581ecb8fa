// SPDX-License-Identifier: Apache-2.0
//! What is to be done with a segment.

use crate::log::index::LogPlace;
use crate::log::queue::Move;
use crate::state::GroupInner;
use base::{Lsn, Map, Set};
use format::{Item, LogEntry};

/// Bytes of one read-back, one after the other: larger ones delay the log's writes (docs/store.md,
/// "Destage and pace").
pub(super) const READ_BACK: u64 = 128 << 10;
/// An entry of the segment, its payload's place in it, its checksums.
pub(super) struct Found {
    pub(super) entry: LogEntry,
    /// Bytes from the segment's start; for entries without payload: of their commit.
    pub(super) at: u64,
    pub(super) crcs: wire::Crcs,
}

/// One whole block on its way to capacity.
pub(super) struct BlockWrite {
    pub(super) key: u64,
    pub(super) place: LogPlace,
    /// Where the data is in memory: the number of the segment among those that are destaged
    /// together, and the first byte in it.
    pub(super) source: usize,
    pub(super) from: u64,
    pub(super) crc: u32,
    pub(super) lsn: Lsn,
    pub(super) chunk: u32,
    pub(super) block: u8,
    pub(super) is_fresh: bool,
}

impl BlockWrite {
    pub(super) fn item(&self) -> Item {
        Item::Block { chunk: self.chunk, block: self.block, crc: self.crc, lsn: self.lsn }
    }
}

/// One block of a direct write.
#[derive(Clone, Copy)]
pub(super) struct DirectBlock {
    /// Its number in the component.
    pub(super) block: u64,
    pub(super) place: LogPlace,
    pub(super) crc: u32,
    pub(super) lsn: Lsn,
    pub(super) is_copy: bool,
}

/// What is to be done with a segment.
#[derive(Default)]
pub(super) struct DestageBatch {
    pub(super) writes: Vec<Vec<BlockWrite>>,
    pub(super) items: Vec<Vec<Item>>,
    pub(super) moves: Vec<Move>,
    pub(super) folds: Set<(u32, u64)>,
    pub(super) fresh: Map<u64, u32>,
    /// Blocks that read as zeros on capacity once the items are journaled.
    pub(super) zeros: Vec<(u64, LogPlace, Lsn)>,
    /// Whole chunks that read as zeros on capacity once the items are journaled.
    pub(super) clears: Vec<(u64, usize, LogPlace, Lsn)>,
    /// Blocks of direct writes, by chunk of a component, whose place is still to be decided.
    pub(super) direct: Map<u64, Vec<DirectBlock>>,
    /// Blocks that are on capacity where the items say that they are.
    pub(super) placed: Vec<(u64, LogPlace)>,
    /// Records of which each gives one chunk the place of another; by device.
    pub(super) replaced: Vec<Vec<Vec<Item>>>,
    /// Chunks that something else than direct writes of this batch changes.
    pub(super) touched: Set<u64>,
    /// The segment that is being planned, of those that are destaged together.
    pub(super) source: usize,
}

impl DestageBatch {
    pub(super) fn new(inner: &GroupInner) -> Self {
        let mut batch = Self::default();
        batch.writes.resize_with(inner.devices.len(), Vec::new);
        batch.items.resize_with(inner.devices.len(), Vec::new);
        batch.replaced.resize_with(inner.devices.len(), Vec::new);
        batch
    }

    pub(super) fn is_empty(&self) -> bool {
        self.writes.iter().all(Vec::is_empty)
            && self.items.iter().all(Vec::is_empty)
            && self.moves.is_empty()
            && self.zeros.is_empty()
            && self.clears.is_empty()
            && self.placed.is_empty()
    }

    /// Blocks that are to be dealt with.
    pub(super) fn blocks(&self) -> u64 {
        let writes = self.writes.iter().map(Vec::len).sum::<usize>();
        let direct = self.direct.values().map(Vec::len).sum::<usize>();
        (writes + self.moves.len() + self.folds.len() + direct) as u64
    }
}
