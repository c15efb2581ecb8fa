// SPDX-License-Identifier: Apache-2.0
//! The first page of a device: what it is, to which group it belongs, how it is laid out.
//!
//! Two slots at fixed places; the valid one with the higher sequence counts, so that a torn update
//! leaves the older.

use crate::bytes::{RawTag, blank, counter, fits, layout, prefix, prefix_mut, seal, unseal};
use crate::readcache::RawReadCache;
use crate::{FormatError, PAGE_SIZE, ReadCacheLayout};
use base::{GroupId, Incarnation};
use std::mem::offset_of;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Where the two slots stand, bytes from the device's start.
pub const SUPERBLOCK_SLOTS: [u64; 2] = [0, 64 << 10];
/// Capacity devices of one group: what the cache device's superblock has room to name.
pub const CAPACITY_DEVICES_MAX: usize = 16;
/// Nothing else stands before it: a layout that overlaps the slots would overwrite them.
const LABELS_END: u64 = SUPERBLOCK_SLOTS[1] + PAGE_SIZE as u64;
/// The ring keeps three segments free and needs some to write.
pub(crate) const SEGMENTS_MIN: u32 = 6;
const MAGIC: [u8; 4] = *b"GBSB";
// Kinds, as they stand in the superblock. A build that does not know one refuses the device.
const CACHE: u16 = 1;
const CAPACITY: u16 = 2;
const HYBRID_CACHE: u16 = 3;
// As 1 and 3, and capacity devices were given up: a build that would take such a device back as if
// nothing had been lost does not know these kinds.
const CACHE_WITHOUT: u16 = 4;
const HYBRID_CACHE_WITHOUT: u16 = 5;
// As 3 and 5, and the read cache is of slots. A build whose lines are of one chunk each would
// believe headers of its own that are left: it must not open such a device any more. They are told
// apart by their headers alone, so what was 3 or 5 is 6 or 7 when it is written next.
const SLOT_CACHE: u16 = 6;
const SLOT_CACHE_WITHOUT: u16 = 7;
// As 1 and 4, and the log may have entries of direct writes. A build that does not know them would
// take such an entry for the end of the log: it must not open the group.
const DIRECT_CACHE: u16 = 8;
const DIRECT_CACHE_WITHOUT: u16 = 9;
// As 2, and the journal is in two halves. A build that knows one area alone would take the first
// half for the whole of it.
const HALVED_CAPACITY: u16 = 10;

/// Where things are on a cache device, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLayout {
    /// First byte of segment 0.
    pub start: u64,
    /// Bytes of a segment, its summary included.
    pub segment_size: u64,
    /// Bytes at the end of each segment that hold its summary.
    pub summary_size: u64,
    /// Number of segments.
    pub segments: u32,
}

/// Where things are on a capacity device, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityLayout {
    /// First byte of the component table: two pages per row.
    pub table_start: u64,
    /// Rows of the table.
    pub rows: u32,
    /// First byte of the journal.
    pub journal_start: u64,
    /// Bytes of the journal.
    pub journal_size: u64,
    /// The first record that stands in a half of the journal; 0: none does yet, for a build of
    /// before wrote the journal as one area.
    pub halves_from: u64,
    /// First byte of the chunk map: two slots per page.
    pub map_start: u64,
    /// First byte of the CRC pages: two slots per page.
    pub crc_start: u64,
    /// First byte of chunk 0.
    pub chunk_start: u64,
    /// Number of chunks.
    pub chunks: u32,
}

/// What kind of device it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// Holds the log, and perhaps a read cache. `capacity` names the capacity devices of the
    /// group, in order.
    Cache {
        /// Layout of the log.
        layout: CacheLayout,
        /// That of the read cache, in a hybrid group.
        read_cache: Option<ReadCacheLayout>,
        /// Device ids of the capacity devices; unused places are zero.
        capacity: [u64; CAPACITY_DEVICES_MAX],
        /// How many there are.
        count: u32,
        /// One bit per capacity device, by its place: it was out of the group when entries of the
        /// log that it needs were dropped. Its components lack them when it is back.
        given_up: u16,
        /// The log may have entries of direct writes; never in a hybrid group.
        has_direct: bool,
    },
    /// Holds components.
    Capacity(CapacityLayout),
}

