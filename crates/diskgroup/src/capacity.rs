// SPDX-License-Identifier: Apache-2.0
//! A capacity device: its chunk map and checksums in memory, its journal, its checkpoints.
//!
//! In memory, `map` and the cached CRC pages are exactly what pages on the device plus journal say:
//! a change is applied when its journal record is durable, not before. So a checkpoint may happen
//! between any two records.

use crate::chunks::{block_key, chunk_key};
use crate::index::FixedMap;
use crate::state::{GroupInner, GroupState};
use crate::types::GroupError;
use base::{CHUNK_BLOCKS, Instant, Lsn, Set};
use env::{Durability, join_all};
use format::{
    CRC_PAGE_CHUNKS, ChunkEntry, ComponentRow, CrcPage, FormatError, Item, JOURNAL_HEAD_SLOTS,
    JournalHead, JournalRecord, MAP_PAGE_CHUNKS, NO_COMPONENT, PAGE_SIZE, RECORD_ITEMS_MAX,
};
use std::collections::VecDeque;

const PAGE: u64 = PAGE_SIZE as u64;
/// Page writes and reads in flight at a checkpoint and at recovery.
pub(crate) const PAGES_IN_FLIGHT: usize = 32;

/// A CRC page in memory.
pub(crate) struct CachedPage {
    pub(crate) page: Box<CrcPage>,
    /// Which slot on the device holds the newest image.
    pub(crate) newest: usize,
    /// Holds changes that only the journal has, or is about to: never evicted.
    pub(crate) is_dirty: bool,
    /// Its image is on the way to the device: evicted now, it would come back as it was before.
    pub(crate) is_being_written: bool,
    was_used: bool,
}

/// State of a map page besides its chunks.
#[derive(Clone, Copy, Default)]
pub(crate) struct MapMeta {
    pub(crate) sequence: u64,
    pub(crate) newest: usize,
    pub(crate) applied: u64,
    pub(crate) is_dirty: bool,
    /// The other slot is damaged: this one may not be the newer.
    pub(crate) is_in_doubt: bool,
}

/// A row of the component table.
#[derive(Clone, Default)]
pub(crate) struct RowState {
    /// Serial of the living component; 0 where the row is free.
    pub(crate) serial: u32,
    pub(crate) sequence: u64,
    pub(crate) newest: usize,
    /// What this run last made durable in it, with sequence 0.
    pub(crate) kept: Option<Box<ComponentRow>>,
    /// The same, of before the write that is under way.
    pub(crate) before: Option<Box<ComponentRow>>,
    /// Both of its pages say what is kept.
    pub(crate) is_twice: bool,
}

/// Where the journal stands.
#[derive(Clone, Copy, Default)]
pub(crate) struct Journal {
    pub(crate) position: u64,
    /// The next record's.
    pub(crate) sequence: u64,
    pub(crate) previous: u32,
}

/// See the module.
#[derive(Default)]
pub(crate) struct CapacityState {
    /// What each device chunk holds.
    pub(crate) map: Vec<ChunkEntry>,
    pub(crate) map_meta: Vec<MapMeta>,
    /// Chunks that were allocated at the last checkpoint: their CRC pages must exist.
    pub(crate) settled: Vec<bool>,
    /// Free chunks, the next one last.
    pub(crate) free: Vec<u32>,
    /// Freed durably; their space is still to be given back.
    pub(crate) freeing: VecDeque<u32>,
    /// No discard goes out before that, unless space is short.
    pub(crate) rests_until: Instant,
    /// Taken out of `freeing`: their discard is on its way.
    pub(crate) discarding: u32,
    /// Taken out of `free` by destage: the record that allocates them is on its way.
    pub(crate) in_hand: u32,
    /// Set aside for chunks in the log that have no device chunk yet.
    pub(crate) reserved: u32,
    /// Kept for the reserves of components beyond what these have taken.
    pub(crate) promised: u64,
    pub(crate) rows: Vec<RowState>,
    /// Components of which W rose above what the journal says.
    pub(crate) risen: Set<u32>,
    pub(crate) journal: Journal,
    /// The newest journal head was written and not flushed.
    pub(crate) has_loose_head: bool,
    /// Chunks that an unset left without data: candidates to be freed.
    pub(crate) emptied: Set<u32>,
    pub(crate) pages: Vec<CachedPage>,
    page_at: FixedMap<usize>,
    hand: usize,
    pub(crate) dirty: usize,
    /// Counts page images that became evictable: a page read across that moment may be stale.
    epoch: u64,
}

