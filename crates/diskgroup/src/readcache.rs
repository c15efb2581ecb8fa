// SPDX-License-Identifier: Apache-2.0
//! The read cache of a hybrid group: lines on the flash device, each for one chunk of a magnetic
//! one.
//!
//! A read looks into the log, then into the line, then at capacity. Guarantees: what a line gives
//! was compared with the checksum that capacity has for the block; whatever happens to the cache is
//! a miss, never an error and never other data. Not guaranteed: that anything is in it. Scrub does
//! not use it.
//!
//! **A line and its chunk** agree on every block that the line knows, at every moment:
//! 1. Destage writes a block to capacity, and beside that to the line, if there is one.
//! 2. The journal record is durable; in one step the chunk map, the checksum page and the line get
//!    the new checksum. A block that was not written in 1 leaves the line; a chunk that is cleared,
//!    freed or allocated has none any more.
//! 3. Only then does the log forget the block. From 1 to 3 the log hides the block, in the line as
//!    on capacity. A reader that looked before sees a checksum that does not match, and looks
//!    again.
//! 4. A fill writes what was read of capacity to the line, and makes it known in one step, if the
//!    chunk did not change since its checksums were looked up. Destage does not write to a line
//!    that is being filled, and no fill begins while destage or an outdated fill writes: what is in
//!    the line is of one of them.
//!
//! **Headers** outlive the process. One is believed at opening if its chunk has, in the chunk map,
//! the very entry that it names, lsn included. That the line then knows nothing else than the
//! chunk:
//! 5. A header is made of a line and the map's entry in one step, so of a state that is durable.
//! 6. A record that raises the chunk's lsn makes all headers before it worthless.
//! 7. One that does not (a fold, a moved entry, a copy for this component alone), and one that
//!    allocates the chunk, first overwrites every header that would be believed afterwards,
//!    durably, and no header of the chunk is written until the record is applied. One that changes
//!    nothing, as when blocks are destaged once more after a crash, leaves headers as true as they
//!    were. Which headers stand on the device is known: those that were read at opening, for which
//!    such a record waits, and those written since, of which each batch ends with a flush and is
//!    read back, so that the ones before are gone.
//! 8. So no header on the device ever names a later lsn of a chunk of the same component than the
//!    map does. Data has checksums in the header: what was lost or torn there is a miss.

mod audit;
mod fifo;
mod fill;
mod headers;
mod lines;
mod streams;
#[cfg(test)]
mod tests;

pub use audit::LineAudit;
pub(crate) use fill::{Fill, read_ahead};
pub(crate) use headers::{close, keep};
pub(crate) use lines::{Lines, key_of};
pub(crate) use streams::{Known, Streams};

use crate::state::{Inner, State};
use crate::types::ReadCacheStatus;
use env::{Durability, Slice};
use format::{Item, ReadCacheLayout};
use std::rc::Rc;

/// Fills from the read of capacity to the write of the line; what would be one more is only read.
/// Together they hold 16 MiB at most.
const FILLS_MAX: usize = 16;

/// What is counted since open.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counters {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) fills: u64,
    pub(crate) bypassed_bytes: u64,
    pub(crate) rotten_blocks: u64,
    /// Lines that were taken over at opening.
    pub(crate) warm_lines: u64,
}

/// See the module.
pub(crate) struct ReadCache {
    pub(crate) layout: ReadCacheLayout,
    pub(crate) lines: Lines,
    pub(crate) streams: Streams,
    /// Every header on the device was looked at.
    pub(crate) is_loaded: bool,
    pub(crate) fills: usize,
    pub(crate) counters: Counters,
}

impl ReadCache {
    pub(crate) fn new(layout: ReadCacheLayout) -> Self {
        Self {
            layout,
            lines: Lines::new(layout.lines),
            streams: Streams::default(),
            is_loaded: false,
            fills: 0,
            counters: Counters::default(),
        }
    }

