// SPDX-License-Identifier: Apache-2.0
//! What the tests of the embedded directory and of the gateway share.

use directory::Directory;
use env::{Address, Env, Fifo};
use ring::RingDriver;
use std::future::Future;
use std::path::{Path, PathBuf};

/// A folder that is removed at the end of the test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for the test");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs `test` as a shard with a client of the directory at `socket`.
pub fn with_directory<F, T>(socket: &Path, test: impl FnOnce(Env, Directory) -> F) -> T
where
    F: Future<Output = T> + 'static,
    T: 'static,
{
    let driver = RingDriver::new().expect("a ring");
    let env = Env::new(Box::new(driver), Box::new(Fifo));
    let path = socket.to_str().expect("a UTF-8 path").to_owned();
    let directory = Directory::connect(&env, Address::Unix(path));
    let result = env.run(test(env.clone(), directory));
    env.stop();
    result
}
