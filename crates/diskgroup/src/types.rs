// SPDX-License-Identifier: Apache-2.0
//! What goes in and out of a disk group.

use crate::limits::GroupLimits;
use crate::mutations::Mutations;
use crate::pressure::Pressure;
use base::{ComponentId, Incarnation, Lsn, Mark, ObjectId, SectorRange, Term, format_size};
use env::{IoError, Slice};
use format::FormatError;
use std::time::Duration;
use thiserror::Error;

/// What a replica remembers about its owner; see [`format::OwnerMeta`].
pub type ComponentMeta = format::OwnerMeta;

/// The devices of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSpec {
    /// Path of the cache device: file or block device.
    pub cache: String,
    /// Paths of the capacity devices, 1 to [`format::CAPACITY_DEVICES_MAX`].
    pub capacity: Vec<String>,
}

/// What a group is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupKind {
    /// The cache device is all write buffer; reads go straight to capacity.
    #[default]
    AllFlash,
    /// Magnetic capacity: a part of the cache device holds what was read lately.
    Hybrid {
        /// That part, 1 to [`format::READ_CACHE_PERCENT_MAX`].
        read_cache_percent: u8,
    },
}

impl GroupKind {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AllFlash => "all-flash",
            Self::Hybrid { .. } => "hybrid",
        }
    }

    /// A hybrid group as it is unless something else is asked for.
    pub const HYBRID: Self = Self::Hybrid { read_cache_percent: 70 };
}

/// What is chosen when a group is formatted, and stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupShape {
    /// What it is.
    pub kind: GroupKind,
    /// Bytes of a log segment; small ones let tests lap the ring.
    pub segment_size: u64,
}

impl Default for GroupShape {
    fn default() -> Self {
        let segment_size = GroupOptions::default().segment_size;
        Self { kind: GroupKind::AllFlash, segment_size }
    }
}

impl From<GroupKind> for GroupShape {
    fn from(kind: GroupKind) -> Self {
        Self { kind, ..Self::default() }
    }
}

impl From<u64> for GroupShape {
    /// All-flash, with segments of so many bytes.
    fn from(segment_size: u64) -> Self {
        Self { kind: GroupKind::AllFlash, segment_size }
    }
}

/// Sizes of files to create, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateSizes {
    /// The cache device.
    pub cache: u64,
    /// Each capacity device.
    pub capacity: u64,
}

/// What can be chosen when a group is opened or formatted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupOptions {
    /// Bytes of checksum pages in memory, for each capacity device of a group that is opened alone.
    /// The groups of a host share those of a [`crate::StoreMemory`] instead.
    pub crc_cache_bytes: usize,
    /// Bytes of a log segment, chosen at format.
    pub segment_size: u64,
    /// Destage writes in flight.
    pub destage_depth: usize,
    /// Nothing appended for so long: the buffer drains.
    pub idle_after: Duration,
    /// A device of whose chunks so many percent are taken has no room for components of new
    /// volumes; 1 to 100.
    pub full_percent: u8,
    /// Destage of a hybrid group takes as many segments on at a time as leave room for so many
    /// before appends stand still; 0: however many, for tests.
    pub elevator_room: u64,
    /// Time between two batches of line headers of a read cache.
    pub headers_every: Duration,
    /// A device that leaves an operation unanswered for so long, in whole seconds, stops the group.
    pub stuck_after: Duration,
    /// Bounds of lists, steps and parallelism.
    pub limits: GroupLimits,
    #[doc(hidden)]
    pub mutations: Mutations,
}

impl Default for GroupOptions {
    fn default() -> Self {
        Self {
            crc_cache_bytes: 16 << 20,
            segment_size: 4 << 20,
            destage_depth: 24,
            idle_after: Duration::from_secs(1),
            full_percent: 90,
            elevator_room: 2,
            headers_every: Duration::from_secs(1),
            stuck_after: Duration::from_secs(30),
            limits: GroupLimits::default(),
            mutations: Mutations::default(),
        }
    }
}

/// What an append does to its sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendKind {
    /// Data.
    Data,
    /// They read as zeros; no space is taken.
    Zero,
    /// They read as zeros; space may be given back.
    Discard,
}

