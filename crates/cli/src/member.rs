// SPDX-License-Identifier: Apache-2.0
//! A host's part in the directory while the daemon runs.

use anyhow::Result;
use control::DirectoryThread;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The part that runs; nothing where etcd is run by hand. Cheap to clone.
#[derive(Clone, Default)]
pub struct DirectoryMember(Arc<Mutex<Option<DirectoryThread>>>);

impl DirectoryMember {
    /// Starts the part that is in `file`, if there is one.
    pub fn start(file: Option<PathBuf>) -> Result<Self> {
        let thread = file.map(|file| control::keep_member(&file)).transpose()?;
        Ok(Self(Arc::new(Mutex::new(thread))))
    }

    /// Ends it, and its member of etcd, before this process ends.
    pub fn end(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
