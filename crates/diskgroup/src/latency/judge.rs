// SPDX-License-Identifier: Apache-2.0
//! The decision, without a clock: windows go in, slow or not comes out.
//!
//! A window is *above* when its median is beyond what a device of its kind may show with that many
//! operations before each, and beyond four times what is usual: its own, and that of the group's
//! other capacity devices. Where it is eight times what its kind may show, nobody else is asked.
//! Medians, for a healthy device has single answers that take a hundred times as long.

use super::{ClassLatency, FRESH_WINDOWS};
use env::Latencies;
use std::time::Duration;

/// Windows above in a row after which a device is slow: a minute, so that neither a burst nor a
/// device that cleans up behind itself for some seconds counts.
const SLOW_AFTER: u32 = 6;
/// Windows in a row, well below, after which it is not any more.
const WELL_AFTER: u32 = 12;
/// So many times what is usual is above.
const OUTLIER: u32 = 4;
/// So many times what the kind may show is above whatever is usual.
const BEYOND: u32 = 8;
/// A slow device is well below with this part of what is above.
const WELL_PART: u32 = 2;
/// Windows before what is usual counts.
const USUAL_MIN: u32 = 6;
/// Windows that it is an average of, about: an hour.
const USUAL_WINDOWS: u32 = 360;

/// What a device of a kind may show: a base, and so much for each operation before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Norm {
    base: Duration,
    each: Duration,
}

impl Norm {
    const fn millis(base: u64, each: u64) -> Self {
        Self { base: Duration::from_millis(base), each: Duration::from_millis(each) }
    }

    /// Reads, cached writes, durable writes and flushes. The worst that still works, as a SATA
    /// device without protection of its cache does: 3 ms for 1 MiB, tens of ms for a flush.
    pub(crate) const FLASH: [Self; 3] =
        [Self::millis(50, 3), Self::millis(50, 3), Self::millis(100, 3)];
    /// 30 ms are a turn, a seek and 1 MiB twice over; half a second is one repeated read.
    pub(crate) const MAGNETIC: [Self; 3] =
        [Self::millis(500, 30), Self::millis(500, 30), Self::millis(1000, 30)];

    fn limit(self, depth: u64) -> Duration {
        let depth = u32::try_from(depth).unwrap_or(u32::MAX);
        self.base.saturating_add(self.each.saturating_mul(depth))
    }
}

/// What one window brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) operations: u32,
    pub(crate) median: Duration,
    pub(crate) max: Duration,
}

impl Sample {
    pub(crate) fn new(latencies: &Latencies) -> Self {
        let (operations, median) = (latencies.count(), latencies.median());
        Self { operations, median, max: latencies.max() }
    }
}

/// What a window is measured by, besides.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowContext {
    /// Operations under way at a time.
    pub(crate) depth: u64,
    /// The median of the others of its kind, where there are some.
    pub(crate) peers: Option<Duration>,
}

/// One class of operations of one device.
#[derive(Clone, Debug)]
pub(crate) struct Judge {
    norm: Norm,
    last: Sample,
    /// Windows since the last one.
    age: u32,
    /// Average of the medians of windows that were as they should, ns, and of how many.
    usual: u64,
    usual_windows: u32,
    /// Windows in a row that speak against the present state.
    against: u32,
    is_slow: bool,
}

impl Judge {
    pub(crate) fn new(norm: Norm) -> Self {
        let (last, age) = (Sample::default(), u32::MAX);
        Self { norm, last, age, usual: 0, usual_windows: 0, against: 0, is_slow: false }
    }

    pub(crate) fn is_slow(&self) -> bool {
        self.is_slow
    }

    /// The last median, where it was not long ago.
    pub(crate) fn fresh(&self) -> Option<Duration> {
        (self.age < FRESH_WINDOWS).then_some(self.last.median)
    }

    fn usual(&self) -> Option<Duration> {
        (self.usual_windows >= USUAL_MIN).then(|| Duration::from_nanos(self.usual))
    }

    /// A window in which there was too little to tell.
    pub(crate) fn pass(&mut self) {
        self.age = self.age.saturating_add(1);
    }

    /// The next window.
    pub(crate) fn add(&mut self, sample: Sample, seen: WindowContext) {
        let is_above = self.is_above(sample.median, seen, 1);
        let speaks_against = match self.is_slow {
            false => is_above,
            true => !self.is_above(sample.median, seen, WELL_PART),
        };
        self.against = if speaks_against { self.against + 1 } else { 0 };
        let enough = if self.is_slow { WELL_AFTER } else { SLOW_AFTER };
        if self.against >= enough {
            self.is_slow = !self.is_slow;
            self.against = 0;
        }
        // What a deep queue adds is not the device's own: it would hide what comes later.
        if !is_above && !self.is_slow && sample.median < self.norm.limit(1) {
            self.learn(sample.median);
        }
        (self.last, self.age) = (sample, 0);
    }

    /// Whether a median is above, where everything is a part of what it is.
    fn is_above(&self, median: Duration, seen: WindowContext, part: u32) -> bool {
        let limit = self.norm.limit(seen.depth) / part;
        let is_outlier = |usual: Duration| median >= usual.saturating_mul(OUTLIER) / part;
        let others = [self.usual(), seen.peers];
        let mut known = others.into_iter().flatten().peekable();
        let is_beyond = median >= limit.saturating_mul(BEYOND);
        median >= limit && (is_beyond || known.peek().is_some() && known.all(is_outlier))
    }

    fn learn(&mut self, median: Duration) {
        let nanos = u64::try_from(median.as_nanos()).unwrap_or(u64::MAX / 2);
        self.usual_windows = (self.usual_windows + 1).min(USUAL_WINDOWS);
        let (old, windows) = (u128::from(self.usual), u128::from(self.usual_windows));
        let usual = (old * (windows - 1) + u128::from(nanos)) / windows;
        self.usual = u64::try_from(usual).unwrap_or(u64::MAX);
    }

    pub(crate) fn report(&self) -> ClassLatency {
        let Sample { operations, median, max } = self.last;
        ClassLatency { operations, median, max, usual: self.usual(), is_slow: self.is_slow }
    }
}
