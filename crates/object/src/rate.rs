// SPDX-License-Identifier: Apache-2.0
//! How fast a resync copies, and so when it ends.

use base::Instant;
use std::time::Duration;

/// Bytes are summed up over this time.
const STEP: Duration = Duration::from_secs(1);
/// A step takes the average this part of the way, in fifths: after five of them nine tenths are of
/// what is so now.
const FIFTHS: u64 = 2;

/// A moving average of bytes a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyRate {
    begun: Instant,
    step_began: Instant,
    in_step: u64,
    copied: u64,
    average: Option<u64>,
}

impl CopyRate {
    pub(crate) fn new(now: Instant) -> Self {
        Self { begun: now, step_began: now, in_step: 0, copied: 0, average: None }
    }

    /// So many bytes were copied.
    pub(crate) fn add(&mut self, bytes: u64, now: Instant) {
        self.settle(now);
        self.in_step += bytes;
        self.copied += bytes;
    }

    /// All that was copied, bytes.
    pub(crate) fn copied(&self) -> u64 {
        self.copied
    }

    /// Since when.
    pub(crate) fn begun(&self) -> Instant {
        self.begun
    }

    /// Bytes a second, lately.
    pub(crate) fn per_second(mut self, now: Instant) -> u64 {
        self.settle(now);
        let of_step = || {
            let nanos = now.since(self.step_began).as_nanos();
            let rate = (u128::from(self.in_step) * STEP.as_nanos()).checked_div(nanos);
            u64::try_from(rate.unwrap_or(0)).unwrap_or(u64::MAX)
        };
        self.average.unwrap_or_else(of_step)
    }

    /// Takes in the steps that are over: the first of them has what was copied, later ones nothing.
    fn settle(&mut self, now: Instant) {
        let steps = now.since(self.step_began).as_secs() / STEP.as_secs();
        for _ in 0..steps.min(60) {
            let of_step = std::mem::take(&mut self.in_step);
            let before = self.average.unwrap_or(of_step);
            let way = (before.abs_diff(of_step).saturating_mul(FIFTHS)).div_ceil(5);
            self.average = Some(if of_step > before { before + way } else { before - way });
        }
        let passed = STEP.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX));
        self.step_began = self.step_began + passed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(7_000_000_000 + ms * 1_000_000)
    }

    #[test]
    fn a_steady_copy_has_its_rate_and_one_that_stands_still_loses_it() {
        let mut rate = CopyRate::new(at(0));
        assert_eq!(rate.per_second(at(0)), 0);
        for step in 1..=100 {
            rate.add(1 << 20, at(step * 100));
        }
        let steady = rate.per_second(at(10_000));
        assert!((9 << 20..=10 << 20).contains(&steady), "{steady}");
        assert_eq!((rate.copied(), rate.begun()), (100 << 20, at(0)));
        let later = rate.per_second(at(15_000));
        assert!(later < steady / 10, "{later} after five seconds without a copy");
        assert_eq!(rate.per_second(at(3_600_000)), 0);
    }

    #[test]
    fn the_first_second_has_a_rate_too() {
        let mut rate = CopyRate::new(at(0));
        rate.add(8 << 20, at(400));
        assert_eq!(rate.per_second(at(500)), 16 << 20);
    }

    #[test]
    fn a_change_of_speed_shows_within_seconds() {
        let mut rate = CopyRate::new(at(0));
        (1..=100).for_each(|step| rate.add(1 << 20, at(step * 100)));
        (101..=150).for_each(|step| rate.add(4 << 20, at(step * 100)));
        let fast = rate.per_second(at(15_000));
        assert!((35 << 20..=40 << 20).contains(&fast), "{fast}");
    }
}
