// SPDX-License-Identifier: Apache-2.0
//! Who may ask the API over the network.

use directory::AccessRole;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A token, without its text: nobody has that but its holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenReport {
    /// Its name.
    pub name: String,
    /// What its holder may do.
    pub role: AccessRole,
    /// When it was made, seconds since 1970.
    pub created: u64,
    /// From when on it opens nothing, seconds since 1970.
    pub expires: u64,
}

/// A token that was just made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewTokenReport {
    /// Its text. It is told once, and kept nowhere.
    pub token: String,
    /// Its name.
    pub name: String,
    /// What its holder may do.
    pub role: AccessRole,
    /// When it was made, seconds since 1970.
    pub created: u64,
    /// From when on it opens nothing, seconds since 1970.
    pub expires: u64,
}

/// Somebody who may sign in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UserReport {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: AccessRole,
    /// When it was made, seconds since 1970.
    pub created: u64,
    /// Whether it has a password. Without one it signs in with a code.
    pub has_password: bool,
    /// Until when its code is good, seconds since 1970; none: it has none.
    pub code_expires: Option<u64>,
    /// How many sessions it has.
    pub sessions: u64,
}

/// A code that was just made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewCodeReport {
    /// Its text. It is told once, and kept nowhere.
    pub code: String,
    /// The name of its user.
    pub name: String,
    /// What that user may do.
    pub role: AccessRole,
    /// When the user was made, seconds since 1970.
    pub created: u64,
    /// Whether the user has a password, which stays.
    pub has_password: bool,
    /// From when on the code opens nothing, seconds since 1970.
    pub code_expires: Option<u64>,
    /// How many sessions the user has. They stay.
    pub sessions: u64,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionReport {
    /// The name of the user, or of the token.
    pub name: String,
    /// What it may do.
    pub role: AccessRole,
    /// Whether it is a user who has signed in, not a token.
    pub is_user: bool,
    /// Whether it is a user who has no password yet.
    pub lacks_password: bool,
    /// From when on that opens nothing, seconds since 1970; none: always, on a host's own socket.
    pub expires: Option<u64>,
}

/// A session that has just begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewSessionReport {
    /// Its text, to be used as a token's. It is told once, and kept nowhere.
    pub token: String,
    /// The name of the user.
    pub name: String,
    /// What it may do.
    pub role: AccessRole,
    /// Whether it is a user who has signed in: yes.
    pub is_user: bool,
    /// Whether it has no password yet, and should get one.
    pub lacks_password: bool,
    /// From when on it opens nothing, seconds since 1970.
    pub expires: Option<u64>,
}
