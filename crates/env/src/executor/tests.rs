// SPDX-License-Identifier: Apache-2.0
//! The executor over a driver that only has a clock.

use super::*;
use crate::{Either, Notify, Permit, Semaphore, TURN_STEPS_MAX, channel, join_all, select};
use std::time::Duration;

/// A driver without devices and network. Its clock jumps to whatever is waited for.
struct Clock(Cell<u64>);

impl Driver for Clock {
    fn now(&self) -> Instant {
        Instant(self.0.get())
    }
    fn wall(&self) -> WallTime {
        WallTime(0)
    }
    fn entropy(&mut self) -> u64 {
        7
    }
    fn submit(&mut self, _token: Token, op: Op) {
        panic!("no such device: {op:?}");
    }
    fn cancel(&mut self, _token: Token) {}
    fn park(&mut self, until: Option<Instant>, _done: &mut Vec<Completion>) {
        let until = until.expect("a deadlock: nothing ready and no timer");
        // A wait until 0 means that some task is ready. Time goes on while it runs.
        let passed = u64::from(until.0 == 0);
        self.0.set((self.0.get() + passed).max(until.0));
    }
}

fn env() -> Env {
    Env::new(Box::new(Clock(Cell::new(0))), Box::new(Fifo))
}

#[test]
fn timers_fire_in_order_and_select_is_biased() {
    let env = env();
    let inner = env.clone();
    let order = env.run(async move {
        let late = inner.sleep(Duration::from_millis(5));
        let early = inner.sleep(Duration::from_millis(2));
        let first = select(late, early).await;
        let tie = select(async { 1 }, async { 2 }).await;
        let timed_out = inner.timeout(Duration::from_millis(1), std::future::pending::<()>()).await;
        (first, tie, timed_out.is_err(), inner.now())
    });
    assert_eq!(order, (Either::Second(()), Either::First(1), true, Instant(3_000_000)));
}

#[test]
fn a_dropped_task_stops_and_its_slot_is_reused() {
    let env = env();
    let inner = env.clone();
    env.run(async move {
        let (tx, mut rx) = channel::bounded::<u32>(4);
        let task = inner.spawn("holder", async move {
            let _held = tx;
            std::future::pending::<()>().await;
        });
        inner.yield_now().await;
        assert!(!task.is_finished());
        drop(task);
        assert_eq!(rx.recv().await, None, "dropping the task dropped its sender");
        let again = inner.spawn("again", async {});
        inner.yield_now().await;
        assert!(again.is_finished());
    });
}

#[test]
fn a_long_computation_lets_the_driver_in_between_turns() {
    let env = env();
    let inner = env.clone();
    env.run(async move {
        let (waiting, done) = (inner.clone(), Rc::new(Cell::new(0)));
        let (seen, is_over) = (Rc::clone(&done), Rc::new(Cell::new(false)));
        let over = Rc::clone(&is_over);
        // A timer fires only after the driver was asked.
        let _sleeper = inner.spawn("sleeper", async move {
            while !over.get() {
                waiting.sleep(Duration::from_nanos(1)).await;
                seen.set(seen.get() + 1);
            }
        });
        for _ in 0..64 * TURN_STEPS_MAX {
            inner.spend_steps(1).await;
        }
        is_over.set(true);
        assert!(done.get() >= 60, "64 turns, and {} times somebody else was asked", done.get());
        assert_eq!(inner.most_steps(), TURN_STEPS_MAX);
    });
}

#[test]
fn channels_bound_and_semaphores_queue_in_order() {
    let env = env();
    env.run(async move {
        let (tx, mut rx) = channel::bounded(1);
        tx.send(1).await.expect("there is room");
        assert_eq!(tx.try_send(2), Err(2));
        let sends = tx.send(3);
        let both = select(async { (rx.recv().await, rx.recv().await) }, async {
            sends.await.expect("the receiver lives");
            std::future::pending::<()>().await;
        });
        assert_eq!(both.await, Either::First((Some(1), Some(3))));

        let room = Semaphore::new(2);
        let all = room.acquire(2).await;
        let order = Rc::new(RefCell::new(Vec::new()));
        let waits = (0..3u64).map(|i| {
            let (room, order) = (room.clone(), Rc::clone(&order));
            async move {
                let _permit = room.acquire(1 + i % 2).await;
                order.borrow_mut().push(i);
            }
        });
        let release = async {
            drop(all);
        };
        select(async { join_all(waits.collect()).await }, async {
            release.await;
            std::future::pending::<()>().await;
        })
        .await;
        assert_eq!(*order.borrow(), [0, 1, 2]);
        assert_eq!(room.in_use(), 0);

        let notify = Notify::default();
        let before = notify.wait();
        notify.notify();
        before.await;
    });
}

