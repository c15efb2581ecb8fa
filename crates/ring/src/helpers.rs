// SPDX-License-Identifier: Apache-2.0
//! Threads for the calls that would hold up the shard: opening and closing devices, looking at
//! them, asking what they are, and discarding on block devices.
//!
//! Each device has a lane, named by its path. The calls of a lane run one after the other, in
//! order. So a device that hangs takes one thread, and the others have the rest.
//!
//! There are at most [`THREADS_MAX`] threads and [`WAITING_MAX`] calls that wait. Threads are made
//! as they are needed and end with the driver. A call shares the descriptor that it works on, so
//! the descriptor stays open until the call ends, even if the driver ends first. A call brings one
//! answer, or none if it was cancelled before it began.

use crate::RingWaker;
use crate::disks::Opened;
use base::Map;
use env::{Hardware, IoError, Token};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Threads of one driver. Each device that hangs takes one. So many are enough for 8 groups of 8
/// devices to hang at once; with more, calls wait for a thread.
const THREADS_MAX: usize = 64;
/// Calls that may wait: 16 for each thread. A further call fails with [`IoError::Overloaded`],
/// unless it closes a device: there are no more of those than open devices.
const WAITING_MAX: usize = 1024;
/// The stack of a thread, bytes. The calls are little more than system calls.
const STACK: usize = 128 << 10;

/// What a call brought.
pub(crate) enum HelperAnswer {
    Opened(Result<Opened, IoError>),
    Size(Result<u64, IoError>),
    Hardware(Hardware),
    Unit(Result<(), IoError>),
}

/// A call that a helper thread makes.
pub(crate) type HelperCall = Box<dyn FnOnce() -> HelperAnswer + Send>;

struct Job {
    name: u64,
    /// Who waits for the answer; `None`: nobody.
    token: Option<Token>,
    call: HelperCall,
}

/// The calls of one device that have not begun. A lane exists while it has such calls, or one under
/// way.
type Lane = VecDeque<Job>;

/// A call on its way to a thread.
struct Begun {
    name: u64,
    call: HelperCall,
}

/// All helper threads of a driver.
pub(crate) struct Helpers {
    to_threads: Sender<Begun>,
    begun: Arc<Mutex<Receiver<Begun>>>,
    to_driver: Sender<(u64, HelperAnswer)>,
    answers: Receiver<(u64, HelperAnswer)>,
    lanes: Map<String, Lane>,
    /// Lane and token of each call that was given to the threads, by the call's name.
    running: Map<u64, (String, Option<Token>)>,
    /// Lanes whose next call waits for a thread.
    ready: VecDeque<String>,
    threads: usize,
    waiting: usize,
    name_next: u64,
}

impl Default for Helpers {
    fn default() -> Self {
        let (to_threads, begun) = channel();
        let (to_driver, answers) = channel();
        Self {
            to_threads,
            begun: Arc::new(Mutex::new(begun)),
            to_driver,
            answers,
            lanes: Map::new(),
            running: Map::new(),
            ready: VecDeque::new(),
            threads: 0,
            waiting: 0,
            name_next: 0,
        }
    }
}

impl Helpers {
    /// Takes in a call that somebody waits for. False if too many calls wait already.
    pub(crate) fn submit(
        &mut self,
        lane: &str,
        token: Token,
        waker: &RingWaker,
        call: HelperCall,
    ) -> bool {
        let has_room = self.waiting < WAITING_MAX;
        if has_room {
            self.enqueue(lane, Some(token), waker, call);
        }
        has_room
    }

    /// Takes in a call that nobody waits for.
    pub(crate) fn submit_detached(&mut self, lane: &str, waker: &RingWaker, call: HelperCall) {
        self.enqueue(lane, None, waker, call);
    }

