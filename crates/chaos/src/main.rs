// SPDX-License-Identifier: Apache-2.0
//! `gabion-chaos`: the fault campaign in the real world.
//!
//! Three hosts in network namespaces and an etcd of three members. On every host clients verify the
//! same volumes, under faults of processes, links, etcd and devices. The oracle of the simulated
//! campaign (`oracle::Oracle`) decides what may be read. A seed decides the faults only; the
//! machine decides the rest, so a seed does not repeat a run.
#![forbid(unsafe_code)]

mod campaign;
mod check;
mod client;
mod cluster;
mod command;
mod device;
mod devices;
mod etcd;
mod fault;
mod full;
mod inject;
mod network;
mod process;
mod record;
mod report;

use anyhow::{Context, Result};
use campaign::{Campaign, ChaosPlan};
use clap::{Parser, ValueEnum};
use fault::FaultKind;
use report::Report;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The fault campaign in the real world: three hosts in network namespaces, verified load, faults.
/// Needs root. Exit code 1: something was lost or wrong, got stuck, or
/// took longer than its limit.
#[derive(Debug, Parser)]
#[command(name = "gabion-chaos", max_term_width = 100)]
#[command(after_help = "Examples:
  gabion-chaos --minutes 10
  gabion-chaos --minutes 10 --seed 42
  gabion-chaos --minutes 10 --repair-delay 2
  gabion-chaos --faults kill,partition,all-killed")]
struct Cli {
    /// How many minutes new rounds of faults begin
    #[arg(long, default_value_t = 3.0, value_name = "M")]
    minutes: f64,
    /// The seed from which the faults are drawn [default: the clock]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// These faults once each, in this order, instead of drawn ones
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    faults: Vec<FaultKind>,
    /// Damage no device at the end of drawn faults
    #[arg(long)]
    spare_devices: bool,
    /// Volumes
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=4))]
    volumes: u8,
    /// Size of each volume, MiB
    #[arg(long, default_value_t = 48, value_parser = clap::value_parser!(u64).range(1..=100))]
    mib: u64,
    /// Seconds after which copies of hosts that stay away are made again elsewhere; with 2 the
    /// longer faults have that done [default: an hour, so never]
    #[arg(long, value_name = "S")]
    repair_delay: Option<u64>,
    /// The program under test [default: `gabion` beside this one]
    #[arg(long, value_name = "FILE")]
    gabion: Option<PathBuf>,
    /// Keep logs and devices, and say where they are
    #[arg(long)]
    keep: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A table for people
    Table,
    /// JSON for programs
    Json,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if !rustix::process::geteuid().is_root() {
        eprintln!("gabion-chaos: network namespaces need root: run it with sudo");
        return ExitCode::from(2);
    }
    match run(&cli) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("gabion-chaos: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn plan(cli: &Cli) -> Result<ChaosPlan> {
    let beside = || Ok::<_, anyhow::Error>(std::env::current_exe()?.with_file_name("gabion"));
    let gabion = cli.gabion.clone().map_or_else(beside, Ok)?;
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    Ok(ChaosPlan {
        gabion: gabion.canonicalize().with_context(|| format!("no '{}'", gabion.display()))?,
        seed: cli.seed.unwrap_or_else(clock),
        duration: Duration::try_from_secs_f64(cli.minutes * 60.0).context("no such time")?,
        faults: cli.faults.clone(),
        has_devices: !cli.spare_devices,
        volumes: cli.volumes.into(),
        repair_delay: cli.repair_delay,
        volume_bytes: cli.mib << 20,
        is_kept: cli.keep,
    })
}

/// Runs a campaign and prints its report. Returns whether nothing was wrong.
fn run(cli: &Cli) -> Result<bool> {
    let plan = plan(cli)?;
    etcd::check_programs()?;
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in signal_hook::consts::TERM_SIGNALS {
        signal_hook::flag::register(*signal, Arc::clone(&interrupted))?;
    }
    let bar = indicatif::ProgressBar::no_length();
    if let Ok(style) = indicatif::ProgressStyle::with_template("{spinner} {elapsed} {msg}") {
        bar.set_style(style);
    }
    let mut campaign = Campaign::start(&plan, &interrupted, bar)?;
    let seed = plan.seed;
    campaign
        .say(&format!("chaos: seed {seed}, files in {}", campaign.cluster.area.path().display()));
    let ran = campaign.run(&plan);
    let is_cut_short = interrupted.load(Ordering::SeqCst);
    // Whoever ends a campaign may end it in the middle of a command.
    if let Err(error) = ran.as_ref().map_err(|error| format!("{error:#}"))
        && !is_cut_short
    {
        campaign.troubles.push(format!("the campaign could not go on: {error}"));
    }
    let shared = Arc::clone(&campaign.shared);
    let record = std::mem::take(&mut *client::lock(&shared.record));
    let report = Report {
        seed,
        duration: campaign.begun.elapsed(),
        record: &record,
        troubles: &campaign.troubles,
        notes: &campaign.notes,
        is_cut_short,
    };
    let (is_good, text, json) = (report.is_good(), report.text(), report.json());
    let area = campaign.cluster.area.path().to_owned();
    campaign.stop();
    match cli.output {
        Output::Table => print!("{text}"),
        Output::Json => println!("{json:#}"),
    }
    if plan.is_kept {
        eprintln!("gabion-chaos: kept for a look: {}", area.display());
    }
    Ok(is_good)
}
