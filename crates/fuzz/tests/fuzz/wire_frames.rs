// SPDX-License-Identifier: Apache-2.0
//! Frames between hosts, raw and with their checksums made right.

use crate::base_types::{marked, request};
use base::{
    ComponentId, Incarnation, Instant, Lsn, Mark, ObjectId, Seat, SectorRange, Session, ShardId,
    Term, Version, VolumeId, WriterEpoch, crc32c,
};
use env::{Pool, Slice};
use fuzz::{Source, bounded};
use wire::{
    CopyHealth, Crcs, Failure, Fenced, HEADER_LEN, HELLO_VERSION, Header, Hello, Holding, Marks,
    MemberChange, Message, OwnerId, PAYLOAD_MAX, Refusal, Request, Response, Target, VERSION,
    Versions, WireError, WriteKind, crcs_of, decode, encode, verify,
};

/// The kind of a `Hello`.
const HELLO: u8 = 1;

fuzz::targets! {
    wire_frame: 500_000, samples(), frame_of;
    wire_message: 60_000, Vec::new(), message_of;
    wire_crcs: 40_000, Vec::new(), crcs_target;
}

/// Every kind of frame, as in the fixtures.
pub(crate) fn samples() -> Vec<Vec<u8>> {
    let numbered = wire::samples::messages().into_iter().enumerate();
    numbered.map(|(index, (_, message))| frame(&message, wire::samples::id(index))).collect()
}

/// Header, body and payload.
pub(crate) fn frame(message: &Message, id: u64) -> Vec<u8> {
    let mut out = Vec::new();
    encode(message, Some(VERSION), id, &mut out);
    out.extend_from_slice(message.payload().map_or(&[], |payload| payload));
    out
}

fn slice(bytes: &[u8]) -> Slice {
    let mut buf = Pool::default().take(bytes.len());
    buf.copy_from_slice(bytes);
    buf.freeze()
}

/// Reads one frame that must be all of `bytes`.
pub(crate) fn read(bytes: &[u8]) -> Result<(u64, Message), WireError> {
    let short = WireError::Short { kind: 0 };
    let (header, rest) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(short)?;
    let header = Header::decode(header, Some(VERSION))?;
    if rest.len() != header.body_len() + header.payload_len() {
        return Err(short);
    }
    let (body, payload) = rest.split_at(header.body_len());
    let payload = slice(payload);
    // The payload is handed on as it came; it is the body that could make memory grow.
    let message = bounded(body.len(), || decode(&header, body, payload))?;
    Ok((header.id(), message))
}

