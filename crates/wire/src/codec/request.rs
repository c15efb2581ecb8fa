// SPDX-License-Identifier: Apache-2.0
//! Bodies of requests.

use super::REQUESTS;
use super::fields::{
    Fields, put_clients, put_count, put_data, put_marks, put_option, put_owner, put_range,
    put_range_of_chunk, put_request_id, put_target, put_u32, put_u64,
};
use crate::CLAIMS_MAX;
use crate::error::WireError;
use crate::message::{Claims, Holding, MemberChange, Request, WireClaim};
use base::{ComponentId, Instant, ObjectId, ShardId, Term, Version, VolumeId, WriterEpoch};
use env::Slice;

const RENEW: u8 = REQUESTS;
const RELEASE: u8 = REQUESTS + 1;
const FENCE: u8 = REQUESTS + 2;
const WRITE: u8 = REQUESTS + 3;
const READ: u8 = REQUESTS + 4;
const LIST_CHANGED: u8 = REQUESTS + 5;
const COMMIT_INFO: u8 = REQUESTS + 6;
const CREATE_COMPONENT: u8 = REQUESTS + 7;
const DELETE_COMPONENT: u8 = REQUESTS + 8;
const HAND_OVER: u8 = REQUESTS + 9;
const CLIENT_OPEN: u8 = REQUESTS + 10;
const CLIENT_READ: u8 = REQUESTS + 11;
const CLIENT_WRITE: u8 = REQUESTS + 12;
const CLIENT_EXTENTS: u8 = REQUESTS + 13;
const SET_CLIENTS: u8 = REQUESTS + 14;
const REPAIR: u8 = REQUESTS + 15;
const RESERVE_SPACE: u8 = REQUESTS + 16;
const VOUCH: u8 = REQUESTS + 17;
const REPLACE: u8 = REQUESTS + 18;
const RESIZE: u8 = REQUESTS + 19;
/// A client's write with an epoch; of version 7.
const WRITER_WRITE: u8 = REQUESTS + 20;

/// The version of frames that had this kind first; 0: all that hosts ever agreed on.
pub(crate) fn since(kind: u8) -> u8 {
    if kind == WRITER_WRITE { 7 } else { 0 }
}

pub(super) fn takes_payload(kind: u8) -> bool {
    matches!(kind, WRITE | CLIENT_WRITE | WRITER_WRITE)
}

pub(super) fn kind_of(request: &Request) -> u8 {
    match request {
        Request::Renew { .. } => RENEW,
        Request::Release => RELEASE,
        Request::Fence { .. } => FENCE,
        Request::Write { .. } => WRITE,
        Request::Read { .. } => READ,
        Request::ListChanged { .. } => LIST_CHANGED,
        Request::CommitInfo { .. } => COMMIT_INFO,
        Request::SetClients { .. } => SET_CLIENTS,
        Request::CreateComponent { .. } => CREATE_COMPONENT,
        Request::DeleteComponent { .. } => DELETE_COMPONENT,
        Request::ReserveSpace { .. } => RESERVE_SPACE,
        Request::Vouch { .. } => VOUCH,
        Request::HandOver { .. } => HAND_OVER,
        Request::ClientOpen { .. } => CLIENT_OPEN,
        Request::ClientRead { .. } => CLIENT_READ,
        Request::ClientWrite { epoch: WriterEpoch(0), .. } => CLIENT_WRITE,
        Request::ClientWrite { .. } => WRITER_WRITE,
        Request::ClientExtents { .. } => CLIENT_EXTENTS,
        Request::Repair { .. } => REPAIR,
        Request::Members { change, .. } => match change {
            MemberChange::Replace { .. } | MemberChange::Keep(_) => REPLACE,
            MemberChange::Add { .. } | MemberChange::TakeOut { .. } => RESIZE,
        },
    }
}

