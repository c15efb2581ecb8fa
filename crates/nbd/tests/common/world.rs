// SPDX-License-Identifier: Apache-2.0
//! Where the tests run: one shard with a server and its clients.

use super::{MemoryDevice, MemoryExports};
use env::{Address, Env, Fifo, TaskSet};
use nbd::{Server, ServerOptions};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A server with the exports "disk" (of `size` bytes) and "other" (1 MiB).
pub struct World {
    pub env: Env,
    pub device: MemoryDevice,
    pub server: Server<MemoryExports>,
    pub unix: Address,
    pub tcp: Address,
    _tasks: TaskSet,
}

/// Runs `test` in a fresh world.
pub fn run<F: Future<Output = ()> + 'static>(
    size: u64,
    test: impl FnOnce(Rc<World>) -> F + 'static,
) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("gabion-nbd-{}-{number}.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
    let path = path.to_str().unwrap().to_owned();
    let driver = ring::RingDriver::new().unwrap();
    let env = Env::new(Box::new(driver), Box::new(Fifo));
    let inner = env.clone();
    env.run(async move {
        let world = world(inner, size, Address::Unix(path)).await;
        test(Rc::new(world)).await;
    });
}

async fn world(env: Env, size: u64, unix: Address) -> World {
    let device = MemoryDevice::new(&env, size);
    let other = MemoryDevice::new(&env, 1 << 20);
    let exports = vec![("disk".to_owned(), device.clone()), ("other".to_owned(), other)];
    let server = Server::new(&env, MemoryExports(exports), ServerOptions::default());
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