/// The frame with the right magic, version, lengths and checksums. The body takes what the payload
/// leaves.
pub(crate) fn resealed(input: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    bytes.resize(bytes.len().max(HEADER_LEN), 0);
    let rest = bytes.len() - HEADER_LEN;
    let wanted = u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
    let payload = (wanted as usize).min(rest).min(PAYLOAD_MAX);
    bytes[..4].copy_from_slice(b"GBNW");
    bytes[4] = if bytes[5] == HELLO { HELLO_VERSION } else { VERSION };
    bytes[6..8].fill(0);
    bytes[8..12].copy_from_slice(&((rest - payload) as u32).to_le_bytes());
    bytes[12..16].copy_from_slice(&(payload as u32).to_le_bytes());
    bytes[28..60].fill(0);
    let crc = crc32c(&bytes[HEADER_LEN..HEADER_LEN + rest - payload]);
    bytes[24..28].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn frame_of(input: &[u8]) {
    for bytes in [input.to_vec(), resealed(input)] {
        match read(&bytes) {
            Ok((id, message)) => {
                // There is one encoding of each message, but for what a later build adds.
                match &message {
                    Message::Hello(_) => {
                        let body = &frame(&message, id)[HEADER_LEN..];
                        assert!(bytes[HEADER_LEN..].starts_with(body), "{message:?}");
                    }
                    _ => assert_eq!(frame(&message, id), bytes, "{message:?}"),
                }
                // What the log shows must not panic either.
                assert!(!format!("{message:?}").is_empty());
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

fn message_of(input: &[u8]) {
    let mut from = Source::new(input);
    let id = from.edge();
    let message = message(&mut from);
    let bytes = frame(&message, id);
    let (same, decoded) = read(&bytes).unwrap_or_else(|error| panic!("{message:?}: {error}"));
    assert_eq!(same, id);
    assert_eq!(format!("{decoded:?}"), format!("{message:?}"));
    assert_eq!(frame(&decoded, id), bytes);
}

fn crcs_target(input: &[u8]) {
    let mut from = Source::new(input);
    let Some(range) = SectorRange::checked(from.edge(), from.below(20)) else { return };
    let crcs: Vec<u32> = (0..from.below(5)).map(|_| from.u32()).collect();
    let rest = from.rest();
    let _ = verify(range, &crcs, rest);
    let mut data = rest.to_vec();
    data.resize(range.bytes() as usize, 7);
    let right = crcs_of(range, &data);
    assert!(verify(range, &right, &data));
    if let Some(byte) = data.first_mut() {
        *byte ^= 1;
        assert!(!verify(range, &right, &data), "a changed byte is not noticed");
    }
}

fn term(from: &mut Source<'_>) -> Term {
    Term(from.below(1 << 24) as u32)
}

fn lsn(from: &mut Source<'_>) -> Lsn {
    Lsn(from.edge())
}

fn owner(from: &mut Source<'_>) -> OwnerId {
    OwnerId { shard: ShardId(from.u32()), incarnation: Incarnation(from.edge()) }
}

fn target(from: &mut Source<'_>) -> Target {
    Target {
        object: ObjectId(from.u64()),
        component: ComponentId(from.u64()),
        term: term(from),
        seat: Seat(from.u32()),
        session: Session(from.u32()),
    }
}

fn any_range(from: &mut Source<'_>) -> SectorRange {
    SectorRange::checked(from.edge(), from.edge()).unwrap_or(SectorRange::new(7, 9))
}

fn chunk_range(from: &mut Source<'_>) -> SectorRange {
    let (chunk, offset) = (from.below(1 << 40), from.below(2048));
    SectorRange::new(chunk * 2048 + offset, 1 + from.below((2048 - offset).min(24)))
}

/// A write's range, kind, checksums and payload.
fn data(from: &mut Source<'_>) -> (SectorRange, WriteKind, Crcs, Slice) {
    let range = chunk_range(from);
    match from.u8() % 4 {
        0 => (range, WriteKind::Zero, Crcs::NONE, slice(&[])),
        1 => (range, WriteKind::Discard, Crcs::NONE, slice(&[])),
        _ => {
            let payload = slice(&vec![from.u8(); range.bytes() as usize]);
            (range, WriteKind::Data, crcs_of(range, &payload), payload)
        }
    }
}

fn hello(from: &mut Source<'_>) -> Hello {
    let versions = Versions::new(from.u8(), from.u8()).unwrap_or(Versions::SPOKEN);
    Hello { cluster: from.u64(), me: owner(from), versions }
}

pub(crate) fn message(from: &mut Source<'_>) -> Message {
    match from.u8() % 32 {
        0 => Message::Ping,
        1 => Message::Pong,
        2 => Message::Hello(hello(from)),
        3..=18 => Message::Request(wire_request(from)),
        _ => Message::Response(response(from)),
    }
}

fn claims(from: &mut Source<'_>) -> wire::Claims {
    let claim = |from: &mut Source<'_>| wire::WireClaim {
        term: base::Term(from.u32()),
        version: Version(from.edge()),
        owner: owner(from),
    };
    let all: Vec<_> = (0..from.below(4)).map(|_| claim(from)).collect();
    wire::Claims::new(&all)
}

fn wire_request(from: &mut Source<'_>) -> Request {
    match from.u8() % 10 {
        0 => Request::Renew { sent: Instant(from.edge()) },
        1 => Request::Release,
        2 => Request::Fence {
            target: target(from),
            version: Version(from.edge()),
            owner: owner(from),
            create: from.flag().then(|| from.edge()),
            claims: claims(from),
        },
        3 | 4 => {
            let (range, kind, crcs, payload) = data(from);
            let marks: Vec<Mark> = (0..from.below(4)).map(|_| Mark::Done(request(from))).collect();
            Request::Write {
                target: target(from),
                lsn: lsn(from),
                prev: lsn(from),
                commit: lsn(from),
                range,
                kind,
                is_copy: from.flag(),
                marks: Marks::new(&marks),
                crcs,
                payload,
            }
        }
        5 => Request::Read { target: target(from), range: chunk_range(from) },
        6 => Request::ListChanged { target: target(from), since: lsn(from), cursor: from.edge() },
        7 => Request::SetClients { target: target(from), clients: marked(from.bytes(60)) },
        _ => client_request(from),
    }
}

fn client_request(from: &mut Source<'_>) -> Request {
    let (object, term) = (ObjectId(from.u64()), term(from));
    let kind = from.u8();
    match kind % 9 {
        _ if kind >= 248 => {
            let component = ComponentId(from.u64());
            Request::Repair { object, term, component, range: chunk_range(from) }
        }
        _ if (232..240).contains(&kind) => {
            let component = ComponentId(from.u64());
            let shard = ShardId(from.u32());
            let version = Version(from.edge());
            let change = match (kind % 2, component.0, shard.0) {
                (0, _, 0) => MemberChange::Keep(component),
                (0, ..) => MemberChange::Replace { old: component, to: shard, members: version.0 },
                (_, 0, _) => MemberChange::Add { to: ShardId(shard.0.max(1)), version },
                (..) => MemberChange::TakeOut { component, version },
            };
            Request::Members { object, term, change }
        }
        _ if kind >= 240 => Request::Vouch {
            holding: Holding {
                object,
                component: ComponentId(from.u64()),
                sectors: from.edge(),
                term,
                owner: owner(from),
                version: Version(from.edge()),
                durable: lsn(from),
            },
        },
        0 => Request::CommitInfo { target: target(from), commit: lsn(from) },
        1 => Request::CreateComponent {
            object,
            component: ComponentId(from.u64()),
            sectors: from.edge(),
        },
        2 => Request::DeleteComponent { object, component: ComponentId(from.u64()) },
        3 => Request::HandOver { object, to: owner(from) },
        4 => Request::ClientOpen { volume: VolumeId(from.u64()), object, term },
        5 => Request::ClientRead { object, term, range: chunk_range(from) },
        6 => {
            let (range, kind, crcs, payload) = data(from);
            let id = from.flag().then(|| request(from));
            let epoch = if from.flag() { WriterEpoch(from.u32()) } else { WriterEpoch::ANY };
            Request::ClientWrite { object, term, id, epoch, range, kind, crcs, payload }
        }
        7 => Request::ReserveSpace { component: ComponentId(from.u64()), chunks: from.u32() },
        _ => Request::ClientExtents { object, term, range: any_range(from) },
    }
}

fn response(from: &mut Source<'_>) -> Response {
    match from.u8() % 12 {
        0 => Response::Granted {
            sent: Instant(from.edge()),
            ttl_ms: from.u32(),
            grant_epoch: from.edge(),
        },
        1 => Response::Done,
        2 => Response::Fenced(Box::new(fenced(from))),
        3 => Response::Durable { lsn: lsn(from), free_chunks: from.u32() },
        4 => {
            let range = chunk_range(from);
            let payload = slice(&vec![from.u8(); range.bytes() as usize]);
            Response::Data { crcs: crcs_of(range, &payload), payload }
        }
        5 => Response::Changed {
            ranges: (0..from.below(9)).map(|_| any_range(from)).collect(),
            held: (0..from.below(9)).map(|_| from.u64()).collect(),
            next: from.flag().then(|| from.edge()),
        },
        6 => Response::Extents {
            ranges: (0..from.below(9)).map(|_| (any_range(from), from.flag())).collect(),
        },
        7 => Response::Moved { owner: from.flag().then(|| owner(from)), term: term(from) },
        8 => Response::Refused { reason: refusal(from) },
        9 => Response::Created { group: base::GroupId(from.edge()) },
        10 => Response::Opened { last: request(from) },
        _ => Response::Failed { reason: failure(from) },
    }
}

fn fenced(from: &mut Source<'_>) -> Fenced {
    Fenced {
        seat: Seat(from.u32()),
        version: Version(from.edge()),
        durable: lsn(from),
        commit: lsn(from),
        destaged: lsn(from),
        grant_epoch: from.edge(),
        group: base::GroupId(from.edge()),
        tail: (0..from.below(9)).map(|_| (any_range(from), lsn(from))).collect(),
        clients: marked(from.bytes(60)),
        open: (0..from.below(9)).map(|_| (any_range(from), lsn(from), request(from))).collect(),
        health: [CopyHealth::Good, CopyHealth::Partial, CopyHealth::Lost][from.index(3)],
    }
}

fn refusal(from: &mut Source<'_>) -> Refusal {
    match from.u8() % 7 {
        0 => Refusal::HigherTerm(term(from)),
        1 => Refusal::Seat(Seat(from.u32())),
        2 => Refusal::Session,
        3 => Refusal::UnknownComponent,
        4 => Refusal::GrantedToOther { wait_ms: from.u32() },
        5 => Refusal::OutOfOrder { durable: lsn(from) },
        _ => Refusal::NotReady,
    }
}

fn failure(from: &mut Source<'_>) -> Failure {
    match from.u8() % 7 {
        0 => Failure::Full,
        1 => Failure::Device,
        2 => Failure::BadCrc { range: any_range(from) },
        3 => Failure::Busy,
        4 => Failure::Inaccessible,
        5 => Failure::NotWriter,
        _ => Failure::Io,
    }
}
