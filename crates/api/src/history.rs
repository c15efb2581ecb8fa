// SPDX-License-Identifier: Apache-2.0
//! Performance over time, as this host sees it: the shards are looked at every five seconds, and
//! the crate `history` keeps what they did in between.

use crate::gather::ShardDoor;
use crate::machine::MachineLook;
use crate::mailbox::exchange;
use crate::metrics;
use crate::once::Outcome;
use crate::problem::Problem;
use history::{HistoryCounts, PerformanceBook, PerformanceError};
use operator::{Command, CommandReply};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What is kept: a file of this name beside the audit. It is described in
/// `docs/formats/performance-history.md`.
const FILE: &str = "performance.redb";
/// Between two looks.
const EVERY_MS: u64 = 5000;
/// A look begins so long after the beginning of five seconds, so that it is none too early.
const AFTER_MS: u64 = 50;
/// A shard that has not said by then whether it knows a volume is not waited for.
const ALIVE_MAX: Duration = Duration::from_secs(2);

/// The performance of a cluster.
pub struct PerformanceWatch {
    shards: Vec<ShardDoor>,
    machine: Arc<dyn MachineLook>,
    begun: Instant,
    book: PerformanceBook,
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since 1970.
fn wall_ms() -> u64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// How long to wait for the next look: it is a little after five seconds begin.
fn pause(wall_ms: u64) -> Duration {
    Duration::from_millis(EVERY_MS - wall_ms % EVERY_MS + AFTER_MS)
}

impl PerformanceWatch {
    /// Of these shards. What they do is kept beside the file of the audit, if there is one.
    pub(crate) fn new(
        shards: Vec<ShardDoor>,
        machine: Arc<dyn MachineLook>,
        audit: Option<&Path>,
    ) -> Self {
        let book = PerformanceBook::new(audit.map(|path| path.with_file_name(FILE)));
        Self { shards, machine, begun: Instant::now(), book }
    }

    /// Looks at the shards, and keeps what they did.
    fn look(&self) {
        let reports = metrics::answers(&self.shards);
        let now_ms = millis(self.begun.elapsed());
        self.book.take(wall_ms(), now_ms, &reports, |shard| self.machine.cpu_time(shard));
    }

    /// Puts everything into the file that is to outlive the process.
    pub(crate) fn close(&self) {
        self.book.close(wall_ms() / 1000);
    }

    /// What is counted of the history itself.
    pub(crate) fn counts(&self) -> HistoryCounts {
        self.book.counts()
    }

    /// Answers a command about performance.
    pub(crate) fn answer(&self, command: &Command) -> Outcome {
        let answer = self.book.answer(wall_ms() / 1000, command, |name| self.is_volume(name));
        answer.map_err(|error| match error {
            PerformanceError::Question(what) => Problem::usage(what),
            PerformanceError::Unknown { kind, name } => Problem::no_performance(kind, &name),
            PerformanceError::File(_) | PerformanceError::Form(_) => {
                Problem::internal(error.to_string())
            }
        })
    }

    /// Whether there is a volume. Of one that nobody used so far shards tell when they are asked.
    fn is_volume(&self, name: &str) -> bool {
        let command = Command::VolumeShow { name: name.to_owned() };
        let says = |(_, socket): &ShardDoor| match exchange(socket, &command, ALIVE_MAX) {
            Ok(CommandReply::Ok(_)) => Some(true),
            Ok(CommandReply::Error(_)) => Some(false),
            Err(_) => None,
        };
        self.shards.iter().find_map(says).unwrap_or(false)
    }
}

/// Looks for ever.
pub(crate) async fn watch(performance: Arc<PerformanceWatch>) {
    let opens = Arc::clone(&performance);
    // One that ends in a panic has said why; nothing is kept then.
    let _ = tokio::task::spawn_blocking(move || opens.book.open()).await;
    loop {
        let looks = Arc::clone(&performance);
        let _ = tokio::task::spawn_blocking(move || looks.look()).await;
        tokio::time::sleep(pause(wall_ms())).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_begin_a_little_after_five_seconds() {
        for (now, wait) in [(0, 5050), (1, 5049), (4999, 51), (5000, 5050)] {
            assert_eq!(pause(now), Duration::from_millis(wait));
        }
    }
}