/// The CRC page of a chunk and its place in it.
pub(crate) fn page_of(chunk: u32) -> (u32, usize) {
    let per = CRC_PAGE_CHUNKS as u32;
    (chunk / per, (chunk % per) as usize)
}

impl CapacityState {
    /// Chunks that are not allocated, wherever they are.
    pub(crate) fn unallocated(&self) -> u64 {
        let listed = self.free.len() as u64 + self.freeing.len() as u64;
        listed + u64::from(self.discarding) + u64::from(self.in_hand)
    }

    /// Chunks that are neither allocated nor set aside. After a restart more may be set aside than
    /// there are, until destage has come to the discards that gave them back.
    pub(crate) fn unreserved(&self) -> u64 {
        self.unallocated().saturating_sub(u64::from(self.reserved))
    }

    /// Chunks that anybody may take.
    pub(crate) fn available(&self) -> u64 {
        self.unreserved().saturating_sub(self.promised)
    }

    /// Chunks that a component may take, of whose reserve so many are left.
    pub(crate) fn available_to(&self, promised: u64) -> u64 {
        (self.available() + promised).min(self.unreserved())
    }

    pub(crate) fn page(&mut self, number: u32) -> Option<&mut CachedPage> {
        let at = *self.page_at.get(&u64::from(number))?;
        let cached = &mut self.pages[at];
        cached.was_used = true;
        Some(cached)
    }

    fn hold(&mut self, number: u32) -> bool {
        let Some(cached) = self.page(number) else { return false };
        let was_clean = !std::mem::replace(&mut cached.is_dirty, true);
        self.dirty += usize::from(was_clean);
        true
    }

    /// The images of a checkpoint are on the device: their pages may be evicted, and a read of a
    /// slot that began before must not bring the older image back.
    pub(crate) fn images_are_written(&mut self) {
        self.pages.iter_mut().for_each(|cached| cached.is_being_written = false);
        self.epoch += 1;
    }

    /// Puts a page in, in the place of one that was not used lately where the budget is spent.
    fn insert(&mut self, page: Box<CrcPage>, newest: usize, limit: usize) {
        let number = u64::from(page.number);
        if self.page_at.contains_key(&number) {
            return;
        }
        let cached =
            CachedPage { page, newest, is_dirty: false, is_being_written: false, was_used: true };
        if self.pages.len() >= limit {
            for _ in 0..2 * self.pages.len() {
                self.hand = (self.hand + 1) % self.pages.len();
                let candidate = &mut self.pages[self.hand];
                let is_clean = !candidate.is_dirty && !candidate.is_being_written;
                if is_clean && !std::mem::take(&mut candidate.was_used) {
                    self.page_at.remove(&u64::from(candidate.page.number));
                    self.page_at.insert(number, self.hand);
                    self.pages[self.hand] = cached;
                    return;
                }
            }
        }
        self.page_at.insert(number, self.pages.len());
        self.pages.push(cached);
    }
}

impl GroupInner {
    fn page_limit(&self) -> usize {
        (self.options.crc_cache_bytes / PAGE_SIZE).max(1)
    }

    /// Whether destage should write the pages back before it goes on.
    pub(crate) fn wants_checkpoint(&self, device: usize) -> bool {
        let state = self.state.borrow();
        let capacity = &state.capacity[device];
        capacity.journal.position * 2 > self.devices[device].layout.journal_size
            || capacity.dirty > self.page_limit() / 2
    }

