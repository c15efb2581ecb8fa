// SPDX-License-Identifier: Apache-2.0
//! `gabion-storm large`: what a large cluster costs.

use crate::clock;
use clap::Args;
use std::process::ExitCode;
use storm::{LargeOptions, run_large};

#[derive(Args)]
pub(crate) struct Large {
    /// Hosts as operators know them: machines
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(2..=256))]
    hosts: u32,
    /// Shards on each of them
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=8))]
    shards: u32,
    /// Racks
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=64))]
    racks: u32,
    /// Volumes of two copies
    #[arg(long, default_value_t = 12_800)]
    volumes: u32,
    /// Hosts that enter maintenance and are restarted, one after the other
    #[arg(long, default_value_t = 4)]
    rolling: u32,
    /// The seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Large {
    pub(crate) fn run(&self) -> ExitCode {
        let Self { hosts, shards, racks, volumes, rolling, seed } = *self;
        let rolling = rolling.min(hosts);
        let options = LargeOptions { seed, machines: hosts, shards, racks, volumes, rolling };
        let (all, mut begun) = (f64::from(hosts * shards), clock());
        println!(
            "{hosts} hosts of {shards} shards in {racks} racks, {volumes} volumes, seed {seed}"
        );
        let heading =
            ["STEP", "VIRTUAL S", "WALL S", "CHANGES", "LINKS", "SENDS", "MEMORY", "EACH"];
        let [step, virtually, wall, changes, links, sends, memory, each] = heading;
        print!("{step:<22}{virtually:>10}{wall:>8}{changes:>9}{links:>9}{sends:>12}");
        println!("{memory:>13}{each:>11}");
        let mut done = |step: storm::LargeStep| {
            let (bytes, wall) = (memory_bytes(), begun.elapsed().as_secs_f64());
            begun = clock();
            println!(
                "{:<22}{:>10.1}{wall:>8.1}{:>9}{:>9}{:>12}{:>13}{:>11}",
                step.what,
                step.took.as_secs_f64(),
                step.changes,
                step.links,
                step.sends,
                mib(bytes),
                mib(bytes / all),
            );
        };
        match run_large(&options, &mut done) {
            Ok(load) => {
                let (writes, failed, longest) =
                    (load.writes, load.failed, load.longest.as_secs_f64());
                println!(
                    "clients on every host that was up: {writes} writes, each read back, {failed} \
                     failed or wrong; the longest took {longest:.1} s"
                );
                if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
            }
            Err(why) => {
                println!("{why}");
                ExitCode::FAILURE
            }
        }
    }
}

fn mib(bytes: f64) -> String {
    format!("{:.1} MiB", bytes / f64::from(1 << 20))
}

/// What this process has of the machine's memory, bytes; 0 where the system does not tell.
#[expect(clippy::disallowed_methods, reason = "what the simulation itself takes")]
fn memory_bytes() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let kib = line.trim().trim_end_matches("kB").trim().parse::<f64>();
    kib.unwrap_or(0.0) * 1024.0
}
