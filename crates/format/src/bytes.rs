// SPDX-License-Identifier: Apache-2.0
//! Little-endian fields written and read in order, and pages that carry their own checksum.

use crate::{FORMAT_VERSION, FormatError, PAGE_SIZE};
use base::crc32c;

/// Sequences, incarnations and segments stay below it: a million a second last 146,000 years.
const COUNTER_END: u64 = 1 << 62;

/// Writes fields one after the other; panics beyond the end, which is our own bug.
pub(crate) struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(out: &'a mut [u8]) -> Self {
        Self { out, at: 0 }
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes(&[value]);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Zeros from here to the end.
    pub(crate) fn pad(&mut self) {
        self.out[self.at..].fill(0);
        self.at = self.out.len();
    }
}

/// Reads fields one after the other; beyond the end is an error.
pub(crate) struct Reader<'a> {
    from: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(from: &'a [u8]) -> Self {
        Self { from }
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], FormatError> {
        let (head, rest) = self.from.split_at_checked(count).ok_or(FormatError::Length)?;
        self.from = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let (head, rest) = self.from.split_first_chunk().ok_or(FormatError::Length)?;
        self.from = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, FormatError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, FormatError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, FormatError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, FormatError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A number that rises by one for ever. Readers add to it: one near the end was never written.
    pub(crate) fn counter(&mut self, name: &'static str) -> Result<u64, FormatError> {
        let number = self.u64()?;
        if number >= COUNTER_END { Err(FormatError::Field { name }) } else { Ok(number) }
    }

    /// Checks a magic number and the format version, in this order.
    pub(crate) fn magic(&mut self, magic: u32) -> Result<(), FormatError> {
        if self.u32()? != magic {
            return Err(FormatError::Magic);
        }
        match self.u16()? {
            FORMAT_VERSION => Ok(()),
            found => Err(FormatError::Version { found }),
        }
    }
}

/// Puts the checksum of all before it into the last four bytes of a page.
pub(crate) fn seal(page: &mut [u8]) {
    let at = page.len() - 4;
    let crc = crc32c(&page[..at]);
    page[at..].copy_from_slice(&crc.to_le_bytes());
}

/// The page without its checksum, if that is right.
pub(crate) fn unseal(page: &[u8]) -> Result<&[u8], FormatError> {
    if page.len() != PAGE_SIZE {
        return Err(FormatError::Length);
    }
    let (body, crc) = page.split_at(page.len() - 4);
    if crc32c(body).to_le_bytes() != crc {
        return Err(FormatError::Checksum);
    }
    Ok(body)
}
