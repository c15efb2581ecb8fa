// SPDX-License-Identifier: Apache-2.0
//! Pages of the chunk map and of block checksums, each kept in two slots (store rule 10).

use crate::bytes::{Reader, Writer, seal, unseal};
use crate::{FormatError, PAGE_SIZE};
use base::{CHUNK_BLOCKS, Lsn};

/// Device chunks that one map page describes.
pub const MAP_PAGE_CHUNKS: usize = 252;
/// Device chunks whose checksums one CRC page holds.
pub const CRC_PAGE_CHUNKS: usize = 3;
/// The component serial of a free chunk.
pub const NO_COMPONENT: u32 = 0;
const MAP_MAGIC: u32 = u32::from_le_bytes(*b"GBMP");
const CRC_MAGIC: u32 = u32::from_le_bytes(*b"GBCP");
const HEAD_MAGIC: u32 = u32::from_le_bytes(*b"GBJH");
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

fn head(out: &mut Writer<'_>, magic: u32, device: u64, number: u32, sequence: u64, applied: u64) {
    out.u32(magic);
    out.u16(crate::FORMAT_VERSION);
    out.u16(0);
    out.u64(device);
    out.u64(sequence);
    out.u64(applied);
    out.u32(number);
    out.u32(0);
}

fn open<'a>(
    page: &'a [u8],
    magic: u32,
    device: u64,
    number: u32,
) -> Result<(Reader<'a>, u64, u64), FormatError> {
    Reader::new(page).magic(magic)?;
    let mut from = Reader::new(unseal(page)?);
    from.magic(magic)?;
    let _ = from.u16()?;
    if from.u64()? != device {
        return Err(FormatError::Magic);
    }
    let (sequence, applied) = (from.counter("sequence")?, from.counter("applied")?);
    if from.u32()? != number {
        return Err(FormatError::Field { name: "page number" });
    }
    let _ = from.u32()?;
    Ok((from, sequence, applied))
}

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
        assert!(page.len() == PAGE_SIZE, "a journal head is a page");
        let mut out = Writer::new(page);
        head(&mut out, HEAD_MAGIC, device, 0, self.record, 0);
        out.pad();
        seal(page);
    }

    /// Reads one page of `device`.
    ///
    /// # Errors
    /// [`FormatError`].
    pub fn decode(device: u64, page: &[u8]) -> Result<Self, FormatError> {
        let (_, record, _) = open(page, HEAD_MAGIC, device, 0)?;
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
        assert!(page.len() == PAGE_SIZE, "a map page is a page");
        assert!(self.chunks.len() == MAP_PAGE_CHUNKS, "a map page has a fixed length");
        let mut out = Writer::new(page);
        head(&mut out, MAP_MAGIC, device, self.number, self.sequence, self.applied);
        for chunk in &self.chunks {
            out.u32(chunk.serial);
            out.u32(chunk.index);
            out.u64(chunk.lsn.0);
        }
        out.pad();
        seal(page);
    }

    /// Reads page `number` of `device`.
    ///
    /// # Errors
    /// [`FormatError`].
    pub fn decode(device: u64, number: u32, page: &[u8]) -> Result<Self, FormatError> {
        let (mut from, sequence, applied) = open(page, MAP_MAGIC, device, number)?;
        let mut chunks = Vec::with_capacity(MAP_PAGE_CHUNKS);
        for _ in 0..MAP_PAGE_CHUNKS {
            let (serial, index, lsn) = (from.u32()?, from.u32()?, Lsn(from.u64()?));
            chunks.push(ChunkEntry { serial, index, lsn });
        }
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

    /// Forgets all blocks of a chunk.
    pub fn clear(&mut self, chunk: usize) {
        self.present[chunk] = [0; 4];
    }

    /// Fills one page.
    pub fn encode(&self, device: u64, page: &mut [u8]) {
        assert!(page.len() == PAGE_SIZE, "a CRC page is a page");
        let mut out = Writer::new(page);
        head(&mut out, CRC_MAGIC, device, self.number, self.sequence, self.applied);
        for (present, crcs) in self.present.iter().zip(&self.crcs) {
            present.iter().for_each(|word| out.u64(*word));
            crcs.iter().for_each(|crc| out.u32(*crc));
        }
        out.pad();
        seal(page);
    }

    /// Reads page `number` of `device`.
    ///
    /// # Errors
    /// [`FormatError`].
    pub fn decode(device: u64, number: u32, page: &[u8]) -> Result<Self, FormatError> {
        let (mut from, sequence, applied) = open(page, CRC_MAGIC, device, number)?;
        let mut decoded = Self { sequence, applied, ..Self::empty(number) };
        for (present, crcs) in decoded.present.iter_mut().zip(&mut decoded.crcs) {
            for word in present {
                *word = from.u64()?;
            }
            for crc in crcs {
                *crc = from.u32()?;
            }
        }
        Ok(decoded)
    }
}
