// SPDX-License-Identifier: Apache-2.0
//! How a device answers: which operations are under way, since when, and how long the others took.
//!
//! An operation is counted from its submission to its completion, even if nobody waits for it any
//! more: a read whose future was dropped is under way until the device has answered it. Nothing is
//! allocated per operation.
//!
//! The age of an operation is counted in *looks*, which the owner of the device takes at even
//! intervals. While the whole host stands still, nobody looks. So a device is not blamed for
//! answers that nobody collected.

use base::Instant;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

/// The highest age that is counted, in looks. An operation that waits for longer keeps this age.
pub const LOOKS_MAX: u32 = 640;
/// Buckets of times: one per unit below 4 units, then four for each doubling, up to 9 minutes.
/// Longer times fall into the last bucket.
const BUCKETS: usize = 112;
/// The unit of buckets is 1,024 ns.
const UNIT_BITS: u32 = 10;

/// Operations that are measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoClass {
    /// Reads.
    Read,
    /// Writes that end in the device's cache.
    Write,
    /// Durable writes and flushes.
    Durable,
    /// Discards. They count as under way, but their latencies are not kept.
    Discard,
}

/// The classes whose latencies are kept, in the order of [`IoClass`].
pub const MEASURED: [IoClass; 3] = [IoClass::Read, IoClass::Write, IoClass::Durable];

/// How long operations of one class took. The median is right to an eighth of its value.
#[derive(Clone, PartialEq, Eq)]
pub struct Latencies {
    buckets: [u32; BUCKETS],
    count: u32,
    max: Duration,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS], count: 0, max: Duration::ZERO }
    }
}

impl fmt::Debug for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {:?}, at most {:?}", self.count, self.median(), self.max)
    }
}

fn bucket_of(nanos: u64) -> usize {
    let units = nanos >> UNIT_BITS;
    if units < 4 {
        return usize::try_from(units).unwrap_or(0);
    }
    let octave = u64::from(63 - units.leading_zeros());
    let place = octave * 4 + (units >> (octave - 2) & 3) - 4;
    usize::try_from(place).unwrap_or(BUCKETS).min(BUCKETS - 1)
}

/// The middle of a bucket, nanoseconds.
fn nanos_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 4 {
        return (bucket << UNIT_BITS) + (1 << UNIT_BITS) / 2;
    }
    let (octave, part) = (bucket / 4 + 1, bucket % 4);
    let step = 1_u64 << (octave - 2) << UNIT_BITS;
    (4 + part) * step + step / 2
}

impl Latencies {
    /// Counts one more operation.
    pub fn add(&mut self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let place = &mut self.buckets[bucket_of(nanos)];
        *place = place.saturating_add(1);
        self.count = self.count.saturating_add(1);
        self.max = self.max.max(took);
    }

    /// How many operations were counted.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// What the longest of them took.
    #[must_use]
    pub fn max(&self) -> Duration {
        self.max
    }

    /// What half of them took at most; zero if there are none.
    #[must_use]
    pub fn median(&self) -> Duration {
        self.at_most(500)
    }

    /// What so many thousandths of them took at most, right to an eighth; zero if there are none.
    #[must_use]
    pub fn at_most(&self, thousandths: u32) -> Duration {
        let part = (u64::from(self.count) * u64::from(thousandths.min(1000))).div_ceil(1000);
        let mut left = u32::try_from(part).unwrap_or(u32::MAX);
        for (bucket, count) in self.buckets.iter().enumerate() {
            if left > 0 && *count >= left {
                return Duration::from_nanos(nanos_of(bucket)).min(self.max);
            }
            left -= *count;
        }
        Duration::ZERO
    }
}

struct Counts {
    classes: [Latencies; MEASURED.len()],
    /// A ring: how many operations under way began after which look, for the last
    /// [`LOOKS_MAX`] looks.
    waiting: Vec<u32>,
    /// How many operations under way began before the looks of the ring.
    older: u32,
    in_flight: u32,
    looks: u32,
    /// The latencies of operations that began earlier are not kept.
    since: Instant,
    changed: Instant,
    /// Nanoseconds in which something was under way, and the sum of what each operation waited.
    /// Both count up to `changed`.
    busy: u64,
    waited: u64,
}