/// One write of a component.
#[derive(Clone, Debug)]
pub struct Append<'a> {
    /// The component.
    pub component: ComponentId,
    /// Its lsn; lsns of one component rise in the order of the calls.
    pub lsn: Lsn,
    /// The owner's term; the device keeps the one in the lsn.
    pub term: Term,
    /// Within one 1 MiB chunk.
    pub range: SectorRange,
    /// What it does.
    pub kind: AppendKind,
    /// CRC32C per touched block, as `wire::crcs_of` gives them; verified by the caller.
    pub crcs: &'a [u32],
    /// `range.bytes()` bytes for data, else ignored.
    pub payload: Slice,
    /// What becomes true of requests with it (rule 46); at most [`base::MARKS_MAX`].
    pub marks: &'a [Mark],
}

/// What a read brings.
#[derive(Clone, Debug)]
pub struct ReadData {
    /// `range.bytes()` bytes.
    pub payload: Slice,
    /// CRC32C per touched block, of the payload's part.
    pub crcs: wire::Crcs,
}

/// Why stored data is bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadCause {
    /// It does not match its checksum.
    Checksum,
    /// The device does not give it.
    Unreadable,
    /// The device does not give its checksums.
    Metadata,
}

/// Data on capacity that is not what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRange {
    /// Whole blocks within one chunk, cut to the component.
    pub range: SectorRange,
    /// Why.
    pub cause: BadCause,
}

/// A part of a component as scrub found it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// What was looked at, within one chunk; `None` where capacity holds nothing.
    pub range: Option<SectorRange>,
    /// Blocks that were read from capacity and compared.
    pub blocks: u64,
    /// What is bad, in rising order, neighbours of one cause merged.
    pub bad: Vec<BadRange>,
    /// The sector to go on from; `None`: that was the end.
    pub next: Option<u64>,
}

/// How a capacity device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacityStatus {
    /// Its path.
    pub path: String,
    /// Chunks that are allocated.
    pub used_chunks: u64,
}

/// What a group knows about a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentInfo {
    /// Its object.
    pub object: ObjectId,
    /// Its length.
    pub sectors: u64,
    /// What the protocol keeps.
    pub meta: ComponentMeta,
    /// Highest durable lsn.
    pub durable: Lsn,
    /// K.
    pub commit: Lsn,
    /// W: everything up to it is on the capacity devices.
    pub destaged: Lsn,
    /// Chunks that it has on capacity, and those set aside for what only the log holds.
    pub held: u32,
    /// Chunks that are kept for it, those that it has included.
    pub reserve: u32,
    /// Checksum pages were lost: some blocks may only give [`GroupError::BadCrc`] until rewritten.
    pub damaged: bool,
    /// Its write buffer was lost: above W it has only a part of what it acknowledged.
    pub partial: bool,
    /// Since when no record accounts for it, seconds of the wall clock.
    pub orphaned: Option<u64>,
    /// The directory had an older record of its object than it knows of (rule 25).
    pub went_back: bool,
}

/// A part of what changed since an lsn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Ranges that may have changed.
    pub ranges: Vec<SectorRange>,
    /// One bit per chunk from the cursor: whether the component may hold data there.
    pub held: Vec<u64>,
    /// The cursor of the next part.
    pub next: Option<u64>,
}

/// How a group is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupStatus {
    /// Part of the write buffer in use, 0.0 to 1.0.
    pub buffer_fill: f64,
    /// Bytes of the write buffer.
    pub buffer_bytes: u64,
    /// Bytes of all chunks.
    pub capacity_bytes: u64,
    /// Bytes of allocated chunks.
    pub used_bytes: u64,
    /// Why the group takes no more writes.
    pub fenced: Option<String>,
    /// Commits made durable since open.
    pub commits: u64,
    /// Appends made durable since open.
    pub appends: u64,
    /// Appends taken in since open, copies included, that are not whole aligned blocks: destage
    /// reads and merges such a block.
    pub unaligned_writes: u64,
    /// Bytes of data appended since open: what `written_bytes` of its devices is measured by.
    pub appended_bytes: u64,
    /// Of these, bytes of direct writes: their data went to capacity and not to the log; since
    /// open.
    pub direct_bytes: u64,
    /// Bytes of direct writes that destage left where they were, so that they were written once;
    /// since open.
    pub mapped_bytes: u64,
    /// Blocks written to capacity since open.
    pub destaged_blocks: u64,
    /// Entries written again at the log's head since open.
    pub moved_entries: u64,
    /// Blocks whose checksum did not match, since open.
    pub bad_blocks: u64,
    /// Blocks of the write buffer's log that were rotten or unreadable when it was opened or
    /// destaged, since open; what they held was known otherwise, or is bad block by block.
    pub rotten_log_blocks: u64,
    /// Requests to its devices since open.
    pub requests: DeviceRequests,
    /// Appends are held back until destage has made room.
    pub is_pressed: bool,
    /// What holds up writes now.
    pub pressure: Pressure,
    /// What the group is.
    pub kind: GroupKind,
    /// Its read cache; all zeros in an all-flash group.
    pub read_cache: ReadCacheStatus,
}

