// SPDX-License-Identifier: Apache-2.0
//! The first block of a slot in which a disk group keeps something of the host's, beside the
//! components of volumes (`docs/formats/directory-backup.md`).

use crate::bytes::{Reader, Writer, seal, unseal};
use crate::{FormatError, PAGE_SIZE};

const MAGIC: u32 = u32::from_le_bytes(*b"GBKH");

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

impl KeptHeader {
    /// Fills one page.
    pub fn encode(&self, page: &mut [u8]) {
        assert_eq!(page.len(), PAGE_SIZE, "a header is one page");
        let mut out = Writer::new(page);
        out.u32(MAGIC);
        out.u16(crate::FORMAT_VERSION);
        out.u16(0);
        out.u64(self.generation);
        out.u64(self.taken);
        out.u64(self.length);
        out.u32(self.crc);
        out.pad();
        seal(page);
    }

    /// What a page says.
    ///
    /// # Errors
    /// [`FormatError::Magic`] where nothing was kept, others where it is damaged.
    pub fn decode(page: &[u8]) -> Result<Self, FormatError> {
        Reader::new(page).magic(MAGIC)?;
        let mut from = Reader::new(unseal(page)?);
        from.magic(MAGIC)?;
        let _ = from.u16()?;
        let (generation, taken) = (from.counter("generation")?, from.u64()?);
        Ok(Self { generation, taken, length: from.u64()?, crc: from.u32()? })
    }
}
