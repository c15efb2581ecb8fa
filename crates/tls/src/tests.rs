// SPDX-License-Identifier: Apache-2.0
//! Two ends, with and without a simulated network between them.

use crate::identity::{Identity, provider, server_name};
use crate::session::{Sink, TlsEnd, TlsStep, sealed_max};
use crate::simulated::{SimulatedAuthority, SimulatedKeys};
use base::{ShardId, WallTime};
use proptest::prelude::*;
use rustls::CipherSuite;
use rustls::client::UnbufferedClientConnection;
use rustls::crypto::CipherSuiteCommon;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::server::UnbufferedServerConnection;
use rustls::{SupportedCipherSuite, Tls13CipherSuite};
use std::sync::Arc;

const DAY: u64 = 86_400_000_000_000;
const NOW: WallTime = WallTime(20_000 * DAY);

fn client(identity: &Identity, shard: u32) -> TlsEnd {
    identity.set_time(NOW);
    let name = server_name(ShardId(shard)).expect("a name");
    let client = UnbufferedClientConnection::new(identity.client.clone(), name);
    TlsEnd::Client(client.expect("a client"))
}

fn server(identity: &Identity) -> TlsEnd {
    identity.set_time(NOW);
    TlsEnd::Server(UnbufferedServerConnection::new(identity.server.clone()).expect("a server"))
}

/// One end, with what came to it.
struct End {
    session: TlsEnd,
    incoming: Vec<u8>,
    heard: Vec<u8>,
}

impl End {
    fn new(session: TlsEnd) -> Self {
        Self { session, incoming: Vec::new(), heard: Vec::new() }
    }

    /// Takes in all that came. Returns what it has to say, and whether it knows the other end.
    fn turn(&mut self) -> Result<(Vec<u8>, bool), rustls::Error> {
        let mut out = Vec::new();
        loop {
            let mut sink = Sink { room: &mut [], used: 0, rest: &mut self.heard, out: &mut out };
            let (done, step) = self.session.step(&mut self.incoming, &mut sink)?;
            self.incoming.drain(..done);
            match step {
                TlsStep::Again | TlsStep::Send => {}
                TlsStep::Wait | TlsStep::Closed => return Ok((out, false)),
                TlsStep::Open => return Ok((out, true)),
            }
        }
    }

    fn seal(&mut self, plain: &[u8]) -> Vec<u8> {
        let mut out = vec![0; sealed_max(plain.len())];
        let count = self.session.seal(plain, &mut out).expect("it is open");
        out.truncate(count);
        out
    }
}

/// Has two ends come to know each other.
fn meet(client: TlsEnd, server: TlsEnd) -> Result<(End, End), rustls::Error> {
    let (mut client, mut server) = (End::new(client), End::new(server));
    for _ in 0..10 {
        let (out, knows_server) = client.turn()?;
        server.incoming.extend(out);
        let (out, knows_client) = server.turn()?;
        client.incoming.extend(out);
        if knows_server && knows_client {
            return Ok((client, server));
        }
    }
    panic!("they go on for ever");
}

fn pair() -> (End, End) {
    let authority = SimulatedAuthority::new();
    let (one, two) = (authority.identity(ShardId(1)), authority.identity(ShardId(2)));
    meet(client(&one, 2), server(&two)).expect("they know each other")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn what_is_sealed_at_one_end_is_opened_at_the_other(
        sizes in prop::collection::vec(1usize..70_000, 1..6),
        cut in 1usize..5_000,
    ) {
        let (mut one, mut two) = pair();
        let mut said = Vec::new();
        for (at, size) in sizes.into_iter().enumerate() {
            let plain: Vec<u8> = (0..size).map(|byte| (byte * 7 + at) as u8).collect();
            let sealed = one.seal(&plain);
            prop_assert!(sealed.len() <= sealed_max(size));
            prop_assert!(!sealed.windows(16).any(|part| plain.windows(16).next() == Some(part)));
            for piece in sealed.chunks(cut) {
                two.incoming.extend(piece);
                let (answer, _) = two.turn().expect("what was sealed");
                prop_assert!(answer.is_empty(), "nothing is said outside of records");
            }
            said.extend(plain);
            prop_assert_eq!(two.heard.len(), said.len());
        }
        prop_assert_eq!(&two.heard, &said);
    }

    #[test]
    fn what_is_changed_on_its_way_is_noticed(at in 5usize..4_000, bit in 0u8..8) {
        let (mut one, mut two) = pair();
        let mut sealed = one.seal(&[9; 5_000]);
        sealed[at] ^= 1 << bit;
        two.incoming.extend(sealed);
        prop_assert!(two.turn().is_err());
        prop_assert!(two.heard.is_empty());
    }
}

