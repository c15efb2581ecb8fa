// SPDX-License-Identifier: Apache-2.0
//! Futures that are begun over and over, each in the memory of one that has ended.
//!
//! A future that may be moved while it runs needs a box of its own. Where one is begun for every
//! request, that is an allocation for every request. A [`Reuse`] keeps the boxes: after a while
//! there are as many as futures were under way at once, and nothing is allocated any more.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Boxes that are kept for later. More than that were under way at once in a burst only: what is
/// beyond goes back to the allocator.
const IDLE_MAX: usize = 256;

/// Begins futures of one kind, of arguments `A` and with results `T`. Cheap to clone.
pub struct Reuse<A, T>(Rc<Boxes<A, T>>);

struct Boxes<A, T> {
    new_place: Box<dyn Fn() -> Box<dyn Place<A, T>>>,
    idle: RefCell<Vec<Box<dyn Place<A, T>>>>,
}

/// Room for one future whose type is not known here.
trait Place<A, T> {
    fn begin(&mut self, arguments: A);
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<T>;
    /// Drops what is left of the future.
    fn end(&mut self);
}

struct Room<M, F> {
    make: Rc<M>,
    future: Pin<Box<Option<F>>>,
}

impl<A, T, M: Fn(A) -> F, F: Future<Output = T>> Place<A, T> for Room<M, F> {
    fn begin(&mut self, arguments: A) {
        self.future.set(Some((self.make)(arguments)));
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        match self.future.as_mut().as_pin_mut() {
            Some(future) => future.poll(cx),
            None => Poll::Pending,
        }
    }

    fn end(&mut self) {
        self.future.set(None);
    }
}

impl<A: 'static, T: 'static> Reuse<A, T> {
    /// `make` makes a future of its arguments.
    pub fn new<F: Future<Output = T> + 'static>(make: impl Fn(A) -> F + 'static) -> Self {
        let make = Rc::new(make);
        let new_place = move || -> Box<dyn Place<A, T>> {
            Box::new(Room { make: Rc::clone(&make), future: Box::pin(None) })
        };
        Self(Rc::new(Boxes { new_place: Box::new(new_place), idle: RefCell::default() }))
    }

    /// Begins one. Dropping it drops the future.
    pub fn begin(&self, arguments: A) -> Reused<A, T> {
        let idle = self.0.idle.borrow_mut().pop();
        let mut place = idle.unwrap_or_else(|| (self.0.new_place)());
        place.begin(arguments);
        Reused { boxes: Rc::clone(&self.0), place: Some(place) }
    }

    /// Boxes that wait for a future.
    #[must_use]
    pub fn idle(&self) -> usize {
        self.0.idle.borrow().len()
    }
}

/// A future that was begun by [`Reuse::begin`]. It can be moved between two polls.
#[must_use = "it does nothing unless it is polled"]
pub struct Reused<A, T> {
    boxes: Rc<Boxes<A, T>>,
    /// `None`: it has ended.
    place: Option<Box<dyn Place<A, T>>>,
}

impl<A, T> Reused<A, T> {
    fn end(&mut self) {
        let Some(mut place) = self.place.take() else { return };
        // What the future held may begin or end others of the same kind while it is dropped.
        place.end();
        let mut idle = self.boxes.idle.borrow_mut();
        if idle.len() < IDLE_MAX {
            idle.push(place);
        }
    }
}

impl<A, T> Future for Reused<A, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let this = &mut *self;
        let Some(place) = &mut this.place else { return Poll::Pending };
        let polled = place.poll(cx);
        if polled.is_ready() {
            this.end();
        }
        polled
    }
}

impl<A, T> Drop for Reused<A, T> {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::task::Waker;

    /// Says how many of its kind are alive.
    struct Counted(Rc<Cell<usize>>);

    impl Counted {
        fn new(alive: &Rc<Cell<usize>>) -> Self {
            alive.set(alive.get() + 1);
            Self(Rc::clone(alive))
        }
    }

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.set(self.0.get() - 1);
        }
    }

    /// Waits for `turns` polls, and gives what it was begun with.
    async fn waits(turns: u32, value: u32, held: Counted) -> u32 {
        let mut left = turns;
        std::future::poll_fn(|_| {
            left = left.saturating_sub(1);
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        drop(held);
        value
    }

    fn poll(future: &mut Reused<(u32, u32, Counted), u32>) -> Poll<u32> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_box_serves_one_future_after_another() {
        let alive = Rc::new(Cell::new(0));
        let reuse = Reuse::new(|(turns, value, held)| waits(turns, value, held));
        for round in 0..10 {
            let mut first = reuse.begin((2, round, Counted::new(&alive)));
            let mut second = reuse.begin((1, round + 100, Counted::new(&alive)));
            assert_eq!(poll(&mut first), Poll::Pending);
            assert_eq!(poll(&mut second), Poll::Ready(round + 100));
            assert_eq!(reuse.idle(), 1, "the ended one gives its box back at once");
            let mut moved = first;
            assert_eq!(poll(&mut moved), Poll::Ready(round));
            assert_eq!((reuse.idle(), alive.get()), (2, 0), "round {round}");
        }
    }

    #[test]
    fn a_future_that_is_dropped_half_way_is_gone_whole() {
        let alive = Rc::new(Cell::new(0));
        let reuse = Reuse::new(|(turns, value, held)| waits(turns, value, held));
        let mut cut = reuse.begin((5, 1, Counted::new(&alive)));
        assert_eq!((poll(&mut cut), alive.get()), (Poll::Pending, 1));
        drop(cut);
        assert_eq!((reuse.idle(), alive.get()), (1, 0));
        let mut next = reuse.begin((1, 7, Counted::new(&alive)));
        assert_eq!(poll(&mut next), Poll::Ready(7), "it begins anew");
    }

    #[test]
    fn no_more_boxes_are_kept_than_may_be() {
        let reuse = Reuse::new(|value: usize| async move { value });
        let all: Vec<_> = (0..IDLE_MAX + 10).map(|value| reuse.begin(value)).collect();
        drop(all);
        assert_eq!(reuse.idle(), IDLE_MAX);
    }
}