/// One slot's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Random, given at format: a structure of another format is never taken for ours.
    pub device: u64,
    /// The group.
    pub group: GroupId,
    /// Which of the two slots is newer.
    pub sequence: u64,
    /// Cache device: counts openings (store rule 1).
    pub incarnation: Incarnation,
    /// Bytes of the device that are in use; the device may be larger.
    pub size: u64,
    /// Kind and layout.
    pub kind: DeviceKind,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSuperblock {
    tag: RawTag,
    device: U64,
    group: U64,
    sequence: U64,
    incarnation: U64,
    size: U64,
    /// By kind a [`RawCacheLayout`] or a [`RawCapacityLayout`], and zeros.
    layout: [u8; 4044],
    crc: U32,
}

layout!(RawSuperblock, 4096:
    tag 0, device 8, group 16, sequence 24, incarnation 32, size 40, layout 48, crc 4092);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawCacheLayout {
    start: U64,
    segment_size: U64,
    summary_size: U64,
    segments: U32,
    count: U32,
    capacity: [U64; CAPACITY_DEVICES_MAX],
    /// Zeros where the kind says that there is none.
    read_cache: RawReadCache,
    given_up: U16,
}

const _: () = {
    const AT: usize = offset_of!(RawSuperblock, layout);
    assert!(AT + offset_of!(RawCacheLayout, segments) == 72);
    assert!(AT + offset_of!(RawCacheLayout, capacity) == 80);
    assert!(AT + offset_of!(RawCacheLayout, read_cache) == 208);
    assert!(AT + offset_of!(RawCacheLayout, given_up) == 232);
    assert!(AT + size_of::<RawCacheLayout>() == 234);
};

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawCapacityLayout {
    table_start: U64,
    journal_start: U64,
    journal_size: U64,
    map_start: U64,
    crc_start: U64,
    chunk_start: U64,
    rows: U32,
    chunks: U32,
    /// Zero where the kind says that there are no halves.
    halves_from: U64,
}

layout!(RawCapacityLayout, 64:
    table_start 0, journal_start 8, journal_size 16, map_start 24, crc_start 32, chunk_start 40,
    rows 48, chunks 52, halves_from 56);

impl DeviceKind {
    /// The same, of a cache device whose log may have entries of direct writes.
    #[must_use]
    pub fn with_direct(mut self) -> Self {
        if let Self::Cache { read_cache: None, has_direct, .. } = &mut self {
            *has_direct = true;
        }
        self
    }

    /// The number of the kind that is written.
    fn number(&self) -> u16 {
        match self {
            Self::Capacity(CapacityLayout { halves_from: 0, .. }) => CAPACITY,
            Self::Capacity(_) => HALVED_CAPACITY,
            Self::Cache { read_cache: None, given_up, has_direct, .. } => {
                match (*given_up == 0, *has_direct) {
                    (true, false) => CACHE,
                    (false, false) => CACHE_WITHOUT,
                    (true, true) => DIRECT_CACHE,
                    (false, true) => DIRECT_CACHE_WITHOUT,
                }
            }
            Self::Cache { read_cache: Some(_), given_up: 0, .. } => SLOT_CACHE,
            Self::Cache { read_cache: Some(_), .. } => SLOT_CACHE_WITHOUT,
        }
    }
}

