// SPDX-License-Identifier: Apache-2.0
//! What clients had a volume do through one host: always counted, at the door.
//!
//! Classes of latency are the same for all volumes, hosts and releases, so that what several hosts
//! counted is added up class by class. Counting allocates nothing and reads the clock twice.

use std::cell::RefCell;
use std::time::Duration;

/// Classes of latency. The last one has what took longer than any bound.
const CLASSES: usize = LATENCY_BOUNDS_US.len() + 1;
/// What the first class has at most, microseconds, as a power of two.
const FIRST_BITS: u32 = 6;

/// The longest time of each class of latency but the last, microseconds: 64 us to 4.2 s, each twice
/// the one before. A write to two all-flash hosts takes a few hundred, one that fails a minute.
pub const LATENCY_BOUNDS_US: [u64; 17] = {
    let mut bounds = [1 << FIRST_BITS; 17];
    let mut at = 1;
    while at < bounds.len() {
        bounds[at] = bounds[at - 1] * 2;
        at += 1;
    }
    bounds
};

/// What a client asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// To read.
    Read,
    /// To write data.
    Write,
    /// To make zeros that take space.
    Zero,
    /// To give space back.
    Discard,
    /// To make durable what is so already.
    Flush,
}

/// All of them.
pub const OPERATIONS: [Operation; 5] =
    [Operation::Read, Operation::Write, Operation::Zero, Operation::Discard, Operation::Flush];

/// What was counted of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationCount {
    /// Requests that failed.
    pub failed: u64,
    /// Bytes of those that did not.
    pub bytes: u64,
    /// How long all of them took, added up.
    pub took: Duration,
    /// How many took how long, by the classes of [`LATENCY_BOUNDS_US`]; together all requests that
    /// were answered.
    pub latencies: [u64; CLASSES],
}

impl OperationCount {
    /// Requests that were answered, failed ones too.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.latencies.iter().sum()
    }

    fn add(&mut self, bytes: u64, took: Duration, is_done: bool) {
        match is_done {
            true => self.bytes = self.bytes.saturating_add(bytes),
            false => self.failed += 1,
        }
        self.took = self.took.saturating_add(took);
        self.latencies[class_of(took)] += 1;
    }

    fn merge(&mut self, other: &Self) {
        self.failed += other.failed;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.took = self.took.saturating_add(other.took);
        self.latencies.iter_mut().zip(&other.latencies).for_each(|(ours, more)| *ours += more);
    }
}

/// The class of a request that took so long.
fn class_of(took: Duration) -> usize {
    // Rounded up: no class has what took longer than its bound.
    let micros = took.as_nanos().div_ceil(1000).max(1);
    let bits = u128::BITS - (micros - 1).leading_zeros();
    let class = bits.saturating_sub(FIRST_BITS);
    usize::try_from(class).unwrap_or(CLASSES).min(CLASSES - 1)
}

/// What was counted of all operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficCount([OperationCount; OPERATIONS.len()]);

impl TrafficCount {
    /// What was counted of one of them.
    #[must_use]
    pub fn of(&self, operation: Operation) -> &OperationCount {
        &self.0[operation.index()]
    }

    /// Both together.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(ours, more)| ours.merge(more));
    }
}

/// The counters of one volume on one host. About a kilobyte.
#[derive(Debug, Default)]
pub struct Traffic(RefCell<TrafficCount>);

impl Traffic {
    /// A request was answered.
    pub fn count(&self, operation: Operation, bytes: u64, took: Duration, is_done: bool) {
        self.0.borrow_mut().0[operation.index()].add(bytes, took, is_done);
    }

    /// What was counted so far.
    #[must_use]
    pub fn read(&self) -> TrafficCount {
        *self.0.borrow()
    }
}

impl Operation {
    fn index(self) -> usize {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Zero => 2,
            Self::Discard => 3,
            Self::Flush => 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_has_what_took_no_longer_than_its_bound() {
        assert_eq!((LATENCY_BOUNDS_US[0], LATENCY_BOUNDS_US[16]), (64, 4_194_304));
        for (class, bound) in LATENCY_BOUNDS_US.into_iter().enumerate() {
            let bound = Duration::from_micros(bound);
            assert_eq!(class_of(bound), class);
            assert_eq!(class_of(bound + Duration::from_nanos(1)), class + 1);
        }
        assert_eq!((class_of(Duration::ZERO), class_of(Duration::MAX)), (0, CLASSES - 1));
    }

    #[test]
    fn each_operation_has_its_place() {
        assert!(OPERATIONS.iter().enumerate().all(|(at, operation)| operation.index() == at));
    }

    #[test]
    fn what_failed_took_time_and_moved_no_bytes() {
        let traffic = Traffic::default();
        traffic.count(Operation::Write, 4096, Duration::from_micros(100), true);
        traffic.count(Operation::Write, 512, Duration::from_secs(60), false);
        traffic.count(Operation::Read, 8192, Duration::from_micros(10), true);
        let mut all = traffic.read();
        let write = *all.of(Operation::Write);
        assert_eq!((write.requests(), write.failed, write.bytes), (2, 1, 4096));
        assert_eq!((write.latencies[1], write.latencies[CLASSES - 1]), (1, 1));
        assert_eq!(write.took, Duration::from_micros(60_000_100));
        assert_eq!(all.of(Operation::Flush), &OperationCount::default());

        all.merge(&traffic.read());
        let write = all.of(Operation::Write);
        assert_eq!((write.requests(), write.failed, write.bytes), (4, 2, 8192));
        assert_eq!((write.latencies[1], write.took), (2, Duration::from_micros(120_000_200)));
        assert_eq!(all.of(Operation::Read).bytes, 2 * 8192);
    }
}
