// SPDX-License-Identifier: Apache-2.0
//! Where the tests run: one shard with a server and its clients.

use super::memory::{MemoryDevice, MemoryExports};
use env::{Address, Env, TaskSet};
use nbd::{NbdServer, ServerOptions};
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::time::Duration;

/// A server with the exports "disk" (of `size` bytes), "other" (1 MiB) and, for one connection at a
/// time, "alone" (1 MiB).
pub struct World {
    pub env: Env,
    pub device: MemoryDevice,
    pub server: NbdServer<MemoryExports>,
    pub unix: Address,
    pub tcp: Address,
    _tasks: TaskSet,
}

/// Virtual time that a test may take. All tests take seconds.
const TIME_MAX: Duration = Duration::from_secs(600);

/// Runs `test` in a fresh simulated world. Links deliver in parts, and the seed decides the order
/// of tasks.
pub fn run<F: Future<Output = ()> + 'static>(
    seed: u64,
    size: u64,
    test: impl FnOnce(Rc<World>) -> F + 'static,
) {
    run_with(sim::WorldOptions { seed, ..Default::default() }, size, test);
}

/// As [`run`], in a world with these options.
pub fn run_with<F: Future<Output = ()> + 'static>(
    options: sim::WorldOptions,
    size: u64,
    test: impl FnOnce(Rc<World>) -> F + 'static,
) {
    let simulation = sim::World::new(options);
    let host = simulation.add_host("server", Ipv4Addr::LOCALHOST.into());
    simulation.boot(host, move |env| {
        Box::pin(async move {
            let world = world(env, size, Address::Unix("/nbd.sock".to_owned())).await;
            test(Rc::new(world)).await;
        })
    });
    assert!(simulation.run_until(TIME_MAX, || simulation.is_finished(host)), "it hangs");
}

async fn world(env: Env, size: u64, unix: Address) -> World {
    let device = MemoryDevice::new(&env, size);
    let small = |name: &str| (name.to_owned(), MemoryDevice::new(&env, 1 << 20));
    let exports = vec![("disk".to_owned(), device.clone()), small("other"), small("alone")];
    let server = NbdServer::new(&env, MemoryExports(exports), ServerOptions::default());
    let tasks = TaskSet::default();
    let mut addresses = Vec::new();
    for address in [unix, Address::Tcp(([127, 0, 0, 1], 0).into())] {
        let listener = env.listen(address).await.unwrap();
        addresses.push(listener.address().clone());
        let server = server.clone();
        tasks.spawn(&env, "server", async move { server.serve(listener).await });
    }
    let (tcp, unix) = (addresses.pop().unwrap(), addresses.pop().unwrap());
    World { env, device, server, unix, tcp, _tasks: tasks }
}
