// SPDX-License-Identifier: Apache-2.0
//! The read cache of a hybrid group, behind the log on its cache device: where it is, and the
//! header that says what the slots of a line of it hold.

use crate::bytes::{RawTag, blank, fits, layout, seal, unseal};
use crate::pages::RawChunkEntry;
use crate::{CacheLayout, ChunkEntry, FormatError, NO_COMPONENT, PAGE_SIZE};
use base::{BLOCK_SIZE, CHUNK_BLOCKS, CHUNK_SIZE};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Blocks of a piece, the unit of the read cache: 64 KiB, which a magnetic device reads in hardly
/// more time than one block.
pub const PIECE_BLOCKS: usize = 16;
/// Pieces of a chunk, and slots of a line.
pub const PIECES: usize = CHUNK_BLOCKS as usize / PIECE_BLOCKS;
/// Bytes of a piece.
pub const PIECE_SIZE: u64 = PIECE_BLOCKS as u64 * BLOCK_SIZE;
/// Lines of a read cache: 2 TiB. Each takes less than 1.5 KiB of memory.
pub const LINES_MAX: u32 = 1 << 21;
/// The largest part of a cache device that can be read cache, percent.
pub const READ_CACHE_PERCENT_MAX: u8 = 90;
const MAGIC: [u8; 4] = *b"GBRS";
const PAGE: u64 = PAGE_SIZE as u64;

/// Where the read cache is on a cache device, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadCacheLayout {
    /// First byte of the headers, a page per line.
    pub headers_start: u64,
    /// First byte of line 0; a line has the size of a chunk.
    pub data_start: u64,
    /// Number of lines.
    pub lines: u32,
    /// What was asked for, percent of the device.
    pub percent: u8,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawReadCache {
    headers_start: U64,
    data_start: U64,
    lines: U32,
    percent: U32,
}

layout!(RawReadCache, 24: headers_start 0, data_start 8, lines 16, percent 20);

impl From<&ReadCacheLayout> for RawReadCache {
    fn from(layout: &ReadCacheLayout) -> Self {
        Self {
            headers_start: layout.headers_start.into(),
            data_start: layout.data_start.into(),
            lines: layout.lines.into(),
            percent: u32::from(layout.percent).into(),
        }
    }
}

impl RawReadCache {
    /// The layout behind the log `log` on a device of `size` bytes.
    pub(crate) fn decode(
        &self,
        log: &CacheLayout,
        size: u64,
    ) -> Result<ReadCacheLayout, FormatError> {
        let (headers_start, data_start) = (self.headers_start.get(), self.data_start.get());
        let (lines, percent) = (self.lines.get(), self.percent.get());
        let percent = u8::try_from(percent).unwrap_or(u8::MAX);
        let is_sound = (1..=LINES_MAX).contains(&lines)
            && (1..=READ_CACHE_PERCENT_MAX).contains(&percent)
            && headers_start.is_multiple_of(PAGE)
            && data_start.is_multiple_of(CHUNK_SIZE)
            && log.end() <= headers_start
            && fits(headers_start, PAGE, u64::from(lines), data_start)
            && fits(data_start, CHUNK_SIZE, u64::from(lines), size);
        match is_sound {
            true => Ok(ReadCacheLayout { headers_start, data_start, lines, percent }),
            false => Err(FormatError::Field { name: "read cache layout" }),
        }
    }
}