    pub(crate) fn status(&self) -> ReadCacheStatus {
        let counters = self.counters;
        ReadCacheStatus {
            bytes: u64::from(self.layout.lines) * base::CHUNK_SIZE,
            lines: u64::from(self.layout.lines),
            lines_used: self.lines.used() as u64,
            is_loaded: self.is_loaded,
            warm_lines: counters.warm_lines,
            hits: counters.hits,
            misses: counters.misses,
            fills: counters.fills,
            bypassed_bytes: counters.bypassed_bytes,
            rotten_blocks: counters.rotten_blocks,
        }
    }

    /// A durable item of the journal, in the step in which it is applied.
    fn apply(&mut self, device: usize, item: &Item) {
        let Some(chunk) = item.chunk() else { return };
        let (key, lines) = (key_of(device, chunk), &mut self.lines);
        match *item {
            Item::Block { block, crc, .. } => lines.set_block(key, block, crc),
            Item::Unset { block, .. } => lines.unset_block(key, block),
            _ => lines.replace_chunk(key),
        }
        self.streams.forget(key);
    }
}

impl State {
    /// The read cache learns what the journal says; nothing in an all-flash group.
    pub(crate) fn tell_cache(&mut self, device: usize, item: &Item) {
        let is_told = !self.mutations.keep_lines_on_destage;
        if let Some(cache) = self.read_cache.as_deref_mut().filter(|_| is_told) {
            cache.apply(device, item);
        }
    }

    /// A chunk was given back without the journal.
    pub(crate) fn drop_line(&mut self, device: usize, chunk: u32) {
        if let Some(cache) = self.read_cache.as_deref_mut() {
            cache.lines.replace_chunk(key_of(device, chunk));
            cache.streams.forget(key_of(device, chunk));
        }
    }
}

/// A line whose data is read: it holds what it holds until this is dropped.
pub(crate) struct Pin {
    inner: Rc<Inner>,
    line: u32,
}

impl Pin {
    /// The line is pinned by the caller's borrow of the state.
    pub(crate) fn new(inner: &Rc<Inner>, cache: &mut ReadCache, line: u32) -> Self {
        cache.lines.pin(line);
        Self { inner: Rc::clone(inner), line }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        if let Some(cache) = self.inner.state.borrow_mut().read_cache.as_deref_mut() {
            cache.lines.unpin(self.line);
        }
    }
}

/// Blocks that destage writes, to be written to the line of their chunk as well: the first block,
/// the data, the checksums.
pub(crate) struct Update {
    pub(crate) device: usize,
    pub(crate) chunk: u32,
    pub(crate) first: u8,
    pub(crate) bytes: Slice,
    pub(crate) crcs: Vec<u32>,
}

impl Inner {
    /// Writes destaged blocks to the line of their chunk, if there is one. A device that fails the
    /// write is fenced (store rule 3), which ends destage.
    pub(crate) fn update_line(
        self: &Rc<Self>,
        update: Update,
    ) -> Option<impl Future<Output = ()> + use<>> {
        let Update { device, chunk, first, bytes, crcs } = update;
        let (line, at) = {
            let mut state = self.state.borrow_mut();
            if state.mutations.keep_lines_on_destage {
                return None;
            }
            let cache = state.read_cache.as_deref_mut()?;
            let line = cache.lines.begin_update(key_of(device, chunk))?;
            (line, cache.layout.line_start(line) + u64::from(first) * base::BLOCK_SIZE)
        };
        let write = self.cache.write(at, bytes, Durability::Cached);
        let inner = Rc::clone(self);
        Some(async move {
            if let Err(error) = write.await {
                let _ = inner.fence(&inner.cache_path, &error);
                return;
            }
            let mut state = inner.state.borrow_mut();
            let Some(cache) = state.read_cache.as_deref_mut() else { return };
            base::hit(base::Probe::LineUpdated);
            for (block, crc) in (first..=u8::MAX).zip(crcs) {
                cache.lines.stage(line, block, crc);
            }
        })
    }

    /// What destage wrote to lines counts from here on as not written.
    pub(crate) fn end_updates(&self) {
        if let Some(cache) = self.state.borrow_mut().read_cache.as_deref_mut() {
            cache.lines.end_updates();
        }
    }
}