    fn enqueue(&mut self, path: &str, token: Option<Token>, waker: &RingWaker, call: HelperCall) {
        self.name_next += 1;
        let job = Job { name: self.name_next, token, call };
        self.waiting += 1;
        match self.lanes.get_mut(path) {
            Some(lane) => lane.push_back(job),
            None => {
                self.lanes.insert(path.to_owned(), VecDeque::from([job]));
                self.ready.push_back(path.to_owned());
            }
        }
        self.begin(waker);
    }

    /// Gives calls to threads, as long as there are calls and idle threads.
    fn begin(&mut self, waker: &RingWaker) {
        while !self.ready.is_empty() && self.has_thread(waker) {
            let Some(path) = self.ready.pop_front() else { return };
            let next = self.lanes.get_mut(&path).and_then(VecDeque::pop_front);
            let Some(Job { name, token, call }) = next else {
                self.lanes.remove(&path); // all was cancelled
                continue;
            };
            self.waiting -= 1;
            self.running.insert(name, (path, token));
            // This cannot fail: we hold the receiver ourselves.
            let _ = self.to_threads.send(Begun { name, call });
        }
    }

    /// Whether a thread is idle. Makes a new one if none is and there may be more.
    fn has_thread(&mut self, waker: &RingWaker) -> bool {
        if self.running.len() < self.threads {
            return true;
        }
        if self.threads == THREADS_MAX {
            return false;
        }
        let (begun, answers) = (Arc::clone(&self.begun), self.to_driver.clone());
        let waker = waker.clone();
        let builder = std::thread::Builder::new().name("device calls".to_owned());
        let made = builder.stack_size(STACK).spawn(move || serve(&begun, &answers, &waker));
        // If no thread can be made, the call waits for one that is made or idle later.
        self.threads += usize::from(made.is_ok());
        made.is_ok()
    }

    /// Takes a call back that has not begun. False if it has begun, or is not known.
    pub(crate) fn cancel(&mut self, token: Token) -> bool {
        for lane in self.lanes.values_mut() {
            let Some(at) = lane.iter().position(|job| job.token == Some(token)) else { continue };
            lane.remove(at);
            self.waiting -= 1;
            return true;
        }
        false
    }

    /// Whether no call is under way or waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty() && self.waiting == 0
    }

    /// The next answer, if one is there.
    pub(crate) fn next(&mut self, waker: &RingWaker) -> Option<(Option<Token>, HelperAnswer)> {
        if self.is_idle() {
            return None;
        }
        self.begin(waker); // a thread that could not be made before
        let (name, answer) = self.answers.try_recv().ok()?;
        Some((self.end(name, waker), answer))
    }

    fn end(&mut self, name: u64, waker: &RingWaker) -> Option<Token> {
        let Some((path, token)) = self.running.remove(&name) else {
            unreachable!("a call that ends has begun, and ends once")
        };
        match self.lanes.get(&path) {
            Some(lane) if !lane.is_empty() => self.ready.push_back(path),
            _ => _ = self.lanes.remove(&path),
        }
        self.begin(waker);
        token
    }

    /// Forgets the calls that have not begun and that somebody waits for. Waits at most `most` for
    /// the others to end. A call that hangs longer keeps its thread and what it owns.
    pub(crate) fn drain(&mut self, waker: &RingWaker, most: Duration) {
        for lane in self.lanes.values_mut() {
            let before = lane.len();
            lane.retain(|job| job.token.is_none());
            self.waiting -= before - lane.len();
        }
        let begun = Instant::now();
        while !self.is_idle() {
            self.begin(waker);
            match self.answers.recv_timeout(most.saturating_sub(begun.elapsed())) {
                Ok((name, answer)) => {
                    drop(answer);
                    self.end(name, waker);
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

/// The loop of a thread: makes call after call until the driver is gone.
fn serve(begun: &Mutex<Receiver<Begun>>, answers: &Sender<(u64, HelperAnswer)>, waker: &RingWaker) {
    loop {
        let next = begun.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Begun { name, call }) = next else { return };
        let answer = call();
        if answers.send((name, answer)).is_err() {
            return;
        }
        waker.wake();
    }
}

#[cfg(test)]
mod tests;