    /// Makes sure that a CRC page is in memory; `hold` keeps it there until the next checkpoint.
    pub(crate) async fn load_page(
        &self,
        device: usize,
        number: u32,
        hold: bool,
    ) -> Result<(), GroupError> {
        let handle = &self.devices[device];
        loop {
            let (epoch, is_replay) = {
                let mut state = self.state.borrow_mut();
                let is_replay = state.is_recovering;
                let capacity = &mut state.capacity[device];
                let is_here = match hold {
                    true => capacity.hold(number),
                    false => capacity.page(number).is_some(),
                };
                if is_here {
                    return Ok(());
                }
                (capacity.epoch, is_replay)
            };
            base::hit(base::Probe::PageLoaded);
            let offset = handle.layout.crc_start + u64::from(number) * 2 * PAGE;
            let read = handle.disk().read(offset, self.env.buf(2 * PAGE_SIZE)).await;
            let both =
                read.map_err(|source| GroupError::Device { device: handle.path.clone(), source })?;
            let slots = [0, 1].map(|slot| {
                CrcPage::decode(handle.id, number, &both[slot * PAGE_SIZE..(slot + 1) * PAGE_SIZE])
            });
            let mut state = self.state.borrow_mut();
            if state.capacity[device].epoch != epoch {
                continue; // a checkpoint may have written a newer image meanwhile
            }
            let (page, newest) = self.choose(&mut state, device, number, slots, is_replay);
            state.capacity[device].insert(Box::new(page), newest, self.page_limit());
        }
    }

    /// The newer valid slot. Where a page that must exist is lost, every block of its chunks is
    /// marked so that reads give `BadCrc` until it is rewritten: never zeros.
    fn choose(
        &self,
        state: &mut GroupState,
        device: usize,
        number: u32,
        slots: [Result<CrcPage, FormatError>; 2],
        is_replay: bool,
    ) -> (CrcPage, usize) {
        // A torn checkpoint leaves a damaged slot, but then the journal holds all of it and the
        // page is loaded by replay. At any other time a damaged slot may have been the newer one.
        let errors = slots.iter().filter_map(|slot| slot.as_ref().err());
        let any_damaged = errors.into_iter().any(|error| *error != FormatError::Magic);
        let [first, second] = slots;
        let best = match (first, second) {
            (Ok(a), Ok(b)) if b.sequence > a.sequence => Some((b, 1)),
            (Ok(a), _) => Some((a, 0)),
            (Err(_), Ok(b)) => Some((b, 1)),
            (Err(_), Err(_)) => None,
        };
        let is_lost = best.is_none() || (any_damaged && !is_replay);
        let (mut page, newest) = best.unwrap_or((CrcPage::empty(number), 1));
        if is_lost {
            for place in 0..CRC_PAGE_CHUNKS {
                let chunk = number as usize * CRC_PAGE_CHUNKS + place;
                let capacity = &state.capacity[device];
                if capacity.settled.get(chunk).copied().unwrap_or(false) {
                    page.present[place] = [u64::MAX; 4];
                    page.crcs[place] = [0xBAD0_BAD0; 256];
                    let serial = capacity.map[chunk].serial;
                    if let Some(component) = state.components.get_mut(serial) {
                        component.is_damaged = true;
                    }
                }
            }
        }
        (page, newest)
    }

    /// Loads pages, many at a time.
    pub(crate) async fn load_pages(&self, device: usize, pages: &[u32]) -> Result<(), GroupError> {
        for some in pages.chunks(PAGES_IN_FLIGHT) {
            let loads = some.iter().map(|number| self.load_page(device, *number, true)).collect();
            join_all(loads).await.into_iter().collect::<Result<Vec<()>, _>>()?;
        }
        Ok(())
    }

