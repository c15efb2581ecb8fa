// SPDX-License-Identifier: Apache-2.0
//! What holds up writes, in words and figures.

use std::time::Duration;

/// What limits the writes of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// Nothing waits but for the commit that carries it.
    #[default]
    Nothing,
    /// There is no room in the write buffer until destage makes some.
    Destage,
    /// Writes wait for the commit before theirs.
    CacheDevice,
}

/// What holds up writes at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// What they wait for.
    pub limit: Limit,
    /// Appends that are not durable yet.
    pub waiting: u64,
    /// Age of the oldest data in the write buffer. It counts from when the oldest segment got its
    /// first entry, or from when the group was opened if that was later. `None`: the buffer is
    /// empty.
    pub oldest: Option<Duration>,
    /// Destage has work that is due, and got nothing done for so long.
    pub stuck: Option<Duration>,
    /// It waits until the other copies have what the oldest segment holds.
    pub waits_for_copies: bool,
}
