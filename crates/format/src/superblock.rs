// SPDX-License-Identifier: Apache-2.0
//! The first page of a device: what it is, to which group it belongs, how it is laid out.
//!
//! Two slots at fixed places; the valid one with the higher sequence counts, so that a torn update
//! leaves the older.

use crate::bytes::{Reader, Writer, seal, unseal};
use crate::{FormatError, PAGE_SIZE, ReadCacheLayout};
use base::{GroupId, Incarnation};

/// Where the two slots stand, bytes from the device's start.
pub const SUPERBLOCK_SLOTS: [u64; 2] = [0, 64 << 10];
/// Capacity devices of one group: what the cache device's superblock has room to name.
pub const CAPACITY_DEVICES_MAX: usize = 16;
/// Nothing else stands before it: a layout that overlaps the slots would overwrite them.
const LABELS_END: u64 = SUPERBLOCK_SLOTS[1] + PAGE_SIZE as u64;
/// The ring keeps three segments free and needs some to write.
pub(crate) const SEGMENTS_MIN: u32 = 6;
const MAGIC: u32 = u32::from_le_bytes(*b"GBSB");
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

impl Superblock {
    /// Fills one page.
    pub fn encode(&self, page: &mut [u8]) {
        assert!(page.len() == PAGE_SIZE, "a superblock is a page");
        let mut out = Writer::new(page);
        out.u32(MAGIC);
        out.u16(crate::FORMAT_VERSION);
        out.u16(match self.kind {
            DeviceKind::Capacity(_) => CAPACITY,
            DeviceKind::Cache { read_cache: None, given_up: 0, .. } => CACHE,
            DeviceKind::Cache { read_cache: None, .. } => CACHE_WITHOUT,
            DeviceKind::Cache { read_cache: Some(_), given_up: 0, .. } => SLOT_CACHE,
            DeviceKind::Cache { read_cache: Some(_), .. } => SLOT_CACHE_WITHOUT,
        });
        out.u64(self.device);
        out.u64(self.group.0);
        out.u64(self.sequence);
        out.u64(self.incarnation.0);
        out.u64(self.size);
        match &self.kind {
            DeviceKind::Cache { layout, read_cache, capacity, count, given_up } => {
                out.u64(layout.start);
                out.u64(layout.segment_size);
                out.u64(layout.summary_size);
                out.u32(layout.segments);
                out.u32(*count);
                capacity.iter().for_each(|id| out.u64(*id));
                match read_cache {
                    Some(read_cache) => read_cache.encode(&mut out),
                    None => out.bytes(&[0; ReadCacheLayout::SIZE]),
                }
                out.u16(*given_up);
            }
            DeviceKind::Capacity(layout) => {
                out.u64(layout.table_start);
                out.u64(layout.journal_start);
                out.u64(layout.journal_size);
                out.u64(layout.map_start);
                out.u64(layout.crc_start);
                out.u64(layout.chunk_start);
                out.u32(layout.rows);
                out.u32(layout.chunks);
            }
        }
        out.pad();
        seal(page);
    }

    /// Reads one page.
    ///
    /// # Errors
    /// [`FormatError`]: [`FormatError::Magic`] where nothing of ours stands.
    pub fn decode(page: &[u8]) -> Result<Self, FormatError> {
        let mut head = Reader::new(page);
        head.magic(MAGIC)?;
        let mut from = Reader::new(unseal(page)?);
        from.magic(MAGIC)?;
        let kind = from.u16()?;
        let device = from.u64()?;
        let group = GroupId(from.u64()?);
        let sequence = from.counter("sequence")?;
        let incarnation = Incarnation(from.counter("incarnation")?);
        let size = from.u64()?;
        let kind = match kind {
            CACHE | CACHE_WITHOUT => {
                Self::decode_cache(&mut from, size, (false, kind == CACHE_WITHOUT))?
            }
            HYBRID_CACHE | SLOT_CACHE => Self::decode_cache(&mut from, size, (true, false))?,
            HYBRID_CACHE_WITHOUT | SLOT_CACHE_WITHOUT => {
                Self::decode_cache(&mut from, size, (true, true))?
            }
            CAPACITY => DeviceKind::Capacity(Self::decode_capacity(&mut from, size)?),
            _ => return Err(FormatError::Field { name: "kind" }),
        };
        Ok(Self { device, group, sequence, incarnation, size, kind })
    }

    /// Whether a page is a superblock whose kind a build without slots knows: such a build would
    /// open the group by it.
    #[must_use]
    pub fn is_before_slots(page: &[u8]) -> bool {
        let kind = page.get(6..8).map(|kind| u16::from_le_bytes([kind[0], kind[1]]));
        let is_older = matches!(kind, Some(HYBRID_CACHE | HYBRID_CACHE_WITHOUT));
        is_older && Self::decode(page).is_ok()
    }

