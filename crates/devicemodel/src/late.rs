// SPDX-License-Identifier: Apache-2.0
//! A device that is slow by two figures: pure arithmetic.
//!
//! - **Bytes** pass through one channel of so many a second, in the order of submission.
//! - **Latency**: a transfer ends so long after its last byte has passed, whatever else there is.
//! - **A flush** ends that latency after everything that was submitted before it has passed, and so
//!   never before one of those.

use crate::op::DeviceOp;
use base::Instant;
use std::collections::VecDeque;
use std::time::Duration;

const SECOND_NS: u128 = 1_000_000_000;

/// One such device. Time is what its callers say, and never goes back.
pub(crate) struct Late {
    latency: Duration,
    bytes_per_second: u64,
    /// When all that was submitted has passed.
    passed: Instant,
    /// Ends in the order of submission, which is their own.
    ends: VecDeque<(u64, Instant)>,
}

impl Late {
    pub(crate) fn new(latency: Duration, bytes_per_second: u64) -> Self {
        let bytes_per_second = bytes_per_second.max(1);
        Self { latency, bytes_per_second, passed: Instant::default(), ends: VecDeque::new() }
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.ends.is_empty()
    }

    /// Takes a request in.
    pub(crate) fn submit(&mut self, now: Instant, name: u64, op: DeviceOp) {
        let bytes = match op {
            DeviceOp::Transfer { bytes, .. } => bytes,
            DeviceOp::Flush => 0,
        };
        let ns = u128::from(bytes) * SECOND_NS / u128::from(self.bytes_per_second);
        let passing = Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX));
        self.passed = self.passed.max(now) + passing;
        self.ends.push_back((name, self.passed + self.latency));
    }

    /// The next request that has ended by `now`, and when; to be called until there is none.
    pub(crate) fn end(&mut self, now: Instant) -> Option<(u64, Instant)> {
        self.ends.pop_front_if(|(_, end)| *end <= now)
    }

    /// When the next request ends.
    pub(crate) fn next_end(&self) -> Option<Instant> {
        self.ends.front().map(|(_, end)| *end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn transfer(bytes: u64) -> DeviceOp {
        DeviceOp::Transfer { offset: 0, bytes }
    }

    fn ms(ms: u64) -> Instant {
        Instant::default() + Duration::from_millis(ms)
    }

    #[test]
    fn bytes_pass_one_after_the_other_and_latencies_side_by_side() {
        let mut device = Late::new(Duration::from_millis(5), 100 * MIB);
        for name in 0..10 {
            device.submit(ms(100), name, transfer(MIB)); // 10 ms each
        }
        device.submit(ms(100), 10, DeviceOp::Flush);
        for name in 0..10 {
            let end = ms(100 + (name + 1) * 10 + 5);
            assert_eq!(device.next_end(), Some(end));
            assert_eq!(device.end(Instant(end.0 - 1)), None);
            assert_eq!(device.end(end), Some((name, end)));
        }
        assert_eq!(device.end(ms(1000)), Some((10, ms(205))), "with what went before it");
        assert!(device.is_idle());
        device.submit(ms(2000), 11, DeviceOp::Flush);
        device.submit(ms(2000), 12, transfer(0));
        assert_eq!(device.end(ms(2004)), None);
        assert_eq!(device.end(ms(2005)), Some((11, ms(2005))), "rest costs nothing");
        assert_eq!(device.end(ms(2005)), Some((12, ms(2005))));
    }
}
