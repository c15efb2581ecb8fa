// SPDX-License-Identifier: Apache-2.0
//! At least one message of each kind, with a different value in every field. The fixtures hold
//! these messages.

use crate::{
    Claims, CopyHealth, Crcs, Failure, Fenced, Hello, Holding, Marks, MemberChange, Message,
    OwnerId, Refusal, Request, Response, Target, Versions, WireClaim, WriteKind, crcs_of,
};
use base::{
    ClientTable, ComponentId, GroupId, Incarnation, Instant, Lsn, Mark, ObjectId, RequestId, Seat,
    SectorRange, Session, ShardId, Term, Version, VolumeId, WriterEpoch,
};
use env::{Pool, Slice};

/// The number in the header of frame `index` of [`messages`], as in the fixtures.
#[must_use]
pub fn id(index: usize) -> u64 {
    0x1122_3344_5566_7700 + index as u64
}

fn slice(bytes: &[u8]) -> Slice {
    let mut buf = Pool::default().take(bytes.len());
    buf.copy_from_slice(bytes);
    buf.freeze()
}

/// The messages, each with the name of its fixture.
#[must_use]
pub fn messages() -> Vec<(&'static str, Message)> {
    let hello = Hello { cluster: 0x0123_4567_89ab_cdef, me: owner(), versions: versions() };
    let mut all =
        vec![("hello", Message::Hello(hello)), ("ping", Message::Ping), ("pong", Message::Pong)];
    all.extend(component_requests().into_iter().map(|(n, r)| (n, Message::Request(r))));
    all.extend(client_requests().into_iter().map(|(n, r)| (n, Message::Request(r))));
    all.extend(responses().into_iter().map(|(n, r)| (n, Message::Response(r))));
    all.extend(refusals().into_iter().map(|(n, r)| (n, Message::Response(r))));
    // New messages come last, so that the numbers of the others stay as they are.
    all.push(("repair", Message::Request(repair())));
    let reserve = Request::ReserveSpace { component: ComponentId(0xb1b2_b3b4), chunks: 0xd1d2 };
    all.push(("reserve-space", Message::Request(reserve)));
    let reason = Refusal::OtherHistory { version: Version(0xe1e2_e3e4_e5e6) };
    all.push(("refused-other-history", Message::Response(Response::Refused { reason })));
    all.push(("vouch", Message::Request(vouch())));
    all.push(("replace", Message::Request(replace())));
    let (object, term) = (ObjectId(0xa1a2_a3a4_a5a6_a7a8), Term(0x12_3456));
    let (component, version) = (ComponentId(0xb1b2_b3b4), Version(0xe1e2_e3e4_e5e6));
    let change = MemberChange::TakeOut { component, version };
    all.push(("resize", Message::Request(Request::Members { object, term, change })));
    all.push(("opened", Message::Response(Response::Opened { last: request(74) })));
    all.push(("writer-write", Message::Request(writer_write())));
    let reason = Failure::NotWriter;
    all.push(("failed-not-writer", Message::Response(Response::Failed { reason })));
    all
}

/// The version of frames in which the fixture of this name is: the first one that had it.
#[must_use]
pub fn version_of(name: &str) -> u8 {
    match name {
        "writer-write" | "failed-not-writer" => 7,
        _ => 6,
    }
}

fn writer_write() -> Request {
    let range = SectorRange::new(16, 1);
    Request::ClientWrite {
        object: ObjectId(0xa1a2_a3a4_a5a6_a7a8),
        term: Term(11),
        id: Some(request(75)),
        epoch: WriterEpoch(0x0102_0304),
        range,
        kind: WriteKind::Zero,
        crcs: Crcs::NONE,
        payload: slice(&[]),
    }
}

fn versions() -> Versions {
    Versions::new(5, 201).unwrap_or_else(|| unreachable!("the lower one comes first"))
}

fn owner() -> OwnerId {
    OwnerId { shard: ShardId(7), incarnation: Incarnation(0x1_0000_0009) }
}

fn request(count: u64) -> RequestId {
    let id = RequestId::new(ShardId(9), Incarnation(0x1_0003), 5, count);
    id.unwrap_or_else(|| unreachable!("small numbers"))
}

fn clients() -> ClientTable {
    let mut table = ClientTable::default();
    table.apply(Mark::Done(request(69)));
    table
}

fn component_requests() -> Vec<(&'static str, Request)> {
    let (object, component) = (ObjectId(0xa1a2_a3a4_a5a6_a7a8), ComponentId(0xb1b2_b3b4));
    let (term, seat, session) = (Term(0x12_3456), Seat(0x2233), Session(0x7788));
    let target = Target { object, component, term, seat, session };
    let data: Vec<u8> = (0..12 * 512_u32).map(|at| (at % 251) as u8).collect();
    let range = SectorRange::new(2048 * 5 + 6, 12);
    let lsn = Lsn::new(term, 100);
    vec![
        ("renew", Request::Renew { sent: Instant(123_456_789) }),
        ("release", Request::Release),
        (
            "fence",
            Request::Fence {
                target,
                version: Version(31),
                owner: owner(),
                create: Some(4096),
                claims: Claims::new(&[
                    WireClaim { term: Term(3), version: Version(29), owner: owner() },
                    WireClaim { term: Term(7), version: Version(30), owner: owner() },
                ]),
            },
        ),
        (
            "write",
            Request::Write {
                target,
                lsn,
                prev: Lsn::new(term, 98),
                commit: Lsn::new(term, 90),
                range,
                kind: WriteKind::Data,
                is_copy: true,
                marks: Marks::new(&[Mark::Done(request(70)), Mark::Undone(request(71))]),
                crcs: crcs_of(range, &data),
                payload: slice(&data),
            },
        ),
        ("read", Request::Read { target, range }),
        ("list-changed", Request::ListChanged { target, since: lsn, cursor: 77 }),
        ("commit-info", Request::CommitInfo { target, commit: lsn }),
        ("set-clients", Request::SetClients { target, clients: clients() }),
        ("create-component", Request::CreateComponent { object, component, sectors: 8192 }),
        ("delete-component", Request::DeleteComponent { object, component }),
    ]
}

