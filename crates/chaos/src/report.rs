// SPDX-License-Identifier: Apache-2.0
//! The report of a campaign, for people and for programs.

use crate::record::{Record, Row, median};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;

/// A campaign that is over.
#[derive(Debug)]
pub struct Report<'a> {
    /// The seed of its faults.
    pub seed: u64,
    /// How long it had load.
    pub duration: Duration,
    /// What happened.
    pub record: &'a Record,
    /// What went wrong, besides wrong sectors.
    pub troubles: &'a [String],
    /// Remarks.
    pub notes: &'a [String],
    /// Whether the operator ended it early.
    pub is_cut_short: bool,
}

impl Report<'_> {
    /// Whether nothing was lost or wrong, nothing got stuck, and nobody waited for too long.
    pub fn is_good(&self) -> bool {
        let Record { wrong, broken, .. } = self.record;
        wrong.is_empty() && broken.is_empty() && self.troubles.is_empty()
    }

    fn verdict(&self) -> String {
        let Record { wrong, broken, .. } = self.record;
        match (self.is_good(), self.is_cut_short) {
            (true, false) => {
                "nothing lost or wrong, nothing stuck, no stall beyond its limit".into()
            }
            (true, true) => "nothing lost or wrong until it was ended".to_owned(),
            (false, _) => format!(
                "FAILED: {} lost or wrong sectors, {} stalls or errors beyond their limits, {} \
                 other troubles",
                wrong.len(),
                broken.len(),
                self.troubles.len()
            ),
        }
    }

    /// The report as text for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let (operations, rounds) = (self.record.operations(), self.record.rounds());
        let seconds = self.duration.as_secs();
        let _ = writeln!(
            text,
            "chaos: seed {}, {seconds} s, {operations} operations, {rounds} rounds of faults",
            self.seed
        );
        let done = self.record.done.iter().map(|(command, count)| format!("{count} {command}"));
        let (done, holes) = (done.collect::<Vec<_>>().join(", "), self.record.holes);
        let _ = writeln!(text, "answered: {done}; {holes} of them told of holes");
        let errors = self.record.errors.iter().map(|(how, count)| format!("{count} {how}"));
        let _ = writeln!(text, "not answered, or with an error: {}", join_or_none(errors));
        let _ = writeln!(
            text,
            "longest operation without a fault: {}",
            seconds_text(self.record.stall_in_peace())
        );
        let _ = writeln!(
            text,
            "\n{:<28} {:>5} {:>8} {:>8} {:>14} {:>12} {:>8}  limit",
            "faults", "times", "stall", "most", "where it was", "green after", "most"
        );
        for row in self.record.rows() {
            write_row(&mut text, &row);
        }
        for (kind, lines) in [
            ("note", self.notes),
            ("TROUBLE", self.troubles),
            ("STALLED OR FAILED", &self.record.broken[..]),
            ("LOST OR WRONG", &self.record.wrong[..]),
        ] {
            for line in lines {
                let _ = writeln!(text, "{kind}: {line}");
            }
        }
        let _ = writeln!(text, "chaos: {}", self.verdict());
        text
    }

    /// The report as JSON for programs.
    pub fn json(&self) -> Value {
        let name = |(command, count): (&crate::command::ClientCommand, &u64)| {
            (command.name().to_owned(), Value::from(*count))
        };
        let done: serde_json::Map<_, _> = self.record.done.iter().map(name).collect();
        json!({
            "seed": self.seed,
            "seconds": self.duration.as_secs_f64(),
            "operations": self.record.operations(),
            "answered": done,
            "errors": self.record.errors,
            "stall_without_fault_ms": ms(self.record.stall_in_peace()),
            "rounds": self.record.rounds(),
            "faults": self.record.rows().iter().map(row_json).collect::<Vec<_>>(),
            "holes": self.record.holes,
            "wrong": self.record.wrong,
            "broken": self.record.broken,
            "troubles": self.troubles,
            "notes": self.notes,
            "is_cut_short": self.is_cut_short,
            "is_good": self.is_good(),
        })
    }
}

