// SPDX-License-Identifier: Apache-2.0
//! Bodies of responses.

use super::RESPONSES;
use super::fields::{
    Fields, put_clients, put_count, put_crcs, put_option, put_owner, put_range, put_request_id,
    put_u32, put_u64,
};
use crate::OPEN_MAX;
use crate::crcs::Crcs;
use crate::error::WireError;
use crate::message::{CopyHealth, Failure, Fenced, Refusal, Response};
use base::{BLOCK_SIZE, GroupId, Instant, SECTOR_SIZE, Seat, Term, Version};
use env::Slice;

const GRANTED: u8 = RESPONSES;
const DONE: u8 = RESPONSES + 1;
const FENCED: u8 = RESPONSES + 2;
const DURABLE: u8 = RESPONSES + 3;
const DATA: u8 = RESPONSES + 4;
const CHANGED: u8 = RESPONSES + 5;
const EXTENTS: u8 = RESPONSES + 6;
const MOVED: u8 = RESPONSES + 7;
const REFUSED: u8 = RESPONSES + 8;
const FAILED: u8 = RESPONSES + 9;
const CREATED: u8 = RESPONSES + 10;
const OPENED: u8 = RESPONSES + 11;

pub(super) fn takes_payload(kind: u8) -> bool {
    kind == DATA
}

pub(super) fn kind_of(response: &Response) -> u8 {
    match response {
        Response::Granted { .. } => GRANTED,
        Response::Done => DONE,
        Response::Created { .. } => CREATED,
        Response::Opened { .. } => OPENED,
        Response::Fenced(_) => FENCED,
        Response::Durable { .. } => DURABLE,
        Response::Data { .. } => DATA,
        Response::Changed { .. } => CHANGED,
        Response::Extents { .. } => EXTENTS,
        Response::Moved { .. } => MOVED,
        Response::Refused { .. } => REFUSED,
        Response::Failed { .. } => FAILED,
    }
}

pub(super) fn put(response: &Response, out: &mut Vec<u8>) {
    match response {
        Response::Granted { sent, ttl_ms, grant_epoch } => {
            put_u64(out, sent.0);
            put_u32(out, *ttl_ms);
            put_u64(out, *grant_epoch);
        }
        Response::Done => {}
        Response::Created { group } => put_u64(out, group.0),
        Response::Opened { last } => put_request_id(out, Some(*last)),
        Response::Fenced(fenced) => put_fenced(fenced, out),
        Response::Durable { lsn, free_chunks } => {
            put_u64(out, lsn.0);
            put_u32(out, *free_chunks);
        }
        Response::Data { crcs, payload } => {
            assert!(is_data(crcs, payload), "data with checksums of another length");
            put_crcs(out, crcs);
        }
        Response::Changed { ranges, held, next } => {
            put_option(out, *next);
            put_count(out, ranges.len());
            ranges.iter().for_each(|range| put_range(out, *range));
            put_count(out, held.len());
            held.iter().for_each(|word| put_u64(out, *word));
        }
        Response::Extents { ranges } => {
            put_count(out, ranges.len());
            for (range, is_allocated) in ranges {
                put_range(out, *range);
                out.push(u8::from(*is_allocated));
            }
        }
        Response::Moved { owner, term } => {
            put_u32(out, term.0);
            out.push(u8::from(owner.is_some()));
            if let Some(owner) = owner {
                put_owner(out, *owner);
            }
        }
        Response::Refused { reason } => put_refusal(*reason, out),
        Response::Failed { reason } => put_failure(*reason, out),
    }
}

fn put_fenced(fenced: &Fenced, out: &mut Vec<u8>) {
    let Fenced {
        seat,
        version,
        durable,
        commit,
        destaged,
        grant_epoch,
        group,
        tail,
        clients,
        open,
        health,
    } = fenced;
    put_u32(out, seat.0);
    put_u64(out, version.0);
    for lsn in [durable, commit, destaged] {
        put_u64(out, lsn.0);
    }
    put_u64(out, *grant_epoch);
    put_u64(out, group.0);
    out.push(match health {
        CopyHealth::Good => 0,
        CopyHealth::Partial => 1,
        CopyHealth::Lost => 2,
    });
    put_count(out, tail.len());
    for (range, lsn) in tail {
        put_range(out, *range);
        put_u64(out, lsn.0);
    }
    put_clients(out, clients);
    assert!(open.len() <= OPEN_MAX, "more open requests than a table holds");
    put_count(out, open.len());
    for (range, lsn, id) in open {
        put_range(out, *range);
        put_u64(out, lsn.0);
        put_request_id(out, Some(*id));
    }
}

fn put_refusal(reason: Refusal, out: &mut Vec<u8>) {
    let (code, value) = match reason {
        Refusal::HigherTerm(term) => (0, u64::from(term.0)),
        Refusal::Seat(seat) => (1, u64::from(seat.0)),
        Refusal::Session => (2, 0),
        Refusal::UnknownComponent => (3, 0),
        Refusal::GrantedToOther { wait_ms } => (4, u64::from(wait_ms)),
        Refusal::OutOfOrder { durable } => (5, durable.0),
        Refusal::NotReady => (6, 0),
        Refusal::GroupClosed => (7, 0),
        Refusal::OtherHistory { version } => (8, version.0),
    };
    out.push(code);
    put_u64(out, value);
}

fn put_failure(reason: Failure, out: &mut Vec<u8>) {
    out.push(match reason {
        Failure::Full => 0,
        Failure::Device => 1,
        Failure::BadCrc { .. } => 2,
        Failure::Busy => 3,
        Failure::Inaccessible => 4,
        Failure::Io => 5,
        Failure::NotWriter => 6,
    });
    if let Failure::BadCrc { range } = reason {
        put_range(out, range);
    }
}