pub(super) fn put(request: &Request, out: &mut Vec<u8>) {
    match request {
        Request::Renew { sent } => put_u64(out, sent.0),
        Request::Release => {}
        Request::Fence { target, version, owner, create, claims } => {
            put_target(out, target);
            put_u64(out, version.0);
            put_owner(out, *owner);
            put_option(out, *create);
            put_claims(out, claims);
        }
        Request::Write {
            target,
            lsn,
            prev,
            commit,
            range,
            kind,
            is_copy,
            marks,
            crcs,
            payload,
        } => {
            put_target(out, target);
            put_u64(out, lsn.0);
            put_u64(out, prev.0);
            put_u64(out, commit.0);
            out.push(u8::from(*is_copy));
            put_marks(out, marks);
            put_data(out, *range, *kind, crcs, payload);
        }
        Request::Read { target, range } => {
            put_target(out, target);
            put_range_of_chunk(out, *range);
        }
        Request::ListChanged { target, since, cursor } => {
            put_target(out, target);
            put_u64(out, since.0);
            put_u64(out, *cursor);
        }
        Request::CommitInfo { target, commit } => {
            put_target(out, target);
            put_u64(out, commit.0);
        }
        Request::SetClients { target, clients } => {
            put_target(out, target);
            put_clients(out, clients);
        }
        Request::CreateComponent { object, component, sectors } => {
            put_u64(out, object.0);
            put_u64(out, component.0);
            put_u64(out, *sectors);
        }
        Request::DeleteComponent { object, component } => {
            put_u64(out, object.0);
            put_u64(out, component.0);
        }
        Request::ReserveSpace { component, chunks } => {
            put_u64(out, component.0);
            put_u32(out, *chunks);
        }
        Request::Vouch { holding } => put_holding(out, holding),
        _ => put_client(request, out),
    }
}

fn put_client(request: &Request, out: &mut Vec<u8>) {
    match request {
        Request::HandOver { object, to } => {
            put_u64(out, object.0);
            put_owner(out, *to);
        }
        Request::ClientOpen { volume, object, term } => {
            put_u64(out, volume.0);
            put_u64(out, object.0);
            put_u32(out, term.0);
        }
        Request::ClientRead { object, term, range } => {
            put_u64(out, object.0);
            put_u32(out, term.0);
            put_range_of_chunk(out, *range);
        }
        Request::ClientWrite { object, term, id, epoch, range, kind, crcs, payload } => {
            put_u64(out, object.0);
            put_u32(out, term.0);
            put_request_id(out, *id);
            if epoch.0 > 0 {
                put_u32(out, epoch.0);
            }
            put_data(out, *range, *kind, crcs, payload);
        }
        Request::ClientExtents { object, term, range } => {
            put_u64(out, object.0);
            put_u32(out, term.0);
            put_range(out, *range);
        }
        Request::Repair { object, term, component, range } => {
            put_u64(out, object.0);
            put_u32(out, term.0);
            put_u64(out, component.0);
            put_range_of_chunk(out, *range);
        }
        Request::Members { object, term, change } => {
            put_u64(out, object.0);
            put_u32(out, term.0);
            let (component, host, decided_by) = match *change {
                MemberChange::Replace { old, to, members } => (old.0, to.0, Some(members)),
                MemberChange::Keep(component) => (component.0, 0, None),
                MemberChange::Add { to, version } => (0, to.0, Some(version.0)),
                MemberChange::TakeOut { component, version } => (component.0, 0, Some(version.0)),
            };
            put_u64(out, component);
            put_u32(out, host);
            if let Some(decided_by) = decided_by {
                put_u64(out, decided_by);
            }
        }
        _ => unreachable!("not a request to an owner"),
    }
}

pub(super) fn take(fields: &mut Fields<'_>, payload: Slice) -> Result<Request, WireError> {
    Ok(match fields.kind() {
        RENEW => Request::Renew { sent: Instant(fields.u64()?) },
        RELEASE => Request::Release,
        FENCE => Request::Fence {
            target: fields.target()?,
            version: Version(fields.u64()?),
            owner: fields.owner()?,
            create: fields.option("create")?,
            claims: take_claims(fields)?,
        },
        WRITE => {
            let target = fields.target()?;
            let (lsn, prev, commit) = (fields.lsn()?, fields.lsn()?, fields.lsn()?);
            let is_copy = fields.flag("copy")?;
            let marks = fields.marks()?;
            let data = fields.data(&payload)?;
            let (range, kind, crcs) = (data.range, data.kind, data.crcs);
            Request::Write { target, lsn, prev, commit, range, kind, is_copy, marks, crcs, payload }
        }
        READ => Request::Read { target: fields.target()?, range: fields.range_of_chunk()? },
        LIST_CHANGED => Request::ListChanged {
            target: fields.target()?,
            since: fields.lsn()?,
            cursor: fields.u64()?,
        },
        COMMIT_INFO => Request::CommitInfo { target: fields.target()?, commit: fields.lsn()? },
        SET_CLIENTS => Request::SetClients { target: fields.target()?, clients: fields.clients()? },
        CREATE_COMPONENT => Request::CreateComponent {
            object: ObjectId(fields.u64()?),
            component: ComponentId(fields.u64()?),
            sectors: fields.u64()?,
        },
        DELETE_COMPONENT => Request::DeleteComponent {
            object: ObjectId(fields.u64()?),
            component: ComponentId(fields.u64()?),
        },
        RESERVE_SPACE => {
            Request::ReserveSpace { component: ComponentId(fields.u64()?), chunks: fields.u32()? }
        }
        VOUCH => Request::Vouch { holding: take_holding(fields)? },
        _ => return take_client(fields, payload),
    })
}

