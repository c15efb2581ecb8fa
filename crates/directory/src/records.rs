// SPDX-License-Identifier: Apache-2.0
//! What stands in the directory: one JSON value per key, described in
//! `docs/formats/directory-records.md`.
//!
//! Guarantees: what [`ObjectRecord::decode`] and its siblings return keeps every invariant of its
//! kind; unknown fields, other formats and numbers not in canonical form are refused. `encode`
//! panics on a record that breaks them: nothing may ever write such a record.

mod access;
mod affinity;
mod cache;
mod connections;
mod domains;
mod error;
mod formats;
mod json;
mod keys;
mod kind;
mod labels;
mod layout;
mod level;
mod limits;
mod maintenance;
mod orphan;
mod owner;
mod policy;
mod receivers;
mod settings;
mod stored;
mod users;
mod writers;

pub use keys::{
    ALIVE_PREFIX, DELETED_PREFIX, HOST_PREFIX, NAME_BYTES_MAX, OBJECT_PREFIX, ORPHAN_PREFIX,
    POLICY_PREFIX, PREFIX, REMOVED_PREFIX, VOLUME_PREFIX, alive_key, cluster_key, deleted_key,
    domains_key, host_key, is_name, maintenance_key, object_key, orphan_key, parse_alive_key,
    parse_host_key, parse_object_key, parse_orphan_key, parse_policy_key, parse_removed_key,
    parse_volume_key, policy_key, removed_key, settings_key, trash_name, volume_key,
};

pub use access::{
    AccessRecord, AccessRole, AccessToken, TOKENS_MAX, access_key, digest_of, digest_text,
};
pub use affinity::{Affinity, FORMAT_AFFINITY};
pub use cache::FORMAT_CACHE;
pub use connections::Connections;
pub use domains::{
    DOMAIN_DEPTH_MAX, DOMAIN_MEMBERS_MAX, DOMAINS_MAX, DomainMember, DomainsRecord, FaultDomain,
};
pub use error::RecordError;
use error::{are_unique, ensure};
pub use formats::{
    FORMAT_CONNECTIONS, FORMAT_HISTORY, FORMAT_LIMITS, FORMAT_MEMBERS, FORMAT_POLICY,
    FORMAT_RESERVE, FORMAT_RUNS, FORMAT_STRIPED, FORMAT_TRASHED, FORMAT_WRITER,
};
pub use json::FORMAT;
use keys::NAME_RULE;
pub use kind::ClusterKind;
pub use labels::{
    FORMAT_LABELS, LABEL_BYTES_MAX, LABELS_MAX, LabelError, Labels, check_label_key,
    check_label_value, check_labels,
};
pub use layout::{
    OBJECT_SECTORS_MAX, OBJECTS_MAX, ObjectRun, STRIPE_UNIT_SECTORS, STRIPE_WIDTH_MAX, SectorPlace,
    StripeSet, VolumeLayout, object_count, object_sectors,
};
pub use level::{FORMAT_ALIVE_LEVEL, FORMAT_CLUSTER_LEVEL, Level};
pub use limits::{BANDWIDTH_MAX, BANDWIDTH_MIN, IOPS_MAX, IOPS_MIN, IoLimits};
pub use maintenance::{HostInMaintenance, MAINTENANCE_MAX, MaintenanceMode, MaintenanceRecord};
pub use orphan::{About, Missing, OrphanRecord};
pub use owner::OwnerRecord;
pub use policy::{DEFAULT_POLICY, FollowedPolicy, PolicyRecord, RepairDelay};
pub use receivers::{
    MailTls, NoticeLevel, NoticeReceiver, RECEIVERS_MAX, ReceiverTrouble, ReceiverWay,
    ReceiversRecord, SecretText, TOLD_TIMES_MAX, TROUBLE_BYTES_MAX, ToldCheck, is_host_and_port,
    is_mail_address, is_webhook_url, receivers_key,
};
pub use settings::{
    FORMAT_ENCRYPT_LINKS, FORMAT_NO_REBALANCE, FORMAT_REBUILD_RESERVE, FORMAT_RESYNC_LIMIT,
    REPAIR_DELAY_DEFAULT, REPAIR_DELAY_MAX, SettingsRecord,
};
pub use users::{
    INVITES_MAX, SESSIONS_MAX, SignInCode, USERS_MAX, UserAccount, UserSession, UsersRecord,
    users_key,
};
pub use writers::{FORMAT_WRITERS, Writers, Writing};

