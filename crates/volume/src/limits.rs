// SPDX-License-Identifier: Apache-2.0
//! The limits of a volume on one host (docs/operations/policies.md). A request that is above them
//! waits at the door, before it has taken anything that others need. Those of one volume go in the
//! order in which they came; those of other volumes do not wait for them.
//!
//! Each limit is a [`RateMeter`]. A request begins when that is not more than [`BURST`] ahead. So
//! over a second a volume gets what its limit says, and what it did not use before is not saved up.

use base::{Instant, RateMeter, SECTOR_SIZE};
use directory::IoLimits;
use env::{Env, Notify, Semaphore, select};
use std::cell::Cell;
use std::time::Duration;

/// How far ahead of its limit a volume may be.
const BURST: Duration = Duration::from_millis(20);
/// Whoever has to wait waits until the volume is only so far ahead: then several requests begin
/// without a timer for each.
const RESUME: Duration = Duration::from_millis(10);
/// A read or write counts once for every so many bytes, begun ones too.
const IO_BYTES: u64 = 32 << 10;
const _: () = assert!(IO_BYTES.is_multiple_of(SECTOR_SIZE));

/// Requests that waited for a limit, of a volume on one host, since it was opened there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limited {
    /// How many.
    pub requests: u64,
    /// How long they waited, added up.
    pub waited: Duration,
}

/// The limits of one open volume.
pub(crate) struct Limits {
    limits: Cell<IoLimits>,
    meters: Cell<Meters>,
    turn: Semaphore,
    changed: Notify,
    limited: Cell<Limited>,
}

impl Limits {
    pub(crate) fn new(limits: IoLimits) -> Self {
        Self {
            limits: Cell::new(limits),
            meters: Cell::default(),
            turn: Semaphore::new(1),
            changed: Notify::default(),
            limited: Cell::default(),
        }
    }

    /// Other limits from now on, also for those who wait.
    pub(crate) fn set(&self, limits: IoLimits) {
        if self.limits.replace(limits) != limits {
            self.meters.take();
            self.changed.notify();
        }
    }

    pub(crate) fn limited(&self) -> Limited {
        self.limited.get()
    }

    /// Waits until a request with so many bytes of data may begin. Whoever drops the future has not
    /// used anything.
    pub(crate) async fn pass(&self, env: &Env, bytes: u64) {
        if !self.limits.get().is_any() && self.turn.in_use() == 0 {
            return;
        }
        let since = env.now();
        let turn = self.turn.acquire(1).await;
        loop {
            let changed = self.changed.wait();
            let now = env.now();
            let Some(at) = self.meters.get().due(now, self.limits.get()) else {
                let mut meters = self.meters.get();
                meters.take(now, bytes, self.limits.get());
                self.meters.set(meters);
                break;
            };
            select(changed, env.sleep_until(at)).await;
        }
        drop(turn);
        let waited = env.now().since(since);
        if !waited.is_zero() {
            base::hit(base::Probe::LimitWaited);
            let Limited { requests, waited: before } = self.limited.get();
            self.limited.set(Limited { requests: requests + 1, waited: before + waited });
        }
    }
}

/// How far each limit is used up.
#[derive(Clone, Copy, Default)]
struct Meters {
    requests: RateMeter,
    bytes: RateMeter,
}

impl Meters {
    /// `None`: a request may begin. Else when to look again.
    fn due(self, now: Instant, limits: IoLimits) -> Option<Instant> {
        let ahead = |limit: Option<u64>, meter: RateMeter| {
            limit.map_or(Duration::ZERO, |_| meter.ahead(now))
        };
        let requests = ahead(limits.iops, self.requests);
        let ahead = requests.max(ahead(limits.bytes_per_second, self.bytes));
        (ahead > BURST).then(|| now + (ahead - RESUME))
    }

