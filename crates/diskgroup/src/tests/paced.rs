// SPDX-License-Identifier: Apache-2.0
//! Latency and fill under a steady load before magnetic capacity, in virtual time.

use super::scenarios::Host;
use super::*;
use crate::CreateSizes;
use devicemodel::DeviceModel;
use env::{Semaphore, TaskSet};

/// The cache device: 300 us and 800 MB/s.
const FLASH: DeviceModel =
    DeviceModel::Late { latency: Duration::from_micros(300), bytes_per_second: 800_000_000 };
/// Milliseconds, as asked.
const PAUSE_MAX_MS: f64 = 200.0;
/// Requests under way at once where more is offered than is taken.
const WINDOW: u64 = 32;
const VOLUME: u64 = 1 << 30;

/// Writes of 4 KiB to random places, so many a second.
struct Offer {
    rate: u64,
    seconds: u64,
    /// Requests under way at most; they count from when they are issued. Else from when they are
    /// due, however many wait already.
    window: u64,
}

/// What came of it.
#[derive(Default)]
struct Outcome {
    /// When each was issued or due, and how long it took, milliseconds.
    latencies: Vec<(f64, f64)>,
    /// When each ended, seconds.
    ends: Vec<f64>,
    /// Each tenth of a second.
    fills: Vec<f64>,
}

impl Outcome {
    fn mean_ms(&self) -> f64 {
        self.latencies.iter().map(|(_, ms)| ms).sum::<f64>() / self.latencies.len() as f64
    }

    fn percentile_ms(&self, percent: usize) -> f64 {
        let mut sorted: Vec<f64> = self.latencies.iter().map(|(_, ms)| *ms).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
    }

    /// Longest time in which nothing ended.
    fn pause_ms(&self) -> f64 {
        self.ends.windows(2).map(|pair| (pair[1] - pair[0]) * 1e3).fold(0.0, f64::max)
    }

    /// Ends per second, second by second.
    fn rates(&self) -> Vec<u32> {
        let begin = self.ends[0];
        let mut rates = vec![0; (self.ends[self.ends.len() - 1] - begin) as usize + 1];
        for end in &self.ends {
            rates[(end - begin) as usize] += 1;
        }
        rates.pop();
        rates
    }

    /// Of the last third.
    fn steady_rate(&self) -> f64 {
        let rates = self.rates();
        let tail = &rates[rates.len() * 2 / 3..];
        tail.iter().map(|rate| f64::from(*rate)).sum::<f64>() / tail.len() as f64
    }

    /// Mean latency of each second.
    fn seconds_ms(&self) -> Vec<f64> {
        let begin = self.latencies[0].0;
        let mut sums: Vec<(f64, u32)> = Vec::new();
        for (at, ms) in &self.latencies {
            let second = (at - begin).max(0.0) as usize;
            sums.resize(sums.len().max(second + 1), (0.0, 0));
            sums[second].0 += ms;
            sums[second].1 += 1;
        }
        sums.into_iter().map(|(sum, count)| sum / f64::from(count.max(1))).collect()
    }

    fn print(&self, name: &str) {
        let of = |fills: &[f64]| {
            let fills = fills.iter().step_by(10).map(|fill| format!("{:.0}", fill * 100.0));
            fills.collect::<Vec<_>>().join(" ")
        };
        let ms = self.seconds_ms().iter().map(|ms| format!("{ms:.1}")).collect::<Vec<_>>();
        println!(
            "{name}: {:.0} writes/s, mean {:.2} ms, p99 {:.1}, worst {:.0}; pause {:.0} ms\n  \
             fill {}\n  ms {}\n  rate {:?}",
            self.steady_rate(),
            self.mean_ms(),
            self.percentile_ms(99),
            self.percentile_ms(100),
            self.pause_ms(),
            of(&self.fills),
            ms.join(" "),
            self.rates(),
        );
    }
}

/// A hybrid group whose volume is allocated whole: an equal part of it on each magnetic device.
struct Bench {
    env: Env,
    group: DiskGroup,
    components: Vec<ComponentId>,
    lsn: std::cell::Cell<u64>,
    rng: RefCell<Rng>,
}

