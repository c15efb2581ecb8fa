// SPDX-License-Identifier: Apache-2.0
//! A crowd of machines that connect and say nothing, or take all connections that they can get.
#![allow(clippy::unwrap_used, reason = "a failing step is a failing test")]

mod common;

use common::memory::{MemoryDevice, MemoryExports};
use env::{Address, Env};
use nbd::{NbdServer, ServerOptions};
use nbdclient::LinkClient;
use std::cell::Cell;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::time::Duration;

const TIME_MAX: Duration = Duration::from_secs(600);

fn ip(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, number)
}

fn door() -> Address {
    Address::Tcp((ip(1), 10_809).into())
}

async fn serve(env: Env) {
    let disks = (0..40).map(|n| (format!("disk{n}"), MemoryDevice::new(&env, 1 << 20)));
    let server = NbdServer::new(&env, MemoryExports(disks.collect()), ServerOptions::default());
    let listener = env.listen(door()).await.unwrap();
    server.serve(listener).await;
}

/// Runs a server, as many `machines` of a crowd, and one honest client. The client comes after a
/// second and again a minute later. Each time it must be served within two seconds.
fn with_crowd<F: Future<Output = ()> + 'static>(
    machines: u8,
    crowd: impl Fn(Env) -> F + Copy + 'static,
) {
    let simulation = sim::World::new(sim::WorldOptions { seed: 7, ..Default::default() });
    let server = simulation.add_host("server", ip(1).into());
    simulation.boot(server, |env| Box::pin(serve(env)));
    for number in 0..machines {
        let host = simulation.add_host("crowd", ip(100 + number).into());
        simulation.boot(host, move |env| Box::pin(crowd(env)));
    }
    let client = simulation.add_host("client", ip(2).into());
    let is_served = Rc::new(Cell::new(false));
    let served = Rc::clone(&is_served);
    simulation.boot(client, move |env| {
        Box::pin(async move {
            for after in [1, 60] {
                env.sleep(Duration::from_secs(after)).await;
                let honest = async {
                    let mut client = LinkClient::open(&env, &door(), "disk39", true).await;
                    assert_eq!(client.write(0, 0, &[1; 512]).await.errno, 0);
                };
                let timed = env.timeout(Duration::from_secs(2), honest).await;
                assert!(timed.is_ok(), "not served within two seconds");
            }
            served.set(true);
        })
    });
    assert!(simulation.run_until(TIME_MAX, || is_served.get()), "it hangs");
}

#[test]
fn silent_connections_shut_nobody_out() {
    with_crowd(1, |env| async move {
        let mut held = Vec::new();
        for _ in 0..1100 {
            held.push(env.dial(door()).await);
        }
        env.sleep(TIME_MAX).await;
    });
}

#[test]
fn one_machine_with_open_connections_to_everything_shuts_nobody_out() {
    with_crowd(1, |env| async move {
        let mut held = Vec::new();
        for number in 0..1100 {
            // From some number on the server refuses: it closes the connection without a greeting.
            let Ok(mut client) = LinkClient::try_connect(&env, &door()).await else { continue };
            client.send(&3u32.to_be_bytes()).await.unwrap();
            client.go(&format!("disk{}@n{number}", number % 39)).await.unwrap();
            held.push(client);
        }
        assert_eq!(held.len(), 768, "three quarters");
        env.sleep(TIME_MAX).await;
    });
}

#[test]
fn machines_that_call_again_and_again_shut_nobody_out() {
    with_crowd(3, |env| async move {
        let mut held = std::collections::VecDeque::new();
        loop {
            held.push_back(env.dial(door()).await);
            if held.len() > 400 {
                held.pop_front();
            }
            env.sleep(Duration::from_millis(5)).await;
        }
    });
}
