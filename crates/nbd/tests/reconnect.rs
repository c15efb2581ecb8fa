// SPDX-License-Identifier: Apache-2.0
//! Old and new connections of one export (rule 47), and what happens to the requests of a
//! connection that ended.
#![allow(clippy::unwrap_used, reason = "a failing step is a failing test")]

mod common;

use common::memory::{MemoryDevice, MemoryExports};
use common::world::run;
use env::Address;
use nbd::numbers::command;
use nbd::{NbdServer, ServerOptions};
use nbdclient::LinkClient;
use nbdclient::frames::request;
use std::cell::{Cell, RefCell};
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::time::Duration;

const SLOW: Duration = Duration::from_millis(60);

fn write_request(offset: u64, byte: u8) -> Vec<u8> {
    let mut bytes = request(command::WRITE, 0, u64::from(byte), offset, 4096).to_vec();
    bytes.extend([byte; 4096]);
    bytes
}

/// Blocks that the old client writes. They are more than a connection may have under way, so some
/// still lie in its socket when the new client comes.
const BLOCKS: u64 = 200;

#[test]
fn nothing_of_an_old_client_acts_after_the_next_one_is_in() {
    for seed in 0..48 {
        let (is_tcp, lives_on) = (seed % 3 == 0, seed % 2 == 0);
        run(seed, 1 << 20, move |world| async move {
            // Over TCP, a client that comes again says who it is.
            let (address, name) =
                if is_tcp { (&world.tcp, "disk@vm") } else { (&world.unix, "disk") };
            let mut living = Vec::new();
            for round in 1..4u8 {
                let mut old = LinkClient::open(&world.env, address, name, true).await;
                world.device.set_delay_max(SLOW);
                for block in 0..BLOCKS {
                    old.send(&write_request(block * 4096, 100 + round)).await.unwrap();
                }
                if lives_on {
                    living.push(old);
                }
                let mut new = LinkClient::open(&world.env, address, name, true).await;
                assert_eq!(world.device.under_way(), 0, "drained, seed {seed} round {round}");
                let before = world.device.peek(0, BLOCKS * 4096);
                if lives_on && !is_tcp {
                    assert!(
                        before.iter().all(|byte| *byte == 100 + round),
                        "all delivered is done"
                    );
                }
                world.device.set_delay_max(Duration::ZERO);
                assert_eq!(new.write(0, 0, &[round; 4096]).await.errno, 0);
                world.env.sleep(SLOW * 4).await;
                let after = world.device.peek(0, BLOCKS * 4096);
                assert_eq!(after[..4096], [round; 4096]);
                assert!(after[4096..] == before[4096..], "an old write acted late");
            }
        });
    }
}

#[test]
fn a_busy_client_keeps_nobody_out_and_a_stuck_one_is_closed() {
    run(1, 1 << 20, |world| async move {
        let mut busy = LinkClient::open(&world.env, &world.unix, "disk", true).await;
        world.device.set_delay_max(Duration::from_micros(500));
        let (env, unix) = (world.env.clone(), world.unix.clone());
        let newcomer = Rc::new(Cell::new(false));
        let is_in = Rc::clone(&newcomer);
        let _task = world.env.spawn("newcomer", async move {
            env.sleep(Duration::from_millis(20)).await;
            let mut new = LinkClient::open(&env, &unix, "disk", true).await;
            assert_eq!(new.call(command::READ, 0, 0, 512).await.errno, 0);
            is_in.set(true);
        });
        let begin = world.env.now();
        for _ in 0..200 {
            busy.send(&request(command::READ, 0, 1, 0, 4096)).await.unwrap();
        }
        while !newcomer.get() {
            assert!(world.env.now().since(begin) < Duration::from_secs(5), "kept out");
            assert_eq!(busy.reply(|_| 0).await.unwrap().errno, 0);
            busy.send(&request(command::READ, 0, 1, 0, 4096)).await.unwrap();
        }
        assert_eq!(busy.reply(|_| 0).await.unwrap().errno, 0, "the busy one stays");
        drop(busy);

        let mut stuck = LinkClient::open(&world.env, &world.unix, "disk", true).await;
        for _ in 0..200 {
            stuck.send(&request(command::READ, 0, 1, 0, 1 << 20)).await.unwrap();
        }
        let mut new = LinkClient::open(&world.env, &world.unix, "disk", true).await;
        assert_eq!(new.call(command::READ, 0, 0, 512).await.errno, 0);
        assert!(stuck.is_closed().await);
    });
}

#[test]
fn an_orderly_end_still_brings_the_replies() {
    run(1, 1 << 20, |world| async move {
        world.device.set_delay_max(SLOW);
        let mut client = LinkClient::open(&world.env, &world.unix, "disk", true).await;
        for sector in 0..32 {
            client.send(&write_request(sector * 4096, 7)).await.unwrap();
        }
        client.send(&request(command::DISC, 0, 0, 0, 0)).await.unwrap();
        for _ in 0..32 {
            let reply = client.reply(|_| 0).await.expect("requests before the end are answered");
            assert_eq!(reply.errno, 0);
        }
        assert!(client.is_closed().await);
    });
}

