// SPDX-License-Identifier: Apache-2.0
//! Records of a capacity device's journal (store rule 9).

use crate::bytes::{Reader, Writer};
use crate::{ChunkEntry, CrcPage, FormatError, PAGE_SIZE};
use base::{Lsn, crc32c_append};

const MAGIC: u32 = u32::from_le_bytes(*b"GBJR");
const HEAD: usize = 48;
const ITEM: usize = 24;
/// Items of one record: it stays below 1 MiB, one device write.
pub const RECORD_ITEMS_MAX: usize = 40_000;

/// One change of the map or of checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// A chunk is given to a component; none of its blocks holds data yet.
    Allocate {
        /// Device chunk.
        chunk: u32,
        /// Component serial.
        serial: u32,
        /// Chunk of the component.
        index: u32,
        /// Highest lsn.
        lsn: Lsn,
    },
    /// A chunk is free again.
    Free {
        /// Device chunk.
        chunk: u32,
    },
    /// All blocks of a chunk that stays allocated read as zeros.
    Clear {
        /// Device chunk.
        chunk: u32,
        /// Its lsn.
        lsn: Lsn,
    },
    /// A block was written.
    Block {
        /// Device chunk.
        chunk: u32,
        /// Block within it.
        block: u8,
        /// CRC32C of its data.
        crc: u32,
        /// Its lsn.
        lsn: Lsn,
    },
    /// A block reads as zeros.
    Unset {
        /// Device chunk.
        chunk: u32,
        /// Block within it.
        block: u8,
        /// Its lsn.
        lsn: Lsn,
    },
    /// W of a component as of the previous batch.
    Watermark {
        /// Component serial.
        serial: u32,
        /// W.
        lsn: Lsn,
    },
}

impl Item {
    /// The device chunk that it is about; a watermark is about none.
    #[must_use]
    pub fn chunk(&self) -> Option<u32> {
        match *self {
            Self::Allocate { chunk, .. }
            | Self::Free { chunk }
            | Self::Clear { chunk, .. }
            | Self::Block { chunk, .. }
            | Self::Unset { chunk, .. } => Some(chunk),
            Self::Watermark { .. } => None,
        }
    }

    /// What the chunk map says of its chunk afterwards.
    #[must_use]
    pub fn after(&self, before: ChunkEntry) -> ChunkEntry {
        match *self {
            Self::Allocate { serial, index, lsn, .. } => ChunkEntry { serial, index, lsn },
            Self::Free { .. } => ChunkEntry::default(),
            Self::Clear { lsn, .. } | Self::Block { lsn, .. } | Self::Unset { lsn, .. } => {
                ChunkEntry { lsn: lsn.max(before.lsn), ..before }
            }
            Self::Watermark { .. } => before,
        }
    }

    /// Makes the checksums of its chunk, the one at `place` of the page, what they are afterwards.
    /// Those of a chunk that is free mean nothing.
    pub fn apply(&self, page: &mut CrcPage, place: usize) {
        match *self {
            Self::Allocate { .. } | Self::Clear { .. } => page.clear(place),
            Self::Block { block, crc, .. } => page.set(place, usize::from(block), Some(crc)),
            Self::Unset { block, .. } => page.set(place, usize::from(block), None),
            Self::Free { .. } | Self::Watermark { .. } => {}
        }
    }
}

/// A record: a header and items, zero-padded to whole pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalRecord {
    /// Rises by one from record to record, for ever.
    pub sequence: u64,
    /// Checksum of the record before it; the first record of a lap does not check it.
    pub previous: u32,
    /// In the order in which they apply.
    pub items: Vec<Item>,
}

impl JournalRecord {
    /// Bytes of a record of `items` items.
    #[must_use]
    pub const fn size_of(items: usize) -> usize {
        (HEAD + items * ITEM).next_multiple_of(PAGE_SIZE)
    }

