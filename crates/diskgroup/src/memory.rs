// SPDX-License-Identifier: Apache-2.0
//! What the disk groups of a host may hold in memory together: two budgets.
//!
//! *Checksum pages* are shared. Each capacity device of an open group has a share, in proportion to
//! its chunks after a small floor. When a group comes or goes the shares are dealt anew; who has
//! more than its share then gives pages up at once.
//!
//! *Tables* follow from the sizes of devices. A group says what it needs when it is opened, and is
//! refused where that is not left.
//!
//! Guarantees: the pages in memory, of all groups together, are never more than their budget. What
//! open groups need together is never more than theirs. A page whose image is on its way to the
//! device counts with what is under way, of which each device has a bound.
//!
//! One page for each device is enough, and slow: nobody needs a second one to get on. Whoever needs
//! a page uses it in the turn of the host in which it came, so it may be evicted in the next one. A
//! record reads none. A checkpoint keeps those of its band, which count as under way.
//!
//! Not guaranteed: that tables stay within what was needed. [`MemoryParts::needed`] names the loads
//! that make them larger.

use crate::limits::GroupLimits;
use crate::types::{GroupError, GroupOptions};
use base::{BLOCK_SIZE, CHUNK_BLOCKS, CHUNK_SIZE};
use format::{CRC_PAGE_CHUNKS, CacheLayout, CapacityLayout, PAGE_SIZE, ReadCacheLayout};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

/// Checksum pages that each capacity device has, whatever its size: 48 MiB of it are covered. All
/// 112 devices of a host together have 7 MiB so. Where there is less, all of it is dealt evenly.
const FLOOR_PAGES: usize = 16;
/// Least budget of checksum pages of a host, bytes: one page for each of its devices.
pub const CHECKSUM_BYTES_MIN: u64 = 512 << 10;
/// Capacity devices that this is enough for.
pub const CHECKSUM_DEVICES_MAX: usize = 128;
const _: () = assert!(CHECKSUM_DEVICES_MAX * PAGE_SIZE == 512 << 10, "a page for each");
/// Bytes of the history for each block: a queue that doubles when it grows, and an ordered map
/// whose nodes are half full at least.
pub(crate) const HISTORY_BLOCK_BYTES: u64 = 64;
/// Bytes for each chunk of a device: its entry in the map, its place on the lists of free and freed
/// chunks, and its place in a leaf that is dense.
const CHUNK_BYTES: u64 = 48;
/// Bytes of pending changes for each byte of the journal: 12 for an item that takes 24 there.
const PENDING_PART: u64 = 2;
/// Bytes for each page with pending changes, in a table that has just doubled; the two halves of
/// the journal have one each.
const PENDING_PAGE_BYTES: u64 = 2 * 40;
/// Bytes of an item in the journal.
const ITEM_BYTES: u64 = 24;
/// Bytes of tables for each MiB of a read cache. A test of the read cache keeps it.
const CACHE_LINE_BYTES: u64 = 1536;
/// Bytes that a hybrid group reads ahead at most.
const AHEAD_BYTES: u64 = 8 << 20;
/// Blocks of direct writes on their way to capacity, 16 MiB: enough for sixteen of the largest,
/// which is more than a device needs to be busy. Others wait, with the memory of who appended them.
pub(crate) const DIRECT_BLOCKS_MAX: u64 = 4096;

const _: () = assert!(DIRECT_BLOCKS_MAX >= CHUNK_BLOCKS, "the largest direct write has room");

/// Bytes of memory of a disk group beside checksum pages, by what they are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryParts {
    /// Of its write buffer: index, counts by chunk, staged chunks, history.
    pub buffers: u64,
    /// Chunk maps, and changes of checksums that are pending.
    pub maps: u64,
    /// Tables of its read cache.
    pub caches: u64,
    /// Direct writes, segments and pages on their way to capacity, pieces on their way into the
    /// read cache.
    pub under_way: u64,
}

