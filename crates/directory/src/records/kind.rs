// SPDX-License-Identifier: Apache-2.0
//! What disk groups are made of.

use serde::{Deserialize, Serialize};

/// What a disk group is, and, of a cluster, what its new ones are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ClusterKind {
    /// The cache device is all write buffer; reads go straight to capacity.
    #[default]
    AllFlash,
    /// Magnetic capacity: a part of the cache device holds what was read lately, and each part of a
    /// volume is read from one of its copies.
    Hybrid,
}

impl ClusterKind {
    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AllFlash => "all-flash",
            Self::Hybrid => "hybrid",
        }
    }
}