use base::{
    ComponentId, GroupId, Incarnation, Lsn, ObjectId, SECTOR_SIZE, Seat, ShardId, Term, Version,
    VolumeId, WriterEpoch,
};
use serde::{Deserialize, Serialize};

/// Failures to tolerate, at most: four copies.
pub const FTT_MAX: u8 = 3;
/// Components of one object: four copies, each with a replacement under way.
pub const COMPONENTS_MAX: usize = 8;
/// Disk groups of one host.
pub const GROUPS_MAX: usize = 16;
/// Bytes of the longest address or URI in a record.
pub const ADDRESS_BYTES_MAX: usize = 512;
/// Components that an object's record remembers to have been taken out, until they are deleted.
pub const REMOVED_MAX: usize = 8;
/// Claims that an object's record remembers. A component that missed more of them is compared by
/// version and term alone. Killing all hosts of a cluster one after the other makes fewer claims.
pub const CLAIMS_MAX: usize = 32;
/// The format of the record of one shard of several on a machine.
pub const FORMAT_MACHINE: u32 = 2;
/// The format of the record of a cluster that is not all-flash.
pub const FORMAT_KIND: u32 = 2;

/// The cluster as such, at [`cluster_key`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterRecord {
    /// Random, not zero; every peer link names it.
    pub id: u64,
    /// For people; see [`is_name`].
    pub name: String,
    /// The kind of all its disk groups, chosen when the cluster is created.
    pub kind: ClusterKind,
    /// What all of its hosts know: nothing newer is used.
    pub level: Level,
}

/// One host, at [`host_key`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardRecord {
    /// 1 and up.
    pub id: ShardId,
    /// For people; see [`is_name`].
    pub name: String,
    /// Where its peer port is: `tcp:10.0.0.1:7000` or `unix:/path`.
    pub peer_address: String,
    /// Where its volumes are served; a volume's name is appended. May be empty.
    pub nbd_uri: String,
    /// Its disk groups, at most [`GROUPS_MAX`].
    pub groups: Vec<GroupRecord>,
    /// The machine that it shares with others; see [`is_name`]. `None`: it has one to itself, under
    /// its own name. What takes the machine away takes all of them.
    pub machine: Option<String>,
}

/// A host that was taken out of the cluster, at [`removed_key`]; the record stays for ever. Its
/// daemon does not start again, and no other host gets its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedShardRecord {
    /// The number that it had.
    pub id: ShardId,
    /// The name that it had; another host may have it now. See [`is_name`].
    pub name: String,
}

/// One disk group of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupRecord {
    /// The group.
    pub id: GroupId,
    /// Bytes that components can take while the group is empty.
    pub capacity_bytes: u64,
}

/// A host that runs, at [`alive_key`], bound to its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AliveRecord {
    /// Which run of the daemon.
    pub incarnation: Incarnation,
    /// Bytes free on its disk groups when it was written; a hint for placement.
    pub free_bytes: u64,
    /// What its release knows.
    pub level: Level,
}

/// One volume, at [`volume_key`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRecord {
    /// The volume.
    pub id: VolumeId,
    /// Its name, as in its key; see [`is_name`].
    pub name: String,
    /// Bytes, a multiple of 512, not zero.
    pub size_bytes: u64,
    /// Failures to tolerate, 0 to [`FTT_MAX`].
    pub ftt: u8,
    /// Part of its size that is kept for it on each of its disk groups, 0 to 100 percent.
    pub reserve_percent: u8,
    /// For which part of its size read cache is kept, 0 to 100 percent.
    pub cache_percent: u8,
    /// Over how many objects what it gets is striped, 1 to [`STRIPE_WIDTH_MAX`]; 1: not at all.
    pub stripe_width: u8,
    /// The host (not one of its shards) that all of it is kept on; only where it tolerates no
    /// failure. `None`: wherever there is room.
    pub kept_on: Option<String>,
    /// How many clients may use it through one host at the same time.
    pub connections: Connections,
    /// Through which hosts it is written.
    pub writing: Writing,
    /// The policy that it follows; `None`: its rules are its own.
    pub policy: Option<FollowedPolicy>,
    /// What an operator calls it beside its name; see [`check_labels`].
    pub labels: Labels,
    /// Set while it is deleted and can be brought back. It has another name then.
    pub trashed: Option<Trashed>,
    /// Its stripe sets, in order. Empty where its objects are cut evenly and none is striped: then
    /// all have [`object_sectors`] sectors, and the last one has the rest. See
    /// [`VolumeRecord::layout`].
    pub runs: Vec<ObjectRun>,
    /// Its objects in order.
    pub objects: Vec<ObjectId>,
}

