// SPDX-License-Identifier: Apache-2.0
//! Fixtures, round trips, and malformed frames.

mod versions;

use crate::{
    BODY_MAX, HEADER_LEN, Header, Message, PAYLOAD_MAX, Request, Response, VERSION, WireError,
    WriteKind, crcs_of, decode, encode, samples,
};
use base::{SectorRange, crc32c};
use env::{Pool, Slice};
use proptest::prelude::*;

fn slice(bytes: &[u8]) -> Slice {
    let mut buf = Pool::default().take(bytes.len());
    buf.copy_from_slice(bytes);
    buf.freeze()
}

fn frame(message: &Message, id: u64) -> Vec<u8> {
    frame_of(VERSION, message, id)
}

fn frame_of(version: u8, message: &Message, id: u64) -> Vec<u8> {
    let mut out = Vec::new();
    encode(message, Some(version), id, &mut out);
    out.extend_from_slice(message.payload().map_or(&[], |payload| payload));
    out
}

/// Reads one frame, which must take up all of `bytes`.
fn read(bytes: &[u8]) -> Result<(u64, Message), WireError> {
    read_as(Some(VERSION), bytes)
}

fn read_as(agreed: Option<u8>, bytes: &[u8]) -> Result<(u64, Message), WireError> {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_LEN>() else {
        return Err(WireError::Short { kind: 0 });
    };
    let header = Header::decode(header, agreed)?;
    if rest.len() != header.body_len() + header.payload_len() {
        return Err(WireError::Short { kind: 0 });
    }
    let (body, payload) = rest.split_at(header.body_len());
    Ok((header.id(), decode(&header, body, slice(payload))?))
}

/// Corrects the checksums of a frame that a test has changed.
fn reseal(frame: &mut [u8]) {
    let body_len = u32::from_le_bytes([frame[8], frame[9], frame[10], frame[11]]) as usize;
    let body_end = (HEADER_LEN + body_len).min(frame.len());
    let crc = crc32c(&frame[HEADER_LEN..body_end]);
    frame[24..28].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32c(&frame[..60]);
    frame[60..64].copy_from_slice(&crc.to_le_bytes());
}

/// Bytes of the body of a `Hello`, as of version 6.
const HELLO_LEN: u8 = 8 + 12 + 2;

macro_rules! fixtures {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_bytes!(concat!("../fixtures/", $name, ".bin")).as_slice())),*]
    };
}

#[test]
fn fixtures_mean_what_they_meant() {
    let stored = fixtures![
        "hello",
        "ping",
        "pong",
        "renew",
        "release",
        "fence",
        "write",
        "read",
        "list-changed",
        "commit-info",
        "set-clients",
        "create-component",
        "delete-component",
        "hand-over",
        "client-open",
        "client-read",
        "client-write",
        "client-extents",
        "granted",
        "done",
        "created",
        "fenced",
        "durable",
        "data",
        "changed",
        "extents",
        "moved",
        "failed",
        "refused-term",
        "refused-seat",
        "refused-session",
        "refused-unknown",
        "refused-granted",
        "refused-order",
        "refused-not-ready",
        "refused-group-closed",
        "repair",
        "reserve-space",
        "refused-other-history",
        "vouch",
        "replace",
        "resize",
        "opened",
        "writer-write",
        "failed-not-writer",
    ];
    let messages = samples::messages();
    assert_eq!(messages.len(), stored.len());
    for (index, ((name, message), (file, bytes))) in messages.iter().zip(stored).enumerate() {
        assert_eq!(*name, file);
        let version = samples::version_of(name);
        let encoded = frame_of(version, message, samples::id(index));
        assert_eq!(encoded, bytes, "encoding of {name}");
        let read = read_as(Some(version), bytes);
        let (id, decoded) = read.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(id, samples::id(index));
        assert_eq!(frame_of(version, &decoded, id), bytes, "decoding of {name}");
    }
}

#[test]
fn every_changed_byte_of_header_and_body_is_noticed() {
    for (name, message) in samples::messages() {
        let good = frame(&message, 5);
        let sealed = good.len() - message.payload().map_or(0, |payload| payload.len());
        for at in 0..sealed {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert!(read(&bad).is_err(), "{name}: byte {at}");
        }
    }
}

/// Offsets of fields of a `Write` that the tests below falsify.
const MARKS_AT: usize = HEADER_LEN + 28 + 24 + 1;
const START_AT: usize = MARKS_AT + 2 + 2 * 13;
const CRCS_AT: usize = START_AT + 16 + 1;

