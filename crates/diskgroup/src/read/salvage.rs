// SPDX-License-Identifier: Apache-2.0
//! Reading the log around blocks that the device does not give.
//!
//! What is not given reads as zeros: no header decodes from them, and data is compared with its
//! checksum before anybody uses it. So a block that cannot be read is as good as one that rotted.

use crate::log::build::to_usize;
use crate::state::GroupInner;
use crate::types::GroupError;
use env::{Buf, IoError};

/// Blocks of one segment that a device may not give before it counts as one that fails altogether:
/// a damaged page of flash, or a bad place of a track, takes so many along at most.
pub(crate) const UNREADABLE_MAX: usize = 16;
/// Bytes of one read, and of one when that fails.
const STEP: usize = 128 << 10;
const BLOCK: usize = 4096;

/// Bytes of the cache device.
pub(crate) struct Salvaged {
    pub(crate) bytes: Buf,
    /// Where blocks begin that the device does not give, in rising order.
    pub(crate) unreadable: Vec<usize>,
    /// What it said of the last of them.
    pub(crate) error: Option<IoError>,
}

/// Whether a device said that it cannot give this, and may give what is beside it.
pub(crate) fn is_bad_place(error: &IoError) -> bool {
    matches!(error, IoError::Device { .. })
}

/// Reads `length` bytes of the cache device from `start` on, block by block where that fails.
pub(crate) async fn salvage(
    inner: &GroupInner,
    start: u64,
    length: usize,
) -> Result<Salvaged, GroupError> {
    let failed = |source| GroupError::Device { device: inner.cache_path.clone(), source };
    let mut bytes = inner.env.buf(length);
    let (mut unreadable, mut last) = (Vec::new(), None);
    for from in (0..length).step_by(STEP) {
        let end = length.min(from + STEP);
        match inner.cache.read(start + from as u64, inner.env.buf(end - from)).await {
            Ok(part) => {
                bytes[from..end].copy_from_slice(&part);
                continue;
            }
            Err(error) if is_bad_place(&error) => {}
            Err(error) => return Err(failed(error)),
        }
        for from in (from..end).step_by(BLOCK) {
            let end = end.min(from + BLOCK);
            match inner.cache.read(start + from as u64, inner.env.buf(end - from)).await {
                Ok(part) => bytes[from..end].copy_from_slice(&part),
                Err(error) if is_bad_place(&error) && unreadable.len() < UNREADABLE_MAX => {
                    bytes[from..end].fill(0);
                    unreadable.push(from);
                    last = Some(error);
                }
                Err(error) => return Err(failed(error)),
            }
        }
    }
    Ok(Salvaged { bytes, unreadable, error: last })
}

/// The same in one read, as long as that goes well.
pub(crate) async fn read_or_salvage(
    inner: &GroupInner,
    start: u64,
    length: u64,
) -> Result<Salvaged, GroupError> {
    match inner.cache.read(start, inner.env.buf(to_usize(length))).await {
        Ok(bytes) => Ok(Salvaged { bytes, unreadable: Vec::new(), error: None }),
        Err(error) if is_bad_place(&error) => salvage(inner, start, to_usize(length)).await,
        Err(source) => Err(GroupError::Device { device: inner.cache_path.clone(), source }),
    }
}
