// SPDX-License-Identifier: Apache-2.0
//! Why a component does not take part, and when its return may begin.

use base::{Instant, Lsn};
use std::time::Duration;

/// Why a component does not take part, as its owner knows it; a time is that until the next attempt
/// where nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Away {
    /// The record calls it active, but it has not answered for so long, or a change of the record
    /// is under way that gives it up. In the directory's outages that can last.
    Unheard(Duration),
    /// There is no link to its host.
    Unreachable,
    /// It was away several times lately, and waits (rule 18).
    Paused(Duration),
    /// Its disk group, or another group or device of its host, is out of service. Tried again at
    /// once when that changes.
    GroupClosed(Duration),
    /// Its return failed otherwise; its host's log says more.
    Failed(Duration),
}

/// When the return of a component may begin, and why the last one failed.
#[derive(Clone, Copy)]
pub(crate) struct Due {
    pub(crate) at: Instant,
    pub(crate) failure: Option<Aborted>,
}

/// Why a resync did not end with an active component.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Aborted {
    /// The owner is over.
    Stopped,
    /// A disk group of the target's host is out of service.
    Closed,
    /// The target or its session failed, or no source was left (rule 36).
    Failed,
    /// The target admits to have nothing above this lsn (rule 19).
    Lost(Lsn),
    /// The directory is away: nothing begins (rule 51).
    Unavailable,
}
