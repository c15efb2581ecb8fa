// SPDX-License-Identifier: Apache-2.0
//! What a host tells its operator, as the JSON that the command line prints.

use directory::Connections;
use serde::{Deserialize, Serialize};

/// The state of a volume, a disk group or the cluster at a glance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// As redundant as its policy asks for.
    #[default]
    Green,
    /// Serves I/O with less redundancy than its policy asks for, or needs to be looked at.
    Yellow,
    /// Cannot serve I/O.
    Red,
}

/// Whether a host takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostState {
    /// Its lease in the directory is held.
    Up,
    /// It is, and the host has not answered for a second or more.
    #[serde(rename = "not answering")]
    NotAnswering,
    /// It is not.
    Down,
}

/// One host of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostReport {
    /// Its name.
    pub name: String,
    /// Whether it takes part.
    pub state: HostState,
    /// Where other hosts reach it.
    pub peer: String,
    /// How long it has not answered, as the host that was asked saw it; none where it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_seconds: Option<u64>,
}

/// One component of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentReport {
    /// Which object of the volume it is of, from 0.
    #[serde(default)]
    pub object: u64,
    /// Name of its host.
    pub host: String,
    /// The disk group of that host that it is on; empty from hosts that did not say.
    #[serde(default)]
    pub group: String,
    /// `active`, `absent`, `degraded` or `resyncing`, as the directory says.
    pub state: String,
    /// Bytes still to copy; zero unless it is resyncing. Exact where the owner was asked.
    pub resync_bytes_left: u64,
    /// Client writes that wait for it while it is being resynced: its host is slower than the load.
    #[serde(default)]
    pub writes_waiting: u64,
    /// Why it is not active or not there, where that is known: the owner knows most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// One volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeReport {
    /// Its name.
    pub name: String,
    /// Its size.
    pub size_bytes: u64,
    /// Failures it tolerates.
    pub ftt: u8,
    /// Part of its size that is kept for it, percent.
    #[serde(default)]
    pub reserve_percent: u8,
    /// Who may use it beside whom.
    #[serde(default)]
    pub connections: Connections,
    /// Its state.
    pub health: Health,
    /// How long it has had less redundancy than its policy asks for, as the host that was asked saw
    /// it; none where it has all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduced_seconds: Option<u64>,
    /// Name of the host that orders its I/O, if any.
    pub owner: Option<String>,
    /// How often the owner changed.
    pub term: u32,
    /// One URI per host, in the order of the host list.
    pub nbd: Vec<String>,
    /// Its components; of all objects where it is larger than one object may be.
    pub components: Vec<ComponentReport>,
    /// Clients connected through the host that was asked.
    pub clients: u64,
    /// What its creator should know; said once, when it is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// One disk group of the host that was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Bytes that components on it were given to write since its group was opened, copies of a
    /// resync included.
    #[serde(default)]
    pub appended_bytes: u64,
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

/// The read cache of a hybrid group. Reads are counted since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadCacheReport {
    /// Bytes that it can hold.
    pub size_bytes: u64,
    /// Bytes of the pieces of 64 KiB that something is held of.
    pub used_bytes: u64,
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The write buffer.
    Cache,
    /// Components.
    Capacity,
}

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceReport {
    /// Its path.
    pub path: String,
    /// What it is for.
    pub role: Role,
    /// What it is.
    pub kind: DeviceKind,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupDetail {
    /// The group.
    #[serde(flatten)]
    pub group: GroupReport,
    /// Its components, by id.
    pub components: Vec<HeldReport>,
}

/// Turns of a host's one thread in which one task took so long that others waited, since its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnsReport {
    /// Name of its host.
    pub host: String,
    /// Turns longer than 20 ms.
    pub long: u64,
    /// The longest of them, milliseconds; zero where there was none.
    pub longest_ms: f64,
    /// The task that took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_task: Option<String>,
    /// How long ago that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_seconds_ago: Option<f64>,
}

impl TurnsReport {
    pub(crate) fn new(host: String, turns: env::LongTurns, now: base::Instant) -> Self {
        let any = (turns.count > 0).then_some(turns);
        Self {
            host,
            long: turns.count,
            longest_ms: turns.longest.as_secs_f64() * 1e3,
            longest_task: any.map(|turns| turns.task.to_owned()),
            longest_seconds_ago: any.map(|turns| now.since(turns.at).as_secs_f64()),
        }
    }
}

/// A component that the directory does not account for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrphanReport {
    /// Its id.
    pub component: String,
    /// Its object's id.
    pub object: String,
    /// Its volume's name; this and the next five are none where it says nothing of itself.
    pub volume: Option<String>,
    /// Its volume's id.
    pub volume_id: Option<String>,
    /// Which of the volume's objects it is of, from 1.
    pub index: Option<u32>,
    /// How many objects the volume has.
    pub objects: Option<u32>,
    /// The volume's size.
    pub volume_bytes: Option<u64>,
    /// Failures that the volume tolerates.
    pub ftt: Option<u8>,
    /// Name of its host.
    pub host: String,
    /// Its disk group.
    pub group: String,
    /// Why it is kept and not served.
    pub why: String,
    /// Since when, seconds since 1970 by its host's clock.
    pub since: u64,
    /// Its size.
    pub size_bytes: u64,
    /// Bytes of its chunks.
    pub used_bytes: u64,
    /// Of the last owner that it knew.
    pub term: u32,
    /// The last write that it has, `term.counter`.
    pub durable: String,
    /// It lost data.
    pub is_damaged: bool,
    /// Nothing was ever written to it.
    pub is_empty: bool,
    /// When it was given up for its space, seconds since 1970: another host had all of it.
    #[serde(default)]
    pub given_up: Option<u64>,
}

/// What one host knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusReport {
    /// Name of the host that was asked.
    pub host: String,
    /// The worst health of all volumes; red where a host lost its directory and cannot know.
    pub health: Health,
    /// Whether the host reaches the directory.
    pub directory: bool,
    /// All hosts.
    pub hosts: Vec<HostReport>,
    /// All volumes.
    pub volumes: Vec<VolumeReport>,
    /// The asked host's own groups.
    pub groups: Vec<GroupReport>,
    /// The asked host's long turns.
    #[serde(default)]
    pub turns: Vec<TurnsReport>,
    /// What is wrong with the directory, one line each with the command that helps.
    #[serde(default)]
    pub alarms: Vec<String>,
    /// What is wrong with the backups of the directory on the asked host's disk groups. Yellow, and
    /// an alarm where no host has a better one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backups: Option<String>,
}

/// A backup of the directory on a disk group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupReport {
    /// Name of the host.
    pub host: String,
    /// The disk group.
    pub group: String,
    /// What restoring names it by; the highest of a host is its newest.
    pub number: u64,
    /// When it was taken, seconds since 1970.
    pub taken: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Volumes in it; none where it cannot be read.
    pub volumes: Option<usize>,
    /// Why it cannot be restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
}

/// A backup that was put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreReport {
    /// The host that had it.
    pub host: String,
    /// Its disk group.
    pub group: String,
    /// Its number.
    pub number: u64,
    /// When it was taken, seconds since 1970.
    pub taken: u64,
    /// Records in it.
    pub records: usize,
    /// Volumes in it.
    pub volumes: usize,
}
