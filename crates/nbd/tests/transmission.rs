// SPDX-License-Identifier: Apache-2.0
//! The transmission phase against an oracle, its errors, and malformed streams.
#![allow(clippy::unwrap_used, reason = "a failing step is a failing test")]

mod common;

use base::{Map, Rng};

use common::world::{World, run};
use nbd::numbers::{command, flag};
use nbdclient::LinkClient;
use nbdclient::frames::{NbdReply, option, request};
use proptest::prelude::*;
use std::rc::Rc;
use std::time::Duration;

const SIZE: usize = 6 << 20;
/// Requests that the random client keeps under way.
const DEPTH: usize = 24;

/// A request under way. Nothing else under way overlaps it, unless both read.
struct Asked {
    command: u16,
    start: usize,
    end: usize,
}

/// Issues random requests, and knows what every sector must hold.
struct Oracle {
    rng: Rng,
    model: Vec<u8>,
    asked: Map<u64, Asked>,
    next: u64,
}

impl Oracle {
    fn pick(&mut self) -> Option<(Asked, u16)> {
        let command = [0, 0, 0, 1, 1, 1, 1, 3, 4, 5, 6, 6, 7][self.rng.below(13) as usize];
        let sectors_max = [1, 8, 8, 64, 300, 4000][self.rng.below(6) as usize];
        let sectors = 1 + self.rng.below(sectors_max) as usize;
        let start = 512 * self.rng.below((SIZE / 512 - sectors + 1) as u64) as usize;
        let end = start + 512 * sectors;
        let is_free = |other: &Asked| {
            let both_read = command == command::READ && other.command == command::READ;
            both_read || end <= other.start || other.end <= start
        };
        let flags = match command {
            command::WRITE => self.rng.below(2) as u16,
            command::WRITE_ZEROES => [0, 2, 16, 18][self.rng.below(4) as usize],
            _ => 0,
        };
        let asked = Asked { command, start, end };
        self.asked.values().all(is_free).then_some((asked, flags))
    }

    /// The bytes of one more request, if one fits.
    fn ask(&mut self) -> Option<Vec<u8>> {
        let (asked, flags) = self.pick()?;
        self.next += 1;
        let length = (asked.end - asked.start) as u32;
        let offset = asked.start as u64;
        let mut bytes = request(asked.command, flags, self.next, offset, length).to_vec();
        let range = asked.start..asked.end;
        match asked.command {
            command::WRITE => {
                self.rng.fill(&mut self.model[range.clone()]);
                bytes.extend(&self.model[range]);
            }
            command::TRIM | command::WRITE_ZEROES => self.model[range].fill(0),
            command::FLUSH => bytes = request(command::FLUSH, 0, self.next, 0, 0).to_vec(),
            _ => {}
        }
        self.asked.insert(self.next, asked);
        Some(bytes)
    }

    fn data_len(&self, cookie: u64) -> usize {
        let asked = &self.asked[&cookie];
        if asked.command == command::READ { asked.end - asked.start } else { 0 }
    }

    fn check(&mut self, reply: &NbdReply, is_structured: bool) {
        let asked = self.asked.remove(&reply.cookie).expect("a reply to what was asked");
        if asked.command == command::BLOCK_STATUS && !is_structured {
            assert_eq!(reply.errno, 22);
            return;
        }
        assert_eq!(reply.errno, 0, "command {}", asked.command);
        match asked.command {
            command::READ => {
                assert!(reply.data == self.model[asked.start..asked.end], "wrong bytes")
            }
            command::BLOCK_STATUS => {
                let mut at = asked.start;
                for (bytes, state) in &reply.extents {
                    let range = at..at + *bytes as usize;
                    assert!(*state == 0 || self.model[range].iter().all(|byte| *byte == 0));
                    at += *bytes as usize;
                }
                assert!(at <= asked.end);
            }
            _ => assert!(reply.data.is_empty()),
        }
    }
}

async fn random_requests(world: Rc<World>, seed: u64, is_structured: bool, count: u64) {
    let mut client = LinkClient::open(&world.env, &world.unix, "disk", is_structured).await;
    client.is_choppy = true;
    world.device.set_delay_max(Duration::from_micros(300));
    let (rng, model) = (Rng::new(seed), vec![0; SIZE]);
    let mut oracle = Oracle { rng, model, asked: Map::new(), next: 0 };
    while oracle.next < count || !oracle.asked.is_empty() {
        let mut bytes = Vec::new();
        for _ in 0..oracle.rng.below(DEPTH as u64) {
            if oracle.next < count && oracle.asked.len() < DEPTH {
                bytes.extend(oracle.ask().unwrap_or_default());
            }
        }
        client.send(&bytes).await.unwrap();
        if !oracle.asked.is_empty() {
            let reply = client.reply(|cookie| oracle.data_len(cookie)).await.unwrap();
            oracle.check(&reply, is_structured);
        }
    }
    assert!(world.device.peek(0, SIZE as u64) == oracle.model, "the device at the end");
}

