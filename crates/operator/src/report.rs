// SPDX-License-Identifier: Apache-2.0
//! What a host tells its operator, as the JSON that the command line prints.

mod access;
mod domains;
mod group;
mod health;
mod maintenance;
mod memory;
mod metrics;
mod placement;
mod policy;
mod receivers;
mod resync;
mod writes;

pub use access::{
    InviteReport, JoinReport, NewCodeReport, NewSessionReport, NewTokenReport, SessionReport,
    TokenReport, UserReport,
};
use directory::{ClusterKind, Connections, Labels, Writers};
pub use domains::{DomainReport, DomainsReport};
pub use group::{
    BLOCKS_LOST, BLOCKS_MENDED, ClassReport, DESTAGE_STOOD_STILL, DeviceMedium, DeviceReport,
    GroupDetail, GroupReport, HeldReport, LatencyReport, ReadCacheReport, RequestsReport, Role,
    ScrubReport, SpaceReport,
};
pub use health::{CheckReport, CheckState, Health, HealthChange, HealthHistory, HealthReport};
pub use maintenance::{MaintenanceReport, VolumeWithoutHost};
pub use memory::{MemoryPart, MemoryReport, MemoryUse};
pub use metrics::{
    LinksReport, MetricsReport, OperationKind, OperationReport, OwnedVolume, ResyncTotals,
    StageTotal, TrafficReport, VolumeTally,
};
pub use placement::{LayoutReport, PlaceKind, PlaceReport, PlacementReport};
pub use policy::{
    ComplianceReport, ComplianceState, EffectReport, Follower, LimitedReport, NotFollowing,
    PolicyCheckReport, PolicyEditReport, PolicyReport, VolumePolicy,
};
pub use receivers::{NotifyTestReport, ReceiverReport, ReceiversReport, way_without_secrets};
pub use resync::seconds_left;
pub use resync::{ResyncReason, ResyncReport, ResyncSum};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
pub use writes::{StageReport, WritesReport};

/// Whether a host takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostReport {
    /// Its name.
    pub name: String,
    /// The host that it is one of several shards of; none: it is the whole host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Whether it takes part.
    pub state: HostState,
    /// Where other hosts reach it.
    pub peer: String,
    /// How long it has not answered, as the host that was asked saw it; none where it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_seconds: Option<u64>,
    /// The fault domains that it is in, the outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<String>,
    /// What its release knows; none where it is down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<u32>,
    /// How far its maintenance is; none where it is not in maintenance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<MaintenanceReport>,
}

impl HostReport {
    /// The name of the host that it is, or is a shard of.
    #[must_use]
    pub fn host(&self) -> &str {
        self.host.as_ref().unwrap_or(&self.name)
    }
}

/// The hosts, each with its shards, in the order of the first of these.
#[must_use]
pub fn by_host(shards: &[HostReport]) -> Vec<(&str, Vec<&HostReport>)> {
    let mut hosts: Vec<(&str, Vec<&HostReport>)> = Vec::new();
    for shard in shards {
        match hosts.iter_mut().find(|(name, _)| *name == shard.host()) {
            Some((_, all)) => all.push(shard),
            None => hosts.push((shard.host(), vec![shard])),
        }
    }
    hosts
}

/// The names of the shards that a name is of: one of them, or all of a host. None: it is unknown.
#[must_use]
pub fn shards_of(shards: &[HostReport], name: &str) -> Vec<String> {
    let is_meant = |one: &&HostReport| one.name == name || one.host() == name;
    shards.iter().filter(is_meant).map(|one| one.name.clone()).collect()
}

/// One component of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ComponentReport {
    /// Which object of the volume it is of, from 0.
    #[serde(default)]
    pub object: u64,
    /// Name of its host.
    pub host: String,
    /// The innermost fault domain that its host is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
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
    /// The host whose copy goes when this one is active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
}

/// One copy that began to move, or that stays after all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MovedCopy {
    /// Which object of the volume it is of, from 0.
    pub object: u64,
    /// Name of the host that it goes to; none where it stays.
    pub to: Option<String>,
}

