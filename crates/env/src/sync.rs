// SPDX-License-Identifier: Apache-2.0
//! How the tasks of one shard wait for a condition, or for room.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Wakes the tasks that wait for a condition. Use, in a loop:
/// `let changed = notify.wait(); if !condition { changed.await }`.
/// A change between `wait()` and `.await` is not lost. Clones share the waiters.
#[derive(Clone, Default)]
pub struct Notify(Rc<NotifyInner>);

#[derive(Default)]
struct NotifyInner {
    epoch: Cell<u64>,
    waiters: RefCell<Vec<Waker>>,
}

impl Notify {
    /// Wakes every task that waits.
    pub fn notify(&self) {
        self.0.epoch.set(self.0.epoch.get() + 1);
        let waiters = std::mem::take(&mut *self.0.waiters.borrow_mut());
        for waker in waiters {
            waker.wake();
        }
    }

    /// Resolves at the first [`Notify::notify`] after this call, even if it comes before the await.
    pub fn wait(&self) -> impl Future<Output = ()> + use<> {
        let inner = Rc::clone(&self.0);
        let epoch = inner.epoch.get();
        poll_fn(move |cx| {
            if inner.epoch.get() != epoch {
                return Poll::Ready(());
            }
            let mut waiters = inner.waiters.borrow_mut();
            if !waiters.iter().any(|waker| waker.will_wake(cx.waker())) {
                waiters.push(cx.waker().clone());
            }
            Poll::Pending
        })
    }
}

/// A bound on something that is counted, such as bytes in flight. First come, first served. Clones
/// share the room.
#[derive(Clone)]
pub struct Semaphore(Rc<RefCell<Room>>);

struct Room {
    free: u64,
    total: u64,
    queue: VecDeque<(u64, u64, Waker)>,
    ticket: u64,
}

impl Semaphore {
    /// Room for `total` units.
    #[must_use]
    pub fn new(total: u64) -> Self {
        let room = Room { free: total, total, queue: VecDeque::new(), ticket: 0 };
        Self(Rc::new(RefCell::new(room)))
    }

    /// Waits for `units` of room. Whoever asks for more than the total gets the total. If the
    /// future is dropped, it leaves the queue.
    pub async fn acquire(&self, units: u64) -> Permit {
        let units = units.min(self.0.borrow().total);
        let mut place = Place { room: &self.0, ticket: None };
        poll_fn(|cx| {
            let mut room = self.0.borrow_mut();
            let first = match place.ticket {
                None => room.queue.is_empty(),
                Some(mine) => room.queue.front().is_some_and(|entry| entry.0 == mine),
            };
            if first && room.free >= units {
                room.free -= units;
                return Poll::Ready(());
            }
            match place.ticket {
                None => {
                    room.ticket += 1;
                    let ticket = room.ticket;
                    room.queue.push_back((ticket, units, cx.waker().clone()));
                    place.ticket = Some(ticket);
                }
                Some(mine) => {
                    if let Some(entry) = room.queue.iter_mut().find(|entry| entry.0 == mine) {
                        entry.2.clone_from(cx.waker());
                    }
                }
            }
            Poll::Pending
        })
        .await;
        drop(place);
        Permit { room: self.clone(), units }
    }

    /// Takes `units` of room at once, if there is so much and nobody waits for room.
    #[must_use]
    pub fn try_acquire(&self, units: u64) -> Option<Permit> {
        let mut room = self.0.borrow_mut();
        let is_free = room.queue.is_empty() && room.free >= units;
        room.free -= if is_free { units } else { 0 };
        drop(room);
        is_free.then(|| Permit { room: self.clone(), units })
    }

    /// Units in use.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        let room = self.0.borrow();
        room.total - room.free
    }

    /// How many requests wait for room.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.0.borrow().queue.len() as u64
    }

    fn wake_first(room: &RefCell<Room>) {
        let waker = {
            let room = room.borrow();
            room.queue.front().filter(|entry| entry.1 <= room.free).map(|entry| entry.2.clone())
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A place in the queue. It is left when the acquire ends or is dropped.
struct Place<'a> {
    room: &'a RefCell<Room>,
    ticket: Option<u64>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(mine) = self.ticket {
            self.room.borrow_mut().queue.retain(|entry| entry.0 != mine);
            Semaphore::wake_first(self.room);
        }
    }
}

/// Room that is held. It is given back on drop.
pub struct Permit {
    room: Semaphore,
    units: u64,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.room.0.borrow_mut().free += self.units;
        Semaphore::wake_first(&self.room.0);
    }
}
