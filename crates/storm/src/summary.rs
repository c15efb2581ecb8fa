// SPDX-License-Identifier: Apache-2.0
//! The result of a campaign, summed up for people.

use base::Probe;
use std::time::Duration;
use storm::{Counts, SeedDone};

/// Sums over all seeds.
#[derive(Default)]
pub(crate) struct RunSummary {
    /// Seeds that found a violation, or gave two digests.
    pub(crate) bad: Vec<u64>,
    seeds: u64,
    twice: u64,
    operations: u64,
    failed: u64,
    events: u64,
    compared: u64,
    virtual_time: Duration,
    faults: Counts,
    healed_in: Duration,
    longest_wait: Duration,
    watched: Duration,
    replaced_groups: u64,
    beyond: u64,
    beyond_seen: u64,
    beyond_example: Option<String>,
}

impl RunSummary {
    /// Adds the outcome of one seed. Returns lines to print if it found something.
    pub(crate) fn add(&mut self, done: &SeedDone) -> Vec<String> {
        let outcome = &done.outcome;
        self.seeds += 1;
        self.twice += u64::from(done.is_repeatable.is_some());
        self.operations += outcome.operations;
        self.failed += outcome.failed;
        self.events += outcome.events;
        self.compared += outcome.compared;
        self.virtual_time += outcome.elapsed;
        self.faults.merge(&outcome.faults);
        self.healed_in = self.healed_in.max(outcome.healed_in);
        self.longest_wait = self.longest_wait.max(outcome.longest_wait);
        self.watched += outcome.watched;
        self.replaced_groups += outcome.replaced_groups;
        self.beyond += u64::from(done.is_beyond);
        if let Some(violation) = &outcome.beyond {
            self.beyond_seen += 1;
            let example = format!("seed {}: {violation}", done.seed);
            self.beyond_example.get_or_insert(example);
        }
        let mut lines = Vec::new();
        if let Some(violation) = &outcome.violation {
            lines.push(format!("seed {}: {violation}", done.seed));
        }
        if done.is_repeatable == Some(false) {
            lines.push(format!("seed {}: the same seed gave two digests", done.seed));
        }
        if !lines.is_empty() {
            self.bad.push(done.seed);
        }
        lines
    }

    /// Prints everything, for people.
    pub(crate) fn print(&self, first: u64, took: Duration) {
        let hours = self.virtual_time.as_secs_f64() / 3600.0;
        println!(
            "{} seeds from {first}: {} bad; {} ran twice; {hours:.1} virtual hours in {:.0} s",
            self.seeds,
            self.bad.len(),
            self.twice,
            took.as_secs_f64()
        );
        println!(
            "{} operations ({} failed), {} events, {} mirrors compared",
            self.operations, self.failed, self.events, self.compared
        );
        println!(
            "longest way back to full redundancy: {:.0} s; {} disk groups got new devices",
            self.healed_in.as_secs_f64(),
            self.replaced_groups
        );
        println!(
            "answers watched for {:.1} hours of clients' hosts, where the longest took {:.1} s",
            self.watched.as_secs_f64() / 3600.0,
            self.longest_wait.as_secs_f64()
        );
        let faults: Vec<_> =
            self.faults.iter().map(|(fault, count)| format!("{} {count}", fault.name())).collect();
        println!("faults: {}", faults.join(", "));
        if self.beyond > 0 {
            println!(
                "beyond the contract: {} seeds, in {} of them something was lost or stood still",
                self.beyond, self.beyond_seen
            );
            if let Some(example) = &self.beyond_example {
                println!("  for example {example}");
            }
        }
        let probes = base::probe_counts();
        let reached: Vec<_> = probes.iter().filter(|(_, count)| *count > 0).collect();
        println!("probes reached: {} of {}", reached.len(), Probe::ALL.len());
        for (probe, count) in &reached {
            println!("  {:<24} {count:>12}", probe.name());
        }
        let never = probes.iter().filter(|(_, count)| *count == 0);
        let never: Vec<_> = never.map(|(probe, _)| probe.name()).collect();
        if !never.is_empty() {
            println!("never reached: {}", never.join(", "));
        }
        if !self.bad.is_empty() {
            println!("replay with: gabion-storm replay --seed {}", self.bad[0]);
        }
    }
}
