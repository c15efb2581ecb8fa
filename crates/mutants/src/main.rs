// SPDX-License-Identifier: Apache-2.0
//! `gabion-mutants`: changes the product by machine, in small ways, and sees whether tests or storm
//! notice (`./dev mutants`; docs/faults.md says what came of it).
//!
//! All changes are in one build of a copy of the workspace. `GABION_MUTANT` says which one is
//! active in a process, so no mutant costs a build of its own.
#![forbid(unsafe_code)]

mod build;
mod copy;
mod each;
mod lookout;
mod process;
mod render;
#[cfg(test)]
mod runtime;
mod scan;
#[cfg(test)]
mod tests;

use anyhow::{Context, Result};
use clap::Parser;
use copy::Copy;
use lookout::{Lookout, MutantFate, Patience, Results};
use scan::Mutant;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Changes the product by machine and sees who notices.
#[derive(Parser)]
#[command(after_help = "Examples:
  ./dev mutants --crates object --sample 50
  ./dev mutants --only crates/diskgroup/src/destage --set DISKGROUP_SEEDS=10 --storm 60
  ./dev mutants --each-test-of peer,volume --each 20
  ./dev mutants --again survived --tests 600 --storm 300
  ./dev mutants --report

Results are kept in target/mutation/results.tsv: what has one is not looked at again.")]
struct Cli {
    /// Crates that are changed
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "object,diskgroup,peer,directory,volume,nbd,format"
    )]
    crates: Vec<String>,
    /// Look only at mutants whose path begins so
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Look at so many of them, drawn at random; all by default
    #[arg(long)]
    sample: Option<usize>,
    /// What decides which are drawn, and in which order
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// CPU seconds for the tests of one mutant
    #[arg(long, default_value_t = 30.0)]
    tests: f64,
    /// CPU seconds for the storm of one mutant
    #[arg(long, default_value_t = 20.0)]
    storm: f64,
    /// The first seed of the storm
    #[arg(long, default_value_t = 260_000_000)]
    first: u64,
    /// An environment variable for tests and storm
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,
    /// Look again at those with that result: survived, unreached, storm, tests
    #[arg(long)]
    again: Option<String>,
    /// Not one mutant after another, but one test of these crates after another: does it notice any
    /// of the mutants that it reaches and hardly another test does
    #[arg(long, value_delimiter = ',')]
    each_test_of: Vec<String>,
    /// So many mutants for each test
    #[arg(long, default_value_t = 12)]
    each: usize,
    /// List the mutants, without building anything
    #[arg(long)]
    list: bool,
    /// Sum up the results
    #[arg(long)]
    report: bool,
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("it has the form NAME=VALUE")?;
    Ok((name.into(), value.into()))
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).context("no tree")?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(tree.join("target"), PathBuf::from);
    let folder = target.join("mutation");
    std::fs::create_dir_all(&folder)?;
    let known = folder.join("not-viable");
    let not_viable = std::fs::read_to_string(&known).unwrap_or_default();
    let not_viable = not_viable.lines().map(String::from).collect();
    let mut copy = Copy::make(tree, &folder.join("tree"), &cli.crates, not_viable)?;
    let mut results = Results::load(&folder.join("results.tsv"))?;
    if cli.list || cli.report {
        list(&copy, &results, cli.report);
        return Ok(());
    }
    let built = build::build(&mut copy, &cli.crates, &target)?;
    let labels: Vec<&str> = copy.not_viable.iter().map(String::as_str).collect();
    std::fs::write(&known, labels.join("\n"))?;
    let viable: Vec<&Mutant> =
        copy.mutants().filter(|(_, is_alive)| *is_alive).map(|(mutant, _)| mutant).collect();
    println!("{} mutants in the build, {} do not compile", viable.len(), copy.not_viable.len());
    if !cli.each_test_of.is_empty() {
        let patience = Patience { tests: cli.tests, storm: 0.0, first: 0, set: cli.set };
        let crates = cli.each_test_of.into_iter().collect();
        let lookout = Lookout::prepare(&copy.root, &folder, built, &crates, patience)?;
        return each::look(&lookout, &viable, cli.each, cli.seed, &folder.join("each.tsv"));
    }
    let chosen = choose(&cli, &viable, &results);
    let crate_of = |mutant: &&Mutant| mutant.path.split('/').nth(1).unwrap_or("").to_owned();
    let crates: BTreeSet<String> = chosen.iter().map(crate_of).collect();
    let Cli { tests, storm, first, set, .. } = cli;
    let patience = Patience { tests, storm, first, set };
    let lookout = Lookout::prepare(&copy.root, &folder, built, &crates, patience)?;
    for (index, mutant) in chosen.iter().enumerate() {
        let (mut fate, by) = lookout.fate(mutant)?;
        let before = results.of(&mutant.label()).map(|(fate, _)| fate);
        if (before, fate) == (Some(MutantFate::Survived), MutantFate::Unreached) {
            // Something reached it that did not run this time.
            fate = MutantFate::Survived;
        }
        println!("{}/{} {fate}: {}: {by}", index + 1, chosen.len(), mutant.label());
        results.add(mutant.label(), fate, by)?;
    }
    list(&copy, &results, true);
    Ok(())
}