impl Bench {
    async fn new(env: &Env, cache: u64, devices: usize) -> Rc<Self> {
        let sizes = CreateSizes { cache, capacity: 2 * VOLUME };
        let (spec, kind) = (spec(devices), GroupKind::HYBRID);
        let formatted = DiskGroup::format_with(env, &spec, Some(sizes), false, GroupId(1), kind);
        formatted.await.expect("new files");
        let opened = DiskGroup::open(env, &spec, GroupOptions::default());
        let group = opened.await.expect("a new group");
        let components: Vec<_> = (1..=devices as u64).map(ComponentId).collect();
        let sectors = VOLUME / 512 / devices as u64;
        for (at, id) in components.iter().enumerate() {
            group.create_component(*id, ObjectId(9), sectors).await.expect("a component");
            group.set_active(*id, true);
            assert_eq!(group.device_of(*id), Some(at), "thin ones do not all go to one device");
        }
        let (lsn, rng) = (std::cell::Cell::new(1), RefCell::new(Rng::new(5)));
        let bench = Rc::new(Self { env: env.clone(), group, components, lsn, rng });
        // A stream: it leaves behind how fast capacity is for that.
        for chunk in 0..VOLUME >> 20 {
            bench.write(chunk * 256, 256).await;
        }
        bench.drain(0.05).await;
        bench
    }

    /// Writes so many blocks of zeros, which take no memory.
    fn write(&self, block: u64, count: u64) -> impl Future<Output = ()> + use<> {
        let span = VOLUME / 4096 / self.components.len() as u64;
        let component = self.components[(block / span) as usize];
        let range = SectorRange::new(block % span * 8, count * 8);
        let payload = self.env.pool().zeroed(range.bytes() as usize).freeze();
        let crcs = wire::crcs_of(range, &payload);
        let lsn = Lsn::new(Term(1), self.lsn.replace(self.lsn.get() + 1));
        let append = Append {
            component,
            lsn,
            term: Term(1),
            range,
            kind: AppendKind::Data,
            crcs: &crcs,
            payload,
            marks: &[],
        };
        let (appended, group) = (self.group.append(append), self.group.clone());
        async move {
            appended.await.expect("a write");
            group.advance_commit(component, lsn);
        }
    }

    async fn drain(&self, fill: f64) {
        self.group.drain_buffer(true);
        while self.group.status().buffer_fill > fill {
            self.env.sleep(Duration::from_millis(100)).await;
        }
        self.group.drain_buffer(false);
    }

    async fn fill(self: &Rc<Self>, fill: f64) {
        while self.group.status().buffer_fill < fill {
            self.write(self.block(), 1).await;
        }
    }

    fn block(&self) -> u64 {
        self.rng.borrow_mut().below(VOLUME / 4096)
    }

    async fn offer(self: &Rc<Self>, offer: Offer) -> Outcome {
        let outcome = Rc::new(RefCell::new(Outcome::default()));
        let (room, tasks) = (Semaphore::new(offer.window), Rc::new(TaskSet::default()));
        let begin = self.env.now();
        let (watched, bench) = (Rc::clone(&outcome), Rc::clone(self));
        let watch = self.env.spawn("watch", async move {
            loop {
                watched.borrow_mut().fills.push(bench.group.status().buffer_fill);
                bench.env.sleep(Duration::from_millis(100)).await;
            }
        });
        let mut due = begin;
        while due.since(begin) < Duration::from_secs(offer.seconds) {
            let permit = room.acquire(1).await;
            let now = self.env.now();
            if now < due {
                self.env.sleep_until(due).await;
            }
            let from = if offer.window == WINDOW { now.max(due) } else { due };
            let (write, outcome) = (self.write(self.block(), 1), Rc::clone(&outcome));
            let env = self.env.clone();
            tasks.spawn(&self.env, "write", async move {
                write.await;
                let mut outcome = outcome.borrow_mut();
                let ms = env.now().since(from).as_secs_f64() * 1e3;
                outcome.latencies.push((from.since(begin).as_secs_f64(), ms));
                outcome.ends.push(env.now().since(begin).as_secs_f64());
                drop(permit);
            });
            // Evenly around the rate; behind it where the window was closed.
            let step = self.rng.borrow_mut().below(2 * 1_000_000_000 / offer.rate);
            due = from + Duration::from_nanos(step);
        }
        while !tasks.is_empty() {
            self.env.sleep(Duration::from_millis(1)).await;
        }
        drop(watch);
        std::mem::take(&mut *outcome.borrow_mut())
    }
}

/// What was offered to one group, one after the other.
struct Runs {
    /// Three times what capacity takes and more, from an empty buffer.
    over: Outcome,
    /// 60 % of what that came to, right after it.
    full: Outcome,
    /// And from a buffer that was drained.
    empty: Outcome,
}

