// SPDX-License-Identifier: Apache-2.0
//! A block device: what a protocol server needs and a volume gives.

use crate::VolumeError;
use env::Slice;
use std::future::Future;

/// Most bytes for which one call of [`Device::extents`] answers: about a thousand chunks, so that
/// the answer stays short.
pub const EXTENTS_SPAN_MAX: u64 = 1 << 30;

/// A block device of 512-byte sectors. Offsets and lengths are bytes, multiples of 512, within the
/// size. Others are refused with [`VolumeError::Unaligned`] and [`VolumeError::OutOfRange`].
///
/// A completed write is durable. Requests run concurrently. Those that overlap take effect one
/// after the other, in some order; a long zeroing or discarding does so step by step. A write whose
/// future is dropped may still take effect.
pub trait Device: Clone + 'static {
    /// Size in bytes, a multiple of 512. It may grow while the device is open.
    fn size(&self) -> u64;

    /// Reads `bytes` bytes from `offset`. They come in order, in pieces that were verified.
    fn read(&self, offset: u64, bytes: u64) -> impl Future<Output = Result<Pieces, VolumeError>>;

    /// Writes all of `payload` at `offset`.
    fn write(&self, offset: u64, payload: Slice) -> impl Future<Output = Result<(), VolumeError>>;

    /// Makes the range read as zeros. Space that is allocated for it stays allocated.
    fn write_zeroes(
        &self,
        offset: u64,
        bytes: u64,
    ) -> impl Future<Output = Result<(), VolumeError>>;

    /// Makes the range read as zeros and gives its space back where that is possible.
    fn discard(&self, offset: u64, bytes: u64) -> impl Future<Output = Result<(), VolumeError>>;

    /// Returns when every write that had completed before the call is durable.
    fn flush(&self) -> impl Future<Output = Result<(), VolumeError>>;

    /// What is allocated: extents in order from `offset`, without gaps, at least one unless `bytes`
    /// is 0. They may end before `offset + bytes` (see [`EXTENTS_SPAN_MAX`]), never behind it.
    fn extents(
        &self,
        offset: u64,
        bytes: u64,
    ) -> impl Future<Output = Result<Vec<Extent>, VolumeError>>;
}

/// A run of bytes of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Length in bytes, a multiple of 512, at least 512.
    pub bytes: u64,
    /// Whether space is allocated. Bytes without it read as zeros.
    pub is_allocated: bool,
}

impl Extent {
    /// Appends an extent to `list`, merged with the last one where both are of one kind.
    pub fn append(list: &mut Vec<Extent>, next: Extent) {
        match list.last_mut() {
            Some(last) if last.is_allocated == next.is_allocated => last.bytes += next.bytes,
            _ => list.push(next),
        }
    }
}

/// The bytes of one read, in order, in one or more slices. One slice costs no allocation.
#[derive(Clone, Debug, Default)]
pub struct Pieces {
    first: Option<Slice>,
    rest: Vec<Slice>,
}

impl Pieces {
    /// Appends a slice.
    pub fn push(&mut self, slice: Slice) {
        match self.first {
            None => self.first = Some(slice),
            Some(_) => self.rest.push(slice),
        }
    }

    /// The slices in order.
    pub fn iter(&self) -> impl Iterator<Item = &Slice> {
        self.first.iter().chain(&self.rest)
    }

    /// Bytes in all slices.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.iter().map(|slice| slice.len() as u64).sum()
    }
}

impl From<Slice> for Pieces {
    fn from(slice: Slice) -> Self {
        Self { first: Some(slice), rest: Vec::new() }
    }
}
