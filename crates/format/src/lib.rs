// SPDX-License-Identifier: Apache-2.0
//! Every byte on our devices: pure encoding and decoding, no I/O.
//!
//! Byte for byte the layouts stand in `docs/formats/cache-device.md` and
//! `docs/formats/capacity-device.md`. All numbers are little-endian. Guarantees: what was encoded
//! decodes to the same; bytes of any content never panic, they are a named error. Not guaranteed:
//! that a decoded number makes sense on this device; ranges against geometry are the caller's.
#![forbid(unsafe_code)]

mod bytes;
mod commit;
mod describe;
mod journal;
mod kept;
mod pages;
mod readcache;
mod superblock;
mod table;

pub use commit::{
    COMMIT_HEADER_MAX, Commit, EntryKind, KnownCommit, LogEntry, Summary, looks_like_commit,
};
pub use describe::{Description, PEERS_MAX, Sibling, VOLUME_NAME_MAX, Worth};
pub use journal::{Item, JournalRecord, RECORD_ITEMS_MAX};
pub use kept::KeptHeader;
pub use pages::{
    CRC_PAGE_CHUNKS, ChunkEntry, CrcPage, JOURNAL_HEAD_SLOTS, JournalHead, MAP_PAGE_CHUNKS,
    MapPage, NO_COMPONENT,
};
pub use readcache::{
    LINES_MAX, LineHeader, PIECE_BLOCKS, PIECE_SIZE, PIECES, READ_CACHE_PERCENT_MAX,
    ReadCacheLayout, SlotHeader,
};
pub(crate) use superblock::SEGMENTS_MIN;
pub use superblock::{
    CAPACITY_DEVICES_MAX, CacheLayout, CapacityLayout, DeviceKind, SUPERBLOCK_SLOTS, Superblock,
};
pub use table::{COMPONENT_SECTORS_MAX, ComponentRow, OwnerMeta};

use thiserror::Error;

/// Bytes of a page: every structure is a whole number of them.
pub const PAGE_SIZE: usize = 4096;
/// The version of all formats here; a change of any layout raises it.
pub const FORMAT_VERSION: u16 = 3;

/// Why bytes of a device are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FormatError {
    /// other magic number: something else stands here, or nothing
    #[error("not the expected structure")]
    Magic,
    /// written by another version of the format
    #[error("format version {found} is not {FORMAT_VERSION}")]
    Version {
        /// What stands there.
        found: u16,
    },
    /// the checksum does not match the bytes
    #[error("checksum mismatch")]
    Checksum,
    /// fewer bytes than the structure has
    #[error("truncated")]
    Length,
    /// a field holds a value that is never written
    #[error("field {name} is out of range")]
    Field {
        /// Its name.
        name: &'static str,
    },
}
