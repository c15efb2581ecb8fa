// SPDX-License-Identifier: Apache-2.0
//! `gabion-storm`: runs fault campaigns and replays their seeds.
#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use storm::{Mutation, Outcome, Plan, Story, run};

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
        /// The first one
        #[arg(long, default_value_t = 1)]
        first: u64,
        /// Break a rule on purpose (see 'mutations')
        #[arg(long)]
        mutation: Option<String>,
        /// Run each seed twice and compare the digests
        #[arg(long)]
        twice: bool,
        /// This story in every round instead of those that the seed draws (see 'stories')
        #[arg(long)]
        story: Option<Story>,
    },
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

/// Seeds between two lines of progress.
const PROGRESS: u64 = 50;

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run { seeds, first, mutation, twice, story } => {
            campaign(first, seeds, mutation.as_deref(), twice, story)
        }
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

/// The plan of a seed, with one story in every round where one is named.
fn plan_of(seed: u64, story: Option<Story>) -> Plan {
    let mut plan = Plan::of_seed(seed);
    if let Some(story) = story {
        plan.rounds.iter_mut().for_each(|round| round.story = story);
    }
    plan
}

fn campaign(
    first: u64,
    seeds: u64,
    mutation: Option<&str>,
    twice: bool,
    story: Option<Story>,
) -> ExitCode {
    let mutation = match find(mutation) {
        Ok(mutation) => mutation,
        Err(code) => return code,
    };
    let (mut bad, mut operations, mut events, mut seconds) = (Vec::new(), 0, 0, 0.0);
    for seed in first..first + seeds {
        if (seed - first) % PROGRESS == PROGRESS - 1 {
            eprintln!("{} of {seeds} seeds, {} bad", seed - first + 1, bad.len());
        }
        let outcome = run(&plan_of(seed, story), mutation);
        operations += outcome.operations;
        events += outcome.events;
        seconds += outcome.elapsed.as_secs_f64();
        if let Some(violation) = &outcome.violation {
            println!("seed {seed}: {violation}");
            bad.push(seed);
        }
        if twice && run(&plan_of(seed, story), mutation).digest != outcome.digest {
            println!("seed {seed}: the same seed gave two digests");
            bad.push(seed);
        }
    }
    println!(
        "{seeds} seeds from {first}: {} bad; {operations} operations, {events} events, {:.1} \
         virtual hours",
        bad.len(),
        seconds / 3600.0
    );
    if bad.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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
            let ran = std::panic::catch_unwind(|| run(&plan_of(seed, story), Some(mutation)));
            let how = match ran {
                Ok(outcome) => outcome.violation?.to_string(),
                Err(_) => "an assertion".to_owned(),
            };
            Some((seed, how))
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