#[test]
fn what_is_sent_again_by_somebody_is_noticed() {
    let (mut one, mut two) = pair();
    let sealed = one.seal(b"a write");
    two.incoming.extend(sealed.iter().chain(&sealed));
    assert!(two.turn().is_err());
    assert_eq!(two.heard, b"a write");
}

#[test]
fn only_whom_the_authority_knows_is_let_in() {
    let (ours, theirs) = (SimulatedAuthority::new(), SimulatedAuthority::new());
    let (one, two) = (ours.identity(ShardId(1)), ours.identity(ShardId(2)));
    let foreign = theirs.identity(ShardId(2));
    assert!(meet(client(&one, 2), server(&two)).is_ok());
    assert!(meet(client(&one, 3), server(&two)).is_err(), "another shard than was dialled");
    assert!(meet(client(&one, 2), server(&foreign)).is_err(), "another authority dialled");
    assert!(meet(client(&foreign, 2), server(&two)).is_err(), "another authority dials");
}

#[test]
fn a_certificate_is_one_for_its_time() {
    let authority = SimulatedAuthority::new();
    let of = |shard, from, until| {
        let key = authority.issue(&[ShardId(shard)], (WallTime(from), WallTime(until)));
        Arc::new(SimulatedKeys::new([key]))
    };
    let good = authority.identity(ShardId(1));
    let late = authority.identity_by(&of(2, NOW.0 - 9 * DAY, NOW.0 - DAY));
    let early = authority.identity_by(&of(2, NOW.0 + DAY, NOW.0 + 9 * DAY));
    for bad in [&late, &early] {
        assert!(meet(client(&good, 2), server(bad)).is_err());
        assert!(meet(client(bad, 1), server(&good)).is_err());
    }
    let terms = [(NOW.0 - 9 * DAY, NOW.0 - DAY), (NOW.0 - DAY, NOW.0 + DAY)];
    let keys =
        Arc::new(SimulatedKeys::new(terms.map(|(from, until)| {
            authority.issue(&[ShardId(2)], (WallTime(from), WallTime(until)))
        })));
    let renewed = authority.identity_by(&keys);
    assert!(meet(client(&good, 2), server(&renewed)).is_err());
    keys.renew();
    assert!(meet(client(&good, 2), server(&renewed)).is_ok(), "the keys of now count");
}

#[test]
fn a_certificate_of_something_else_is_none() {
    // One of the API's listeners has no name of a shard, and is not for those who dial.
    let authority = SimulatedAuthority::new();
    let one = authority.identity(ShardId(1));
    let nobodys = authority.issue(&[], (WallTime(0), WallTime(u64::MAX / 4)));
    let nobody = authority.identity_by(&Arc::new(SimulatedKeys::new([nobodys])));
    assert!(meet(client(&one, 2), server(&nobody)).is_err());
}

/// The same suite with keys that wear out after 20 records.
fn short_lived() -> SupportedCipherSuite {
    let suite = TLS13_AES_128_GCM_SHA256.tls13().expect("a suite of TLS 1.3");
    let common = CipherSuiteCommon {
        suite: CipherSuite::TLS13_AES_128_GCM_SHA256,
        hash_provider: suite.common.hash_provider,
        confidentiality_limit: 20,
    };
    let short = Tls13CipherSuite {
        common,
        hkdf_provider: suite.hkdf_provider,
        aead_alg: suite.aead_alg,
        quic: None,
    };
    SupportedCipherSuite::Tls13(Box::leak(Box::new(short)))
}

#[test]
fn keys_that_wear_out_are_replaced_on_the_way() {
    let authority = SimulatedAuthority::new();
    let identity = |shard: u32| {
        let provider =
            rustls::crypto::CryptoProvider { cipher_suites: vec![short_lived()], ..provider() };
        let key = authority.issue(&[ShardId(shard)], (WallTime(0), WallTime(u64::MAX / 4)));
        let keys = Arc::new(SimulatedKeys::new([key]));
        Identity::with_provider(authority.certificate(), keys, provider).expect("an identity")
    };
    let (one, two) = (identity(1), identity(2));
    let (mut one, mut two) = meet(client(&one, 2), server(&two)).expect("they know each other");
    let (mut by_one, mut by_two) = (Vec::new(), Vec::new());
    for round in 0..200u32 {
        // Both ways, of several records, and with what the other one says still on its way.
        let plain = vec![round as u8; if round % 7 == 0 { 40_000 } else { 100 }];
        let (there, back) = (one.seal(&plain), two.seal(&plain));
        by_one.extend(&plain);
        by_two.extend(&plain);
        two.incoming.extend(there);
        one.incoming.extend(back);
        assert_eq!(two.turn().expect("what was sealed").0, b"");
        assert_eq!(one.turn().expect("what was sealed").0, b"");
    }
    assert_eq!((two.heard, one.heard), (by_one, by_two));
}