/// What a story on a host with magnetic capacity devices ends with. Nothing fails there, and every
/// device takes exactly as long as it does.
fn told<T: 'static, F: Future<Output = T> + 'static>(
    devices: usize,
    story: impl FnOnce(Env) -> F + 'static,
) -> T {
    let host = Host::new(7);
    let Host { world, key } = &host;
    let GroupSpec { cache, capacity } = spec(devices);
    world.behave_as(*key, &cache, FLASH);
    capacity.iter().for_each(|path| world.behave_as(*key, path, DeviceModel::Magnetic));
    let end = Rc::new(RefCell::new(None));
    let told = Rc::clone(&end);
    host.run(|env| async move {
        let outcome = story(env).await;
        *told.borrow_mut() = Some(outcome);
    });
    end.take().expect("the story came to its end")
}

/// Runs before a cache device of so many bytes, of which the write buffer is 30 %.
fn runs(cache: u64, seconds: u64) -> Runs {
    told(1, move |env| async move {
        let bench = Bench::new(&env, cache, 1).await;
        let over = bench.offer(Offer { rate: 3000, seconds, window: WINDOW }).await;
        over.print("3000 writes/s offered");
        let rate = (over.steady_rate() * 0.6) as u64;
        let full = bench.offer(Offer { rate, seconds: 60, window: u64::MAX }).await;
        full.print("60 % of that, from a full buffer");
        bench.drain(0.05).await;
        bench.fill(0.15).await;
        let empty = bench.offer(Offer { rate, seconds: 60, window: u64::MAX }).await;
        empty.print("60 % of that, from a buffer 15 % full");
        Runs { over, full, empty }
    })
}

impl Runs {
    /// What is asked of the control of destage.
    fn check(&self, full: f64) {
        let Self { over, full: from_full, empty: from_empty } = self;
        let (rate, ms) = (over.steady_rate(), over.seconds_ms());
        assert!((300.0..900.0).contains(&rate), "a magnetic disk: {rate} writes/s");
        assert!(over.pause_ms() < PAUSE_MAX_MS, "a pause of {} ms", over.pause_ms());
        assert!(over.percentile_ms(100) < PAUSE_MAX_MS, "{} ms", over.percentile_ms(100));
        // Latency rises to that rate's and stays there. On its way it is at most what the rate is
        // without a sweep over several segments, which takes some seconds to come about.
        let wanted = WINDOW as f64 / rate * 1e3;
        assert!(ms.iter().all(|ms| *ms < 1.6 * wanted), "{ms:?}, not {wanted}");
        let tail = over.rates().split_off(ms.len() * 2 / 3);
        let is_even = |found: &u32| (f64::from(*found) - rate).abs() < rate * 0.15;
        assert!(tail.iter().all(is_even), "writes per second around {rate}: {tail:?}");
        // A load that capacity takes is the same from both, but for the millisecond or two that
        // commits are apart where a full buffer would overflow with their headers.
        assert!(from_full.fills[0] > full, "{} full", from_full.fills[0]);
        assert!(from_empty.fills[0] < 0.2, "{} full", from_empty.fills[0]);
        for (run, name) in [(from_full, "full"), (from_empty, "empty")] {
            let (p99, worst) = (run.percentile_ms(99), run.percentile_ms(100));
            assert!(run.mean_ms() < 2.0, "from {name}: {} ms", run.mean_ms());
            assert!(p99 < 10.0 && worst < 50.0, "from {name}: p99 {p99} ms, worst {worst} ms");
        }
    }
}

#[test]
fn latency_goes_by_the_offered_load_and_not_by_the_fill() {
    // 19 segments: the smallest ring that anybody measures.
    runs(256 << 20, 90).check(0.7);
}

#[test]
fn latency_goes_by_the_offered_load_and_not_by_the_fill_of_a_larger_buffer() {
    runs(1 << 30, 240).check(0.85);
}

#[test]
fn magnetic_devices_do_not_wait_for_each_other() {
    let rate = |devices: usize| {
        told(devices, move |env| async move {
            let bench = Bench::new(&env, 256 << 20, devices).await;
            let over = bench.offer(Offer { rate: 6000, seconds: 60, window: WINDOW }).await;
            over.print(&format!("6000 writes/s offered to {devices}"));
            assert!(over.pause_ms() < PAUSE_MAX_MS, "a pause of {} ms", over.pause_ms());
            over.steady_rate()
        })
    };
    let (one, four) = (rate(1), rate(4));
    assert!(four > 2.5 * one, "one takes {one} writes/s, four take {four}");
}
