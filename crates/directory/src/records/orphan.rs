// SPDX-License-Identifier: Apache-2.0
//! Orphans: components that the directory does not account for. The host of a component writes what
//! it found there, and what the component's own description says. Lost volumes are made again from
//! these records.

use super::json::{OTHER_FORMAT, Stored, from_json, to_json};
use super::layout::check_width;
use super::stored::{Hex, LsnText, StoredComponent};
use super::{
    COMPONENTS_MAX, ComponentRecord, FORMAT, FTT_MAX, NAME_RULE, OBJECT_SECTORS_MAX, OBJECTS_MAX,
    RecordError, ensure, is_name,
};
use base::{
    ComponentId, GroupId, Incarnation, Lsn, ObjectId, Seat, ShardId, Term, Version, VolumeId,
};
use serde::{Deserialize, Serialize};

/// The format of the record of a component that was given up. It is another one, so that older
/// programs do not take the record for a component that is there.
const FORMAT_GIVEN_UP: u32 = 2;
/// The format of the record of a component of a striped object, given up or not.
const FORMAT_STRIPED: u32 = 3;

/// Why the directory does not account for a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Missing {
    /// There is no record of its object.
    Object,
    /// The record of its object does not list it.
    Component,
    /// The record of its object is older than what the component was told (rule 25).
    Version,
    /// The record of its object descends from another history than the component's (rule 25).
    History,
}

impl Missing {
    /// Whether no record names the component, rather than one that is not believed.
    #[must_use]
    pub fn is_unnamed(self) -> bool {
        matches!(self, Self::Object | Self::Component)
    }
}

/// What a component knows of its volume and object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The volume.
    pub volume: VolumeId,
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub size_bytes: u64,
    /// Failures that it tolerates.
    pub ftt: u8,
    /// Part of its size that is kept for it, percent.
    pub reserve_percent: u8,
    /// Which of its objects this is.
    pub index: u16,
    /// How many it has.
    pub objects: u16,
    /// Which object of its stripe set this is, below `width`.
    pub column: u8,
    /// How many objects its stripe set has, 1 to [`STRIPE_WIDTH_MAX`](super::STRIPE_WIDTH_MAX).
    pub width: u8,
    /// Version of the object's record that this was copied from.
    pub version: Version,
    /// Term of that record.
    pub term: Term,
    /// All components in that record. Their `left` is not kept and is zero here.
    pub siblings: Vec<ComponentRecord>,
}

/// One component, at [`super::orphan_key`], written by its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrphanRecord {
    /// The component.
    pub id: ComponentId,
    /// Its object.
    pub object: ObjectId,
    /// Its sectors.
    pub sectors: u64,
    /// Its host.
    pub shard: ShardId,
    /// The run of its host that wrote this.
    pub incarnation: Incarnation,
    /// Its disk group.
    pub group: GroupId,
    /// Why the directory does not account for it.
    pub missing: Missing,
    /// Since when, seconds of the host's wall clock.
    pub since: u64,
    /// Bytes that it holds on capacity.
    pub used_bytes: u64,
    /// Highest term accepted.
    pub term: Term,
    /// Its seat.
    pub seat: Seat,
    /// Highest record version that it was told.
    pub version: Version,
    /// Highest durable lsn.
    pub durable: Lsn,
    /// It lost data.
    pub is_damaged: bool,
    /// When the host gave the component up for its space, seconds of the host's wall clock. Another
    /// host had everything that this record says. `None`: the component was not given up.
    pub given_up: Option<u64>,
    /// What the description on the component says, where there is one.
    pub about: Option<About>,
}

impl About {
    /// Whether it keeps its invariants.
    ///
    /// # Errors
    /// [`RecordError::Invalid`] with the field.
    pub fn check(&self) -> Result<(), RecordError> {
        ensure(is_name(&self.name), "name", NAME_RULE)?;
        ensure(self.ftt <= FTT_MAX, "ftt", "is above 3")?;
        ensure(self.reserve_percent <= 100, "reserve_percent", "is above 100")?;
        ensure(self.term.0 < 1 << 24, "term", "does not fit an lsn")?;
        ensure(self.index < self.objects, "index", "is not below objects")?;
        ensure(usize::from(self.objects) <= OBJECTS_MAX, "objects", "is above 1024")?;
        check_width(self.width)?;
        let is_inside = self.column < self.width && u16::from(self.column) <= self.index;
        ensure(is_inside, "stripe", "does not have this object")?;
        ensure(self.siblings.len() <= COMPONENTS_MAX, "siblings", "has too many entries")
    }
}

