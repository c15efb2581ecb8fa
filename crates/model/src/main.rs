// SPDX-License-Identifier: Apache-2.0
//! `gabion-model`: searches the protocol's model, in larger bounds than the tests do.
#![forbid(unsafe_code)]

use clap::Parser;
use model::histories::{self, Histories};
use model::mirror::{self, Mirror};
use model::search::{Limits, Model, Outcome, Progress, search};
use model::writers::{self, Writers};
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The time between two lines that tell how far a search is.
const REPORT: Duration = Duration::from_secs(2);

/// Looks at every state of the replication protocol's model, in one setup after the other.
#[derive(Parser)]
#[command(name = "gabion-model")]
struct Arguments {
    /// Setups to search; all if none is named, or with --broken the smallest that shows it
    setups: Vec<String>,
    /// Break this rule on purpose and print a shortest counterexample; `all`: each in turn
    #[arg(long, value_name = "NAME")]
    broken: Option<String>,
    /// Memory of one search at most, in MiB
    #[arg(long, default_value_t = 4096)]
    memory: usize,
    /// States of one search at most
    #[arg(long, default_value_t = 100_000_000)]
    states: usize,
    /// Minutes of one search at most
    #[arg(long)]
    minutes: Option<u64>,
    /// Only list setups and rules that can be broken
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.list {
        list();
        return ExitCode::SUCCESS;
    }
    let result = match &arguments.broken {
        None => hold(&arguments),
        Some(name) => broken(&arguments, name),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("gabion-model: {message}");
            ExitCode::from(2)
        }
    }
}

/// The bounds of one search, of any model.
#[derive(Clone, Copy)]
enum Bounds {
    Mirror(mirror::Setup),
    Histories(histories::Setup),
    Writers(writers::Setup),
}

impl Bounds {
    /// All setups with their names and what they are for.
    fn all() -> Vec<(&'static str, &'static str, Bounds)> {
        let of_mirror = mirror::SETUPS.iter();
        let of_mirror = of_mirror.map(|(name, why, setup)| (*name, *why, Bounds::Mirror(*setup)));
        let of_histories = histories::SETUPS.iter();
        let of_histories =
            of_histories.map(|(name, why, setup)| (*name, *why, Bounds::Histories(*setup)));
        let of_writers = writers::SETUPS.iter();
        let of_writers =
            of_writers.map(|(name, why, setup)| (*name, *why, Bounds::Writers(*setup)));
        of_mirror.chain(of_histories).chain(of_writers).collect()
    }

    /// All rules that can be broken and must be noticed: the name, the rule's number, and the
    /// bounds in which it is noticed.
    fn broken() -> Vec<(&'static str, &'static str, Bounds)> {
        let of_mirror = mirror::MUTATIONS.iter();
        let of_mirror =
            of_mirror.map(|known| (known.name, known.rule, Bounds::Mirror(known.setup)));
        let of_histories = histories::BROKEN.iter().map(|(name, broken)| {
            (*name, "25", Bounds::Histories(histories::Setup::showing(*broken)))
        });
        let of_writers = writers::BROKEN.iter().map(|(name, rule, broken)| {
            (*name, *rule, Bounds::Writers(writers::Setup::showing(*broken)))
        });
        of_mirror.chain(of_histories).chain(of_writers).collect()
    }

    /// These bounds, with the rule broken that is broken in `other`. `None` where the two are of
    /// different models.
    fn with_broken(self, other: Bounds) -> Option<Bounds> {
        match (self, other) {
            (Bounds::Mirror(setup), Bounds::Mirror(mirror::Setup { mutation, .. })) => {
                Some(Bounds::Mirror(mirror::Setup { mutation, ..setup }))
            }
            (Bounds::Histories(setup), Bounds::Histories(histories::Setup { broken, .. })) => {
                Some(Bounds::Histories(histories::Setup { broken, ..setup }))
            }
            (Bounds::Writers(setup), Bounds::Writers(writers::Setup { broken, .. })) => {
                Some(Bounds::Writers(writers::Setup { broken, ..setup }))
            }
            _ => None,
        }
    }
}

