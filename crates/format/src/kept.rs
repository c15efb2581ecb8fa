// SPDX-License-Identifier: Apache-2.0
//! The first block of a slot in which a disk group keeps something of the host's, beside the
//! components of volumes (`docs/formats/directory-backup.md`).

use crate::FormatError;
use crate::bytes::{RawTag, blank, counter, layout, seal, unseal};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: [u8; 4] = *b"GBKH";

/// What a slot says of the bytes behind its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptHeader {
    /// Counts what was kept: the highest is the newest.
    pub generation: u64,
    /// When, seconds of the wall clock.
    pub taken: u64,
    /// Bytes.
    pub length: u64,
    /// CRC32C of those bytes.
    pub crc: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawKeptHeader {
    tag: RawTag,
    generation: U64,
    taken: U64,
    length: U64,
    kept_crc: U32,
    zeros: [u8; 4056],
    crc: U32,
}

layout!(RawKeptHeader, 4096:
    tag 0, generation 8, taken 16, length 24, kept_crc 32, zeros 36, crc 4092);

impl KeptHeader {
    /// Fills one page.
    pub fn encode(&self, page: &mut [u8]) {
        let raw: &mut RawKeptHeader = blank(page);
        raw.tag = RawTag::new(MAGIC, 0);
        raw.generation = self.generation.into();
        raw.taken = self.taken.into();
        raw.length = self.length.into();
        raw.kept_crc = self.crc.into();
        seal(page);
    }

    /// What a page says.
    ///
    /// # Errors
    /// [`FormatError::Magic`] where nothing was kept, others where it is damaged.
    pub fn decode(page: &[u8]) -> Result<Self, FormatError> {
        let raw: &RawKeptHeader = unseal(page, MAGIC)?;
        Ok(Self {
            generation: counter(raw.generation, "generation")?,
            taken: raw.taken.get(),
            length: raw.length.get(),
            crc: raw.kept_crc.get(),
        })
    }
}