impl Counts {
    /// Brings `busy` and `waited` up to `now`.
    fn pass(&mut self, now: Instant) {
        if self.in_flight > 0 {
            let nanos = u64::try_from(now.since(self.changed).as_nanos()).unwrap_or(u64::MAX);
            self.busy = self.busy.saturating_add(nanos);
            let waited = nanos.saturating_mul(self.in_flight.into());
            self.waited = self.waited.saturating_add(waited);
        }
        self.changed = now;
    }

    /// The counter for operations that began after this look.
    fn place(&mut self, look: u32) -> &mut u32 {
        match self.looks - look {
            age if age < LOOKS_MAX => &mut self.waiting[(look % LOOKS_MAX) as usize],
            _ => &mut self.older,
        }
    }
}

/// The measurements of one open device.
pub struct Meter {
    counts: RefCell<Counts>,
    is_given_up: Cell<bool>,
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Meter({} in flight)", self.in_flight())
    }
}

impl Meter {
    pub(crate) fn new(now: Instant) -> Rc<Self> {
        let counts = Counts {
            classes: Default::default(),
            waiting: vec![0; LOOKS_MAX as usize],
            older: 0,
            in_flight: 0,
            looks: 0,
            since: now,
            changed: now,
            busy: 0,
            waited: 0,
        };
        Rc::new(Self { counts: RefCell::new(counts), is_given_up: Cell::new(false) })
    }

    /// Counts an operation that begins.
    pub(crate) fn begin(self: &Rc<Self>, class: IoClass, now: Instant) -> Metered {
        let mut counts = self.counts.borrow_mut();
        counts.pass(now);
        counts.in_flight += 1;
        let look = counts.looks;
        *counts.place(look) += 1;
        Metered { meter: Rc::clone(self), class, began: now, look }
    }

    /// How many operations the device has not answered.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.counts.borrow().in_flight
    }

    /// Takes a look: everything under way ages by one.
    pub fn look(&self) {
        let mut counts = self.counts.borrow_mut();
        counts.looks += 1;
        let at = (counts.looks % LOOKS_MAX) as usize;
        counts.older += std::mem::take(&mut counts.waiting[at]);
    }

    /// Looks since the oldest operation under way began, at most [`LOOKS_MAX`]. `None` if nothing
    /// is under way.
    #[must_use]
    pub fn looks_waited(&self) -> Option<u32> {
        let counts = self.counts.borrow();
        if counts.in_flight == 0 || counts.older > 0 {
            return (counts.older > 0).then_some(LOOKS_MAX);
        }
        (0..LOOKS_MAX.min(counts.looks + 1)).rev().find(|age| {
            let at = (counts.looks - age) % LOOKS_MAX;
            counts.waiting[at as usize] > 0
        })
    }

    /// Takes the latencies of a class out: those since the last call. Empty for discards.
    #[must_use]
    pub fn take(&self, class: IoClass) -> Latencies {
        let mut counts = self.counts.borrow_mut();
        counts.classes.get_mut(class as usize).map(std::mem::take).unwrap_or_default()
    }

    /// How many operations of a class were measured since [`Meter::take`] was last called for it.
    #[must_use]
    pub fn measured(&self, class: IoClass) -> u32 {
        self.counts.borrow().classes.get(class as usize).map_or(0, Latencies::count)
    }

    /// How many operations were under way on average since the last call, rounded up. Time in which
    /// none was under way does not count.
    #[must_use]
    pub fn take_depth(&self, now: Instant) -> u64 {
        let mut counts = self.counts.borrow_mut();
        counts.pass(now);
        let (busy, waited) = (std::mem::take(&mut counts.busy), std::mem::take(&mut counts.waited));
        waited.div_ceil(busy.max(1))
    }

    /// Begins anew: forgets all latencies and the average depth. The latencies of operations under
    /// way will not be kept.
    pub fn restart(&self, now: Instant) {
        let mut counts = self.counts.borrow_mut();
        counts.classes = Default::default();
        counts.since = now;
        (counts.changed, counts.busy, counts.waited) = (now, 0, 0);
    }

    /// Whether [`crate::Disk::give_up`] was called.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.is_given_up.get()
    }

    pub(crate) fn set_given_up(&self) {
        self.is_given_up.set(true);
    }
}

