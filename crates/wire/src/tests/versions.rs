// SPDX-License-Identifier: Apache-2.0
//! Introductions that every build reads, and frames of the version that was agreed on.

use super::{HELLO_LEN, frame, frame_of, read_as, reseal};
use crate::{
    HEADER_LEN, HELLO_VERSION, Hello, Message, OwnerId, Request, VERSION, VERSION_MIN, Versions,
    WireError, encode, samples,
};
use base::{Incarnation, ShardId};
use proptest::prelude::*;

fn hello(versions: Versions) -> Message {
    let me = OwnerId { shard: ShardId(7), incarnation: Incarnation(9) };
    Message::Hello(Hello { cluster: 1, me, versions })
}

fn versions(min: u8, max: u8) -> Versions {
    Versions::new(min, max).expect("the lower one comes first")
}

/// A `Hello` with another body, whose checksums and length are right.
fn with_body(body: &[u8]) -> Vec<u8> {
    let mut bytes = frame(&hello(Versions::SPOKEN), 0);
    bytes.truncate(HEADER_LEN);
    let len = u32::try_from(body.len()).expect("a short one");
    bytes[8..12].copy_from_slice(&len.to_le_bytes());
    bytes.extend_from_slice(body);
    reseal(&mut bytes);
    bytes
}

#[test]
fn the_versions_of_a_host_are_some_and_none_of_them_is_zero() {
    assert_eq!(Versions::new(0, 5), None);
    assert_eq!(Versions::new(0, 0), None);
    assert_eq!(Versions::new(6, 5), None);
    assert_eq!(Versions::new(VERSION_MIN, VERSION), Some(Versions::SPOKEN));
    assert_eq!(versions(6, 6).to_string(), "version 6");
    assert_eq!(versions(1, 255).to_string(), "versions 1 to 255");
}

#[test]
fn two_hosts_agree_on_the_newest_version_of_both() {
    for (ours, theirs, agreed) in [
        ((6, 6), (6, 6), Some(6)),
        ((6, 6), (6, 7), Some(6)),
        ((6, 8), (7, 9), Some(8)),
        ((6, 9), (7, 8), Some(8)),
        ((6, 7), (8, 9), None),
        ((1, 1), (255, 255), None),
    ] {
        let (ours, theirs) = (versions(ours.0, ours.1), versions(theirs.0, theirs.1));
        assert_eq!(ours.common(theirs), agreed, "{ours} and {theirs}");
    }
}