fn list() {
    println!("setups:");
    for (name, purpose, _) in Bounds::all() {
        println!("  {name:<16} {purpose}");
    }
    println!("rules that can be broken:");
    for (name, rule, _) in Bounds::broken() {
        println!("  {name:<24} rule {rule}");
    }
    println!("rules that can be broken without damage here:");
    for known in mirror::NOT_NEEDED {
        println!("  {:<24} rule {}", known.name, known.rule);
    }
}

/// The setups that were asked for.
fn setups(arguments: &Arguments) -> Result<Vec<(&'static str, Bounds)>, String> {
    let all = Bounds::all();
    let find = |name: &String| {
        let found = all.iter().find(|(known, ..)| known == name);
        let found = found.map(|(name, _, bounds)| (*name, *bounds));
        found.ok_or(format!("no setup `{name}`; --list names them"))
    };
    arguments.setups.iter().map(find).collect()
}

/// Searches with the rules as written. Returns whether no promise was broken.
fn hold(arguments: &Arguments) -> Result<bool, String> {
    let mut setups = setups(arguments)?;
    if setups.is_empty() {
        setups = Bounds::all().iter().map(|(name, _, bounds)| (*name, *bounds)).collect();
    }
    let mut holds = true;
    for (name, bounds) in setups {
        holds &= !matches!(run(arguments, name, bounds), Outcome::Broken(_));
    }
    Ok(holds)
}

/// Searches with rules broken. Returns whether each was noticed.
fn broken(arguments: &Arguments, name: &str) -> Result<bool, String> {
    let mut asked = Bounds::broken();
    if name != "all" {
        let others = mirror::NOT_NEEDED.iter();
        asked.extend(others.map(|known| (known.name, known.rule, Bounds::Mirror(known.setup))));
        asked.retain(|(known, ..)| *known == name);
    }
    if asked.is_empty() {
        return Err(format!("no rule `{name}` can be broken; --list names those that can"));
    }
    let setups = setups(arguments)?;
    let mut are_noticed = true;
    for (name, rule, smallest) in asked {
        let chosen = setups.iter().filter_map(|(_, bounds)| bounds.with_broken(smallest));
        let chosen = if setups.is_empty() { vec![smallest] } else { chosen.collect() };
        for bounds in chosen {
            let outcome = run(arguments, &format!("rule {rule} broken, {name}"), bounds);
            are_noticed &= matches!(outcome, Outcome::Broken(_));
        }
    }
    Ok(are_noticed)
}

fn run(arguments: &Arguments, name: &str, bounds: Bounds) -> Outcome {
    match bounds {
        Bounds::Mirror(setup) => report(arguments, name, &mut Mirror::new(setup)),
        Bounds::Histories(setup) => report(arguments, name, &mut Histories(setup)),
        Bounds::Writers(setup) => report(arguments, name, &mut Writers(setup)),
    }
}

/// Runs one search. It is reported on stderr while it runs and on stdout at its end.
#[expect(clippy::disallowed_methods, reason = "a tool at work, not a shard: real time")]
fn report<M: Model>(arguments: &Arguments, name: &str, model: &mut M) -> Outcome {
    let begun = Instant::now();
    let mut told = begun;
    let end = arguments.minutes.map(|minutes| begun + Duration::from_secs(60 * minutes));
    let limits = Limits { states: arguments.states, bytes: arguments.memory << 20 };
    let (outcome, progress) = search(model, limits, |progress| {
        let now = Instant::now();
        if now - told >= REPORT {
            told = now;
            eprintln!("{name}: {}", words(progress, now - begun));
        }
        if end.is_some_and(|end| now >= end) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    println!("{name}: {}: {outcome}", words(&progress, begun.elapsed()));
    outcome
}

fn words(progress: &Progress, elapsed: Duration) -> String {
    let Progress { states, steps, depth, waiting, bytes } = progress;
    let milliseconds = elapsed.as_millis().max(1);
    let rate = u128::try_from(*states).unwrap_or(u128::MAX) * 1000 / milliseconds;
    let (seconds, mebibytes) = (milliseconds / 1000, bytes >> 20);
    format!(
        "{states} states, {steps} steps, depth {depth}, {waiting} waiting, {rate}/s, \
         {mebibytes} MiB, {seconds} s"
    )
}