fn take_client(fields: &mut Fields<'_>, payload: Slice) -> Result<Request, WireError> {
    Ok(match fields.kind() {
        HAND_OVER => Request::HandOver { object: ObjectId(fields.u64()?), to: fields.owner()? },
        CLIENT_OPEN => Request::ClientOpen {
            volume: VolumeId(fields.u64()?),
            object: ObjectId(fields.u64()?),
            term: fields.term()?,
        },
        CLIENT_READ => Request::ClientRead {
            object: ObjectId(fields.u64()?),
            term: fields.term()?,
            range: fields.range_of_chunk()?,
        },
        kind @ (CLIENT_WRITE | WRITER_WRITE) => {
            let (object, term) = (ObjectId(fields.u64()?), fields.term()?);
            let id = fields.request_id()?;
            let has_epoch = kind == WRITER_WRITE;
            let epoch = WriterEpoch(if has_epoch { fields.u32()? } else { 0 });
            if has_epoch && epoch.0 == 0 {
                return Err(fields.invalid("epoch"));
            }
            let data = fields.data(&payload)?;
            let (range, kind, crcs) = (data.range, data.kind, data.crcs);
            Request::ClientWrite { object, term, id, epoch, range, kind, crcs, payload }
        }
        CLIENT_EXTENTS => Request::ClientExtents {
            object: ObjectId(fields.u64()?),
            term: fields.term()?,
            range: fields.range()?,
        },
        REPAIR => Request::Repair {
            object: ObjectId(fields.u64()?),
            term: fields.term()?,
            component: ComponentId(fields.u64()?),
            range: fields.range_of_chunk()?,
        },
        REPLACE | RESIZE => Request::Members {
            object: ObjectId(fields.u64()?),
            term: fields.term()?,
            change: take_change(fields)?,
        },
        kind => return Err(WireError::Kind { kind }),
    })
}

fn take_change(fields: &mut Fields<'_>) -> Result<MemberChange, WireError> {
    let (component, shard) = (ComponentId(fields.u64()?), ShardId(fields.u32()?));
    if fields.kind() == REPLACE {
        return Ok(match shard.0 {
            0 => MemberChange::Keep(component),
            _ => MemberChange::Replace { old: component, to: shard, members: fields.u64()? },
        });
    }
    let version = Version(fields.u64()?);
    match (component.0, shard.0) {
        (0, 1..) => Ok(MemberChange::Add { to: shard, version }),
        (1.., 0) => Ok(MemberChange::TakeOut { component, version }),
        _ => Err(WireError::Value { kind: fields.kind(), field: "component" }),
    }
}

fn put_holding(out: &mut Vec<u8>, holding: &Holding) {
    put_u64(out, holding.object.0);
    put_u64(out, holding.component.0);
    put_u64(out, holding.sectors);
    put_u32(out, holding.term.0);
    put_owner(out, holding.owner);
    put_u64(out, holding.version.0);
    put_u64(out, holding.durable.0);
}

fn take_holding(fields: &mut Fields<'_>) -> Result<Holding, WireError> {
    Ok(Holding {
        object: ObjectId(fields.u64()?),
        component: ComponentId(fields.u64()?),
        sectors: fields.u64()?,
        term: fields.term()?,
        owner: fields.owner()?,
        version: Version(fields.u64()?),
        durable: fields.lsn()?,
    })
}

fn put_claims(out: &mut Vec<u8>, claims: &Claims) {
    assert!(claims.len() <= CLAIMS_MAX, "more claims than a record has");
    put_count(out, claims.len());
    for claim in claims.iter() {
        put_u32(out, claim.term.0);
        put_u64(out, claim.version.0);
        put_owner(out, claim.owner);
    }
}

fn take_claims(fields: &mut Fields<'_>) -> Result<Claims, WireError> {
    let count = fields.count("claims")?;
    if count as usize > CLAIMS_MAX {
        return Err(fields.invalid("claims"));
    }
    let mut claims = Vec::new();
    for _ in 0..count {
        let (term, version) = (Term(fields.u32()?), Version(fields.u64()?));
        claims.push(WireClaim { term, version, owner: fields.owner()? });
    }
    Ok(Claims::new(&claims))
}
