// SPDX-License-Identifier: Apache-2.0
//! What goes into the read cache and when it leaves: fills, what destage writes, headers. The rules
//! are those of [`crate::readcache`].

mod fill;
mod headers;

pub(crate) use fill::{Fill, read_ahead};
pub(crate) use headers::{close, keep};

use crate::readcache::{ReadCache, key_of, piece_of, split};
use crate::state::{GroupInner, GroupState};
use env::{Durability, Slice};
use format::{Item, PIECE_BLOCKS};
use std::rc::Rc;

impl GroupState {
    /// The read cache learns what the journal says; nothing in an all-flash group.
    pub(crate) fn tell_cache(&mut self, device: usize, item: &Item) {
        let is_told = !self.mutations.keep_lines_on_destage();
        if let Some(cache) = self.read_cache.as_deref_mut().filter(|_| is_told) {
            cache.apply(device, item);
        }
    }

    /// A chunk was given back without the journal.
    pub(crate) fn drop_slots(&mut self, device: usize, chunk: u32) {
        if let Some(cache) = self.read_cache.as_deref_mut() {
            cache.slots.replace_chunk(key_of(device, chunk));
            cache.streams.forget(key_of(device, chunk));
        }
    }
}

/// Slots whose data is read: they hold what they hold until this is dropped.
pub(crate) struct Pin {
    inner: Rc<GroupInner>,
    slots: Vec<u32>,
}

impl Pin {
    /// The slots are pinned by the caller's borrow of the state.
    pub(crate) fn new(inner: &Rc<GroupInner>, cache: &mut ReadCache, slots: Vec<u32>) -> Self {
        slots.iter().for_each(|slot| cache.slots.pin(*slot));
        Self { inner: Rc::clone(inner), slots }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        if let Some(cache) = self.inner.state.borrow_mut().read_cache.as_deref_mut() {
            self.slots.iter().for_each(|slot| cache.slots.unpin(*slot));
        }
    }
}

/// Blocks that destage writes, to be written to the slots of their pieces as well: the first block,
/// the data, the checksums.
pub(crate) struct Update {
    pub(crate) device: usize,
    pub(crate) chunk: u32,
    pub(crate) first: u8,
    pub(crate) bytes: Slice,
    pub(crate) crcs: Vec<u32>,
}

/// The part of an update that goes to one slot.
struct Part {
    slot: u32,
    /// The first block within the piece.
    first: usize,
    at: u64,
    bytes: Slice,
    crcs: Vec<u32>,
}

impl Update {
    /// What goes to which slot, where there is one.
    fn parts(&self, cache: &mut ReadCache) -> Vec<Part> {
        let key = key_of(self.device, self.chunk);
        let (mut parts, mut done) = (Vec::new(), 0);
        while done < self.crcs.len() {
            let (piece, first) = split(usize::from(self.first) + done);
            let count = (PIECE_BLOCKS - first).min(self.crcs.len() - done);
            if let Some(slot) = cache.slots.begin_update(piece_of(key, piece)) {
                let block = base::BLOCK_SIZE as usize;
                parts.push(Part {
                    slot,
                    first,
                    at: cache.layout.slot_start(slot) + (first * block) as u64,
                    bytes: self.bytes.slice(done * block..(done + count) * block),
                    crcs: self.crcs[done..done + count].to_vec(),
                });
            }
            done += count;
        }
        parts
    }
}

impl GroupInner {
    /// Writes destaged blocks to the slots of their pieces, where there are any. A device that
    /// fails the write is fenced (store rule 3), which ends destage.
    pub(crate) fn update_slots(
        self: &Rc<Self>,
        update: &Update,
    ) -> Option<impl Future<Output = ()> + use<>> {
        let parts = {
            let mut state = self.state.borrow_mut();
            if state.mutations.keep_lines_on_destage() {
                return None;
            }
            let cache = state.read_cache.as_deref_mut()?;
            let parts = update.parts(cache);
            let bytes: usize = parts.iter().map(|part| part.bytes.len()).sum();
            cache.counters.updated_bytes += bytes as u64;
            parts
        };
        if parts.is_empty() {
            return None;
        }
        let write = |part: &Part| self.cache.write(part.at, part.bytes.clone(), Durability::Cached);
        let writes: Vec<_> = parts.iter().map(write).collect();
        let inner = Rc::clone(self);
        Some(async move {
            let results = env::join_all(writes).await;
            if let Some(error) = results.into_iter().find_map(Result::err) {
                let _ = inner.fence(&inner.cache_path, &error);
                return;
            }
            let mut state = inner.state.borrow_mut();
            let Some(cache) = state.read_cache.as_deref_mut() else { return };
            base::hit(base::Probe::LineUpdated);
            for part in parts {
                for (block, crc) in (part.first..).zip(part.crcs) {
                    cache.slots.stage(part.slot, block as u8, crc);
                }
            }
        })
    }

    /// What destage wrote to slots counts from here on as not written.
    pub(crate) fn end_updates(&self) {
        if let Some(cache) = self.state.borrow_mut().read_cache.as_deref_mut() {
            cache.slots.end_updates();
        }
    }
}
