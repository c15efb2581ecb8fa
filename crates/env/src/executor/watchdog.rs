// SPDX-License-Identifier: Apache-2.0
//! Notices tasks that keep the shard's one thread for so long that others feel it.
//!
//! After each poll the driver's coarse clock is read. That costs some nanoseconds. The clock is
//! right to a tick of the kernel (1 to 10 ms), which is enough to notice 20 ms. Time in which the
//! host gets no CPU counts too, against the task that was running.

use super::Env;
use base::Instant;
use std::cell::Cell;
use std::time::Duration;

/// A poll that takes longer than this is counted. It is a tenth of the pause that users notice, and
/// a hundredth of the silence after which hosts give each other up.
pub const LONG_TURN: Duration = Duration::from_millis(20);

/// Long polls of tasks since the shard began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongTurns {
    /// How many polls took longer than [`LONG_TURN`].
    pub count: u64,
    /// How long the longest of them took.
    pub longest: Duration,
    /// The name of the task of the longest one.
    pub task: &'static str,
    /// When the longest one ended.
    pub at: Instant,
}

/// The state of the watchdog.
#[derive(Default)]
pub(super) struct Watchdog {
    seen: Cell<LongTurns>,
    /// What the coarse clock showed when the last poll ended, or before the first one of a turn.
    last: Cell<Instant>,
}

impl Env {
    /// What is known of long polls.
    #[must_use]
    pub fn long_turns(&self) -> LongTurns {
        self.0.watchdog.seen.get()
    }

    /// To be called before the first poll of a turn.
    pub(super) fn begin_polls(&self) {
        self.0.watchdog.last.set(self.0.driver.borrow().coarse());
    }

    /// To be called after each poll of a task.
    pub(super) fn end_poll(&self, id: u32) {
        let Watchdog { seen, last } = &self.0.watchdog;
        let now = self.0.driver.borrow().coarse();
        let took = now.since(last.replace(now));
        if took <= LONG_TURN {
            return;
        }
        let task = self.0.tasks.borrow().get(id as usize).map_or("", |slot| slot.name);
        let before = seen.get();
        let at = self.0.driver.borrow().now();
        let longer = LongTurns { count: before.count, longest: took, task, at };
        let kept = if took > before.longest { longer } else { before };
        seen.set(LongTurns { count: before.count + 1, ..kept });
    }
}