impl MemoryParts {
    /// All of them.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.buffers + self.maps + self.caches + self.under_way
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            buffers: self.buffers + other.buffers,
            maps: self.maps + other.maps,
            caches: self.caches + other.caches,
            under_way: self.under_way + other.under_way,
        }
    }

    /// What a group of these layouts takes at most, when all of it is full.
    ///
    /// Four loads take more. Blocks of which the log holds parts have a side record of up to 250
    /// bytes; destage folds them. A component with one chunk in each 64 MiB takes 270 bytes for it
    /// where a dense one takes 4. Discards of chunks that have no data take
    /// 49 bytes each, until their segments are free. So do, with 16 bytes each, parts of direct
    /// writes that are moved because they are above K and something newer covers the rest.
    pub(crate) fn needed(
        cache: &CacheLayout,
        read_cache: Option<&ReadCacheLayout>,
        capacity: &[CapacityLayout],
        options: &GroupOptions,
    ) -> Self {
        let blocks = log_blocks(cache);
        let chunks: u64 = capacity.iter().map(|layout| u64::from(layout.chunks)).sum();
        let history = blocks.min(options.limits.history_blocks) * HISTORY_BLOCK_BYTES;
        let counts = table_bytes(blocks.min(chunks), COUNT_BYTES);
        let staged = match read_cache {
            None => staged_max(cache, &options.limits).min(chunks),
            Some(_) => 0,
        };
        let segments = match read_cache {
            None => 2,
            Some(_) => widened(options.limits.sweep_segments).max(2),
        };
        let fills = widened(options.limits.fills) * CHUNK_SIZE + AHEAD_BYTES;
        // Blocks of direct writes that destage copies are read with gaps of as many bytes again,
        // and what is left of an old chunk comes to them.
        let copies = cache.segment_size + CHUNK_SIZE;
        let direct = if staged > 0 { DIRECT_BLOCKS_MAX * BLOCK_SIZE + copies } else { 0 };
        let fills = read_cache.map_or(0, |_| fills);
        let group = Self {
            buffers: table_bytes(blocks, INDEX_BYTES) + counts + staged_bytes(staged) + history,
            maps: 0,
            caches: read_cache.map_or(0, |layout| u64::from(layout.lines) * CACHE_LINE_BYTES),
            under_way: segments * cache.segment_size + fills + direct,
        };
        let devices = capacity.iter().map(|layout| Self::needed_by_device(layout, options));
        devices.fold(group, Self::plus)
    }

    /// What one more capacity device adds to it.
    pub(crate) fn needed_by_device(layout: &CapacityLayout, options: &GroupOptions) -> Self {
        let chunks = u64::from(layout.chunks);
        let pages = chunks.div_ceil(widened(CRC_PAGE_CHUNKS));
        let pending = pages.min(layout.half_size() / ITEM_BYTES);
        let band = pages.min(widened(options.limits.band_pages));
        Self {
            maps: chunks * CHUNK_BYTES
                + layout.journal_size / PENDING_PART
                + pending * PENDING_PAGE_BYTES,
            under_way: 2 * band * widened(PAGE_SIZE),
            ..Self::default()
        }
    }
}

/// Bytes of an entry of the log's index, and of its counts by chunk, with their keys. Tests of the
/// log compare them with what is there.
pub(crate) const INDEX_BYTES: u64 = 24;
pub(crate) const COUNT_BYTES: u64 = 48;

/// Bytes of the record of a staged chunk, with its key. A test compares it with what is there.
pub(crate) const STAGED_BYTES: u64 = 72;
/// Bytes of the name of a staged chunk in a segment's list, which doubles when it grows.
pub(crate) const STAGED_NAME_BYTES: u64 = 16;

