// SPDX-License-Identifier: Apache-2.0
//! Long computations in short turns: whoever loops over data counts its steps and rests in between.
//!
//! A turn is what happens between two looks at the driver. While it lasts nobody is answered, so
//! its length is bounded: all tasks together take about [`TURN_STEPS_MAX`] steps in one.

use crate::executor::Env;
use std::cell::{Cell, RefCell};
use std::task::{Poll, Waker};

/// Steps of loops over data within one turn, of whoever rests between them. A step is one look into
/// a map, 0.1 to 1 us: 4 ms at most, a fifth of what a turn may take.
pub const TURN_STEPS_MAX: u64 = 4096;

/// Where this turn stands.
#[derive(Default)]
pub(crate) struct Turn {
    steps: Cell<u64>,
    most: Cell<u64>,
    resting: RefCell<Vec<Waker>>,
}

impl Turn {
    /// Whether somebody goes on after the next look at the driver.
    pub(crate) fn is_any_resting(&self) -> bool {
        !self.resting.borrow().is_empty()
    }

    /// The driver was asked: a new turn.
    pub(crate) fn begin(&self) {
        self.steps.set(0);
        let resting = std::mem::take(&mut *self.resting.borrow_mut());
        resting.into_iter().for_each(Waker::wake);
    }
}

impl Env {
    /// Lets every other ready task run, and I/O that is done complete.
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

    /// Counts steps of a loop over data that cannot rest where it is; whoever called it does.
    pub fn count_steps(&self, steps: u64) {
        let turn = &self.0.turn;
        turn.steps.set(turn.steps.get() + steps);
        turn.most.set(turn.most.get().max(turn.steps.get()));
    }

    /// Whether this turn has had its steps: a loop that is in the middle of something may ask.
    #[must_use]
    pub fn is_turn_long(&self) -> bool {
        self.0.turn.steps.get() >= TURN_STEPS_MAX
    }

    /// Counts steps, and rests when this turn has had [`TURN_STEPS_MAX`] of them. No borrow may be
    /// held across it: others change what they like meanwhile.
    pub async fn spend_steps(&self, steps: u64) {
        self.count_steps(steps);
        if self.is_turn_long() {
            self.yield_now().await;
        }
    }

    /// The most steps of one turn so far: for tests, which must not go by time.
    #[must_use]
    pub fn most_steps(&self) -> u64 {
        self.0.turn.most.get()
    }
}
