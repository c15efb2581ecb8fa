// SPDX-License-Identifier: Apache-2.0
//! Headers of the slots on the device, a page for a line of them: read once at opening, written
//! behind, taken back in time.

use crate::readcache::key_of;
use crate::readcache::slots::{LineKeys, chunk_of, piece_of, split, whole_of};
use crate::state::GroupInner;
use crate::store::CapacityStore;
use crate::types::GroupError;
use base::Map;
use env::{Durability, Either, Permit, Slice, select, try_join_at_most};
use format::{ChunkEntry, Item, LineHeader, NO_COMPONENT, PAGE_SIZE, SlotHeader};
use std::rc::Rc;

/// Headers of one read at opening: 1 MiB.
const READ_HEADERS: u32 = 256;
/// Headers of one batch that name pieces whose slots were given to others: fills wait for them.
/// 4 MiB. A batch ends with a flush.
const STALE_BATCH_MAX: usize = 1024;
/// Of those, written at a time.
const WRITES_MAX: usize = 32;

/// Lines and what their headers say.
type Lines = Vec<(u32, LineKeys)>;
/// Places on the device and what goes there.
type Pages = Vec<(u64, Slice)>;

/// The task of a hybrid group: takes over what the slots hold, then writes their headers behind.
pub(crate) async fn keep(inner: Rc<GroupInner>) {
    if load(&inner).await.is_err() {
        return;
    }
    loop {
        wait_for_batch(&inner).await;
        if inner.check_open().is_err() || write_batch(&inner).await.is_err() {
            return;
        }
    }
}

/// Until the next batch: sooner where fills wait for it, but not at once, so that there are many in
/// it.
async fn wait_for_batch(inner: &GroupInner) {
    let every = inner.options.headers_every;
    let until = inner.env.now() + every;
    loop {
        let kick = inner.cache_kick.wait();
        if inner.check_open().is_err() || is_crowded(inner) {
            return inner.env.sleep(every / 8).await;
        }
        if let Either::Second(()) = select(kick, inner.env.sleep_until(until)).await {
            return;
        }
    }
}

fn is_crowded(inner: &GroupInner) -> bool {
    inner.state.borrow().read_cache.as_deref().is_some_and(|cache| cache.slots.is_crowded())
}

/// When the group is closed in order, all headers are written, but those of lines whose chunk a
/// record under way may have changed.
pub(crate) async fn close(inner: &GroupInner) {
    inner.fills.clear();
    if let Some(cache) = inner.state.borrow_mut().read_cache.as_deref_mut() {
        cache.streams = crate::readcache::Streams::default();
    }
    inner.cache_kick.notify();
    let is_whole = |inner: &GroupInner| {
        let state = inner.state.borrow();
        state.fenced.is_none() && state.read_cache.is_some()
    };
    while is_whole(inner) && write_batch(inner).await.is_ok_and(|count| count > 0) {}
}