/// One operation under way.
pub(crate) struct Metered {
    pub(crate) meter: Rc<Meter>,
    class: IoClass,
    began: Instant,
    look: u32,
}

impl Metered {
    /// Counts the end of the operation: the device has answered.
    pub(crate) fn end(self, now: Instant) {
        let mut counts = self.meter.counts.borrow_mut();
        counts.pass(now);
        counts.in_flight -= 1;
        *counts.place(self.look) -= 1;
        let is_measured = self.began >= counts.since;
        if let Some(latencies) = counts.classes.get_mut(self.class as usize).filter(|_| is_measured)
        {
            latencies.add(now.since(self.began));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant(millis * 1_000_000)
    }

    #[test]
    fn a_bucket_holds_what_is_close_to_its_middle() {
        let mut last = 0;
        for nanos in (0..64).flat_map(|bits| [1 << bits, (1 << bits) / 3 * 4, 1 << bits | 1]) {
            let bucket = bucket_of(nanos);
            assert!(bucket < BUCKETS, "{nanos}");
            let middle = nanos_of(bucket);
            if (4096..200_000_000_000).contains(&nanos) {
                assert!(middle.abs_diff(nanos) <= nanos / 8 + 512, "{nanos} in {middle}");
            }
        }
        for nanos in (0..1_u64 << 30).step_by(77_777) {
            assert!(bucket_of(nanos) >= last, "{nanos}");
            last = bucket_of(nanos);
        }
    }

    #[test]
    fn the_median_is_not_moved_by_a_few() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.median(), Duration::ZERO);
        for _ in 0..51 {
            latencies.add(Duration::from_millis(2));
        }
        for _ in 0..49 {
            latencies.add(Duration::from_secs(5));
        }
        let median = latencies.median().as_micros();
        assert!((1750..=2250).contains(&median), "{median}");
        assert_eq!((latencies.count(), latencies.max()), (100, Duration::from_secs(5)));
    }

    #[test]
    fn age_is_counted_in_looks() {
        let meter = Meter::new(at(0));
        assert_eq!(meter.looks_waited(), None);
        let first = meter.begin(IoClass::Read, at(1));
        assert_eq!(meter.looks_waited(), Some(0));
        meter.look();
        meter.look();
        let second = meter.begin(IoClass::Discard, at(2));
        assert_eq!((meter.looks_waited(), meter.in_flight()), (Some(2), 2));
        first.end(at(5));
        assert_eq!(meter.looks_waited(), Some(0), "the other began after them");
        for _ in 0..LOOKS_MAX * 3 {
            meter.look();
        }
        let third = meter.begin(IoClass::Write, at(9));
        assert_eq!(meter.looks_waited(), Some(LOOKS_MAX), "no further");
        second.end(at(10));
        assert_eq!(meter.looks_waited(), Some(0));
        third.end(at(11));
        assert_eq!((meter.looks_waited(), meter.in_flight()), (None, 0));
        assert_eq!((meter.measured(IoClass::Read), meter.measured(IoClass::Discard)), (1, 0));
        assert_eq!(meter.take(IoClass::Write).max(), Duration::from_millis(2));
        assert_eq!(meter.measured(IoClass::Write), 0);
    }

    #[test]
    fn what_waited_while_the_host_stood_still_is_not_measured() {
        let meter = Meter::new(at(0));
        let waiting = meter.begin(IoClass::Read, at(1));
        meter.begin(IoClass::Read, at(1)).end(at(2));
        meter.restart(at(60_000));
        waiting.end(at(60_001));
        assert_eq!(meter.measured(IoClass::Read), 0);
        meter.begin(IoClass::Read, at(60_001)).end(at(60_002));
        assert_eq!(meter.take(IoClass::Read).max(), Duration::from_millis(1));
    }

    #[test]
    fn depth_is_that_of_the_time_with_work() {
        let meter = Meter::new(at(0));
        assert_eq!(meter.take_depth(at(5)), 0);
        let burst: Vec<_> = (0..8).map(|_| meter.begin(IoClass::Write, at(1000))).collect();
        burst.into_iter().for_each(|operation| operation.end(at(1010)));
        assert_eq!(meter.take_depth(at(9000)), 8);
        assert_eq!(meter.take_depth(at(9001)), 0);
    }
}
