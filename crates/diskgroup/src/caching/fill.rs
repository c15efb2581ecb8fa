// SPDX-License-Identifier: Apache-2.0
//! What was read of capacity goes to slots, or, ahead of a stream, into memory.

use crate::keys::chunk_key;
use crate::log::build::to_usize;
use crate::readcache::slots::ChangeCount;
use crate::readcache::{ReadCache, key_of, piece_of, split};
use crate::state::GroupInner;
use base::{BLOCK_SIZE, CHUNK_BLOCKS, CHUNK_SECTORS, CHUNK_SIZE, SectorRange, crc32c};
use env::{Durability, Slice, join_all};
use format::{PIECE_BLOCKS, ReadCacheLayout};
use std::rc::Rc;

const BLOCK: usize = BLOCK_SIZE as usize;
/// Chunks of which a stream's checksums are loaded at once.
const PAGES_AHEAD_CHUNKS: u64 = 64;

/// A read of capacity whose data is to go to slots. While it exists, changes of the chunk are
/// counted.
pub(crate) struct Fill {
    inner: Rc<GroupInner>,
    key: u64,
    /// Of the component.
    serial: u32,
    seen: ChangeCount,
    /// The block with which `crcs` begins, the first of a piece, and the one with which the data
    /// that is read does.
    first: usize,
    read_from: usize,
    /// What each block holds: its checksum, or nothing.
    crcs: Vec<Option<u32>>,
    /// Blocks that the reader asked for.
    wanted: Vec<usize>,
}

impl Drop for Fill {
    fn drop(&mut self) {
        if let Some(cache) = self.inner.state.borrow_mut().read_cache.as_deref_mut() {
            cache.fills -= 1;
            cache.slots.unwatch(self.key);
        }
    }
}

impl ReadCache {
    /// Whether one more fill may begin, with so many at most.
    pub(crate) fn may_fill(&self, most: usize) -> bool {
        self.fills < most
    }
}

/// What goes to one slot.
struct Part {
    slot: u32,
    piece: usize,
    /// Blocks within the piece that are whole.
    good: Vec<(usize, Option<u32>)>,
}

impl Fill {
    /// Made in the step in which the checksums are looked up.
    pub(crate) fn new(
        inner: &Rc<GroupInner>,
        cache: &mut ReadCache,
        (key, serial): (u64, u32),
        (first, crcs): (usize, Vec<Option<u32>>),
        (read_from, wanted): (usize, Vec<usize>),
    ) -> Self {
        cache.fills += 1;
        let seen = cache.slots.watch(key);
        Self { inner: Rc::clone(inner), key, serial, seen, first, read_from, crcs, wanted }
    }

    /// Goes on in the background: the reader has what it wanted.
    pub(crate) fn start(self, bytes: Slice) {
        let inner = Rc::clone(&self.inner);
        inner.fills.spawn(&inner.env.clone(), "fill", async move { self.run(bytes).await });
    }

    async fn run(self, bytes: Slice) {
        let inner = &self.inner;
        if inner.check_open().is_err() {
            return;
        }
        let (parts, writes) = {
            let mut state = inner.state.borrow_mut();
            let Some(cache) = state.read_cache.as_deref_mut() else { return };
            let parts = self.begin(cache, &bytes);
            if cache.slots.is_crowded() {
                inner.cache_kick.notify();
            }
            let layout = cache.layout;
            let writes: Vec<(u64, Slice)> =
                parts.iter().flat_map(|part| self.writes(part, &layout, &bytes)).collect();
            let count: usize = writes.iter().map(|(_, bytes)| bytes.len()).sum();
            cache.counters.filled_bytes += count as u64;
            (parts, writes)
        };
        let writes = writes.into_iter();
        let writes = writes.map(|(at, part)| inner.cache.write(at, part, Durability::Cached));
        let failed = join_all(writes.collect()).await.into_iter().find_map(Result::err);
        if let Some(error) = &failed {
            let _ = inner.fence(&inner.cache_path, error);
        }
        let mut state = inner.state.borrow_mut();
        let Some(cache) = state.read_cache.as_deref_mut() else { return };
        for Part { slot, piece, good } in parts {
            let place = (slot, piece_of(self.key, piece), self.seen);
            if cache.slots.end_fill(place, good.into_iter(), failed.is_none()) {
                cache.slots.note_read(slot, self.wanted_of(piece));
                cache.counters.fills += 1;
                base::hit(base::Probe::LineFilled);
            }
        }
    }

    /// Slots for the pieces that were read. What a slot has already is not written again.
    fn begin(&self, cache: &mut ReadCache, bytes: &[u8]) -> Vec<Part> {
        let mut parts = Vec::new();
        let (first, _) = split(self.first);
        for (piece, crcs) in (first..).zip(self.crcs.chunks(PIECE_BLOCKS)) {
            let key = piece_of(self.key, piece);
            if let Some(slot) = cache.slots.find(key) {
                let of = cache.slots.slot(slot);
                if crcs.iter().enumerate().all(|(block, crc)| of.get(block) == Some(*crc)) {
                    cache.slots.note_read(slot, self.wanted_of(piece));
                    continue;
                }
            }
            let begun = cache.slots.begin_fill(key, self.serial, self.seen);
            let Some(slot) = begun else { continue };
            // What was read besides what was wanted was not compared yet.
            let blocks = crcs.iter().copied().enumerate();
            let is_good = |(block, crc): &(usize, Option<u32>)| {
                self.is_good(piece * PIECE_BLOCKS + block, *crc, bytes)
            };
            parts.push(Part { slot, piece, good: blocks.filter(is_good).collect() });
        }
        parts
    }

