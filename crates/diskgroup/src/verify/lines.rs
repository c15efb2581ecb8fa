// SPDX-License-Identifier: Apache-2.0
//! Checks of the read cache against what it is a cache of.

use crate::readcache::slots::{chunk_of, whole_of};
use crate::state::{DiskGroup, GroupState};
use crate::verify::audit::Inconsistency;
use base::{BLOCK_SIZE, CHUNK_SIZE, Set, crc32c};
use format::{CacheLayout, NO_COMPONENT, PIECE_BLOCKS, PIECE_SIZE};

/// What a look at the slots found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineAudit {
    /// Blocks that slots know.
    pub known: u64,
    /// Of those, data that the slot has.
    pub whole: u64,
    /// Data that it does not have: after power loss, or where the device rotted.
    pub rotten: u64,
}

impl GroupState {
    /// The slot table against the chunk map, and the parts of the device against its size.
    pub(crate) fn audit_cache(&self, log: &CacheLayout, size: u64) -> Result<(), Inconsistency> {
        let Some(cache) = self.read_cache.as_deref() else { return Ok(()) };
        if !cache.slots.is_consistent() {
            return Err(Inconsistency::LineTable);
        }
        let layout = cache.layout;
        let before = layout.headers_start.checked_sub(log.end());
        let headers = u64::from(layout.lines) * 4096;
        let gap = layout.data_start.checked_sub(layout.headers_start + headers);
        let unused = size.checked_sub(layout.end());
        let parts = [Some(log.end()), before, Some(headers), gap];
        let data = u64::from(layout.lines) * CHUNK_SIZE;
        let sum = parts.into_iter().chain([Some(data), unused]).sum::<Option<u64>>();
        if sum != Some(size) {
            return Err(Inconsistency::CacheBooks { size });
        }
        let mut keys: Set<u64> = Set::new();
        for (slot, of) in cache.slots.all() {
            let (device, chunk) = chunk_of(whole_of(of.key()));
            let entry = self.store.capacity.get(device).and_then(|c| c.map.get(chunk as usize));
            let is_allocated = entry.is_some_and(|entry| entry.serial != NO_COMPONENT);
            if !keys.insert(of.key()) || !is_allocated {
                return Err(Inconsistency::Line { line: slot, device, chunk });
            }
        }
        Ok(())
    }
}

impl DiskGroup {
    /// Compares what slots know with the checksums that capacity has, and their data with both.
    /// Reads all of the read cache: for tests, at rest. What a device does not give is left out.
    ///
    /// # Errors
    /// [`Inconsistency`] where a slot knows something else than capacity.
    pub async fn audit_lines(&self) -> Result<LineAudit, Inconsistency> {
        let inner = self.shared();
        let mut audit = LineAudit::default();
        let (slots, layout) = {
            let state = inner.state.borrow();
            let Some(cache) = state.read_cache.as_deref() else { return Ok(audit) };
            let all = cache.slots.all().map(|(slot, of)| (slot, of.key()));
            (all.collect::<Vec<_>>(), cache.layout)
        };
        for (slot, key) in slots {
            let (device, chunk) = chunk_of(whole_of(key));
            let at = layout.slot_start(slot);
            let data = inner.cache.read(at, inner.env.buf(PIECE_SIZE as usize)).await;
            let loaded = inner.load_checksums(device, chunk).await;
            if let (Ok(()), Ok(data)) = (loaded, data) {
                inner.state.borrow_mut().audit_slot(slot, key, &data, &mut audit)?;
            }
        }
        Ok(audit)
    }
}

impl GroupState {
    fn audit_slot(
        &mut self,
        slot: u32,
        key: u64,
        data: &[u8],
        audit: &mut LineAudit,
    ) -> Result<(), Inconsistency> {
        let (device, chunk) = chunk_of(whole_of(key));
        let Some((page, place)) = self.store.checksums(device, chunk) else { return Ok(()) };
        let Some(cache) = self.read_cache.as_deref() else { return Ok(()) };
        if cache.slots.find(key) != Some(slot) {
            return Ok(()); // it went meanwhile
        }
        let of = cache.slots.slot(slot);
        let first = (key & 15) as usize * PIECE_BLOCKS;
        for (block, bytes) in data.chunks(BLOCK_SIZE as usize).enumerate() {
            let Some(known) = of.get(block) else { continue };
            let told = page.get(place, first + block);
            if known != told {
                return Err(Inconsistency::Line { line: slot, device, chunk });
            }
            audit.known += 1;
            match told {
                Some(crc) if crc32c(bytes) == crc => audit.whole += 1,
                Some(_) => audit.rotten += 1,
                None => {}
            }
        }
        Ok(())
    }
}