/// Requests that a group made to its devices for what was appended, by what they are for. Not
/// here: reads for callers, the read cache, scrub, discards, opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceRequests {
    /// Commits of the log.
    pub commits: u64,
    /// Reads of the log by destage.
    pub log_read: u64,
    /// Writes of blocks to capacity: neighbours share one.
    pub blocks: u64,
    /// Direct writes to capacity.
    pub direct: u64,
    /// Reads and writes that bring the blocks of two chunks together.
    pub merged: u64,
    /// Journal records.
    pub records: u64,
    /// Journal heads.
    pub heads: u64,
    /// Reads of checksum pages, for whoever needs them.
    pub pages_read: u64,
    /// Writes of checksum pages.
    pub pages_written: u64,
    /// Writes of pages of chunk maps.
    pub map_pages: u64,
    /// Writes of rows of component tables.
    pub rows: u64,
    /// Reads of structures that were written and flushed.
    pub read_back: u64,
    /// Flushes of capacity devices.
    pub flushes: u64,
}

impl DeviceRequests {
    /// Those to capacity devices.
    #[must_use]
    pub fn to_capacity(&self) -> u64 {
        let data = self.blocks + self.direct + self.merged;
        let blocks = data + self.records + self.heads;
        let pages = self.pages_read + self.pages_written + self.map_pages + self.rows;
        blocks + pages + self.read_back + self.flushes
    }
}

/// How a read cache is; counted since open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCacheStatus {
    /// Bytes of all slots.
    pub bytes: u64,
    /// Slots, of 64 KiB.
    pub slots: u64,
    /// Slots that hold something.
    pub slots_used: u64,
    /// Bytes of those.
    pub used_bytes: u64,
    /// Bytes that are to be kept for components, and those that are: at most
    /// [`CACHE_KEPT_MAX_PERCENT`](crate::CACHE_KEPT_MAX_PERCENT) of all.
    pub asked_bytes: u64,
    /// See above.
    pub kept_bytes: u64,
    /// Bytes of memory that it takes, but for what is under way.
    pub memory_bytes: u64,
    /// Whether everything that outlived the restart was taken over.
    pub is_loaded: bool,
    /// Slots that were.
    pub warm_slots: u64,
    /// Reads that the cache served.
    pub hits: u64,
    /// Reads that went to capacity, and perhaps to the cache.
    pub misses: u64,
    /// Pieces of 64 KiB that were written to the cache after a miss.
    pub fills: u64,
    /// Bytes of reads that went round the cache, of streams.
    pub bypassed_bytes: u64,
    /// Bytes that were read of capacity for readers: with what fills up pieces, and read ahead.
    pub capacity_bytes: u64,
    /// Bytes written to the cache of what was read.
    pub filled_bytes: u64,
    /// Bytes written to the cache of what was destaged, as it was there before.
    pub updated_bytes: u64,
    /// Bytes of headers written to the cache device.
    pub header_bytes: u64,
    /// Blocks of the cache that were not what they should be, and were read from capacity.
    pub rotten_blocks: u64,
}

impl ReadCacheStatus {
    /// Bytes that were written to the cache, by fills and of headers, for each that was read of
    /// capacity; none where nothing was.
    #[must_use]
    pub fn written_per_read(&self) -> Option<f64> {
        let written = self.filled_bytes + self.header_bytes;
        (self.capacity_bytes > 0).then(|| written as f64 / self.capacity_bytes as f64)
    }
}

/// What opening found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Which opening of the group it was (store rule 1).
    pub incarnation: Incarnation,
    /// Time from the first device operation to ready.
    pub duration: Duration,
    /// Segments replayed.
    pub segments: u64,
    /// Segments whose summary was missing and that were scanned.
    pub scanned: u64,
    /// Entries replayed.
    pub entries: u64,
    /// Journal records replayed.
    pub journal_records: u64,
    /// Whether a torn commit was dropped at the log's end.
    pub dropped_torn: bool,
}

