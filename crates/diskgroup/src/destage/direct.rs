// SPDX-License-Identifier: Apache-2.0
//! Destage of direct writes: their data is on capacity already, in a staged chunk.
//!
//! Where capacity holds nothing of the chunk, the record gives it the staged one. Where capacity
//! holds a chunk, the smaller part is copied: what is left of the old chunk goes into the staged
//! one, which then takes its place (store rule 17), or the blocks of the direct writes go into the
//! old one as those of any other entry do.
//!
//! A block of the staged chunk that this batch is not about may be of an entry above K, or of one
//! that is not in the log yet. So it is not written over. Where the old chunk has such a block, the
//! staged chunk cannot take its place.

use super::batch::{BlockWrite, DestageBatch, DirectBlock, Found};
use crate::keys::{block_key, chunk_key, serial_of};
use crate::log::build::to_usize;
use crate::log::index::LogView;
use crate::log::queue::{Move, Still};
use crate::read::salvage::is_bad_place;
use crate::state::{GroupInner, GroupState};
use crate::store::staged::{BlockSet, both, count, without};
use crate::types::{GroupError, device_error};
use base::{
    BLOCK_SECTORS, BLOCK_SIZE, CHUNK_BLOCKS, CHUNK_SECTORS, CHUNK_SIZE, Lsn, SectorRange, crc32c,
};
use env::{Durability, Slice, try_join_at_most};
use format::{EntryKind, Item, LogEntry};
use std::rc::Rc;

/// Writes of copied blocks in flight.
const COPIES_IN_FLIGHT: usize = 4;

/// Where the blocks of a chunk's direct writes go.
enum Choice {
    /// They are where they belong.
    Stay,
    /// They stay, and these blocks of the old chunk come to them, each with its checksum.
    Replace { old: u32, copies: Vec<(u64, u32)> },
    /// To this chunk.
    Copy(u32),
    /// No chunk is free: they stay in the log for a lap.
    Wait,
}

/// Blocks of direct writes to one chunk.
struct Group {
    key: u64,
    device: usize,
    /// The staged chunk.
    chunk: u32,
    blocks: Vec<DirectBlock>,
}

impl GroupState {
    /// Sorts what is live of a direct write: its place is decided when all of the segment is known.
    pub(super) fn plan_direct(
        &mut self,
        segment: u64,
        found: &Found,
        is_committed: bool,
        folds_max: usize,
        batch: &mut DestageBatch,
    ) {
        let entry = &found.entry;
        let key = chunk_key(entry.serial, entry.range.start / CHUNK_SECTORS);
        let place = found.place(self, segment, entry.range.start / BLOCK_SECTORS);
        // As for other blocks: see `plan`.
        let must_move = !is_committed || self.log.is_cleared_elsewhere(key, segment);
        for part in self.log.live_parts((entry.serial, entry.range), place) {
            if must_move {
                batch.moves.push(move_of(found, part, Still::Direct(place)));
                continue;
            }
            for block in part.blocks() {
                let name = block_key(entry.serial, block);
                let fold = (entry.serial, block);
                if !matches!(self.log.index.get(name), Some(LogView::Parts(_))) {
                    let crc = crc_of(found, block);
                    let (lsn, is_copy) = (entry.lsn, entry.is_copy);
                    let direct = DirectBlock { block, place, crc, lsn, is_copy };
                    batch.direct.entry(key).or_default().push(direct);
                } else if batch.folds.len() < folds_max || batch.folds.contains(&fold) {
                    batch.folds.insert(fold);
                } else {
                    let range = SectorRange::new(block * BLOCK_SECTORS, BLOCK_SECTORS);
                    batch.moves.push(move_of(found, range, Still::Live(name, place)));
                }
            }
        }
    }

