// SPDX-License-Identifier: Apache-2.0
//! The answers of all shards; `operator::merge` makes one report of them. All are asked at once. So
//! one that stands still costs only the second after which it counts as not answering.

use crate::mailbox::status_within;
use operator::StatusReport;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// A shard that has not answered by then counts as not answering.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// Longest wait for the first answer. Where all shards are slow, a late answer is better than none.
const FIRST_MAX: Duration = Duration::from_secs(5);

/// A shard that can be asked: its name and its control socket.
pub type ShardDoor = (String, PathBuf);

/// Statuses of all shards that answer, merged into one picture. `None` where none does.
#[must_use]
pub fn gather(shards: Vec<ShardDoor>) -> Option<StatusReport> {
    let (answers, mut silent) = ask(&shards, STATUS, status_within);
    let answers = match operator::is_silent_taken_for_up(&answers, &silent) {
        // These answers are older than the second in which the silent ones did not answer.
        true => {
            let again: Vec<_> =
                shards.into_iter().filter(|(name, _)| !silent.contains(name)).collect();
            let (newer, gone) = ask(&again, STATUS, status_within);
            silent.extend(gone);
            if newer.is_empty() { answers } else { newer }
        }
        false => answers,
    };
    operator::merge(answers, &silent)
}

/// How long the first answer may take, and how long all others may.
#[derive(Clone, Copy)]
pub(crate) struct AnswerWait {
    pub(crate) first: Duration,
    pub(crate) all: Duration,
}

const STATUS: AnswerWait = AnswerWait { first: FIRST_MAX, all: ANSWER_MAX };

/// Asks shards side by side. Returns the answers that came in time, in the order of the shards, and
/// the names of the others.
pub(crate) fn ask<T: Send + 'static>(
    shards: &[ShardDoor],
    wait: AnswerWait,
    question: fn(&Path, Duration) -> Option<T>,
) -> (Vec<T>, Vec<String>) {
    let (sender, receiver) = channel();
    for (index, (_, socket)) in shards.iter().enumerate() {
        let (sender, socket) = (sender.clone(), socket.clone());
        // The thread of a shard that never answers ends with its time-out.
        std::thread::spawn(move || {
            // If the answer is too late, nobody waits for it any more.
            let _ = sender.send((index, question(&socket, wait.first)));
        });
    }
    drop(sender);
    let mut answers = collect(&receiver, Instant::now(), wait);
    answers.sort_by_key(|(index, _)| *index);
    let has_answered = |at: usize| answers.iter().any(|(index, _)| *index == at);
    let names = shards.iter().enumerate().filter(|(at, _)| !has_answered(*at));
    let silent = names.map(|(_, (name, _))| name.clone()).collect();
    (answers.into_iter().map(|(_, answer)| answer).collect(), silent)
}

fn collect<T>(
    receiver: &Receiver<(usize, Option<T>)>,
    begun: Instant,
    wait: AnswerWait,
) -> Vec<(usize, T)> {
    let mut answers = Vec::new();
    loop {
        let most = if answers.is_empty() { wait.first } else { wait.all };
        match receiver.recv_timeout(most.saturating_sub(begun.elapsed())) {
            Ok((index, Some(status))) => answers.push((index, status)),
            Ok((_, None)) => {}
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return answers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_answer_counts_where_there_is_no_other() {
        let (sender, receiver) = channel();
        sender.send((1, Some("late"))).expect("a listener");
        let long_ago = Instant::now() - ANSWER_MAX * 2;
        assert_eq!(collect(&receiver, long_ago, STATUS), [(1, "late")]);
        assert_eq!(collect::<&str>(&receiver, long_ago - FIRST_MAX, STATUS), []);
    }
}
