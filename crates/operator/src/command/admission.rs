// SPDX-License-Identifier: Apache-2.0
//! What the API asks when somebody brings a secret, or gets one. The API makes secrets and looks at
//! them; a shard gets their digests. Of receivers it keeps the secrets themselves, and gives them
//! to the API, which uses them.

use directory::{AccessRole, ReceiverTrouble, ToldCheck};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What the API asks a shard about a secret, by its digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "step", rename_all = "kebab-case", deny_unknown_fields)]
pub enum AdmissionStep {
    /// Makes a token ([`super::Command::TokenCreate`]).
    TokenPut {
        /// Its name.
        name: String,
        /// What its holder may do.
        role: AccessRole,
        /// For how long it opens the API, seconds.
        seconds: u64,
        /// SHA-256 of its text, 64 hexadecimal digits.
        digest: String,
    },
    /// Whether a token, or a session's, opens the API, and to what.
    TokenCheck {
        /// SHA-256 of its text, 64 hexadecimal digits.
        digest: String,
    },
    /// Makes a code for a user, who may be new ([`super::Command::UserCreate`]).
    CodePut {
        /// The user's name.
        name: String,
        /// What a new user may do; none: the user is there.
        role: Option<AccessRole>,
        /// For how long the code is good, seconds.
        seconds: u64,
        /// SHA-256 of its text, 64 hexadecimal digits.
        digest: String,
    },
    /// Gives a user a password ([`super::Command::UserPassword`]).
    PasswordPut {
        /// The user's name.
        name: String,
        /// The digest, as PHC writes it.
        password: String,
        /// SHA-256 of the session that stays, 64 hexadecimal digits.
        session: Option<String>,
    },
    /// The digest of a user's password, for the API.
    PasswordGet {
        /// The user's name.
        name: String,
    },
    /// Begins a session ([`super::Command::SessionCreate`]). Null: what it came with opens nothing.
    SessionPut {
        /// The user's name, if it came with a password.
        user: Option<String>,
        /// The digest of the password that it came with.
        password: Option<String>,
        /// SHA-256 of the code that it came with, 64 hexadecimal digits.
        code: Option<String>,
        /// For how long the session opens the API, seconds.
        seconds: u64,
        /// SHA-256 of the session's text, 64 hexadecimal digits.
        digest: String,
    },
    /// Ends a session ([`super::Command::SessionDelete`]).
    SessionEnd {
        /// SHA-256 of its text, 64 hexadecimal digits.
        digest: String,
    },
    /// Notes an invitation ([`super::Command::HostInvite`]). Answers when it expires.
    InvitePut {
        /// For how long it is good, seconds.
        seconds: u64,
        /// SHA-256 of its secret, 64 hexadecimal digits.
        digest: String,
    },
    /// Uses up an invitation ([`super::Command::HostJoin`]). False: it opens nothing.
    InviteUse {
        /// SHA-256 of its secret, 64 hexadecimal digits.
        digest: String,
    },
    /// Who is told of what health checks find, with their secrets: who tells them needs these.
    ReceiversGet,
    /// Notes what a receiver was told, or that it cannot be told.
    ReceiverNote {
        /// Its name.
        name: String,
        /// When it was made: one of the same name that was made later is another one.
        created: u64,
        /// What it was told. Older than what is known: not noted.
        told: Vec<ToldCheck>,
        /// Why it cannot be told; none: it can.
        trouble: Option<ReceiverTrouble>,
    },
}
