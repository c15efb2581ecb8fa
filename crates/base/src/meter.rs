// SPDX-License-Identifier: Apache-2.0
//! A limit of so much a second.

use crate::Instant;
use std::time::Duration;

/// The time until which a limit is used up. What begins moves that time on by what it costs, and
/// what is not used is not saved up (the virtual scheduling algorithm of ITU-T I.371).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateMeter(Instant);

impl RateMeter {
    /// How far ahead of its limit it is.
    #[must_use]
    pub fn ahead(self, now: Instant) -> Duration {
        self.0.since(now)
    }

    /// Something begins that costs so much, where `rate` a second are allowed.
    pub fn take(&mut self, now: Instant, cost: u64, rate: u64) {
        self.0 = self.0.max(now) + time_of(cost, rate);
    }
}

/// How long `cost` takes at so much a second, rounded up; at zero a second as at one.
#[must_use]
pub fn time_of(cost: u64, rate: u64) -> Duration {
    let nanos = (u128::from(cost) * 1_000_000_000).div_ceil(u128::from(rate.max(1)));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_is_ahead_by_what_was_taken_and_saves_nothing_up() {
        let (mut meter, at) = (RateMeter::default(), Instant(5_000_000_000));
        assert_eq!(meter.ahead(at), Duration::ZERO);
        meter.take(at, 100, 1000);
        meter.take(at, 50, 1000);
        assert_eq!(meter.ahead(at), Duration::from_millis(150));
        let later = at + Duration::from_secs(9);
        assert_eq!(meter.ahead(later), Duration::ZERO);
        meter.take(later, 100, 1000);
        assert_eq!(meter.ahead(later), Duration::from_millis(100));
        assert_eq!(time_of(1, 3), Duration::from_nanos(333_333_334));
        assert_eq!(time_of(u64::MAX, 0), Duration::from_nanos(u64::MAX));
    }
}