/// Reads all headers, a megabyte at a time.
async fn load(inner: &GroupInner) -> Result<(), GroupError> {
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
                    write_if_crowded(inner).await?;
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

/// Headers that are not believed are remembered until they are overwritten.
async fn write_if_crowded(inner: &GroupInner) -> Result<(), GroupError> {
    while is_crowded(inner) && write_batch(inner).await? > 0 {}
    Ok(())
}

/// A header that cannot be read may be read some day: it is overwritten before its line is used.
async fn load_each(inner: &GroupInner, first: u32, count: u32) -> Result<(), GroupError> {
    for line in first..first + count {
        let at = match inner.state.borrow().read_cache.as_deref() {
            Some(cache) => cache.layout.header_at(line),
            None => return Ok(()),
        };
        if let Ok(page) = inner.cache.read(at, inner.env.buf(PAGE_SIZE)).await {
            inner.take_over(line, &page);
            write_if_crowded(inner).await?;
            continue;
        }
        inner.rewrite_headers(&[line], &Map::new()).await?;
        inner.take_over(line, &[]);
    }
    Ok(())
}

/// Writes a batch of headers and flushes; how many.
async fn write_batch(inner: &GroupInner) -> Result<usize, GroupError> {
    let _permit = inner.headers.acquire(1).await;
    let (lines, pages) = inner.take_headers();
    if lines.is_empty() {
        return Ok(0);
    }
    let writes =
        pages.iter().map(|(at, page)| inner.cache.write(*at, page.clone(), Durability::Cached));
    let written = try_join_at_most(WRITES_MAX, writes).await;
    written.map_err(|error| inner.fence(&inner.cache_path, &error))?;
    // Until here the headers before may come back when the power fails.
    inner.cache.flush().await.map_err(|error| inner.fence(&inner.cache_path, &error))?;
    inner.read_back_of(&inner.cache_path, &inner.cache, &pages).await?;
    inner.headers_written(&lines);
    Ok(lines.len())
}

/// What a journal record makes of a chunk.
struct After {
    entry: ChunkEntry,
    is_raised: bool,
    is_allocated: bool,
    /// One bit per piece: not set where the chunk has these very blocks already, since after a
    /// crash much is destaged once more.
    changed: u16,
}

impl After {
    /// Whether headers of before are not told from later ones by the lsn alone.
    fn is_quiet(&self) -> bool {
        let is_told = self.is_raised && !self.is_allocated;
        self.entry.serial != NO_COMPONENT && self.changed != 0 && !is_told
    }
}

/// What a record of these items makes of each chunk that it touches. A block of which the page is
/// not in memory counts as changed.
fn chunks_after<'a>(
    store: &mut CapacityStore,
    device: usize,
    items: impl IntoIterator<Item = &'a Item>,
) -> Map<u32, After> {
    let mut all: Map<u32, After> = Map::new();
    for item in items {
        let Some(chunk) = item.chunk() else { continue };
        let entry = store.entry(device, chunk);
        let crcs = store.checksums(device, chunk);
        let crc_of = |block: u8| crcs.map(|(page, place)| page.get(place, usize::from(block)));
        let bit = |block: u8| 1 << split(usize::from(block)).0;
        let (changed, is_same) = match *item {
            Item::Block { block, crc, .. } => (bit(block), crc_of(block) == Some(Some(crc))),
            Item::Unset { block, .. } => (bit(block), crc_of(block) == Some(None)),
            _ => (u16::MAX, false),
        };
        let (is_raised, is_allocated) = (false, false);
        let new = After { entry, is_raised, is_allocated, changed: 0 };
        let after = all.entry(chunk).or_insert(new);
        after.changed |= if is_same { 0 } else { changed };
        let before = after.entry;
        after.entry = item.after(before);
        match item {
            Item::Allocate { .. } => after.is_allocated = true,
            _ => after.is_raised |= after.entry.lsn > before.lsn,
        }
    }
    all
}

impl GroupInner {
    /// Steps 7 and 8 of the module's argument: before a record whose changes the lsns of their
    /// chunks do not tell. What it returns is held until the record is applied.
    pub(crate) async fn guard_headers(
        &self,
        device: usize,
        items: &[Item],
    ) -> Result<Option<Permit>, GroupError> {
        if !self.is_hybrid || self.options.mutations.skip_header_invalidation() {
            return Ok(None);
        }
        let mut quiet = self.quiet(device, items);
        if quiet.is_empty() {
            return Ok(None);
        }
        self.wait_for_load().await?;
        self.look_closer(device, items, &mut quiet).await?;
        if quiet.is_empty() {
            return Ok(None);
        }
        let excludes = !self.options.mutations.headers_beside_records();
        let permit = if excludes { Some(self.headers.acquire(1).await) } else { None };
        let lines = {
            let mut state = self.state.borrow_mut();
            let Some(cache) = state.read_cache.as_deref_mut() else { return Ok(None) };
            if excludes {
                cache.slots.freeze(quiet.keys().copied());
            }
            cache.slots.lines_naming(&quiet)
        };
        if !lines.is_empty() {
            base::hit(base::Probe::LineTakenBack);
        }
        for some in lines.chunks(WRITES_MAX) {
            self.rewrite_headers(some, &quiet).await?;
        }
        Ok(permit)
    }

