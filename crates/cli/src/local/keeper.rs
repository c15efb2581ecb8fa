// SPDX-License-Identifier: Apache-2.0
//! Keeps the directory of a cluster on this machine running: hosts go on without it, but nothing
//! can change.

use super::layout::{ClusterFile, Layout, Mode};
use anyhow::Result;
use control::{DirectoryThread, EtcdProcess};
use std::time::{Duration, Instant};

/// Pause after the first failed start. It doubles with each further one.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest pause: a disk that has room again is noticed within half a minute.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// A directory that ran for this long was well. When it ends, the pauses begin at the shortest one.
const WELL_AFTER: Duration = Duration::from_secs(60);

/// A directory that runs until it ends by itself or is dropped.
pub trait Home: Sized {
    /// Whether it still runs.
    fn is_running(&mut self) -> bool;
    /// Why it ended, after it did.
    fn why_ended(self) -> String;
}

/// How the directory runs.
pub enum DirectoryHome {
    /// A thread of this process.
    Embedded(DirectoryThread),
    /// A process of its own.
    Etcd(EtcdProcess),
}

impl DirectoryHome {
    /// Starts the directory in the way that the cluster's mode asks for.
    pub fn start(layout: &Layout, cluster: &ClusterFile) -> Result<Self> {
        Ok(match cluster.mode {
            Mode::Threads => Self::Embedded(control::start_embedded(
                &layout.directory_file(),
                &layout.directory_socket(),
            )?),
            Mode::Processes => {
                let (client, peer) = cluster.etcd_ports;
                Self::Etcd(control::start_etcd(&layout.etcd_dir(), client, peer)?)
            }
        })
    }
}

impl Home for DirectoryHome {
    fn is_running(&mut self) -> bool {
        match self {
            Self::Embedded(thread) => thread.is_running(),
            Self::Etcd(process) => process.is_running(),
        }
    }

    fn why_ended(self) -> String {
        match self {
            Self::Embedded(thread) => match thread.stop() {
                Ok(()) => "no error".to_owned(),
                Err(error) => format!("{:#}", anyhow::Error::from(error)),
            },
            Self::Etcd(_) => "see etcd.log".to_owned(),
        }
    }
}

/// A [`Home`], and when it may be started again.
pub struct Keeper<H> {
    home: Option<H>,
    started: Instant,
    not_before: Instant,
    pause: Duration,
}

impl<H: Home> Keeper<H> {
    /// A keeper of a home that was just started.
    pub fn new(home: H) -> Self {
        let now = Instant::now();
        Self { home: Some(home), started: now, not_before: now, pause: PAUSE_MIN }
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
            tracing::error!(why, pause = ?self.pause, "the directory has ended; starting it again");
            self.wait_longer(now);
            return;
        }
        if now < self.not_before {
            return;
        }
        match start() {
            Ok(home) => {
                tracing::info!("the directory runs again");
                (self.home, self.started) = (Some(home), now);
            }
            Err(error) => {
                let why = format!("{error:#}");
                tracing::error!(why, pause = ?self.pause, "the directory does not start");
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
        let mut keeper = Keeper::new(Fake(Rc::clone(&runs)));
        let begun = Instant::now();
        let second = |n: u64| begun + Duration::from_secs(n);
        keeper.look(second(1), || panic!("it runs"));
        runs.set(false);
        keeper.look(second(2), || panic!("not without a pause"));
        keeper.look(second(3), || Ok(Fake(Rc::new(Cell::new(true)))));
        keeper.look(second(4), || panic!("it runs again"));

        let mut keeper = Keeper::new(Fake(runs));
        let mut starts = 0;
        for n in 1..=600 {
            keeper.look(second(n), || {
                starts += 1;
                anyhow::bail!("no room")
            });
        }
        assert!((20..=30).contains(&starts), "{starts} starts in ten minutes");
    }

    #[test]
    fn an_embedded_directory_that_ended_is_noticed() {
        let name = format!("gabion-keeper-{}", std::process::id());
        let layout = Layout::new(&std::env::temp_dir().join(name)).expect("a short path");
        std::fs::create_dir_all(layout.root()).expect("a folder");
        let start =
            || control::start_embedded(&layout.directory_file(), &layout.directory_socket());
        let mut home = DirectoryHome::Embedded(start().expect("it starts"));
        assert!(home.is_running());
        // A second directory on the same file cannot run. So this start fails while the first one
        // lives.
        assert!(start().is_err());
        assert_eq!(home.why_ended(), "no error");
        std::fs::remove_dir_all(layout.root()).expect("removed");
    }
}