#[test]
fn what_was_delivered_before_the_end_is_done_and_the_device_let_go() {
    run(1, 1 << 20, |world| async move {
        for is_orderly in [false, true] {
            world.device.set_delay_max(SLOW);
            let mut client = LinkClient::open(&world.env, &world.unix, "disk", true).await;
            let byte = 5 + u8::from(is_orderly);
            for sector in 0..32 {
                client.send(&write_request(sector * 4096, byte)).await.unwrap();
            }
            if is_orderly {
                client.send(&request(command::DISC, 0, 0, 0, 0)).await.unwrap();
            }
            drop(client);
            world.env.sleep(Duration::from_millis(5)).await;
            assert_eq!(world.server.stats().connections, 1, "it waits for its writes");
            while world.server.stats().connections > 0 {
                world.env.sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(world.device.peek(0, 32 * 4096), vec![byte; 32 * 4096]);
            assert_eq!(world.device.held(), 2);
        }
    });
}

#[test]
fn a_client_that_is_cut_off_within_a_request_is_let_go_at_once() {
    run(1, 1 << 20, |world| async move {
        let mut client = LinkClient::open(&world.env, &world.unix, "disk", true).await;
        client.send(&write_request(0, 7)[..2000]).await.unwrap();
        drop(client);
        world.env.sleep(Duration::from_millis(100)).await;
        assert_eq!(world.server.stats().connections, 0, "nobody is there for a reply");
        assert_eq!(world.device.held(), 2);
    });
}

#[test]
fn a_client_whose_requests_take_long_is_not_taken_for_a_stuck_one() {
    const LARGEST: u32 = 32 << 20;
    for seed in 0..4 {
        run(seed, 1 << 30, |world| async move {
            let mut slow = LinkClient::open(&world.env, &world.unix, "disk", true).await;
            world.device.set_delay_max(Duration::from_secs(20));
            // Two of them are all that a connection may have under way: the rest waits unread.
            for number in 0..3 {
                slow.send(&request(command::READ, 0, number, 0, LARGEST)).await.unwrap();
            }
            let (env, unix) = (world.env.clone(), world.unix.clone());
            let _newcomer = world.env.spawn("newcomer", async move {
                drop(LinkClient::open(&env, &unix, "disk", true).await);
            });
            for _ in 0..3 {
                let reply = slow.reply(|_| LARGEST as usize).await.expect("it stays");
                assert_eq!(reply.errno, 0);
            }
        });
    }
}

/// A write of an old client arrives while its server stands still, and so does the same client's
/// next connection. It is up to the seed which of them the server sees first.
#[test]
fn a_write_that_arrives_together_with_the_next_connection_is_done_before_or_never() {
    let mut done = 0;
    for seed in 0..32 {
        let world = sim::World::new(sim::WorldOptions { seed, ..Default::default() });
        let ip = |number| Ipv4Addr::new(10, 0, 0, number);
        let (server, client) =
            (world.add_host("server", ip(1).into()), world.add_host("client", ip(2).into()));
        let door = Address::Tcp((ip(1), 10_809).into());
        let (address, place) = (door.clone(), Rc::new(RefCell::new(None)));
        let device = Rc::clone(&place);
        world.boot(server, move |env| {
            Box::pin(async move {
                let disk = MemoryDevice::new(&env, 1 << 20);
                *place.borrow_mut() = Some(disk.clone());
                let exports = MemoryExports(vec![("disk".to_owned(), disk)]);
                let server = NbdServer::new(&env, exports, ServerOptions::default());
                server.serve(env.listen(address).await.unwrap()).await;
            })
        });
        world.run_for(Duration::from_millis(1));
        let disk = device.borrow().clone().unwrap();
        let written = Rc::new(Cell::new(None));
        let place = Rc::clone(&written);
        world.boot(client, move |env| {
            Box::pin(async move {
                let mut old = LinkClient::open(&env, &door, "disk@vm", true).await;
                let mut new = LinkClient::greeted(&env, &door).await;
                let bytes = write_request(0, 7);
                old.send(&bytes[..2000]).await.unwrap();
                env.sleep(Duration::from_secs(2)).await;
                old.send(&bytes[2000..]).await.unwrap();
                new.go("disk@vm").await.unwrap();
                place.set(Some(disk.peek(0, 4096) == [7; 4096]));
                env.sleep(SLOW * 4).await;
                assert_eq!(place.get(), Some(disk.peek(0, 4096) == [7; 4096]), "seed {seed}");
            })
        });
        world.run_for(Duration::from_secs(1));
        device.borrow().as_ref().unwrap().set_delay_max(SLOW);
        world.pause(server, Duration::from_secs(2));
        assert!(world.run_until(Duration::from_secs(60), || world.is_finished(client)));
        done += u64::from(written.get().expect("it came in"));
    }
    assert!((1..32).contains(&done), "always in the same order: {done}");
}
