// SPDX-License-Identifier: Apache-2.0
//! Volumes that are kept on one host (docs/operations/affinity.md).

use super::error::{RecordError, ensure};
use super::keys::{NAME_RULE, is_name};
use serde::{Deserialize, Serialize};

/// The format of the record of a volume that is kept on one host, whatever else it has.
pub const FORMAT_AFFINITY: u32 = 11;

/// Where the one copy of a volume that tolerates no failure is kept. A policy's rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Affinity {
    /// Wherever there is room: parts of it may be on different hosts, and it moves where that
    /// helps.
    #[default]
    None,
    /// All of it on one host, from which nothing but an operator's word moves it.
    Host,
}

impl Affinity {
    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Host => "host",
        }
    }

    /// Whether volumes that tolerate `ftt` failures can be kept so: one host has one copy.
    pub(super) fn check(self, ftt: u8) -> Result<(), RecordError> {
        ensure(self == Self::None || ftt == 0, "affinity", "is to a host although ftt is not 0")
    }
}

/// Whether a volume that tolerates `ftt` failures can be kept on this host.
pub(super) fn check_kept_on(host: Option<&str>, ftt: u8) -> Result<(), RecordError> {
    let Some(host) = host else { return Ok(()) };
    ensure(is_name(host), "kept_on", NAME_RULE)?;
    ensure(ftt == 0, "kept_on", "is set although ftt is not 0")
}
