// SPDX-License-Identifier: Apache-2.0
//! Who may use a volume beside whom.

use serde::{Deserialize, Serialize};

/// How many clients may use a volume through one host at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Connections {
    /// Any number of clients; over TCP each needs a name of its own.
    #[default]
    Shared,
    /// One connection at a time.
    Exclusive,
}

impl Connections {
    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Exclusive => "exclusive",
        }
    }
}
