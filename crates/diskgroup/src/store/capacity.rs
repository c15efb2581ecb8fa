// SPDX-License-Identifier: Apache-2.0
//! A capacity device: its chunk map and checksums in memory, its journal, its checkpoints.
//!
//! In memory, `map` and the cached CRC pages are exactly what pages on the device plus journal say:
//! a change is applied when its journal record is durable, not before. So an image may be made
//! between any two records. A CRC page need not be in memory for that: its changes are kept beside
//! it, see `pending`.

use crate::store::pending::PendingChanges;
use crate::store::space::SHORT_PART;
use base::{FixedMap, Instant, Set};
use format::{
    CRC_PAGE_CHUNKS, ChunkEntry, ComponentRow, CrcPage, Item, JournalRecord, NO_COMPONENT,
};
use std::collections::VecDeque;
use std::time::Duration;

/// A device to which nothing was written directly for so long gets back the space that was kept for
/// it.
const STOCK_FOR: Duration = Duration::from_secs(10);
/// Page writes and reads in flight at a checkpoint and at recovery.
pub(crate) const PAGES_IN_FLIGHT: usize = 32;

/// A CRC page in memory.
pub(crate) struct CachedPage {
    pub(crate) page: Box<CrcPage>,
    /// Which slot on the device holds the newest image.
    pub(crate) newest: usize,
    /// Its image is on the way to the device. It is not evicted meanwhile: who reads a slot that is
    /// being written may find half of it.
    is_being_written: bool,
    /// Which of its chunks were allocated when its image was made.
    allocated: [bool; CRC_PAGE_CHUNKS],
    /// Here for its image alone.
    is_passing: bool,
    was_used: bool,
}

impl CachedPage {
    /// Whether its image is on the way to the device.
    #[cfg(test)]
    pub(crate) fn is_being_written(&self) -> bool {
        self.is_being_written
    }
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
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Journal {
    /// The half that takes records.
    pub(crate) half: u64,
    /// Bytes of records in it.
    pub(crate) position: u64,
    /// The next record's.
    pub(crate) sequence: u64,
    pub(crate) previous: u32,
    /// The other half has records whose checkpoint is not over.
    pub(crate) has_closed: bool,
    /// A record waits for that.
    pub(crate) is_awaited: bool,
    /// The journal is one area still, which counts as the closed half: no record is written before
    /// the superblock says that there are halves.
    pub(crate) is_linear: bool,
}

/// See the module.
#[derive(Default)]
pub(crate) struct CapacityState {
    /// What each device chunk holds.
    pub(crate) map: Vec<ChunkEntry>,
    pub(crate) map_meta: Vec<MapMeta>,
    /// Chunks that a durable image of their CRC page knows as allocated: the page must exist.
    pub(crate) settled: Vec<bool>,
    /// Free chunks, the next one last.
    pub(crate) free: Vec<u32>,
    /// Freed durably; their space is still to be given back.
    pub(super) freeing: VecDeque<u32>,
    /// Freed durably, and free as they are: their space is kept for the next direct writes. The one
    /// that was freed first comes first.
    pub(super) stock: VecDeque<u32>,
    /// When a direct write last took a chunk.
    pub(super) staged_at: Instant,
    /// No discard goes out before that, unless space is short.
    pub(super) rests_until: Instant,
    /// Taken out of `freeing`: their discard is on its way.
    pub(super) discarding: u32,
    /// Taken out of `free` by destage: the record that allocates them is on its way.
    pub(super) in_hand: u32,
    /// Staged for chunks in the log, or kept because the log still names them.
    pub(super) staged: u32,
    /// Set aside for chunks in the log that have no device chunk yet.
    pub(crate) reserved: u32,
    /// Kept for the reserves of components beyond what these have taken.
    pub(crate) promised: u64,
    pub(crate) rows: Vec<RowState>,
    /// Components of which W rose above what the journal says.
    pub(super) risen: Set<u32>,
    pub(crate) journal: Journal,
    /// The newest journal head was written and not flushed.
    pub(crate) has_loose_head: bool,
    /// Chunks that an unset may have left without data: candidates to be freed.
    pub(super) emptied: Set<u32>,
    pub(crate) pages: Vec<CachedPage>,
    page_at: FixedMap<usize>,
    hand: usize,
    /// Pages that are kept until their images are written.
    pinned: usize,
    /// What the journal has and the pages on the device may lack.
    pub(crate) pending: PendingChanges,
    /// Counts page images that became evictable: a page read across that moment may be stale.
    pub(crate) epoch: u64,
}

/// The CRC page of a chunk and its place in it.
pub(crate) fn page_of(chunk: u32) -> (u32, usize) {
    let per = CRC_PAGE_CHUNKS as u32;
    (chunk / per, (chunk % per) as usize)
}

impl CapacityState {
    /// Chunks that are not allocated, wherever they are.
    pub(crate) fn unallocated(&self) -> u64 {
        let listed = self.free.len() + self.freeing.len() + self.stock.len();
        listed as u64 + self.in_transit() + u64::from(self.staged)
    }