    /// Decides for one chunk, of which the page of the old device chunk is in memory if any is.
    fn choose(&mut self, group: &Group, batch: &mut DestageBatch) -> Choice {
        let Group { key, device, chunk, ref blocks } = *group;
        let base = self.store.base(key);
        let highest = blocks.iter().map(|block| block.lsn).max().unwrap_or_default();
        let Some(target) = self.chunk_for(key, device, highest, batch) else {
            return Choice::Wait;
        };
        if target == chunk {
            return Choice::Stay;
        }
        let Some(staged) = self.store.staged(key) else { return Choice::Copy(target) };
        if base != Some(target) || batch.touched.contains(&key) {
            return Choice::Copy(target);
        }
        let Some((page, place)) = self.store.checksums(device, target) else {
            return Choice::Copy(target);
        };
        let mut mine = BlockSet::default();
        for within in blocks.iter().map(|block| block.block % CHUNK_BLOCKS) {
            mine[to_usize(within / 64)] |= 1 << (within % 64);
        }
        let present = page.present[place];
        let left = without(&present, &mine);
        let is_hidden = both(&present, &without(&staged.written, &mine)) != BlockSet::default();
        if is_hidden || count(&left) > count(&mine) {
            return Choice::Copy(target);
        }
        let crc = |within: u64| page.get(place, to_usize(within)).map(|crc| (within, crc));
        let copies: Vec<(u64, u32)> = (0..CHUNK_BLOCKS)
            .filter(|within| left[to_usize(within / 64)] >> (within % 64) & 1 == 1)
            .filter_map(crc)
            .collect();
        match self.store.take_staged(key) {
            Some(_) => Choice::Replace { old: target, copies },
            None => Choice::Copy(target),
        }
    }
}

/// Decides where the blocks of direct writes go, and copies what has to be copied. What is to be
/// written comes among the batch's writes. Their sources: the segment's bytes, and what was read.
pub(super) async fn place(
    inner: &Rc<GroupInner>,
    batch: &mut DestageBatch,
    segment: &Slice,
) -> Result<Vec<Slice>, GroupError> {
    let mut sources = vec![segment.clone()];
    for (key, blocks) in std::mem::take(&mut batch.direct) {
        let (group, base) = {
            let state = inner.state.borrow();
            let component = state.store.components.get(serial_of(key));
            let staged = state.store.staged(key);
            let (Some(component), Some(staged)) = (component, staged) else { continue };
            let (device, chunk) = (component.device, staged.chunk);
            (Group { key, device, chunk, blocks }, state.store.base(key))
        };
        if let Some(base) = base {
            inner.load_checksums(group.device, base).await?;
        }
        let choice = inner.state.borrow_mut().choose(&group, batch);
        match choice {
            Choice::Stay => stay(&group, batch),
            Choice::Replace { old, copies } => {
                if !replace(inner, &group, old, &copies, batch).await? {
                    inner.state.borrow_mut().store.keep_staged(key);
                    copy(inner, &group, old, batch, &mut sources).await?;
                }
            }
            Choice::Copy(target) => {
                copy(inner, &group, target, batch, &mut sources).await?;
            }
            Choice::Wait => batch.moves.extend(group.blocks.iter().map(|b| wait(&group, b))),
        }
    }
    for writes in &mut batch.writes {
        writes.sort_unstable_by_key(|write| (write.chunk, write.block));
    }
    Ok(sources)
}

/// They are in the chunk that the map has, or will have with this batch.
fn stay(group: &Group, batch: &mut DestageBatch) {
    let items = group.blocks.iter().map(|block| item(group, block));
    batch.items[group.device].extend(items);
    batch.placed.extend(group.blocks.iter().map(|block| (name_of(group, block), block.place)));
}

