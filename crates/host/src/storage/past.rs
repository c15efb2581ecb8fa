// SPDX-License-Identifier: Apache-2.0
//! What is remembered of a group's devices until an operator opens the group: which stay out, and
//! what the host has tried by itself.

use base::{ComponentId, Instant, Map, Version};
use diskgroup::{GroupError, Tolerance};
use std::collections::VecDeque;
use std::time::Duration;

/// The time for which a closing and opening of a group counts.
const REOPENINGS_IN: Duration = Duration::from_secs(3600);

/// See the module.
#[derive(Clone, Default)]
pub(crate) struct Past {
    /// Devices that failed, and how. They stay out.
    pub(crate) left_out: Vec<(usize, GroupError)>,
    /// The group is opened with all of its devices or not at all.
    pub(crate) is_strict: bool,
    /// When the host closed and opened it by itself.
    pub(crate) reopened: VecDeque<Instant>,
    pub(crate) full_since: Option<Instant>,
    pub(crate) looked_at: Instant,
    /// The last attempt to open it without its damaged log: when, and for which components that was
    /// allowed.
    pub(crate) begun_anew: Option<(Instant, Map<ComponentId, Version>)>,
}

impl Past {
    /// What the next opening does about devices that do not open.
    pub(crate) fn tolerance(&self) -> Tolerance {
        match self.is_strict {
            true => Tolerance::default(),
            false => Tolerance { left_out: self.left_out.clone(), ..Tolerance::whatever_opens() },
        }
    }

    /// Whether the host closed and opened it fewer than `most` times in the last hour.
    pub(crate) fn may_reopen(&mut self, now: Instant, most: usize) -> bool {
        while self.reopened.front().is_some_and(|at| now.since(*at) > REOPENINGS_IN) {
            self.reopened.pop_front();
        }
        self.reopened.len() < most
    }
}
