// SPDX-License-Identifier: Apache-2.0
//! The part of a read below the log, in a hybrid group: slots, what was read ahead, or capacity.

use super::{Asker, Look, ReadPlan, ReadRun, Source};
use crate::caching::{Fill, Pin, read_ahead};
use crate::keys::chunk_key;
use crate::log::build::to_usize;
use crate::readcache::{AheadState, key_of, piece_of, split};
use crate::state::GroupState;
use crate::types::GroupError;
use base::{
    BLOCK_SECTORS, BLOCK_SIZE, CHUNK_BLOCKS, CHUNK_SECTORS, CHUNK_SIZE, SECTOR_SIZE, SectorRange,
};
use env::{Buf, Env, IoError, Slice};
use format::PIECE_BLOCKS;
use std::rc::Rc;

/// Blocks that are read together where one of them is not in the cache: whole pieces. A magnetic
/// device takes hardly longer for one than for a block.
const FILL_BLOCKS: usize = PIECE_BLOCKS;

/// Where a run's bytes come from, and what else becomes of them.
pub(super) enum Origin {
    /// A device; nothing else.
    Device,
    /// Slots of the read cache, which are held meanwhile.
    Slots(#[expect(dead_code, reason = "held, not read")] Rc<Pin>),
    /// Memory: what was read ahead.
    Memory(Slice),
    /// Capacity; the bytes go to slots as well.
    Fill(Fill),
}

impl ReadRun {
    /// Reads the run's bytes.
    pub(super) fn read(&self, env: &Env) -> impl Future<Output = Result<Slice, IoError>> + use<> {
        let length = to_usize(self.stored.bytes());
        let (bytes, read) = match &self.origin {
            Origin::Memory(bytes) => (Some(bytes.clone()), None),
            _ => (None, Some(self.disk.read(self.offset, env.buf(length)))),
        };
        async move {
            match (bytes, read) {
                (Some(bytes), _) => Ok(bytes),
                (None, Some(read)) => read.await.map(Buf::freeze),
                (None, None) => Err(IoError::Cancelled),
            }
        }
    }

    /// Whether all that is read is wanted: what is read for the cache may have holes in it, and
    /// what stands there on the device is nothing.
    pub(super) fn is_gapless(&self) -> bool {
        self.checks.iter().map(|(_, want, _)| want.count).sum::<u64>() == self.stored.count
    }

    /// The reader has what it wanted: the rest is for the cache.
    pub(super) fn fill(self, bytes: &Slice) {
        if let Origin::Fill(fill) = self.origin {
            fill.start(bytes.clone());
        }
    }
}

/// What the cache has of a plan.
enum InCache {
    /// All of it.
    Runs(Vec<ReadRun>),
    /// Not all.
    Not,
    /// The chunk is somewhere else by now.
    Moved,
}

impl GroupState {
    /// What a reader gets of capacity, besides fills.
    fn count_capacity(&mut self, runs: &[ReadRun]) {
        let is_read = |run: &&ReadRun| matches!(run.origin, Origin::Device);
        let bytes = runs.iter().filter(is_read).map(|run| run.stored.bytes()).sum::<u64>();
        if let Some(cache) = self.read_cache.as_deref_mut() {
            cache.counters.capacity_bytes += bytes;
        }
    }
}

impl ReadPlan {
    /// Whether the read goes on with others.
    pub(super) fn is_stream(&self) -> bool {
        if !self.inner.is_hybrid {
            return false;
        }
        let mut state = self.inner.state.borrow_mut();
        let cache = state.read_cache.as_deref_mut();
        let SectorRange { start, count } = self.range;
        let least = self.inner.options.limits.stream_sectors;
        cache.is_some_and(|cache| cache.streams.note(self.serial, start, count, least))
    }

    /// Reads of what is below the log. `None`: the chunk is somewhere else by now.
    pub(super) async fn hybrid_runs(
        &self,
        asker: Asker,
        uses_cache: bool,
    ) -> Result<Option<Vec<ReadRun>>, GroupError> {
        let Some(chunk) = self.chunk.filter(|_| self.is_below()) else {
            return Ok(Some(Vec::new()));
        };
        if uses_cache {
            match self.slot_runs(chunk, asker) {
                InCache::Runs(runs) => return Ok(Some(runs)),
                InCache::Moved => return Ok(None),
                InCache::Not => {}
            }
        }
        match asker {
            Asker::Client { is_stream: true } => self.stream_runs(chunk, uses_cache).await,
            Asker::Client { is_stream: false } if uses_cache => self.filling_runs(chunk).await,
            Asker::Destage => self.capacity_runs().await,
            Asker::Client { .. } => {
                let runs = self.capacity_runs().await?;
                self.inner.state.borrow_mut().count_capacity(runs.as_deref().unwrap_or(&[]));
                Ok(runs)
            }
        }
    }