impl ReadCacheLayout {
    /// The layouts of log and read cache on a device of `size` bytes, of which the read cache gets
    /// at most so many percent; `None` where there is no room for 6 segments and a line.
    #[must_use]
    pub fn plan(size: u64, segment_size: u64, percent: u8) -> Option<(CacheLayout, Self)> {
        if percent == 0 || percent > READ_CACHE_PERCENT_MAX {
            return None;
        }
        let whole = CacheLayout::plan(size, segment_size)?;
        let usable = size.checked_sub(whole.start)?;
        let share = u64::from(percent);
        let wanted = usable / 100 * share + usable % 100 * share / 100;
        let segments = (usable - wanted) / segment_size;
        // What is too small for a log gets one, and a smaller read cache.
        let segments = u32::try_from(segments).unwrap_or(u32::MAX).max(crate::SEGMENTS_MIN);
        let layout = CacheLayout { segments: segments.min(whole.segments), ..whole };
        let headers_start = layout.end().next_multiple_of(PAGE);
        let end = headers_start.checked_add(wanted)?.min(size);
        let room = end.checked_sub(headers_start)?;
        let mut lines = u32::try_from(room / (CHUNK_SIZE + PAGE)).unwrap_or(u32::MAX);
        lines = lines.min(LINES_MAX);
        // The lines are aligned, which may cost one of them.
        while lines > 0 {
            let data_start = headers_start + u64::from(lines) * PAGE;
            let data_start = data_start.next_multiple_of(CHUNK_SIZE);
            if data_start + u64::from(lines) * CHUNK_SIZE <= end {
                return Some((layout, Self { headers_start, data_start, lines, percent }));
            }
            lines -= 1;
        }
        None
    }

    /// The first byte behind the last line.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.line_start(self.lines)
    }

    /// Where a line's data begins.
    #[must_use]
    pub fn line_start(&self, line: u32) -> u64 {
        self.data_start + u64::from(line) * CHUNK_SIZE
    }

    /// Where a slot's data begins; slots are numbered through all lines.
    #[must_use]
    pub fn slot_start(&self, slot: u32) -> u64 {
        self.data_start + u64::from(slot) * PIECE_SIZE
    }

    /// Where a line's header is.
    #[must_use]
    pub fn header_at(&self, line: u32) -> u64 {
        self.headers_start + u64::from(line) * PAGE
    }
}

/// What one slot of a line holds: a piece of a chunk of a capacity device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotHeader {
    /// Device id of the capacity device; not 0.
    pub capacity: u64,
    /// The device chunk.
    pub chunk: u32,
    /// Which piece of it, below [`PIECES`].
    pub piece: u8,
    /// The chunk's entry in the chunk map when this was written.
    pub entry: ChunkEntry,
    /// One bit per block of the piece: what the chunk holds there is known.
    pub known: u16,
    /// One bit per known block: it is data, and stands in the slot; the others read as zeros.
    pub data: u16,
    /// CRC32C of each block that is data.
    pub crcs: [u32; PIECE_BLOCKS],
}

/// What a line of the read cache holds, slot by slot. It is a cache of what stands in memory, and
/// may be older: the map entries tell of which state of their chunks it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineHeader {
    /// Number of the line.
    pub line: u32,
    /// What each slot holds, if anything.
    pub slots: [Option<SlotHeader>; PIECES],
}

impl LineHeader {
    /// Of a line that holds nothing.
    #[must_use]
    pub fn empty(line: u32) -> Self {
        Self { line, slots: [None; PIECES] }
    }

