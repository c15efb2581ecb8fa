// SPDX-License-Identifier: Apache-2.0
//! What the log holds of blocks and chunks: the index, and beside it a count for each chunk.
//!
//! Both change together, so that the count of a chunk is that of its blocks in the index. Blocks of
//! a component that was deleted are no longer counted, since nobody asks for them; they go with the
//! component's chunks.

use crate::keys::{block_key, chunk_key, chunk_of_block, serial_of};
use crate::log::Log;
use crate::log::build::is_fraction;
use crate::log::index::{IndexPiece, LogPlace, LogView};
use base::{BLOCK_SECTORS, CHUNK_BLOCKS, CHUNK_SECTORS, SectorRange};
use format::{EntryKind, LogEntry};

/// What the log and its queue hold of one chunk.
#[derive(Clone, Copy, Default)]
pub(crate) struct Overlay {
    /// Blocks of it in the index.
    pub(crate) live: u16,
    /// Entries of appends that are not durable yet.
    pub(crate) queued: u16,
    /// All of it was discarded by this entry; blocks in the index are newer.
    pub(crate) cleared: Option<(LogPlace, u64)>,
    /// Highest lsn of an entry.
    pub(crate) lsn: u64,
}

impl Overlay {
    /// Whether nothing needs it any more.
    fn is_idle(&self) -> bool {
        self.live == 0 && self.queued == 0 && self.cleared.is_none()
    }

    /// Whether there are blocks of the chunk in the log, or on their way there.
    pub(crate) fn has_blocks(&self) -> bool {
        self.live > 0 || self.queued > 0
    }
}

impl Log {
    /// What is held of a chunk.
    pub(crate) fn over(&self, chunk: u64) -> Option<&Overlay> {
        self.overlays.get(&chunk)
    }

    /// Bytes of the counts by chunk.
    pub(crate) fn counts_bytes(&self) -> usize {
        self.overlays.allocation_size()
    }

    /// The entry that discarded all of a chunk, and its lsn.
    pub(crate) fn cleared(&self, chunk: u64) -> Option<(LogPlace, u64)> {
        self.over(chunk)?.cleared
    }

    /// Highest lsn of what is held of a chunk.
    pub(crate) fn highest_of(&self, chunk: u64) -> u64 {
        self.over(chunk).map_or(0, |over| over.lsn)
    }

    /// All chunks of which something is held, for counting: in no order.
    pub(crate) fn overlays(&self) -> impl Iterator<Item = (u64, &Overlay)> {
        self.overlays.iter().map(|(key, over)| (*key, over))
    }

    /// An entry that is durable goes into the index; `at` is its payload's sector, or its commit's
    /// where it has none. Whether it counts: not where a later discard of all its chunk hides it.
    pub(crate) fn take_in(&mut self, entry: &LogEntry, crcs: &[u32], at: u32) -> bool {
        let chunk = entry.range.start / CHUNK_SECTORS;
        let lsn = entry.lsn.0;
        let is_data = entry.kind.is_data();
        let over = self.overlays.entry(chunk_key(entry.serial, chunk)).or_default();
        over.lsn = over.lsn.max(lsn);
        let cleared = over.cleared.map_or(0, |(_, lsn)| lsn);
        if cleared > lsn && !self.mutations.ignore_lsn() {
            return false;
        }
        if !is_data && entry.range.count == CHUNK_SECTORS {
            over.cleared = Some((LogPlace::zero(at), lsn));
            if over.live > 0 {
                for block in chunk * CHUNK_BLOCKS..(chunk + 1) * CHUNK_BLOCKS {
                    if self.index.clear(block_key(entry.serial, block), lsn) {
                        over.live -= 1;
                    }
                }
            }
            return true;
        }
        for (number, block) in entry.range.blocks().enumerate() {
            let place = match entry.kind {
                EntryKind::Data => LogPlace::data(at + number as u32 * BLOCK_SECTORS as u32),
                EntryKind::Direct { .. } => LogPlace::direct(at),
                _ => LogPlace::zero(at),
            };
            let mut piece = IndexPiece {
                start: 0,
                count: 8,
                place,
                crc: crcs.get(number).copied().unwrap_or(0),
                lsn,
            };
            if is_fraction(entry.range) {
                piece.start = (entry.range.start % BLOCK_SECTORS) as u8;
                piece.count = entry.range.count as u8;
            }
            if self.index.put(block_key(entry.serial, block), piece) {
                over.live += 1;
            }
        }
        true
    }

