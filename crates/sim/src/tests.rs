// SPDX-License-Identifier: Apache-2.0
//! The world keeps its own promises.

use crate::{DiskFault, HostKey, World, WorldOptions};
use base::Instant;
use env::{Address, Disk, Durability, Env, IoError, Link, OpenDisk, Slice, conformance};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const PATH: &str = "disk";

fn ip(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
}

fn at(last: u8, port: u16) -> Address {
    Address::Tcp(SocketAddr::new(ip(last), port))
}

fn world(seed: u64) -> World {
    World::new(WorldOptions { seed, ..WorldOptions::default() })
}

fn hosts(world: &World, count: u8) -> Vec<HostKey> {
    (1..=count).map(|n| world.add_host(&format!("h{n}"), ip(n))).collect()
}

/// Runs `main` on `host` to its end.
fn finish<F: Future<Output = ()> + 'static>(
    world: &World,
    host: HostKey,
    main: impl FnOnce(Env) -> F + 'static,
) {
    world.boot(host, |env| Box::pin(main(env)));
    assert!(world.run_until(HOUR, || world.is_finished(host)), "seed {}", world.seed());
}

async fn open(env: &Env) -> Disk {
    let options = OpenDisk { path: PATH.to_owned(), create: Some(1 << 20) };
    env.open_disk(options).await.expect("the disk opens")
}

fn filled(env: &Env, len: usize, byte: u8) -> Slice {
    let mut buf = env.buf(len);
    buf.fill(byte);
    buf.freeze()
}

#[test]
fn the_driver_conforms() {
    for seed in 0..12 {
        let world = world(seed);
        let host = hosts(&world, 1)[0];
        finish(&world, host, |env| async move {
            conformance::disk(&env, PATH).await;
            conformance::timers(&env).await;
            let unix = Address::Unix("socket".to_owned());
            conformance::network(&env, unix, at(1, 0)).await;
        });
    }
}