impl Superblock {
    /// Fills one page.
    pub fn encode(&self, page: &mut [u8]) {
        let raw: &mut RawSuperblock = blank(page);
        raw.tag = RawTag::new(MAGIC, self.kind.number());
        raw.device = self.device.into();
        raw.group = self.group.0.into();
        raw.sequence = self.sequence.into();
        raw.incarnation = self.incarnation.0.into();
        raw.size = self.size.into();
        match &self.kind {
            DeviceKind::Cache { layout, read_cache, capacity, count, given_up, .. } => {
                *prefix_mut(&mut raw.layout).0 = RawCacheLayout {
                    start: layout.start.into(),
                    segment_size: layout.segment_size.into(),
                    summary_size: layout.summary_size.into(),
                    segments: layout.segments.into(),
                    count: (*count).into(),
                    capacity: capacity.map(U64::new),
                    read_cache: read_cache
                        .as_ref()
                        .map_or_else(RawReadCache::new_zeroed, RawReadCache::from),
                    given_up: (*given_up).into(),
                };
            }
            DeviceKind::Capacity(layout) => {
                *prefix_mut(&mut raw.layout).0 = RawCapacityLayout {
                    table_start: layout.table_start.into(),
                    journal_start: layout.journal_start.into(),
                    journal_size: layout.journal_size.into(),
                    map_start: layout.map_start.into(),
                    crc_start: layout.crc_start.into(),
                    chunk_start: layout.chunk_start.into(),
                    rows: layout.rows.into(),
                    chunks: layout.chunks.into(),
                    halves_from: layout.halves_from.into(),
                };
            }
        }
        seal(page);
    }

    /// Reads one page.
    ///
    /// # Errors
    /// [`FormatError`]: [`FormatError::Magic`] where nothing of ours stands.
    pub fn decode(page: &[u8]) -> Result<Self, FormatError> {
        let raw: &RawSuperblock = unseal(page, MAGIC)?;
        let sequence = counter(raw.sequence, "sequence")?;
        let incarnation = Incarnation(counter(raw.incarnation, "incarnation")?);
        let size = raw.size.get();
        let cache = prefix::<RawCacheLayout>(&raw.layout)?.0;
        let kind = match raw.tag.kind.get() {
            CACHE => cache.decode(size, (false, false))?,
            CACHE_WITHOUT => cache.decode(size, (false, true))?,
            DIRECT_CACHE => cache.decode(size, (false, false))?.with_direct(),
            DIRECT_CACHE_WITHOUT => cache.decode(size, (false, true))?.with_direct(),
            HYBRID_CACHE | SLOT_CACHE => cache.decode(size, (true, false))?,
            HYBRID_CACHE_WITHOUT | SLOT_CACHE_WITHOUT => cache.decode(size, (true, true))?,
            kind @ (CAPACITY | HALVED_CAPACITY) => {
                let (layout, _) = prefix::<RawCapacityLayout>(&raw.layout)?;
                DeviceKind::Capacity(layout.decode(size, kind == HALVED_CAPACITY)?)
            }
            _ => return Err(FormatError::Field { name: "kind" }),
        };
        let (device, group) = (raw.device.get(), GroupId(raw.group.get()));
        Ok(Self { device, group, sequence, incarnation, size, kind })
    }

    /// Whether a page is a superblock whose kind a build without slots knows: such a build would
    /// open the group by it.
    #[must_use]
    pub fn is_before_slots(page: &[u8]) -> bool {
        let kind = prefix::<RawTag>(page).map(|(tag, _)| tag.kind.get());
        let is_older = matches!(kind, Ok(HYBRID_CACHE | HYBRID_CACHE_WITHOUT));
        is_older && Self::decode(page).is_ok()
    }

    /// Whether a page is a superblock by which a build that knows no halves of a journal would open
    /// a capacity device.
    #[must_use]
    pub fn is_before_halves(page: &[u8]) -> bool {
        let found = Self::decode(page).map(|found| found.kind);
        matches!(found, Ok(DeviceKind::Capacity(CapacityLayout { halves_from: 0, .. })))
    }

    /// Whether a page is a superblock by which a build that knows no direct writes would open the
    /// group.
    #[must_use]
    pub fn is_before_direct(page: &[u8]) -> bool {
        let kind = prefix::<RawTag>(page).map(|(tag, _)| tag.kind.get());
        matches!(kind, Ok(CACHE | CACHE_WITHOUT)) && Self::decode(page).is_ok()
    }
}