/// What a volume was before it was deleted, in the record of one that can be brought back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trashed {
    /// The name that it had; see [`is_name`].
    pub name: String,
    /// When it was deleted, seconds of the wall clock of the host that was asked.
    pub since: u64,
}

/// A volume that was deleted for good, at [`deleted_key`]. A volume counts as deleted only where
/// such a record says so. Each host takes itself out of the record once it holds nothing of the
/// volume; the last one deletes the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedRecord {
    /// The volume.
    pub id: VolumeId,
    /// The name that it had.
    pub name: String,
    /// Hosts that may hold something of it yet, each once.
    pub shards: Vec<ShardId>,
    /// Its objects.
    pub objects: Vec<ObjectId>,
}

/// What a component is worth (docs/protocol.md#state).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ComponentState {
    /// Has every completed write.
    Active,
    /// Missed writes; comes back by itself.
    Absent,
    /// Lost data or its device fails; needs replacement or a full copy.
    Degraded,
    /// Being brought up to date.
    Resyncing,
}

/// One component of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComponentRecord {
    /// The component.
    pub id: ComponentId,
    /// Where it is.
    pub shard: ShardId,
    /// On which disk group of that host.
    pub group: GroupId,
    /// What it is worth.
    pub state: ComponentState,
    /// Counts its absences.
    pub seat: Seat,
    /// Where not active: every write up to here is on it, nothing above is promised.
    pub left: Lsn,
    /// Where not active: the component that leaves the record when this one becomes active
    /// (rule 39).
    pub replaces: Option<ComponentId>,
}

/// A component that was taken out of its object's record. Its host is to delete it, and it is
/// named here until that is done (rule 40).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RemovedComponent {
    /// The component.
    pub id: ComponentId,
    /// Where it is.
    pub shard: ShardId,
}

/// A change of owner that a record descends from. A directory that was set back to a backup gives
/// an object more than one history. Term and owner together name one claim in all of them, because
/// one run of a host never uses a term of an object twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The term that began.
    pub term: Term,
    /// The record's version then.
    pub version: Version,
    /// Whose term it is.
    pub owner: OwnerRecord,
}

/// One object, at [`object_key`]: the truth about who serves it and which copies count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRecord {
    /// The object.
    pub id: ObjectId,
    /// Its volume.
    pub volume: VolumeId,
    /// Sectors, 1 to [`OBJECT_SECTORS_MAX`].
    pub sectors: u64,
    /// Rises by one with every change.
    pub version: Version,
    /// Rises with every change of owner; below 2^24.
    pub term: Term,
    /// Who serves it at `term`; nobody before the first take-over.
    pub owner: Option<OwnerRecord>,
    /// Set where the last owner left cleanly: everything up to here is on every active component.
    pub handover: Option<Lsn>,
    /// 1 to [`COMPONENTS_MAX`], at least one of them active.
    pub components: Vec<ComponentRecord>,
    /// Taken out and perhaps not deleted yet, oldest first; at most [`REMOVED_MAX`].
    pub removed: Vec<RemovedComponent>,
    /// The newest claims that led here, oldest first, at most [`CLAIMS_MAX`] (rule 25).
    pub claims: Vec<Claim>,
    /// The record comes from a backup, or a component knows of another history. Nobody believes
    /// which components it calls active, and nobody claims it, until a new record is made from what
    /// the components say.
    pub is_doubted: bool,
    /// No write of an earlier one takes effect on the object from now on (rule 55). 0 where any
    /// host may write.
    pub writer_epoch: WriterEpoch,
}

impl ClusterRecord {
    /// Whether it keeps its invariants.
    ///
    /// # Errors
    /// [`RecordError::Invalid`] with the field.
    pub fn check(&self) -> Result<(), RecordError> {
        ensure(self.id != 0, "id", "is zero")?;
        ensure(is_name(&self.name), "name", NAME_RULE)
    }
}

impl ShardRecord {
    /// The name of its machine.
    #[must_use]
    pub fn machine(&self) -> &str {
        self.machine.as_ref().unwrap_or(&self.name)
    }

