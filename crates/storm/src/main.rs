// SPDX-License-Identifier: Apache-2.0
//! `gabion-storm`: runs fault campaigns, replays and shrinks their seeds, and breaks rules to see
//! that the campaign notices.
#![forbid(unsafe_code)]

mod hunt;
mod sizes;
mod summary;

use clap::{Args, Parser, Subcommand};
use std::process::ExitCode;
use storm::{Case, Mutation, RunOutcome, SeedJob, Story, Trim, plan_of, run, run_caught};
use summary::RunSummary;

/// jemalloc, as under `gabion`. The system's allocator splits its arenas around the aligned buffers
/// of one world and keeps them for the next: a long campaign grew to gigabytes.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Fault campaigns in simulation.
#[derive(Parser)]
#[command(after_help = "Examples:
  gabion-storm run --seeds 1000
  gabion-storm run --hours 2 --jobs 2
  gabion-storm run --scenario damage --seeds 200
  gabion-storm replay --seed 4711
  gabion-storm shrink --seed 4711
  gabion-storm hunt --mutation no-reconcile
  gabion-storm large --hosts 16 --shards 5 --volumes 3200")]
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
        /// Run every seed twice and compare the digests, not one in twenty
        #[arg(long)]
        twice: bool,
        #[command(flatten)]
        what: What,
    },
    /// Run one seed with a log of what happens on standard error (STORM_LOG=trace for more)
    Replay {
        #[command(flatten)]
        seed: Seed,
        #[command(flatten)]
        what: What,
        #[command(flatten)]
        less: Less,
    },
    /// Find a smaller run that shows what a failing seed shows
    Shrink {
        #[command(flatten)]
        seed: Seed,
        #[command(flatten)]
        what: What,
    },
    /// Run seeds twice: equal seeds must give equal runs, event for event
    Digest {
        /// How many
        #[arg(long, default_value_t = 20)]
        seeds: u64,
        /// The first one
        #[arg(long, default_value_t = 1)]
        first: u64,
        /// Run each seed once, to compare the list with that of another build
        #[arg(long)]
        once: bool,
    },
    /// Run the seeds that once found something
    Regressions {
        /// How many at a time
        #[arg(long, default_value_t = 2)]
        jobs: usize,
    },
    /// List the scenarios of a round
    Scenarios,
    /// List the rules that can be broken
    Mutations,
    /// Break each rule in turn and count the seeds until it is noticed
    Hunt(hunt::Hunt),
    /// Make a large cluster, fill it with volumes, lose a rack and bring it back: what that costs
    Large(sizes::Large),
}

#[derive(Args)]
struct Seed {
    /// The seed
    #[arg(long = "seed", value_name = "SEED")]
    number: u64,
}

#[derive(Args)]
struct What {
    /// This scenario in every round instead of those that the seed draws (see 'scenarios')
    #[arg(long, value_name = "NAME")]
    scenario: Option<Story>,
    /// Break a rule on purpose (see 'mutations')
    #[arg(long, value_name = "NAME", value_parser = find)]
    mutation: Option<Mutation>,
}

/// The parts to leave out, as `shrink` prints them.
#[derive(Args)]
struct Less {
    /// Hosts at most
    #[arg(long)]
    hosts: Option<u32>,
    /// Volumes at most
    #[arg(long)]
    volumes: Option<usize>,
    /// Begin with this round, counted from 0
    #[arg(long, default_value_t = 0)]
    first_round: usize,
    /// Rounds at most
    #[arg(long)]
    rounds: Option<usize>,
    /// Random faults in a round at most
    #[arg(long)]
    steps: Option<u32>,
    /// Writers and readers on each host at most
    #[arg(long)]
    clients: Option<u32>,
    /// One disk group with one capacity device on each host
    #[arg(long)]
    plain: bool,
    /// A directory that answers
    #[arg(long)]
    calm: bool,
    /// The limits and time-outs of production
    #[arg(long)]
    defaults: bool,
    /// Another world with the same plan
    #[arg(long, default_value_t = 0)]
    salt: u64,
}

impl Less {
    fn trim(&self) -> Trim {
        Trim {
            volumes: self.volumes,
            hosts: self.hosts,
            first_round: self.first_round,
            rounds: self.rounds,
            steps: self.steps,
            clients: self.clients,
            is_plain: self.plain,
            is_calm: self.calm,
            is_default: self.defaults,
            salt: self.salt,
        }
    }

