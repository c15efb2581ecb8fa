// SPDX-License-Identifier: Apache-2.0
//! Fault domains, and the copies that are in one together.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The fault domains of the cluster, as they are or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DomainsReport {
    /// Each behind the one that it is within.
    pub domains: Vec<DomainReport>,
    /// Hosts that are in none: each counts as a domain of its own.
    pub without: Vec<String>,
    /// Copies that are to leave their host, because another copy is in the same domain.
    pub to_move: u64,
    /// What they hold, bytes at most.
    pub move_bytes: u64,
    /// Those of them that no host in another domain can take.
    pub without_place: u64,
    /// Volumes with such copies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub close_volumes: Vec<String>,
}

/// One fault domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DomainReport {
    /// Its name.
    pub name: String,
    /// The domain that it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
    /// In how many domains it is.
    pub depth: u64,
    /// The hosts that are in it, and in no inner one.
    pub hosts: Vec<String>,
}
