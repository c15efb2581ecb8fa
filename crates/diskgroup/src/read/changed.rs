// SPDX-License-Identifier: Apache-2.0
//! What changed since an lsn, and what is allocated (rules 30 and 33).

use crate::keys::{block_key, chunk_key};
use crate::log::index::LogView;
use crate::state::{DiskGroup, GroupState};
use crate::store::components::Component;
use crate::store::history::Recent;
use crate::types::Changed;
use base::{BLOCK_SECTORS, CHUNK_BLOCKS, CHUNK_SECTORS, ComponentId, Lsn, Probe, SectorRange};

impl DiskGroup {
    /// Ranges changed by an lsn above `since`, and which chunks are held, from chunk `cursor` on.
    /// By block where the log or its history knows it, by chunk where only capacity does. A
    /// discarded chunk is not held; a chunk that is held but reads as zeros is possible.
    #[must_use]
    pub fn changed_since(&self, id: ComponentId, since: Lsn, cursor: u64) -> Changed {
        let state = self.shared().state.borrow();
        let Some(component) = state.store.components.by_id(id) else { return Changed::default() };
        let limits = self.shared().options.limits;
        let chunks = component.row.sectors.div_ceil(CHUNK_SECTORS);
        let is_remembered = component.remembered_from <= since;
        let mut changed = Changed::default();
        let (mut chunk, mut looks) = (cursor, 0);
        while chunk < chunks
            && chunk - cursor < limits.list_chunks
            && changed.ranges.len() < limits.list_ranges
            && looks < limits.list_looks
        {
            let at = (chunk - cursor) as usize;
            if at.is_multiple_of(64) {
                changed.held.push(0);
            }
            let asked = Asked { component, chunk, since, is_remembered };
            if state.changed_in(asked, &mut changed.ranges, &mut looks) {
                changed.held[at / 64] |= 1 << (at % 64);
            }
            chunk += 1;
        }
        self.shared().env.count_steps(looks);
        if chunk < chunks {
            changed.next = Some(chunk);
            base::hit(match () {
                () if chunk - cursor >= limits.list_chunks => Probe::ChangedPageChunks,
                () if changed.ranges.len() >= limits.list_ranges => Probe::ChangedPageRanges,
                () => Probe::ChangedPageLooks,
            });
        }
        changed
    }

    /// Parts of a range, in order, each with whether it may hold data. By block in the log, by
    /// chunk on capacity. Counts its steps; who asks for many chunks rests in between.
    #[must_use]
    pub fn extents(&self, id: ComponentId, range: SectorRange) -> Vec<(SectorRange, bool)> {
        let state = self.shared().state.borrow();
        let Some(component) = state.store.components.by_id(id) else { return Vec::new() };
        let serial = component.row.serial;
        let mut extents: Vec<(SectorRange, bool)> = Vec::new();
        let mut add = |part: SectorRange, is_held: bool| match extents.last_mut() {
            Some((last, held)) if *held == is_held => last.count += part.count,
            _ => extents.push((part, is_held)),
        };
        for part in range.split_at_multiples(CHUNK_SECTORS) {
            let key = chunk_key(serial, part.start / CHUNK_SECTORS);
            let over = state.log.over(key);
            let below = state.store.base(key).is_some() && over.is_none_or(|o| o.cleared.is_none());
            if over.is_none_or(|over| over.live == 0) {
                add(part, below);
                continue;
            }
            self.shared().env.count_steps(CHUNK_BLOCKS);
            for piece in part.split_at_multiples(BLOCK_SECTORS) {
                let view = state.log.index.get(block_key(serial, piece.start / BLOCK_SECTORS));
                add(
                    piece,
                    match view {
                        None => below,
                        Some(LogView::Whole(piece)) => !piece.place.is_zero(),
                        Some(LogView::Parts(_)) => true,
                    },
                );
            }
        }
        extents
    }
}

/// What is asked of one chunk.
#[derive(Clone, Copy)]
struct Asked<'a> {
    component: &'a Component,
    chunk: u64,
    since: Lsn,
    is_remembered: bool,
}

impl GroupState {
    /// Adds the ranges of one chunk that changed; whether the chunk may hold data.
    fn changed_in(&self, asked: Asked<'_>, ranges: &mut Vec<SectorRange>, looks: &mut u64) -> bool {
        let Asked { component, chunk, since, is_remembered } = asked;
        *looks += 1;
        let (serial, sectors) = (component.row.serial, component.row.sectors);
        let key = chunk_key(serial, chunk);
        let base = self.store.base(key);
        let over = self.log.over(key);
        let start = chunk * CHUNK_SECTORS;
        let whole = SectorRange::new(start, CHUNK_SECTORS.min(sectors - start));
        let below = base.map_or(Lsn::ZERO, |at| self.store.entry(component.device, at).lsn);
        let cleared = over.and_then(|over| over.cleared).map_or(0, |(_, lsn)| lsn);
        let live = over.is_some_and(|over| over.live > 0);
        // The log knows only of entries that it still holds. A discard that left the log while its
        // chunk was not on capacity shows in `erased` of its component alone.
        let is_erased = base.is_none() && live && component.erased > since;
        let destaged = match is_remembered {
            _ if below <= since => Recent::NOTHING,
            true => self.store.history.since(serial, chunk, since, looks),
            false => Recent::Whole,
        };
        let is_logged = live && over.is_some_and(|over| over.lsn > since.0);
        match destaged {
            _ if cleared > since.0 || is_erased => ranges.push(whole),
            Recent::Whole => ranges.push(whole),
            Recent::Blocks(_) if is_logged || destaged != Recent::NOTHING => {
                *looks += CHUNK_BLOCKS;
                for block in chunk * CHUNK_BLOCKS..whole.end().div_ceil(BLOCK_SECTORS) {
                    if destaged.has(block) || self.logged_at(serial, block) > since.0 {
                        let range = SectorRange::new(block * BLOCK_SECTORS, BLOCK_SECTORS);
                        let range = range.intersect(whole);
                        match ranges.last_mut() {
                            Some(last) if last.end() == range.start => last.count += range.count,
                            _ => ranges.push(range),
                        }
                    }
                }
            }
            Recent::Blocks(_) => {}
        }
        base.is_some() || live
    }

    /// The lsn of a block in the log; zero where the log does not have it.
    fn logged_at(&self, serial: u32, block: u64) -> u64 {
        match self.log.index.get(block_key(serial, block)) {
            None => 0,
            Some(LogView::Whole(piece)) => piece.lsn,
            Some(LogView::Parts(parts)) => {
                parts.pieces.iter().map(|piece| piece.lsn).max().unwrap_or(0)
            }
        }
    }
}
