// SPDX-License-Identifier: Apache-2.0
//! Fields that several kinds of bodies have.

use crate::crcs::{Crcs, crcs_count};
use crate::error::WireError;
use crate::message::{Marks, OwnerId, Target, WriteKind};
use crate::{LIST_MAX, PAYLOAD_MAX};
use base::{
    CHUNK_SECTORS, ClientTable, ComponentId, Incarnation, Lsn, MARKS_MAX, Mark, ObjectId,
    RequestId, Seat, SectorRange, Session, ShardId, Term,
};
use env::Slice;

/// What is left of a body. Each method takes a field from its front. The error says what is wrong
/// with the field.
pub(crate) struct Fields<'a> {
    kind: u8,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn new(kind: u8, rest: &'a [u8]) -> Self {
        Self { kind, rest }
    }

    pub(crate) fn kind(&self) -> u8 {
        self.kind
    }

    pub(crate) fn invalid(&self, field: &'static str) -> WireError {
        WireError::Value { kind: self.kind, field }
    }

    /// Checks that nothing is left.
    pub(crate) fn end(&self) -> Result<(), WireError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        let count = u32::try_from(self.rest.len()).unwrap_or(u32::MAX);
        Err(WireError::Trailing { kind: self.kind, count })
    }

    /// Takes what is left, whatever it is.
    pub(crate) fn skip_rest(&mut self) {
        self.rest = &[];
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        let short = WireError::Short { kind: self.kind };
        let (field, rest) = self.rest.split_at_checked(count).ok_or(short)?;
        self.rest = rest;
        Ok(field)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let short = WireError::Short { kind: self.kind };
        let (field, rest) = self.rest.split_first_chunk::<N>().ok_or(short)?;
        self.rest = rest;
        Ok(*field)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, WireError> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, WireError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn lsn(&mut self) -> Result<Lsn, WireError> {
        self.u64().map(Lsn)
    }

    pub(crate) fn flag(&mut self, field: &'static str) -> Result<bool, WireError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.invalid(field)),
        }
    }

    /// The length in front of a list, at most [`LIST_MAX`].
    pub(crate) fn count(&mut self, field: &'static str) -> Result<u32, WireError> {
        let count = self.u32()?;
        if count as usize > LIST_MAX {
            return Err(self.invalid(field));
        }
        Ok(count)
    }

    /// An optional field: a flag and 8 bytes, which are zero where there is no value.
    pub(crate) fn option(&mut self, field: &'static str) -> Result<Option<u64>, WireError> {
        let is_some = self.flag(field)?;
        let value = self.u64()?;
        if !is_some && value != 0 {
            return Err(self.invalid(field));
        }
        Ok(is_some.then_some(value))
    }

    pub(crate) fn owner(&mut self) -> Result<OwnerId, WireError> {
        Ok(OwnerId { shard: ShardId(self.u32()?), incarnation: Incarnation(self.u64()?) })
    }

    pub(crate) fn target(&mut self) -> Result<Target, WireError> {
        Ok(Target {
            object: ObjectId(self.u64()?),
            component: ComponentId(self.u64()?),
            term: self.term()?,
            seat: Seat(self.u32()?),
            session: Session(self.u32()?),
        })
    }

    /// A term that fits an lsn.
    pub(crate) fn term(&mut self) -> Result<Term, WireError> {
        let term = self.u32()?;
        if term >= 1 << 24 {
            return Err(self.invalid("term"));
        }
        Ok(Term(term))
    }

    /// Any range whose end does not overflow, in bytes neither.
    pub(crate) fn range(&mut self) -> Result<SectorRange, WireError> {
        let (start, count) = (self.u64()?, self.u64()?);
        SectorRange::checked(start, count).ok_or_else(|| self.invalid("range"))
    }

    /// A range of at least one sector that lies within one chunk, as a read or write must.
    pub(crate) fn range_of_chunk(&mut self) -> Result<SectorRange, WireError> {
        let range = self.range()?;
        if !is_in_one_chunk(range) {
            return Err(self.invalid("range"));
        }
        Ok(range)
    }

    /// A list of checksums, at most [`CRCS_MAX`].
    pub(crate) fn crcs(&mut self) -> Result<Crcs, WireError> {
        let count = self.u32()? as usize;
        if count > CRCS_MAX {
            return Err(self.invalid("crcs"));
        }
        let bytes = self.take(count * 4)?;
        let (crcs, _) = bytes.as_chunks::<4>();
        Ok(crcs.iter().map(|crc| u32::from_le_bytes(*crc)).collect())
    }

    /// The id of a request. `None` where its 12 bytes are zero.
    pub(crate) fn request_id(&mut self) -> Result<Option<RequestId>, WireError> {
        match (self.u32()?, self.u64()?) {
            (0, 0) => Ok(None),
            (low, high) => {
                let id = RequestId::unpack(low, high);
                id.map(Some).ok_or_else(|| self.invalid("request"))
            }
        }
    }

    pub(crate) fn marks(&mut self) -> Result<Marks, WireError> {
        let count = usize::from(self.u16()?);
        if count > MARKS_MAX {
            return Err(self.invalid("marks"));
        }
        let mut mark = || {
            let is_done = self.flag("mark")?;
            let id = self.request_id()?.ok_or_else(|| self.invalid("request"))?;
            Ok(if is_done { Mark::Done(id) } else { Mark::Undone(id) })
        };
        (0..count).map(|_| mark()).collect()
    }

    pub(crate) fn clients(&mut self) -> Result<ClientTable, WireError> {
        let length = usize::from(self.u16()?);
        let table = ClientTable::decode(self.take(length)?);
        table.ok_or_else(|| self.invalid("clients"))
    }

    /// What the writes of owners and of clients have in common. It is checked against `payload`.
    pub(crate) fn data(&mut self, payload: &Slice) -> Result<WriteFields, WireError> {
        let range = self.range_of_chunk()?;
        let kind = match self.u8()? {
            0 => WriteKind::Data,
            1 => WriteKind::Zero,
            2 => WriteKind::Discard,
            _ => return Err(self.invalid("write kind")),
        };
        let crcs = self.crcs()?;
        if let Err(field) = check_data(range, kind, &crcs, payload) {
            return Err(self.invalid(field));
        }
        Ok(WriteFields { range, kind, crcs })
    }
}