    /// Of the blocks that were asked for, those of a piece.
    fn wanted_of(&self, piece: usize) -> u16 {
        let of = self.wanted.iter().map(|block| split(*block)).filter(|(of, _)| *of == piece);
        of.fold(0, |bits, (_, block)| bits | 1 << block)
    }

    fn is_good(&self, block: usize, crc: Option<u32>, bytes: &[u8]) -> bool {
        let Some(crc) = crc else { return true };
        let at = block.checked_sub(self.read_from).map(|block| block * BLOCK);
        let data = at.and_then(|at| bytes.get(at..at + BLOCK));
        data.is_some_and(|data| crc32c(data) == crc)
    }

    /// Where the blocks of a part that are data are written, and what.
    fn writes(&self, part: &Part, layout: &ReadCacheLayout, bytes: &Slice) -> Vec<(u64, Slice)> {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for (block, _) in part.good.iter().filter(|(_, crc)| crc.is_some()) {
            match runs.last_mut() {
                Some((_, to)) if *to == *block => *to += 1,
                _ => runs.push((*block, block + 1)),
            }
        }
        let start = layout.slot_start(part.slot);
        let place = |(from, to): (usize, usize)| {
            let first = part.piece * PIECE_BLOCKS + from - self.read_from;
            let data = bytes.slice(first * BLOCK..(first + to - from) * BLOCK);
            (start + from as u64 * BLOCK_SIZE, data)
        };
        runs.into_iter().map(place).collect()
    }
}

/// Reads the data of a component's chunk into memory, for a stream that is about to come there.
pub(crate) fn read_ahead(inner: &Rc<GroupInner>, serial: u32, device: usize, index: u64) {
    let begun = {
        let mut state = inner.state.borrow_mut();
        let state = &mut *state;
        let end = state.store.components.get(serial).map_or(0, |component| component.row.sectors);
        let chunk = state.store.base(chunk_key(serial, index));
        let (Some(chunk), Some(cache)) = (chunk, state.read_cache.as_deref_mut()) else { return };
        let key = key_of(device, chunk);
        // What is in the cache is read there.
        let is_wanted = index * CHUNK_SECTORS < end && !cache.slots.has_most_of(key);
        let number = if is_wanted { cache.streams.begin(key) } else { None };
        number.map(|number| (number, chunk))
    };
    let Some((number, chunk)) = begun else { return };
    let of = Rc::clone(inner);
    inner.fills.spawn(&inner.env, "read ahead", async move {
        load_pages_ahead(&of, serial, device, index).await;
        let data = read_chunk(&of, device, chunk).await;
        if let Some(cache) = of.state.borrow_mut().read_cache.as_deref_mut() {
            cache.streams.end(number, data);
        }
        of.cache_kick.notify();
    });
}

/// Where the checksums of a component's chunk are not in memory, loads them with those of the
/// chunks behind it. One by one each would cost the arm a way there and one back.
async fn load_pages_ahead(inner: &GroupInner, serial: u32, device: usize, index: u64) {
    let chunks: Vec<u32> = {
        let mut state = inner.state.borrow_mut();
        let first = state.store.base(chunk_key(serial, index));
        if first.is_none_or(|first| state.store.checksums(device, first).is_some()) {
            return;
        }
        let indexes = index..index + PAGES_AHEAD_CHUNKS;
        indexes.filter_map(|index| state.store.base(chunk_key(serial, index))).collect()
    };
    inner.load_ahead(device, &chunks).await;
}

/// From the first block of a chunk that holds data to the last one.
async fn read_chunk(inner: &GroupInner, device: usize, chunk: u32) -> Option<(usize, Slice)> {
    inner.load_checksums(device, chunk).await.ok()?;
    let (first, last) = {
        let mut state = inner.state.borrow_mut();
        let (page, place) = state.store.checksums(device, chunk)?;
        let mut held = (0..CHUNK_BLOCKS as usize).filter(|b| page.get(place, *b).is_some());
        let first = held.next()?;
        (first, held.next_back().unwrap_or(first))
    };
    let handle = &inner.devices[device];
    let start = handle.layout.chunk_start + u64::from(chunk) * CHUNK_SIZE;
    let stored = SectorRange::new(first as u64 * 8, (last + 1 - first) as u64 * 8);
    let buf = inner.env.buf(to_usize(stored.bytes()));
    let read = handle.disk().read(start + first as u64 * BLOCK_SIZE, buf).await;
    let bytes = read.ok()?.freeze();
    if let Some(cache) = inner.state.borrow_mut().read_cache.as_deref_mut() {
        cache.counters.capacity_bytes += bytes.len() as u64;
    }
    Some((first, bytes))
}