/// Which structure of a device is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Structure {
    /// both superblocks
    #[error("superblock")]
    Superblock,
    /// a log segment
    #[error("log segment {0}")]
    Segment(u64),
    /// a row of the component table
    #[error("component table row {0}")]
    Row(u32),
    /// a record of a capacity device's journal
    #[error("journal record {0}")]
    Journal(u64),
    /// a page of the chunk map
    #[error("chunk map page {0}")]
    MapPage(u32),
    /// a page of block checksums
    #[error("checksum page {0}")]
    CrcPage(u32),
    /// the data of a chunk
    #[error("chunk {0}")]
    Chunk(u32),
    /// a line of the read cache
    #[error("read cache line {0}")]
    Line(u32),
}

/// Why a group refuses.
#[derive(Clone, Debug, Error)]
pub enum GroupError {
    /// the device holds something else
    #[error("{device} is not empty: it holds {what}")]
    ForeignData {
        /// Path.
        device: String,
        /// What was recognised.
        what: &'static str,
    },
    /// the device is too small for a group
    #[error("{device} is too small")]
    TooSmall {
        /// Path.
        device: String,
    },
    /// a device cannot be opened, read or written
    #[error("{device}: {source}")]
    Device {
        /// Path.
        device: String,
        /// Why.
        #[source]
        source: IoError,
    },
    /// the device was never formatted
    #[error("{device} is not formatted as a {wanted} device")]
    NotFormatted {
        /// Path.
        device: String,
        /// Cache or capacity.
        wanted: &'static str,
    },
    /// the device belongs to another group or another place in it
    #[error("{device} belongs to another group")]
    WrongGroup {
        /// Path.
        device: String,
    },
    /// what its tables need in memory is not left of what the host's groups may have
    #[error(
        "the disk group of {device} needs {} of memory for its tables, and of the {} that the \
         host's disk groups may have {} are left",
        format_size(needed.next_multiple_of(1 << 20)),
        format_size(*budget >> 20 << 20),
        format_size(*left >> 20 << 20)
    )]
    NoMemory {
        /// Path of the cache device, or of one that was to be added.
        device: String,
        /// Bytes that it needs.
        needed: u64,
        /// Bytes that are left.
        left: u64,
        /// Bytes for the tables of all groups.
        budget: u64,
    },
    /// a structure is damaged; data may be lost here: repair from other replicas
    #[error("{device}: {structure} is damaged: {source}")]
    Corrupt {
        /// Path.
        device: String,
        /// What is damaged.
        structure: Structure,
        /// How.
        #[source]
        source: FormatError,
    },
    /// the device failed while the group was open
    #[error("{text}")]
    Failed {
        /// Path.
        device: String,
        /// Path and cause.
        text: String,
    },
    /// a device failed; the group takes no more writes until it is opened again
    #[error("the disk group is fenced after a device error")]
    Fenced,
    /// no such component here
    #[error("no component {component} here")]
    UnknownComponent {
        /// Which.
        component: ComponentId,
    },
    /// a component of that id is here already, for another object or size
    #[error("component {component} exists already")]
    Exists {
        /// Which.
        component: ComponentId,
    },
    /// no free chunk, or no free row in the component table
    #[error("no space on the capacity device")]
    Full {
        /// Free chunks left.
        free: u64,
    },
    /// the stored bytes are not those that were written; read another replica and repair
    #[error("bad checksum in {range:?}")]
    BadCrc {
        /// The blocks that failed, cut to what was asked for.
        range: SectorRange,
    },
    /// a range beyond the component, across chunks, or with a payload of another length
    #[error("request {range:?} does not fit")]
    Range {
        /// Which.
        range: SectorRange,
    },
    /// a component may be on a device that is not there, and so may its serial
    #[error("no component is made while a capacity device is out of the disk group")]
    DeviceOut,
    /// the group was closed
    #[error("the disk group is closed")]
    Closed,
}

impl GroupError {
    /// Something is damaged on the device with this path.
    pub(crate) fn corrupt(device: &str, structure: Structure, source: FormatError) -> Self {
        Self::Corrupt { device: device.to_owned(), structure, source }
    }

    /// Whether the log is damaged, and nobody else knows what it said.
    #[must_use]
    pub fn is_rotten_log(&self) -> bool {
        matches!(self, Self::Corrupt { structure: Structure::Segment(_), .. })
    }
}

/// The error of an operation on the device with this path.
pub(crate) fn device_error(path: &str) -> impl Fn(IoError) -> GroupError + '_ {
    move |source| GroupError::Device { device: path.to_owned(), source }
}
