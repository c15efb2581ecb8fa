// SPDX-License-Identifier: Apache-2.0
//! How destage stands: what it waits for, and when it last got something done.

use base::Instant;

/// What destage waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitsFor {
    /// Work, tokens or time.
    Work,
    /// K: the oldest segment holds entries above it.
    Commit,
}

/// Destage waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DestageWait {
    pub(crate) what: WaitsFor,
    /// It looks again by itself when appends have paused.
    pub(crate) has_timer: bool,
}

/// See the module. There is one for the group: only one device's destage waits at a time.
#[derive(Default)]
pub(crate) struct DestageState {
    /// `None`: it is at work.
    pub(crate) wait: Option<DestageWait>,
    /// Drain everything now, however little it is.
    pub(crate) drains_all: bool,
    /// Segments in a row that were freed by moving. Appends, K that rises and components that are
    /// deleted start it anew, also while destage does not wait for them.
    pub(crate) moved_in_row: u64,
    /// Something got done last, or there was nothing to do.
    pub(crate) progressed_at: Instant,
}

impl DestageState {
    /// Whether it waits, and for K.
    pub(crate) fn waits_for_commit(&self) -> bool {
        self.wait.is_some_and(|wait| wait.what == WaitsFor::Commit)
    }
}