pub(super) fn take(fields: &mut Fields<'_>, payload: Slice) -> Result<Response, WireError> {
    Ok(match fields.kind() {
        GRANTED => Response::Granted {
            sent: Instant(fields.u64()?),
            ttl_ms: fields.u32()?,
            grant_epoch: fields.u64()?,
        },
        DONE => Response::Done,
        CREATED => Response::Created { group: GroupId(fields.u64()?) },
        OPENED => Response::Opened {
            last: fields.request_id()?.ok_or_else(|| fields.invalid("request"))?,
        },
        FENCED => return take_fenced(fields),
        DURABLE => Response::Durable { lsn: fields.lsn()?, free_chunks: fields.u32()? },
        DATA => {
            let crcs = fields.crcs()?;
            if !is_data(&crcs, &payload) {
                return Err(fields.invalid("payload"));
            }
            Response::Data { crcs, payload }
        }
        CHANGED => {
            let next = fields.option("next")?;
            let count = fields.count("ranges")?;
            let ranges = (0..count).map(|_| fields.range()).collect::<Result<_, _>>()?;
            let count = fields.count("held")?;
            let held = (0..count).map(|_| fields.u64()).collect::<Result<_, _>>()?;
            Response::Changed { ranges, held, next }
        }
        EXTENTS => {
            let count = fields.count("ranges")?;
            let mut extent = || Ok((fields.range()?, fields.flag("allocated")?));
            Response::Extents { ranges: (0..count).map(|_| extent()).collect::<Result<_, _>>()? }
        }
        MOVED => {
            let term = fields.term()?;
            let has_owner = fields.flag("owner")?;
            let owner = if has_owner { Some(fields.owner()?) } else { None };
            Response::Moved { owner, term }
        }
        REFUSED => Response::Refused { reason: take_refusal(fields)? },
        FAILED => Response::Failed { reason: take_failure(fields)? },
        kind => return Err(WireError::Kind { kind }),
    })
}

fn take_fenced(fields: &mut Fields<'_>) -> Result<Response, WireError> {
    let (seat, version) = (Seat(fields.u32()?), Version(fields.u64()?));
    let (durable, commit, destaged) = (fields.lsn()?, fields.lsn()?, fields.lsn()?);
    let (grant_epoch, group) = (fields.u64()?, GroupId(fields.u64()?));
    let health = match fields.u8()? {
        0 => CopyHealth::Good,
        1 => CopyHealth::Partial,
        2 => CopyHealth::Lost,
        _ => return Err(fields.invalid("health")),
    };
    let count = fields.count("tail")?;
    let mut entry = || Ok((fields.range()?, fields.lsn()?));
    let tail = (0..count).map(|_| entry()).collect::<Result<_, _>>()?;
    let clients = fields.clients()?;
    let count = fields.count("open")?;
    if count as usize > OPEN_MAX {
        return Err(fields.invalid("open"));
    }
    let mut open = Vec::new();
    for _ in 0..count {
        let (range, lsn) = (fields.range()?, fields.lsn()?);
        let id = fields.request_id()?.ok_or_else(|| fields.invalid("request"))?;
        open.push((range, lsn, id));
    }
    let fenced = Fenced {
        seat,
        version,
        durable,
        commit,
        destaged,
        grant_epoch,
        group,
        tail,
        clients,
        open,
        health,
    };
    Ok(Response::Fenced(Box::new(fenced)))
}

fn take_refusal(fields: &mut Fields<'_>) -> Result<Refusal, WireError> {
    let code = fields.u8()?;
    let value = fields.u64()?;
    let invalid = fields.invalid("refusal");
    let small = u32::try_from(value);
    match (code, small) {
        (0, Ok(term)) if term < 1 << 24 => Ok(Refusal::HigherTerm(Term(term))),
        (1, Ok(seat)) => Ok(Refusal::Seat(Seat(seat))),
        (2, Ok(0)) => Ok(Refusal::Session),
        (3, Ok(0)) => Ok(Refusal::UnknownComponent),
        (4, Ok(wait_ms)) => Ok(Refusal::GrantedToOther { wait_ms }),
        (5, _) => Ok(Refusal::OutOfOrder { durable: base::Lsn(value) }),
        (6, Ok(0)) => Ok(Refusal::NotReady),
        (7, Ok(0)) => Ok(Refusal::GroupClosed),
        (8, _) => Ok(Refusal::OtherHistory { version: Version(value) }),
        _ => Err(invalid),
    }
}

fn take_failure(fields: &mut Fields<'_>) -> Result<Failure, WireError> {
    match fields.u8()? {
        0 => Ok(Failure::Full),
        1 => Ok(Failure::Device),
        2 => Ok(Failure::BadCrc { range: fields.range()? }),
        3 => Ok(Failure::Busy),
        4 => Ok(Failure::Inaccessible),
        5 => Ok(Failure::Io),
        6 => Ok(Failure::NotWriter),
        _ => Err(fields.invalid("failure")),
    }
}

/// Whether so much data can have so many checksums. Its range is not known here. Data as long as
/// `n` blocks touches `n` of them, or one more where it begins within a block.
fn is_data(crcs: &Crcs, payload: &[u8]) -> bool {
    let bytes = payload.len() as u64;
    let least = bytes.div_ceil(BLOCK_SIZE);
    let count = crcs.len() as u64;
    !payload.is_empty() && bytes.is_multiple_of(SECTOR_SIZE) && (least..=least + 1).contains(&count)
}