    /// Bytes of the lists of free and freed chunks.
    pub(crate) fn list_bytes(&self) -> usize {
        let lists = self.free.capacity() + self.freeing.capacity() + self.stock.capacity();
        lists * size_of::<u32>()
    }

    /// Of them, those that are on lists: free, or still to be given back to the device.
    pub(crate) fn listed(&self) -> impl Iterator<Item = u32> {
        self.free.iter().chain(&self.freeing).chain(&self.stock).copied()
    }

    /// Of them, those that are on the way from one list to another.
    pub(crate) fn in_transit(&self) -> u64 {
        u64::from(self.in_hand) + u64::from(self.discarding)
    }

    /// Of them, those that records of staged chunks own.
    pub(crate) fn staged(&self) -> u64 {
        u64::from(self.staged)
    }

    /// Takes a free chunk for the record that will allocate it.
    pub(crate) fn take_free(&mut self) -> Option<u32> {
        let chunk = self.free.pop().or_else(|| self.stock.pop_front())?;
        self.in_hand += 1;
        Some(chunk)
    }

    /// Takes a free chunk for a direct write: one whose space was kept, if there is one.
    pub(super) fn take_stocked(&mut self, now: Instant) -> Option<u32> {
        self.staged_at = now;
        base::hit_if(!self.stock.is_empty(), base::Probe::StockUsed);
        self.stock.pop_front().or_else(|| self.free.pop())
    }

    /// A chunk of direct writes is free. Its space is kept for the next ones, of so many at most.
    pub(super) fn put_by(&mut self, chunk: u32, most: usize) {
        let place = if self.stock.len() < most { &mut self.stock } else { &mut self.freeing };
        place.push_back(chunk);
    }

    /// What is kept for direct writes.
    #[cfg(test)]
    pub(crate) fn stocked(&self) -> Vec<u32> {
        self.stock.iter().copied().collect()
    }

    /// Nobody has written directly for long enough: what was kept for that goes back.
    pub(crate) fn give_up_stock(&mut self, now: Instant) {
        if now >= self.stocks_until() {
            base::hit_if(!self.stock.is_empty(), base::Probe::StockGivenBack);
            self.freeing.append(&mut self.stock);
        }
    }

    fn stocks_until(&self) -> Instant {
        self.staged_at + STOCK_FOR
    }

    /// Takes so many freed chunks at most, whose discard goes out now.
    pub(crate) fn take_freed(&mut self, most: usize) -> Vec<u32> {
        let count = self.freeing.len().min(most);
        base::hit_if(count < self.freeing.len(), base::Probe::ReclaimPart);
        self.discarding += count as u32;
        self.freeing.drain(..count).collect()
    }

    /// Their discard is over: they may be allocated. No other goes out for a while.
    pub(crate) fn discarded(&mut self, chunks: &[u32], rests_until: Instant) {
        self.rests_until = rests_until;
        self.free.extend(chunks.iter().rev());
        self.discarding -= chunks.len() as u32;
    }

    /// When the next freed chunks may be given back; none: there are none.
    pub(crate) fn reclaims_at(&self) -> Option<Instant> {
        // Freed chunks count as space to give; here only those do that can be allocated at once.
        let at_once = (self.free.len() + self.stock.len()) as u64;
        let is_short = at_once < self.map.len() as u64 / SHORT_PART;
        let at = if is_short { Instant::default() } else { self.rests_until };
        let freed = (!self.freeing.is_empty()).then_some(at);
        let kept = (!self.stock.is_empty()).then_some(at.max(self.stocks_until()));
        freed.into_iter().chain(kept).min()
    }

    /// Chunks that may have lost their last block since this was asked: at most so many. The
    /// others are left for the next time.
    pub(crate) fn take_emptied(&mut self, most: usize) -> Vec<u32> {
        std::iter::from_fn(|| self.emptied.pop_first()).take(most).collect()
    }

    /// Chunks that are neither allocated nor set aside. After a restart more may be set aside than
    /// there are, until destage has come to the discards that gave them back.
    fn unreserved(&self) -> u64 {
        self.unallocated().saturating_sub(u64::from(self.reserved) + u64::from(self.staged))
    }

    /// Chunks that anybody may take.
    pub(crate) fn available(&self) -> u64 {
        self.unreserved().saturating_sub(self.promised)
    }

    /// Chunks that a component may take, of whose reserve so many are left.
    pub(crate) fn available_to(&self, promised: u64) -> u64 {
        (self.available() + promised).min(self.unreserved())
    }

    /// A page, for who reads what it says.
    pub(crate) fn page(&mut self, number: u32) -> Option<&CrcPage> {
        let cached = self.cached(number)?;
        cached.was_used = true;
        Some(&cached.page)
    }

    /// A page, for who changes it.
    pub(crate) fn cached(&mut self, number: u32) -> Option<&mut CachedPage> {
        let at = *self.page_at.get(&u64::from(number))?;
        Some(&mut self.pages[at])
    }

    /// Keeps a page until its image is written; whether it is here.
    pub(crate) fn pin(&mut self, number: u32) -> bool {
        let Some(cached) = self.cached(number) else { return false };
        let is_new = !std::mem::replace(&mut cached.is_being_written, true);
        self.pinned += usize::from(is_new);
        true
    }