/// Staged chunks that may be known at once: as many as the log can record smallest direct writes
/// (rounded down). Where there are so many, large writes go through the log. There would be more if
/// only small parts of many direct writes stayed in the log.
pub(crate) fn staged_max(layout: &CacheLayout, limits: &GroupLimits) -> u64 {
    match limits.direct_blocks {
        least @ 1..=CHUNK_BLOCKS => log_blocks(layout) / least,
        _ => 0,
    }
}

/// Bytes of so many staged chunks. There are as many entries of direct writes as that at most, as
/// long as no parts of them are moved, so as many names in the lists of segments.
fn staged_bytes(staged: u64) -> u64 {
    if staged == 0 { 0 } else { table_bytes(staged, STAGED_BYTES) + staged * STAGED_NAME_BYTES }
}

/// Blocks that the log of this layout has, as its index counts them.
pub(crate) fn log_blocks(layout: &CacheLayout) -> u64 {
    let blocks = layout.segment_size * u64::from(layout.segments) / BLOCK_SIZE;
    blocks.max(INDEX_MIN)
}

/// Places of the smallest index. Zeros have entries but no payload: room for them even in tiny
/// buffers.
const INDEX_MIN: u64 = 4096;

/// Bytes of a hash table of so many entries: an eighth of it stays free, its size is a power of
/// two, and each place has a byte beside it.
pub(crate) fn table_bytes(entries: u64, entry_bytes: u64) -> u64 {
    let places = (entries * 8).div_ceil(7).next_power_of_two().max(4);
    places * (entry_bytes + 1) + 64
}

