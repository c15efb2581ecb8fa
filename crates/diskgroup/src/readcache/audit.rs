// SPDX-License-Identifier: Apache-2.0
//! Checks of the read cache against what it is a cache of.

use super::lines::has;
use crate::audit::Inconsistency;
use crate::capacity::page_of;
use crate::group::DiskGroup;
use crate::state::State;
use base::{BLOCK_SIZE, CHUNK_SIZE, Set, crc32c};
use format::{CacheLayout, NO_COMPONENT};

/// What a look at the lines found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineAudit {
    /// Blocks that lines know.
    pub known: u64,
    /// Of those, data that the line has.
    pub whole: u64,
    /// Data that it does not have: after power loss, or where the device rotted.
    pub rotten: u64,
}

impl State {
    /// The line table against the chunk map, and the parts of the device against its size.
    pub(crate) fn audit_cache(&self, log: &CacheLayout, size: u64) -> Result<(), Inconsistency> {
        let Some(cache) = self.read_cache.as_deref() else { return Ok(()) };
        if !cache.lines.is_consistent() {
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
        for (line, key, body) in cache.lines.all() {
            let (device, chunk) = ((key >> 32) as usize, key as u32);
            let entry = self.capacity.get(device).and_then(|c| c.map.get(chunk as usize));
            let is_allocated = entry.is_some_and(|entry| entry.serial != NO_COMPONENT);
            let is_sound =
                body.known.iter().zip(&body.data).all(|(known, data)| data & !known == 0);
            if !keys.insert(key) || !is_allocated || !is_sound {
                return Err(Inconsistency::Line { line, device, chunk });
            }
        }
        Ok(())
    }
}

impl DiskGroup {
    /// Compares what lines know with the checksums that capacity has, and their data with both.
    /// Reads all of the read cache: for tests, at rest. What a device does not give is left out.
    ///
    /// # Errors
    /// [`Inconsistency`] where a line knows something else than capacity.
    pub async fn audit_lines(&self) -> Result<LineAudit, Inconsistency> {
        let inner = self.shared();
        let mut audit = LineAudit::default();
        let (lines, layout) = {
            let state = inner.state.borrow();
            let Some(cache) = state.read_cache.as_deref() else { return Ok(audit) };
            (cache.lines.all().map(|(line, key, _)| (line, key)).collect::<Vec<_>>(), cache.layout)
        };
        for (line, key) in lines {
            let (number, _) = page_of(key as u32);
            let at = layout.line_start(line);
            let data = inner.cache.read(at, inner.env.buf(CHUNK_SIZE as usize)).await;
            let loaded = inner.load_page((key >> 32) as usize, number, false).await;
            if let (Ok(()), Ok(data)) = (loaded, data) {
                inner.state.borrow_mut().audit_line(line, key, &data, &mut audit)?;
            }
        }
        Ok(audit)
    }
}

impl State {
    fn audit_line(
        &mut self,
        line: u32,
        key: u64,
        data: &[u8],
        audit: &mut LineAudit,
    ) -> Result<(), Inconsistency> {
        let (device, chunk) = ((key >> 32) as usize, key as u32);
        let (number, place) = page_of(chunk);
        let Some(cached) = self.capacity[device].page(number) else { return Ok(()) };
        let body = self.read_cache.as_deref().and_then(|cache| cache.lines.body(key));
        let Some((_, body)) = body.filter(|(same, _)| *same == line) else { return Ok(()) };
        for (block, bytes) in data.chunks(BLOCK_SIZE as usize).enumerate() {
            if !has(&body.known, block) {
                continue;
            }
            let told = cached.page.get(place, block);
            if body.get(block) != Some(told) {
                return Err(Inconsistency::Line { line, device, chunk });
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