    /// Makes changes durable in the journal, then applies them (store rule 9). The flush covers the
    /// data writes that completed before on the same device too. Loads the pages.
    ///
    /// A record may reach the media before that data does, if power fails in between: the log still
    /// holds every block of it, so nothing is read by its checksums before it is destaged again.
    pub(crate) async fn journal(&self, device: usize, items: &[Item]) -> Result<(), GroupError> {
        let handle = &self.devices[device];
        for part in items.chunks(self.record_items(device)) {
            let size = JournalRecord::size_of(part.len()) as u64;
            let is_full = {
                let state = self.state.borrow();
                state.capacity[device].journal.position + size > handle.layout.journal_size
            };
            if is_full {
                self.checkpoint(device).await?;
            }
            self.load_pages(device, &pages_touched(part)).await?;
            let guard = self.guard_headers(device, part).await?;
            let (offset, sequence, bytes, crc) = {
                let state = self.state.borrow();
                let journal = &state.capacity[device].journal;
                let record = JournalRecord {
                    sequence: journal.sequence,
                    previous: journal.previous,
                    items: part.to_vec(),
                };
                let mut buf = self.env.buf(size as usize);
                let crc = record.encode(handle.id, &mut buf);
                let offset = handle.layout.journal_start + journal.position;
                (offset, journal.sequence, buf.freeze(), crc)
            };
            self.state.borrow_mut().counters.records += 1;
            if !self.options.mutations.skip_journal() {
                let write = handle.disk().write(offset, bytes.clone(), Durability::Cached);
                write.await.map_err(|error| self.fence(&handle.path, &error))?;
            }
            if !self.options.mutations.skip_destage_flush() {
                let mut flushed = handle.disk().flush().await;
                while flushed.is_err() && self.options.mutations.retry_after_failure() {
                    self.env.sleep(std::time::Duration::from_millis(1)).await;
                    flushed = handle.disk().flush().await;
                }
                flushed.map_err(|error| self.fence(&handle.path, &error))?;
            }
            let mutations = &self.options.mutations;
            if !mutations.skip_journal() && !mutations.skip_destage_flush() {
                self.read_back(device, &[(offset, bytes)]).await?;
                self.write_head(device, sequence).await?;
            }
            let mut state = self.state.borrow_mut();
            let journal = &mut state.capacity[device].journal;
            journal.position += size;
            journal.sequence += 1;
            journal.previous = crc;
            for item in part {
                state.apply_item(device, item, sequence);
            }
            drop(state);
            // Another device's record may be under way: what is frozen for it stays so.
            if guard.is_some() || self.options.mutations.thaw_for_others() {
                self.thaw_headers();
            }
        }
        Ok(())
    }

    /// Durable with the next flush, of the next record or when destage is idle.
    async fn write_head(&self, device: usize, record: u64) -> Result<(), GroupError> {
        let handle = &self.devices[device];
        let mut page = self.env.buf(PAGE_SIZE);
        JournalHead { record }.encode(handle.id, &mut page);
        let slot = JOURNAL_HEAD_SLOTS[(record % 2) as usize];
        let write = handle.disk().write(slot, page.freeze(), Durability::Cached);
        write.await.map_err(|error| self.fence(&handle.path, &error))?;
        self.state.borrow_mut().capacity[device].has_loose_head = true;
        Ok(())
    }

    /// Makes journal heads durable that no later record did.
    pub(crate) async fn flush_heads(&self) -> Result<(), GroupError> {
        for (device, handle) in self.devices.iter().enumerate() {
            let is_loose =
                std::mem::take(&mut self.state.borrow_mut().capacity[device].has_loose_head);
            if is_loose {
                handle.disk().flush().await.map_err(|error| self.fence(&handle.path, &error))?;
            }
        }
        Ok(())
    }

    fn record_items(&self, device: usize) -> usize {
        let room = self.devices[device].layout.journal_size / 4;
        RECORD_ITEMS_MAX.min(room as usize / 32)
    }
}

/// CRC pages that items change, in order.
pub(crate) fn pages_touched(items: &[Item]) -> Vec<u32> {
    let mut pages: Vec<u32> = items
        .iter()
        .filter(|item| !matches!(item, Item::Free { .. }))
        .filter_map(|item| Some(page_of(item.chunk()?).0))
        .collect();
    pages.sort_unstable();
    pages.dedup();
    pages
}

impl GroupState {
    /// Applies a durable item to map and checksums. Pages that hold the record already stay as they
    /// are; at run time none does.
    pub(crate) fn apply_item(&mut self, device: usize, item: &Item, sequence: u64) {
        if let Item::Watermark { serial, lsn } = *item
            && let Some(component) = self.components.get_mut(serial)
        {
            component.row.destaged = component.row.destaged.max(lsn);
            component.destaged_logged = component.destaged_logged.max(lsn);
        }
        let Some(chunk) = item.chunk() else { return };
        self.apply_to_page(device, item, sequence, chunk);
        let capacity = &mut self.capacity[device];
        let meta = &mut capacity.map_meta[chunk as usize / MAP_PAGE_CHUNKS];
        if sequence <= meta.applied {
            return;
        }
        meta.is_dirty = true;
        let entry = &mut capacity.map[chunk as usize];
        let before = *entry;
        *entry = item.after(before);
        match *item {
            Item::Allocate { serial, index, .. } if !self.is_recovering => {
                self.allocated(device, chunk, serial, index);
            }
            Item::Free { .. } if !self.is_recovering && before.serial != NO_COMPONENT => {
                self.freed(device, chunk, before);
            }
            _ => {}
        }
        self.remember(device, chunk, item);
        if !self.is_recovering {
            self.tell_cache(device, item);
        }
    }