/// What every later build must still read: this test must never be changed.
#[test]
fn the_layout_of_an_introduction_never_changes() {
    let versions = versions(0x51, 0x61);
    let mut body = vec![1, 0, 0, 0, 0, 0, 0, 0];
    body.extend_from_slice(&[7, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    body.extend_from_slice(&[0x51, 0x61]);
    let bytes = with_body(&body);
    assert_eq!(bytes[..6], [b'G', b'B', b'N', b'W', 6, 1]);
    for agreed in [None, Some(1), Some(VERSION), Some(255)] {
        let mut out = Vec::new();
        encode(&hello(versions), agreed, 0, &mut out);
        assert_eq!(out, bytes, "whatever was agreed on: {agreed:?}");
        let (_, message) = read_as(agreed, &bytes).expect("it is one");
        assert_eq!(format!("{message:?}"), format!("{:?}", hello(versions)));
    }
}

#[test]
fn an_introduction_may_be_longer_and_not_shorter() {
    let known = frame(&hello(versions(6, 7)), 0).split_off(HEADER_LEN);
    assert_eq!(known.len(), usize::from(HELLO_LEN));
    for more in [1, 2, 100, 4000] {
        let body = [known.clone(), vec![0xee; more]].concat();
        let (_, message) = read_as(None, &with_body(&body)).expect("of a later build");
        assert_eq!(format!("{message:?}"), format!("{:?}", hello(versions(6, 7))));
    }
    for len in 0..known.len() {
        let error = read_as(None, &with_body(&known[..len])).err();
        assert_eq!(error, Some(WireError::Short { kind: 1 }), "{len} bytes");
    }
    let mut ping = frame(&Message::Ping, 0);
    ping[8] = 1;
    ping.push(0xee);
    reseal(&mut ping);
    let error = read_as(Some(VERSION), &ping).err();
    assert_eq!(error, Some(WireError::Trailing { kind: 2, count: 1 }), "no other frame may");
}

#[test]
fn an_introduction_offers_versions_that_there_may_be() {
    let mut body = frame(&hello(Versions::SPOKEN), 0).split_off(HEADER_LEN);
    for (min, max) in [(0, 0), (0, 6), (7, 6), (255, 1)] {
        body[20..22].copy_from_slice(&[min, max]);
        let error = read_as(None, &with_body(&body)).err();
        assert_eq!(error, Some(WireError::Value { kind: 1, field: "versions" }), "{min}, {max}");
    }
    let mut other = with_body(&body);
    other[4] = HELLO_VERSION + 1;
    reseal(&mut other);
    let found = HELLO_VERSION + 1;
    for agreed in [None, Some(found)] {
        let error = read_as(agreed, &other).err();
        assert_eq!(error, Some(WireError::Version { kind: 1, found }), "its own never changes");
    }
}

#[test]
fn no_other_frame_is_read_before_a_version_was_agreed_on() {
    for (name, message) in samples::messages().into_iter().skip(1) {
        let bytes = frame(&message, 1);
        let error = read_as(None, &bytes).err();
        let found = VERSION;
        assert_eq!(error, Some(WireError::Version { kind: bytes[5], found }), "{name}");
    }
}

#[test]
fn a_kind_of_frame_is_read_in_no_version_that_did_not_have_it() {
    let write = samples::messages().into_iter().find(|(name, _)| *name == "writer-write");
    let bytes = frame_of(6, &write.expect("there is one").1, 1);
    let error = read_as(Some(6), &bytes).err();
    assert_eq!(error, Some(WireError::Version { kind: bytes[5], found: 6 }));
}

#[test]
#[should_panic(expected = "before a version was agreed on")]
fn no_other_frame_is_written_before_a_version_was_agreed_on() {
    encode(&Message::Request(Request::Release), None, 1, &mut Vec::new());
}

proptest! {
    /// Whatever two hosts speak: both find the same version, both speak it, and no newer one.
    #[test]
    fn both_ends_find_the_same_version(ours: (u8, u8), theirs: (u8, u8)) {
        let (Some(ours), Some(theirs)) =
            (Versions::new(ours.0, ours.1), Versions::new(theirs.0, theirs.1))
        else {
            return Ok(());
        };
        let both = |version: &u8| {
            let speaks = |of: Versions| (of.min()..=of.max()).contains(version);
            speaks(ours) && speaks(theirs)
        };
        prop_assert_eq!(ours.common(theirs), (1..=255).rev().find(both));
        prop_assert_eq!(theirs.common(ours), ours.common(theirs));
    }

    /// A frame is read on a link of its version, and on no other one.
    #[test]
    fn a_frame_is_of_the_version_of_its_link(
        which: prop::sample::Index,
        written in 1_u8..,
        agreed in 1_u8..,
    ) {
        let (name, message) = which.get(&samples::messages()).clone();
        let bytes = frame_of(written, &message, 5);
        let is_read = read_as(Some(agreed), &bytes).is_ok();
        let is_hello = matches!(message, Message::Hello(_));
        let is_known = name != "writer-write" || written >= samples::version_of(name);
        prop_assert_eq!(is_read, is_hello || (written == agreed && is_known));
        prop_assert_eq!(read_as(Some(written), &bytes).is_ok(), is_hello || is_known);
    }

    /// A `Hello` of any later build is taken, whatever it adds.
    #[test]
    fn introductions_survive_the_way(
        cluster: u64,
        host: u32,
        incarnation: u64,
        (min, max) in (1_u8..).prop_flat_map(|min| (Just(min), min..)),
        more in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let me = OwnerId { shard: ShardId(host), incarnation: Incarnation(incarnation) };
        let sent = Message::Hello(Hello { cluster, me, versions: versions(min, max) });
        let body = [frame(&sent, 0).split_off(HEADER_LEN), more].concat();
        let (_, got) = read_as(None, &with_body(&body))
            .map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(format!("{got:?}"), format!("{sent:?}"));
    }
}
