// SPDX-License-Identifier: Apache-2.0
//! Serves a disk in memory, for trying real clients and measuring the protocol alone:
//! `memory SOCKET SIZE` or `memory IP:PORT SIZE`, then for example
//! `nbdinfo 'nbd+unix:///memory?socket=SOCKET'`.

#[path = "../tests/common/memory.rs"]
mod memory;

use env::{Address, Env, Fifo};
use memory::{MemoryDevice, MemoryExports};
use nbd::{NbdServer, ServerOptions};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, size] = arguments.as_slice() else {
        return Err("usage: memory SOCKET|IP:PORT SIZE".into());
    };
    let size = base::parse_size(size)?;
    let address = match address.parse() {
        Ok(address) => Address::Tcp(address),
        Err(_) => Address::Unix(address.clone()),
    };
    let env = Env::new(Box::new(ring::RingDriver::new()?), Box::new(Fifo));
    let inner = env.clone();
    env.run(async move {
        let device = MemoryDevice::new(&inner, size);
        let exports = MemoryExports(vec![("memory".to_owned(), device)]);
        let listener = inner.listen(address).await?;
        NbdServer::new(&inner, exports, ServerOptions::default()).serve(listener).await;
        Ok(())
    })
}
