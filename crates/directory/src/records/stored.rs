// SPDX-License-Identifier: Apache-2.0
//! The records as JSON: the shape on disk, kept apart from the types that the program uses, so that
//! neither changes the other by accident.

use super::json::{OTHER_FORMAT, Stored, from_json, to_json};
use super::keys::parse_hex;
use super::level::{check_level, level_of};
use super::{
    AliveRecord, Claim, ClusterKind, ClusterRecord, ComponentRecord, ComponentState, DeletedRecord,
    FORMAT, FORMAT_ALIVE_LEVEL, FORMAT_CLUSTER_LEVEL, FORMAT_HISTORY, FORMAT_KIND, FORMAT_MACHINE,
    FORMAT_MEMBERS, FORMAT_WRITER, GroupRecord, ObjectRecord, OwnerRecord, RecordError,
    RemovedComponent, RemovedShardRecord, ShardRecord, ensure,
};
use base::{
    ComponentId, GroupId, Incarnation, Lsn, ObjectId, Seat, ShardId, Term, Version, VolumeId,
    WriterEpoch,
};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A 64-bit identity: hexadecimal text, since many JSON readers keep only 53 bits of a number.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Hex(pub(super) u64);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{:x}", self.0))
    }
}

impl<'a> Deserialize<'a> for Hex {
    fn deserialize<D: Deserializer<'a>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        parse_hex(&text).map(Self).ok_or_else(|| D::Error::custom("not a hexadecimal number"))
    }
}

/// An lsn: `term.counter` in decimal.
#[derive(Clone, Copy)]
pub(super) struct LsnText(pub(super) Lsn);

impl Serialize for LsnText {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{}.{}", self.0.term().0, self.0.counter()))
    }
}

impl<'a> Deserialize<'a> for LsnText {
    fn deserialize<D: Deserializer<'a>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        parse_lsn(&text).map(Self).ok_or_else(|| D::Error::custom("not an lsn"))
    }
}

