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

/// A bound on something that is counted, such as bytes in flight. First come, first served, but for
/// those who say that they can wait longer than others. Clones share the room.
#[derive(Clone)]
pub struct Semaphore(Rc<RefCell<Room>>);

struct Room {
    free: u64,
    total: u64,
    /// By patience, and among equals by ticket.
    queue: VecDeque<Waiter>,
    ticket: u64,
}

struct Waiter {
    ticket: u64,
    units: u64,
    patience: usize,
    waker: Waker,
}

impl Semaphore {
    /// Room for `total` units.
    ///
    /// # Panics
    /// Where that is none: everybody would pass, for nobody is asked for more than there is.
    #[must_use]
    pub fn new(total: u64) -> Self {
        assert!(total > 0, "a semaphore has room for something");
        let room = Room { free: total, total, queue: VecDeque::new(), ticket: 0 };
        Self(Rc::new(RefCell::new(room)))
    }

    /// Waits for `units` of room. Whoever asks for more than the total gets the total. If the
    /// future is dropped, it leaves the queue.
    pub async fn acquire(&self, units: u64) -> Permit {
        self.acquire_after(units, 0).await
    }

    /// As [`Self::acquire`], but whoever has less `patience` goes first, also who comes later.
    pub async fn acquire_after(&self, units: u64, patience: usize) -> Permit {
        let units = units.min(self.0.borrow().total);
        let mut place = Place { room: &self.0, ticket: None };
        poll_fn(|cx| {
            let mut room = self.0.borrow_mut();
            // Where it is, or would be.
            let at = match place.ticket {
                None => room.queue.partition_point(|other| other.patience <= patience),
                Some(mine) => room.queue.iter().take_while(|other| other.ticket != mine).count(),
            };
            // Whoever comes to the front takes what is free at once: only those who wait are woken.
            if at == 0 && room.free >= units {
                room.free -= units;
                return Poll::Ready(());
            }
            match place.ticket {
                None => {
                    room.ticket += 1;
                    let ticket = room.ticket;
                    let waker = cx.waker().clone();
                    room.queue.insert(at, Waiter { ticket, units, patience, waker });
                    place.ticket = Some(ticket);
                }
                Some(mine) => {
                    if let Some(waiter) = room.queue.get_mut(at) {
                        assert!(waiter.ticket == mine, "a place in the queue was lost");
                        waiter.waker.clone_from(cx.waker());
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
            room.queue
                .front()
                .filter(|first| first.units <= room.free)
                .map(|first| first.waker.clone())
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
            self.room.borrow_mut().queue.retain(|one| one.ticket != mine);
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
