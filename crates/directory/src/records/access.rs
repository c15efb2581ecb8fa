// SPDX-License-Identifier: Apache-2.0
//! Who may ask the API over the network: tokens. The directory has digests only, and the secret of
//! a token is random and long: nobody finds it by its digest.

use super::error::{RecordError, are_unique, ensure};
use super::json::{FORMAT, Stored, from_json, to_json};
use super::keys::{NAME_RULE, PREFIX, is_name};
use serde::{Deserialize, Serialize};

/// Tokens that a cluster may have at a time.
pub const TOKENS_MAX: usize = 256;
/// Bytes of a digest (SHA-256).
const DIGEST_BYTES: usize = 32;

/// The key of the [`AccessRecord`].
#[must_use]
pub fn access_key() -> String {
    format!("{PREFIX}access")
}

/// What somebody may do. Each role may do all that those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum AccessRole {
    /// Looks.
    Viewer,
    /// Changes volumes and policies, and begins what the cluster does in its course.
    Operator,
    /// Changes hosts, devices, settings and tokens, and gives up data.
    Administrator,
}

impl AccessRole {
    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Administrator => "administrator",
        }
    }
}

/// What opens the API to whoever has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessToken {
    /// Its name.
    pub name: String,
    /// What its holder may do.
    pub role: AccessRole,
    /// SHA-256 of the token's text.
    pub digest: [u8; DIGEST_BYTES],
    /// When it was made, seconds since 1970.
    pub created: u64,
    /// From when on it opens nothing, seconds since 1970.
    pub expires: u64,
}

/// All tokens, at [`access_key`]; without a record there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessRecord {
    /// At most [`TOKENS_MAX`], each name once.
    pub tokens: Vec<AccessToken>,
}

impl AccessRecord {
    /// The token of a digest, if it opens anything at this time.
    #[must_use]
    pub fn opens(&self, digest: &[u8], now: u64) -> Option<&AccessToken> {
        self.tokens.iter().find(|token| token.digest == *digest && now < token.expires)
    }

    /// Whether it keeps its invariants.
    ///
    /// # Errors
    /// [`RecordError::Invalid`] with the field.
    pub fn check(&self) -> Result<(), RecordError> {
        ensure(self.tokens.len() <= TOKENS_MAX, "tokens", "has too many entries")?;
        ensure(self.tokens.iter().all(|token| is_name(&token.name)), "tokens", NAME_RULE)?;
        let names = self.tokens.iter().map(|token| &token.name);
        ensure(are_unique(names), "tokens", "has a name twice")?;
        let digests = self.tokens.iter().map(|token| token.digest);
        ensure(are_unique(digests), "tokens", "has a digest twice")
    }

    /// The value for the directory. Panics where the record breaks an invariant: use
    /// [`Self::check`] first.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let checked = self.check();
        assert!(checked.is_ok(), "a record that breaks its invariants: {checked:?}");
        let stored = |token: &AccessToken| StoredToken {
            name: token.name.clone(),
            role: token.role,
            digest: digest_text(&token.digest),
            created: token.created,
            expires: token.expires,
        };
        to_json(&Access { format: FORMAT, tokens: self.tokens.iter().map(stored).collect() })
    }

    /// The record in a value of the directory.
    ///
    /// # Errors
    /// [`RecordError`]: not this kind of record, another format, an invariant broken.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let stored = from_json::<Access>(bytes)?;
        let token = |token: StoredToken| {
            let digest = digest_of(&token.digest);
            let StoredToken { name, role, created, expires, .. } = token;
            let wrong = RecordError::Invalid { field: "digest", rule: "is no SHA-256 as text" };
            Ok(AccessToken { name, role, digest: digest.ok_or(wrong)?, created, expires })
        };
        let tokens: Result<_, RecordError> = stored.tokens.into_iter().map(token).collect();
        let record = Self { tokens: tokens? };
        record.check()?;
        Ok(record)
    }
}

/// A digest as [`digest_of`] reads it.
#[must_use]
pub fn digest_text(bytes: &[u8; DIGEST_BYTES]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A digest that is written as 64 lower-case hexadecimal digits.
#[must_use]
pub fn digest_of(text: &str) -> Option<[u8; DIGEST_BYTES]> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != 2 * DIGEST_BYTES || !text.bytes().all(is_digit) {
        return None;
    }
    let mut digest = [0; DIGEST_BYTES];
    for (at, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(digest)
}

/// As it is stored.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Access {
    format: u32,
    tokens: Vec<StoredToken>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredToken {
    name: String,
    role: AccessRole,
    digest: String,
    created: u64,
    expires: u64,
}

impl Stored for Access {
    fn format(&self) -> u32 {
        self.format
    }
}
