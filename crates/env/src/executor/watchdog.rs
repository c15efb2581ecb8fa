// SPDX-License-Identifier: Apache-2.0
//! Which tasks keep the shard's one thread for so long that others feel it.
//!
//! After each poll the driver's coarse clock is read, which costs some nanoseconds and is right to
//! a tick of the kernel's (1 to 10 ms): enough to tell 20 ms from none. What a host that gets no
//! CPU loses counts too, for whichever task was at it.

use super::Env;
use base::Instant;
use std::cell::Cell;
use std::time::Duration;

/// A poll that takes longer is counted: a tenth of the pause that users notice, and a hundredth of
/// the silence after which hosts give each other up.
pub const LONG_TURN: Duration = Duration::from_millis(20);

/// Polls of tasks that were long, since the shard began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongTurns {
    /// Those longer than [`LONG_TURN`].
    pub count: u64,
    /// The longest of those.
    pub longest: Duration,
    /// The name of its task.
    pub task: &'static str,
    /// When it ended.
    pub at: Instant,
}

/// What is known of long polls.
#[derive(Default)]
pub(super) struct Watchdog {
    seen: Cell<LongTurns>,
    /// The coarse clock when the last poll ended.
    last: Cell<Instant>,
}

impl Env {
    /// Polls that took long.
    #[must_use]
    pub fn long_turns(&self) -> LongTurns {
        self.0.watchdog.seen.get()
    }

    /// Polls begin from here on.
    pub(super) fn begin_polls(&self) {
        self.0.watchdog.last.set(self.0.driver.borrow().coarse());
    }

    /// A poll of this task has ended.
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
