// SPDX-License-Identifier: Apache-2.0
//! People who sign in, and their sessions. The directory has digests alone: of a password a slow
//! one (argon2id), of what is random and long SHA-256.

use super::access::{AccessRole, digest_of, digest_text};
use super::error::{RecordError, are_unique, ensure};
use super::json::{FORMAT, Stored, from_json, to_json};
use super::keys::{NAME_RULE, PREFIX, is_name};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Users that a cluster may have.
pub const USERS_MAX: usize = 256;
/// Sessions of all of them at a time.
pub const SESSIONS_MAX: usize = 512;
/// What the digest of a password begins with, and how long it may be, bytes.
const PASSWORD_MARK: &str = "$argon2id$";
const PASSWORD_BYTES_MAX: usize = 256;

/// The key of the [`UsersRecord`].
#[must_use]
pub fn users_key() -> String {
    format!("{PREFIX}users")
}

/// Somebody who may sign in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserAccount {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: AccessRole,
    /// When it was made, seconds since 1970.
    pub created: u64,
    /// The digest of its password, as PHC writes it; none: it has none yet.
    pub password: Option<String>,
    /// With which it signs in once, without the password.
    pub code: Option<SignInCode>,
}

/// A code that is good once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignInCode {
    /// SHA-256 of its text.
    #[serde(serialize_with = "write_digest", deserialize_with = "read_digest")]
    pub digest: [u8; 32],
    /// From when on it opens nothing, seconds since 1970.
    pub expires: u64,
}

/// What somebody got who signed in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserSession {
    /// Whose it is.
    pub user: String,
    /// SHA-256 of its text.
    #[serde(serialize_with = "write_digest", deserialize_with = "read_digest")]
    pub digest: [u8; 32],
    /// When it began, seconds since 1970.
    pub created: u64,
    /// From when on it opens nothing, seconds since 1970.
    pub expires: u64,
}

/// All users, at [`users_key`]; without a record there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsersRecord {
    /// At most [`USERS_MAX`], each name once.
    pub users: Vec<UserAccount>,
    /// At most [`SESSIONS_MAX`], the oldest first, each of a user that is there.
    pub sessions: Vec<UserSession>,
}

impl UsersRecord {
    /// The user of a name.
    #[must_use]
    pub fn user(&self, name: &str) -> Option<&UserAccount> {
        self.users.iter().find(|user| user.name == name)
    }

    /// Whose code this is the digest of, if it opens anything at this time.
    #[must_use]
    pub fn of_code(&self, digest: &[u8], now: u64) -> Option<&UserAccount> {
        let is_of = |code: &SignInCode| code.digest == *digest && now < code.expires;
        self.users.iter().find(|user| user.code.as_ref().is_some_and(is_of))
    }

    /// The session of a digest and its user, if it opens anything at this time.
    #[must_use]
    pub fn opens(&self, digest: &[u8], now: u64) -> Option<(&UserAccount, &UserSession)> {
        let is_it = |session: &&UserSession| session.digest == *digest && now < session.expires;
        let session = self.sessions.iter().find(is_it)?;
        Some((self.user(&session.user)?, session))
    }

    /// Ends all sessions of a user but the one of this digest.
    pub fn end_sessions(&mut self, user: &str, spared: Option<&[u8]>) {
        let stays = |session: &UserSession| {
            session.user != user || spared.is_some_and(|spared| session.digest == *spared)
        };
        self.sessions.retain(stays);
    }

    /// Whether it keeps its invariants.
    ///
    /// # Errors
    /// [`RecordError::Invalid`] with the field.
    pub fn check(&self) -> Result<(), RecordError> {
        ensure(self.users.len() <= USERS_MAX, "users", "has too many entries")?;
        ensure(self.users.iter().all(|user| is_name(&user.name)), "users", NAME_RULE)?;
        let names = self.users.iter().map(|user| &user.name);
        ensure(are_unique(names), "users", "has a name twice")?;
        let is_digest = |text: &String| {
            text.starts_with(PASSWORD_MARK) && text.len() <= PASSWORD_BYTES_MAX && text.is_ascii()
        };
        let passwords = self.users.iter().filter_map(|user| user.password.as_ref());
        ensure(passwords.into_iter().all(is_digest), "password", "is no digest of argon2id")?;
        ensure(self.sessions.len() <= SESSIONS_MAX, "sessions", "has too many entries")?;
        let is_known = |session: &UserSession| self.user(&session.user).is_some();
        ensure(self.sessions.iter().all(is_known), "sessions", "has one of nobody")?;
        let digests = self.sessions.iter().map(|session| session.digest);
        ensure(are_unique(digests), "sessions", "has a digest twice")
    }

    /// The value for the directory. Panics where the record breaks an invariant: use
    /// [`Self::check`] first.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let checked = self.check();
        assert!(checked.is_ok(), "a record that breaks its invariants: {checked:?}");
        let Self { users, sessions } = self.clone();
        to_json(&StoredUsers { format: FORMAT, users, sessions })
    }

    /// The record in a value of the directory.
    ///
    /// # Errors
    /// [`RecordError`]: not this kind of record, another format, an invariant broken.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let StoredUsers { users, sessions, .. } = from_json(bytes)?;
        let record = Self { users, sessions };
        record.check()?;
        Ok(record)
    }
}

/// As it is stored.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredUsers {
    format: u32,
    users: Vec<UserAccount>,
    sessions: Vec<UserSession>,
}

impl Stored for StoredUsers {
    fn format(&self) -> u32 {
        self.format
    }
}

fn write_digest<S: Serializer>(digest: &[u8; 32], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&digest_text(digest))
}

fn read_digest<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; 32], D::Error> {
    let text = String::deserialize(from)?;
    digest_of(&text).ok_or_else(|| D::Error::custom("is no SHA-256 as text"))
}