impl RawCacheLayout {
    /// What it says of a device of `size` bytes, by whose kind there is a read cache and devices
    /// are given up, or not.
    fn decode(
        &self,
        size: u64,
        (is_hybrid, is_without): (bool, bool),
    ) -> Result<DeviceKind, FormatError> {
        let layout = CacheLayout {
            start: self.start.get(),
            segment_size: self.segment_size.get(),
            summary_size: self.summary_size.get(),
            segments: self.segments.get(),
        };
        if !layout.is_sound(size) {
            return Err(FormatError::Field { name: "cache layout" });
        }
        let count = self.count.get();
        if count == 0 || count > CAPACITY_DEVICES_MAX as u32 {
            return Err(FormatError::Field { name: "capacity devices" });
        }
        let read_cache = match is_hybrid {
            true => Some(self.read_cache.decode(&layout, size)?),
            false => None,
        };
        let given_up = match is_without {
            true => self.decode_given_up(count)?,
            false => 0,
        };
        let capacity = self.capacity.map(U64::get);
        let has_direct = false; // the caller knows by the kind
        Ok(DeviceKind::Cache { layout, read_cache, capacity, count, given_up, has_direct })
    }

    /// Some of the group's devices, and not all: one at least was in it when this was written.
    fn decode_given_up(&self, count: u32) -> Result<u16, FormatError> {
        let given_up = self.given_up.get();
        let all = u16::try_from((1_u32 << count) - 1).unwrap_or(u16::MAX);
        match given_up != 0 && given_up & !all == 0 && given_up != all {
            true => Ok(given_up),
            false => Err(FormatError::Field { name: "given up devices" }),
        }
    }
}

impl RawCapacityLayout {
    fn decode(&self, size: u64, is_halved: bool) -> Result<CapacityLayout, FormatError> {
        let halves_from = match is_halved {
            true => counter(self.halves_from, "first record in halves")?,
            false => 0,
        };
        let layout = CapacityLayout {
            table_start: self.table_start.get(),
            rows: self.rows.get(),
            journal_start: self.journal_start.get(),
            journal_size: self.journal_size.get(),
            map_start: self.map_start.get(),
            crc_start: self.crc_start.get(),
            chunk_start: self.chunk_start.get(),
            chunks: self.chunks.get(),
            halves_from,
        };
        match layout.is_sound(size) && (halves_from > 0) == is_halved {
            true => Ok(layout),
            false => Err(FormatError::Field { name: "capacity layout" }),
        }
    }
}

/// Positions in the log are 30 bits of sectors: all segments together have 512 GiB at most.
const POSITIONS_MAX: u64 = 1 << 39;

impl CacheLayout {
    /// The layout of a device of `size` bytes; `None` where not even 6 segments fit.
    #[must_use]
    pub fn plan(size: u64, segment_size: u64) -> Option<Self> {
        let start = 1 << 20;
        let page = PAGE_BYTES;
        let summary_size = (segment_size * 3 / 256).next_multiple_of(page).max(page);
        let usable = size.min(POSITIONS_MAX).checked_sub(start)?;
        let segments = u32::try_from(usable / segment_size).ok()?;
        (segments >= SEGMENTS_MIN).then_some(Self { start, segment_size, summary_size, segments })
    }

    /// Whether everything is where it may be on a device of `size` bytes.
    fn is_sound(&self, size: u64) -> bool {
        let page = PAGE_BYTES;
        let Self { start, segment_size, summary_size, segments } = *self;
        let usable = segment_size.checked_sub(summary_size);
        [start, segment_size, summary_size].iter().all(|n| n.is_multiple_of(page))
            && start >= LABELS_END
            && summary_size >= page
            && usable.is_some_and(|usable| usable > 2 * page)
            && segment_size <= 64 << 20
            && segments >= SEGMENTS_MIN
            && fits(0, segment_size, u64::from(segments), POSITIONS_MAX)
            && fits(start, segment_size, u64::from(segments), size)
    }

