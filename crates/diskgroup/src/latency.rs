// SPDX-License-Identifier: Apache-2.0
//! Whether a device answers as it should: told from how it answered before, how others of its group
//! answer, and what its kind may show.
//!
//! ```text
//!           six windows in a row above          an I/O unanswered for `stuck_after`
//!      ok ------------------------------> slow ------------------------------------> stuck
//!       ^                                   |                                          ^
//!       '-----------------------------------'            the same from ok -------------'
//!        twelve in a row well below
//! ```
//!
//! A slow device is told of, and reads go elsewhere where they can; nothing else changes. A stuck
//! one stops its group by name, as one that fails does, and whoever waits for it gets an error: its
//! operations cannot be recalled, and its lock lasts as long as they do. Not guaranteed: that a
//! device that gets slower within hours, bit by bit, is noticed before it is far beyond its kind.

mod judge;
#[cfg(test)]
mod tests;

pub(crate) use self::judge::{Judge, Sample, WindowContext};

use self::judge::Norm;
use env::MEASURED;
use std::time::Duration;

/// Windows after which what was measured of another device says nothing of now.
const FRESH_WINDOWS: u32 = 6;
/// How a device answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceHealth {
    /// As it should.
    #[default]
    Ok,
    /// Much later than it did, than others of its group do, and than its kind may.
    Slow,
    /// Not at all: the group stopped because of it.
    Stuck,
}

impl DeviceHealth {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Slow => "slow",
            Self::Stuck => "stuck",
        }
    }
}

/// How a device answers operations of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassLatency {
    /// Operations of the last window.
    pub operations: u32,
    /// What half of them took at most, right to an eighth.
    pub median: Duration,
    /// The longest.
    pub max: Duration,
    /// The median in an hour of windows that were as they should; `None`: less than a minute of
    /// them.
    pub usual: Option<Duration>,
    /// Whether the device is slow in this class.
    pub is_slow: bool,
}

/// How a device answers, since its group was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceLatency {
    /// In a word.
    pub health: DeviceHealth,
    /// Operations that it has not answered.
    pub in_flight: u32,
    /// What the oldest of them has waited, to a second.
    pub oldest: Option<Duration>,
    /// Reads.
    pub reads: ClassLatency,
    /// Writes into the device's cache.
    pub writes: ClassLatency,
    /// Durable writes and flushes.
    pub durable: ClassLatency,
}

/// What is known of one device.
pub(crate) struct Watched {
    pub(crate) judges: [Judge; MEASURED.len()],
    pub(crate) health: DeviceHealth,
    /// The group stopped because of it, and of nothing else before.
    pub(crate) has_stopped: bool,
}

impl Watched {
    /// A device with platters, or one without.
    fn new(is_magnetic: bool) -> Self {
        let norms = if is_magnetic { Norm::MAGNETIC } else { Norm::FLASH };
        let judges = norms.map(Judge::new);
        Self { judges, health: DeviceHealth::Ok, has_stopped: false }
    }

    /// The cache device and the capacity devices of a group.
    pub(crate) fn of_group(is_hybrid: bool, capacity: usize) -> Vec<Self> {
        let capacity = (0..capacity).map(|_| Self::new(is_hybrid));
        std::iter::once(Self::new(false)).chain(capacity).collect()
    }
}