pub(crate) fn widened(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// The budgets of a host's disk groups, and who has how much of them. Cheap to clone.
#[derive(Clone)]
pub struct StoreMemory(Rc<Budgets>);

struct Budgets {
    checksum_pages: usize,
    tables: u64,
    /// Those of open groups.
    places: RefCell<Vec<Weak<MemoryPlace>>>,
    held_pages: Cell<usize>,
    most_pages: Cell<usize>,
}

impl StoreMemory {
    /// So many bytes of checksum pages, of all capacity devices together, and so many of tables.
    #[must_use]
    pub fn new(checksum_bytes: u64, table_bytes: u64) -> Self {
        let pages = checksum_bytes / widened(PAGE_SIZE);
        Self(Rc::new(Budgets {
            checksum_pages: usize::try_from(pages).unwrap_or(usize::MAX),
            tables: table_bytes,
            places: RefCell::default(),
            held_pages: Cell::default(),
            most_pages: Cell::default(),
        }))
    }

    /// Bytes of checksum pages in memory: the budget, now, and the most so far.
    #[must_use]
    pub fn checksums(&self) -> (u64, u64, u64) {
        let bytes = |pages: usize| widened(pages) * widened(PAGE_SIZE);
        let Budgets { checksum_pages, held_pages, most_pages, .. } = &*self.0;
        (bytes(*checksum_pages), bytes(held_pages.get()), bytes(most_pages.get()))
    }

    /// Bytes for all tables.
    #[must_use]
    pub fn table_bytes(&self) -> u64 {
        self.0.tables
    }

    /// What the open groups need of it.
    #[must_use]
    pub fn needed(&self) -> MemoryParts {
        let places = self.0.living();
        places.iter().map(|place| place.needed).fold(MemoryParts::default(), MemoryParts::plus)
    }

    /// Refuses a group for whose tables there is no room.
    pub(crate) fn check(&self, device: &str, needed: u64) -> Result<(), GroupError> {
        let left = self.0.tables.saturating_sub(self.needed().sum());
        if needed > left {
            base::hit(base::Probe::TablesRefused);
            let (device, budget) = (device.to_owned(), self.0.tables);
            return Err(GroupError::NoMemory { device, needed, left, budget });
        }
        Ok(())
    }

    /// A place for a group whose capacity devices have so many chunks each. It ends when it is
    /// dropped. The others have less from now on.
    pub(crate) fn admit(
        &self,
        device: &str,
        needed: MemoryParts,
        chunks: impl Iterator<Item = u32>,
    ) -> Result<Rc<MemoryPlace>, GroupError> {
        self.check(device, needed.sum())?;
        let share = |chunks| Share { chunks, limit: Cell::new(1), held: Cell::new(0) };
        let place = Rc::new(MemoryPlace {
            budgets: Rc::clone(&self.0),
            needed,
            shares: chunks.map(share).collect(),
            give_up: RefCell::default(),
        });
        self.0.places.borrow_mut().push(Rc::downgrade(&place));
        for place in self.0.share_out() {
            if let Some(give_up) = &*place.give_up.borrow() {
                give_up();
            }
        }
        Ok(place)
    }
}

impl Budgets {
    fn living(&self) -> Vec<Rc<MemoryPlace>> {
        self.places.borrow().iter().filter_map(Weak::upgrade).collect()
    }

    /// Deals the shares anew; the places that have some.
    fn share_out(&self) -> Vec<Rc<MemoryPlace>> {
        self.places.borrow_mut().retain(|place| place.strong_count() > 0);
        let living = self.living();
        let shares = || living.iter().flat_map(|place| &place.shares);
        let (count, chunks): (usize, u128) = (
            shares().filter(|share| share.chunks > 0).count(),
            shares().map(|share| u128::from(share.chunks)).sum(),
        );
        let floor = FLOOR_PAGES.min(self.checksum_pages / count.max(1));
        let rest = u128::from(widened(self.checksum_pages - floor * count));
        let mut dealt = 0;
        for share in shares().filter(|share| share.chunks > 0) {
            let part = rest * u128::from(share.chunks) / chunks.max(1);
            let limit = floor + usize::try_from(part).unwrap_or(usize::MAX);
            dealt += limit;
            // A page that is read must be somewhere, also where a test has fewer than devices.
            share.limit.set(limit.max(1));
        }
        assert!(dealt <= self.checksum_pages, "shares of {dealt} pages, more than there are");
        living
    }
}

/// What one open group has of the budgets.
pub(crate) struct MemoryPlace {
    budgets: Rc<Budgets>,
    pub(crate) needed: MemoryParts,
    /// One per capacity device.
    shares: Vec<Share>,
    /// Makes the group give up what it has above its shares.
    give_up: RefCell<Option<Box<dyn Fn()>>>,
}

struct Share {
    /// Of its device; 0 where that is out of its group.
    chunks: u32,
    /// Checksum pages that it may hold.
    limit: Cell<usize>,
    held: Cell<usize>,
}

impl MemoryPlace {
    /// Checksum pages that a device may hold.
    pub(crate) fn page_limit(&self, device: usize) -> usize {
        self.shares[device].limit.get()
    }

    /// A device holds so many now.
    pub(crate) fn holds(&self, device: usize, pages: usize) {
        let Budgets { held_pages, most_pages, .. } = &*self.budgets;
        let before = self.shares[device].held.replace(pages);
        held_pages.set(held_pages.get() + pages - before);
        most_pages.set(most_pages.get().max(held_pages.get()));
    }

    /// What to do where a share became smaller.
    pub(crate) fn on_less(&self, give_up: impl Fn() + 'static) {
        give_up();
        *self.give_up.borrow_mut() = Some(Box::new(give_up));
    }
}

impl Drop for MemoryPlace {
    fn drop(&mut self) {
        for device in 0..self.shares.len() {
            self.holds(device, 0);
        }
        // It is not among the living any more: the others have more.
        drop(self.budgets.share_out());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    fn place(memory: &StoreMemory, needed: u64, chunks: &[u32]) -> Option<Rc<MemoryPlace>> {
        let needed = MemoryParts { maps: needed, ..MemoryParts::default() };
        memory.admit("cache", needed, chunks.iter().copied()).ok()
    }

    fn limits(place: &MemoryPlace) -> Vec<usize> {
        (0..place.shares.len()).map(|device| place.page_limit(device)).collect()
    }

    #[test]
    fn pages_are_shared_by_capacity_above_a_floor() {
        let memory = StoreMemory::new(1032 * 4096, 0);
        let one = place(&memory, 0, &[300, 0, 700]).expect("it needs nothing");
        assert_eq!(limits(&one), [16 + 300, 1, 16 + 700], "a device that is out has none");
        let other = place(&memory, 0, &[1000]).expect("it needs nothing");
        assert_eq!(limits(&one), [16 + 147, 1, 16 + 344]);
        assert_eq!(limits(&other), [16 + 492]);
        drop(one);
        assert_eq!(limits(&other), [1032]);
    }

    #[test]
    fn whoever_comes_makes_the_others_give_up_what_is_not_theirs_any_more() {
        let memory = StoreMemory::new(100 * 4096, 0);
        let one = place(&memory, 0, &[10]).expect("it needs nothing");
        one.holds(0, 100);
        let weak = Rc::downgrade(&one);
        one.on_less(move || {
            let Some(place) = weak.upgrade() else { return };
            place.holds(0, place.page_limit(0));
        });
        let other = place(&memory, 0, &[10]).expect("it needs nothing");
        assert_eq!(memory.checksums(), (100 * 4096, 50 * 4096, 100 * 4096));
        other.holds(0, 50);
        drop(one);
        assert_eq!(memory.checksums().1, 50 * 4096);
        assert_eq!(limits(&other), [100]);
    }

    #[test]
    fn tables_that_are_not_left_are_refused_until_somebody_goes() {
        let memory = StoreMemory::new(0, 100);
        let one = place(&memory, 60, &[1]).expect("60 of 100");
        assert!(place(&memory, 41, &[1]).is_none());
        let other = place(&memory, 40, &[1]).expect("the rest");
        let error = memory.check("/dev/c", 1).expect_err("none is left");
        let GroupError::NoMemory { needed: 1, left: 0, budget: 100, .. } = error else {
            panic!("{error}")
        };
        drop(one);
        assert!(place(&memory, 61, &[1]).is_none());
        assert!(place(&memory, 60, &[1]).is_some());
        drop(other);
        assert_eq!(memory.needed(), MemoryParts::default());
    }

    /// Whatever comes and goes: the shares are never more than there is, and nobody has none.
    #[test]
    fn shares_are_never_more_than_there_is() {
        let mut rng = Rng::stream(1, 7);
        for _ in 0..200 {
            let pages = 112 + rng.below(5000);
            let memory = StoreMemory::new(pages * 4096, 0);
            let mut places = Vec::new();
            for _ in 0..40 {
                if rng.below(3) == 0 && !places.is_empty() {
                    places.swap_remove(rng.below(places.len() as u64) as usize);
                } else if places.len() < 16 {
                    let devices = (0..rng.between(1, 7)).map(|_| 1 << rng.below(31));
                    let chunks: Vec<u32> = devices.collect();
                    places.push(place(&memory, 0, &chunks).expect("it needs nothing"));
                }
                let all: Vec<usize> = places.iter().flat_map(|place| limits(place)).collect();
                assert!(all.iter().sum::<usize>() as u64 <= pages, "{all:?} of {pages}");
                assert!(all.iter().all(|limit| *limit > 0));
            }
        }
    }

    #[test]
    fn a_table_takes_what_is_said_of_it() {
        for entries in [1, 3, 4096, 100_000, 262_144] {
            let table: base::FixedMap<[u64; 2]> =
                base::FixedMap::with_capacity_and_hasher(entries, Default::default());
            let said = table_bytes(widened(entries), INDEX_BYTES);
            let took = widened(table.allocation_size());
            assert!(took <= said && said <= took + 512, "{entries}: {took}, {said} were said");
        }
    }
}
