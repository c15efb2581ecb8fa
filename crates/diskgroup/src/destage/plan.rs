// SPDX-License-Identifier: Apache-2.0
//! What is to be done with each live entry of a segment: write, unset, move or fold.

use super::batch::{BlockWrite, DestageBatch, Found};
use crate::keys::{block_key, chunk_key, chunk_of_block, serial_of};
use crate::log::build::to_usize;
use crate::log::held::Overlay;
use crate::log::index::{IndexPiece, LogPlace, LogView};
use crate::log::queue::{Move, Still};
use crate::state::{GroupInner, GroupState};
use crate::types::GroupError;
use base::{BLOCK_SECTORS, BLOCK_SIZE, CHUNK_BLOCKS, CHUNK_SECTORS, Lsn, SectorRange, crc32c};
use format::{EntryKind, Item};
use std::rc::Rc;

/// Sorts what is live in the segment into writes, map changes, moves and folds.
pub(super) fn plan(
    inner: &GroupInner,
    segment: u64,
    found: &[Found],
    bytes: &[u8],
) -> DestageBatch {
    let mut state = inner.state.borrow_mut();
    let mut batch = DestageBatch::new(inner);
    let may_all = inner.options.mutations.destage_uncommitted();
    let folds_max = state.log.folds_max();
    for found in found {
        let entry = &found.entry;
        let Some(component) = state.store.components.get(entry.serial) else { continue };
        let (device, commit) = (component.device, component.row.commit);
        let is_committed = entry.lsn <= commit || may_all;
        if found.is_clear() {
            if found.is_live(&state, segment) {
                state.plan_clear(segment, found, device, is_committed, &mut batch);
            }
            continue;
        }
        if matches!(entry.kind, EntryKind::Direct { .. }) {
            state.plan_direct(segment, found, is_committed, folds_max, &mut batch);
            continue;
        }
        for block in entry.range.blocks() {
            let key = block_key(entry.serial, block);
            let place = found.place(&state, segment, block);
            if !state.log.index.is_live(key, place) && !inner.options.mutations.skip_liveness() {
                continue;
            }
            // A clear of this chunk is live in another segment and hides what is on capacity. It
            // would hide this newer block too, so the block stays in the log as long as the clear.
            let is_under_clear = state.log.is_cleared_elsewhere(chunk_of_block(key), segment);
            if !is_committed || is_under_clear {
                batch.moves.push(move_of(found, block, key, place, bytes));
                continue;
            }
            match state.log.index.get(key) {
                Some(LogView::Parts(_)) => {
                    let fold = (entry.serial, block);
                    if batch.folds.len() < folds_max || batch.folds.contains(&fold) {
                        batch.folds.insert(fold);
                    } else {
                        batch.moves.push(move_of(found, block, key, place, bytes));
                    }
                }
                _ => state.plan_block(found, device, block, place, bytes, &mut batch),
            }
        }
    }
    drop(state);
    for writes in &mut batch.writes {
        writes.sort_unstable_by_key(|write| (write.chunk, write.block));
    }
    batch
}

/// An entry's part of one block, to be appended again as it is.
fn move_of(found: &Found, block: u64, key: u64, place: LogPlace, bytes: &[u8]) -> Move {
    let whole = SectorRange::new(block * BLOCK_SECTORS, BLOCK_SECTORS);
    let range = found.entry.range.intersect(whole);
    let number = to_usize(block - found.entry.range.start / BLOCK_SECTORS);
    let from = to_usize(found.at) + number * to_usize(BLOCK_SIZE);
    let is_data = found.entry.kind == EntryKind::Data;
    let end = if is_data { from + to_usize(range.bytes()) } else { from };
    let crcs = found.crcs.get(number).copied().into_iter().collect();
    let payload = bytes.get(from..end).unwrap_or_default().to_vec();
    Move { range, crcs, payload, ..Move::of(&found.entry, Still::Live(key, place)) }
}