    /// What the journal says of blocks. This run's discards say so themselves when they leave the
    /// log, for they may leave nothing in the journal. For those of earlier runs the items have to
    /// do, and, where nothing was on capacity, the lsn with which the chunk came there.
    fn remember(&mut self, device: usize, chunk: u32, item: &Item) {
        let ChunkEntry { serial, index, .. } = self.capacity[device].map[chunk as usize];
        let key = chunk_key(serial, index.into());
        let at = |block: u8| block_key(serial, u64::from(index) * CHUNK_BLOCKS + u64::from(block));
        match *item {
            Item::Block { block, lsn, .. } => self.remember_block(at(block), lsn),
            Item::Unset { block, lsn, .. } if self.is_recovering => {
                self.remember_block(at(block), lsn);
            }
            Item::Clear { lsn, .. } if self.is_recovering => self.remember_chunk(key, lsn),
            Item::Allocate { lsn, .. } if self.is_recovering => self.remember_chunk(key, lsn),
            Item::Allocate { .. } => {
                let before = self.components.get(serial).map_or(Lsn::ZERO, |c| c.erased_before);
                self.remember_chunk(key, before);
            }
            _ => {}
        }
    }

    /// A block leaves the log: what it holds since `lsn` is on capacity, zeros as well.
    pub(crate) fn remember_block(&mut self, key: u64, lsn: Lsn) {
        self.history.block(&mut self.components, key, lsn);
    }

    /// All of a chunk was discarded by an entry that leaves the log.
    pub(crate) fn remember_chunk(&mut self, key: u64, lsn: Lsn) {
        self.history.chunk(&mut self.components, key, lsn);
    }

    fn apply_to_page(&mut self, device: usize, item: &Item, sequence: u64, chunk: u32) {
        let (number, place) = page_of(chunk);
        let capacity = &mut self.capacity[device];
        if matches!(item, Item::Free { .. }) {
            return;
        }
        let Some(cached) = capacity.page(number) else {
            unreachable!("pages are held before their items apply")
        };
        if sequence <= cached.page.applied {
            return;
        }
        item.apply(&mut cached.page, place);
        if matches!(item, Item::Unset { .. }) && cached.page.is_empty(place) {
            capacity.emptied.insert(chunk);
        }
    }

    fn allocated(&mut self, device: usize, chunk: u32, serial: u32, index: u32) {
        let key = chunk_key(serial, u64::from(index));
        self.capacity[device].in_hand -= 1;
        if self.components.get(serial).is_none() {
            // Deleted while it was destaged.
            self.capacity[device].map[chunk as usize] = ChunkEntry::default();
            if !self.mutations.leak_deleted() {
                self.capacity[device].freeing.push_back(chunk);
            }
            return;
        }
        self.chunks.set_base(key, Some(chunk));
        if self.chunks.over(key).is_some_and(|over| over.is_reserved) {
            self.chunks.over_mut(key).is_reserved = false;
            self.capacity[device].reserved -= 1;
        } else {
            self.hold(serial);
        }
    }

    fn freed(&mut self, device: usize, chunk: u32, was: ChunkEntry) {
        let key = chunk_key(was.serial, u64::from(was.index));
        self.chunks.set_base(key, None);
        self.let_go(was.serial);
        if let Some(component) = self.components.get_mut(was.serial) {
            component.erased = component.erased.max(was.lsn);
        }
        if !self.mutations.leak_discarded() {
            self.capacity[device].freeing.push_back(chunk);
        }
        // Appends that came meanwhile counted on this chunk: set one aside for them.
        if self.chunks.over(key).is_some_and(|over| over.live > 0 || over.queued > 0) {
            self.chunks.over_mut(key).is_reserved = true;
            self.capacity[device].reserved += 1;
            self.hold(was.serial);
        }
    }
}
