// SPDX-License-Identifier: Apache-2.0
//! What clients and faults leave behind: counts, slow operations, errors, wrong sectors.

use crate::command::ClientCommand;
use base::{Map, Set};
use std::time::{Duration, Instant};

/// Operations that took less leave no entry of their own.
const SLOW: Duration = Duration::from_millis(5);
/// Slow operations that are kept; what comes later is counted only.
const SLOW_MAX: usize = 4 << 20;
/// Most wrong sectors that are described. The first one ends the campaign, but other answers may be
/// under way then.
const WRONG_MAX: usize = 16;

/// An operation that was answered, and when.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    /// The host that its client used.
    pub host: usize,
    /// What was asked.
    pub command: ClientCommand,
    /// When it was sent.
    pub begun: Instant,
    /// When the answer was there.
    pub ended: Instant,
}

impl Answered {
    fn took(&self) -> Duration {
        self.ended - self.begun
    }
}

/// What happened so far.
#[derive(Debug, Default)]
pub struct Record {
    /// Operations answered without an error, by command.
    pub done: Map<ClientCommand, u64>,
    /// Operations that ended otherwise, by what the client saw.
    pub errors: Map<String, u64>,
    /// Descriptions of wrong sectors.
    pub wrong: Vec<String>,
    slow: Vec<Answered>,
    occurrences: Vec<Occurrence>,
}

/// A round of faults that is over.
#[derive(Clone, Debug)]
pub struct Occurrence {
    /// Its faults by name.
    pub label: String,
    /// When the first one began.
    pub begun: Instant,
    /// When the last one was taken away.
    pub healed: Instant,
    /// The time from `healed` until every volume was green. `None` where that never came.
    pub green_after: Option<Duration>,
    /// Hosts whose own clients are not counted in its stall.
    pub victims: Set<usize>,
    /// How long I/O may stop, where that was promised.
    pub stall_max: Option<Duration>,
    /// Whether the round is more than the volumes' failures to tolerate (FTT).
    pub is_beyond: bool,
}

impl Occurrence {
    /// Whether an operation was under way between the begin of the first fault and green.
    fn meets(&self, operation: &Answered) -> bool {
        let end = self.healed + self.green_after.unwrap_or_default();
        operation.begun < end && operation.ended > self.begun
    }
}

/// What the occurrences of one label have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its faults by name.
    pub label: String,
    /// For each occurrence, the longest operation of clients on hosts that no fault hit; sorted.
    pub stalls: Vec<Duration>,
    /// The longest operation of clients on hosts that a fault hit.
    pub stall_at_victims: Duration,
    /// Times until green, sorted.
    pub green_after: Vec<Duration>,
    /// The promise, where there is one.
    pub stall_max: Option<Duration>,
    /// Whether it is more than the volumes' failures to tolerate (FTT).
    pub is_beyond: bool,
}

impl Row {
    /// Whether the promise was kept, where there is one.
    pub fn is_kept(&self) -> Option<bool> {
        let longest = self.stalls.last().copied().unwrap_or_default();
        self.stall_max.map(|most| longest <= most)
    }
}