    /// The first byte behind the last segment.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.start + self.segment_size * u64::from(self.segments)
    }
}

impl CapacityLayout {
    /// The layout of a device of `size` bytes; `None` where not one chunk fits.
    #[must_use]
    pub fn plan(size: u64) -> Option<Self> {
        let page = PAGE_BYTES;
        let rows: u32 = if size >= 4 << 30 { 1024 } else { 128 };
        let table_start = 1 << 20;
        let journal_start = table_start + u64::from(rows) * 2 * page;
        let journal_size = (size / 64).clamp(1 << 20, 64 << 20).next_multiple_of(1 << 20);
        let map_start = journal_start + journal_size;
        let rest = size.checked_sub(map_start)?;
        let mut chunks = u32::try_from(rest / base::CHUNK_SIZE).ok()?;
        loop {
            let pages = u64::from(chunks.div_ceil(MAP)) + u64::from(chunks.div_ceil(CRC));
            let start = (map_start + pages * 2 * page).next_multiple_of(base::CHUNK_SIZE);
            let wanted = start + u64::from(chunks) * base::CHUNK_SIZE;
            if chunks == 0 {
                return None;
            }
            if wanted <= size {
                let crc_start = map_start + u64::from(chunks.div_ceil(MAP)) * 2 * page;
                return Some(Self {
                    table_start,
                    rows,
                    journal_start,
                    journal_size,
                    map_start,
                    crc_start,
                    chunk_start: start,
                    chunks,
                    halves_from: 1,
                });
            }
            let excess = (wanted - size).div_ceil(base::CHUNK_SIZE);
            chunks = chunks.saturating_sub(u32::try_from(excess).ok()?);
        }
    }

    /// Whether everything is where it may be on a device of `size` bytes.
    fn is_sound(&self, size: u64) -> bool {
        let page = PAGE_BYTES;
        let starts = [
            self.table_start,
            self.journal_start,
            self.journal_size,
            self.map_start,
            self.crc_start,
            self.chunk_start,
        ];
        starts.iter().all(|n| n.is_multiple_of(page))
            && self.table_start >= LABELS_END
            && self.rows > 0
            && self.chunks > 0
            && self.journal_size >= 64 * page
            && fits(self.table_start, 2 * page, u64::from(self.rows), self.journal_start)
            && fits(self.journal_start, self.journal_size, 1, self.map_start)
            && fits(self.map_start, 2 * page, self.map_pages(), self.crc_start)
            && fits(self.crc_start, 2 * page, self.crc_pages(), self.chunk_start)
            && fits(self.chunk_start, base::CHUNK_SIZE, u64::from(self.chunks), size)
    }

    /// Bytes of one half of the journal, whole pages.
    #[must_use]
    pub fn half_size(&self) -> u64 {
        let pages = self.journal_size / PAGE_BYTES / 2;
        pages * PAGE_BYTES
    }

    /// The areas of the journal, start and bytes: two halves, or all of it.
    #[must_use]
    pub fn journal_areas(&self) -> Vec<(u64, u64)> {
        let (start, half) = (self.journal_start, self.half_size());
        match self.halves_from {
            0 => vec![(start, self.journal_size)],
            _ => vec![(start, half), (start + half, half)],
        }
    }

    /// Pages of the chunk map.
    #[must_use]
    pub fn map_pages(&self) -> u64 {
        u64::from(self.chunks.div_ceil(MAP))
    }

    /// CRC pages.
    #[must_use]
    pub fn crc_pages(&self) -> u64 {
        u64::from(self.chunks.div_ceil(CRC))
    }
}

const PAGE_BYTES: u64 = PAGE_SIZE as u64;
const MAP: u32 = crate::MAP_PAGE_CHUNKS as u32;
const CRC: u32 = crate::CRC_PAGE_CHUNKS as u32;

#[cfg(test)]
mod tests;
