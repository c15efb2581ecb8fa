// SPDX-License-Identifier: Apache-2.0
//! Channels between the tasks of one shard.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

struct Queue<T> {
    items: VecDeque<T>,
    capacity: usize,
    senders: usize,
    receiver_gone: bool,
    recv_waker: Option<Waker>,
    send_wakers: Vec<Waker>,
}

/// The sending end of a bounded queue.
pub struct Sender<T>(Rc<RefCell<Queue<T>>>);
/// The receiving end of a bounded queue.
pub struct Receiver<T>(Rc<RefCell<Queue<T>>>);

/// A queue that holds at most `capacity` items, which must not be 0. While it is full, senders
/// wait.
#[must_use]
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "a queue without room passes nothing");
    let queue = Rc::new(RefCell::new(Queue {
        items: VecDeque::new(),
        capacity,
        senders: 1,
        receiver_gone: false,
        recv_waker: None,
        send_wakers: Vec::new(),
    }));
    (Sender(Rc::clone(&queue)), Receiver(queue))
}

impl<T> Sender<T> {
    /// Puts an item into the queue if it has room and the receiver is there.
    ///
    /// # Errors
    /// Gives the item back otherwise.
    pub fn try_send(&self, item: T) -> Result<(), T> {
        let mut queue = self.0.borrow_mut();
        if queue.receiver_gone || queue.items.len() >= queue.capacity {
            return Err(item);
        }
        queue.items.push_back(item);
        let waker = queue.recv_waker.take();
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// Waits for room, then puts the item into the queue. If the future is dropped before that, the
    /// item is lost.
    ///
    /// # Errors
    /// Gives the item back when the receiver is gone.
    pub async fn send(&self, item: T) -> Result<(), T> {
        let mut item = Some(item);
        poll_fn(|cx| {
            let Some(value) = item.take() else { return Poll::Ready(Ok(())) };
            match self.try_send(value) {
                Ok(()) => Poll::Ready(Ok(())),
                Err(value) if self.0.borrow().receiver_gone => Poll::Ready(Err(value)),
                Err(value) => {
                    item = Some(value);
                    self.0.borrow_mut().send_wakers.push(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// How many items wait in the queue.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.borrow().items.len()
    }

    /// Whether the queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.borrow_mut().senders += 1;
        Self(Rc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut queue = self.0.borrow_mut();
        queue.senders -= 1;
        let waker = if queue.senders == 0 { queue.recv_waker.take() } else { None };
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Receiver<T> {
    /// The next item, or `None` when the queue is empty and every sender is gone. If the future is
    /// dropped, no item is lost.
    pub async fn recv(&mut self) -> Option<T> {
        poll_fn(|cx| {
            if let Some(item) = self.try_recv() {
                return Poll::Ready(Some(item));
            }
            let mut queue = self.0.borrow_mut();
            if queue.senders == 0 {
                return Poll::Ready(None);
            }
            queue.recv_waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// The next item, if one is in the queue now.
    pub fn try_recv(&mut self) -> Option<T> {
        let mut queue = self.0.borrow_mut();
        let item = queue.items.pop_front()?;
        let wakers = std::mem::take(&mut queue.send_wakers);
        drop(queue);
        for waker in wakers {
            waker.wake();
        }
        Some(item)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut queue = self.0.borrow_mut();
        queue.receiver_gone = true;
        let items = std::mem::take(&mut queue.items);
        let wakers = std::mem::take(&mut queue.send_wakers);
        drop(queue);
        drop(items);
        for waker in wakers {
            waker.wake();
        }
    }
}

struct Single<T> {
    value: Option<T>,
    sender_gone: bool,
    waker: Option<Waker>,
}

/// The sending end of a channel for one value.
pub struct OneSender<T>(Rc<RefCell<Single<T>>>);
/// The receiving end of a channel for one value.
pub struct OneReceiver<T>(Rc<RefCell<Single<T>>>);

/// A channel for one value.
#[must_use]
pub fn oneshot<T>() -> (OneSender<T>, OneReceiver<T>) {
    let single = Rc::new(RefCell::new(Single { value: None, sender_gone: false, waker: None }));
    (OneSender(Rc::clone(&single)), OneReceiver(single))
}

/// Channels for one value each, whose memory is used again once both ends are gone: for whoever
/// makes one for every request.
pub struct Oneshots<T>(RefCell<VecDeque<Rc<RefCell<Single<T>>>>>);

/// Channels that a [`Oneshots`] remembers, at most; further ones are made and forgotten.
const ONESHOTS_MAX: usize = 4096;

impl<T> Default for Oneshots<T> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<T> Oneshots<T> {
    /// A channel as [`oneshot`] makes it.
    #[must_use]
    pub fn make(&self) -> (OneSender<T>, OneReceiver<T>) {
        let mut made = self.0.borrow_mut();
        // Most requests end in the order in which they began: the oldest is free first.
        let is_free = made.front().is_some_and(|single| Rc::strong_count(single) == 1);
        let known = if is_free { made.pop_front() } else { None };
        let new = Single { value: None, sender_gone: false, waker: None };
        let single = match known {
            Some(single) => {
                *single.borrow_mut() = new;
                single
            }
            None => Rc::new(RefCell::new(new)),
        };
        if made.len() < ONESHOTS_MAX {
            made.push_back(Rc::clone(&single));
        }
        (OneSender(Rc::clone(&single)), OneReceiver(single))
    }
}

impl<T> OneSender<T> {
    /// Hands the value over. If the receiver is gone, the value is dropped.
    pub fn send(self, value: T) {
        self.0.borrow_mut().value = Some(value);
    }
}

impl<T> Drop for OneSender<T> {
    fn drop(&mut self) {
        let mut single = self.0.borrow_mut();
        single.sender_gone = true;
        let waker = single.waker.take();
        drop(single);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> OneReceiver<T> {
    /// Waits for the value; `None` if the sender was dropped without sending one.
    pub async fn recv(self) -> Option<T> {
        poll_fn(|cx| {
            let mut single = self.0.borrow_mut();
            if let Some(value) = single.value.take() {
                return Poll::Ready(Some(value));
            }
            if single.sender_gone {
                return Poll::Ready(None);
            }
            single.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}