/// The staged chunk gets what is left of the old one, and takes its place. False where a block of
/// the old one fails its checksum: nothing was done then, and it stays where it is.
async fn replace(
    inner: &GroupInner,
    group: &Group,
    old: u32,
    copies: &[(u64, u32)],
    batch: &mut DestageBatch,
) -> Result<bool, GroupError> {
    let Group { key, device, chunk, ref blocks } = *group;
    let within: Vec<u64> = copies.iter().map(|(within, _)| *within).collect();
    if let Some(first) = within.first() {
        let bytes = read_blocks(inner, device, old, &within).await?;
        let of = |within: u64| to_usize((within - first) * BLOCK_SIZE);
        let block = |within: u64| &bytes[of(within)..of(within + 1)];
        if copies.iter().any(|(within, crc)| crc32c(block(*within)) != *crc) {
            return Ok(false);
        }
        let handle = &inner.devices[device];
        let start = handle.layout.chunk_start + u64::from(chunk) * CHUNK_SIZE;
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for within in &within {
            match runs.last_mut() {
                Some((first, count)) if *first + *count == *within => *count += 1,
                _ => runs.push((*within, 1)),
            }
        }
        let writes = runs.into_iter().map(|(first, count)| {
            inner.count(|requests| requests.merged += 1);
            let data = bytes.slice(of(first)..of(first + count));
            handle.disk().write(start + first * BLOCK_SIZE, data, Durability::Cached)
        });
        let written = try_join_at_most(COPIES_IN_FLIGHT, writes).await;
        written.map_err(|error| inner.fence(&handle.path, &error))?;
    }
    base::hit(match copies.is_empty() {
        true => base::Probe::StagedReplaced,
        false => base::Probe::StagedMerged,
    });
    let lsn = inner.state.borrow().store.entry(device, old).lsn;
    let index = u32::try_from(key & u64::from(u32::MAX)).unwrap_or(u32::MAX);
    let mut items = vec![Item::Allocate { chunk, serial: serial_of(key), index, lsn }];
    // What is copied did not change: the lsn is that of the chunk.
    items.extend(copies.iter().map(|(within, crc)| Item::Block {
        chunk,
        block: u8::try_from(*within).unwrap_or(u8::MAX),
        crc: *crc,
        lsn: Lsn::ZERO,
    }));
    items.extend(blocks.iter().map(|block| item(group, block)));
    items.push(Item::Free { chunk: old });
    batch.replaced[device].push(items);
    batch.placed.extend(blocks.iter().map(|block| (name_of(group, block), block.place)));
    Ok(true)
}

/// They are written to another chunk, as blocks of any other entry are.
async fn copy(
    inner: &GroupInner,
    group: &Group,
    target: u32,
    batch: &mut DestageBatch,
    sources: &mut Vec<Slice>,
) -> Result<(), GroupError> {
    base::hit(base::Probe::StagedCopied);
    let is_fresh = inner.state.borrow().store.base(group.key).is_none();
    let mut blocks: Vec<&DirectBlock> = group.blocks.iter().collect();
    blocks.sort_unstable_by_key(|block| block.block);
    for run in runs(&blocks) {
        let within: Vec<u64> = run.iter().map(|block| block.block % CHUNK_BLOCKS).collect();
        let bytes = read_blocks(inner, group.device, group.chunk, &within).await?;
        let writes = run.iter().zip(&within).map(|(block, at)| BlockWrite {
            key: name_of(group, block),
            place: block.place,
            source: sources.len(),
            from: (at - within[0]) * BLOCK_SIZE,
            crc: block.crc,
            lsn: block.lsn,
            chunk: target,
            block: u8::try_from(*at).unwrap_or(u8::MAX),
            is_fresh,
        });
        batch.writes[group.device].extend(writes);
        sources.push(bytes);
    }
    Ok(())
}

