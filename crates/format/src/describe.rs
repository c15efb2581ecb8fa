// SPDX-License-Identifier: Apache-2.0
//! What a component says of itself beside its data: enough to make its volume's records again when
//! the directory lost them. It stands in its row, where rows had zeros before.

use crate::FormatError;
use crate::bytes::{layout, prefix, prefix_mut, prefix_of, prefix_of_mut};
use base::{ComponentId, GroupId, Incarnation, Seat, ShardId, Term, Version, VolumeId};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the longest volume name.
pub const VOLUME_NAME_MAX: usize = 64;
/// Components of one object, at most.
pub const PEERS_MAX: usize = 8;
/// Of the description's own layout; 0 is no description.
const LAYOUT: u8 = 1;
/// The same with [`Description::part`] at its end.
const LAYOUT_WITH_PART: u8 = 2;
/// As [`LAYOUT`], with a [`RawStripe`] at its end.
const LAYOUT_STRIPED: u8 = 3;
/// As [`LAYOUT_WITH_PART`], with a [`RawStripe`] behind that.
const LAYOUT_STRIPED_WITH_PART: u8 = 4;

/// What a component was worth, by the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worth {
    /// Has every completed write.
    Active,
    /// Missed writes.
    Absent,
    /// Lost data.
    Degraded,
    /// Was being brought up to date.
    Resyncing,
}

/// One component of the object, as the record said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sibling {
    /// The component.
    pub id: ComponentId,
    /// Its host.
    pub shard: ShardId,
    /// Its disk group.
    pub group: GroupId,
    /// Its seat.
    pub seat: Seat,
    /// What it was worth.
    pub worth: Worth,
}

/// A component's volume and object, by the newest records that its host saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
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
    /// How many objects its stripe set has, at least 1.
    pub width: u8,
    /// Of the object's record.
    pub version: Version,
    /// Of the object's record.
    pub term: Term,
    /// Version and term of the newest record, if not this one, of a term up to that in which the
    /// component was fenced last: how far the record had come while it counted (rule 25).
    pub part: Option<(Version, Term)>,
    /// The run of this host that wrote it: a later one has a higher number.
    pub incarnation: Incarnation,
    /// All components of the object.
    pub siblings: Vec<Sibling>,
}

/// The fixed part; the name, the siblings and what the layout has at its end follow.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHead {
    layout: u8,
    name_length: u8,
    ftt: u8,
    reserve_percent: u8,
    volume: U64,
    size_bytes: U64,
    index: U16,
    objects: U16,
    version: U64,
    term: U32,
    incarnation: U64,
    siblings: u8,
}

layout!(RawHead, 45:
    layout 0, name_length 1, ftt 2, reserve_percent 3, volume 4, size_bytes 12, index 20,
    objects 22, version 24, term 32, incarnation 36, siblings 44);
const HEAD: usize = size_of::<RawHead>();

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSibling {
    id: U64,
    host: U32,
    group: U64,
    seat: U32,
    worth: u8,
}

layout!(RawSibling, 25: id 0, host 8, group 12, seat 20, worth 24);
const SIBLING: usize = size_of::<RawSibling>();

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawPart {
    version: U64,
    term: U32,
}

layout!(RawPart, 12: version 0, term 8);
const PART: usize = size_of::<RawPart>();

/// Where in a stripe set the object is. Not written where the set is that object alone.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawStripe {
    column: u8,
    width: u8,
}

layout!(RawStripe, 2: column 0, width 1);
const STRIPE: usize = size_of::<RawStripe>();

/// Bytes of the longest description.
pub(crate) const DESCRIPTION_MAX: usize =
    HEAD + VOLUME_NAME_MAX + PEERS_MAX * SIBLING + PART + STRIPE;
const _: () = assert!(DESCRIPTION_MAX == 323);

impl Description {
    /// Bytes that it takes.
    pub(crate) fn size(&self) -> usize {
        let part = if self.part.is_some() { PART } else { 0 };
        let stripe = if self.is_striped() { STRIPE } else { 0 };
        HEAD + self.name.len() + self.siblings.len() * SIBLING + part + stripe
    }

    fn is_striped(&self) -> bool {
        self.width > 1
    }