impl GroupState {
    /// An upper bound of the lsns of zeros that were written to this chunk before it had data on
    /// capacity. Zeros leave no trace on capacity while their chunk is not there, so this lsn goes
    /// into the item that allocates the chunk (rule 30). Three bounds give it. Zeros of this batch
    /// have no lsn above the chunk's highest entry in the log. Zeros of earlier batches have none
    /// above `erased` of the component. And nothing above K was destaged.
    fn erased_in(&self, serial: u32, key: u64) -> Lsn {
        let Some(component) = self.store.components.get(serial) else { return Lsn::ZERO };
        let logged = Lsn(self.log.highest_of(key));
        logged.max(component.erased).min(component.row.commit)
    }

    fn plan_clear(
        &mut self,
        segment: u64,
        found: &Found,
        device: usize,
        is_committed: bool,
        batch: &mut DestageBatch,
    ) {
        let entry = &found.entry;
        let key = chunk_key(entry.serial, entry.range.start / CHUNK_SECTORS);
        let place = LogPlace::zero(self.log.sector(segment, found.at));
        if !is_committed {
            batch.moves.push(Move::of(entry, Still::Cleared(key, place)));
            return;
        }
        batch.clears.push((key, device, place, entry.lsn));
        batch.touched.insert(key);
        base::hit(base::Probe::DestageCleared);
        let Some(chunk) = self.store.base(key) else { return };
        let is_wanted = self.log.over(key).is_some_and(Overlay::has_blocks);
        batch.items[device].push(match is_wanted {
            true => Item::Clear { chunk, lsn: entry.lsn },
            false => Item::Free { chunk },
        });
    }