impl OrphanRecord {
    /// Whether it keeps its invariants.
    ///
    /// # Errors
    /// [`RecordError::Invalid`] with the field.
    pub fn check(&self) -> Result<(), RecordError> {
        ensure(self.shard.0 != 0, "host", "is zero")?;
        let fits = (1..=OBJECT_SECTORS_MAX).contains(&self.sectors);
        ensure(fits, "sectors", "is zero or above 255 GiB")?;
        ensure(self.term.0 < 1 << 24, "term", "does not fit an lsn")?;
        self.about.as_ref().map_or(Ok(()), About::check)
    }

    /// The value for the directory. Panics where the record breaks an invariant.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let checked = self.check();
        assert!(checked.is_ok(), "a record that breaks its invariants: {checked:?}");
        to_json(&Orphan::from(self))
    }

    /// The record in a value of the directory.
    ///
    /// # Errors
    /// [`RecordError`]: not this kind of record, another format, an invariant broken.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let record = Self::from(from_json::<Orphan>(bytes)?);
        record.check()?;
        Ok(record)
    }

    /// Whether nothing was ever written to it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.term.0 == 0 && self.durable == Lsn::ZERO && self.used_bytes == 0
    }

    /// Whether it is what a creation that failed left: nothing was ever written to it, and no
    /// record names it. It goes by itself.
    #[must_use]
    pub fn is_leftover(&self) -> bool {
        self.is_empty() && self.missing.is_unnamed()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Orphan {
    format: u32,
    id: Hex,
    object: Hex,
    sectors: u64,
    host: u32,
    incarnation: Hex,
    group: Hex,
    missing: Missing,
    since: u64,
    used_bytes: u64,
    term: u32,
    seat: u32,
    version: u64,
    durable: LsnText,
    is_damaged: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    given_up: Option<u64>,
    about: Option<StoredAbout>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredAbout {
    volume: Hex,
    name: String,
    size_bytes: u64,
    ftt: u8,
    reserve_percent: u8,
    index: u16,
    objects: u16,
    /// In format 3 always, else never: column and width, which is not 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stripe: Option<(u8, u8)>,
    version: u64,
    term: u32,
    siblings: Vec<StoredComponent>,
}

impl Stored for Orphan {
    const FORMATS: &[u32] = &[FORMAT, FORMAT_GIVEN_UP, FORMAT_STRIPED];

    fn format(&self) -> u32 {
        self.format
    }

    fn check_format(&self) -> Result<(), RecordError> {
        let is_striped = self.format == FORMAT_STRIPED;
        let is_right = is_striped || self.given_up.is_some() == (self.format == FORMAT_GIVEN_UP);
        ensure(is_right, "given_up", OTHER_FORMAT)?;
        let stripe = self.about.as_ref().and_then(|about| about.stripe);
        let is_right = stripe.is_some() == is_striped && stripe.is_none_or(|(_, width)| width > 1);
        ensure(is_right, "stripe", OTHER_FORMAT)
    }
}

impl From<&OrphanRecord> for Orphan {
    fn from(r: &OrphanRecord) -> Self {
        Self {
            format: match &r.about {
                Some(about) if about.width > 1 => FORMAT_STRIPED,
                _ if r.given_up.is_some() => FORMAT_GIVEN_UP,
                _ => FORMAT,
            },
            id: Hex(r.id.0),
            object: Hex(r.object.0),
            sectors: r.sectors,
            host: r.shard.0,
            incarnation: Hex(r.incarnation.0),
            group: Hex(r.group.0),
            missing: r.missing,
            since: r.since,
            used_bytes: r.used_bytes,
            term: r.term.0,
            seat: r.seat.0,
            version: r.version.0,
            durable: LsnText(r.durable),
            is_damaged: r.is_damaged,
            given_up: r.given_up,
            about: r.about.as_ref().map(StoredAbout::from),
        }
    }
}

impl From<Orphan> for OrphanRecord {
    fn from(s: Orphan) -> Self {
        Self {
            id: ComponentId(s.id.0),
            object: ObjectId(s.object.0),
            sectors: s.sectors,
            shard: ShardId(s.host),
            incarnation: Incarnation(s.incarnation.0),
            group: GroupId(s.group.0),
            missing: s.missing,
            since: s.since,
            used_bytes: s.used_bytes,
            term: Term(s.term),
            seat: Seat(s.seat),
            version: Version(s.version),
            durable: s.durable.0,
            is_damaged: s.is_damaged,
            given_up: s.given_up,
            about: s.about.map(About::from),
        }
    }
}

impl From<&About> for StoredAbout {
    fn from(a: &About) -> Self {
        Self {
            volume: Hex(a.volume.0),
            name: a.name.clone(),
            size_bytes: a.size_bytes,
            ftt: a.ftt,
            reserve_percent: a.reserve_percent,
            index: a.index,
            objects: a.objects,
            stripe: (a.width > 1).then_some((a.column, a.width)),
            version: a.version.0,
            term: a.term.0,
            siblings: a.siblings.iter().map(StoredComponent::from).collect(),
        }
    }
}

impl From<StoredAbout> for About {
    fn from(s: StoredAbout) -> Self {
        let (column, width) = s.stripe.unwrap_or((0, 1));
        Self {
            volume: VolumeId(s.volume.0),
            name: s.name,
            size_bytes: s.size_bytes,
            ftt: s.ftt,
            reserve_percent: s.reserve_percent,
            index: s.index,
            objects: s.objects,
            column,
            width,
            version: Version(s.version),
            term: Term(s.term),
            siblings: s.siblings.into_iter().map(ComponentRecord::from).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ComponentState;
    use super::*;

    #[test]
    fn what_was_given_up_or_is_striped_has_a_format_that_older_programs_refuse() {
        let kept = OrphanRecord {
            id: ComponentId(1),
            object: ObjectId(2),
            sectors: 8,
            shard: ShardId(3),
            incarnation: Incarnation(4),
            group: GroupId(5),
            missing: Missing::Object,
            since: 6,
            used_bytes: 7,
            term: Term(8),
            seat: Seat(9),
            version: Version(10),
            durable: Lsn::new(Term(8), 11),
            is_damaged: false,
            given_up: None,
            about: None,
        };
        let gone = OrphanRecord { given_up: Some(12), ..kept.clone() };
        let text = |record: &OrphanRecord| String::from_utf8(record.encode()).expect("text");
        assert!(text(&kept).starts_with("{\"format\":1,") && !text(&kept).contains("given_up"));
        assert!(text(&gone).starts_with("{\"format\":2,"));
        let about = About {
            volume: VolumeId(1),
            name: "vm".to_owned(),
            size_bytes: 8 << 20,
            ftt: 1,
            reserve_percent: 0,
            index: 1,
            objects: 2,
            column: 1,
            width: 2,
            version: Version(10),
            term: Term(8),
            siblings: Vec::new(),
        };
        let striped = OrphanRecord { about: Some(about.clone()), ..kept.clone() };
        let both = OrphanRecord { about: Some(about.clone()), ..gone.clone() };
        let plain = About { column: 0, width: 1, ..about };
        let plain = OrphanRecord { about: Some(plain), ..kept.clone() };
        assert!(text(&striped).starts_with("{\"format\":3,") && text(&striped).contains("[1,2]"));
        for record in [&kept, &gone, &striped, &both, &plain] {
            assert_eq!(OrphanRecord::decode(&record.encode()).as_ref().ok(), Some(record));
        }
        let wrong = [
            (&kept, "\"format\":2,"),
            (&gone, "\"format\":1,"),
            (&kept, "\"format\":3,"),
            (&striped, "\"format\":1,"),
            (&both, "\"format\":2,"),
            (&plain, "\"format\":3,"),
        ];
        for (right, wrong) in wrong {
            let mixed = text(right).replacen("\"format\":", "\"x\":", 1);
            let mixed = format!("{{{wrong}{}", mixed.split_once(',').expect("fields").1);
            assert!(OrphanRecord::decode(mixed.as_bytes()).is_err(), "{mixed}");
        }
    }

    #[test]
    fn what_a_component_says_of_its_volume_is_checked_at_each_bound() {
        let sibling = ComponentRecord {
            id: ComponentId(1),
            shard: ShardId(2),
            group: GroupId(3),
            state: ComponentState::Active,
            seat: Seat(4),
            left: Lsn::ZERO,
            replaces: None,
        };
        let most = About {
            volume: VolumeId(1),
            name: "db-1".to_owned(),
            size_bytes: 4096,
            ftt: FTT_MAX,
            reserve_percent: 100,
            index: 1023,
            objects: 1024,
            column: 11,
            width: 12,
            version: Version(2),
            term: Term((1 << 24) - 1),
            siblings: vec![sibling; COMPONENTS_MAX],
        };
        assert!(most.check().is_ok());
        let more = most.clone();
        for (field, wrong) in [
            ("name", About { name: String::new(), ..more.clone() }),
            ("ftt", About { ftt: FTT_MAX + 1, ..more.clone() }),
            ("reserve_percent", About { reserve_percent: 101, ..more.clone() }),
            ("term", About { term: Term(1 << 24), ..more.clone() }),
            ("index", About { index: 1024, ..more.clone() }),
            ("objects", About { objects: 1025, ..more.clone() }),
            ("stripe_width", About { width: 13, ..more.clone() }),
            ("stripe", About { column: 12, ..more.clone() }),
            ("stripe", About { index: 10, ..more.clone() }),
            ("siblings", About { siblings: vec![sibling; COMPONENTS_MAX + 1], ..more }),
        ] {
            let found = wrong.check();
            let is_right =
                matches!(found, Err(RecordError::Invalid { field: f, .. }) if f == field);
            assert!(is_right, "{field}: {found:?}");
        }
    }
}