    /// Bytes that components can take on all its disk groups while these are empty.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.groups.iter().map(|group| group.capacity_bytes).fold(0, u64::saturating_add)
    }

    /// Whether it keeps its invariants.
    ///
    /// # Errors
    /// [`RecordError::Invalid`] with the field.
    pub fn check(&self) -> Result<(), RecordError> {
        ensure(self.id.0 != 0, "id", "is zero")?;
        ensure(is_name(&self.name), "name", NAME_RULE)?;
        let address = &self.peer_address;
        let has_scheme = address.starts_with("tcp:") || address.starts_with("unix:");
        ensure(has_scheme, "peer_address", "starts neither with 'tcp:' nor with 'unix:'")?;
        ensure(address.len() <= ADDRESS_BYTES_MAX, "peer_address", "is too long")?;
        ensure(self.nbd_uri.len() <= ADDRESS_BYTES_MAX, "nbd_uri", "is too long")?;
        ensure(self.groups.len() <= GROUPS_MAX, "groups", "has too many entries")?;
        let ids = self.groups.iter().map(|group| group.id);
        ensure(are_unique(ids), "groups", "names a group twice")?;
        let Some(machine) = &self.machine else { return Ok(()) };
        ensure(is_name(machine), "host", NAME_RULE)?;
        ensure(*machine != self.name, "host", "is the name of one of several shards on it")
    }
}

impl RemovedShardRecord {
    /// Whether it keeps its invariants.
    ///
    /// # Errors
    /// [`RecordError::Invalid`] with the field.
    pub fn check(&self) -> Result<(), RecordError> {
        ensure(self.id.0 != 0, "id", "is zero")?;
        ensure(is_name(&self.name), "name", NAME_RULE)
    }
}

impl AliveRecord {
    /// Whether it keeps its invariants; it has none beyond its fields' ranges.
    ///
    /// # Errors
    /// None.
    pub fn check(&self) -> Result<(), RecordError> {
        Ok(())
    }
}

impl VolumeRecord {
    /// The name under which people know it.
    #[must_use]
    pub fn title(&self) -> String {
        match &self.trashed {
            Some(trashed) => format!("{} (deleted)", trashed.name),
            None => self.name.clone(),
        }
    }

    /// Where its sectors lie. Nothing where it is not what [`Self::check`] allows.
    #[must_use]
    pub fn layout(&self) -> VolumeLayout {
        let layout = VolumeLayout::of_record(self.size_bytes, self.objects.len(), &self.runs);
        layout.unwrap_or_default()
    }

    /// The same volume with these objects, which lie as `more` says, behind those that it has.
    #[must_use]
    pub fn with_objects(self, more: &VolumeLayout, ids: &[ObjectRecord]) -> Self {
        let sizes = ids.iter().map(|object| object.sectors);
        assert!(more.sizes().eq(sizes), "objects that are not those of their layout");
        let layout = self.layout().with(more);
        let mut objects = self.objects;
        objects.extend(ids.iter().map(|object| object.id));
        let size_bytes = layout.sectors() * SECTOR_SIZE;
        Self { size_bytes, runs: layout.said(), objects, ..self }
    }

    /// Sectors that are not striped as those that it gets next, for they were there before.
    #[must_use]
    pub fn otherwise_striped(&self) -> u64 {
        let is_other = |run: &ObjectRun| {
            let next = VolumeLayout::striped(run.sectors, self.stripe_width, OBJECT_SECTORS_MAX);
            next.runs().next().map(|next| next.width) != Some(run.width)
        };
        self.layout().runs().filter(is_other).map(|run| run.span()).sum()
    }

    /// What it may do in a second.
    #[must_use]
    pub fn limits(&self) -> IoLimits {
        self.policy.as_ref().map(|policy| policy.limits).unwrap_or_default()
    }

    /// Whether it keeps its invariants.
    ///
    /// # Errors
    /// [`RecordError::Invalid`] with the field.
    pub fn check(&self) -> Result<(), RecordError> {
        ensure(is_name(&self.name), "name", NAME_RULE)?;
        ensure(self.size_bytes > 0, "size_bytes", "is zero")?;
        let is_whole = self.size_bytes.is_multiple_of(SECTOR_SIZE);
        ensure(is_whole, "size_bytes", "is not a multiple of 512")?;
        ensure(self.ftt <= FTT_MAX, "ftt", "is above 3")?;
        cache::check_percents(self.reserve_percent, self.cache_percent)?;
        layout::check_width(self.stripe_width)?;
        affinity::check_kept_on(self.kept_on.as_deref(), self.ftt)?;
        self.policy.as_ref().map_or(Ok(()), FollowedPolicy::check)?;
        self.writing.check()?;
        check_labels(&self.labels)?;
        let is_named_so = self.name == trash_name(self.id);
        ensure(is_named_so == self.trashed.is_some(), "name", "is not that of its state")?;
        ensure(self.trashed.as_ref().is_none_or(|t| is_name(&t.name)), "deleted", NAME_RULE)?;
        VolumeLayout::of_record(self.size_bytes, self.objects.len(), &self.runs)?;
        ensure(are_unique(self.objects.iter()), "objects", "names an object twice")
    }
}