/// Most blocks that a range within one chunk touches.
const CRCS_MAX: usize = PAYLOAD_MAX / 4096;

/// What [`Fields::data`] reads.
pub(crate) struct WriteFields {
    pub(crate) range: SectorRange,
    pub(crate) kind: WriteKind,
    pub(crate) crcs: Crcs,
}

fn is_in_one_chunk(range: SectorRange) -> bool {
    !range.is_empty() && range.start / CHUNK_SECTORS == (range.end() - 1) / CHUNK_SECTORS
}

/// Checks that checksums and payload fit range and kind. The error names the field that does not.
fn check_data(
    range: SectorRange,
    kind: WriteKind,
    crcs: &[u32],
    payload: &[u8],
) -> Result<(), &'static str> {
    let (bytes, count) = match kind {
        WriteKind::Data => (range.bytes(), crcs_count(range)),
        WriteKind::Zero | WriteKind::Discard => (0, 0),
    };
    if payload.len() as u64 != bytes {
        return Err("payload");
    }
    if crcs.len() as u64 != count {
        return Err("crcs");
    }
    Ok(())
}

pub(crate) fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_option(out: &mut Vec<u8>, value: Option<u64>) {
    out.push(u8::from(value.is_some()));
    put_u64(out, value.unwrap_or(0));
}

pub(crate) fn put_count(out: &mut Vec<u8>, count: usize) {
    assert!(count <= LIST_MAX, "a list beyond its limit");
    put_u32(out, u32::try_from(count).unwrap_or(u32::MAX));
}

pub(crate) fn put_owner(out: &mut Vec<u8>, owner: OwnerId) {
    put_u32(out, owner.shard.0);
    put_u64(out, owner.incarnation.0);
}

pub(crate) fn put_target(out: &mut Vec<u8>, target: &Target) {
    put_u64(out, target.object.0);
    put_u64(out, target.component.0);
    put_u32(out, target.term.0);
    put_u32(out, target.seat.0);
    put_u32(out, target.session.0);
}

pub(crate) fn put_range(out: &mut Vec<u8>, range: SectorRange) {
    put_u64(out, range.start);
    put_u64(out, range.count);
}

pub(crate) fn put_range_of_chunk(out: &mut Vec<u8>, range: SectorRange) {
    assert!(is_in_one_chunk(range), "{range:?} is not within one chunk");
    put_range(out, range);
}

pub(crate) fn put_crcs(out: &mut Vec<u8>, crcs: &[u32]) {
    assert!(crcs.len() <= CRCS_MAX, "more checksums than blocks");
    put_u32(out, u32::try_from(crcs.len()).unwrap_or(u32::MAX));
    for crc in crcs {
        put_u32(out, *crc);
    }
}

pub(crate) fn put_request_id(out: &mut Vec<u8>, id: Option<RequestId>) {
    let (low, high) = id.map_or((0, 0), RequestId::pack);
    put_u32(out, low);
    put_u64(out, high);
}

pub(crate) fn put_marks(out: &mut Vec<u8>, marks: &[Mark]) {
    assert!(marks.len() <= MARKS_MAX, "more marks than one write carries");
    put_u16(out, marks.len());
    for mark in marks {
        let (is_done, id) = match mark {
            Mark::Done(id) => (true, *id),
            Mark::Undone(id) => (false, *id),
        };
        out.push(u8::from(is_done));
        put_request_id(out, Some(id));
    }
}

pub(crate) fn put_clients(out: &mut Vec<u8>, clients: &ClientTable) {
    let bytes = clients.encode();
    put_u16(out, bytes.len());
    out.extend_from_slice(&bytes);
}

fn put_u16(out: &mut Vec<u8>, value: usize) {
    out.extend_from_slice(&u16::try_from(value).unwrap_or(u16::MAX).to_le_bytes());
}

pub(crate) fn put_data(
    out: &mut Vec<u8>,
    range: SectorRange,
    kind: WriteKind,
    crcs: &[u32],
    payload: &[u8],
) {
    if let Err(field) = check_data(range, kind, crcs, payload) {
        panic!("a write of {range:?} with wrong {field}");
    }
    put_range_of_chunk(out, range);
    out.push(match kind {
        WriteKind::Data => 0,
        WriteKind::Zero => 1,
        WriteKind::Discard => 2,
    });
    put_crcs(out, crcs);
}
