// SPDX-License-Identifier: Apache-2.0
//! Servers that are sent anything: each in a simulated world, the input in pieces over a link.

use env::{Address, Env, Link};
use fuzz::within;
use sim::{World, WorldOptions};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Where the server listens.
pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// Bytes of memory that a server, its world and a client's bytes may take: 44 MiB of buffers are
/// kept for reuse in each process.
pub(crate) const MEMORY_MAX: u64 = 256 << 20;
/// How long an answer may take.
const QUIET: Duration = Duration::from_millis(500);
const HOUR: Duration = Duration::from_secs(3600);

pub(crate) fn address() -> Address {
    Address::Tcp(SocketAddr::from((SERVER, 7000)))
}

/// Runs `serve` on one machine and `client` on another until the client has ended. Panics in
/// either, a client that never ends and memory beyond its bound are failures.
pub(crate) fn with_server<S, C>(
    serve: impl FnOnce(Env) -> S + 'static,
    client: impl FnOnce(Env) -> C + 'static,
) where
    S: Future<Output = ()> + 'static,
    C: Future<Output = ()> + 'static,
{
    within(MEMORY_MAX, || {
        let world = World::new(WorldOptions { seed: 1, ..WorldOptions::default() });
        let (one, two) = (IpAddr::V4(SERVER), IpAddr::V4(CLIENT));
        let (one, two) = (world.add_host("server", one), world.add_host("client", two));
        world.boot(one, |env| Box::pin(serve(env)));
        world.run_for(Duration::from_millis(10));
        world.boot(two, |env| Box::pin(client(env)));
        assert!(world.run_until(HOUR, || world.is_finished(two)), "the client never ends");
        world.kill(two);
        world.run_for(Duration::from_secs(5));
        world.kill(one);
    });
}

/// Sends what the link takes; whether it took everything.
pub(crate) async fn send(env: &Env, link: &Link, bytes: &[u8]) -> bool {
    for part in bytes.chunks(4096) {
        let mut buf = env.buf(part.len());
        buf.copy_from_slice(part);
        if link.send(buf.freeze()).await.is_err() {
            return false;
        }
    }
    true
}

/// Takes what comes until nothing comes any more.
pub(crate) async fn take(env: &Env, link: &Link) -> Vec<u8> {
    let mut taken = Vec::new();
    loop {
        match env.timeout(QUIET, link.recv(env.buf(64 << 10), 0)).await {
            Ok(Ok((buf, count))) if count > 0 => taken.extend_from_slice(&buf[..count]),
            _ => return taken,
        }
    }
}

/// Sends bytes over a link of its own and takes the answers.
pub(crate) async fn tell(env: &Env, bytes: &[u8]) -> Vec<u8> {
    let link = env.dial(address()).await.expect("the server listens");
    // Who sends much and takes nothing is held back: both at once.
    let (_, taken) = env::join(send(env, &link, bytes), take(env, &link)).await;
    link.close();
    taken
}
