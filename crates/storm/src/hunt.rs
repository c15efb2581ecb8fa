// SPDX-License-Identifier: Apache-2.0
//! Breaks rules on purpose and counts the seeds until the campaign notices.

use clap::Args;
use std::process::ExitCode;
use storm::{Mutation, SeedJob, Story};

/// Which rules to break, and how long to look.
#[derive(Args)]
pub(crate) struct Hunt {
    /// Seeds per rule and try at most
    #[arg(long, default_value_t = 300)]
    seeds: u64,
    /// How often to try, each time with other seeds
    #[arg(long, default_value_t = 3)]
    tries: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// How many seeds at a time
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// This rule alone
    #[arg(long, value_name = "NAME", value_parser = super::find)]
    mutation: Option<Mutation>,
    /// This scenario in every round, for all rules
    #[arg(long, value_name = "NAME")]
    scenario: Option<Story>,
}

impl Hunt {
    /// Prints a line of a table for each rule.
    pub(crate) fn run(&self) -> ExitCode {
        println!("| switch | rule | seeds | scenario | noticed by |\n|---|---|---|---|---|");
        let mut survivors = 0;
        let all = Mutation::all().into_iter();
        for mutation in all.filter(|m| self.mutation.is_none_or(|only| only.name == m.name)) {
            let story = self.scenario.or(mutation.scenario);
            let mut counts = Vec::new();
            let mut how = None;
            for number in 0..self.tries {
                let first = self.first + number * 1_000_000 + mutation.first;
                let (count, what) = self.look(mutation, story, first);
                counts.push(count);
                how = how.or(what);
            }
            counts.sort_unstable();
            let missed = counts.iter().filter(|count| **count > self.seeds).count();
            let middle = counts[counts.len() / 2];
            survivors += usize::from(middle > self.seeds);
            let seeds = match middle > self.seeds {
                true => format!("more than {}", self.seeds),
                false => middle.to_string(),
            };
            let missed = if missed > 0 { format!(" ({missed} missed)") } else { String::new() };
            println!(
                "| {} | {} | {seeds}{missed} | {} | {} |",
                mutation.name,
                mutation.rule,
                story.map_or("any", Story::name),
                how.as_deref().unwrap_or("-")
            );
        }
        if survivors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// How many seeds it took to notice, the noticing one included, and what that one saw.
    fn look(&self, mutation: Mutation, story: Option<Story>, first: u64) -> (u64, Option<String>) {
        let (seeds, jobs) = (self.seeds, self.jobs);
        let job = SeedJob { first, seeds, jobs, is_twice: false, mutation: Some(mutation), story };
        let mut found: Option<(u64, String)> = None;
        job.run(|done| {
            // A broken rule may make an assertion of the code fail. That counts as noticed.
            if let Some(violation) = done.outcome.violation
                && found.as_ref().is_none_or(|(seed, _)| done.seed < *seed)
            {
                found = Some((done.seed, violation.to_string()));
            }
            found.is_none()
        });
        match found {
            Some((seed, how)) => (seed - first + 1, Some(brief(&how))),
            None => (self.seeds + 1, None),
        }
    }
}

/// The beginning of a text, short enough for a table.
fn brief(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default().replace('|', "/");
    let short: String = line.chars().take(70).collect();
    if short.len() < line.len() { format!("{short}...") } else { short }
}
