// SPDX-License-Identifier: Apache-2.0
//! A host's part in the directory, and its part while the daemon runs.

use anyhow::Result;
use control::{DirectoryThread, MemberFile};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Who keeps the directory.
pub enum Keeping {
    /// The hosts: this one's part.
    Own(MemberFile),
    /// An etcd at these URLs, which is run by hand, or by a cluster on one machine.
    Given(Vec<String>),
}

impl Keeping {
    /// Where it answers.
    pub fn urls(&self) -> &[String] {
        match self {
            Self::Own(file) => &file.state.endpoints,
            Self::Given(urls) => urls,
        }
    }
}

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
