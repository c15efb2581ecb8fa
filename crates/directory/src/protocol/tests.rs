// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::types::Expect;
use base::Rng;

fn entry(len: usize, revision: u64) -> Entry {
    Entry { value: vec![7; len], revision }
}

fn requests() -> Vec<DirectoryRequest> {
    let transaction = Transaction::new()
        .expect("a", Expect::Absent)
        .expect("b", Expect::Present)
        .expect("c", Expect::Revision(u64::MAX))
        .put("d", vec![0, 255])
        .put_leased("e", vec![], LeaseId(9))
        .delete("f");
    vec![
        DirectoryRequest::Ping,
        DirectoryRequest::Get { key: "/k".to_owned() },
        DirectoryRequest::List { prefix: "/p/".to_owned() },
        DirectoryRequest::Transact(transaction),
        DirectoryRequest::LeaseGrant { ttl_ms: 6000 },
        DirectoryRequest::LeaseKeep { lease: LeaseId(1) },
        DirectoryRequest::LeaseRevoke { lease: LeaseId(u64::MAX) },
        DirectoryRequest::Watch { prefix: "/".to_owned() },
        DirectoryRequest::Unwatch { watch: 3 },
    ]
}

fn answers() -> Vec<Answer> {
    let listing = Listing { entries: vec![("k".to_owned(), entry(3, 4))], revision: 5 };
    let mut answers = vec![
        Answer::Done,
        Answer::Entry(None),
        Answer::Entry(Some(entry(5, 6))),
        Answer::Part { listing: listing.clone(), has_more: false },
        Answer::Part { listing, has_more: true },
        Answer::Transacted(Transacted { succeeded: true, revision: 7 }),
        Answer::Transacted(Transacted { succeeded: false, revision: 8 }),
        Answer::Lease(LeaseId(2)),
        Answer::Events(vec![
            WatchEvent::Put("k".to_owned(), entry(1, 2)),
            WatchEvent::Delete("k".to_owned(), 9),
        ]),
    ];
    answers.extend(
        [
            DirectoryError::Unavailable,
            DirectoryError::Unknown,
            DirectoryError::LeaseGone,
            DirectoryError::Malformed,
            DirectoryError::TooLarge,
        ]
        .map(Answer::Failed),
    );
    answers
}

fn split(frame: &[u8]) -> (Result<ServerHeader, FrameError>, &[u8]) {
    let (head, body) = frame.split_first_chunk::<HEADER_BYTES>().unwrap();
    (ServerHeader::decode(head), body)
}

#[test]
fn every_message_survives_the_way() {
    for request in requests() {
        let frame = encode_request(42, &request);
        let (header, body) = split(&frame);
        assert_eq!(header.unwrap().decode_request(body).unwrap(), (42, request));
    }
    for answer in answers() {
        let frame = encode_answer(43, &answer);
        let (header, body) = split(&frame);
        assert_eq!(header.unwrap().decode_answer(body).unwrap(), (43, answer));
    }
}

#[test]
fn the_bytes_of_version_1_stay_the_same() {
    let frame = encode_request(0x0102, &DirectoryRequest::Get { key: "/k".to_owned() });
    let expected = [
        b'G', b'D', b'I', b'R', 1, 0, 0, 0, 15, 0, 0, 0, 0x1F, 0x2A, 0xA8, 0x07, // header
        2, 1, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, b'/', b'k',
    ];
    assert_eq!(frame, expected, "{frame:02x?}");
}

#[test]
fn a_damaged_frame_is_refused_whatever_is_damaged() {
    let frame = encode_request(42, &requests()[3]);
    for at in 0..frame.len() {
        for bit in 0..8 {
            let mut bad = frame.clone();
            bad[at] ^= 1 << bit;
            let (header, body) = split(&bad);
            let decoded = header.and_then(|header| header.decode_request(body));
            assert!(decoded.is_err(), "bit {bit} of byte {at}");
        }
    }
}

/// Bodies with a right checksum and wrong content: cut, prolonged, random.
#[test]
fn a_hostile_body_is_refused_without_panic() {
    let sealed = |body: &[u8]| {
        let length = u32::try_from(body.len()).unwrap();
        ServerHeader { body_bytes: body.len(), crc: checksum(length, body) }
    };
    for request in requests() {
        let mut body = encode_request(1, &request)[HEADER_BYTES..].to_vec();
        for len in 0..body.len() {
            let cut = &body[..len];
            assert_eq!(sealed(cut).decode_request(cut), Err(FrameError::Body));
        }
        body.push(0);
        assert_eq!(sealed(&body).decode_request(&body), Err(FrameError::Body));
    }
    let mut rng = Rng::new(1);
    for _ in 0..20_000 {
        let mut body = vec![0; usize::try_from(rng.below(64)).unwrap()];
        rng.fill(&mut body);
        if let Some(tag) = body.get_mut(8) {
            *tag %= 10;
        }
        let _ = sealed(&body).decode_request(&body);
        let _ = sealed(&body).decode_answer(&body);
    }
}

#[test]
fn long_listings_and_long_histories_are_cut_into_frames_that_fit() {
    let entries: Vec<_> = (0..40).map(|i| (format!("k{i:02}"), entry(100_000, i))).collect();
    let listing = Listing { entries: entries.clone(), revision: 99 };
    let mut together = Vec::new();
    let parts = split_listing(listing, PART_BYTES_MAX);
    let count = parts.len();
    assert!(count > 3);
    for (index, part) in parts.into_iter().enumerate() {
        assert!(encode_answer(1, &part).len() < HEADER_BYTES + BODY_BYTES_MAX);
        let Answer::Part { listing, has_more } = part else { panic!("not a part") };
        assert_eq!((has_more, listing.revision), (index + 1 < count, 99));
        together.extend(listing.entries);
    }
    assert_eq!(together, entries);
    assert_eq!(
        split_listing(Listing::default(), PART_BYTES_MAX).len(),
        1,
        "an empty listing is told too"
    );

    let events: Vec<_> = entries.into_iter().map(|(k, e)| WatchEvent::Put(k, e)).collect();
    // What is larger than a part goes alone, and with nothing before it.
    for (part_bytes, most) in [(PART_BYTES_MAX, 10), (1000, 1)] {
        let mut together = Vec::new();
        for answer in split_events(events.clone(), part_bytes) {
            assert!(encode_answer(1, &answer).len() < HEADER_BYTES + BODY_BYTES_MAX);
            let Answer::Events(part) = answer else { panic!("not events") };
            assert!((1..=most).contains(&part.len()), "{} events in a part", part.len());
            together.extend(part);
        }
        assert_eq!(together, events);
    }
}