    /// The flags that leave these parts out.
    fn flags(trim: &Trim) -> String {
        let mut flags = Vec::new();
        let mut number = |name: &str, value: Option<u64>| {
            flags.extend(value.map(|value| format!("--{name} {value}")));
        };
        number("hosts", trim.hosts.map(u64::from));
        number("volumes", trim.volumes.map(|count| count as u64));
        number("first-round", (trim.first_round > 0).then_some(trim.first_round as u64));
        number("rounds", trim.rounds.map(|count| count as u64));
        number("steps", trim.steps.map(u64::from));
        number("clients", trim.clients.map(u64::from));
        number("salt", (trim.salt > 0).then_some(trim.salt));
        let switches =
            [("--plain", trim.is_plain), ("--calm", trim.is_calm), ("--defaults", trim.is_default)];
        flags.extend(switches.iter().filter(|(_, on)| *on).map(|(name, _)| (*name).to_owned()));
        flags.join(" ")
    }
}

fn find(name: &str) -> Result<Mutation, String> {
    Mutation::by_name(name).ok_or_else(|| "no such rule: see 'gabion-storm mutations'".to_owned())
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run { seeds, hours, minutes, first, jobs, twice: is_twice, what } => {
            let limit = minutes.or(hours.map(|hours| hours * 60.0));
            let seeds = if limit.is_some() { u64::MAX - first } else { seeds };
            let (mutation, story) = (what.mutation, what.scenario);
            campaign(&SeedJob { first, seeds, jobs, is_twice, mutation, story }, limit)
        }
        Command::Replay { seed, what, less } => replay(case(&seed, &what), less.trim()),
        Command::Shrink { seed, what } => shrink(case(&seed, &what)),
        Command::Digest { seeds, first, once: is_once } => digest(first, seeds, is_once),
        Command::Regressions { jobs } => rerun(jobs),
        Command::Hunt(hunt) => hunt.run(),
        Command::Large(large) => large.run(),
        Command::Scenarios => {
            Story::ALL.iter().for_each(|story| println!("{story}"));
            ExitCode::SUCCESS
        }
        Command::Mutations => {
            for mutation in Mutation::all() {
                println!("{:<24} rule {}", mutation.name, mutation.rule);
            }
            ExitCode::SUCCESS
        }
    }
}

fn case(seed: &Seed, what: &What) -> Case {
    Case { seed: seed.number, story: what.scenario, mutation: what.mutation }
}

fn verdict(is_good: bool) -> ExitCode {
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a job. If `minutes` is given, no seed begins after that time.
fn campaign(job: &SeedJob, minutes: Option<f64>) -> ExitCode {
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
    let mut summary = RunSummary::default();
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
    verdict(summary.bad.is_empty())
}

#[expect(clippy::disallowed_methods, reason = "how long the campaign itself took")]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}

/// Runs the list of regressions; each must be clean. They are printed as they end.
fn rerun(jobs: usize) -> ExitCode {
    let (all, mut is_good) = (storm::regressions(), true);
    let again = |at: u64| {
        let one = all.get(usize::try_from(at).ok()?)?;
        Some((one, run_caught(&plan_of(one.seed, one.story, Trim::default()), None)))
    };
    storm::on_threads(jobs, again, |(one, outcome)| {
        is_good &= outcome.violation.is_none();
        let verdict = outcome.violation.map_or("clean".to_owned(), |what| what.to_string());
        println!("seed {:>6}: {verdict} ({})", one.seed, one.note);
        true
    });
    verdict(is_good)
}

fn digest(first: u64, seeds: u64, is_once: bool) -> ExitCode {
    let mut is_good = true;
    for seed in first..first + seeds {
        let plan = plan_of(seed, None, Trim::default());
        let one = run_caught(&plan, None);
        let two = if is_once { one.clone() } else { run_caught(&plan, None) };
        let is_equal = (one.digest, one.events) == (two.digest, two.events);
        is_good &= is_equal;
        let word = if is_equal { "" } else { ", and another one the second time" };
        println!("seed {seed:>6}: {:016x} after {} events{word}", one.digest, one.events);
    }
    verdict(is_good)
}

fn replay(case: Case, trim: Trim) -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_env("STORM_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    storm::print_log(filter);
    let plan = case.plan(trim);
    println!("{plan:#?}");
    let outcome: RunOutcome = run(&plan, case.mutation);
    println!("{outcome:#?}");
    verdict(outcome.violation.is_none())
}

fn shrink(case: Case) -> ExitCode {
    let Some(trim) = case.shrink(|trim| println!("still with {}", Less::flags(trim))) else {
        eprintln!("gabion-storm: seed {} finds nothing: there is nothing to shrink", case.seed);
        return ExitCode::FAILURE;
    };
    let mut command = format!("gabion-storm replay --seed {}", case.seed);
    command.extend(case.story.map(|story| format!(" --scenario {story}")));
    command.extend(case.mutation.map(|mutation| format!(" --mutation {}", mutation.name)));
    println!("{command} {}", Less::flags(&trim));
    ExitCode::SUCCESS
}
