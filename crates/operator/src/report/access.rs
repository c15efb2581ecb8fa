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
