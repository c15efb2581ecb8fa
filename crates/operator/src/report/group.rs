// SPDX-License-Identifier: Apache-2.0
//! What a host tells of its disk groups and their devices.

use super::Health;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How a line of attention begins if nothing was destaged for long.
pub const DESTAGE_STOOD_STILL: &str = "nothing was destaged from the write buffer";
/// How a line of attention begins if scrub found blocks that it could not repair.
pub const BLOCKS_LOST: &str = "scrub could not repair";
/// How one begins if it found some and wrote them again from other copies.
pub const BLOCKS_MENDED: &str = "scrub found";

/// One disk group of the host that was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GroupReport {
    /// Name of its host.
    pub host: String,
    /// The group's id; empty where it did not open so far.
    pub id: String,
    /// Whether it serves; one that is open may still take no writes.
    pub is_open: bool,
    /// Yellow where it or a device of it does not do all of its work.
    #[serde(default)]
    pub health: Health,
    /// Fill of the write buffer, 0 to 1.
    pub buffer_fill: f64,
    /// Bytes of the write buffer.
    #[serde(default)]
    pub buffer_bytes: u64,
    /// Its read cache, where it is a hybrid group.
    #[serde(default)]
    pub read_cache: Option<ReadCacheReport>,
    /// Writes of components on it, since its group was opened, that are not whole aligned blocks of
    /// 4,096 bytes, copies of a resync included.
    #[serde(default)]
    pub unaligned_writes: u64,
    /// Bytes that components on it were given to write since its group was opened, copies of a
    /// resync included.
    #[serde(default)]
    pub appended_bytes: u64,
    /// Of them, bytes of large writes whose data went to capacity and not to the write buffer.
    #[serde(default)]
    pub direct_bytes: u64,
    /// Bytes of such writes that stayed where they were written first: written once.
    #[serde(default)]
    pub mapped_bytes: u64,
    /// What limits writes now: `nothing`, `destage (buffer 97 % full)` or `cache device`.
    #[serde(default)]
    pub limited_by: String,
    /// Writes that are not durable yet.
    #[serde(default)]
    pub writes_waiting: u64,
    /// Age of what has been in the write buffer for longest; none where it is empty.
    #[serde(default)]
    pub oldest_entry_seconds: Option<f64>,
    /// Blocks of its write buffer's log that were rotten or unreadable when it was opened or
    /// since.
    #[serde(default)]
    pub rotten_log_blocks: u64,
    /// Requests to its devices since its group was opened.
    #[serde(default)]
    pub requests: RequestsReport,
    /// Bytes of allocated chunks.
    pub used_bytes: u64,
    /// Bytes of capacity.
    pub capacity_bytes: u64,
    /// `ok`, or what is wrong with it.
    pub state: String,
    /// Milliseconds that its recovery took when it was opened.
    pub recovery_ms: f64,
    /// The part of a scrub pass under way that is done, 0 to 1.
    #[serde(default)]
    pub scrub_progress: Option<f64>,
    /// Everything on its capacity devices was verified within so many seconds; none: not all was so
    /// far.
    #[serde(default)]
    pub oldest_unverified_seconds: Option<u64>,
    /// What an operator should look at besides, one line each with the next step.
    #[serde(default)]
    pub attention: Vec<String>,
    /// Its devices, the cache device first.
    #[serde(default)]
    pub devices: Vec<DeviceReport>,
}

/// Requests that a group made to its devices for what was appended since it was opened, by what
/// they were for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct RequestsReport {
    /// To the cache device: commits.
    pub commits: u64,
    /// Reads of the log by destage.
    pub log_read: u64,
    /// To capacity devices: writes of blocks.
    pub blocks: u64,
    /// Direct writes.
    pub direct: u64,
    /// Reads and writes that bring the blocks of two chunks together.
    pub merged: u64,
    /// Journal records.
    pub records: u64,
    /// Journal heads.
    pub heads: u64,
    /// Reads of checksum pages.
    pub pages_read: u64,
    /// Writes of checksum pages.
    pub pages_written: u64,
    /// Writes of pages of chunk maps.
    pub map_pages: u64,
    /// Writes of rows of component tables.
    pub rows: u64,
    /// Reads of what was written, to compare.
    pub read_back: u64,
    /// Flushes.
    pub flushes: u64,
}

/// The read cache of a hybrid group. Reads are counted since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReadCacheReport {
    /// Bytes that it can hold.
    pub size_bytes: u64,
    /// Bytes of the pieces of 64 KiB that something is held of.
    pub used_bytes: u64,
    /// Bytes that are to be kept for volumes.
    #[serde(default)]
    pub asked_bytes: u64,
    /// Those that are kept: less where it is more than may be kept together.
    #[serde(default)]
    pub kept_bytes: u64,
    /// Bytes of memory that its tables take.
    #[serde(default)]
    pub memory_bytes: u64,
    /// Reads that it served.
    pub hits: u64,
    /// Reads that went to capacity.
    pub misses: u64,
    /// Bytes of sequential reads, which go round it.
    pub bypassed_bytes: u64,
    /// Blocks of 4 KiB that the cache device did not give as they were; they were read from
    /// capacity.
    pub rotten_blocks: u64,
    /// Bytes that were read of capacity for readers.
    #[serde(default)]
    pub capacity_bytes: u64,
    /// Bytes of that which were written to the cache.
    #[serde(default)]
    pub filled_bytes: u64,
    /// Bytes written to the cache as they were destaged, so that it stays what capacity is.
    #[serde(default)]
    pub updated_bytes: u64,
    /// Bytes of headers, which let it outlive the host's process.
    #[serde(default)]
    pub header_bytes: u64,
    /// Of fills and headers, for each byte that was read of capacity; none where nothing was.
    #[serde(default)]
    pub written_per_read: Option<f64>,
}

