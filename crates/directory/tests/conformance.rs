// SPDX-License-Identifier: Apache-2.0
//! The conformance suite against the server itself, over the kernel's sockets.

use directory::{Directory, MemoryBackend, conformance, serve};
use env::{Address, Env, Fifo};
use ring::RingDriver;
use std::rc::Rc;

#[test]
fn the_server_over_unix_sockets() {
    let driver = RingDriver::new().expect("a ring");
    let env = Env::new(Box::new(driver), Box::new(Fifo));
    let path = format!("{}/directory-{}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    let inner = env.clone();
    env.run(async move {
        let env = inner;
        let listener = env.listen(Address::Unix(path)).await.expect("a listener");
        let directory = Directory::connect(&env, listener.address().clone());
        let server = env.clone();
        let _server = env.spawn("server", async move {
            let end = serve(&server, listener, Rc::new(MemoryBackend::default())).await;
            panic!("the server ended: {end:?}");
        });
        conformance::suite(&env, directory).await;
    });
    env.stop();
}