    /// Blocks within the chunk that are wanted from below the log.
    fn blocks_below(&self) -> impl Iterator<Item = usize> {
        let below = self.units.iter().filter(|unit| matches!(unit.source, Source::Below));
        below.flat_map(|unit| unit.want.blocks()).map(|block| to_usize(block % CHUNK_BLOCKS))
    }

    fn slot_runs(&self, chunk: u32, asker: Asker) -> InCache {
        let mut state = self.inner.state.borrow_mut();
        let state = &mut *state;
        let key = chunk_key(self.serial, self.range.start / CHUNK_SECTORS);
        if state.store.base(key) != Some(chunk) {
            return InCache::Moved;
        }
        let Some(cache) = state.read_cache.as_deref_mut() else { return InCache::Not };
        // The slot of each piece that is wanted, and the blocks of it.
        let key = key_of(self.device, chunk);
        let mut found: Vec<(usize, u32, u16)> = Vec::new();
        for block in self.blocks_below() {
            let (piece, within) = split(block);
            if found.last().is_none_or(|(last, ..)| *last != piece) {
                let Some(slot) = cache.slots.find(piece_of(key, piece)) else {
                    return InCache::Not;
                };
                found.push((piece, slot, 0));
            }
            let Some((_, slot, bits)) = found.last_mut() else { return InCache::Not };
            if cache.slots.slot(*slot).get(within).is_none() {
                return InCache::Not;
            }
            *bits |= 1 << within;
        }
        let slot_of = |piece: usize| found.iter().find(|(of, ..)| *of == piece);
        let place = |block: usize| {
            let (piece, within) = split(block);
            let (_, slot, _) = slot_of(piece)?;
            let crc = cache.slots.slot(*slot).get(within)??;
            Some((cache.layout.slot_start(*slot) + within as u64 * BLOCK_SIZE, crc))
        };
        let mut runs = self.runs_below(&self.inner.cache, place);
        if asker != Asker::Destage {
            cache.counters.hits += 1;
            base::hit(base::Probe::LineRead);
            found.iter().for_each(|(_, slot, bits)| cache.slots.note_read(*slot, *bits));
        }
        if !runs.is_empty() {
            let slots = found.iter().map(|(_, slot, _)| *slot).collect();
            let pin = Rc::new(Pin::new(&self.inner, cache, slots));
            runs.iter_mut().for_each(|run| run.origin = Origin::Slots(Rc::clone(&pin)));
        }
        InCache::Runs(runs)
    }

    /// Reads that bring whole pieces of what is wanted, as far as there is data, for the cache.
    async fn filling_runs(&self, chunk: u32) -> Result<Option<Vec<ReadRun>>, GroupError> {
        self.inner.load_checksums(self.device, chunk).await?;
        let handle = &self.inner.devices[self.device];
        let mut state = self.inner.state.borrow_mut();
        let state = &mut *state;
        let key = chunk_key(self.serial, self.range.start / CHUNK_SECTORS);
        if state.store.base(key) != Some(chunk) {
            return Ok(None);
        }
        let Some((page, place)) = state.store.checksums(self.device, chunk) else {
            return Ok(None);
        };
        let start = handle.layout.chunk_start + u64::from(chunk) * CHUNK_SIZE;
        let crc_of = |block| page.get(place, block);
        let wanted = self.runs_below(handle.disk(), |block| {
            crc_of(block).map(|crc| (start + block as u64 * BLOCK_SIZE, crc))
        });
        let Some(cache) = state.read_cache.as_deref_mut().filter(|_| !wanted.is_empty()) else {
            return Ok(Some(wanted));
        };
        cache.counters.misses += 1;
        let first = self.range.start / CHUNK_SECTORS * CHUNK_SECTORS;
        let mut runs: Vec<ReadRun> = Vec::new();
        for run in wanted {
            let from = to_usize((run.stored.start - first) / BLOCK_SECTORS);
            let to = to_usize((run.stored.end() - first) / BLOCK_SECTORS);
            let (low, high) = (from / FILL_BLOCKS * FILL_BLOCKS, to.next_multiple_of(FILL_BLOCKS));
            let last = runs.last().map_or(0, |last| (last.stored.end() - first) / BLOCK_SECTORS);
            if let Some(last) = runs.last_mut().filter(|_| low < to_usize(last)) {
                // In the same 64 KiB as the end of the one before.
                last.stored.count = run.stored.end().max(last.stored.end()) - last.stored.start;
                last.checks.extend(run.checks);
                continue;
            }
            let low = (low..from).find(|block| crc_of(*block).is_some()).unwrap_or(from);
            let high =
                (to..high).rev().find(|block| crc_of(*block).is_some()).map_or(to, |b| b + 1);
            let stored =
                SectorRange::new(first + low as u64 * 8, (high - low) as u64 * BLOCK_SECTORS);
            runs.push(ReadRun { stored, offset: start + low as u64 * BLOCK_SIZE, ..run });
        }
        cache.counters.capacity_bytes += runs.iter().map(|run| run.stored.bytes()).sum::<u64>();
        let key = key_of(self.device, chunk);
        for run in &mut runs {
            if !cache.may_fill(self.inner.options.limits.fills) {
                base::hit(base::Probe::FillsFull);
                break;
            }
            let from = to_usize((run.stored.start - first) / BLOCK_SECTORS);
            let to = to_usize((run.stored.end() - first) / BLOCK_SECTORS);
            let (low, high) = (from / FILL_BLOCKS * FILL_BLOCKS, to.next_multiple_of(FILL_BLOCKS));
            let crcs = (low..high).map(crc_of).collect();
            let wanted = run.checks.iter().map(|(stored, ..)| stored.start - first);
            let wanted = wanted.map(|sectors| to_usize(sectors / BLOCK_SECTORS)).collect();
            let fill =
                Fill::new(&self.inner, cache, (key, self.serial), (low, crcs), (from, wanted));
            run.origin = Origin::Fill(fill);
        }
        Ok(Some(runs))
    }

