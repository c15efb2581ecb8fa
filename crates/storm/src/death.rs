// SPDX-License-Identifier: Apache-2.0
//! Hosts that stay dead, or cut off, for longer than the clients' time-out, under load. What the
//! clients of a host that is cut off asked runs into that time-out, and goes on behind it.

use crate::fault::Fault;
use base::Rng;
use std::time::Duration;

/// Which host it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadRole {
    /// The owner of the round's volume.
    Owner,
    /// A host with a copy that counts.
    Replica,
    /// Neither of them.
    Rest,
}

/// A host is away for longer than clients wait.
#[derive(Clone, Copy, Debug)]
pub struct LongDeath {
    /// Which host.
    pub who: DeadRole,
    /// How it goes away.
    pub how: Fault,
    /// How long it lasts before the round's story begins, in thousandths of the clients' time-out.
    pub lasts: u32,
    /// Whether it is back before the story begins.
    pub is_back: bool,
}

impl LongDeath {
    /// Draws one.
    pub fn draw(rng: &mut Rng) -> Self {
        let who = match rng.below(5) {
            0..2 => DeadRole::Owner,
            2..4 => DeadRole::Replica,
            _ => DeadRole::Rest,
        };
        let how = match rng.below(4) {
            0 => Fault::Crash,
            1 => Fault::Kill,
            _ => Fault::Isolate,
        };
        let lasts = u32::try_from(rng.between(1100, 3000)).unwrap_or(u32::MAX);
        Self { who, how, lasts, is_back: rng.below(2) == 0 }
    }

    /// How long it lasts before the story begins, if clients wait for `timeout`.
    #[must_use]
    pub fn time(&self, timeout: Duration) -> Duration {
        timeout * self.lasts / 1000
    }
}