#[test]
fn impossible_values_are_refused_by_name() {
    let messages = samples::messages();
    let write = messages.iter().find(|(name, _)| *name == "write").map(|(_, m)| frame(m, 1));
    let write = write.expect("there is a write");
    let falsify = |at: usize, bytes: &[u8]| {
        let mut bad = write.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        reseal(&mut bad);
        read(&bad).err()
    };
    let value = |field| Some(WireError::Value { kind: 19, field });
    assert_eq!(falsify(START_AT, &u64::MAX.to_le_bytes()), value("range"), "overflow");
    assert_eq!(falsify(START_AT, &(u64::MAX / 512).to_le_bytes()), value("range"), "in bytes");
    assert_eq!(falsify(START_AT + 8, &0_u64.to_le_bytes()), value("range"), "empty");
    assert_eq!(falsify(START_AT, &4090_u64.to_le_bytes()), value("range"), "two chunks");
    assert_eq!(falsify(START_AT + 8, &8_u64.to_le_bytes()), value("payload"), "other length");
    assert_eq!(falsify(CRCS_AT - 1, &[1]), value("payload"), "zeros have no data");
    assert_eq!(falsify(CRCS_AT - 1, &[9]), value("write kind"));
    assert_eq!(falsify(CRCS_AT, &u32::MAX.to_le_bytes()), value("crcs"));
    assert_eq!(falsify(CRCS_AT, &4_u32.to_le_bytes()), Some(WireError::Short { kind: 19 }));
    let trailing = Some(WireError::Value { kind: 19, field: "crcs" });
    assert_eq!(falsify(CRCS_AT, &2_u32.to_le_bytes()), trailing);
    assert_eq!(falsify(MARKS_AT - 1, &[2]), value("copy"));
    assert_eq!(falsify(MARKS_AT, &513_u16.to_le_bytes()), value("marks"));
    assert_eq!(falsify(MARKS_AT + 2, &[2]), value("mark"));
    assert_eq!(falsify(MARKS_AT + 3, &[0; 12]), value("request"), "no request");
    assert_eq!(falsify(MARKS_AT + 6, &[128]), value("request"), "a slot too high");
    assert_eq!(falsify(HEADER_LEN + 16, &[0xff; 4]), value("term"));
    assert_eq!(falsify(5, &[60]), Some(WireError::Value { kind: 60, field: "payload" }));
    assert_eq!(falsify(4, &[9]), Some(WireError::Version { kind: 19, found: 9 }));
    assert_eq!(falsify(30, &[1]), value("reserved"));
    let length = u32::try_from(BODY_MAX + 1).expect("a small number");
    assert!(matches!(falsify(8, &length.to_le_bytes()), Some(WireError::TooLong { .. })));
    let length = u32::try_from(PAYLOAD_MAX + 1).expect("a small number");
    assert!(matches!(falsify(12, &length.to_le_bytes()), Some(WireError::TooLong { .. })));
}

fn any_range() -> impl Strategy<Value = SectorRange> {
    (0_u64..1 << 30, 0_u64..2048, 1_u64..=64).prop_map(|(chunk, offset, count)| {
        SectorRange::new(chunk * 2048 + offset, count.min(2048 - offset))
    })
}

proptest! {
    #[test]
    fn writes_survive_the_way(
        range in any_range(),
        lsn in any::<[u64; 3]>(),
        kind in 0_u8..3,
        is_copy: bool,
        seed: u8,
        id: u64,
    ) {
        let kind = [WriteKind::Data, WriteKind::Zero, WriteKind::Discard][usize::from(kind)];
        let mut request = samples_write();
        if let Request::Write { lsn: l, prev, commit, range: r, kind: k, is_copy: c, .. } =
            &mut request
        {
            (l.0, prev.0, commit.0, *r, *k, *c) = (lsn[0], lsn[1], lsn[2], range, kind, is_copy);
        }
        if let Request::Write { crcs, payload, .. } = &mut request {
            let bytes = if kind == WriteKind::Data { range.bytes() as usize } else { 0 };
            *payload = slice(&(0..bytes).map(|at| seed ^ (at / 5) as u8).collect::<Vec<_>>());
            *crcs = if bytes > 0 { crcs_of(range, payload) } else { crate::Crcs::NONE };
        }
        let message = Message::Request(request);
        let bytes = frame(&message, id);
        let (got_id, got) = read(&bytes).map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(got_id, id);
        prop_assert_eq!(frame(&got, id), bytes);
    }

    #[test]
    fn lists_survive_the_way(
        ranges in prop::collection::vec(any_range(), 0..200),
        held in prop::collection::vec(any::<u64>(), 0..200),
        next: Option<u64>,
    ) {
        let message = Message::Response(Response::Changed { ranges, held, next });
        let bytes = frame(&message, 1);
        let (_, got) = read(&bytes).map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(format!("{got:?}"), format!("{message:?}"));
    }

    /// Random bodies of every kind, with right checksums. They are refused or understood and never
    /// panic. What is understood encodes to the same bytes again.
    #[test]
    fn arbitrary_bytes_never_panic(
        kind: u8,
        mut body in prop::collection::vec(any::<u8>(), 0..200),
        payload in 0_usize..3,
        small: bool,
    ) {
        if small {
            body.iter_mut().for_each(|byte| *byte &= 1);
        }
        let mut bytes = frame(&Message::Ping, 3);
        bytes[5] = kind;
        bytes[8..12].copy_from_slice(&(body.len() as u32).to_le_bytes());
        bytes[12..16].copy_from_slice(&(payload as u32 * 512).to_le_bytes());
        bytes.extend_from_slice(&body);
        bytes.resize(bytes.len() + payload * 512, 7);
        reseal(&mut bytes);
        if let Ok((id, message)) = read(&bytes) {
            prop_assert_eq!(frame(&message, id), as_known(&message, bytes));
        }
    }

    #[test]
    fn changed_samples_never_panic(which: prop::sample::Index, at: prop::sample::Index, to: u8) {
        let mut bytes = frame(&which.get(&samples::messages()).1, 3);
        let at = at.index(bytes.len());
        bytes[at] = to;
        reseal(&mut bytes);
        if let Ok((id, message)) = read(&bytes) {
            prop_assert_eq!(frame(&message, id), as_known(&message, bytes));
        }
    }
}

/// A frame without what is at the end of a `Hello` that this build does not know.
fn as_known(message: &Message, mut bytes: Vec<u8>) -> Vec<u8> {
    if matches!(message, Message::Hello(_)) {
        bytes.truncate(HEADER_LEN + usize::from(HELLO_LEN));
        bytes[8..12].copy_from_slice(&u32::from(HELLO_LEN).to_le_bytes());
        reseal(&mut bytes);
    }
    bytes
}

fn samples_write() -> Request {
    let found = samples::messages().into_iter().find_map(|(name, message)| match message {
        Message::Request(request) if name == "write" => Some(request),
        _ => None,
    });
    found.expect("there is a write")
}
