// SPDX-License-Identifier: Apache-2.0
//! Pages of the chunk map and of block checksums, each kept in two slots (store rule 10).

use crate::FormatError;
use crate::bytes::{RawTag, blank, counter, layout, prefix, seal, unseal};
use base::{CHUNK_BLOCKS, Lsn, SECTOR_SIZE};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Device chunks that one map page describes.
pub const MAP_PAGE_CHUNKS: usize = 252;
/// Device chunks whose checksums one CRC page holds.
pub const CRC_PAGE_CHUNKS: usize = 3;
/// The component serial of a free chunk.
pub const NO_COMPONENT: u32 = 0;
const MAP_MAGIC: [u8; 4] = *b"GBMP";
const CRC_MAGIC: [u8; 4] = *b"GBCP";
const HEAD_MAGIC: [u8; 4] = *b"GBJH";
/// Where a capacity device's journal heads stand: record n's in slot n modulo two.
pub const JOURNAL_HEAD_SLOTS: [u64; 2] = [128 << 10, 192 << 10];
const BLOCKS: usize = CHUNK_BLOCKS as usize;

/// What one device chunk holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkEntry {
    /// The component's serial; [`NO_COMPONENT`] for a free chunk.
    pub serial: u32,
    /// Which chunk of the component.
    pub index: u32,
    /// Highest lsn that changed it.
    pub lsn: Lsn,
}

/// One page of the chunk map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapPage {
    /// Page number.
    pub number: u32,
    /// Which of the two slots is newer.
    pub sequence: u64,
    /// Journal records up to this one are in it: replay skips them.
    pub applied: u64,
    /// The chunks, [`MAP_PAGE_CHUNKS`] of them.
    pub chunks: Vec<ChunkEntry>,
}

/// How all pages here begin.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHead {
    tag: RawTag,
    device: U64,
    sequence: U64,
    applied: U64,
    number: U32,
    zero: U32,
}

layout!(RawHead, 40: tag 0, device 8, sequence 16, applied 24, number 32, zero 36);

impl RawHead {
    fn new(magic: [u8; 4], device: u64, number: u32, sequence: u64, applied: u64) -> Self {
        Self {
            tag: RawTag::new(magic, 0),
            device: device.into(),
            sequence: sequence.into(),
            applied: applied.into(),
            number: number.into(),
            zero: U32::ZERO,
        }
    }

    /// `sequence` and `applied` of page `number` of `device`.
    fn decode(&self, device: u64, number: u32) -> Result<(u64, u64), FormatError> {
        if self.device.get() != device {
            return Err(FormatError::Magic);
        }
        let sequence = counter(self.sequence, "sequence")?;
        let applied = counter(self.applied, "applied")?;
        if self.number.get() != number {
            return Err(FormatError::Field { name: "page number" });
        }
        Ok((sequence, applied))
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawJournalHead {
    head: RawHead,
    zeros: [u8; 4052],
    crc: U32,
}

layout!(RawJournalHead, 4096: head 0, zeros 40, crc 4092);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawMapPage {
    head: RawHead,
    chunks: [RawChunkEntry; MAP_PAGE_CHUNKS],
    zeros: [u8; 20],
    crc: U32,
}

layout!(RawMapPage, 4096: head 0, chunks 40, zeros 4072, crc 4092);

/// The serial is 0 where the chunk is free.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawChunkEntry {
    serial: U32,
    index: U32,
    lsn: U64,
}

layout!(RawChunkEntry, 16: serial 0, index 4, lsn 8);

impl From<ChunkEntry> for RawChunkEntry {
    fn from(entry: ChunkEntry) -> Self {
        Self { serial: entry.serial.into(), index: entry.index.into(), lsn: entry.lsn.0.into() }
    }
}

impl From<RawChunkEntry> for ChunkEntry {
    fn from(raw: RawChunkEntry) -> Self {
        Self { serial: raw.serial.get(), index: raw.index.get(), lsn: Lsn(raw.lsn.get()) }
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawCrcPage {
    head: RawHead,
    chunks: [RawCrcs; CRC_PAGE_CHUNKS],
    zeros: [u8; 884],
    crc: U32,
}

layout!(RawCrcPage, 4096: head 0, chunks 40, zeros 3208, crc 4092);

/// The blocks of one chunk.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawCrcs {
    present: [U64; BLOCKS / 64],
    crcs: [U32; BLOCKS],
}

layout!(RawCrcs, 1056: present 0, crcs 32);

/// How far the journal had come. Written once a record is durable, it tells a journal whose end
/// was lost from one that ends there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalHead {
    /// A record that was durable.
    pub record: u64,
}

impl JournalHead {
    /// Fills one page.
    pub fn encode(&self, device: u64, page: &mut [u8]) {
        let raw: &mut RawJournalHead = blank(page);
        raw.head = RawHead::new(HEAD_MAGIC, device, 0, self.record, 0);
        seal(page);
    }

    /// Reads one page of `device`.
    ///
    /// # Errors
    /// [`FormatError`].
    pub fn decode(device: u64, page: &[u8]) -> Result<Self, FormatError> {
        let raw: &RawJournalHead = unseal(page, HEAD_MAGIC)?;
        let (record, _) = raw.head.decode(device, 0)?;
        Ok(Self { record })
    }
}

impl MapPage {
    /// Page `number` of a device where every chunk is free.
    #[must_use]
    pub fn empty(number: u32) -> Self {
        let chunks = vec![ChunkEntry::default(); MAP_PAGE_CHUNKS];
        Self { number, sequence: 0, applied: 0, chunks }
    }