/// What a move of a volume's copies came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MoveReport {
    /// The volume.
    pub volume: String,
    /// Copies that began to move now, or to stay.
    pub begun: Vec<MovedCopy>,
    /// Copies that were on their way before.
    pub under_way: u64,
    /// Why others did not, each reason once.
    pub refused: Vec<String>,
}

/// A volume that goes on from copies that are behind, or could.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StaleReport {
    /// The volume.
    pub volume: String,
    /// Its parts, all of them.
    pub parts: u32,
    /// Those of which no whole copy is within reach.
    pub old: Vec<StalePart>,
    /// Whether it was done, or only asked about.
    pub is_done: bool,
}

/// One part of a volume, and the copy that it goes on from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StalePart {
    /// Which part, from 1 on.
    pub part: u32,
    /// The host of that copy.
    pub from: String,
    /// Hosts whose copies had everything and count no more.
    pub given_up: Vec<String>,
    /// What it missed was being copied to it: it is partly of now, partly of before.
    pub was_returning: bool,
}

/// Settings of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterReport {
    /// What new disk groups are.
    #[serde(default)]
    pub kind: ClusterKind,
    /// Seconds that a copy may be away before another host gets it; none: an operator repairs.
    pub repair_delay_seconds: Option<u64>,
    /// Bytes a second that each host copies to copies that are behind; none: no limit.
    #[serde(default)]
    pub resync_bytes_per_second: Option<u64>,
    /// Whether copies move so that hosts are filled alike.
    #[serde(default)]
    pub rebalances: bool,
    /// Whether nothing is provisioned where one host could not be made again on the others.
    #[serde(default)]
    pub rebuild_reserve: bool,
    /// Whether links between shards are encrypted, by ends that prove who they are.
    #[serde(default)]
    pub encrypt_links: bool,
    /// What all hosts know: nothing newer is used.
    #[serde(default)]
    pub level: u32,
    /// The host that could not, and what is missing; none where any one host may be lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_rebuilt: Option<String>,
}

/// What the release of a host knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostLevel {
    /// Its name.
    pub host: String,
    /// The level; none where it is down.
    pub level: Option<u32>,
}

/// What raising the level of the cluster comes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UpgradeReport {
    /// The level that it had.
    pub from: u32,
    /// The one that it has then; the same where there is nothing to raise.
    pub to: u32,
    /// What each host knows.
    pub hosts: Vec<HostLevel>,
}

/// One copy that is made again on another host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RepairedCopy {
    /// The volume.
    pub volume: String,
    /// Which object of it, from 0.
    pub object: u64,
    /// Name of the host that it is made on.
    pub to: String,
}

/// A copy that is not made again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotRepaired {
    /// The volume.
    pub volume: String,
    /// Why not.
    pub why: String,
}

/// What a repair on demand came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RepairReport {
    /// Copies that are made again from now on.
    pub begun: Vec<RepairedCopy>,
    /// Those that are not, each reason once for each volume.
    pub refused: Vec<NotRepaired>,
}

/// A host was taken out of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RemovalReport {
    /// Its name.
    pub host: String,
    /// Copies that it had, one for each part of a volume: they are made again elsewhere.
    pub copies: u64,
}