    /// A request of so many bytes begins.
    fn take(&mut self, now: Instant, bytes: u64, limits: IoLimits) {
        if let Some(rate) = limits.iops {
            self.requests.take(now, bytes.div_ceil(IO_BYTES).max(1), rate);
        }
        if let Some(rate) = limits.bytes_per_second {
            self.bytes.take(now, bytes, rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::time_of;
    use proptest::prelude::*;
    use sim::{HostKey, World, WorldOptions};
    use std::cell::RefCell;
    use std::net::{IpAddr, Ipv4Addr};
    use std::rc::Rc;

    /// Requests as they begin: when, and with how many bytes.
    type Begun = Vec<(Instant, u64)>;

    /// A volume with so much to do that it always waits, but for some pauses.
    fn run(limits: IoLimits, requests: &[(u64, u64)]) -> Begun {
        let (mut now, mut meters) = (Instant(1_000_000_000), Meters::default());
        let mut begun = Vec::new();
        for (bytes, pause) in requests {
            now = now + Duration::from_millis(*pause);
            while let Some(at) = meters.due(now, limits) {
                assert!(at > now, "looks again at once");
                now = at;
            }
            meters.take(now, *bytes, limits);
            begun.push((now, *bytes));
        }
        begun
    }

    fn ios(bytes: u64) -> u64 {
        bytes.div_ceil(32 << 10).max(1)
    }

    proptest! {
        /// Between any two requests no more begins than the limits let through in that time, the
        /// burst, and the last one before it.
        #[test]
        fn no_stretch_of_time_has_more_than_its_limits(
            iops in prop::option::of(32u64..20_000),
            rate in prop::option::of((1u64 << 20)..(1 << 30)),
            requests in prop::collection::vec(
                (0u64..(1 << 20), prop_oneof![Just(0u64), 0u64..200]),
                2..150,
            ),
        ) {
            let limits = IoLimits { iops, bytes_per_second: rate };
            let begun = run(limits, &requests);
            for (limit, cost) in [(iops, ios as fn(u64) -> u64), (rate, |bytes| bytes)] {
                let Some(limit) = limit else { continue };
                for from in 0..begun.len() {
                    let mut used = 0;
                    for (at, bytes) in &begun[from..] {
                        // What began before this one, since the first one.
                        let time = at.since(begun[from].0) + BURST;
                        prop_assert!(time_of(used, limit) <= time + Duration::from_micros(1));
                        used += cost(*bytes);
                    }
                }
            }
        }

        /// A volume that always has something to do gets what its limit lets through.
        #[test]
        fn a_busy_volume_gets_all_of_its_limit(
            iops in 32u64..20_000,
            bytes in 0u64..(256 << 10),
            count in 2usize..400,
        ) {
            let limits = IoLimits { iops: Some(iops), bytes_per_second: None };
            let begun = run(limits, &vec![(bytes, 0); count]);
            let took = begun[count - 1].0.since(begun[0].0);
            let all = time_of(ios(bytes) * (count as u64 - 1), iops);
            prop_assert!(took <= all, "{took:?} for {all:?}");
        }
    }

    #[test]
    fn what_was_not_used_is_not_saved_up() {
        let limits = IoLimits { iops: Some(100), bytes_per_second: None };
        let mut requests = vec![(4096, 0); 3];
        requests.push((4096, 10_000));
        requests.extend(vec![(4096, 0); 50]);
        let begun = run(limits, &requests);
        let late = begun[53].0.since(begun[3].0);
        assert!(late >= Duration::from_millis(480), "50 requests at 100 a second took {late:?}");
    }

    #[test]
    fn without_limits_nobody_waits() {
        let begun = run(IoLimits::default(), &[(1 << 20, 0); 100]);
        assert_eq!(begun[0].0, begun[99].0);
    }

    /// Less than any wait for a limit.
    const SOON: Duration = Duration::from_micros(500);

    /// A volume with these limits in the simulated world, and how many of its requests have begun.
    struct Simulated {
        world: World,
        host: HostKey,
        limits: Rc<Limits>,
        begun: Rc<Cell<u64>>,
    }

    impl Simulated {
        fn new(iops: u64) -> Self {
            let world = World::new(WorldOptions::default());
            let host = world.add_host("h1", IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
            let limits = Rc::new(Limits::new(IoLimits { iops: Some(iops), ..Default::default() }));
            Self { world, host, limits, begun: Rc::default() }
        }

        /// So many requests come, each behind the one before. Those begin that need not wait.
        fn ask(&self, requests: u64) {
            let (limits, begun) = (Rc::clone(&self.limits), Rc::clone(&self.begun));
            self.world.boot(self.host, move |env| {
                Box::pin(async move {
                    for _ in 0..requests {
                        limits.pass(&env, 4096).await;
                        begun.set(begun.get() + 1);
                    }
                })
            });
            self.world.run_for(SOON);
        }

        /// The limits change. Those begin that need not wait any more.
        fn set(&self, iops: Option<u64>) {
            self.limits.set(IoLimits { iops, ..Default::default() });
            let _ = self.world.env(self.host);
            self.world.run_for(SOON);
        }
    }

    #[test]
    fn only_requests_that_waited_are_counted_with_their_time() {
        let volume = Simulated::new(100);
        volume.ask(54);
        assert_eq!(volume.begun.get(), 3);
        assert_eq!(volume.limits.limited(), Limited::default(), "within the burst");
        volume.world.run_for(Duration::from_secs(1));
        assert_eq!(volume.begun.get(), 54);
        let Limited { requests, waited } = volume.limits.limited();
        // Of two requests one waits, for as long as both take.
        assert_eq!((requests, waited.as_millis()), (26, 520));
    }

    #[test]
    fn new_limits_count_at_once_for_those_who_wait() {
        for (iops, most) in [(None, 1000), (Some(10_000), 300)] {
            let volume = Simulated::new(1);
            volume.ask(1000);
            assert_eq!(volume.begun.get(), 1, "the others wait for seconds");
            volume.set(Some(1));
            assert_eq!(volume.begun.get(), 1, "the same limits as before");
            volume.set(iops);
            let begun = volume.begun.get();
            assert!((200..=most).contains(&begun), "{begun} requests with {iops:?}");
        }
    }

    #[test]
    fn requests_of_one_volume_begin_in_the_order_in_which_they_came() {
        let volume = Simulated::new(100);
        let (limits, order) = (Rc::clone(&volume.limits), Rc::new(RefCell::new(Vec::new())));
        let begun = Rc::clone(&order);
        volume.world.boot(volume.host, move |env| {
            Box::pin(async move {
                let ask = async |number: u64| {
                    env.sleep(Duration::from_millis(number)).await;
                    limits.pass(&env, 4096).await;
                    begun.borrow_mut().push(number);
                };
                env::join_all((1..=40).map(ask).collect()).await;
            })
        });
        volume.world.run_for(Duration::from_secs(1));
        assert_eq!(*order.borrow(), (1..=40).collect::<Vec<_>>());
    }
}