/// The middle one of sorted times; of two, the longer.
pub fn median(sorted: &[Duration]) -> Duration {
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

impl Record {
    /// Notes an operation that was answered without an error.
    pub fn answered(&mut self, operation: Answered) {
        *self.done.entry(operation.command).or_default() += 1;
        if operation.took() >= SLOW && self.slow.len() < SLOW_MAX {
            self.slow.push(operation);
        }
    }

    /// Notes that operations ended without success.
    pub fn failed(&mut self, how: &str, count: u64) {
        if count > 0 {
            *self.errors.entry(how.to_owned()).or_default() += count;
        }
    }

    /// Notes a wrong sector.
    pub fn is_wrong(&mut self, description: String) {
        if self.wrong.len() < WRONG_MAX {
            self.wrong.push(description);
        }
    }

    /// Notes a round.
    pub fn occurred(&mut self, occurrence: Occurrence) {
        self.occurrences.push(occurrence);
    }

    /// Operations answered without an error.
    pub fn operations(&self) -> u64 {
        self.done.values().sum()
    }

    /// Rounds of faults.
    pub fn rounds(&self) -> usize {
        self.occurrences.len()
    }

    /// The longest operation that a round met, at clients of its victims or of the others.
    pub fn stall(&self, round: &Occurrence, is_of_victims: bool) -> Duration {
        let of_round = self.slow.iter().filter(|operation| {
            round.meets(operation) && round.victims.contains(&operation.host) == is_of_victims
        });
        of_round.map(Answered::took).max().unwrap_or_default()
    }

    /// The longest operation that met no fault.
    pub fn stall_in_peace(&self) -> Duration {
        let is_met =
            |operation: &&Answered| self.occurrences.iter().any(|round| round.meets(operation));
        let in_peace = self.slow.iter().filter(|operation| !is_met(operation));
        in_peace.map(Answered::took).max().unwrap_or_default()
    }

    /// The rounds by label.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows: Map<&str, Row> = Map::new();
        for round in &self.occurrences {
            let row = rows.entry(&round.label).or_insert_with(|| Row {
                label: round.label.clone(),
                stalls: Vec::new(),
                stall_at_victims: Duration::ZERO,
                green_after: Vec::new(),
                stall_max: round.stall_max,
                is_beyond: round.is_beyond,
            });
            // Where every host was hit, this is the stall of no client at all: zero.
            row.stalls.push(self.stall(round, false));
            row.stall_at_victims = row.stall_at_victims.max(self.stall(round, true));
            row.green_after.extend(round.green_after);
            row.is_beyond |= round.is_beyond;
        }
        let mut rows: Vec<_> = rows.into_values().collect();
        for row in &mut rows {
            row.stalls.sort_unstable();
            row.green_after.sort_unstable();
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn occurrence(label: &str, begun: Instant) -> Occurrence {
        Occurrence {
            label: label.to_owned(),
            begun,
            healed: begun + 10 * SECOND,
            green_after: Some(SECOND),
            victims: Set::from_iter([0]),
            stall_max: Some(SECOND),
            is_beyond: false,
        }
    }

    fn answered(host: usize, begun: Instant, took: Duration) -> Answered {
        Answered { host, command: ClientCommand::Read, begun, ended: begun + took }
    }

    #[test]
    fn a_stall_is_the_longest_operation_that_overlaps_the_fault_at_those_it_does_not_meet() {
        let zero = Instant::now();
        let mut record = Record::default();
        record.occurred(occurrence("kill", zero + 10 * SECOND));
        record.answered(answered(0, zero + 11 * SECOND, 5 * SECOND));
        record.answered(answered(1, zero + 9 * SECOND, SECOND + SECOND / 2));
        record.answered(answered(2, zero + 12 * SECOND, SECOND / 2));
        record.answered(answered(2, zero, 3 * SECOND));
        let rows = record.rows();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].stalls, [SECOND * 3 / 2]);
        assert_eq!(rows[0].stall_at_victims, 5 * SECOND);
        assert_eq!(rows[0].is_kept(), Some(false));
        assert_eq!(record.stall_in_peace(), 3 * SECOND);
        assert_eq!(record.operations(), 4);
    }

    #[test]
    fn occurrences_of_one_kind_share_a_row() {
        let zero = Instant::now();
        let mut record = Record::default();
        for number in 0..3 {
            let begun = zero + SECOND * 20 * number;
            record.occurred(occurrence("kill", begun));
            record.answered(answered(1, begun, SECOND / 10 * (number + 1)));
        }
        record.occurred(occurrence("stop", zero + SECOND * 100));
        let rows = record.rows();
        assert_eq!(rows.len(), 2);
        assert_eq!(median(&rows[0].stalls), SECOND / 5);
        assert_eq!(rows[0].stalls.last(), Some(&(SECOND / 10 * 3)));
        assert_eq!(rows[0].is_kept(), Some(true));
        assert_eq!(rows[1].stalls, [Duration::ZERO]);
    }
}
