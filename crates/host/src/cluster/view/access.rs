// SPDX-License-Identifier: Apache-2.0
//! Who may ask the API over the network: tokens, and people who sign in.

use directory::{AccessRecord, RecordError, UsersRecord, access_key, users_key};
use std::cell::RefCell;

/// The two records, each `None` where there is none.
#[derive(Default)]
pub(super) struct AccessView {
    tokens: RefCell<Option<AccessRecord>>,
    users: RefCell<Option<UsersRecord>>,
}

impl AccessView {
    /// Takes the value of a key, if it is one of theirs.
    pub(super) fn put(&self, key: &str, value: &[u8]) -> Result<(), RecordError> {
        if key == access_key() {
            self.tokens.replace(Some(AccessRecord::decode(value)?));
        }
        if key == users_key() {
            self.users.replace(Some(UsersRecord::decode(value)?));
        }
        Ok(())
    }

    /// Takes a vanished key, if it is one of theirs.
    pub(super) fn delete(&self, key: &str) {
        if key == access_key() {
            self.tokens.replace(None);
        }
        if key == users_key() {
            self.users.replace(None);
        }
    }

    /// The keys that there are.
    pub(super) fn keys(&self) -> impl Iterator<Item = String> + use<> {
        let tokens = self.tokens.borrow().as_ref().map(|_| access_key());
        tokens.into_iter().chain(self.users.borrow().as_ref().map(|_| users_key()))
    }

    pub(super) fn tokens(&self) -> AccessRecord {
        self.tokens.borrow().clone().unwrap_or_default()
    }

    pub(super) fn users(&self) -> UsersRecord {
        self.users.borrow().clone().unwrap_or_default()
    }
}
