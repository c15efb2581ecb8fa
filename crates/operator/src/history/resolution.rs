// SPDX-License-Identifier: Apache-2.0
//! How fine is kept for how long.

/// One of the three. Times are seconds since 1970, by the wall clock of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HistoryResolution {
    /// Five seconds, for an hour.
    Fine,
    /// A minute, for a week.
    Minute,
    /// Five minutes, for ninety days.
    Coarse,
}

/// All of them, the finest first. Each is a multiple of the one before.
pub const RESOLUTIONS: [HistoryResolution; 3] =
    [HistoryResolution::Fine, HistoryResolution::Minute, HistoryResolution::Coarse];

/// What is further in the future was written while the clock was wrong.
const AHEAD_SECONDS_MAX: u64 = 600;

impl HistoryResolution {
    /// Seconds of one bucket.
    #[must_use]
    pub fn seconds(self) -> u64 {
        match self {
            Self::Fine => 5,
            Self::Minute => 60,
            Self::Coarse => 300,
        }
    }

    /// For how many seconds a bucket is kept.
    #[must_use]
    pub fn kept_seconds(self) -> u64 {
        match self {
            Self::Fine => 3600,
            Self::Minute => 7 * 86_400,
            Self::Coarse => 90 * 86_400,
        }
    }

    /// Seconds whose buckets become one block of each object when they are over; none: these are
    /// gone before it would be worth it.
    #[must_use]
    pub fn block_seconds(self) -> Option<u64> {
        match self {
            Self::Fine => None,
            Self::Minute => Some(3600),
            Self::Coarse => Some(86_400),
        }
    }

    /// The beginning of the bucket that a time is in.
    #[must_use]
    pub fn bucket_of(self, time: u64) -> u64 {
        time - time % self.seconds()
    }

    /// The times that a bucket may begin at to be kept: from, and up to and without.
    #[must_use]
    pub fn kept(self, now: u64) -> (u64, u64) {
        let from = self.bucket_of(now.saturating_sub(self.kept_seconds()));
        (from, now.saturating_add(AHEAD_SECONDS_MAX))
    }

    /// The finest one that still has what was at this time. What is older than all has the
    /// coarsest.
    #[must_use]
    pub fn that_has(from: u64, now: u64) -> Self {
        let has = |one: &Self| from >= one.kept(now).0;
        RESOLUTIONS.into_iter().find(has).unwrap_or(Self::Coarse)
    }
}