    fn decode_cache(
        from: &mut Reader<'_>,
        size: u64,
        (is_hybrid, is_without): (bool, bool),
    ) -> Result<DeviceKind, FormatError> {
        let (start, segment_size, summary_size) = (from.u64()?, from.u64()?, from.u64()?);
        let (segments, count) = (from.u32()?, from.u32()?);
        let mut capacity = [0; CAPACITY_DEVICES_MAX];
        for id in &mut capacity {
            *id = from.u64()?;
        }
        let page = PAGE_SIZE as u64;
        let aligned = [start, segment_size, summary_size].iter().all(|n| n.is_multiple_of(page));
        let usable = segment_size.checked_sub(summary_size);
        let is_sound = aligned
            && start >= LABELS_END
            && summary_size >= page
            && usable.is_some_and(|usable| usable > 2 * page)
            && segment_size <= 64 << 20
            && segments >= SEGMENTS_MIN
            && fits(0, segment_size, u64::from(segments), POSITIONS_MAX)
            && fits(start, segment_size, u64::from(segments), size);
        if !is_sound {
            return Err(FormatError::Field { name: "cache layout" });
        }
        if count == 0 || count > CAPACITY_DEVICES_MAX as u32 {
            return Err(FormatError::Field { name: "capacity devices" });
        }
        let layout = CacheLayout { start, segment_size, summary_size, segments };
        let read_cache = match is_hybrid {
            true => Some(ReadCacheLayout::decode(from, &layout, size)?),
            false => None,
        };
        let given_up = match is_without {
            true => Self::decode_given_up(from, is_hybrid, count)?,
            false => 0,
        };
        Ok(DeviceKind::Cache { layout, read_cache, capacity, count, given_up })
    }

    /// Some of the group's devices, and not all: one at least was in it when this was written.
    fn decode_given_up(
        from: &mut Reader<'_>,
        is_hybrid: bool,
        count: u32,
    ) -> Result<u16, FormatError> {
        if !is_hybrid {
            from.bytes(ReadCacheLayout::SIZE)?;
        }
        let given_up = from.u16()?;
        let all = u16::try_from((1_u32 << count) - 1).unwrap_or(u16::MAX);
        match given_up != 0 && given_up & !all == 0 && given_up != all {
            true => Ok(given_up),
            false => Err(FormatError::Field { name: "given up devices" }),
        }
    }

    fn decode_capacity(from: &mut Reader<'_>, size: u64) -> Result<CapacityLayout, FormatError> {
        let layout = CapacityLayout {
            table_start: from.u64()?,
            journal_start: from.u64()?,
            journal_size: from.u64()?,
            map_start: from.u64()?,
            crc_start: from.u64()?,
            chunk_start: from.u64()?,
            rows: from.u32()?,
            chunks: from.u32()?,
        };
        let page = PAGE_SIZE as u64;
        let l = &layout;
        let starts = [
            l.table_start,
            l.journal_start,
            l.journal_size,
            l.map_start,
            l.crc_start,
            l.chunk_start,
        ];
        let is_sound = starts.iter().all(|n| n.is_multiple_of(page))
            && l.table_start >= LABELS_END
            && l.rows > 0
            && l.chunks > 0
            && l.journal_size >= 64 * page
            && fits(l.table_start, 2 * page, u64::from(l.rows), l.journal_start)
            && fits(l.journal_start, l.journal_size, 1, l.map_start)
            && fits(l.map_start, 2 * page, l.map_pages(), l.crc_start)
            && fits(l.crc_start, 2 * page, l.crc_pages(), l.chunk_start)
            && fits(l.chunk_start, base::CHUNK_SIZE, u64::from(l.chunks), size);
        match is_sound {
            true => Ok(layout),
            false => Err(FormatError::Field { name: "capacity layout" }),
        }
    }
}

/// Whether `count` pieces of `each` bytes from `start` end at or before `end`.
pub(crate) fn fits(start: u64, each: u64, count: u64, end: u64) -> bool {
    let length = each.checked_mul(count);
    length.and_then(|length| start.checked_add(length)).is_some_and(|behind| behind <= end)
}

/// Positions in the log are 30 bits of sectors: all segments together have 512 GiB at most.
const POSITIONS_MAX: u64 = 1 << 39;

impl CacheLayout {
    /// The layout of a device of `size` bytes; `None` where not even 6 segments fit.
    #[must_use]
    pub fn plan(size: u64, segment_size: u64) -> Option<Self> {
        let start = 1 << 20;
        let page = PAGE_SIZE as u64;
        let summary_size = (segment_size * 3 / 256).next_multiple_of(page).max(page);
        let usable = size.min(POSITIONS_MAX).checked_sub(start)?;
        let segments = u32::try_from(usable / segment_size).ok()?;
        (segments >= SEGMENTS_MIN).then_some(Self { start, segment_size, summary_size, segments })
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
        let page = PAGE_SIZE as u64;
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
                });
            }
            let excess = (wanted - size).div_ceil(base::CHUNK_SIZE);
            chunks = chunks.saturating_sub(u32::try_from(excess).ok()?);
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

const MAP: u32 = crate::MAP_PAGE_CHUNKS as u32;
const CRC: u32 = crate::CRC_PAGE_CHUNKS as u32;
