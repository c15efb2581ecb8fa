// SPDX-License-Identifier: Apache-2.0
//! Links that are encrypted, in some seeds. Each host proves itself with a certificate of the
//! cluster's authority.

use base::{Rng, ShardId};
use tls::{Identity, SimulatedAuthority};

/// The first seed in which links may be encrypted.
const FROM: u64 = 400_000_000;
/// What becomes of the links of a seed.
const STREAM: u64 = 42;

/// What links are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkPlan {
    /// Never encrypted; hosts have no certificates.
    #[default]
    Plain,
    /// Encrypted from the start.
    Encrypted,
    /// An operator says now and then whether they are.
    Switched,
}

impl LinkPlan {
    /// That of a seed: one in six has encrypted links, and one in twelve some that change.
    pub(crate) fn of_seed(seed: u64) -> Self {
        if seed < FROM {
            return Self::Plain;
        }
        match Rng::stream(seed, STREAM).below(12) {
            0 | 1 => Self::Encrypted,
            2 => Self::Switched,
            _ => Self::Plain,
        }
    }

    /// What hosts of these numbers prove themselves with; none where links are never encrypted.
    pub(crate) fn identities(self, hosts: u32) -> Vec<Identity> {
        if self == Self::Plain {
            return Vec::new();
        }
        let authority = SimulatedAuthority::new();
        (1..=hosts).map(|number| authority.identity(ShardId(number))).collect()
    }
}
