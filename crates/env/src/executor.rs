// SPDX-License-Identifier: Apache-2.0
//! The single-threaded executor of one shard.
//!
//! Guarantees:
//! - Tasks run one at a time, on one thread.
//! - Time stands still within a turn.
//! - Reads, writes, flushes, discards, sends and receives start when they are called, in the order
//!   of the calls. All other operations (such as opening or accepting) start at their first poll.
//! - The buffer of an operation lives until its completion, also if its future is dropped.
//! - Reads, writes, flushes, discards and sends go on if their future is dropped. All other
//!   operations are cancelled then if possible, and whatever they opened is closed again.

use crate::buf::{Buf, Pool};
use crate::driver::{Completion, Done, Driver, IoError, Op, Token};
use crate::meter::Metered;
use crate::stages::{StageTimes, Stages, WriteStage};
use crate::turn::Turn;
use base::{Instant, LateFrame, Quirk, Rng, WallTime};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Polls before the driver is asked again, so that many ready tasks cannot hold up I/O.
const TURN_POLLS_MAX: usize = 4096;

/// Decides which of the ready tasks runs next.
pub trait Schedule {
    /// The place of the next task among `ready` ones, below `ready`. `ready` is at least 1. Place 0
    /// is the task that was woken first.
    fn pick(&mut self, ready: usize) -> usize;
}

/// Runs first the task that was woken first: the order in the real world.
#[derive(Debug, Default)]
pub struct Fifo;

impl Schedule for Fifo {
    fn pick(&mut self, _ready: usize) -> usize {
        0
    }
}

/// The handle to one shard: its tasks, timers, buffers and driver. Cheap to clone; it never leaves
/// the shard's thread.
#[derive(Clone)]
pub struct Env(pub(crate) Rc<Shard>);

pub(crate) struct Shard {
    driver: RefCell<Box<dyn Driver>>,
    schedule: RefCell<Box<dyn Schedule>>,
    now: Cell<Instant>,
    ready: Arc<ReadyQueue>,
    tasks: RefCell<Vec<TaskSlot>>,
    tasks_free: RefCell<Vec<u32>>,
    ops: RefCell<Vec<OpSlot>>,
    ops_free: RefCell<Vec<u32>>,
    timers: RefCell<BTreeMap<(Instant, u64), Waker>>,
    timer_next: Cell<u64>,
    rng: RefCell<Rng>,
    pool: Pool,
    pub(crate) turn: Turn,
    stopped: Cell<bool>,
    watchdog: watchdog::Watchdog,
    stages: Stages,
}

/// A future behind a pointer.
///
/// An `async` function is compiled again by each crate that awaits it, with all that it awaits
/// itself. A plain function that returns this is compiled once, in its own crate. So functions with
/// much behind them return it where other crates call them, and requests do not.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

struct TaskSlot {
    generation: u32,
    live: bool,
    name: &'static str,
    /// What is polled, with the waker that each poll gets. `None` while it is polled, and at its
    /// end.
    future: Option<(Boxed<'static, ()>, Waker)>,
    waker: Arc<TaskWaker>,
}

struct OpSlot {
    generation: u32,
    state: OpState,
    /// What is measured, for operations on a device.
    metered: Option<Metered>,
}

enum OpState {
    Free,
    Waiting(Option<Waker>),
    /// The device has not answered, but whoever waits is told that there is no answer.
    GivenUp,
    Done(Completion),
    Abandoned,
}

/// The tasks that are ready. Rust's rules demand that wakers can be sent to other threads, hence
/// the lock. Ours never leave their thread, so nobody ever waits for the lock.
#[expect(clippy::disallowed_types, reason = "std::task::Waker demands Send + Sync")]
struct ReadyQueue(std::sync::Mutex<VecDeque<(u32, u32)>>);

impl ReadyQueue {
    fn with<T>(&self, f: impl FnOnce(&mut VecDeque<(u32, u32)>) -> T) -> T {
        match self.0.lock() {
            Ok(mut queue) => f(&mut queue),
            Err(poisoned) => f(&mut poisoned.into_inner()),
        }
    }
}

struct TaskWaker {
    id: u32,
    generation: u32,
    queued: AtomicBool,
    ready: Arc<ReadyQueue>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.ready.with(|queue| queue.push_back((self.id, self.generation)));
        }
    }
}