fn parse_lsn(text: &str) -> Option<Lsn> {
    let (term, counter) = text.split_once('.')?;
    let (term, counter): (u32, u64) = (term.parse().ok()?, counter.parse().ok()?);
    if term >= 1 << 24 || counter >= 1 << Lsn::COUNTER_BITS {
        return None;
    }
    (format!("{term}.{counter}") == text).then(|| Lsn::new(Term(term), counter))
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cluster {
    format: u32,
    id: Hex,
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<ClusterKind>,
    /// Above the first one, in format 3; else not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    level: Option<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RemovedHost {
    format: u32,
    id: u32,
    name: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Host {
    format: u32,
    id: u32,
    name: String,
    peer_address: String,
    nbd_uri: String,
    groups: Vec<Group>,
    /// In format 2; else not there.
    #[serde(default, rename = "host", skip_serializing_if = "Option::is_none")]
    machine: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    id: Hex,
    capacity_bytes: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Alive {
    format: u32,
    incarnation: Hex,
    free_bytes: u64,
    /// Above the first one, in format 2; else not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    level: Option<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Object {
    format: u32,
    id: Hex,
    volume: Hex,
    sectors: u64,
    version: u64,
    term: u32,
    owner: Option<StoredOwner>,
    handover: Option<LsnText>,
    components: Vec<StoredComponent>,
    /// Component and host of each. Only in format 3.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    removed: Vec<(Hex, u32)>,
    /// Term, version, host and incarnation of each claim. Not in format 1, as `doubted`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    claims: Vec<(u32, u64, u32, Hex)>,
    /// Only `true` is written. A record that is not doubted does not have the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    doubted: Option<bool>,
    /// Above zero, in format 4; else not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    writer_epoch: Option<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Deleted {
    format: u32,
    id: Hex,
    name: String,
    hosts: Vec<u32>,
    objects: Vec<Hex>,
}

#[derive(PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredOwner {
    host: u32,
    incarnation: Hex,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredComponent {
    id: Hex,
    host: u32,
    group: Hex,
    state: State,
    seat: u32,
    left: LsnText,
    /// Only in format 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replaces: Option<Hex>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Active,
    Absent,
    Degraded,
    Resyncing,
}

impl From<&OwnerRecord> for StoredOwner {
    fn from(r: &OwnerRecord) -> Self {
        Self { host: r.shard.0, incarnation: Hex(r.incarnation.0) }
    }
}

impl From<StoredOwner> for OwnerRecord {
    fn from(s: StoredOwner) -> Self {
        Self { shard: ShardId(s.host), incarnation: Incarnation(s.incarnation.0) }
    }
}

impl From<ComponentState> for State {
    fn from(state: ComponentState) -> Self {
        match state {
            ComponentState::Active => Self::Active,
            ComponentState::Absent => Self::Absent,
            ComponentState::Degraded => Self::Degraded,
            ComponentState::Resyncing => Self::Resyncing,
        }
    }
}

impl From<State> for ComponentState {
    fn from(state: State) -> Self {
        match state {
            State::Active => Self::Active,
            State::Absent => Self::Absent,
            State::Degraded => Self::Degraded,
            State::Resyncing => Self::Resyncing,
        }
    }
}

impl Stored for Cluster {
    const FORMATS: &[u32] = &[FORMAT, FORMAT_KIND, FORMAT_CLUSTER_LEVEL];

    fn format(&self) -> u32 {
        self.format
    }

    fn check_format(&self) -> Result<(), RecordError> {
        check_level(self.level, self.format == FORMAT_CLUSTER_LEVEL)?;
        let is_told = self.kind.is_some_and(|kind| kind != ClusterKind::AllFlash);
        let is_right = match self.format {
            FORMAT_CLUSTER_LEVEL => is_told || self.kind.is_none(),
            FORMAT_KIND => is_told,
            _ => self.kind.is_none(),
        };
        ensure(is_right, "kind", OTHER_FORMAT)
    }
}

impl Stored for Alive {
    const FORMATS: &[u32] = &[FORMAT, FORMAT_ALIVE_LEVEL];

    fn format(&self) -> u32 {
        self.format
    }

    fn check_format(&self) -> Result<(), RecordError> {
        check_level(self.level, self.format == FORMAT_ALIVE_LEVEL)
    }
}

impl Stored for Host {
    const FORMATS: &[u32] = &[FORMAT, FORMAT_MACHINE];

    fn format(&self) -> u32 {
        self.format
    }

    fn check_format(&self) -> Result<(), RecordError> {
        let is_shared = self.format == FORMAT_MACHINE;
        ensure(self.machine.is_some() == is_shared, "host", OTHER_FORMAT)
    }
}

impl Stored for Object {
    const FORMATS: &[u32] = &[FORMAT, FORMAT_HISTORY, FORMAT_MEMBERS, FORMAT_WRITER];

    fn format(&self) -> u32 {
        self.format
    }

    fn check_format(&self) -> Result<(), RecordError> {
        let has_all = self.format == FORMAT_WRITER;
        let is_written = self.writer_epoch.is_some_and(|epoch| epoch > 0);
        let is_said = if has_all { is_written } else { self.writer_epoch.is_none() };
        ensure(is_said, "writer_epoch", OTHER_FORMAT)?;
        let has_history = self.doubted.is_some() || !self.claims.is_empty();
        let is_right = match self.format {
            FORMAT_HISTORY => has_history,
            FORMAT_MEMBERS | FORMAT_WRITER => true,
            _ => !has_history,
        };
        ensure(is_right && self.doubted != Some(false), "claims", OTHER_FORMAT)?;
        let is_changing = self.components.iter().any(|one| one.replaces.is_some());
        let has_members = is_changing || !self.removed.is_empty();
        let belongs = has_all || has_members == (self.format == FORMAT_MEMBERS);
        ensure(belongs, "removed", OTHER_FORMAT)
    }
}

macro_rules! of_one_format {
    ($($stored:ident),*) => {$(
        impl Stored for $stored {
            fn format(&self) -> u32 {
                self.format
            }
        }
    )*};
}

of_one_format!(RemovedHost, Deleted);

macro_rules! codec {
    ($record:ident, $stored:ident) => {
        impl $record {
            /// The value for the directory. Panics where the record breaks an invariant: use
            /// [`Self::check`] first on what people typed.
            #[must_use]
            pub fn encode(&self) -> Vec<u8> {
                let checked = self.check();
                assert!(checked.is_ok(), "a record that breaks its invariants: {checked:?}");
                to_json(&$stored::from(self))
            }

            /// The record in a value of the directory.
            ///
            /// # Errors
            /// [`RecordError`]: not this kind of record, another format, an invariant broken.
            pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
                let record = Self::from(from_json::<$stored>(bytes)?);
                record.check()?;
                Ok(record)
            }
        }
    };
}

mod volume;

codec!(ClusterRecord, Cluster);
codec!(ShardRecord, Host);
codec!(RemovedShardRecord, RemovedHost);
codec!(AliveRecord, Alive);
codec!(ObjectRecord, Object);
codec!(DeletedRecord, Deleted);

impl From<&ClusterRecord> for Cluster {
    fn from(r: &ClusterRecord) -> Self {
        let kind = Some(r.kind).filter(|kind| *kind != ClusterKind::AllFlash);
        // The lowest format that holds everything, so that older programs read it where they can.
        let format = match (r.level.stored(), kind) {
            (Some(_), _) => FORMAT_CLUSTER_LEVEL,
            (None, Some(_)) => FORMAT_KIND,
            (None, None) => FORMAT,
        };
        Self { format, id: Hex(r.id), name: r.name.clone(), kind, level: r.level.stored() }
    }
}

impl From<Cluster> for ClusterRecord {
    fn from(s: Cluster) -> Self {
        let level = level_of(s.level);
        Self { id: s.id.0, name: s.name, kind: s.kind.unwrap_or_default(), level }
    }
}

impl From<&RemovedShardRecord> for RemovedHost {
    fn from(r: &RemovedShardRecord) -> Self {
        Self { format: FORMAT, id: r.id.0, name: r.name.clone() }
    }
}

impl From<RemovedHost> for RemovedShardRecord {
    fn from(s: RemovedHost) -> Self {
        Self { id: ShardId(s.id), name: s.name }
    }
}

impl From<&ShardRecord> for Host {
    fn from(r: &ShardRecord) -> Self {
        let group = |g: &GroupRecord| Group { id: Hex(g.id.0), capacity_bytes: g.capacity_bytes };
        Self {
            format: if r.machine.is_some() { FORMAT_MACHINE } else { FORMAT },
            id: r.id.0,
            name: r.name.clone(),
            peer_address: r.peer_address.clone(),
            nbd_uri: r.nbd_uri.clone(),
            groups: r.groups.iter().map(group).collect(),
            machine: r.machine.clone(),
        }
    }
}

impl From<Host> for ShardRecord {
    fn from(s: Host) -> Self {
        let group =
            |g: Group| GroupRecord { id: GroupId(g.id.0), capacity_bytes: g.capacity_bytes };
        Self {
            id: ShardId(s.id),
            name: s.name,
            peer_address: s.peer_address,
            nbd_uri: s.nbd_uri,
            groups: s.groups.into_iter().map(group).collect(),
            machine: s.machine,
        }
    }
}

impl From<&AliveRecord> for Alive {
    fn from(r: &AliveRecord) -> Self {
        let level = r.level.stored();
        let format = if level.is_some() { FORMAT_ALIVE_LEVEL } else { FORMAT };
        Self { format, incarnation: Hex(r.incarnation.0), free_bytes: r.free_bytes, level }
    }
}

impl From<Alive> for AliveRecord {
    fn from(s: Alive) -> Self {
        let (incarnation, level) = (Incarnation(s.incarnation.0), level_of(s.level));
        Self { incarnation, free_bytes: s.free_bytes, level }
    }
}

impl From<&DeletedRecord> for Deleted {
    fn from(r: &DeletedRecord) -> Self {
        Self {
            format: FORMAT,
            id: Hex(r.id.0),
            name: r.name.clone(),
            hosts: r.shards.iter().map(|shard| shard.0).collect(),
            objects: r.objects.iter().map(|id| Hex(id.0)).collect(),
        }
    }
}

impl From<Deleted> for DeletedRecord {
    fn from(s: Deleted) -> Self {
        Self {
            id: VolumeId(s.id.0),
            name: s.name,
            shards: s.hosts.into_iter().map(ShardId).collect(),
            objects: s.objects.into_iter().map(|id| ObjectId(id.0)).collect(),
        }
    }
}

impl From<&ObjectRecord> for Object {
    fn from(r: &ObjectRecord) -> Self {
        let claim =
            |c: &Claim| (c.term.0, c.version.0, c.owner.shard.0, Hex(c.owner.incarnation.0));
        // The lowest format that holds everything, so that older programs read it where they can.
        let has_history = r.is_doubted || !r.claims.is_empty();
        let is_changing = r.components.iter().any(|component| component.replaces.is_some());
        let writer_epoch = Some(r.writer_epoch.0).filter(|epoch| *epoch > 0);
        let format = match (is_changing || !r.removed.is_empty(), has_history) {
            _ if writer_epoch.is_some() => FORMAT_WRITER,
            (true, _) => FORMAT_MEMBERS,
            (false, true) => FORMAT_HISTORY,
            (false, false) => FORMAT,
        };
        Self {
            format,
            id: Hex(r.id.0),
            volume: Hex(r.volume.0),
            sectors: r.sectors,
            version: r.version.0,
            term: r.term.0,
            owner: r.owner.as_ref().map(StoredOwner::from),
            handover: r.handover.map(LsnText),
            components: r.components.iter().map(StoredComponent::from).collect(),
            removed: r.removed.iter().map(|one| (Hex(one.id.0), one.shard.0)).collect(),
            claims: r.claims.iter().map(claim).collect(),
            doubted: r.is_doubted.then_some(true),
            writer_epoch,
        }
    }
}

impl From<Object> for ObjectRecord {
    fn from(s: Object) -> Self {
        let claim = |(term, version, host, incarnation): (u32, u64, u32, Hex)| Claim {
            term: Term(term),
            version: Version(version),
            owner: OwnerRecord { shard: ShardId(host), incarnation: Incarnation(incarnation.0) },
        };
        let removed = |(id, host): (Hex, u32)| RemovedComponent {
            id: ComponentId(id.0),
            shard: ShardId(host),
        };
        Self {
            id: ObjectId(s.id.0),
            volume: VolumeId(s.volume.0),
            sectors: s.sectors,
            version: Version(s.version),
            term: Term(s.term),
            owner: s.owner.map(OwnerRecord::from),
            handover: s.handover.map(|lsn| lsn.0),
            components: s.components.into_iter().map(ComponentRecord::from).collect(),
            removed: s.removed.into_iter().map(removed).collect(),
            claims: s.claims.into_iter().map(claim).collect(),
            is_doubted: s.doubted.unwrap_or(false),
            writer_epoch: WriterEpoch(s.writer_epoch.unwrap_or(0)),
        }
    }
}

impl From<&ComponentRecord> for StoredComponent {
    fn from(r: &ComponentRecord) -> Self {
        Self {
            id: Hex(r.id.0),
            host: r.shard.0,
            group: Hex(r.group.0),
            state: r.state.into(),
            seat: r.seat.0,
            left: LsnText(r.left),
            replaces: r.replaces.map(|id| Hex(id.0)),
        }
    }
}

impl From<StoredComponent> for ComponentRecord {
    fn from(s: StoredComponent) -> Self {
        Self {
            id: ComponentId(s.id.0),
            shard: ShardId(s.host),
            group: GroupId(s.group.0),
            state: s.state.into(),
            seat: Seat(s.seat),
            left: s.left.0,
            replaces: s.replaces.map(|id| ComponentId(id.0)),
        }
    }
}
