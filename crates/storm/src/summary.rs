// SPDX-License-Identifier: Apache-2.0
//! What a campaign has come to.

use base::Probe;
use std::time::Duration;
use storm::{Done, Fault};

/// Sums over all seeds.
#[derive(Default)]
pub(crate) struct Summary {
    /// Seeds that found something.
    pub(crate) bad: Vec<u64>,
    seeds: u64,
    twice: u64,
    operations: u64,
    failed: u64,
    events: u64,
    compared: u64,
    virtual_time: Duration,
    faults: [u64; Fault::ALL.len()],
}

impl Summary {
    /// Adds one seed; lines for those that found something.
    pub(crate) fn add(&mut self, done: &Done) -> Vec<String> {
        let outcome = &done.outcome;
        self.seeds += 1;
        self.twice += u64::from(done.is_repeatable.is_some());
        self.operations += outcome.operations;
        self.failed += outcome.failed;
        self.events += outcome.events;
        self.compared += outcome.compared;
        self.virtual_time += outcome.elapsed;
        for (sum, count) in self.faults.iter_mut().zip(outcome.faults) {
            *sum += count;
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
        let faults = Fault::ALL.iter().zip(self.faults);
        let faults: Vec<_> = faults.map(|(fault, count)| format!("{fault:?} {count}")).collect();
        println!("random faults: {}", faults.join(", "));
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
            println!("replay with: gabion-storm replay {}", self.bad[0]);
        }
    }
}