impl Env {
    /// A shard over `driver`. `schedule` decides the order of its tasks.
    #[must_use]
    #[expect(clippy::disallowed_types, reason = "see ReadyQueue")]
    pub fn new(mut driver: Box<dyn Driver>, schedule: Box<dyn Schedule>) -> Self {
        let rng = Rng::new(driver.entropy());
        let now = driver.now();
        Self(Rc::new(Shard {
            driver: RefCell::new(driver),
            schedule: RefCell::new(schedule),
            now: Cell::new(now),
            ready: Arc::new(ReadyQueue(std::sync::Mutex::new(VecDeque::new()))),
            tasks: RefCell::default(),
            tasks_free: RefCell::default(),
            ops: RefCell::default(),
            ops_free: RefCell::default(),
            timers: RefCell::default(),
            timer_next: Cell::new(0),
            rng: RefCell::new(rng),
            pool: Pool::default(),
            turn: Turn::default(),
            stopped: Cell::new(false),
            watchdog: watchdog::Watchdog::default(),
            stages: Stages::default(),
        }))
    }

    /// A write has gone through `stage`, which it came to at `since`.
    pub fn passed(&self, stage: WriteStage, since: Instant) {
        self.0.stages.passed(stage, self.now().since(since));
    }

    /// What is known of a stage.
    #[must_use]
    pub fn stage_times(&self, stage: WriteStage) -> StageTimes {
        self.0.stages.times(stage)
    }