#[test]
fn every_sector_reads_as_last_written() {
    for seed in 0..12 {
        run(seed, SIZE as u64, move |world| random_requests(world, seed, seed % 2 == 0, 800));
    }
}

#[test]
fn errors_leave_the_connection_usable() {
    run(1, 1 << 30, |world| async move {
        let mut client = LinkClient::open(&world.env, &world.unix, "disk", true).await;
        assert_eq!(
            client.call(command::READ, 0, 1 << 30, 512).await.errno,
            22,
            "read behind the end"
        );
        assert_eq!(
            client.call(command::READ, flag::DF, 0, (32 << 20) + 512).await.errno,
            75,
            "too long for DF"
        );
        assert_eq!(client.write(0, 1 << 30, &[1; 512]).await.errno, 28, "write behind the end");
        assert_eq!(client.write(0, 100, &[1; 300]).await.errno, 22, "unaligned");
        assert_eq!(client.write(8, 0, &[1; 512]).await.errno, 22, "unknown flag");
        assert_eq!(client.write(0, 0, &vec![1; (32 << 20) + 512]).await.errno, 22, "too long");
        assert_eq!(client.write(0, 0, &[]).await.errno, 0, "an empty write");
        assert_eq!(client.call(42, 0, 0, 512).await.errno, 22, "unknown command");
        assert_eq!(client.call(command::TRIM, 0, 0, 1 << 30).await.errno, 0, "trim of all");
        let data: Vec<u8> = (0..8 << 20).map(|at: u32| (at >> 9) as u8).collect();
        assert_eq!(client.write(flag::FUA, 1 << 20, &data).await.errno, 0);
        assert!(client.call(command::READ, flag::DF, 1 << 20, 8 << 20).await.data == data);
        let status = client.call(command::BLOCK_STATUS, 0, 0, 16 << 20).await.extents;
        assert_eq!(status, [(1 << 20, 3), (8 << 20, 0), (7 << 20, 3)]);
        let status = client.call(command::BLOCK_STATUS, flag::REQ_ONE, 0, 16 << 20).await.extents;
        assert_eq!(status, [(1 << 20, 3)], "REQ_ONE");
    });
}

#[test]
fn a_client_that_takes_no_replies_is_not_read_from() {
    run(1, 1 << 30, |world| async move {
        let mut client = LinkClient::open(&world.env, &world.unix, "disk", true).await;
        for cookie in 0..60 {
            client.send(&request(command::READ, 0, cookie, 0, 4 << 20)).await.unwrap();
        }
        world.env.sleep(Duration::from_millis(50)).await;
        // There is room for 64 MiB. The socket took some of the replies meanwhile, but a batch
        // gives its room back only when all of it is sent.
        assert_eq!(world.device.reads(), 16, "room for 16 reads of 4 MiB");
        let mut bytes = 0;
        for _ in 0..60 {
            bytes += client.reply(|_| 0).await.unwrap().data.len();
        }
        assert_eq!(bytes, 60 * (4 << 20));
    });
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48, failure_persistence: None, ..Default::default()
    })]
    /// Whatever a client sends, before or after the handshake, the server goes on serving others
    /// and lets the device go.
    #[test]
    fn malformed_streams_harm_nobody(
        noise in prop::collection::vec(any::<u8>(), 0..400),
        shape in 0u8..5,
        seed in any::<u64>(),
        fields in any::<(u16, u16, u64, u32)>(),
    ) {
        run(seed, 1 << 20, move |world| async move {
            let mut client = match shape {
                0 => LinkClient::connect(&world.env, &world.unix).await,
                1 => {
                    let mut client = LinkClient::connect(&world.env, &world.unix).await;
                    client.send(&3u32.to_be_bytes()).await.unwrap();
                    let number = u32::from(fields.0 % 12);
                    client.send(&option(number, &noise)).await.unwrap();
                    client
                }
                _ => LinkClient::open(&world.env, &world.unix, "disk", shape == 2).await,
            };
            if shape >= 3 {
                let (command, flags, offset, length) = fields;
                let length = length % (1 << 16);
                let header = request(command % 9, flags & 31, 1, offset % (2 << 20), length);
                let _ = client.send(&header).await;
            }
            let _ = client.send(&noise).await;
            drop(client);
            let mut other = LinkClient::open(&world.env, &world.unix, "disk", true).await;
            assert_eq!(other.write(0, 4096, &[3; 4096]).await.errno, 0);
            assert_eq!(other.call(command::READ, 0, 4096, 4096).await.data, [3; 4096]);
            drop(other);
            while world.server.stats().connections > 0 {
                world.env.sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(world.device.held(), 2);
        });
    }
}