    /// Chunks that items change and of which headers of before still look right by the lsn, each
    /// with its pieces that change.
    fn quiet<'a>(&self, device: usize, items: impl IntoIterator<Item = &'a Item>) -> Map<u64, u16> {
        let mut state = self.state.borrow_mut();
        let after = chunks_after(&mut state.store, device, items).into_iter();
        let quiet = after.filter(|(_, after)| after.is_quiet());
        quiet.map(|(chunk, after)| (key_of(device, chunk), after.changed)).collect()
    }

    /// After a restart much is destaged once more that capacity has already. Where a header names
    /// such a chunk its page is read, so that what is still right stays warm.
    async fn look_closer(
        &self,
        device: usize,
        items: &[Item],
        quiet: &mut Map<u64, u16>,
    ) -> Result<(), GroupError> {
        let named = match self.state.borrow().read_cache.as_deref() {
            Some(cache) => cache.slots.named(quiet),
            None => return Ok(()),
        };
        if named.is_empty() {
            return Ok(());
        }
        let mut of_chunk: Map<u32, Vec<&Item>> = Map::new();
        for item in items {
            of_chunk.entry(item.chunk().unwrap_or(u32::MAX)).or_default().push(item);
        }
        for key in named {
            let (_, chunk) = chunk_of(key);
            self.load_checksums(device, chunk).await?;
            quiet.remove(&key);
            let of_chunk = of_chunk.get(&chunk).into_iter().flatten().copied();
            quiet.extend(self.quiet(device, of_chunk));
        }
        Ok(())
    }

    /// The record is applied.
    pub(crate) fn thaw_headers(&self) {
        if let Some(cache) = self.state.borrow_mut().read_cache.as_deref_mut() {
            cache.slots.thaw();
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

    /// Writes headers of lines durably, without these pieces of chunks.
    async fn rewrite_headers(
        &self,
        lines: &[u32],
        without: &Map<u64, u16>,
    ) -> Result<(), GroupError> {
        let (lines, pages) = self.encode_headers(lines, without);
        let writes =
            pages.iter().map(|(at, page)| self.cache.write(*at, page.clone(), Durability::Durable));
        let written = try_join_at_most(WRITES_MAX, writes).await;
        written.map_err(|error| self.fence(&self.cache_path, &error))?;
        self.read_back_of(&self.cache_path, &self.cache, &pages).await?;
        self.headers_written(&lines);
        Ok(())
    }

    /// Headers are on the device, and those before are gone.
    fn headers_written(&self, lines: &Lines) {
        let mut state = self.state.borrow_mut();
        let Some(cache) = state.read_cache.as_deref_mut() else { return };
        for (line, claims) in lines {
            cache.slots.set_stored(*line, claims);
        }
        cache.counters.header_bytes += (lines.len() * PAGE_SIZE) as u64;
    }

    /// What a line's headers on the device say, and what of it is true. Without a page: nothing.
    fn take_over(&self, line: u32, page: &[u8]) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let Some(cache) = state.read_cache.as_deref_mut() else { return };
        let header = LineHeader::decode(state.log.device, line, page);
        let header = header.unwrap_or_else(|_| LineHeader::empty(line));
        for slot in &header.slots {
            let device = slot
                .and_then(|slot| self.devices.iter().position(|device| device.id == slot.capacity));
            let found = slot.as_ref().zip(device).and_then(|(slot, device)| {
                let entry = state.store.capacity[device].map.get(slot.chunk as usize)?;
                let key = piece_of(key_of(device, slot.chunk), usize::from(slot.piece));
                Some((slot, key, *entry))
            });
            let is_believed = found.is_some_and(|(slot, _, entry)| {
                let is_stale = (entry.serial, entry.index) == (slot.entry.serial, slot.entry.index);
                entry == slot.entry || is_stale && state.mutations.trust_stale_headers()
            });
            cache.slots.install(found.map(|(slot, key, _)| (slot, key)), is_believed);
            if is_believed {
                base::hit(base::Probe::LineWarm);
                cache.counters.warm_slots += 1;
            }
        }
    }

    /// Headers that are to be written: what each says, and its place and page.
    fn take_headers(&self) -> (Lines, Pages) {
        let most = self.options.limits.header_lines;
        let lines = match self.state.borrow_mut().read_cache.as_deref_mut() {
            Some(cache) => cache.slots.take_dirty(STALE_BATCH_MAX, most),
            None => Vec::new(),
        };
        base::hit_if(lines.len() >= most, base::Probe::HeadersFull);
        self.encode_headers(&lines, &Map::new())
    }

    fn encode_headers(&self, lines: &[u32], without: &Map<u64, u16>) -> (Lines, Pages) {
        let state = self.state.borrow();
        let (mut all, mut pages) = (Vec::new(), Vec::new());
        let Some(cache) = state.read_cache.as_deref() else { return (all, pages) };
        for line in lines {
            let claims = cache.slots.claims(*line, without);
            let header = |(place, claim): (usize, &Option<u64>)| -> Option<SlotHeader> {
                let (device, chunk) = chunk_of(whole_of((*claim)?));
                let entry = state.store.entry(device, chunk);
                Some(cache.slots.header((*line, place), self.devices[device].id, entry))
            };
            let mut slots = claims.iter().enumerate().map(header);
            let slots = std::array::from_fn(|_| slots.next().flatten());
            let mut page = self.env.buf(PAGE_SIZE);
            LineHeader { line: *line, slots }.encode(state.log.device, &mut page);
            all.push((*line, claims));
            pages.push((cache.layout.header_at(*line), page.freeze()));
        }
        (all, pages)
    }
}