impl DeletedRecord {
    /// Whether it keeps its invariants.
    ///
    /// # Errors
    /// [`RecordError::Invalid`] with the field.
    pub fn check(&self) -> Result<(), RecordError> {
        ensure(is_name(&self.name), "name", NAME_RULE)?;
        ensure(self.objects.len() <= OBJECTS_MAX, "objects", "has too many entries")?;
        ensure(are_unique(self.objects.iter()), "objects", "names an object twice")?;
        ensure(!self.shards.is_empty(), "hosts", "is empty: the record would be gone")?;
        ensure(self.shards.iter().all(|shard| shard.0 != 0), "hosts", "names host zero")?;
        ensure(are_unique(self.shards.iter()), "hosts", "names a host twice")
    }
}

impl ObjectRecord {
    /// The ids of all components, combined by exclusive or: another number once a component came or
    /// went, for none has the id of another one.
    #[must_use]
    pub fn members(&self) -> u64 {
        self.components.iter().fold(0, |all, component| all ^ component.id.0)
    }

    /// Whether it keeps its invariants.
    ///
    /// # Errors
    /// [`RecordError::Invalid`] with the field.
    pub fn check(&self) -> Result<(), RecordError> {
        ensure(self.sectors > 0, "sectors", "is zero")?;
        ensure(self.sectors <= OBJECT_SECTORS_MAX, "sectors", "is above 255 GiB")?;
        ensure(self.version.0 > 0, "version", "is zero")?;
        ensure(self.term.0 < 1 << 24, "term", "does not fit an lsn")?;
        if let Some(owner) = self.owner {
            ensure(owner.shard.0 != 0, "owner", "is on host zero")?;
            ensure(self.term.0 > 0, "term", "is zero although there is an owner")?;
        }
        let handover_fits = self.handover.is_none_or(|lsn| lsn.term() <= self.term);
        ensure(handover_fits, "handover", "is of a term that never was")?;
        self.check_claims()?;
        self.check_components()
    }

    fn check_claims(&self) -> Result<(), RecordError> {
        let claims = &self.claims;
        ensure(claims.len() <= CLAIMS_MAX, "claims", "has too many entries")?;
        ensure(claims.iter().all(|claim| claim.owner.shard.0 != 0), "claims", "names host zero")?;
        let rise = |two: &[Claim]| two[0].term < two[1].term && two[0].version < two[1].version;
        ensure(claims.windows(2).all(rise), "claims", "does not rise")?;
        let Some(last) = claims.last() else { return Ok(()) };
        let is_reached = last.term <= self.term && last.version <= self.version;
        ensure(is_reached, "claims", "names a term or version that never was")
    }

    fn check_components(&self) -> Result<(), RecordError> {
        let components = &self.components;
        ensure(components.len() <= COMPONENTS_MAX, "components", "has too many entries")?;
        let ids = components.iter().map(|component| component.id);
        ensure(are_unique(ids), "components", "names a component twice")?;
        // The last active component is never marked absent (rule 15).
        let has_active = components.iter().any(|c| c.state == ComponentState::Active);
        ensure(has_active, "components", "has none that is active")?;
        for component in components {
            ensure(component.shard.0 != 0, "host", "is zero")?;
            ensure(component.left.term() <= self.term, "left", "is of a term that never was")?;
        }
        self.check_replacements()?;
        self.check_removed()
    }

    fn check_replacements(&self) -> Result<(), RecordError> {
        let components = &self.components;
        let replaced = components.iter().filter_map(|component| component.replaces);
        ensure(are_unique(replaced), "replaces", "names a component twice")?;
        for component in components.iter().filter(|component| component.replaces.is_some()) {
            let is_other = |c: &ComponentRecord| {
                component.replaces == Some(c.id) && c.id != component.id && c.replaces.is_none()
            };
            ensure(components.iter().any(is_other), "replaces", "names no other component")?;
            let is_active = component.state == ComponentState::Active;
            ensure(!is_active, "replaces", "is set in an active component")?;
        }
        Ok(())
    }

    fn check_removed(&self) -> Result<(), RecordError> {
        let removed = &self.removed;
        ensure(removed.len() <= REMOVED_MAX, "removed", "has too many entries")?;
        ensure(removed.iter().all(|one| one.shard.0 != 0), "removed", "names host zero")?;
        let all = removed.iter().map(|one| one.id).chain(self.components.iter().map(|c| c.id));
        ensure(are_unique(all), "removed", "names a component twice")
    }
}

#[cfg(test)]
mod tests;
