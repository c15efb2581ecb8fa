// SPDX-License-Identifier: Apache-2.0
//! Long computations in short turns: a task that loops over data counts its steps and rests in
//! between.
//!
//! A turn is what happens between two calls of the driver's `park`. While it lasts, no I/O
//! completes and no timer fires. So its length is bounded: all tasks together take about
//! [`TURN_STEPS_MAX`] steps in one turn.

use crate::executor::Env;
use std::cell::{Cell, RefCell};
use std::task::{Poll, Waker};

/// Steps after which the loops over data rest until the next turn, all tasks together. A step is
/// one look into a map and takes 0.1 to 1 us. So many take 4 ms at most, a fifth of
/// [`crate::LONG_TURN`].
pub const TURN_STEPS_MAX: u64 = 4096;

/// How many steps this turn has had, and who waits for the next one.
#[derive(Default)]
pub(crate) struct Turn {
    steps: Cell<u64>,
    most: Cell<u64>,
    resting: RefCell<Vec<Waker>>,
}

impl Turn {
    /// Whether some task rests until the next turn.
    pub(crate) fn is_any_resting(&self) -> bool {
        !self.resting.borrow().is_empty()
    }

    /// Begins a new turn, after the driver's `park`.
    pub(crate) fn begin(&self) {
        self.steps.set(0);
        let resting = std::mem::take(&mut *self.resting.borrow_mut());
        resting.into_iter().for_each(Waker::wake);
    }
}

impl Env {
    /// Rests until the next turn. Meanwhile other tasks run, and I/O that is done completes.
    pub async fn yield_now(&self) {
        let mut has_rested = false;
        std::future::poll_fn(|cx| {
            if has_rested {
                return Poll::Ready(());
            }
            has_rested = true;
            self.0.turn.resting.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Counts steps of a loop over data that cannot rest where it stands. Its caller should rest
    /// soon, by [`Env::spend_steps`].
    pub fn count_steps(&self, steps: u64) {
        let turn = &self.0.turn;
        turn.steps.set(turn.steps.get() + steps);
        turn.most.set(turn.most.get().max(turn.steps.get()));
    }

    /// Whether this turn has had [`TURN_STEPS_MAX`] steps. For loops that cannot rest everywhere.
    #[must_use]
    pub fn is_turn_long(&self) -> bool {
        self.0.turn.steps.get() >= TURN_STEPS_MAX
    }

    /// Counts steps, and rests if this turn has had [`TURN_STEPS_MAX`] of them. Other tasks may
    /// change anything meanwhile, so hold no borrow across it.
    pub async fn spend_steps(&self, steps: u64) {
        self.count_steps(steps);
        if self.is_turn_long() {
            self.yield_now().await;
        }
    }

    /// The most steps of one turn so far. For tests, which must not depend on time.
    #[must_use]
    pub fn most_steps(&self) -> u64 {
        self.0.turn.most.get()
    }
}
