// SPDX-License-Identifier: Apache-2.0
//! What a host tells its operator, as the JSON that the command line prints.

use serde::{Deserialize, Serialize};

/// The state of a volume or of the cluster at a glance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// As redundant as its policy asks for.
    Green,
    /// Serves I/O with less redundancy than its policy asks for.
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
}

/// One component of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentReport {
    /// Name of its host.
    pub host: String,
    /// `active`, `absent`, `degraded` or `resyncing`, as the directory says.
    pub state: String,
    /// Bytes still to copy; zero unless it is resyncing. Exact where the owner was asked.
    pub resync_bytes_left: u64,
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
    /// Its state.
    pub health: Health,
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
}

/// One disk group of the host that was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupReport {
    /// Name of its host.
    pub host: String,
    /// The group's id.
    pub id: String,
    /// Fill of the write buffer, 0 to 1.
    pub buffer_fill: f64,
    /// Bytes of capacity in use.
    pub used_bytes: u64,
    /// Bytes of capacity.
    pub capacity_bytes: u64,
    /// `ok`, or what is wrong with it.
    pub state: String,
    /// Milliseconds that its recovery took at the last start.
    pub recovery_ms: f64,
    /// What an operator should look at besides, one line each with the next step.
    #[serde(default)]
    pub attention: Vec<String>,
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
    /// Until the next pass begins by itself; none while one is under way or scrub is paused.
    pub next_pass_seconds: Option<u64>,
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
}