#[test]
fn whoever_has_less_patience_goes_first_and_equals_in_turn() {
    let env = env();
    env.run(async move {
        let room = Semaphore::new(1);
        let all = room.acquire(1).await;
        let order = Rc::new(RefCell::new(Vec::new()));
        let waits = [2, 1, 2, 0, 1].into_iter().zip(0_u64..).map(|(patience, i)| {
            let (room, order) = (room.clone(), Rc::clone(&order));
            async move {
                let _permit = room.acquire_after(1, patience).await;
                order.borrow_mut().push(i);
            }
        });
        let waits = join_all(waits.collect());
        let release = async {
            assert_eq!(room.waiting(), 5);
            drop(all);
            std::future::pending::<()>().await;
        };
        select(waits, release).await;
        assert_eq!(*order.borrow(), [3, 1, 4, 0, 2]);
        assert_eq!((room.in_use(), room.waiting()), (0, 0));
    });
}

/// Somebody else has just been woken for the room that is free, and has not run yet.
#[test]
fn whoever_overtakes_takes_what_is_free_at_once() {
    let env = env();
    env.clone().run(async move {
        let room = Semaphore::new(1);
        let all = room.acquire(1).await;
        let order = Rc::new(RefCell::new(Vec::new()));
        let wait = |patience, before: Option<Permit>| {
            let (room, order) = (room.clone(), Rc::clone(&order));
            async move {
                drop(before);
                let _permit = room.acquire_after(1, patience).await;
                order.borrow_mut().push(patience);
            }
        };
        let _patient = env.spawn("patient", wait(1, None));
        env.sleep(Duration::from_secs(1)).await;
        let _urgent = env.spawn("urgent", wait(0, Some(all)));
        env.sleep(Duration::from_secs(1)).await;
        assert_eq!(*order.borrow(), [0, 1]);
    });
}

/// A driver whose clock the tasks move forward, as if by computing.
#[derive(Clone, Default)]
struct Computing(std::rc::Rc<Cell<u64>>);

impl Driver for Computing {
    fn now(&self) -> Instant {
        Instant(self.0.get())
    }
    fn wall(&self) -> WallTime {
        WallTime(0)
    }
    fn entropy(&mut self) -> u64 {
        7
    }
    fn submit(&mut self, _token: Token, op: Op) {
        panic!("no such device: {op:?}");
    }
    fn cancel(&mut self, _token: Token) {}
    fn park(&mut self, until: Option<Instant>, _done: &mut Vec<Completion>) {
        let until = until.expect("a deadlock: nothing ready and no timer");
        self.0.set(self.0.get().max(until.0));
    }
}

#[test]
fn a_long_poll_is_counted_and_the_longest_has_a_name() {
    let clock = Computing::default();
    let env = Env::new(Box::new(clock.clone()), Box::new(Fifo));
    let inner = env.clone();
    let computes = |name: &'static str, millis: &'static [u64]| {
        let (env, clock) = (env.clone(), clock.0.clone());
        env.clone().spawn(name, async move {
            for millis in millis {
                clock.set(clock.get() + millis * 1_000_000);
                // However long a task waits, no computing is counted.
                env.sleep(Duration::from_secs(7)).await;
            }
        })
    };
    let _tasks = [computes("quick", &[1, 19, 20, 3]), computes("slow", &[2, 50, 300, 21, 0])];
    assert_eq!(env.long_turns(), LongTurns::default());
    env.run(async move { inner.sleep(Duration::from_secs(100)).await });
    let LongTurns { count, longest, task, .. } = env.long_turns();
    assert_eq!((count, longest, task), (3, Duration::from_millis(300), "slow"));
}

#[test]
fn one_pass_in_a_hundred_of_each_stage_is_measured() {
    use crate::WriteStage::{Append, Turn};
    let env = env();
    let inner = env.clone();
    env.run(async move {
        for pass in 1..=201 {
            let since = inner.now();
            // Those that count take 7 us, all others a millisecond.
            let micros = if pass % 100 == 1 { 7 } else { 1000 };
            inner.sleep(Duration::from_micros(micros)).await;
            inner.passed(Turn, since);
        }
    });
    let turn = env.stage_times(Turn);
    assert_eq!((turn.passed, turn.latencies.count()), (201, 3));
    assert_eq!((turn.mean(), turn.latencies.max()), (Duration::from_micros(7), turn.mean()));
    assert_eq!(env.stage_times(Append).mean(), Duration::ZERO, "each stage counts for itself");
}