/// Scrub of one capacity device. Counts are blocks of 4 KiB, since the host's start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ScrubReport {
    /// Name of its host.
    pub host: String,
    /// Its path.
    pub device: String,
    /// `idle`, `starting`, `running`, `paused`, or why the pass does not go on.
    pub state: String,
    /// Of the pass under way, 0 to 1.
    pub progress: Option<f64>,
    /// Most bytes per second of the disk group.
    pub bytes_per_second: u64,
    /// Read and compared with their checksums.
    pub verified_blocks: u64,
    /// Found bad.
    pub bad_blocks: u64,
    /// Written again from another copy.
    pub repaired_blocks: u64,
    /// Bad, and not repaired when they were last looked at.
    pub unrepaired_blocks: u64,
    /// Those of the bad ones that the device did not give at all.
    pub read_errors: u64,
    /// Since the last whole pass ended.
    pub last_pass_seconds_ago: Option<u64>,
    /// What it took.
    pub last_pass_seconds: Option<u64>,
    /// Everything on the devices of its group was verified within so many seconds; none: not all
    /// was so far.
    #[serde(default)]
    pub oldest_unverified_seconds: Option<u64>,
    /// Until the next pass begins by itself; none while one is under way or scrub is paused.
    pub next_pass_seconds: Option<u64>,
}

/// What a device is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The write buffer.
    Cache,
    /// Components.
    Capacity,
}

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeviceMedium {
    /// Without moving parts.
    Ssd,
    /// With platters.
    Hdd,
    /// A file.
    File,
    /// A block device of which nothing is known.
    Unknown,
}

/// One device of a disk group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceReport {
    /// Its path.
    pub path: String,
    /// What it is for.
    pub role: Role,
    /// What it is.
    pub kind: DeviceMedium,
    /// The vendor's name of it, where the host knows it.
    pub model: Option<String>,
    /// Its size; 0 where its group did not open.
    pub size_bytes: u64,
    /// Cache: bytes of the write buffer in use. Capacity: bytes of chunks with data, or set aside
    /// for what is in the write buffer.
    pub used_bytes: u64,
    /// Bytes written to it since its group was opened.
    #[serde(default)]
    pub written_bytes: u64,
    /// `ok`, `slow`, `stuck`, `filling up`, `full`, `takes no writes`, `out` (its group serves
    /// without it) or `out of service`.
    pub state: String,
    /// Where its bytes are; of capacity devices of open groups.
    pub space: Option<SpaceReport>,
    /// How it answers; of open groups.
    #[serde(default)]
    pub latency: Option<LatencyReport>,
}

/// How a device answers. A window is 10 s, or longer where there is little to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LatencyReport {
    /// `ok`, `slow` or `stuck`.
    pub health: String,
    /// Operations that it has not answered.
    pub in_flight: u32,
    /// What the oldest of them has waited.
    pub oldest_seconds: Option<u64>,
    /// Reads.
    pub reads: ClassReport,
    /// Writes into the device's cache.
    pub writes: ClassReport,
    /// Durable writes and flushes.
    pub durable: ClassReport,
}

/// How a device answers operations of one class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClassReport {
    /// Operations of the last window; 0: none so far.
    pub operations: u32,
    /// What half of them took at most.
    pub median_us: u64,
    /// The longest.
    pub max_us: u64,
    /// The median of about an hour in which all was well; none where less than a minute is known.
    pub usual_us: Option<u64>,
    /// Whether the device is slow in this class.
    pub is_slow: bool,
}

/// Where the bytes of a capacity device are; together they are its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SpaceReport {
    /// What the store needs for itself.
    pub metadata_bytes: u64,
    /// Chunks of components.
    pub allocated_bytes: u64,
    /// Chunks set aside for data that only the write buffer holds.
    pub reserved_bytes: u64,
    /// Chunks kept for volumes with a reserve.
    pub promised_bytes: u64,
    /// Chunks given back that wait for their discard.
    pub freeing_bytes: u64,
    /// Chunks that any component may take.
    pub free_bytes: u64,
    /// Behind the last chunk.
    pub unusable_bytes: u64,
}

/// One component on a disk group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeldReport {
    /// Its id.
    pub component: String,
    /// Its object's id.
    pub object: String,
    /// Its volume's name; none where the directory names none (any more).
    pub volume: Option<String>,
    /// Its size.
    pub size_bytes: u64,
    /// Bytes of its chunks, set aside or allocated.
    pub used_bytes: u64,
    /// Bytes that are kept for it, those that it has included.
    pub reserve_bytes: u64,
    /// The capacity device that holds it.
    #[serde(default)]
    pub device: String,
}

/// One disk group with all that is on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GroupDetail {
    /// The group.
    #[serde(flatten)]
    pub group: GroupReport,
    /// Its components, by id.
    pub components: Vec<HeldReport>,
}