    /// Reads of a stream: from memory, where the chunk was read ahead. The next chunk is.
    async fn stream_runs(
        &self,
        chunk: u32,
        uses_cache: bool,
    ) -> Result<Option<Vec<ReadRun>>, GroupError> {
        let index = self.range.start / CHUNK_SECTORS;
        read_ahead(&self.inner, self.serial, self.device, index + 1);
        let key = key_of(self.device, chunk);
        let known = loop {
            let kick = self.inner.cache_kick.wait();
            let known = match self.inner.state.borrow().read_cache.as_deref() {
                Some(cache) if uses_cache => cache.streams.get(key),
                _ => AheadState::Nothing,
            };
            match known {
                // It ends with one read of the device, whatever comes of that.
                AheadState::Loading => kick.await,
                known => break known,
            }
        };
        let Some(mut runs) = self.capacity_runs().await? else { return Ok(None) };
        let mut state = self.inner.state.borrow_mut();
        if let Some(cache) = state.read_cache.as_deref_mut() {
            cache.counters.bypassed_bytes += self.range.bytes();
        }
        let AheadState::Data(first, bytes) = known else {
            state.count_capacity(&runs);
            return Ok(Some(runs));
        };
        for run in &mut runs {
            let block = to_usize(run.stored.start / BLOCK_SECTORS % CHUNK_BLOCKS);
            let at = block.checked_sub(first).map(|blocks| blocks * to_usize(BLOCK_SIZE));
            let length = to_usize(run.stored.bytes());
            if let Some(at) = at.filter(|at| at + length <= bytes.len()) {
                base::hit(base::Probe::AheadRead);
                run.origin = Origin::Memory(bytes.slice(at..at + length));
            }
        }
        state.count_capacity(&runs);
        Ok(Some(runs))
    }

    /// A run that failed: of the cache it is no error, but what is wrong there goes.
    pub(super) fn bad(&self, run: &ReadRun, range: SectorRange) -> Look {
        let Some(chunk) = self.chunk else { return Look::Bad(range) };
        let key = key_of(self.device, chunk);
        let mut state = self.inner.state.borrow_mut();
        let Some(cache) = state.read_cache.as_deref_mut() else { return Look::Bad(range) };
        match run.origin {
            Origin::Device => Look::Bad(range),
            // What nobody asked for may be what cannot be read: the next look is without it.
            Origin::Fill(_) => Look::BadCache,
            Origin::Memory(_) => {
                cache.streams.forget(key);
                Look::BadCache
            }
            Origin::Slots(_) => {
                let is_in = |stored: &SectorRange| !stored.intersect(range).is_empty();
                for (stored, _, crc) in run.checks.iter().filter(|(stored, ..)| is_in(stored)) {
                    let block = to_usize(stored.start / BLOCK_SECTORS % CHUNK_BLOCKS);
                    let is_bad = cache.slots.drop_block(key, block, *crc);
                    cache.counters.rotten_blocks += u64::from(is_bad);
                }
                Look::BadCache
            }
        }
    }
}

const _: () = assert!(BLOCK_SECTORS * SECTOR_SIZE == BLOCK_SIZE);