fn join_or_none(parts: impl Iterator<Item = String>) -> String {
    let parts: Vec<_> = parts.collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

fn write_row(text: &mut String, row: &Row) {
    let longest = |times: &[Duration]| times.last().copied().unwrap_or_default();
    let mut limit = format!("{} s", row.stall_max.as_secs());
    limit.push_str(if row.is_beyond { ", beyond" } else { "" });
    limit.push_str(if row.is_kept { "" } else { ": MISSED" });
    let _ = writeln!(
        text,
        "{:<28} {:>5} {:>8} {:>8} {:>14} {:>12} {:>8}  {}",
        row.label,
        row.stalls.len(),
        seconds_text(median(&row.stalls)),
        seconds_text(longest(&row.stalls)),
        seconds_text(row.stall_at_victims),
        seconds_text(median(&row.green_after)),
        seconds_text(longest(&row.green_after)),
        limit,
    );
}

fn row_json(row: &Row) -> Value {
    let longest = |times: &[Duration]| ms(times.last().copied().unwrap_or_default());
    json!({
        "faults": row.label,
        "times": row.stalls.len(),
        "stall_ms_median": ms(median(&row.stalls)),
        "stall_ms_max": longest(&row.stalls),
        "stall_at_victims_ms_max": ms(row.stall_at_victims),
        "green_after_ms_median": ms(median(&row.green_after)),
        "green_after_ms_max": longest(&row.green_after),
        "limit_ms": ms(row.stall_max),
        "is_kept": row.is_kept,
        "is_beyond": row.is_beyond,
    })
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn seconds_text(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::ClientCommand;
    use crate::record::{Ended, Occurrence};
    use base::Set;
    use std::time::Instant;

    fn record(took: Duration) -> Record {
        let (begun, second) = (Instant::now(), Duration::from_secs(1));
        let mut record = Record::default();
        let (command, ended) = (ClientCommand::Write, begun + took);
        record.answered(Ended { host: 0, command, begun, ended, is_error: false });
        record.failed("connection lost", 3);
        record.occurred(Occurrence {
            label: "kill".to_owned(),
            begun,
            healed: begun + second,
            green_after: Some(second),
            victims: Set::new(),
            stall_max: second,
            is_beyond: false,
            is_cut_short: false,
        });
        record
    }

    fn report(record: &Record) -> Report<'_> {
        let duration = Duration::from_secs(60);
        Report { seed: 7, duration, record, troubles: &[], notes: &[], is_cut_short: false }
    }

    #[test]
    fn a_stall_beyond_its_limit_is_a_failure() {
        let record = record(Duration::from_millis(1500));
        let report = report(&record);
        assert!(!report.is_good());
        let text = report.text();
        assert!(text.contains("1 s: MISSED") && text.contains("FAILED: 0 lost"), "{text}");
        assert!(text.contains("STALLED OR FAILED: kill: an operation"), "{text}");
        assert!(text.contains("3 connection lost") && text.contains("1 write"), "{text}");
        let json = report.json();
        assert_eq!(json["faults"][0]["stall_ms_max"], 1500);
        assert_eq!(json["faults"][0]["is_kept"], false);
        assert_eq!(json["is_good"], false);
        assert_eq!(json["errors"]["connection lost"], 3);
    }

    #[test]
    fn a_stall_within_its_limit_is_none() {
        let record = record(Duration::from_millis(900));
        assert!(report(&record).is_good());
        assert!(report(&record).text().contains("no stall beyond its limit"));
    }

    #[test]
    fn a_wrong_sector_is_a_failure() {
        let mut record = record(Duration::from_millis(900));
        record.is_wrong("sector 5".to_owned());
        let report = report(&record);
        assert!(!report.is_good());
        assert!(report.text().contains("LOST OR WRONG: sector 5"));
        assert_eq!(report.json()["is_good"], false);
    }
}
