// SPDX-License-Identifier: Apache-2.0
//! The requests and answers of a directory, the same for every implementation of it.

use base::Set;
use std::fmt;
use thiserror::Error;

/// Bytes of the longest key or prefix.
pub const KEY_BYTES_MAX: usize = 512;
/// Bytes of the largest value. etcd refuses requests above 1.5 MiB.
pub const VALUE_BYTES_MAX: usize = 1 << 20;
/// Bytes of all keys and values of one transaction, for the same reason.
pub const TRANSACTION_BYTES_MAX: usize = (1 << 20) + (64 << 10);
/// Most comparisons in one transaction, and most puts and deletes together. It is etcd's default
/// limit.
pub const OPERATIONS_MAX: usize = 128;

/// A lease: keys bound to it vanish when it is not kept for its time to live. Not zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaseId({:x})", self.0)
    }
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its bytes.
    pub value: Vec<u8>,
    /// The directory's revision of the key's last change.
    pub revision: u64,
}

/// All keys with a prefix, as they were at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// In key order.
    pub entries: Vec<(String, Entry)>,
    /// The directory's revision.
    pub revision: u64,
}

/// What a transaction expects of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// There is no such key.
    Absent,
    /// Its last change was at this revision.
    Revision(u64),
    /// There is such a key.
    Present,
}

/// All or nothing: if every comparison holds, every put and delete happens, at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// What must hold.
    pub compare: Vec<(String, Expect)>,
    /// Keys to set. A key with a lease vanishes when the lease ends. A put without a lease also
    /// unbinds the key from a lease that it had.
    pub puts: Vec<(String, Vec<u8>, Option<LeaseId>)>,
    /// Keys to delete; one that does not exist is no error.
    pub deletes: Vec<String>,
}

impl Transaction {
    /// One that does nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a comparison.
    #[must_use]
    pub fn expect(mut self, key: impl Into<String>, expect: Expect) -> Self {
        self.compare.push((key.into(), expect));
        self
    }

    /// Adds a put of a key that no lease holds.
    #[must_use]
    pub fn put(mut self, key: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.puts.push((key.into(), value.into(), None));
        self
    }

    /// Adds a put of a key that vanishes with `lease`.
    #[must_use]
    pub fn put_leased(
        mut self,
        key: impl Into<String>,
        value: impl Into<Vec<u8>>,
        lease: LeaseId,
    ) -> Self {
        self.puts.push((key.into(), value.into(), Some(lease)));
        self
    }

    /// Adds a delete.
    #[must_use]
    pub fn delete(mut self, key: impl Into<String>) -> Self {
        self.deletes.push(key.into());
        self
    }

    /// Checks the limits that every directory has.
    ///
    /// # Errors
    /// [`DirectoryError::Malformed`]: an empty or overlong key, or one changed twice;
    /// [`DirectoryError::TooLarge`]: beyond the limits of this module.
    pub fn check(&self) -> Result<(), DirectoryError> {
        let changes = self.puts.len() + self.deletes.len();
        if self.compare.len() > OPERATIONS_MAX || changes > OPERATIONS_MAX {
            return Err(DirectoryError::TooLarge);
        }
        let compared = self.compare.iter().map(|(key, _)| key);
        let changed = || self.puts.iter().map(|(key, _, _)| key).chain(&self.deletes);
        for key in compared.clone().chain(changed()) {
            check_key(key)?;
        }
        if changed().collect::<Set<_>>().len() < changes {
            return Err(DirectoryError::Malformed);
        }
        if self.puts.iter().any(|(_, value, _)| value.len() > VALUE_BYTES_MAX) {
            return Err(DirectoryError::TooLarge);
        }
        let keys: usize = compared.chain(changed()).map(String::len).sum();
        let values: usize = self.puts.iter().map(|(_, value, _)| value.len()).sum();
        if keys + values > TRANSACTION_BYTES_MAX {
            return Err(DirectoryError::TooLarge);
        }
        Ok(())
    }
}

/// Whether `key` may be a key or a prefix: 1 to [`KEY_BYTES_MAX`] bytes.
///
/// # Errors
/// [`DirectoryError::Malformed`] for an empty one, [`DirectoryError::TooLarge`] for a long one.
pub fn check_key(key: &str) -> Result<(), DirectoryError> {
    if key.is_empty() {
        return Err(DirectoryError::Malformed);
    }
    if key.len() > KEY_BYTES_MAX { Err(DirectoryError::TooLarge) } else { Ok(()) }
}

/// What came of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transacted {
    /// Whether every comparison held. If not, nothing was changed.
    pub succeeded: bool,
    /// The directory's revision afterwards: that of every key it put.
    pub revision: u64,
}

/// What a watch tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// All keys with the prefix: what is not listed does not exist. It is the first event of a
    /// watch, and comes again after each gap.
    Reset(Listing),
    /// A key was set.
    Put(String, Entry),
    /// A key was deleted or its lease ended, at this revision.
    Delete(String, u64),
}

/// Why the directory did not do what was asked.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum DirectoryError {
    /// not reachable in time; surely nothing was changed
    #[error("the directory is not available; nothing was changed")]
    Unavailable,
    /// the answer was lost; the change may have happened, or may still happen (rules 16, 23)
    #[error("the directory's answer was lost; the change may have happened or happen late")]
    Unknown,
    /// the lease has run out or was revoked
    #[error("the lease is gone")]
    LeaseGone,
    /// the request makes no sense
    #[error("the directory refuses the request as malformed")]
    Malformed,
    /// beyond a size limit
    #[error("the request is beyond a size limit of the directory")]
    TooLarge,
}
