// SPDX-License-Identifier: Apache-2.0
//! Which clients may use an export at the same time, and clients that leave while they wait
//! (rule 47).
#![allow(clippy::unwrap_used, reason = "a failing step is a failing test")]

mod common;

use common::world::{World, run, run_with};
use env::Address;
use nbd::numbers::{command, option as options, reply, transmission};
use nbdclient::LinkClient;
use nbdclient::frames::{go_data, option, request};
use std::rc::Rc;
use std::time::Duration;

/// A connection that asks for `name`. The error is the number of the refusal.
async fn ask(world: &World, address: &Address, name: &str) -> Result<LinkClient, u32> {
    let mut client = LinkClient::greeted(&world.env, address).await;
    client.go(name).await.map(|()| client)
}

async fn works(client: &mut LinkClient) -> bool {
    client.send(&request(command::READ, 0, 9, 0, 512)).await.is_ok()
        && client.reply(|_| 512).await.is_ok()
}

#[test]
fn over_tcp_a_newcomer_throws_nobody_out_who_is_not_itself() {
    run(1, 1 << 20, |world| async move {
        let (tcp, unix) = (&world.tcp, &world.unix);
        let mut nameless = ask(&world, tcp, "disk").await.unwrap();
        assert_eq!(nameless.flags & transmission::CAN_MULTI_CONN, 0);
        for (address, name) in [(tcp, "disk"), (tcp, "disk@vm"), (unix, "disk")] {
            assert_eq!(ask(&world, address, name).await.err(), Some(reply::ERR_POLICY), "{name}");
            assert!(works(&mut nameless).await, "it stays");
        }
        let mut elsewhere = ask(&world, tcp, "other").await.unwrap();
        drop(nameless);

        let mut vm = ask(&world, tcp, "disk@vm").await.unwrap();
        let mut backup = ask(&world, tcp, "disk@backup").await.unwrap();
        let mut local = ask(&world, unix, "disk").await.err();
        assert_eq!(local.take(), Some(reply::ERR_POLICY), "it may be either of them");
        let mut local = ask(&world, unix, "disk@local").await.unwrap();
        assert_ne!(local.flags & transmission::CAN_MULTI_CONN, 0);
        let mut again = ask(&world, tcp, "disk@vm").await.unwrap();
        assert!(vm.is_closed().await, "its own older connection");
        for client in [&mut backup, &mut local, &mut again, &mut elsewhere] {
            assert!(works(client).await);
        }
    });
}

#[test]
fn over_unix_all_go_on() {
    run(1, 1 << 20, |world| async move {
        let mut old = ask(&world, &world.unix, "disk").await.unwrap();
        let mut named = ask(&world, &world.unix, "disk@vm").await.unwrap();
        let mut same = ask(&world, &world.unix, "disk@vm").await.unwrap();
        let mut remote = ask(&world, &world.tcp, "disk").await.unwrap();
        for client in [&mut old, &mut named, &mut same, &mut remote] {
            assert!(works(client).await);
        }
    });
}

#[test]
fn an_exclusive_export_has_one_client_until_it_leaves_or_comes_again() {
    for is_tcp in [false, true] {
        run(1, 1 << 20, move |world| async move {
            let address = if is_tcp { &world.tcp } else { &world.unix };
            let mut first = ask(&world, address, "alone@vm").await.unwrap();
            assert_eq!(first.flags & transmission::CAN_MULTI_CONN, 0);
            for name in ["alone", "alone@other"] {
                let began = world.env.now();
                assert_eq!(ask(&world, &world.unix, name).await.err(), Some(reply::ERR_POLICY));
                assert!(world.env.now().since(began) < Duration::from_secs(3), "at once or so");
                assert!(works(&mut first).await, "it stays");
            }
            let mut again = ask(&world, address, "alone@vm").await.unwrap();
            assert!(first.is_closed().await, "its own older connection");
            assert!(works(&mut again).await);
            // A client that waits comes in as soon as the other one leaves.
            let (env, waiting) = (world.env.clone(), Rc::clone(&world));
            let _leaves = world.env.spawn("leaves", async move {
                env.sleep(Duration::from_millis(500)).await;
                drop(again);
            });
            let mut next = ask(&waiting, &waiting.unix, "alone").await.unwrap();
            assert!(works(&mut next).await);
        });
    }
}

