// SPDX-License-Identifier: Apache-2.0
//! What a component says of itself beside its data: enough to make its volume's records again when
//! the directory lost them. It stands in its row, where rows had zeros before.

use crate::FormatError;
use crate::bytes::{Reader, Writer};
use base::{ComponentId, GroupId, HostId, Incarnation, Seat, Term, Version, VolumeId};

/// Bytes of the longest volume name.
pub const VOLUME_NAME_MAX: usize = 64;
/// Components of one object, at most.
pub const PEERS_MAX: usize = 8;
/// Of the description's own layout; 0 is no description.
const LAYOUT: u8 = 1;
/// The same with [`Description::part`] at its end.
const LAYOUT_WITH_PART: u8 = 2;
const HEAD: usize = 45;
const PART: usize = 12;
const PEER: usize = 25;
/// Bytes of the longest description.
pub(crate) const DESCRIPTION_MAX: usize = HEAD + VOLUME_NAME_MAX + PEERS_MAX * PEER + PART;

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
    pub host: HostId,
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

impl Description {
    /// Bytes that it takes.
    pub(crate) fn size(&self) -> usize {
        let part = if self.part.is_some() { PART } else { 0 };
        HEAD + self.name.len() + self.siblings.len() * PEER + part
    }

    pub(crate) fn encode(&self, out: &mut Writer<'_>) {
        assert!(self.name.len() <= VOLUME_NAME_MAX, "a name beyond its bound");
        assert!(self.siblings.len() <= PEERS_MAX, "more components than an object has");
        let short = |count: usize| u8::try_from(count).unwrap_or(u8::MAX);
        out.u8(if self.part.is_some() { LAYOUT_WITH_PART } else { LAYOUT });
        out.u8(short(self.name.len()));
        out.u8(self.ftt);
        out.u8(self.reserve_percent);
        out.u64(self.volume.0);
        out.u64(self.size_bytes);
        out.u16(self.index);
        out.u16(self.objects);
        out.u64(self.version.0);
        out.u32(self.term.0);
        out.u64(self.incarnation.0);
        out.u8(short(self.siblings.len()));
        out.bytes(self.name.as_bytes());
        for sibling in &self.siblings {
            out.u64(sibling.id.0);
            out.u32(sibling.host.0);
            out.u64(sibling.group.0);
            out.u32(sibling.seat.0);
            out.u8(match sibling.worth {
                Worth::Active => 0,
                Worth::Absent => 1,
                Worth::Degraded => 2,
                Worth::Resyncing => 3,
            });
        }
        if let Some((version, term)) = self.part {
            out.u64(version.0);
            out.u32(term.0);
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let bad = FormatError::Field { name: "description" };
        let mut from = Reader::new(bytes);
        let has_part = match from.u8()? {
            LAYOUT => false,
            LAYOUT_WITH_PART => true,
            _ => return Err(bad),
        };
        let (name_length, ftt, reserve_percent) = (from.u8()?, from.u8()?, from.u8()?);
        let (volume, size_bytes) = (VolumeId(from.u64()?), from.u64()?);
        let (index, objects) = (from.u16()?, from.u16()?);
        let (version, term) = (Version(from.u64()?), Term(from.u32()?));
        let (incarnation, count) = (Incarnation(from.u64()?), usize::from(from.u8()?));
        if usize::from(name_length) > VOLUME_NAME_MAX || count > PEERS_MAX || index >= objects {
            return Err(bad);
        }
        let name = from.bytes(usize::from(name_length))?;
        let name = std::str::from_utf8(name).map_err(|_| bad)?.to_owned();
        let siblings = (0..count).map(|_| sibling(&mut from)).collect::<Result<_, _>>()?;
        let part = match has_part {
            true => Some((Version(from.u64()?), Term(from.u32()?))),
            false => None,
        };
        if part.is_some_and(|(before, _)| before >= version) {
            return Err(bad);
        }
        let read = Self {
            volume,
            name,
            size_bytes,
            ftt,
            reserve_percent,
            index,
            objects,
            version,
            term,
            part,
            incarnation,
            siblings,
        };
        if read.size() == bytes.len() { Ok(read) } else { Err(FormatError::Length) }
    }
}

fn sibling(from: &mut Reader<'_>) -> Result<Sibling, FormatError> {
    let (id, host) = (ComponentId(from.u64()?), HostId(from.u32()?));
    let (group, seat) = (GroupId(from.u64()?), Seat(from.u32()?));
    let worth = match from.u8()? {
        0 => Worth::Active,
        1 => Worth::Absent,
        2 => Worth::Degraded,
        3 => Worth::Resyncing,
        _ => return Err(FormatError::Field { name: "worth" }),
    };
    Ok(Sibling { id, host, group, seat, worth })
}
