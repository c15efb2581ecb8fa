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

/// An operation that ended, and when.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// The host that its client used.
    pub host: usize,
    /// What was asked.
    pub command: ClientCommand,
    /// When it was sent.
    pub begun: Instant,
    /// When the answer was there, or the connection gone.
    pub ended: Instant,
    /// Whether it ended by an error that only a failure of hosts explains.
    pub is_error: bool,
}

impl Ended {
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
    /// Stalls and errors beyond what is promised.
    pub broken: Vec<String>,
    /// Answers that called something a hole.
    pub holes: u64,
    /// Operations that took long or ended with an error.
    slow: Vec<Ended>,
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
    /// How long an operation of other clients may take.
    pub stall_max: Duration,
    /// Whether the round is more than the volumes' failures to tolerate (FTT). Then operations may
    /// also fail.
    pub is_beyond: bool,
    /// Whether the campaign ended before the round did. Then nothing follows from it.
    pub is_cut_short: bool,
}

impl Occurrence {
    /// Whether an operation was under way between the begin of the first fault and green.
    fn meets(&self, operation: &Ended) -> bool {
        let end = self.healed + self.green_after.unwrap_or_default();
        operation.begun < end && operation.ended > self.begun
    }

    fn is_other(&self, operation: &Ended) -> bool {
        self.meets(operation) && !self.victims.contains(&operation.host)
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
    /// How long operations might take, in the occurrence with the shortest limit.
    pub stall_max: Duration,
    /// Whether all occurrences kept to their limits.
    pub is_kept: bool,
    /// Whether it is more than the volumes' failures to tolerate (FTT).
    pub is_beyond: bool,
}

/// The middle one of sorted times; of two, the longer.
pub fn median(sorted: &[Duration]) -> Duration {
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

impl Record {
    /// Notes an operation that was answered without an error.
    pub fn answered(&mut self, operation: Ended) {
        *self.done.entry(operation.command).or_default() += 1;
        self.ended(operation);
    }

    /// Notes when an operation ended. How it ended is noted apart.
    pub fn ended(&mut self, operation: Ended) {
        let is_notable = operation.is_error || operation.took() >= SLOW;
        if is_notable && self.slow.len() < SLOW_MAX {
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

    /// Notes a round, and what it broke of what is promised to clients that it does not meet.
    pub fn occurred(&mut self, occurrence: Occurrence) {
        let (longest, most) = (self.stall(&occurrence, false), occurrence.stall_max);
        let failed = self.slow.iter().filter(|op| op.is_error && occurrence.is_other(op)).count();
        let label = &occurrence.label;
        if !occurrence.is_cut_short && longest > most {
            self.broken.push(format!(
                "{label}: an operation of a client that it does not meet took {longest:.2?}; the \
                 limit is {most:.2?}"
            ));
        }
        if !occurrence.is_cut_short && !occurrence.is_beyond && failed > 0 {
            let text =
                format!("{label}: {failed} operations failed at clients that it does not meet");
            self.broken.push(text);
        }
        self.occurrences.push(occurrence);
    }

    /// Notes what clients met without any fault. To be called once, at the end.
    pub fn judge_peace(&mut self, most: Duration) {
        let longest = self.stall_in_peace();
        if longest > most {
            self.broken.push(format!(
                "an operation without a fault took {longest:.2?}; the limit is {most:.2?}"
            ));
        }
        let failed = self.in_peace().filter(|operation| operation.is_error).count();
        if failed > 0 {
            self.broken.push(format!("{failed} operations failed without a fault"));
        }
    }

    /// Operations answered without an error.
    pub fn operations(&self) -> u64 {
        self.done.values().sum()
    }

    /// Rounds of faults, without one that was cut short.
    pub fn rounds(&self) -> usize {
        self.whole_rounds().count()
    }

    fn whole_rounds(&self) -> impl Iterator<Item = &Occurrence> {
        self.occurrences.iter().filter(|round| !round.is_cut_short)
    }

    /// The longest operation that a round met, at clients of its victims or of the others.
    pub fn stall(&self, round: &Occurrence, is_of_victims: bool) -> Duration {
        let of_round = self.slow.iter().filter(|operation| {
            round.meets(operation) && round.victims.contains(&operation.host) == is_of_victims
        });
        of_round.map(Ended::took).max().unwrap_or_default()
    }

    fn in_peace(&self) -> impl Iterator<Item = &Ended> {
        let is_met =
            |operation: &&Ended| self.occurrences.iter().any(|round| round.meets(operation));
        self.slow.iter().filter(move |operation| !is_met(operation))
    }

    /// The longest operation that met no fault.
    pub fn stall_in_peace(&self) -> Duration {
        self.in_peace().map(Ended::took).max().unwrap_or_default()
    }

    /// The rounds by label, without one that was cut short.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows: Map<&str, Row> = Map::new();
        for round in self.whole_rounds() {
            let row = rows.entry(&round.label).or_insert_with(|| Row {
                label: round.label.clone(),
                stalls: Vec::new(),
                stall_at_victims: Duration::ZERO,
                green_after: Vec::new(),
                stall_max: round.stall_max,
                is_kept: true,
                is_beyond: round.is_beyond,
            });
            // Where every host was hit, this is the stall of no client at all: zero.
            let stall = self.stall(round, false);
            row.stalls.push(stall);
            row.stall_max = row.stall_max.min(round.stall_max);
            row.is_kept &= stall <= round.stall_max;
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
            stall_max: SECOND,
            is_beyond: false,
            is_cut_short: false,
        }
    }

    fn answered(host: usize, begun: Instant, took: Duration) -> Ended {
        let (command, ended) = (ClientCommand::Read, begun + took);
        Ended { host, command, begun, ended, is_error: false }
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
        assert!(!rows[0].is_kept);
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
        assert!(rows[0].is_kept);
        assert_eq!(rows[1].stalls, [Duration::ZERO]);
    }

    #[test]
    fn a_stall_and_a_failure_at_others_break_a_promise() {
        let zero = Instant::now();
        let begun = zero + 20 * SECOND;
        let broken = |operation: Ended, change: &dyn Fn(&mut Occurrence)| {
            let (mut record, mut round) = (Record::default(), occurrence("kill", begun));
            record.ended(operation);
            change(&mut round);
            record.occurred(round);
            record.broken.len()
        };
        let long = answered(1, begun, 2 * SECOND);
        assert_eq!(broken(long, &|_| {}), 1);
        assert_eq!(broken(answered(1, begun, SECOND), &|_| {}), 0, "within the limit");
        assert_eq!(broken(answered(0, begun, 2 * SECOND), &|_| {}), 0, "of a victim");
        assert_eq!(broken(answered(1, zero, 2 * SECOND), &|_| {}), 0, "before");
        assert_eq!(broken(long, &|round| round.is_cut_short = true), 0);
        let failed = Ended { is_error: true, ..answered(1, begun, SECOND / 1000) };
        assert_eq!(broken(failed, &|_| {}), 1);
        assert_eq!(broken(failed, &|round| round.is_beyond = true), 0, "then it may fail");
        assert_eq!(broken(Ended { host: 0, ..failed }, &|_| {}), 0, "of a victim");
    }

    #[test]
    fn peace_has_a_limit_too() {
        let zero = Instant::now();
        let mut record = Record::default();
        record.occurred(occurrence("kill", zero + 20 * SECOND));
        record.answered(answered(0, zero, 2 * SECOND));
        record.judge_peace(2 * SECOND);
        assert_eq!(record.broken, Vec::<String>::new());
        record.judge_peace(SECOND);
        assert_eq!(record.broken.len(), 1);
        record.ended(Ended { is_error: true, ..answered(1, zero, SECOND / 1000) });
        record.judge_peace(2 * SECOND);
        assert_eq!(record.broken.len(), 2, "{:?}", record.broken);
    }

    #[test]
    fn a_round_that_was_cut_short_is_no_round() {
        let zero = Instant::now();
        let mut record = Record::default();
        record.occurred(Occurrence { is_cut_short: true, ..occurrence("kill", zero) });
        assert_eq!((record.rounds(), record.rows().len()), (0, 0));
        record.answered(answered(1, zero, 2 * SECOND));
        assert_eq!(record.stall_in_peace(), Duration::ZERO, "there was a fault all the same");
    }
}