/// One volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
    /// For which part of its size read cache is kept, percent.
    #[serde(default)]
    pub cache_percent: u8,
    /// Read cache that it has on hybrid disk groups, by host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cached: Vec<CachedReport>,
    /// Over how many parts what it gets is striped; 1: not at all.
    #[serde(default = "crate::command::one")]
    pub stripe_width: u8,
    /// The host that all of it is kept on; none: it is kept wherever there is room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<HomeReport>,
    /// How much of it is not striped so, for it was made before.
    #[serde(default)]
    pub otherwise_striped_bytes: u64,
    /// Who may use it beside whom.
    #[serde(default)]
    pub connections: Connections,
    /// Who writes to it.
    #[serde(default)]
    pub writer: WriterReport,
    /// The policy that it follows; none where its rules are its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<VolumePolicy>,
    /// What an operator calls it beside its name.
    #[serde(default)]
    pub labels: Labels,
    /// Whether it is as its rules ask for.
    #[serde(default)]
    pub compliance: ComplianceReport,
    /// Its state.
    pub health: Health,
    /// How long it has had less redundancy than its policy asks for, as the host that was asked saw
    /// it; none where it has all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduced_seconds: Option<u64>,
    /// In how many seconds a missing copy is made again on another host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair_in_seconds: Option<u64>,
    /// Why none is, where one is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_repaired: Option<String>,
    /// In how many seconds everything is copied to copies that are behind, if it goes on as now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied_in_seconds: Option<u64>,
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
    /// Hosts at which requests waited for the volume's limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limited: Vec<LimitedReport>,
    /// What its creator should know; said once, when it is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What a volume has of the read cache of one host, bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CachedReport {
    /// Name of the host.
    pub host: String,
    /// Of its pieces that are there.
    pub held_bytes: u64,
    /// That are to be kept for it there.
    pub asked_bytes: u64,
    /// That are kept: less where volumes ask for more than may be kept together.
    pub kept_bytes: u64,
}

/// The host that all of a volume is kept on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HomeReport {
    /// Its name.
    pub host: String,
    /// Parts of the volume that are on other hosts.
    #[serde(default)]
    pub elsewhere: u64,
    /// Why these do not move there now; none: they move, or there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_moved: Option<String>,
}

/// Who writes to a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WriterReport {
    /// Through how many hosts it is written.
    pub writers: Writers,
    /// The host that is the writer. None where any host may write, or where nobody has written
    /// since the last one gave it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Rises with each change of the writer; 0 where there never was one.
    pub epoch: u32,
    /// What the last change waits for, before the writer may write; empty where it is done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<String>,
}

/// Turns of a host's one thread in which one task took so long that others waited, since its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
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
    /// Of the host of this name, as it counts them now.
    #[must_use]
    pub fn new(host: String, turns: env::LongTurns, now: base::Instant) -> Self {
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
    /// Nothing was ever written to it, and no record names it: it goes by itself.
    pub is_empty: bool,
    /// When it was given up for its space, seconds since 1970: another host had all of it.
    #[serde(default)]
    pub given_up: Option<u64>,
}

/// A deleted volume that can be brought back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TrashedReport {
    /// The name that it had.
    pub name: String,
    /// Its id: several may have had one name.
    pub id: String,
    /// Its size.
    pub size_bytes: u64,
    /// When it was deleted, seconds of the wall clock.
    pub deleted: u64,
    /// How long ago that was.
    pub deleted_seconds_ago: u64,
    /// When it goes for good, unless its space is needed before.
    pub goes_in_seconds: u64,
}

/// What one host knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StatusReport {
    /// Name of the host that was asked.
    pub host: String,
    /// The worst health of all volumes; red where a host lost its directory and cannot know.
    pub health: Health,
    /// Whether the host reaches the directory.
    pub directory: bool,
    /// All hosts.
    pub hosts: Vec<HostReport>,
    /// What all hosts know: nothing newer is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<u32>,
    /// Names of hosts that were taken out of the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
    /// All volumes.
    pub volumes: Vec<VolumeReport>,
    /// Deleted volumes that can be brought back, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trash: Vec<TrashedReport>,
    /// The asked host's own groups.
    pub groups: Vec<GroupReport>,
    /// The asked host's long turns.
    #[serde(default)]
    pub turns: Vec<TurnsReport>,
    /// Components that are filled or brought up to date by the asked host.
    #[serde(default)]
    pub resyncs: Vec<ResyncReport>,
    /// Where the time of writes goes on the asked host.
    #[serde(default)]
    pub writes: Vec<WritesReport>,
    /// The asked host's memory.
    #[serde(default)]
    pub memory: Vec<MemoryReport>,
    /// What is wrong with the directory, one line each with the command that helps.
    #[serde(default)]
    pub alarms: Vec<String>,
    /// What is wrong with the backups of the directory on the asked host's disk groups. Yellow, and
    /// an alarm where no host has a better one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backups: Option<String>,
}

/// A backup of the directory on a disk group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
