// SPDX-License-Identifier: Apache-2.0
//! Headers of the lines on the device: read once at opening, written behind, taken back in time.

use super::lines::Claim;
use super::{ReadCache, key_of};
use crate::capacity::page_of;
use crate::state::{Inner, State};
use crate::types::GroupError;
use base::Map;
use env::{Durability, Permit, Slice, join_all};
use format::{ChunkEntry, Item, LineHeader, NO_COMPONENT, PAGE_SIZE};
use std::rc::Rc;

/// Headers of one read at opening: 1 MiB.
const READ_HEADERS: u32 = 256;
/// Headers of one batch, which ends with a flush: so many lines a second keep warm.
const BATCH_MAX: usize = 256;
/// Of those, written at a time.
const WRITES_MAX: usize = 32;

/// Lines and what their headers claim.
type Claims = Vec<(u32, Claim)>;
/// Places on the device and what goes there.
type Pages = Vec<(u64, Slice)>;

/// The task of a hybrid group: takes over what the lines hold, then writes their headers behind.
pub(crate) async fn keep(inner: Rc<Inner>) {
    if load(&inner).await.is_err() {
        return;
    }
    loop {
        inner.env.sleep(inner.options.headers_every).await;
        if inner.check_open().is_err() || write_batch(&inner).await.is_err() {
            return;
        }
    }
}

/// When the group is closed in order, all headers are written, but those of lines whose chunk a
/// record under way may have changed.
pub(crate) async fn close(inner: &Inner) {
    inner.fills.clear();
    if let Some(cache) = inner.state.borrow_mut().read_cache.as_deref_mut() {
        cache.streams = super::Streams::default();
    }
    inner.cache_kick.notify();
    let is_whole = |inner: &Inner| {
        let state = inner.state.borrow();
        state.fenced.is_none() && state.read_cache.is_some()
    };
    while is_whole(inner) && write_batch(inner).await.is_ok_and(|count| count > 0) {}
}

/// Reads all headers, a megabyte at a time.
async fn load(inner: &Inner) -> Result<(), GroupError> {
    let layout = match inner.state.borrow().read_cache.as_deref() {
        Some(cache) => cache.layout,
        None => return Ok(()),
    };
    for first in (0..layout.lines).step_by(READ_HEADERS as usize) {
        inner.check_open()?;
        let count = READ_HEADERS.min(layout.lines - first);
        let length = count as usize * PAGE_SIZE;
        let read = inner.cache.read(layout.header_at(first), inner.env.buf(length)).await;
        match read {
            Ok(bytes) => {
                for (line, page) in (first..).zip(bytes.chunks(PAGE_SIZE)) {
                    inner.take_over(line, page);
                }
            }
            // Which of them cannot be read is for each page alone to tell.
            Err(_) => load_each(inner, first, count).await?,
        }
        inner.env.yield_now().await;
    }
    if let Some(cache) = inner.state.borrow_mut().read_cache.as_deref_mut() {
        cache.is_loaded = true;
    }
    inner.cache_kick.notify();
    Ok(())
}

/// A header that cannot be read may be read some day: it is overwritten before its line is used.
async fn load_each(inner: &Inner, first: u32, count: u32) -> Result<(), GroupError> {
    for line in first..first + count {
        let at = match inner.state.borrow().read_cache.as_deref() {
            Some(cache) => cache.layout.header_at(line),
            None => return Ok(()),
        };
        if let Ok(page) = inner.cache.read(at, inner.env.buf(PAGE_SIZE)).await {
            inner.take_over(line, &page);
            continue;
        }
        inner.empty_header(line).await?;
        if let Some(cache) = inner.state.borrow_mut().read_cache.as_deref_mut() {
            cache.lines.pass(line);
        }
    }
    Ok(())
}

