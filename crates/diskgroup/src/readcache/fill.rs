// SPDX-License-Identifier: Apache-2.0
//! What was read of capacity goes to a line, or, ahead of a stream, into memory.

use super::lines::Seen;
use super::{FILLS_MAX, ReadCache, key_of};
use crate::build::to_usize;
use crate::capacity::page_of;
use crate::chunks::chunk_key;
use crate::state::Inner;
use base::{BLOCK_SIZE, CHUNK_BLOCKS, CHUNK_SECTORS, CHUNK_SIZE, SectorRange, crc32c};
use env::{Durability, Slice, join_all};
use std::rc::Rc;

const BLOCK: usize = BLOCK_SIZE as usize;

/// A read of capacity whose data is to go to a line. While it exists, changes of the chunk are
/// counted.
pub(crate) struct Fill {
    inner: Rc<Inner>,
    key: u64,
    seen: Seen,
    /// The block with which `crcs` begins, and those with which the data that is read does.
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
            cache.lines.unwatch(self.key);
        }
    }
}

impl ReadCache {
    /// Whether one more fill may begin.
    pub(crate) fn may_fill(&self) -> bool {
        self.fills < FILLS_MAX
    }
}

impl Fill {
    /// Made in the step in which the checksums are looked up.
    pub(crate) fn new(
        inner: &Rc<Inner>,
        cache: &mut ReadCache,
        key: u64,
        (first, crcs): (usize, Vec<Option<u32>>),
        (read_from, wanted): (usize, Vec<usize>),
    ) -> Self {
        cache.fills += 1;
        let seen = cache.lines.watch(key);
        Self { inner: Rc::clone(inner), key, seen, first, read_from, crcs, wanted }
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
        // What was read besides what was wanted was not compared yet.
        let good: Vec<(usize, Option<u32>)> =
            self.blocks().filter(|(block, crc)| self.is_good(*block, *crc, &bytes)).collect();
        let (line, start) = {
            let mut state = inner.state.borrow_mut();
            let Some(cache) = state.read_cache.as_deref_mut() else { return };
            let Some(line) = cache.lines.begin_fill(self.key, self.seen) else { return };
            (line, cache.layout.line_start(line))
        };
        let writes = self.runs(&good).into_iter().map(|(from, to)| {
            let part = bytes.slice((from - self.read_from) * BLOCK..(to - self.read_from) * BLOCK);
            inner.cache.write(start + from as u64 * BLOCK_SIZE, part, Durability::Cached)
        });
        let results = join_all(writes.collect()).await;
        let failed = results.into_iter().find_map(Result::err);
        if let Some(error) = &failed {
            let _ = inner.fence(&inner.cache_path, error);
        }
        let mut state = inner.state.borrow_mut();
        let Some(cache) = state.read_cache.as_deref_mut() else { return };
        let place = (line, self.key, self.seen);
        if cache.lines.end_fill(place, good.into_iter(), failed.is_none()) {
            cache.lines.note_read(line, self.wanted.iter().copied());
            cache.counters.fills += 1;
            base::hit(base::Probe::LineFilled);
        }
    }

    fn blocks(&self) -> impl Iterator<Item = (usize, Option<u32>)> {
        (self.first..).zip(self.crcs.iter().copied())
    }

    fn is_good(&self, block: usize, crc: Option<u32>, bytes: &[u8]) -> bool {
        let Some(crc) = crc else { return true };
        let at = block.checked_sub(self.read_from).map(|block| block * BLOCK);
        let data = at.and_then(|at| bytes.get(at..at + BLOCK));
        data.is_some_and(|data| crc32c(data) == crc)
    }

    /// First and end of each run of blocks to write: data, with what lies between.
    fn runs(&self, good: &[(usize, Option<u32>)]) -> Vec<(usize, usize)> {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        let mut last = None;
        for (block, crc) in good {
            let follows = last.is_some_and(|last| last + 1 == *block);
            last = Some(*block);
            match runs.last_mut() {
                Some((_, to)) if follows && crc.is_some() => *to = block + 1,
                _ if crc.is_some() => runs.push((*block, block + 1)),
                _ => {}
            }
        }
        runs
    }
}

/// Reads the data of a component's chunk into memory, for a stream that is about to come there.
pub(crate) fn read_ahead(inner: &Rc<Inner>, serial: u32, device: usize, index: u64) {
    let begun = {
        let mut state = inner.state.borrow_mut();
        let state = &mut *state;
        let end = state.components.get(serial).map_or(0, |component| component.row.sectors);
        let chunk = state.chunks.base(chunk_key(serial, index));
        let (Some(chunk), Some(cache)) = (chunk, state.read_cache.as_deref_mut()) else { return };
        let key = key_of(device, chunk);
        // What is in the cache is read there.
        let is_wanted = index * CHUNK_SECTORS < end && cache.lines.body(key).is_none();
        let number = if is_wanted { cache.streams.begin(key) } else { None };
        number.map(|number| (number, chunk))
    };
    let Some((number, chunk)) = begun else { return };
    let of = Rc::clone(inner);
    inner.fills.spawn(&inner.env, "read ahead", async move {
        let data = read_chunk(&of, device, chunk).await;
        if let Some(cache) = of.state.borrow_mut().read_cache.as_deref_mut() {
            cache.streams.end(number, data);
        }
        of.cache_kick.notify();
    });
}

/// From the first block of a chunk that holds data to the last one.
async fn read_chunk(inner: &Inner, device: usize, chunk: u32) -> Option<(usize, Slice)> {
    let (number, place) = page_of(chunk);
    inner.load_page(device, number, false).await.ok()?;
    let (first, last) = {
        let mut state = inner.state.borrow_mut();
        let page = &state.capacity[device].page(number)?.page;
        let mut held = (0..CHUNK_BLOCKS as usize).filter(|b| page.get(place, *b).is_some());
        let first = held.next()?;
        (first, held.next_back().unwrap_or(first))
    };
    let handle = &inner.devices[device];
    let start = handle.layout.chunk_start + u64::from(chunk) * CHUNK_SIZE;
    let stored = SectorRange::new(first as u64 * 8, (last + 1 - first) as u64 * 8);
    let buf = inner.env.buf(to_usize(stored.bytes()));
    let read = handle.disk().read(start + first as u64 * BLOCK_SIZE, buf).await;
    read.ok().map(|bytes| (first, bytes.freeze()))
}
