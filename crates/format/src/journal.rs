// SPDX-License-Identifier: Apache-2.0
//! Records of a capacity device's journal (store rule 9).

use crate::bytes::{RawTag, counter, layout, prefix, prefix_mut, prefix_of, prefix_of_mut};
use crate::{ChunkEntry, CrcPage, FormatError, PAGE_SIZE};
use base::{Lsn, crc32c_append};
use std::mem::offset_of;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: [u8; 4] = *b"GBJR";
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

/// The fixed part of a record; its items follow.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHead {
    tag: RawTag,
    device: U64,
    sequence: U64,
    items: U32,
    previous: U32,
    crc: U32,
    zeros: [u8; 12],
}

layout!(RawHead, 48: tag 0, device 8, sequence 16, items 24, previous 28, crc 32, zeros 36);
const HEAD: usize = size_of::<RawHead>();
const CRC: usize = offset_of!(RawHead, crc);

/// What `a` and `b` are depends on the kind.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawItem {
    kind: u8,
    block: u8,
    zero: U16,
    chunk: U32,
    a: U32,
    b: U32,
    lsn: U64,
}

layout!(RawItem, 24: kind 0, block 1, zero 2, chunk 4, a 8, b 12, lsn 16);

impl JournalRecord {
    /// Bytes of a record of `items` items.
    #[must_use]
    pub const fn size_of(items: usize) -> usize {
        (HEAD + items * size_of::<RawItem>()).next_multiple_of(PAGE_SIZE)
    }

    /// Fills `out`, which has [`JournalRecord::size_of`] bytes, and returns the record's checksum.
    pub fn encode(&self, device: u64, out: &mut [u8]) -> u32 {
        assert!(out.len() == Self::size_of(self.items.len()), "a record of another length");
        assert!(self.items.len() <= RECORD_ITEMS_MAX, "a record beyond its bound");
        let (head, rest) = prefix_mut(out);
        *head = RawHead {
            tag: RawTag::new(MAGIC, 0),
            device: device.into(),
            sequence: self.sequence.into(),
            items: u32::try_from(self.items.len()).unwrap_or(u32::MAX).into(),
            previous: self.previous.into(),
            crc: U32::ZERO, // it is of what stands here in the end
            zeros: [0; 12],
        };
        let (items, rest) = prefix_of_mut::<RawItem>(rest, self.items.len());
        for (raw, item) in items.iter_mut().zip(&self.items) {
            *raw = item.into();
        }
        rest.fill(0);
        let crc = crc_of(out);
        prefix_mut::<RawHead>(out).0.crc = crc.into();
        crc
    }

    /// Reads the record at the start of `from`: itself, its bytes, its checksum.
    ///
    /// # Errors
    /// [`FormatError`]: where the journal ends, or damage.
    pub fn decode(device: u64, from: &[u8]) -> Result<(Self, usize, u32), FormatError> {
        RawTag::check(from, MAGIC)?;
        let (head, _) = prefix::<RawHead>(from)?;
        if head.device.get() != device {
            return Err(FormatError::Magic);
        }
        let sequence = counter(head.sequence, "sequence")?;
        let count = usize::try_from(head.items.get()).unwrap_or(usize::MAX);
        if count > RECORD_ITEMS_MAX {
            return Err(FormatError::Field { name: "item count" });
        }
        let size = Self::size_of(count);
        let record = from.get(..size).ok_or(FormatError::Length)?;
        let crc = head.crc.get();
        if crc_of(record) != crc {
            return Err(FormatError::Checksum);
        }
        let (items, _) = prefix_of::<RawItem>(&record[HEAD..], count)?;
        let items = items.iter().map(RawItem::decode).collect::<Result<_, _>>()?;
        Ok((Self { sequence, previous: head.previous.get(), items }, size, crc))
    }
}

/// The checksum of a record, over all but the field that it stands in.
fn crc_of(record: &[u8]) -> u32 {
    crc32c_append(&[&record[..CRC], &record[CRC + 4..]])
}

impl From<&Item> for RawItem {
    fn from(item: &Item) -> Self {
        let (kind, block, chunk, a, b, lsn) = match *item {
            Item::Allocate { chunk, serial, index, lsn } => (1, 0, chunk, serial, index, lsn),
            Item::Free { chunk } => (2, 0, chunk, 0, 0, Lsn::ZERO),
            Item::Clear { chunk, lsn } => (3, 0, chunk, 0, 0, lsn),
            Item::Block { chunk, block, crc, lsn } => (4, block, chunk, crc, 0, lsn),
            Item::Unset { chunk, block, lsn } => (5, block, chunk, 0, 0, lsn),
            Item::Watermark { serial, lsn } => (6, 0, 0, serial, 0, lsn),
        };
        let (chunk, a, b, lsn) = (chunk.into(), a.into(), b.into(), lsn.0.into());
        Self { kind, block, zero: U16::ZERO, chunk, a, b, lsn }
    }
}

impl RawItem {
    fn decode(&self) -> Result<Item, FormatError> {
        let (chunk, block, lsn) = (self.chunk.get(), self.block, Lsn(self.lsn.get()));
        let (a, b) = (self.a.get(), self.b.get());
        match self.kind {
            1 => Ok(Item::Allocate { chunk, serial: a, index: b, lsn }),
            2 => Ok(Item::Free { chunk }),
            3 => Ok(Item::Clear { chunk, lsn }),
            4 => Ok(Item::Block { chunk, block, crc: a, lsn }),
            5 => Ok(Item::Unset { chunk, block, lsn }),
            6 => Ok(Item::Watermark { serial: a, lsn }),
            _ => Err(FormatError::Field { name: "item kind" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_another_kind_or_version_is_refused_though_its_checksum_is_right() {
        let (device, mut page) = (7, vec![0; PAGE_SIZE]);
        let record = JournalRecord { sequence: 1, previous: 0, items: vec![] };
        for (at, found) in [(0, FormatError::Magic), (4, FormatError::Version { found: 2 })] {
            let _ = record.encode(device, &mut page);
            page[at] = 2;
            let crc = crc_of(&page);
            prefix_mut::<RawHead>(&mut page).0.crc = crc.into();
            assert_eq!(JournalRecord::decode(device, &page), Err(found));
        }
    }
}