/// Writes a batch of headers and flushes; how many.
async fn write_batch(inner: &Inner) -> Result<usize, GroupError> {
    let _permit = inner.headers.acquire(1).await;
    let (claims, pages) = inner.take_headers();
    if claims.is_empty() {
        return Ok(0);
    }
    for some in pages.chunks(WRITES_MAX) {
        let writes =
            some.iter().map(|(at, page)| inner.cache.write(*at, page.clone(), Durability::Cached));
        for result in join_all(writes.collect()).await {
            result.map_err(|error| inner.fence(&inner.cache_path, &error))?;
        }
    }
    // Until here the headers before may come back when the power fails.
    inner.cache.flush().await.map_err(|error| inner.fence(&inner.cache_path, &error))?;
    inner.read_back_of(&inner.cache_path, &inner.cache, &pages).await?;
    let mut state = inner.state.borrow_mut();
    let Some(cache) = state.read_cache.as_deref_mut() else { return Ok(0) };
    for (line, claim) in &claims {
        cache.lines.set_stored(*line, Some(*claim));
    }
    Ok(claims.len())
}

/// What a journal record makes of a chunk.
struct After {
    entry: ChunkEntry,
    is_raised: bool,
    is_allocated: bool,
    /// Not so where the chunk has these very blocks already: after a crash much is destaged once
    /// more.
    is_changed: bool,
}

impl After {
    /// Whether headers of before are not told from later ones by the lsn alone.
    fn is_quiet(&self) -> bool {
        let is_told = self.is_raised && !self.is_allocated;
        self.entry.serial != NO_COMPONENT && self.is_changed && !is_told
    }
}

/// What a record of these items makes of each chunk that it touches; its pages are in memory.
fn chunks_after(state: &mut State, device: usize, items: &[Item]) -> Map<u32, After> {
    let mut all: Map<u32, After> = Map::new();
    for item in items {
        let Some(chunk) = item.chunk() else { continue };
        let entry = state.capacity[device].map[chunk as usize];
        let (number, place) = page_of(chunk);
        let page = state.capacity[device].page(number).map(|cached| &cached.page);
        let is_same = page.is_some_and(|page| match *item {
            Item::Block { block, crc, .. } => page.get(place, usize::from(block)) == Some(crc),
            Item::Unset { block, .. } => page.get(place, usize::from(block)).is_none(),
            _ => false,
        });
        let (is_raised, is_allocated, is_changed) = (false, false, false);
        let new = After { entry, is_raised, is_allocated, is_changed };
        let after = all.entry(chunk).or_insert(new);
        after.is_changed |= !is_same;
        let before = after.entry;
        after.entry = item.after(before);
        match item {
            Item::Allocate { .. } => after.is_allocated = true,
            _ => after.is_raised |= after.entry.lsn > before.lsn,
        }
    }
    all
}

impl Inner {
    /// Steps 7 and 8 of the module's argument: before a record whose changes the lsns of their
    /// chunks do not tell. What it returns is held until the record is applied.
    pub(crate) async fn guard_headers(
        &self,
        device: usize,
        items: &[Item],
    ) -> Result<Option<Permit>, GroupError> {
        let quiet: Vec<(u64, ChunkEntry)> = {
            let mut state = self.state.borrow_mut();
            if state.read_cache.is_none() || state.mutations.skip_header_invalidation {
                return Ok(None);
            }
            let after = chunks_after(&mut state, device, items).into_iter();
            let quiet = after.filter(|(_, after)| after.is_quiet());
            quiet.map(|(chunk, after)| (key_of(device, chunk), after.entry)).collect()
        };
        if quiet.is_empty() {
            return Ok(None);
        }
        self.wait_for_load().await?;
        let excludes = !self.options.mutations.headers_beside_records;
        let permit = if excludes { Some(self.headers.acquire(1).await) } else { None };
        let believed: Vec<u32> = {
            let mut state = self.state.borrow_mut();
            let Some(cache) = state.read_cache.as_deref_mut() else { return Ok(None) };
            if excludes {
                cache.lines.freeze(quiet.iter().map(|(key, _)| *key).collect());
            }
            quiet.iter().flat_map(|(key, entry)| cache.lines.believed(*key, *entry)).collect()
        };
        if !believed.is_empty() {
            base::hit(base::Probe::LineTakenBack);
        }
        for some in believed.chunks(WRITES_MAX) {
            let writes = some.iter().map(|line| self.empty_header(*line)).collect();
            join_all(writes).await.into_iter().collect::<Result<Vec<()>, _>>()?;
        }
        Ok(permit)
    }

