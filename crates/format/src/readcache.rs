// SPDX-License-Identifier: Apache-2.0
//! The read cache of a hybrid group, behind the log on its cache device: where it is, and the
//! header that says what the slots of a line of it hold.

use crate::bytes::{Reader, Writer, seal, unseal};
use crate::superblock::fits;
use crate::{CacheLayout, ChunkEntry, FormatError, NO_COMPONENT, PAGE_SIZE};
use base::{BLOCK_SIZE, CHUNK_BLOCKS, CHUNK_SIZE, Lsn};

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
const MAGIC: u32 = u32::from_le_bytes(*b"GBRS");
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

impl ReadCacheLayout {
    /// Bytes of it in a superblock.
    pub(crate) const SIZE: usize = 24;

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

    pub(crate) fn encode(&self, out: &mut Writer<'_>) {
        out.u64(self.headers_start);
        out.u64(self.data_start);
        out.u32(self.lines);
        out.u32(u32::from(self.percent));
    }

    /// Reads the layout behind the log `log` on a device of `size` bytes.
    pub(crate) fn decode(
        from: &mut Reader<'_>,
        log: &CacheLayout,
        size: u64,
    ) -> Result<Self, FormatError> {
        let (headers_start, data_start, lines) = (from.u64()?, from.u64()?, from.u32()?);
        let percent = u8::try_from(from.u32()?).unwrap_or(u8::MAX);
        let is_sound = (1..=LINES_MAX).contains(&lines)
            && (1..=READ_CACHE_PERCENT_MAX).contains(&percent)
            && headers_start.is_multiple_of(PAGE)
            && data_start.is_multiple_of(CHUNK_SIZE)
            && log.end() <= headers_start
            && fits(headers_start, PAGE, u64::from(lines), data_start)
            && fits(data_start, CHUNK_SIZE, u64::from(lines), size);
        match is_sound {
            true => Ok(Self { headers_start, data_start, lines, percent }),
            false => Err(FormatError::Field { name: "read cache layout" }),
        }
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
        assert!(page.len() == PAGE_SIZE, "a line header is a page");
        let mut out = Writer::new(page);
        out.u32(MAGIC);
        out.u16(crate::FORMAT_VERSION);
        out.u16(0);
        out.u64(device);
        out.u32(self.line);
        out.u32(0);
        for slot in &self.slots {
            let slot = slot.unwrap_or_default();
            out.u64(slot.capacity);
            out.u32(slot.chunk);
            out.u32(u32::from(slot.piece));
            out.u32(slot.entry.serial);
            out.u32(slot.entry.index);
            out.u64(slot.entry.lsn.0);
            out.u16(slot.known);
            out.u16(slot.data);
            out.u32(0);
            slot.crcs.iter().for_each(|crc| out.u32(*crc));
        }
        out.pad();
        seal(page);
    }

    /// Reads the header of line `line` of cache device `device`.
    ///
    /// # Errors
    /// [`FormatError::Magic`] where no header of this device stands; other errors for damage.
    pub fn decode(device: u64, line: u32, page: &[u8]) -> Result<Self, FormatError> {
        Reader::new(page).magic(MAGIC)?;
        let mut from = Reader::new(unseal(page)?);
        from.magic(MAGIC)?;
        let _ = from.u16()?;
        if from.u64()? != device {
            return Err(FormatError::Magic);
        }
        if (from.u32()?, from.u32()?) != (line, 0) {
            return Err(FormatError::Field { name: "line" });
        }
        let mut header = Self::empty(line);
        for slot in &mut header.slots {
            *slot = Self::decode_slot(&mut from)?;
        }
        Ok(header)
    }

    fn decode_slot(from: &mut Reader<'_>) -> Result<Option<SlotHeader>, FormatError> {
        let (capacity, chunk, piece) = (from.u64()?, from.u32()?, from.u32()?);
        let (serial, index, lsn) = (from.u32()?, from.u32()?, Lsn(from.u64()?));
        let entry = ChunkEntry { serial, index, lsn };
        let (known, data, zero) = (from.u16()?, from.u16()?, from.u32()?);
        let mut crcs = [0; PIECE_BLOCKS];
        for crc in &mut crcs {
            *crc = from.u32()?;
        }
        let piece = u8::try_from(piece).ok().filter(|piece| usize::from(*piece) < PIECES);
        let piece = piece.ok_or(FormatError::Field { name: "piece of the slot" })?;
        if (capacity == 0) != (serial == NO_COMPONENT) {
            return Err(FormatError::Field { name: "chunk of the slot" });
        }
        if data & !known != 0 || zero != 0 {
            return Err(FormatError::Field { name: "blocks of the slot" });
        }
        let slot = SlotHeader { capacity, chunk, piece, entry, known, data, crcs };
        match capacity {
            0 if slot == SlotHeader::default() => Ok(None),
            0 => Err(FormatError::Field { name: "empty slot" }),
            _ => Ok(Some(slot)),
        }
    }
}