/// A client that asks for an export and hangs up without waiting for the answer.
async fn hurried(world: &World, name: &str) {
    let mut client = LinkClient::greeted(&world.env, &world.unix).await;
    client.send(&option(options::GO, &go_data(name, &[]))).await.unwrap();
}

#[test]
fn who_leaves_while_it_waits_is_gone_at_once() {
    run(1, 1 << 20, |world| async move {
        let mut old = ask(&world, &world.unix, "disk").await.unwrap();
        world.device.set_delay_max(Duration::from_secs(60));
        for block in 0..64 {
            old.send(&request(command::READ, 0, block, block * 4096, 4096)).await.unwrap();
        }
        for _ in 0..30 {
            hurried(&world, "disk").await;
        }
        world.env.sleep(Duration::from_millis(100)).await;
        assert!(world.device.under_way() > 0, "the gate is held");
        assert_eq!(world.server.stats().connections, 1, "no waiter is left");
        let _last = ask(&world, &world.unix, "disk").await.unwrap();
    });
}

#[test]
fn who_leaves_between_its_turn_and_its_answer_costs_nobody_time() {
    // The window is too small for the answer to GO. So the client is let in before it has all of
    // the answer.
    let mut options = sim::WorldOptions { seed: 1, ..Default::default() };
    options.net.window = 64;
    run_with(options, 1 << 20, |world| async move {
        let mut gone = LinkClient::connect(&world.env, &world.unix).await;
        gone.send(&3u32.to_be_bytes()).await.unwrap();
        gone.send(&option(options::GO, &go_data("disk", &[]))).await.unwrap();
        world.env.sleep(Duration::from_millis(10)).await;
        assert_eq!(world.device.held(), 3, "it is in");
        let began = world.env.now();
        let env = world.env.clone();
        let _leaves = world.env.spawn("leaves", async move {
            env.sleep(Duration::from_millis(10)).await;
            drop(gone);
        });
        let mut last = ask(&world, &world.unix, "disk").await.unwrap();
        assert!(works(&mut last).await);
        let took = world.env.now().since(began);
        assert!(took < Duration::from_millis(500), "{took:?}");
    });
}

#[test]
fn what_a_client_sends_ahead_while_it_waits_is_served() {
    for seed in 0..24 {
        run(seed, 1 << 20, |world| async move {
            let mut old = ask(&world, &world.unix, "disk").await.unwrap();
            world.device.set_delay_max(Duration::from_millis(20));
            for block in 0..64 {
                old.send(&request(command::READ, 0, block, block * 4096, 4096)).await.unwrap();
            }
            let mut eager = LinkClient::connect(&world.env, &world.unix).await;
            eager.is_choppy = true;
            let mut bytes = 3u32.to_be_bytes().to_vec();
            bytes.extend(option(options::GO, &go_data("disk", &[])));
            for block in 0..16u8 {
                bytes.extend(request(
                    command::WRITE,
                    0,
                    u64::from(block),
                    u64::from(block) * 4096,
                    4096,
                ));
                bytes.extend([block + 1; 4096]);
            }
            let (head, tail) = bytes.split_at(8000);
            eager.send(head).await.unwrap();
            eager.answers(options::GO).await;
            eager.send(tail).await.unwrap();
            for _ in 0..16 {
                assert_eq!(eager.reply(|_| 0).await.unwrap().errno, 0);
            }
            for block in 0..16 {
                assert_eq!(world.device.peek(block * 4096, 4096), [block as u8 + 1; 4096]);
            }
        });
    }
}

#[test]
fn an_export_has_so_many_connections_and_others_are_not_concerned() {
    run(1, 1 << 20, |world| async move {
        let mut clients = Vec::new();
        for _ in 0..64 {
            clients.push(ask(&world, &world.unix, "disk").await.unwrap());
        }
        assert_eq!(ask(&world, &world.unix, "disk").await.err(), Some(reply::ERR_POLICY));
        assert!(ask(&world, &world.unix, "other").await.is_ok());
        clients.pop();
        world.env.sleep(Duration::from_millis(10)).await;
        assert!(ask(&world, &world.unix, "disk").await.is_ok());
    });
}