    /// The device chunk of a chunk: the one that it has, or that this batch gave it; else the one
    /// that is staged for it, or a free one, which the batch gives it now. None where none is free.
    pub(super) fn chunk_for(
        &mut self,
        key: u64,
        device: usize,
        lsn: Lsn,
        batch: &mut DestageBatch,
    ) -> Option<u32> {
        let known = self.store.base(key).or_else(|| batch.fresh.get(&key).copied());
        if known.is_some() {
            return known;
        }
        let staged = self.store.take_staged(key);
        base::hit_if(staged.is_some(), base::Probe::StagedMapped);
        let chunk = staged.or_else(|| self.store.capacity[device].take_free())?;
        batch.fresh.insert(key, chunk);
        let serial = serial_of(key);
        let lsn = lsn.max(self.erased_in(serial, key));
        let index = u32::try_from(key & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        batch.items[device].push(Item::Allocate { chunk, serial, index, lsn });
        Some(chunk)
    }

    pub(super) fn plan_block(
        &mut self,
        found: &Found,
        device: usize,
        block: u64,
        place: LogPlace,
        bytes: &[u8],
        batch: &mut DestageBatch,
    ) {
        let entry = &found.entry;
        let chunk_at = block / CHUNK_BLOCKS;
        let key = chunk_key(entry.serial, chunk_at);
        let within = (block % CHUNK_BLOCKS) as u8;
        let base = self.store.base(key);
        batch.touched.insert(key);
        if entry.kind != EntryKind::Data {
            if let Some(chunk) = base {
                batch.items[device].push(Item::Unset { chunk, block: within, lsn: entry.lsn });
            }
            batch.zeros.push((block_key(entry.serial, block), place, entry.lsn));
            return;
        }
        let chunk = self.chunk_for(key, device, entry.lsn, batch);
        // Direct writes may stand in a chunk that was staged: it is not written as a whole.
        let is_fresh = base.is_none() && self.store.staged(key).map(|s| s.chunk) != chunk;
        let key = block_key(entry.serial, block);
        let Some(chunk) = chunk else {
            // Freed chunks still wait for their discard: keep the block in the log for a lap.
            batch.moves.push(move_of(found, block, key, place, bytes));
            return;
        };
        let number = block - entry.range.start / BLOCK_SECTORS;
        batch.writes[device].push(BlockWrite {
            key,
            place,
            source: batch.source,
            from: found.at + number * BLOCK_SIZE,
            crc: found.crcs[to_usize(number)],
            lsn: entry.lsn,
            chunk,
            block: within,
            is_fresh,
        });
    }
}

/// Merges blocks that the log holds in parts into whole ones (store rule 14). Where what is below
/// fails its checksum the parts are moved as they are: they stay in the log, lap for lap, until a
/// repair covers the block; nothing is merged into bad data.
pub(super) async fn fold(
    inner: &Rc<GroupInner>,
    segment: u64,
    found: &[Found],
    bytes: &[u8],
    batch: &mut DestageBatch,
) -> Result<(), GroupError> {
    let folds = std::mem::take(&mut batch.folds);
    for (serial, block) in folds {
        let key = block_key(serial, block);
        let (commit, pieces) = {
            let state = inner.state.borrow();
            let Some(component) = state.store.components.get(serial) else { continue };
            let commit = component.row.commit.0;
            let Some(LogView::Parts(parts)) = state.log.index.get(key) else {
                // Covered meanwhile by a newer whole block.
                continue;
            };
            let old = parts.pieces.iter().filter(|piece| piece.lsn <= commit);
            (commit, old.copied().collect::<Vec<_>>())
        };
        let Some(lsn) = pieces.iter().map(|piece| piece.lsn).max() else { continue };
        base::hit(base::Probe::DestageFolded);
        let range = SectorRange::new(block * BLOCK_SECTORS, BLOCK_SECTORS);
        match crate::read::read_committed(inner, serial, range, commit).await {
            Ok(whole) => {
                let mut merged = folded(serial, block, lsn, whole.to_vec(), &pieces);
                // One of the merged pieces may have been a copy.
                let state = inner.state.borrow();
                merged.is_copy = state.store.has_copies(serial, state.log.tail);
                batch.moves.push(merged);
            }
            Err(GroupError::BadCrc { .. }) => {
                let whole =
                    crate::commit::detours::merge_blindly(inner, serial, block, commit).await;
                if let Some(whole) = whole {
                    batch.moves.push(folded(serial, block, lsn, whole, &pieces));
                    continue;
                }
                let state = inner.state.borrow();
                for found in found.iter().filter(|f| f.entry.serial == serial && !f.is_clear()) {
                    if !found.entry.range.blocks().contains(&block) {
                        continue;
                    }
                    let place = found.place(&state, segment, block);
                    if state.log.index.is_live(key, place) {
                        batch.moves.push(move_of(found, block, key, place, bytes));
                    }
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The entry for a block that was merged from these pieces and what is below. A block of zeros
/// becomes an entry of zeros, not of data. No chunk was set aside for zeros: as data they would
/// take one that is meant for others, or wait for one in the log for ever.
fn folded(serial: u32, block: u64, lsn: u64, whole: Vec<u8>, pieces: &[IndexPiece]) -> Move {
    let places = pieces.iter().map(|piece| piece.place).collect();
    let is_zero = whole.iter().all(|byte| *byte == 0);
    let (kind, crcs, payload) = match is_zero {
        true => (EntryKind::Zero, Vec::new(), Vec::new()),
        false => (EntryKind::Data, vec![crc32c(&whole)], whole),
    };
    Move {
        serial,
        kind,
        is_copy: false,
        range: SectorRange::new(block * BLOCK_SECTORS, BLOCK_SECTORS),
        lsn: Lsn(lsn),
        crcs,
        payload,
        id: None,
        still: Still::Pieces(block_key(serial, block), places),
    }
}

/// Hands entries to the log's task and waits until they are durable at its head.
pub(super) async fn move_to_head(inner: &GroupInner, moves: Vec<Move>) -> Result<(), GroupError> {
    if moves.is_empty() {
        return Ok(());
    }
    inner.state.borrow_mut().log.move_to_head(moves);
    inner.log_kick.notify();
    loop {
        let progress = inner.progress.wait();
        inner.check_open()?;
        let is_done = {
            let state = inner.state.borrow();
            !state.log.has_moves() && !state.log.is_moving
        };
        if is_done {
            return Ok(());
        }
        progress.await;
    }
}