    /// Pages that are in memory for whoever reads, and those that are kept for their images.
    pub(crate) fn pages_held(&self) -> (usize, usize) {
        (self.pages.len() - self.pinned, self.pinned)
    }

    /// Makes the next image of a page that is kept for it: of all changes up to the last record.
    /// The page, and the slot that the image goes to.
    pub(crate) fn image_of(&mut self, number: u32, is_single: bool) -> Option<(&CrcPage, usize)> {
        self.pending.forget_closed(number);
        let (applied, at) =
            (self.journal.sequence.saturating_sub(1), *self.page_at.get(&u64::from(number))?);
        let first = usize::try_from(number).unwrap_or(usize::MAX) * CRC_PAGE_CHUNKS;
        let owner = |place: usize| self.map.get(first + place).map(|entry| entry.serial);
        let allocated =
            std::array::from_fn(|place| owner(place).is_some_and(|s| s != NO_COMPONENT));
        let cached = &mut self.pages[at];
        assert!(cached.is_being_written, "a page is kept until its image is durable");
        cached.allocated = allocated;
        cached.newest = if is_single { 0 } else { 1 - cached.newest };
        cached.page.sequence += 1;
        cached.page.applied = applied;
        Some((&cached.page, cached.newest))
    }

    /// The images of the pages that were kept for it are durable: they may be evicted. A read of a
    /// slot that began before must not bring the older image back.
    pub(crate) fn images_are_written(&mut self, limit: usize) {
        self.epoch += 1;
        for at in (0..self.pages.len()).rev() {
            let cached = &mut self.pages[at];
            if !std::mem::take(&mut cached.is_being_written) {
                continue;
            }
            self.pinned -= 1;
            let is_passing = std::mem::take(&mut cached.is_passing) && !cached.was_used;
            let first = cached.page.number as usize * CRC_PAGE_CHUNKS;
            for (settled, is_allocated) in self.settled[first..].iter_mut().zip(cached.allocated) {
                *settled = is_allocated;
            }
            if is_passing && self.pages_held().0 > limit {
                self.evict(at);
            }
        }
        self.give_up(limit);
    }

    /// Evicts what was not used lately until no more than so many pages are in memory. Those that
    /// are kept for their images do not count: they are bounded by their band.
    pub(crate) fn give_up(&mut self, limit: usize) {
        while self.pages_held().0 > limit
            && let Some(at) = self.unused()
        {
            self.evict(at);
        }
    }

    /// Puts a page in, in the place of one that was not used lately where the budget is spent.
    pub(crate) fn insert(&mut self, (page, newest): (Box<CrcPage>, usize), limit: usize) {
        self.give_up(limit.saturating_sub(1));
        let (is_being_written, is_passing, allocated) = (false, false, Default::default());
        let was_used = true;
        self.put(CachedPage { page, newest, is_being_written, allocated, is_passing, was_used });
    }

    /// Puts a page in that is here for its image alone.
    pub(crate) fn insert_for_image(&mut self, (page, newest): (Box<CrcPage>, usize)) {
        let (is_being_written, is_passing, allocated) = (true, true, Default::default());
        let was_used = false;
        self.pinned += 1;
        self.put(CachedPage { page, newest, is_being_written, allocated, is_passing, was_used });
    }

    fn put(&mut self, cached: CachedPage) {
        let number = u64::from(cached.page.number);
        assert!(!self.page_at.contains_key(&number), "a page is here once");
        self.page_at.insert(number, self.pages.len());
        self.pages.push(cached);
    }

    /// A page that was not used since it was looked at last.
    fn unused(&mut self) -> Option<usize> {
        for _ in 0..2 * self.pages.len() {
            self.hand = (self.hand + 1) % self.pages.len();
            let candidate = &mut self.pages[self.hand];
            if !candidate.is_being_written && !std::mem::take(&mut candidate.was_used) {
                return Some(self.hand);
            }
        }
        None
    }

    fn evict(&mut self, at: usize) {
        let gone = self.pages.swap_remove(at);
        self.page_at.remove(&u64::from(gone.page.number));
        if let Some(moved) = self.pages.get(at) {
            self.page_at.insert(u64::from(moved.page.number), at);
        }
    }
}

impl CapacityState {
    /// The other half takes the records from now on.
    pub(crate) fn turn(&mut self) {
        assert!(!self.journal.has_closed, "a half is written again when its checkpoint is over");
        self.journal = Journal {
            half: 1 - self.journal.half,
            position: 0,
            has_closed: true,
            is_awaited: false,
            ..self.journal
        };
        self.pending.turn();
    }

    /// What records of the journal that opening found allocate need not have a page on the device:
    /// the journal has all that was ever in it.
    pub(crate) fn are_unsettled(&mut self, records: &[JournalRecord]) {
        for item in records.iter().flat_map(|record| &record.items) {
            if let Item::Allocate { chunk, .. } = *item {
                self.settled[usize::try_from(chunk).unwrap_or(usize::MAX)] = false;
            }
        }
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
