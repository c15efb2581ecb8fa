// SPDX-License-Identifier: Apache-2.0
//! A run of a host, as records name it.

use base::{Incarnation, ShardId};

/// Who serves an object: a host in one run of its daemon. A new process is a new owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerRecord {
    /// The host.
    pub shard: ShardId,
    /// Its run.
    pub incarnation: Incarnation,
}
