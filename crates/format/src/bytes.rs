// SPDX-License-Identifier: Apache-2.0
//! What the structures on devices have in common.
//!
//! Each is a `#[repr(C)]` struct whose name begins with `Raw`, made of little-endian numbers and
//! bytes alone. So it has no padding, it may lie anywhere, and any bytes of its size are one: it is
//! read and written where it lies. What its numbers say is checked afterwards, by whoever makes
//! the type of the same name without `Raw` from it.

use crate::{FORMAT_VERSION, FormatError, PAGE_SIZE};
use base::crc32c;
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Sequences, incarnations and segments stay below it: a million a second last 146,000 years.
const COUNTER_END: u64 = 1 << 62;

/// Asserts the bytes of a structure, and at which of them its fields begin, as docs/formats says.
macro_rules! layout {
    ($raw:ty, $size:literal: $($field:ident $offset:literal),*) => {
        const _: () = {
            assert!(size_of::<$raw>() == $size);
            $(assert!(std::mem::offset_of!($raw, $field) == $offset);)*
        };
    };
}
pub(crate) use layout;

/// A structure as it stands on a device.
pub(crate) trait Raw: FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned {}

impl<T: FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned> Raw for T {}

/// How every structure begins.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawTag {
    pub(crate) magic: [u8; 4],
    version: U16,
    /// The kind of a superblock, the state of a row; 0 in all others, where nobody reads it.
    pub(crate) kind: U16,
}

layout!(RawTag, 8: magic 0, version 4, kind 6);

impl RawTag {
    pub(crate) fn new(magic: [u8; 4], kind: u16) -> Self {
        Self { magic, version: FORMAT_VERSION.into(), kind: kind.into() }
    }

    /// Checks that `bytes` begin with a magic number and the format version, in this order.
    pub(crate) fn check(bytes: &[u8], magic: [u8; 4]) -> Result<(), FormatError> {
        let (found, rest) = prefix::<[u8; 4]>(bytes)?;
        if *found != magic {
            return Err(FormatError::Magic);
        }
        match prefix::<U16>(rest)?.0.get() {
            FORMAT_VERSION => Ok(()),
            found => Err(FormatError::Version { found }),
        }
    }
}

/// A number that rises by one for ever. Readers add to it: one near the end was never written.
pub(crate) fn counter(number: U64, name: &'static str) -> Result<u64, FormatError> {
    let number = number.get();
    if number >= COUNTER_END { Err(FormatError::Field { name }) } else { Ok(number) }
}

/// Whether `count` pieces of `each` bytes from `start` end at or before `end`.
pub(crate) fn fits(start: u64, each: u64, count: u64, end: u64) -> bool {
    let length = each.checked_mul(count);
    length.and_then(|length| start.checked_add(length)).is_some_and(|behind| behind <= end)
}

/// The structure at the start of `bytes`, and what is behind it.
pub(crate) fn prefix<T: Raw>(bytes: &[u8]) -> Result<(&T, &[u8]), FormatError> {
    T::ref_from_prefix(bytes).map_err(|_| FormatError::Length)
}

/// So many structures at the start of `bytes`, and what is behind them.
pub(crate) fn prefix_of<T: Raw>(bytes: &[u8], count: usize) -> Result<(&[T], &[u8]), FormatError> {
    <[T]>::ref_from_prefix_with_elems(bytes, count).map_err(|_| FormatError::Length)
}

/// As [`prefix`], to be filled. Panics where there is no room, which is our own bug.
pub(crate) fn prefix_mut<T: Raw>(bytes: &mut [u8]) -> (&mut T, &mut [u8]) {
    T::mut_from_prefix(bytes).unwrap_or_else(|_| panic!("no room for a structure"))
}

/// As [`prefix_of`], to be filled. Panics where there is no room, which is our own bug.
pub(crate) fn prefix_of_mut<T: Raw>(bytes: &mut [u8], count: usize) -> (&mut [T], &mut [u8]) {
    <[T]>::mut_from_prefix_with_elems(bytes, count)
        .unwrap_or_else(|_| panic!("no room for {count} structures"))
}

/// A page of zeros as the structure that fills it; [`seal`] ends it.
pub(crate) fn blank<T: Raw>(page: &mut [u8]) -> &mut T {
    const { assert!(size_of::<T>() == PAGE_SIZE) }
    assert!(page.len() == PAGE_SIZE, "the structure is a page");
    page.fill(0);
    prefix_mut(page).0
}

/// Puts the checksum of all before it into the last four bytes of a page.
pub(crate) fn seal(page: &mut [u8]) {
    let at = page.len() - 4;
    let crc = crc32c(&page[..at]);
    page[at..].copy_from_slice(&crc.to_le_bytes());
}

/// The structure that fills a page, if the page begins with `magic` and its checksum is right.
pub(crate) fn unseal<T: Raw>(page: &[u8], magic: [u8; 4]) -> Result<&T, FormatError> {
    const { assert!(size_of::<T>() == PAGE_SIZE) }
    RawTag::check(page, magic)?;
    if page.len() != PAGE_SIZE {
        return Err(FormatError::Length);
    }
    let (body, crc) = page.split_at(page.len() - 4);
    if crc32c(body).to_le_bytes() != crc {
        return Err(FormatError::Checksum);
    }
    Ok(prefix(page)?.0)
}