    /// Fills one page.
    pub fn encode(&self, device: u64, page: &mut [u8]) {
        assert!(self.chunks.len() == MAP_PAGE_CHUNKS, "a map page has a fixed length");
        let raw: &mut RawMapPage = blank(page);
        raw.head = RawHead::new(MAP_MAGIC, device, self.number, self.sequence, self.applied);
        for (raw, chunk) in raw.chunks.iter_mut().zip(&self.chunks) {
            *raw = (*chunk).into();
        }
        seal(page);
    }

    /// Reads page `number` of `device`.
    ///
    /// # Errors
    /// [`FormatError`].
    pub fn decode(device: u64, number: u32, page: &[u8]) -> Result<Self, FormatError> {
        let raw: &RawMapPage = unseal(page, MAP_MAGIC)?;
        let (sequence, applied) = raw.head.decode(device, number)?;
        let chunks = raw.chunks.iter().map(|chunk| (*chunk).into()).collect();
        Ok(Self { number, sequence, applied, chunks })
    }
}

/// The checksums of [`CRC_PAGE_CHUNKS`] chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrcPage {
    /// Page number.
    pub number: u32,
    /// Which of the two slots is newer.
    pub sequence: u64,
    /// Journal records up to this one are in it: replay skips them.
    pub applied: u64,
    /// Which blocks hold data; the others read as zeros.
    pub present: [[u64; BLOCKS / 64]; CRC_PAGE_CHUNKS],
    /// CRC32C of each block that holds data.
    pub crcs: [[u32; BLOCKS]; CRC_PAGE_CHUNKS],
}

impl CrcPage {
    /// Page `number` of a device where no block holds data.
    #[must_use]
    pub fn empty(number: u32) -> Self {
        let (present, crcs) = ([[0; 4]; CRC_PAGE_CHUNKS], [[0; BLOCKS]; CRC_PAGE_CHUNKS]);
        Self { number, sequence: 0, applied: 0, present, crcs }
    }

    /// The checksum of a block; `None` where it holds no data.
    #[must_use]
    pub fn get(&self, chunk: usize, block: usize) -> Option<u32> {
        let is_present = self.present[chunk][block / 64] >> (block % 64) & 1 == 1;
        is_present.then(|| self.crcs[chunk][block])
    }

    /// Sets or takes away the checksum of a block.
    pub fn set(&mut self, chunk: usize, block: usize, crc: Option<u32>) {
        let bit = 1 << (block % 64);
        match crc {
            Some(crc) => {
                self.present[chunk][block / 64] |= bit;
                self.crcs[chunk][block] = crc;
            }
            None => self.present[chunk][block / 64] &= !bit,
        }
    }

    /// Whether no block of a chunk holds data.
    #[must_use]
    pub fn is_empty(&self, chunk: usize) -> bool {
        self.present[chunk] == [0; 4]
    }

    /// Sequence and last record of the image that the first sector of a slot is of, whatever the
    /// rest of it is: zero where none was ever written there. No checksum vouches for it. `None`
    /// where it is of no image of page `number` of `device`.
    #[must_use]
    pub fn first_sector(device: u64, number: u32, slot: &[u8]) -> Option<(u64, u64)> {
        let sector = slot.get(..usize::try_from(SECTOR_SIZE).ok()?)?;
        if sector.iter().all(|byte| *byte == 0) {
            return Some((0, 0));
        }
        RawTag::check(sector, CRC_MAGIC).ok()?;
        let (head, _) = prefix::<RawHead>(sector).ok()?;
        head.decode(device, number).ok()
    }

    /// Forgets all blocks of a chunk.
    pub fn clear(&mut self, chunk: usize) {
        self.present[chunk] = [0; 4];
    }

    /// Fills one page.
    pub fn encode(&self, device: u64, page: &mut [u8]) {
        let raw: &mut RawCrcPage = blank(page);
        raw.head = RawHead::new(CRC_MAGIC, device, self.number, self.sequence, self.applied);
        for (raw, (present, crcs)) in raw.chunks.iter_mut().zip(self.present.iter().zip(&self.crcs))
        {
            raw.present = present.map(U64::new);
            raw.crcs = crcs.map(U32::new);
        }
        seal(page);
    }

    /// Reads page `number` of `device`.
    ///
    /// # Errors
    /// [`FormatError`].
    pub fn decode(device: u64, number: u32, page: &[u8]) -> Result<Self, FormatError> {
        let raw: &RawCrcPage = unseal(page, CRC_MAGIC)?;
        let (sequence, applied) = raw.head.decode(device, number)?;
        let mut decoded = Self { sequence, applied, ..Self::empty(number) };
        for (place, chunk) in raw.chunks.iter().enumerate() {
            decoded.present[place] = chunk.present.map(U64::get);
            for (crc, raw) in decoded.crcs[place].iter_mut().zip(&chunk.crcs) {
                *crc = raw.get();
            }
        }
        Ok(decoded)
    }
}
