// SPDX-License-Identifier: Apache-2.0
//! Keeps something running that this process has started: what ends is started again, and the more
//! rarely the more often it failed.

use anyhow::Result;
use std::time::{Duration, Instant};

/// Pause after the first failed start. It doubles with each further one.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest pause: a disk that has room again is noticed within half a minute.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// What ran for this long was well. When it ends, the pauses begin at the shortest one.
const WELL_AFTER: Duration = Duration::from_secs(60);

/// What runs until it ends by itself or is dropped.
pub trait Home: Sized {
    /// Whether it still runs.
    fn is_running(&mut self) -> bool;
    /// Why it ended, after it did.
    fn why_ended(self) -> String;
}

/// A [`Home`], and when it may be started again.
pub struct Keeper<H> {
    /// What it is called in the log.
    what: String,
    home: Option<H>,
    started: Instant,
    not_before: Instant,
    pause: Duration,
}

impl<H: Home> Keeper<H> {
    /// A keeper of a home that was just started; it is called `what` in the log.
    pub fn new(what: &str, home: H) -> Self {
        let (what, now) = (what.to_owned(), Instant::now());
        Self { what, home: Some(home), started: now, not_before: now, pause: PAUSE_MIN }
    }

    /// A keeper of a home that was not started yet: the next look does it.
    pub fn idle(what: &str) -> Self {
        let (what, now) = (what.to_owned(), Instant::now());
        Self { what, home: None, started: now, not_before: now, pause: PAUSE_MIN }
    }

    /// Whether it runs now.
    pub fn is_running(&mut self) -> bool {
        self.home.as_mut().is_some_and(Home::is_running)
    }

    /// Starts the home again if it has ended, but not before its pause is over.
    pub fn look(&mut self, now: Instant, start: impl FnOnce() -> Result<H>) {
        if let Some(home) = &mut self.home {
            if home.is_running() {
                return;
            }
            let why = self.home.take().map(Home::why_ended).unwrap_or_default();
            if now.duration_since(self.started) >= WELL_AFTER {
                self.pause = PAUSE_MIN;
            }
            let (what, pause) = (&self.what, self.pause);
            tracing::error!(what, why, ?pause, "it has ended; starting it again");
            self.wait_longer(now);
            return;
        }
        if now < self.not_before {
            return;
        }
        match start() {
            Ok(home) => {
                tracing::info!(what = self.what, "it runs");
                (self.home, self.started) = (Some(home), now);
            }
            Err(error) => {
                let why = format!("{error:#}");
                let (what, pause) = (&self.what, self.pause);
                tracing::error!(what, why, ?pause, "it does not start");
                self.wait_longer(now);
            }
        }
    }

    fn wait_longer(&mut self, now: Instant) {
        self.not_before = now + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    struct Fake(Rc<Cell<bool>>);

    impl Home for Fake {
        fn is_running(&mut self) -> bool {
            self.0.get()
        }

        fn why_ended(self) -> String {
            "told to".to_owned()
        }
    }

    #[test]
    fn one_that_ends_is_started_again_and_one_that_does_not_start_is_tried_ever_more_rarely() {
        let runs = Rc::new(Cell::new(true));
        let mut keeper = Keeper::new("it", Fake(Rc::clone(&runs)));
        let begun = Instant::now();
        let second = |n: u64| begun + Duration::from_secs(n);
        keeper.look(second(1), || panic!("it runs"));
        runs.set(false);
        keeper.look(second(2), || panic!("not without a pause"));
        keeper.look(second(3), || Ok(Fake(Rc::new(Cell::new(true)))));
        keeper.look(second(4), || panic!("it runs"));

        let mut keeper = Keeper::new("it", Fake(runs));
        let mut starts = 0;
        for n in 1..=600 {
            keeper.look(second(n), || {
                starts += 1;
                anyhow::bail!("no room")
            });
        }
        assert!((20..=30).contains(&starts), "{starts} starts in ten minutes");
    }
}
