// SPDX-License-Identifier: Apache-2.0
//! Time as the driver tells it.

use std::ops::{Add, Sub};
use std::time::Duration;

/// Nanoseconds on the host's monotonic clock that also counts suspension (CLOCK_BOOTTIME).
/// Comparable on one host only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Instant(pub u64);

impl Instant {
    /// Later than every deadline.
    pub const FAR: Self = Self(u64::MAX);

    /// Time since `earlier`; zero where `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, rhs: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// Nanoseconds since 1970 for people and logs; never for decisions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct WallTime(pub u64);
