// SPDX-License-Identifier: Apache-2.0
//! Why an I/O of a client failed.

use thiserror::Error;

/// Why an I/O failed. After a failed write the range holds the old or the new bytes, per sector.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum VolumeError {
    /// no owner could complete the request in time; it may still take effect
    #[error("no answer within the time-out")]
    TimedOut,
    /// the capacity below is exhausted
    #[error("no space left")]
    Full,
    /// no good copy of a block is left, or a device failed beyond the policy
    #[error("no good copy")]
    Io,
    /// the volume was deleted while in use
    #[error("the volume is deleted")]
    Deleted,
    /// another host writes to the volume; the write did not happen
    #[error("another host writes to the volume")]
    NotWriter,
    /// offset or length is no multiple of 512
    #[error("offset {offset} or length {bytes} is not a multiple of 512")]
    Unaligned {
        /// Bytes from the start.
        offset: u64,
        /// Length in bytes.
        bytes: u64,
    },
    /// the range ends behind the volume
    #[error("offset {offset} plus {bytes} bytes is beyond the end at {size}")]
    OutOfRange {
        /// Bytes from the start.
        offset: u64,
        /// Length in bytes.
        bytes: u64,
        /// Size of the volume in bytes.
        size: u64,
    },
}