    /// Fills `out`, which has [`JournalRecord::size_of`] bytes, and returns the record's checksum.
    pub fn encode(&self, device: u64, out: &mut [u8]) -> u32 {
        assert!(out.len() == Self::size_of(self.items.len()), "a record of another length");
        assert!(self.items.len() <= RECORD_ITEMS_MAX, "a record beyond its bound");
        let mut to = Writer::new(out);
        to.u32(MAGIC);
        to.u16(crate::FORMAT_VERSION);
        to.u16(0);
        to.u64(device);
        to.u64(self.sequence);
        to.u32(u32::try_from(self.items.len()).unwrap_or(u32::MAX));
        to.u32(self.previous);
        to.bytes(&[0; HEAD - 32]); // the checksum and room
        for item in &self.items {
            encode_item(item, &mut to);
        }
        to.pad();
        let crc = crc32c_append(&[&out[..32], &out[36..]]);
        out[32..36].copy_from_slice(&crc.to_le_bytes());
        crc
    }

    /// Reads the record at the start of `from`: itself, its bytes, its checksum.
    ///
    /// # Errors
    /// [`FormatError`]: where the journal ends, or damage.
    pub fn decode(device: u64, from: &[u8]) -> Result<(Self, usize, u32), FormatError> {
        let mut head = Reader::new(from);
        head.magic(MAGIC)?;
        let _ = head.u16()?;
        if head.u64()? != device {
            return Err(FormatError::Magic);
        }
        let (sequence, count, previous) = (head.counter("sequence")?, head.u32()?, head.u32()?);
        let crc = head.u32()?;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count > RECORD_ITEMS_MAX {
            return Err(FormatError::Field { name: "item count" });
        }
        let size = Self::size_of(count);
        let record = from.get(..size).ok_or(FormatError::Length)?;
        if crc32c_append(&[&record[..32], &record[36..]]) != crc {
            return Err(FormatError::Checksum);
        }
        let mut body = Reader::new(&record[HEAD..]);
        let items = (0..count).map(|_| decode_item(&mut body)).collect::<Result<_, _>>()?;
        Ok((Self { sequence, previous, items }, size, crc))
    }
}

fn encode_item(item: &Item, out: &mut Writer<'_>) {
    let (kind, block, chunk, a, b, lsn) = match *item {
        Item::Allocate { chunk, serial, index, lsn } => (1, 0, chunk, serial, index, lsn),
        Item::Free { chunk } => (2, 0, chunk, 0, 0, Lsn::ZERO),
        Item::Clear { chunk, lsn } => (3, 0, chunk, 0, 0, lsn),
        Item::Block { chunk, block, crc, lsn } => (4, block, chunk, crc, 0, lsn),
        Item::Unset { chunk, block, lsn } => (5, block, chunk, 0, 0, lsn),
        Item::Watermark { serial, lsn } => (6, 0, 0, serial, 0, lsn),
    };
    out.u8(kind);
    out.u8(block);
    out.u16(0);
    out.u32(chunk);
    out.u32(a);
    out.u32(b);
    out.u64(lsn.0);
}

fn decode_item(from: &mut Reader<'_>) -> Result<Item, FormatError> {
    let (kind, block, _) = (from.u8()?, from.u8()?, from.u16()?);
    let (chunk, a, b) = (from.u32()?, from.u32()?, from.u32()?);
    let lsn = Lsn(from.u64()?);
    match kind {
        1 => Ok(Item::Allocate { chunk, serial: a, index: b, lsn }),
        2 => Ok(Item::Free { chunk }),
        3 => Ok(Item::Clear { chunk, lsn }),
        4 => Ok(Item::Block { chunk, block, crc: a, lsn }),
        5 => Ok(Item::Unset { chunk, block, lsn }),
        6 => Ok(Item::Watermark { serial: a, lsn }),
        _ => Err(FormatError::Field { name: "item kind" }),
    }
}