    /// The time when this turn began. It does not move within the turn.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.0.now.get()
    }

    /// The time of day, for people and logs. No decision may rest on it.
    #[must_use]
    pub fn wall(&self) -> WallTime {
        self.0.driver.borrow().wall()
    }

    /// Whether a rare path is to be taken here without need. Only the simulation says yes
    /// ([`Quirk`]).
    #[must_use]
    pub fn quirk(&self, quirk: Quirk) -> bool {
        self.0.driver.borrow_mut().quirk(quirk)
    }

    /// How long a frame of this kind is held back here. Only the simulation ever holds one back
    /// ([`LateFrame`]).
    #[must_use]
    pub fn delay_of(&self, frame: LateFrame) -> Duration {
        self.0.driver.borrow_mut().delay_of(frame)
    }

    /// 64 random bits, for identities and jitter.
    #[must_use]
    pub fn random(&self) -> u64 {
        self.0.rng.borrow_mut().next_u64()
    }

    /// The shard's buffer pool.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.0.pool
    }

    /// A buffer of `len` bytes with unspecified content.
    #[must_use]
    pub fn buf(&self, len: usize) -> Buf {
        self.0.pool.take(len)
    }

    /// Starts a task. It runs until it ends, its [`Task`] is dropped, or the shard stops. After
    /// [`Env::stop`] nothing is started.
    #[must_use = "a dropped Task stops"]
    pub fn spawn(&self, name: &'static str, future: impl Future<Output = ()> + 'static) -> Task {
        let shard = &self.0;
        if shard.stopped.get() {
            return Task { shard: Weak::new(), id: 0, generation: 0 };
        }
        let id = shard.tasks_free.borrow_mut().pop();
        let mut tasks = shard.tasks.borrow_mut();
        let id = id.unwrap_or_else(|| u32::try_from(tasks.len()).unwrap_or(u32::MAX));
        let generation = tasks.get(id as usize).map_or(0, |slot| slot.generation + 1);
        let waker = Arc::new(TaskWaker {
            id,
            generation,
            queued: AtomicBool::new(false),
            ready: Arc::clone(&shard.ready),
        });
        let slot = TaskSlot {
            generation,
            live: true,
            name,
            future: Some((Box::pin(future), Waker::from(Arc::clone(&waker)))),
            waker: Arc::clone(&waker),
        };
        match tasks.get_mut(id as usize) {
            Some(place) => *place = slot,
            None => tasks.push(slot),
        }
        drop(tasks);
        waker.wake();
        Task { shard: Rc::downgrade(shard), id, generation }
    }

    /// Names of the tasks that have not ended, for diagnosis.
    #[must_use]
    pub fn task_names(&self) -> Vec<&'static str> {
        self.0.tasks.borrow().iter().filter(|slot| slot.live).map(|slot| slot.name).collect()
    }

    /// Runs the shard until `future` is done. For the real world only: in a simulation the world
    /// calls [`Env::turn`].
    pub fn run<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> T {
        // Time may have passed since the last run. The future begins in the present.
        self.0.now.set(self.0.driver.borrow().now());
        let result = Rc::new(RefCell::new(None));
        let place = Rc::clone(&result);
        let _main = self.spawn("main", async move {
            let value = future.await;
            *place.borrow_mut() = Some(value);
        });
        let mut done = Vec::new();
        loop {
            self.run_ready();
            if let Some(value) = result.borrow_mut().take() {
                return value;
            }
            let until = if self.has_ready() { Some(Instant(0)) } else { self.next_deadline() };
            self.park(until, &mut done);
        }
    }

    /// For simulation: takes in what has completed, and runs tasks until none is ready. Returns
    /// when the next timer is due, if there is one.
    pub fn turn(&self) -> Option<Instant> {
        let mut done = Vec::new();
        self.park(Some(Instant(0)), &mut done);
        while self.has_ready() {
            self.run_ready();
            self.park(Some(Instant(0)), &mut done);
        }
        self.next_deadline()
    }

    /// Drops every task and refuses new ones. This is a clean end, or a crash in simulation.
    pub fn stop(&self) {
        self.0.stopped.set(true);
        loop {
            let slot = {
                let mut tasks = self.0.tasks.borrow_mut();
                tasks.iter_mut().find_map(|slot| slot.future.take())
            };
            match slot {
                Some(future) => drop(future),
                None => break,
            }
        }
        self.0.timers.borrow_mut().clear();
        self.0.ops.borrow_mut().clear();
    }

    fn park(&self, until: Option<Instant>, done: &mut Vec<Completion>) {
        self.0.driver.borrow_mut().park(until, done);
        self.0.now.set(self.0.driver.borrow().now());
        for completion in done.drain(..) {
            self.complete(completion);
        }
        self.fire_timers();
        self.0.turn.begin();
    }

    fn has_ready(&self) -> bool {
        self.0.turn.is_any_resting() || self.0.ready.with(|queue| !queue.is_empty())
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.0.timers.borrow().keys().next().map(|(at, _)| *at)
    }

    fn run_ready(&self) {
        self.begin_polls();
        for _ in 0..TURN_POLLS_MAX {
            let next = self.0.ready.with(|queue| {
                if queue.is_empty() {
                    return None;
                }
                let index = self.0.schedule.borrow_mut().pick(queue.len());
                queue.swap(0, index);
                queue.pop_front()
            });
            let Some((id, generation)) = next else { return };
            self.poll_task(id, generation);
            self.end_poll(id);
        }
    }

    fn poll_task(&self, id: u32, generation: u32) {
        let (mut future, waker) = {
            let mut tasks = self.0.tasks.borrow_mut();
            let Some(slot) = tasks.get_mut(id as usize) else { return };
            if slot.generation != generation || !slot.live {
                return;
            }
            slot.waker.queued.store(false, Ordering::Relaxed);
            let Some(future) = slot.future.take() else { return };
            future
        };
        let poll = future.as_mut().poll(&mut Context::from_waker(&waker));
        let mut tasks = self.0.tasks.borrow_mut();
        let slot = &mut tasks[id as usize];
        if poll.is_pending() && slot.live {
            slot.future = Some((future, waker));
            return;
        }
        slot.live = false;
        drop(tasks);
        drop(future);
        self.0.tasks_free.borrow_mut().push(id);
    }

    fn fire_timers(&self) {
        let now = self.now();
        loop {
            let waker = {
                let mut timers = self.0.timers.borrow_mut();
                match timers.first_entry() {
                    Some(entry) if entry.key().0 <= now => entry.remove(),
                    _ => return,
                }
            };
            waker.wake();
        }
    }

    pub(crate) fn timer_add(&self, at: Instant, waker: Waker) -> (Instant, u64) {
        let key = (at, self.0.timer_next.get());
        self.0.timer_next.set(key.1 + 1);
        self.0.timers.borrow_mut().insert(key, waker);
        key
    }

    pub(crate) fn timer_remove(&self, key: (Instant, u64)) {
        self.0.timers.borrow_mut().remove(&key);
    }

    /// Submits `op` now. The future resolves to its result and the buffer that comes back.
    pub(crate) fn submit(&self, op: Op) -> OpFuture {
        let cancel_on_drop = matches!(
            op,
            Op::Accept { .. }
                | Op::Recv { .. }
                | Op::Dial { .. }
                | Op::OpenDisk(_)
                | Op::LookAtDisk { .. }
                | Op::AskHardware { .. }
        );
        let token = self.reserve_op(OpState::Waiting(None));
        self.0.driver.borrow_mut().submit(token, op);
        OpFuture { env: self.clone(), token, cancel_on_drop, finished: false }
    }

    /// Submits an operation whose outcome nobody waits for.
    pub(crate) fn submit_detached(&self, op: Op) {
        if self.0.stopped.get() {
            return;
        }
        // This is called by destructors. They may run while `park` hands out completions, but never
        // inside the driver, so the driver can be borrowed.
        let token = self.reserve_op(OpState::Abandoned);
        self.0.driver.borrow_mut().submit(token, op);
    }

    fn reserve_op(&self, state: OpState) -> Token {
        let mut ops = self.0.ops.borrow_mut();
        let index = self.0.ops_free.borrow_mut().pop().filter(|i| (*i as usize) < ops.len());
        let index = index.unwrap_or_else(|| {
            ops.push(OpSlot { generation: 0, state: OpState::Free, metered: None });
            u32::try_from(ops.len() - 1).unwrap_or(u32::MAX)
        });
        let slot = &mut ops[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.state = state;
        Token(u64::from(slot.generation) << 32 | u64::from(index))
    }

    fn complete(&self, completion: Completion) {
        let token = completion.token;
        let index = (token.0 & u64::from(u32::MAX)) as usize;
        let mut ops = self.0.ops.borrow_mut();
        let Some(slot) = ops.get_mut(index) else { return };
        if u64::from(slot.generation) != token.0 >> 32 {
            return;
        }
        if let Some(metered) = slot.metered.take() {
            metered.end(self.now());
        }
        match std::mem::replace(&mut slot.state, OpState::Free) {
            OpState::GivenUp => {
                let result = Err(IoError::NoAnswer);
                slot.state = OpState::Done(Completion { result, buf: None, ..completion });
            }
            OpState::Waiting(waker) => {
                slot.state = OpState::Done(completion);
                drop(ops);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            OpState::Abandoned => {
                drop(ops);
                self.free_op(token);
                self.close_orphan(&completion);
            }
            OpState::Free | OpState::Done(_) => unreachable!("an operation completed twice"),
        }
    }

    /// Closes a link, disk or listener again whose future was dropped before it came.
    fn close_orphan(&self, completion: &Completion) {
        match completion.result {
            Ok(Done::Link(link) | Done::Caller(link, _)) => {
                self.submit_detached(Op::Close { link });
            }
            Ok(Done::Disk(disk, _)) => self.submit_detached(Op::CloseDisk { disk }),
            Ok(Done::Listener(listener, _)) => {
                self.submit_detached(Op::CloseListener { listener });
            }
            _ => {}
        }
    }

    fn free_op(&self, token: Token) {
        let index = u32::try_from(token.0 & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        self.0.ops_free.borrow_mut().push(index);
    }
}

/// The outcome of one submitted operation. If it is dropped, some operations are cancelled
/// (`cancel_on_drop`); the others go on.
pub(crate) struct OpFuture {
    env: Env,
    token: Token,
    cancel_on_drop: bool,
    finished: bool,
}

impl Future for OpFuture {
    type Output = (Result<Done, IoError>, Option<Buf>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let index = (self.token.0 & u64::from(u32::MAX)) as usize;
        let completion = {
            let mut ops = self.env.0.ops.borrow_mut();
            let Some(slot) = ops.get_mut(index) else { return Poll::Pending };
            if let OpState::Waiting(waker) = &mut slot.state {
                match waker {
                    Some(waker) => waker.clone_from(cx.waker()),
                    None => *waker = Some(cx.waker().clone()),
                }
                return Poll::Pending;
            }
            match std::mem::replace(&mut slot.state, OpState::Free) {
                OpState::Done(completion) => Some(completion),
                OpState::GivenUp => {
                    slot.state = OpState::Abandoned;
                    None
                }
                _ => unreachable!("an operation polled after its end"),
            }
        };
        self.finished = true;
        let Some(completion) = completion else {
            return Poll::Ready((Err(IoError::NoAnswer), None));
        };
        self.env.free_op(self.token);
        Poll::Ready((completion.result, completion.buf))
    }
}

impl Drop for OpFuture {
    fn drop(&mut self) {
        if self.finished || self.env.0.stopped.get() {
            return;
        }
        let index = (self.token.0 & u64::from(u32::MAX)) as usize;
        let state = {
            let mut ops = self.env.0.ops.borrow_mut();
            let Some(slot) = ops.get_mut(index) else { return };
            std::mem::replace(&mut slot.state, OpState::Abandoned)
        };
        match state {
            OpState::Done(completion) => {
                self.env.0.ops.borrow_mut()[index].state = OpState::Free;
                self.env.free_op(self.token);
                self.env.close_orphan(&completion);
            }
            _ if self.cancel_on_drop => self.env.0.driver.borrow_mut().cancel(self.token),
            _ => {}
        }
    }
}

/// Owns a task. If it is dropped, the task stops at the await where it stands.
#[must_use = "a dropped Task stops"]
pub struct Task {
    shard: Weak<Shard>,
    id: u32,
    generation: u32,
}

impl Task {
    /// Whether the task has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        let Some(shard) = self.shard.upgrade() else { return true };
        let tasks = shard.tasks.borrow();
        tasks.get(self.id as usize).is_none_or(|s| s.generation != self.generation || !s.live)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let Some(shard) = self.shard.upgrade() else { return };
        let Ok(mut tasks) = shard.tasks.try_borrow_mut() else { return };
        let Some(slot) = tasks.get_mut(self.id as usize) else { return };
        if slot.generation != self.generation || !slot.live {
            return;
        }
        slot.live = false;
        let future = slot.future.take();
        drop(tasks);
        // A task that drops its own handle is being polled. `poll_task` then frees the slot.
        if let Some(future) = future {
            drop(future);
            shard.tasks_free.borrow_mut().push(self.id);
        }
    }
}

mod metered;
mod task_set;
#[cfg(test)]
mod tests;
mod watchdog;

pub use task_set::TaskSet;
pub use watchdog::{LONG_TURN, LongTurns};
