// SPDX-License-Identifier: Apache-2.0
//! What an operator may ask a host, and the form of its answers: the JSON that passes the door.

mod admission;
mod parts;

pub use admission::AdmissionStep;
pub(crate) use parts::one;
pub use parts::{GroupConfig, NewVolume, PolicyRules, RateLimit};

use crate::history::PerformanceKind;
use directory::{
    AccessRole, ClusterKind, Connections, Labels, MaintenanceMode, NoticeLevel, ReceiverWay,
    Writers,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What an operator may ask a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Command {
    /// Everything the host knows.
    Status,
    /// What the host counts and measures.
    Metrics,
    /// Creates a volume.
    VolumeCreate(NewVolume),
    /// One disk group of this host, with its components.
    GroupShow {
        /// Its id.
        group: String,
    },
    /// Makes a disk group of empty devices, and opens it.
    GroupCreate {
        /// Its cache device.
        cache: String,
        /// Its capacity devices.
        capacity: Vec<String>,
        /// What it is; `None`: what new groups of the cluster are.
        #[serde(default)]
        kind: Option<ClusterKind>,
        /// Size of files to be made where nothing stands.
        #[serde(default)]
        create_bytes: Option<u64>,
        /// Devices may hold data, which is lost.
        #[serde(default)]
        wipe: bool,
        /// Also devices that do not fit by what the operating system says of them.
        #[serde(default)]
        ignore_device_kind: bool,
    },
    /// Adds an empty capacity device to a disk group.
    GroupExtend {
        /// Its id, the first digits, or one of its devices.
        group: String,
        /// The new device.
        device: String,
        /// Size of the file to be made where nothing stands.
        #[serde(default)]
        create_bytes: Option<u64>,
        /// The device may hold data, which is lost.
        #[serde(default)]
        wipe: bool,
        /// Also a device that does not fit by what the operating system says of it.
        #[serde(default)]
        ignore_device_kind: bool,
    },
    /// Takes a disk group out of service.
    GroupClose {
        /// Its id, the first digits, or one of its devices.
        group: String,
        /// Also where volumes have no other copy now.
        #[serde(default)]
        stop_volumes: bool,
    },
    /// Opens a disk group that is out of service or takes no writes.
    GroupOpen {
        /// Its id, the first digits, or one of its devices.
        group: String,
        /// Its devices from now on, where they are others.
        #[serde(default)]
        devices: Option<GroupConfig>,
    },
    /// Gives up a disk group that holds nothing.
    GroupRemove {
        /// Its id, the first digits, or one of its devices.
        group: String,
    },
    /// One volume.
    VolumeShow {
        /// Its name.
        name: String,
    },
    /// Changes how much of a volume is kept for it.
    VolumeChange {
        /// Its name.
        name: String,
        /// Part of its size that is kept for it from then on, percent.
        reserve_percent: u8,
    },
    /// Makes a volume larger, while it is in use.
    VolumeGrow {
        /// Its name.
        name: String,
        /// Its size from then on.
        size_bytes: u64,
    },
    /// Changes how many failures a volume tolerates, while it is in use.
    VolumeRedundancy {
        /// Its name.
        name: String,
        /// Failures to tolerate from then on.
        ftt: u8,
        /// Also where there is no place for so many copies yet.
        #[serde(default)]
        force: bool,
    },
    /// Moves what one host has of a volume to another one, while it is in use.
    VolumeMove {
        /// Its name.
        name: String,
        /// The host that is to have no copy any more.
        from: String,
        /// The host that gets it; without one those with most room.
        #[serde(default)]
        to: Option<String>,
    },
    /// Why the copies of a volume are where they are.
    VolumeExplain {
        /// Its name.
        name: String,
    },
    /// Has a volume go on from copies that are behind, where no whole one is left.
    VolumeRecover {
        /// Its name.
        name: String,
        /// Say what would be done, and do nothing.
        check: bool,
    },
    /// Ends the moves of a volume that are not through.
    VolumeStay {
        /// Its name.
        name: String,
    },
    /// Changes who may use a volume beside whom; for those who connect from then on.
    VolumeConnections {
        /// Its name.
        name: String,
        /// Who.
        connections: Connections,
    },
    /// Changes through how many hosts a volume is written, while it is in use.
    VolumeWriters {
        /// Its name.
        name: String,
        /// Through how many.
        writers: Writers,
    },
    /// Makes a host the writer of a volume, whatever the one of before does.
    VolumeTakeOver {
        /// Its name.
        name: String,
        /// The name of the host, or of a shard of it.
        host: String,
    },
    /// Changes the labels of a volume, while it is in use.
    VolumeLabel {
        /// Its name.
        name: String,
        /// Those that it gets, or has with another value.
        #[serde(default)]
        set: Labels,
        /// Keys of those that it has no more. It must have them.
        #[serde(default)]
        remove: Vec<String>,
    },
    /// Keeps read cache of hybrid disk groups for a part of a volume, while it is in use.
    VolumeCache {
        /// Its name.
        name: String,
        /// The part of its size, 0 to 100 percent.
        cache_percent: u8,
    },
    /// Keeps all of a volume on one host, while it is in use.
    VolumeKeep {
        /// Its name.
        name: String,
        /// The host. None: wherever there is room.
        host: Option<String>,
    },
    /// Has a volume follow a policy, while it is in use.
    VolumeSetPolicy {
        /// Its name.
        name: String,
        /// The policy; none: the volume keeps the rules that it has, as its own.
        policy: Option<String>,
    },
    /// What would be if volumes followed a policy; nothing is changed.
    PolicyWhatIf {
        /// The policy.
        name: String,
        /// These volumes; none named: all that there are.
        volumes: Vec<String>,
    },
    /// All policies, with the volumes that follow them.
    PolicyList,
    /// Makes a policy. What its rules leave open is as in the built-in one.
    PolicyCreate {
        /// Its name.
        name: String,
        /// Its rules.
        rules: PolicyRules,
    },
    /// Changes a policy, and what follows it.
    PolicyEdit {
        /// Its name.
        name: String,
        /// Those of its rules that change.
        rules: PolicyRules,
    },
    /// What an edit would do; nothing is changed.
    PolicyCheck {
        /// Its name.
        name: String,
        /// Those of its rules that would change.
        rules: PolicyRules,
    },
    /// Deletes a policy that no volume follows.
    PolicyDelete {
        /// Its name.
        name: String,
    },
    /// Gives a volume that nobody uses another name.
    VolumeRename {
        /// Its name.
        name: String,
        /// Its name from then on.
        new: String,
    },
    /// Deletes a volume; it can be brought back for a while.
    VolumeDelete {
        /// Its name.
        name: String,
        /// Delete its data at once.
        #[serde(default)]
        for_good: bool,
    },
    /// Brings a deleted volume back.
    VolumeUndelete {
        /// The name that it had, or its id.
        volume: String,
        /// Its name from then on; without one that which it had.
        #[serde(default)]
        name: Option<String>,
    },
    /// Deletes a deleted volume for good.
    VolumePurge {
        /// The name that it had, or its id.
        volume: String,
    },
    /// The cluster's name, kind and settings.
    ClusterShow,
    /// Changes the settings of the cluster.
    ClusterSet {
        /// Seconds that a copy may be away before another host gets it; none: for ever.
        repair_delay_seconds: Option<u64>,
    },
    /// Says whether copies move so that hosts are filled alike.
    Rebalance {
        /// Whether they do.
        on: bool,
    },
    /// Says whether nothing is provisioned where one host could not be made again on the others.
    RebuildReserve {
        /// Whether it is so.
        on: bool,
    },
    /// Says whether links between shards are encrypted, by ends that prove who they are.
    EncryptLinks {
        /// Whether they are.
        on: bool,
    },
    /// Says what new disk groups of the cluster are.
    ClusterKind {
        /// What they are.
        kind: ClusterKind,
    },
    /// Raises the level of the cluster to what the releases of all of its hosts know.
    ClusterUpgrade {
        /// Only tell what it would come to.
        #[serde(default)]
        check: bool,
    },
    /// Takes a host that is down out of the cluster.
    HostRemove {
        /// Its name.
        host: String,
        /// Also where it has copies: they are gone for good.
        #[serde(default)]
        lost: bool,
    },
    /// What maintenance of a host would come to, or how far it is.
    MaintenanceCheck {
        /// Its name.
        host: String,
        /// What would become of its copies; none: as it is in maintenance, or by default.
        #[serde(default)]
        mode: Option<MaintenanceMode>,
    },
    /// A host is about to be stopped: it gets nothing new, and what is to leave it does.
    MaintenanceEnter {
        /// Its name.
        host: String,
        /// What becomes of its copies.
        mode: MaintenanceMode,
    },
    /// A host takes part as before.
    MaintenanceExit {
        /// Its name.
        host: String,
    },
    /// Sets how much each host copies in a second to copies that are behind.
    ResyncLimit {
        /// Bytes; none: as much as clients leave.
        bytes_per_second: Option<u64>,
    },
    /// All tokens that open the API, without their text.
    TokenList,
    /// Makes a token that opens the API over the network. Its text is told once.
    TokenCreate {
        /// Its name: what it is for, or whose it is.
        name: String,
        /// What its holder may do.
        role: AccessRole,
        /// For how long it opens the API, seconds: at most ten years.
        seconds: u64,
    },
    /// Deletes a token: it opens nothing from then on.
    TokenDelete {
        /// Its name.
        name: String,
    },
    /// All users, who sign in with a name and a password.
    UserList,
    /// Makes a user, who signs in with a code the first time. The code is told once.
    UserCreate {
        /// Its name.
        name: String,
        /// What it may do.
        role: AccessRole,
        /// For how long the code is good, seconds: at most thirty days.
        seconds: u64,
    },
    /// Makes a user another code to sign in with once. It is told once; the one of before is void.
    UserCode {
        /// Its name.
        name: String,
        /// For how long the code is good, seconds: at most thirty days.
        seconds: u64,
    },
    /// Changes what a user may do, at once.
    UserRole {
        /// Its name.
        name: String,
        /// What it may do from now on.
        role: AccessRole,
    },
    /// Gives a user a password: one's own, or another's for an administrator. Its other sessions
    /// end, and its code is void.
    UserPassword {
        /// Its name.
        name: String,
        /// At least 12 characters, at most 256 bytes.
        #[schema(min_length = 12, max_length = 256)]
        password: String,
    },
    /// Deletes a user, and ends its sessions.
    UserDelete {
        /// Its name.
        name: String,
    },
    /// Signs a user in: with a name and a password, or with a code that is good once.
    SessionCreate {
        /// The user's name.
        user: Option<String>,
        /// The user's password.
        password: Option<String>,
        /// A code.
        code: Option<String>,
    },
    /// Who asks, and what it may do.
    SessionShow,
    /// Signs the user out who asks.
    SessionDelete,
    /// Makes an invitation, with which one machine becomes a host. Its text is told once.
    HostInvite {
        /// For how long it is good, seconds: at most thirty days.
        seconds: u64,
    },
    /// Gives a machine that has an invitation what it needs to become a host.
    HostJoin {
        /// The secret of the invitation, 64 hexadecimal digits.
        invitation: String,
    },
    /// What the API asks when somebody brings a secret, or gets one.
    Admission(AdmissionStep),
    /// The fault domains, and the hosts in them.
    DomainList,
    /// Makes a fault domain.
    DomainCreate {
        /// Its name.
        name: String,
        /// The one that it is a part of.
        #[serde(default)]
        within: Option<String>,
    },
    /// Deletes a fault domain that has nothing in it.
    DomainDelete {
        /// Its name.
        name: String,
    },
    /// Hosts are in a fault domain from now on.
    DomainAssign {
        /// Their names.
        hosts: Vec<String>,
        /// Its name; none: they are in none.
        #[serde(default)]
        domain: Option<String>,
        /// Only tell what it would come to.
        #[serde(default)]
        check: bool,
    },
    /// Makes again at once what volumes miss of hosts that are down.
    RepairNow {
        /// Its name; none: all of them.
        #[serde(default)]
        volume: Option<String>,
    },
    /// Backups of the directory on the host's own disk groups.
    DirectoryBackups,
    /// Puts one of them back into the directory.
    DirectoryRestore {
        /// Its number; without one the newest that is whole.
        #[serde(default)]
        number: Option<u64>,
        /// Also where the directory holds volumes.
        #[serde(default)]
        replace: bool,
    },
    /// Components on all hosts that the directory does not account for.
    OrphanList,
    /// Makes a volume again of such components.
    OrphanAdopt {
        /// Its name or id.
        volume: String,
        /// Its name from then on.
        #[serde(default)]
        name: Option<String>,
        /// Also of the best copy where none is surely whole.
        #[serde(default)]
        force: bool,
    },
    /// Deletes such components of a volume or object.
    OrphanDelete {
        /// The volume's name or id; the object's id where it has no name.
        volume: String,
    },
    /// Scrub of every capacity device of the host.
    ScrubStatus,
    /// Begins a scrub pass now, or goes on with the one that was paused.
    ScrubStart {
        /// Most bytes per second of each disk group, until the host is started again.
        #[serde(default)]
        bytes_per_second: Option<u64>,
    },
    /// Stops scrub until it is started, or the host is started again.
    ScrubPause,
    /// How everything is: checks, each with what mends it.
    HealthShow,
    /// When which check went from which state to which, the newest first.
    HealthHistory {
        /// Most changes of the page, 1 to 1000; 100 where nothing is said.
        #[serde(default)]
        limit: Option<u64>,
        /// The `next` of the page before.
        #[serde(default)]
        after: Option<String>,
    },
    /// Has a check not count for a while: what it found is known.
    HealthSilence {
        /// The check.
        check: String,
        /// For how long, seconds: at most 30 days.
        for_seconds: u64,
        /// Why, for others.
        #[serde(default)]
        reason: String,
    },
    /// Has a check count again.
    HealthUnsilence {
        /// The check.
        check: String,
    },
    /// Who is told of what health checks find; without secrets.
    NotifyList,
    /// One of them.
    NotifyShow {
        /// Its name.
        name: String,
    },
    /// Has somebody told of what health checks find, from now on.
    NotifyAdd {
        /// Its name.
        name: String,
        /// How it is told.
        way: ReceiverWay,
        /// What is less bad is not told; none given: yellow.
        #[serde(default)]
        from_state: Option<NoticeLevel>,
        /// The groups of checks that it is told of; none named: all.
        #[serde(default)]
        groups: Vec<String>,
        /// After so many seconds it is reminded of what is still wrong: an hour to thirty days.
        /// None: never.
        #[serde(default)]
        remind_seconds: Option<u64>,
    },
    /// Tells it nothing more.
    NotifyDelete {
        /// Its name.
        name: String,
    },
    /// Sends it a message that says that it is a test.
    NotifyTest {
        /// Its name.
        name: String,
    },
    /// What an object did over a time.
    PerformanceShow {
        /// What it is.
        kind: PerformanceKind,
        /// Its name; of the cluster any.
        name: String,
        /// From when on: seconds since 1970, UTC; an hour before `to` where nothing is said.
        #[serde(default)]
        from: Option<u64>,
        /// Until when; until now where nothing is said.
        #[serde(default)]
        to: Option<u64>,
        /// Most points, 1 to 1000; 240 where nothing is said.
        #[serde(default)]
        points: Option<u64>,
    },
    /// What all objects of a kind did lately, those with most requests first.
    PerformanceTop {
        /// What they are.
        kind: PerformanceKind,
        /// Over how many seconds, 5 to 3600; 10 where nothing is said.
        #[serde(default)]
        seconds: Option<u64>,
        /// How many of them at most, 1 to 1000; 100 where nothing is said.
        #[serde(default)]
        limit: Option<u64>,
    },
    /// Ends the host's daemon cleanly.
    Stop,
}

/// Whose fault a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ErrorKind {
    /// The request itself is wrong; nothing could make it work.
    Usage,
    /// What the request names is not there.
    Missing,
    /// The request is fine but cannot be done now.
    Failed,
}

/// Why a command failed: one line that says what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CommandFailure {
    /// Whose fault it is.
    pub kind: ErrorKind,
    /// One line for people.
    pub message: String,
}

/// A host's answer to a [`Command`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CommandReply {
    /// Done; the value depends on the command.
    Ok(serde_json::Value),
    /// Not done.
    Error(CommandFailure),
}
