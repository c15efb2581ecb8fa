// SPDX-License-Identifier: Apache-2.0
//! What an operator may ask a host: the JSON that passes the door.

use directory::{
    AccessRole, Affinity, ClusterKind, Connections, Labels, MaintenanceMode, RepairDelay, Writers,
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
    /// The same, of a token whose text the API has made.
    TokenPut {
        /// Its name.
        name: String,
        /// What its holder may do.
        role: AccessRole,
        /// For how long it opens the API, seconds.
        seconds: u64,
        /// SHA-256 of its text, 64 hexadecimal digits.
        digest: String,
    },
    /// Deletes a token: it opens nothing from then on.
    TokenDelete {
        /// Its name.
        name: String,
    },
    /// Whether a token opens the API, and to what.
    TokenCheck {
        /// SHA-256 of its text, 64 hexadecimal digits.
        digest: String,
    },
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
    /// Ends the host's daemon cleanly.
    Stop,
}

/// A volume that is to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewVolume {
    /// Its name.
    pub name: String,
    /// Its size.
    pub size_bytes: u64,
    /// Failures to tolerate.
    pub ftt: u8,
    /// Part of its size that is kept for it, percent.
    #[serde(default)]
    pub reserve_percent: u8,
    /// Over how many parts it is striped; 1: it is not.
    #[serde(default = "one")]
    pub stripe_width: u8,
    /// The policy that it follows; its rules count then, and the three above do not.
    #[serde(default)]
    pub policy: Option<String>,
    /// Make it with fewer copies where there is no place for all of them.
    #[serde(default)]
    pub force: bool,
    /// What it is called beside its name.
    #[serde(default)]
    pub labels: Labels,
    /// Through how many hosts it is written; none given: one, where the cluster has the level.
    #[serde(default)]
    pub writers: Option<Writers>,
    /// The host that all of it is kept on. None given: by its policy the host that is asked, else
    /// wherever there is room.
    #[serde(default)]
    pub on: Option<String>,
    /// For which part of its size read cache is kept, 0 to 100 percent.
    #[serde(default)]
    pub cache_percent: u8,
}

impl NewVolume {
    /// Nothing more is asked of it: thin, not striped, with rules of its own, and without labels.
    pub fn new(name: impl Into<String>, size_bytes: u64, ftt: u8) -> Self {
        Self {
            name: name.into(),
            size_bytes,
            ftt,
            reserve_percent: 0,
            stripe_width: 1,
            policy: None,
            force: false,
            labels: Labels::new(),
            writers: None,
            on: None,
            cache_percent: 0,
        }
    }
}

/// One disk group: device paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupConfig {
    /// The cache device.
    pub cache: String,
    /// One to seven capacity devices.
    pub capacity: Vec<String>,
    /// What it is; `None`: what the host's groups are. An open group is what its devices say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ClusterKind>,
}

impl GroupConfig {
    /// All its devices, the cache device first.
    pub fn devices(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.cache).chain(&self.capacity)
    }
}

/// What commands of programs that know no stripes mean.
pub(crate) fn one() -> u8 {
    1
}

/// Rules of a policy; what is none stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyRules {
    /// Failures to tolerate.
    #[serde(default)]
    pub ftt: Option<u8>,
    /// Part of a volume's size that is kept for it, percent.
    #[serde(default)]
    pub reserve_percent: Option<u8>,
    /// For which part of a volume's size read cache is kept, 0 to 100 percent.
    #[serde(default)]
    pub cache_percent: Option<u8>,
    /// Over how many parts volumes are striped.
    #[serde(default)]
    pub stripe_width: Option<u8>,
    /// Whether volumes are kept on one host.
    #[serde(default)]
    pub affinity: Option<Affinity>,
    /// Whether volumes are made also where there is no place for all of their copies.
    #[serde(default)]
    pub force: Option<bool>,
    /// How long a copy may be away.
    #[serde(default)]
    pub repair_delay: Option<RepairDelay>,
    /// Reads and writes of 32 KiB that a volume may do in a second.
    #[serde(default)]
    pub iops: Option<RateLimit>,
    /// Bytes that a volume may read and write in a second.
    #[serde(default)]
    pub bytes_per_second: Option<RateLimit>,
}

/// How much of something is let through in a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RateLimit {
    /// All that there is.
    None,
    /// So much.
    At(u64),
}

impl RateLimit {
    /// What a record says.
    #[must_use]
    pub fn limit(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::At(rate) => Some(rate),
        }
    }
}
