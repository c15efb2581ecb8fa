// SPDX-License-Identifier: Apache-2.0
//! What the shards of this machine hang on: each has a connection to the process that runs them. A
//! byte on it asks for a clean stop. When the connection ends the shard ends too, so that none
//! outlives whoever runs it.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The connections, by name of the shard. Cheap to clone.
#[derive(Clone, Default)]
pub struct Leashes(Arc<Mutex<BTreeMap<String, UnixStream>>>);

impl Leashes {
    /// Takes connections at `path` for as long as this process lives. A socket that is there is
    /// taken for that of a process that is gone.
    pub fn listen(path: &Path) -> Result<Self> {
        let listener = bind(path)?;
        let leashes = Self::default();
        let inner = leashes.clone();
        std::thread::spawn(move || inner.hold(&listener));
        Ok(leashes)
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, UnixStream>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hold(&self, listener: &UnixListener) {
        for stream in listener.incoming().flatten() {
            let mut name = String::new();
            let Ok(reader) = stream.try_clone() else { continue };
            if BufReader::new(reader).read_line(&mut name).is_ok() {
                self.all().insert(name.trim().to_owned(), stream);
            }
        }
    }

    /// Asks all of them to stop.
    pub fn stop_all(&self) {
        for leash in self.all().values_mut() {
            // One that is gone cannot be told, and need not be.
            let _ = leash.write_all(b"s");
        }
    }

    /// Ends one at once.
    pub fn cut(&self, name: &str) {
        self.all().remove(name);
    }
}

/// Listens at a Unix socket. One that is there is that of a process that is gone.
pub fn bind(path: &Path) -> Result<UnixListener> {
    let _ = std::fs::remove_file(path);
    UnixListener::bind(path).with_context(|| format!("cannot listen at '{}'", path.display()))
}