/// Blocks in order, cut where they are read apart. At least half of what is read at once is wanted,
/// so that few blocks far from each other do not take the memory of a chunk.
fn runs<'a>(blocks: &'a [&'a DirectBlock]) -> impl Iterator<Item = &'a [&'a DirectBlock]> {
    let mut rest = blocks;
    std::iter::from_fn(move || {
        let first = rest.first()?.block;
        let is_too_far = |(at, block): (usize, &&DirectBlock)| {
            let read = to_usize(block.block - first) + 1;
            read > 2 * (at + 1)
        };
        let end = rest.iter().enumerate().position(is_too_far).unwrap_or(rest.len());
        let (run, others) = rest.split_at(end);
        rest = others;
        Some(run)
    })
}

/// The bytes of a device chunk from the first of these blocks to the last. A block that the device
/// does not give is zeros: it goes on with the checksum that it should have, as a bad block.
async fn read_blocks(
    inner: &GroupInner,
    device: usize,
    chunk: u32,
    within: &[u64],
) -> Result<Slice, GroupError> {
    let handle = &inner.devices[device];
    let start = handle.layout.chunk_start + u64::from(chunk) * CHUNK_SIZE;
    let (first, last) = match (within.first(), within.last()) {
        (Some(first), Some(last)) => (*first, *last),
        _ => (0, 0),
    };
    let length = to_usize((last + 1 - first) * BLOCK_SIZE);
    inner.count(|requests| requests.merged += 1);
    match handle.disk().read(start + first * BLOCK_SIZE, inner.env.buf(length)).await {
        Ok(bytes) => return Ok(bytes.freeze()),
        Err(error) if is_bad_place(&error) => {}
        Err(error) => return Err(device_error(&handle.path)(error)),
    }
    let mut bytes = inner.env.pool().zeroed(length);
    for block in within {
        let buf = inner.env.buf(to_usize(BLOCK_SIZE));
        match handle.disk().read(start + block * BLOCK_SIZE, buf).await {
            Ok(read) => {
                let at = to_usize((block - first) * BLOCK_SIZE);
                bytes[at..at + read.len()].copy_from_slice(&read);
            }
            Err(error) if is_bad_place(&error) => {}
            Err(error) => return Err(device_error(&handle.path)(error)),
        }
    }
    Ok(bytes.freeze())
}

fn name_of(group: &Group, block: &DirectBlock) -> u64 {
    block_key(serial_of(group.key), block.block)
}

fn item(group: &Group, block: &DirectBlock) -> Item {
    let within = u8::try_from(block.block % CHUNK_BLOCKS).unwrap_or(u8::MAX);
    Item::Block { chunk: group.chunk, block: within, crc: block.crc, lsn: block.lsn }
}

fn crc_of(found: &Found, block: u64) -> u32 {
    let number = to_usize(block - found.entry.range.start / BLOCK_SECTORS);
    found.crcs.get(number).copied().unwrap_or_default()
}

/// A part of a direct write, to be recorded again.
fn move_of(found: &Found, range: SectorRange, still: Still) -> Move {
    let crcs = range.blocks().map(|block| crc_of(found, block)).collect();
    Move { range, crcs, ..Move::of(&found.entry, still) }
}

/// One block, to be recorded again.
fn wait(group: &Group, block: &DirectBlock) -> Move {
    let entry = LogEntry {
        serial: serial_of(group.key),
        kind: EntryKind::Direct { chunk: group.chunk },
        is_moved: true,
        is_copy: block.is_copy,
        range: SectorRange::new(block.block * BLOCK_SECTORS, BLOCK_SECTORS),
        lsn: block.lsn,
        payload: 0,
        id: None,
    };
    let still = Still::Live(name_of(group, block), block.place);
    Move { crcs: vec![block.crc], ..Move::of(&entry, still) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::index::LogPlace;

    #[test]
    fn at_least_half_of_what_is_read_at_once_is_wanted() {
        let (place, lsn) = (LogPlace::direct(0), Lsn::ZERO);
        let numbers = [0, 1, 2, 5, 6, 100, 103, 104, 255];
        let blocks = numbers.map(|block| DirectBlock { block, place, crc: 0, lsn, is_copy: false });
        let blocks: Vec<&DirectBlock> = blocks.iter().collect();
        let runs: Vec<Vec<u64>> =
            runs(&blocks).map(|run| run.iter().map(|block| block.block).collect()).collect();
        assert_eq!(runs, [vec![0, 1, 2, 5, 6], vec![100, 103, 104], vec![255]]);
    }
}