fn client_requests() -> Vec<(&'static str, Request)> {
    let (object, term) = (ObjectId(0xa1a2_a3a4_a5a6_a7a8), Term(9));
    let range = SectorRange::new(8, 8);
    let payload = slice(&[0x5a; 4096]);
    vec![
        ("hand-over", Request::HandOver { object, to: owner() }),
        ("client-open", Request::ClientOpen { volume: VolumeId(0xc1c2), object, term }),
        ("client-read", Request::ClientRead { object, term, range }),
        (
            "client-write",
            Request::ClientWrite {
                object,
                term,
                id: Some(request(72)),
                epoch: WriterEpoch::ANY,
                range,
                kind: WriteKind::Data,
                crcs: crcs_of(range, &payload),
                payload,
            },
        ),
        ("client-extents", Request::ClientExtents { object, term, range }),
    ]
}

fn repair() -> Request {
    let (object, component) = (ObjectId(0xa1a2_a3a4_a5a6_a7a8), ComponentId(0xb1b2_b3b4));
    Request::Repair { object, term: Term(10), component, range: SectorRange::new(4096, 256) }
}

fn replace() -> Request {
    let (object, component) = (ObjectId(0xa1a2_a3a4_a5a6_a7a8), ComponentId(0xb1b2_b3b4));
    let members = 0xf1f2_f3f4_f5f6_f7f8;
    let change = MemberChange::Replace { old: component, to: ShardId(0x7172), members };
    Request::Members { object, term: Term(0x12_3456), change }
}

fn vouch() -> Request {
    let holding = Holding {
        object: ObjectId(0xa1a2_a3a4_a5a6_a7a8),
        component: ComponentId(0xb1b2_b3b4),
        sectors: 0x9192,
        term: Term(0x12_3456),
        owner: owner(),
        version: Version(0xe1e2_e3e4),
        durable: Lsn::new(Term(0x12_3455), 0x8182),
    };
    Request::Vouch { holding }
}

fn responses() -> Vec<(&'static str, Response)> {
    let lsn = |counter| Lsn::new(Term(3), counter);
    let range = SectorRange::new(2047, 1);
    let payload = slice(&[0xa5; 512]);
    vec![
        ("granted", Response::Granted { sent: Instant(99), ttl_ms: 6000, grant_epoch: 4 }),
        ("done", Response::Done),
        ("created", Response::Created { group: GroupId(12) }),
        (
            "fenced",
            Response::Fenced(Box::new(Fenced {
                seat: Seat(5),
                version: Version(6),
                durable: lsn(30),
                commit: lsn(20),
                destaged: lsn(10),
                grant_epoch: 11,
                group: GroupId(12),
                tail: vec![(range, lsn(29)), (SectorRange::new(0, 8), lsn(30))],
                clients: clients(),
                open: vec![(range, lsn(29), request(73))],
                health: CopyHealth::Partial,
            })),
        ),
        ("durable", Response::Durable { lsn: lsn(40), free_chunks: 1234 }),
        ("data", Response::Data { crcs: crcs_of(range, &payload), payload }),
        (
            "changed",
            Response::Changed {
                ranges: vec![range, SectorRange::new(4096, 2048)],
                held: vec![0b1011, 1 << 63],
                next: Some(128),
            },
        ),
        (
            "extents",
            Response::Extents { ranges: vec![(range, true), (SectorRange::new(2048, 8), false)] },
        ),
        ("moved", Response::Moved { owner: Some(owner()), term: Term(12) }),
        ("failed", Response::Failed { reason: Failure::BadCrc { range } }),
    ]
}

fn refusals() -> Vec<(&'static str, Response)> {
    let refused = |reason| Response::Refused { reason };
    vec![
        ("refused-term", refused(Refusal::HigherTerm(Term(17)))),
        ("refused-seat", refused(Refusal::Seat(Seat(18)))),
        ("refused-session", refused(Refusal::Session)),
        ("refused-unknown", refused(Refusal::UnknownComponent)),
        ("refused-granted", refused(Refusal::GrantedToOther { wait_ms: 4321 })),
        ("refused-order", refused(Refusal::OutOfOrder { durable: Lsn::new(Term(1), 2) })),
        ("refused-not-ready", refused(Refusal::NotReady)),
        ("refused-group-closed", refused(Refusal::GroupClosed)),
    ]
}