/// The mutants to look at, in their order.
fn choose<'a>(cli: &Cli, viable: &[&'a Mutant], results: &Results) -> Vec<&'a Mutant> {
    let is_asked = |mutant: &&&Mutant| {
        cli.only.is_empty() || cli.only.iter().any(|path| mutant.path.starts_with(path.as_str()))
    };
    let mut chosen: Vec<&Mutant> = viable.iter().filter(is_asked).copied().collect();
    shuffle(&mut chosen, cli.seed);
    let is_due = |mutant: &&Mutant| match (results.of(&mutant.label()), &cli.again) {
        (Some((fate, _)), Some(again)) => fate.to_string() == *again,
        (fate, again) => fate.is_none() && again.is_none(),
    };
    // The sample is drawn before, so that a run that is started again goes on with the same one.
    if cli.again.is_none() {
        chosen.truncate(cli.sample.unwrap_or(usize::MAX));
    }
    chosen.retain(is_due);
    chosen
}

/// Fisher and Yates, with SplitMix64.
pub(crate) fn shuffle<T>(all: &mut [T], seed: u64) {
    let mut state = seed;
    for index in (1..all.len()).rev() {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut drawn = state;
        drawn = (drawn ^ (drawn >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        drawn = (drawn ^ (drawn >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let drawn = usize::try_from((drawn ^ (drawn >> 31)) >> 1).unwrap_or(0);
        all.swap(index, drawn % (index + 1));
    }
}

/// Prints each mutant with its fate and number; or sums by crate, and the survivors.
fn list(copy: &Copy, results: &Results, is_short: bool) {
    let mut sums: std::collections::BTreeMap<&str, [usize; 6]> = Default::default();
    for (mutant, is_alive) in copy.mutants() {
        let label = mutant.label();
        let fate = results.of(&label).filter(|_| is_alive);
        let is_survivor = fate.is_some_and(|(fate, _)| fate >= MutantFate::Survived);
        if !is_short || is_survivor {
            let word = fate.map_or(String::from("-"), |(fate, _)| fate.to_string());
            println!("{word:<10}{:>6} {label}", mutant.number);
        }
        let sum = sums.entry(mutant.path.split('/').nth(1).unwrap_or("")).or_default();
        sum[if is_alive { 0 } else { 1 }] += 1;
        if let Some((fate, _)) = fate {
            let place = MutantFate::ALL.iter().position(|one| *one == fate).unwrap_or(0);
            sum[2 + place] += 1;
        }
    }
    println!("\ncrate       viable  not  tests storm survived unreached  noticed");
    for (name, [viable, not, tests, storm, survived, unreached]) in sums {
        let share = (tests + storm) * 100 / (tests + storm + survived + unreached).max(1);
        print!("{name:<11} {viable:6} {not:4} {tests:6} {storm:5} {survived:8} {unreached:9}");
        println!(" {share:6} %");
    }
}
