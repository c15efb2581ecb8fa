// SPDX-License-Identifier: Apache-2.0
//! Who may ask the API over the network: tokens, and people who sign in. Who is told of what health
//! checks find.

use super::View;
use directory::{
    AccessRecord, ReceiversRecord, RecordError, UsersRecord, access_key, receivers_key, users_key,
};
use std::cell::RefCell;

/// The records, each `None` where there is none.
#[derive(Default)]
pub(super) struct AccessView {
    tokens: RefCell<Option<AccessRecord>>,
    users: RefCell<Option<UsersRecord>>,
    receivers: RefCell<Option<ReceiversRecord>>,
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
        if key == receivers_key() {
            self.receivers.replace(Some(ReceiversRecord::decode(value)?));
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
        if key == receivers_key() {
            self.receivers.replace(None);
        }
    }

    /// The keys that there are.
    pub(super) fn keys(&self) -> impl Iterator<Item = String> + use<> {
        let tokens = self.tokens.borrow().as_ref().map(|_| access_key());
        let users = self.users.borrow().as_ref().map(|_| users_key());
        let receivers = self.receivers.borrow().as_ref().map(|_| receivers_key());
        tokens.into_iter().chain(users).chain(receivers)
    }
}

impl View {
    /// Tokens that open the API over the network.
    pub fn access(&self) -> AccessRecord {
        self.0.access.tokens.borrow().clone().unwrap_or_default()
    }

    /// Who may sign in, and who has.
    pub fn users(&self) -> UsersRecord {
        self.0.access.users.borrow().clone().unwrap_or_default()
    }

    /// Who is told of what health checks find.
    pub fn receivers(&self) -> ReceiversRecord {
        self.0.access.receivers.borrow().clone().unwrap_or_default()
    }
}