    /// The record is applied.
    pub(crate) fn thaw_headers(&self) {
        if let Some(cache) = self.state.borrow_mut().read_cache.as_deref_mut() {
            cache.lines.thaw();
        }
    }

    async fn wait_for_load(&self) -> Result<(), GroupError> {
        loop {
            let kick = self.cache_kick.wait();
            self.check_open()?;
            if self.state.borrow().read_cache.as_deref().is_none_or(|cache| cache.is_loaded) {
                return Ok(());
            }
            kick.await;
        }
    }

    /// Overwrites a line's header durably with one that says nothing.
    async fn empty_header(&self, line: u32) -> Result<(), GroupError> {
        let (at, device) = {
            let state = self.state.borrow();
            let Some(cache) = state.read_cache.as_deref() else { return Ok(()) };
            (cache.layout.header_at(line), state.log.device)
        };
        let mut page = self.env.buf(PAGE_SIZE);
        LineHeader::empty(line).encode(device, &mut page);
        let page = page.freeze();
        let write = self.cache.write(at, page.clone(), Durability::Durable);
        write.await.map_err(|error| self.fence(&self.cache_path, &error))?;
        self.read_back_of(&self.cache_path, &self.cache, &[(at, page)]).await?;
        if let Some(cache) = self.state.borrow_mut().read_cache.as_deref_mut() {
            cache.lines.set_stored(line, None);
        }
        Ok(())
    }

    /// What a header on the device says, and what of it is true.
    fn take_over(&self, line: u32, page: &[u8]) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let Some(cache) = state.read_cache.as_deref_mut() else { return };
        let header = LineHeader::decode(state.log.device, line, page).ok();
        let Some(header) = header.filter(|header| !header.is_empty()) else {
            return cache.lines.pass(line);
        };
        let device = self.devices.iter().position(|device| device.id == header.capacity);
        let entry = device.and_then(|device| {
            state.capacity[device].map.get(header.chunk as usize).map(|entry| (device, *entry))
        });
        let Some((device, entry)) = entry else { return cache.lines.pass(line) };
        let key = key_of(device, header.chunk);
        cache.lines.set_stored(line, Some(Claim { key, entry: header.entry }));
        let ChunkEntry { serial, index, .. } = header.entry;
        let is_stale = (entry.serial, entry.index) == (serial, index);
        let is_true = entry == header.entry || is_stale && state.mutations.trust_stale_headers;
        if is_true {
            cache.lines.install(&header, key);
            base::hit(base::Probe::LineWarm);
            cache.counters.warm_lines = cache.lines.used() as u64;
        } else {
            cache.lines.pass(line);
        }
    }

    /// Headers of lines that have changed: what each claims, and its place and page.
    fn take_headers(&self) -> (Claims, Pages) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let (mut claims, mut pages) = (Vec::new(), Vec::new());
        let Some(cache) = state.read_cache.as_deref_mut() else { return (claims, pages) };
        let ReadCache { lines, layout, .. } = cache;
        while claims.len() < BATCH_MAX {
            let Some((line, key, body)) = lines.take_dirty() else { break };
            let (device, chunk) = ((key >> 32) as usize, key as u32);
            let entry = state.capacity[device].map[chunk as usize];
            let header = LineHeader {
                line,
                capacity: self.devices[device].id,
                chunk,
                entry,
                known: body.known,
                data: body.data,
                crcs: body.crcs,
            };
            let mut page = self.env.buf(PAGE_SIZE);
            header.encode(state.log.device, &mut page);
            claims.push((line, Claim { key, entry }));
            pages.push((layout.header_at(line), page.freeze()));
        }
        (claims, pages)
    }
}