    /// Whether the line holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.iter().all(Option::is_none)
    }

    /// Fills one page of cache device `device`.
    pub fn encode(&self, device: u64, page: &mut [u8]) {
        let raw: &mut RawLineHeader = blank(page);
        raw.tag = RawTag::new(MAGIC, 0);
        raw.device = device.into();
        raw.line = self.line.into();
        for (raw, slot) in raw.slots.iter_mut().zip(&self.slots) {
            if let Some(slot) = slot {
                *raw = slot.into();
            }
        }
        seal(page);
    }

    /// Reads the header of line `line` of cache device `device`.
    ///
    /// # Errors
    /// [`FormatError::Magic`] where no header of this device stands; other errors for damage.
    pub fn decode(device: u64, line: u32, page: &[u8]) -> Result<Self, FormatError> {
        let raw: &RawLineHeader = unseal(page, MAGIC)?;
        if raw.device.get() != device {
            return Err(FormatError::Magic);
        }
        if (raw.line.get(), raw.zero.get()) != (line, 0) {
            return Err(FormatError::Field { name: "line" });
        }
        let mut header = Self::empty(line);
        for (slot, raw) in header.slots.iter_mut().zip(&raw.slots) {
            *slot = raw.decode()?;
        }
        Ok(header)
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawLineHeader {
    tag: RawTag,
    device: U64,
    line: U32,
    zero: U32,
    slots: [RawSlotHeader; PIECES],
    zeros: [u8; 2404],
    crc: U32,
}

layout!(RawLineHeader, 4096: tag 0, device 8, line 16, zero 20, slots 24, zeros 1688, crc 4092);

/// All zeros where the slot is empty.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSlotHeader {
    capacity: U64,
    chunk: U32,
    piece: U32,
    entry: RawChunkEntry,
    known: U16,
    data: U16,
    zero: U32,
    crcs: [U32; PIECE_BLOCKS],
}

layout!(RawSlotHeader, 104:
    capacity 0, chunk 8, piece 12, entry 16, known 32, data 34, zero 36, crcs 40);

impl From<&SlotHeader> for RawSlotHeader {
    fn from(slot: &SlotHeader) -> Self {
        Self {
            capacity: slot.capacity.into(),
            chunk: slot.chunk.into(),
            piece: u32::from(slot.piece).into(),
            entry: slot.entry.into(),
            known: slot.known.into(),
            data: slot.data.into(),
            zero: U32::ZERO,
            crcs: slot.crcs.map(U32::new),
        }
    }
}

impl RawSlotHeader {
    fn decode(&self) -> Result<Option<SlotHeader>, FormatError> {
        let (capacity, entry) = (self.capacity.get(), ChunkEntry::from(self.entry));
        let (known, data) = (self.known.get(), self.data.get());
        let piece = u8::try_from(self.piece.get()).ok();
        let piece = piece
            .filter(|piece| usize::from(*piece) < PIECES)
            .ok_or(FormatError::Field { name: "piece of the slot" })?;
        if (capacity == 0) != (entry.serial == NO_COMPONENT) {
            return Err(FormatError::Field { name: "chunk of the slot" });
        }
        if data & !known != 0 || self.zero != U32::ZERO {
            return Err(FormatError::Field { name: "blocks of the slot" });
        }
        let (chunk, crcs) = (self.chunk.get(), self.crcs.map(U32::get));
        let slot = SlotHeader { capacity, chunk, piece, entry, known, data, crcs };
        match capacity {
            0 if slot == SlotHeader::default() => Ok(None),
            0 => Err(FormatError::Field { name: "empty slot" }),
            _ => Ok(Some(slot)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_is_empty_and_says_something_is_refused() {
        let empty = SlotHeader::default();
        for (slot, found) in [
            (empty, Ok(None)),
            (SlotHeader { chunk: 1, ..empty }, Err(FormatError::Field { name: "empty slot" })),
            (SlotHeader { known: 1, ..empty }, Err(FormatError::Field { name: "empty slot" })),
        ] {
            assert_eq!(RawSlotHeader::from(&slot).decode(), found);
        }
    }

    #[test]
    fn the_share_of_a_read_cache_is_exact_and_90_percent_at_most() {
        let (start, segment) = (1 << 20, 4 << 20);
        let plan = |size, percent| ReadCacheLayout::plan(start + size, segment, percent);
        // Half of it is two bytes short of 40 segments.
        let (log, _) = plan(80 * segment - 4, 50).expect("room for both");
        assert_eq!(log.segments, 39);
        let largest = plan(80 * segment, READ_CACHE_PERCENT_MAX).expect("as much as may be");
        assert_eq!((largest.0.segments, largest.1.percent), (8, 90));
        assert_eq!(plan(80 * segment, READ_CACHE_PERCENT_MAX + 1), None);
    }
}