    /// So many entries of an append are on their way to a chunk.
    pub(crate) fn enqueue(&mut self, chunk: u64, entries: u16) {
        self.overlays.entry(chunk).or_default().queued += entries;
    }

    /// One of them is durable.
    pub(crate) fn unqueue(&mut self, chunk: u64) {
        let over = self.overlays.entry(chunk).or_default();
        over.queued = over.queued.saturating_sub(1);
    }

    /// Takes out what one place holds of a block, if it is still the newest of any sector: capacity
    /// has it by now. Whether nothing is left of the block here. It is counted while its component
    /// `is_known`.
    pub(crate) fn forget(&mut self, block: u64, place: LogPlace, is_known: bool) -> bool {
        let is_gone = self.index.forget(block, place);
        if is_gone && is_known {
            self.overlays.entry(chunk_of_block(block)).or_default().live -= 1;
        }
        is_gone
    }

    /// The same for the discard of all of a chunk; whether it was there.
    pub(crate) fn forget_clear(&mut self, chunk: u64, place: LogPlace) -> bool {
        let over = self.overlays.get_mut(&chunk);
        let clear = over.filter(|over| over.cleared.is_some_and(|(at, _)| at == place));
        clear.map(|over| over.cleared = None).is_some()
    }

    /// Forgets a chunk that nothing is held of; whether that is so.
    pub(crate) fn settle(&mut self, chunk: u64) -> bool {
        let is_idle = self.over(chunk).is_some_and(Overlay::is_idle);
        is_idle && self.overlays.remove(&chunk).is_some()
    }

    /// Takes out a chunk of a component that was deleted: how many blocks were looked up.
    pub(crate) fn forget_deleted(&mut self, chunk: u64) -> u64 {
        // Nobody counts them down any more: there may be none left.
        if self.overlays.remove(&chunk).is_none_or(|over| over.live == 0) {
            return 0;
        }
        let (serial, first) = (serial_of(chunk), (chunk & u64::from(u32::MAX)) * CHUNK_BLOCKS);
        for block in first..first + CHUNK_BLOCKS {
            self.index.clear(block_key(serial, block), u64::MAX);
        }
        CHUNK_BLOCKS
    }

    /// Whether all of a chunk was discarded by an entry outside `segment` that is still needed.
    pub(crate) fn is_cleared_elsewhere(&self, chunk: u64, segment: u64) -> bool {
        self.cleared(chunk).is_some_and(|(place, _)| !self.is_in_segment(place, segment))
    }

    /// The parts of a range, whole blocks, of which `place` is still the newest.
    pub(crate) fn live_parts(
        &self,
        (serial, range): (u32, SectorRange),
        place: LogPlace,
    ) -> Vec<SectorRange> {
        let mut parts: Vec<SectorRange> = Vec::new();
        for block in range.blocks() {
            if !self.index.is_live(block_key(serial, block), place) {
                continue;
            }
            let start = block * BLOCK_SECTORS;
            match parts.last_mut() {
                Some(last) if last.end() == start => last.count += BLOCK_SECTORS,
                _ => parts.push(SectorRange::new(start, BLOCK_SECTORS)),
            }
        }
        parts
    }

    /// Whether the log holds something of a block besides what stands at `place`.
    pub(crate) fn has_other_pieces(&self, block: u64, place: LogPlace) -> bool {
        let is_other = |piece: &IndexPiece| piece.place != place;
        match self.index.get(block) {
            None => false,
            Some(LogView::Whole(piece)) => is_other(&piece),
            Some(LogView::Parts(parts)) => parts.pieces.iter().any(is_other),
        }
    }
}
