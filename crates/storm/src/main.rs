// SPDX-License-Identifier: Apache-2.0
//! `gabion-storm`: runs fault campaigns and replays their seeds.
#![forbid(unsafe_code)]

mod summary;

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use storm::{Job, Mutation, Outcome, Story, plan_of, run, run_caught};
use summary::Summary;

/// Fault campaigns in simulation.
#[derive(Parser)]
#[command(after_help = "Examples:
  gabion-storm run --seeds 1000
  gabion-storm replay 4711
  gabion-storm run --seeds 200 --mutation no-reconcile")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run many seeds
    Run {
        /// How many
        #[arg(long, default_value_t = 100)]
        seeds: u64,
        /// Instead of a number of seeds: for so many hours
        #[arg(long, conflicts_with_all = ["seeds", "minutes"])]
        hours: Option<f64>,
        /// Instead of a number of seeds: for so many minutes
        #[arg(long, conflicts_with = "seeds")]
        minutes: Option<f64>,
        /// The first one
        #[arg(long, default_value_t = 1)]
        first: u64,
        /// How many at a time
        #[arg(long, default_value_t = 2)]
        jobs: usize,
        /// Break a rule on purpose (see 'mutations')
        #[arg(long)]
        mutation: Option<String>,
        /// Run every seed twice and compare the digests, not one in twenty
        #[arg(long)]
        twice: bool,
        /// This story in every round instead of those that the seed draws (see 'stories')
        #[arg(long)]
        story: Option<Story>,
    },
    /// Run the seeds that once found something
    Regressions,
    /// Run one seed with the hosts' log on standard error (RUST_LOG-style filter in STORM_LOG)
    Replay {
        /// The seed
        seed: u64,
        /// Break a rule on purpose
        #[arg(long)]
        mutation: Option<String>,
        /// This story in every round
        #[arg(long)]
        story: Option<Story>,
    },
    /// List the stories of a round
    Stories,
    /// List the rules that can be broken
    Mutations,
    /// Break each rule in turn and count the seeds until it is noticed
    Hunt {
        /// Seeds per rule at most
        #[arg(long, default_value_t = 100)]
        seeds: u64,
        /// The first one
        #[arg(long, default_value_t = 1)]
        first: u64,
        /// This rule alone
        #[arg(long)]
        mutation: Option<String>,
        /// This story in every round
        #[arg(long)]
        story: Option<Story>,
    },
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run { seeds, hours, minutes, first, jobs, mutation, twice: is_twice, story } => {
            let mutation = match find(mutation.as_deref()) {
                Ok(mutation) => mutation,
                Err(code) => return code,
            };
            let limit = minutes.or(hours.map(|hours| hours * 60.0));
            let seeds = if limit.is_some() { u64::MAX - first } else { seeds };
            campaign(&Job { first, seeds, jobs, is_twice, mutation, story }, limit)
        }
        Command::Regressions => rerun(),
        Command::Replay { seed, mutation, story } => replay(seed, mutation.as_deref(), story),
        Command::Hunt { seeds, first, mutation, story } => {
            hunt(first, seeds, mutation.as_deref(), story)
        }
        Command::Stories => {
            for story in Story::ALL {
                println!("{story}");
            }
            ExitCode::SUCCESS
        }
        Command::Mutations => {
            for mutation in Mutation::ALL {
                println!("{:<24} rule {}", mutation.name, mutation.rule);
            }
            ExitCode::SUCCESS
        }
    }
}

fn find(name: Option<&str>) -> Result<Option<Mutation>, ExitCode> {
    let Some(name) = name else { return Ok(None) };
    match Mutation::by_name(name) {
        Some(mutation) => Ok(Some(mutation)),
        None => {
            eprintln!("gabion-storm: no mutation '{name}': see 'gabion-storm mutations'");
            Err(ExitCode::from(2))
        }
    }
}

/// Runs a job, for `minutes` at most where that is given.
fn campaign(job: &Job, minutes: Option<f64>) -> ExitCode {
    let begun = clock();
    let (bar, style) = match minutes {
        Some(_) => (indicatif::ProgressBar::no_length(), "{spinner} {pos} seeds, {msg}, {elapsed}"),
        None => {
            let style = "{wide_bar} {pos}/{len} seeds, {msg}, {eta} left";
            (indicatif::ProgressBar::new(job.seeds), style)
        }
    };
    if let Ok(style) = indicatif::ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    let mut summary = Summary::default();
    job.run(|done| {
        for line in summary.add(&done) {
            bar.suspend(|| println!("{line}"));
        }
        bar.set_message(format!("{} bad", summary.bad.len()));
        bar.inc(1);
        minutes.is_none_or(|minutes| begun.elapsed().as_secs_f64() < minutes * 60.0)
    });
    bar.finish_and_clear();
    summary.print(job.first, begun.elapsed());
    if summary.bad.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[expect(clippy::disallowed_methods, reason = "how long the campaign itself took")]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}

/// Runs the list of regressions; each must be clean.
fn rerun() -> ExitCode {
    let mut bad = 0;
    for one in storm::regressions() {
        let outcome = run_caught(&plan_of(one.seed, one.story), None);
        let verdict = outcome.violation.map_or("clean".to_owned(), |violation| {
            bad += 1;
            violation.to_string()
        });
        println!("seed {:>6}: {verdict} ({})", one.seed, one.note);
    }
    if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints, for each broken rule, in which seed it was noticed and by what.
fn hunt(first: u64, seeds: u64, name: Option<&str>, story: Option<Story>) -> ExitCode {
    let wanted = match find(name) {
        Ok(wanted) => wanted,
        Err(code) => return code,
    };
    let all = Mutation::ALL.iter().copied();
    let mut survivors = 0;
    for mutation in all.filter(|m| wanted.is_none_or(|wanted| wanted.name == m.name)) {
        let noticed = (first..first + seeds).find_map(|seed| {
            // A broken rule may trip an assertion of the code itself: that counts as noticed.
            let outcome = run_caught(&plan_of(seed, story), Some(mutation));
            Some((seed, outcome.violation?.to_string()))
        });
        match noticed {
            Some((seed, how)) => {
                let count = seed - first + 1;
                println!("{:<24} rule {:<4} seed {count:>4}: {how}", mutation.name, mutation.rule);
            }
            None => {
                survivors += 1;
                println!("{:<24} rule {:<4} SURVIVES {seeds}", mutation.name, mutation.rule);
            }
        }
    }
    if survivors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay(seed: u64, mutation: Option<&str>, story: Option<Story>) -> ExitCode {
    let mutation = match find(mutation) {
        Ok(mutation) => mutation,
        Err(code) => return code,
    };
    let filter = tracing_subscriber::EnvFilter::try_from_env("STORM_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    // Without it the run is the same, only silent.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .without_time()
        .with_ansi(false)
        .try_init();
    let plan = plan_of(seed, story);
    println!("{plan:?}");
    let outcome: Outcome = run(&plan, mutation);
    println!("{outcome:?}");
    if outcome.violation.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