    /// Fills `out`, exactly [`Description::size`] bytes.
    pub(crate) fn encode(&self, out: &mut [u8]) {
        assert!(self.name.len() <= VOLUME_NAME_MAX, "a name beyond its bound");
        assert!(self.siblings.len() <= PEERS_MAX, "more components than an object has");
        let short = |count: usize| u8::try_from(count).unwrap_or(u8::MAX);
        let (head, rest) = prefix_mut(out);
        *head = RawHead {
            layout: match (self.is_striped(), self.part.is_some()) {
                (false, false) => LAYOUT,
                (false, true) => LAYOUT_WITH_PART,
                (true, false) => LAYOUT_STRIPED,
                (true, true) => LAYOUT_STRIPED_WITH_PART,
            },
            name_length: short(self.name.len()),
            ftt: self.ftt,
            reserve_percent: self.reserve_percent,
            volume: self.volume.0.into(),
            size_bytes: self.size_bytes.into(),
            index: self.index.into(),
            objects: self.objects.into(),
            version: self.version.0.into(),
            term: self.term.0.into(),
            incarnation: self.incarnation.0.into(),
            siblings: short(self.siblings.len()),
        };
        let (name, rest) = rest.split_at_mut(self.name.len());
        name.copy_from_slice(self.name.as_bytes());
        let (siblings, mut rest) = prefix_of_mut::<RawSibling>(rest, self.siblings.len());
        for (raw, sibling) in siblings.iter_mut().zip(&self.siblings) {
            *raw = sibling.into();
        }
        if let Some((version, term)) = self.part {
            let (part, behind) = prefix_mut(rest);
            *part = RawPart { version: version.0.into(), term: term.0.into() };
            rest = behind;
        }
        if self.is_striped() {
            *prefix_mut(rest).0 = RawStripe { column: self.column, width: self.width };
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let bad = FormatError::Field { name: "description" };
        let (head, rest) = prefix::<RawHead>(bytes)?;
        let (is_striped, has_part) = match head.layout {
            LAYOUT => (false, false),
            LAYOUT_WITH_PART => (false, true),
            LAYOUT_STRIPED => (true, false),
            LAYOUT_STRIPED_WITH_PART => (true, true),
            _ => return Err(bad),
        };
        let (index, objects) = (head.index.get(), head.objects.get());
        let (name_length, count) = (usize::from(head.name_length), usize::from(head.siblings));
        if name_length > VOLUME_NAME_MAX || count > PEERS_MAX || index >= objects {
            return Err(bad);
        }
        let (name, rest) = rest.split_at_checked(name_length).ok_or(FormatError::Length)?;
        let name = std::str::from_utf8(name).map_err(|_| bad)?.to_owned();
        let (siblings, mut rest) = prefix_of::<RawSibling>(rest, count)?;
        let siblings = siblings.iter().map(RawSibling::decode).collect::<Result<_, _>>()?;
        let version = Version(head.version.get());
        let part = match has_part {
            true => {
                let (part, behind) = prefix::<RawPart>(rest)?;
                rest = behind;
                Some((Version(part.version.get()), Term(part.term.get())))
            }
            false => None,
        };
        if part.is_some_and(|(before, _)| before >= version) {
            return Err(bad);
        }
        let (column, width) = match is_striped {
            true => {
                let (stripe, _) = prefix::<RawStripe>(rest)?;
                (stripe.column, stripe.width)
            }
            false => (0, 1),
        };
        if column >= width || u16::from(column) > index || is_striped && width < 2 {
            return Err(bad);
        }
        let read = Self {
            volume: VolumeId(head.volume.get()),
            name,
            size_bytes: head.size_bytes.get(),
            ftt: head.ftt,
            reserve_percent: head.reserve_percent,
            index,
            objects,
            column,
            width,
            version,
            term: Term(head.term.get()),
            part,
            incarnation: Incarnation(head.incarnation.get()),
            siblings,
        };
        if read.size() == bytes.len() { Ok(read) } else { Err(FormatError::Length) }
    }
}

impl From<&Sibling> for RawSibling {
    fn from(sibling: &Sibling) -> Self {
        Self {
            id: sibling.id.0.into(),
            host: sibling.shard.0.into(),
            group: sibling.group.0.into(),
            seat: sibling.seat.0.into(),
            worth: match sibling.worth {
                Worth::Active => 0,
                Worth::Absent => 1,
                Worth::Degraded => 2,
                Worth::Resyncing => 3,
            },
        }
    }
}

impl RawSibling {
    fn decode(&self) -> Result<Sibling, FormatError> {
        let worth = match self.worth {
            0 => Worth::Active,
            1 => Worth::Absent,
            2 => Worth::Degraded,
            3 => Worth::Resyncing,
            _ => return Err(FormatError::Field { name: "worth" }),
        };
        Ok(Sibling {
            id: ComponentId(self.id.get()),
            shard: ShardId(self.host.get()),
            group: GroupId(self.group.get()),
            seat: Seat(self.seat.get()),
            worth,
        })
    }
}
