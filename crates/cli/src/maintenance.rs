// SPDX-License-Identifier: Apache-2.0
//! `gabion host maintenance` and `gabion what-if`.

use crate::args::{Cli, MaintenanceCommand, Output, WhatIfCommand};
use crate::output::{self, say};
use crate::resync::bar;
use crate::target::TargetHost;
use crate::{Fail, ask, client, policy};
use anyhow::Result;
use base::format_size;
use host::MaintenanceMode;
use operator::{Command, MaintenanceReport, VolumeWithoutHost};
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// Between two looks at how far it is.
const LOOK: Duration = Duration::from_secs(1);
/// Volumes that are shown one by one.
const VOLUMES_SHOWN: usize = 12;

pub fn maintenance(cli: &Cli, command: &MaintenanceCommand) -> Result<()> {
    let target = TargetHost::find(cli)?;
    match command {
        MaintenanceCommand::Check { host, mode } => {
            output::print(cli.output, &check(&target, host, *mode)?, say_check)
        }
        MaintenanceCommand::Enter { host, mode, yes, no_wait } => {
            enter(cli, &target, (host, *mode), (*yes, !*no_wait))
        }
        MaintenanceCommand::Exit { host } => {
            let command = Command::MaintenanceExit { host: host.clone() };
            let report: MaintenanceReport = client::ask(&target.door(), &command)?;
            output::print(cli.output, &report, |report| {
                say!("{host} takes part again");
                if report.under_way > 0 {
                    say!(
                        "{} copies that were leaving it stay: gabion resync list",
                        report.under_way
                    );
                }
            })
        }
    }
}

/// `gabion what-if`.
pub fn what_if(cli: &Cli, command: &WhatIfCommand) -> Result<()> {
    match command {
        WhatIfCommand::HostFailure { host } => {
            let report = check(&TargetHost::find(cli)?, host, Some(MaintenanceMode::None))?;
            output::print(cli.output, &report, say_failure)
        }
        WhatIfCommand::Policy { policy, volumes } => policy::what_if(cli, policy, volumes),
    }
}

fn check(
    target: &TargetHost,
    host: &str,
    mode: Option<MaintenanceMode>,
) -> Result<MaintenanceReport> {
    let command = Command::MaintenanceCheck { host: host.to_owned(), mode };
    client::ask(&target.door(), &command)
}

fn enter(
    cli: &Cli,
    target: &TargetHost,
    (host, mode): (&str, MaintenanceMode),
    (yes, waits): (bool, bool),
) -> Result<()> {
    if !yes {
        let report = check(target, host, Some(mode))?;
        if cli.output == Output::Table {
            say_check(&report);
        }
        if report.obstacles.is_empty() && !ask::confirm_shown(&format!("maintenance of {host}"))? {
            return Err(Fail::failed("nothing was changed").into());
        }
    }
    let command = Command::MaintenanceEnter { host: host.to_owned(), mode };
    let mut report: MaintenanceReport = client::ask(&target.door(), &command)?;
    if waits {
        report = wait(cli, target, report)?;
    }
    output::print(cli.output, &report, |report| say!("{}", how_far(report)))
}

/// Waits until the host may be stopped. Fails where somebody ends its maintenance.
fn wait(cli: &Cli, target: &TargetHost, begun: MaintenanceReport) -> Result<MaintenanceReport> {
    let is_drawn = cli.output == Output::Table && std::io::stderr().is_terminal();
    let (host, mode) = (begun.host.as_str(), begun.mode);
    let mut all = begun.to_move;
    loop {
        let report = check(target, host, Some(mode))?;
        all = all.max(report.to_move);
        let line = match report.obstacles.first() {
            Some(why) => format!("waits: {why}"),
            None => {
                let done = all.saturating_sub(report.to_move);
                format!("{} {done} of {all} copies left {host}", bar(done * 100 / all.max(1)))
            }
        };
        if is_drawn {
            // Carriage return, and the rest of the line before is erased.
            let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
        }
        if report.ready || !report.entered {
            if is_drawn {
                let _ = writeln!(std::io::stderr());
            }
            return match report.entered {
                true => Ok(report),
                false => Err(Fail::failed(format!(
                    "maintenance of {host} was ended, or given another mode, by somebody else"
                ))
                .into()),
            };
        }
        std::thread::sleep(LOOK);
    }
}

/// One line about a host in maintenance.
pub fn how_far(report: &MaintenanceReport) -> String {
    let MaintenanceReport { host, to_move, to_delete, .. } = report;
    if report.ready {
        return format!("{host} is in maintenance and may be stopped");
    }
    if let Some(why) = report.obstacles.first() {
        return format!("{host} is in maintenance and must NOT be stopped: {why}");
    }
    if *to_move == 0 {
        return format!(
            "{host} is in maintenance; {to_delete} copies are still to be deleted on it"
        );
    }
    format!("{host} is in maintenance; {to_move} copies are still to leave it: gabion resync list")
}

fn say_check(report: &MaintenanceReport) {
    let MaintenanceReport { host, copies, to_move, .. } = report;
    if report.entered {
        say!("{}\n", how_far(report));
    }
    if report.volumes.is_empty() {
        say!("no volume has a copy on {host}");
    } else {
        let now = if report.entered { "is stopped" } else { "would be stopped" };
        volume_table(&report.volumes, now);
    }
    if *to_move > 0 {
        let (bytes, free) = (format_size(report.move_bytes), format_size(report.free_bytes));
        say!(
            "{to_move} of {copies} copies leave {host}: at most {bytes}, to hosts that have {free} \
             free together"
        );
    } else if *copies > 0 {
        say!("nothing is copied: what {host} has stays there");
    }
    for why in &report.obstacles {
        say!("not possible: {why}");
    }
}

fn say_failure(report: &MaintenanceReport) {
    let MaintenanceReport { host, copies, only, without_place, .. } = report;
    if *copies == 0 {
        say!("no volume has a copy on {host}: none would notice");
        return;
    }
    volume_table(&report.volumes, "is gone");
    let used = report.used_bytes.map_or("what it holds".to_owned(), format_size);
    let placed = copies.saturating_sub(*without_place).saturating_sub(*only);
    if placed > 0 {
        say!(
            "{placed} copies would be made again on other hosts after the repair delay: at most \
             {used}, where {} are free together",
            format_size(report.free_bytes)
        );
        if report.used_bytes.is_some_and(|used| used > report.free_bytes) {
            say!("that does NOT fit: add disk groups or a host ('gabion host join')");
        }
    }
    if *without_place > 0 {
        say!(
            "{without_place} copies would NOT be made again: each other host has one, or is down, \
             or in maintenance; add a host ('gabion host join')"
        );
    }
    if *only > 0 {
        say!(
            "{only} copies are the only whole ones: what they have would be gone with {host} \
             ('gabion volume change --ftt 1' has another one made)"
        );
    }
}

fn volume_table(volumes: &[VolumeWithoutHost], what: &str) {
    let rows = volumes.iter().take(VOLUMES_SHOWN).map(|volume| {
        let VolumeWithoutHost { copies, to_move, left, asked, .. } = volume;
        vec![
            volume.volume.clone().unwrap_or_else(|| "(being made or deleted)".to_owned()),
            copies.to_string(),
            if *to_move > 0 { to_move.to_string() } else { "-".to_owned() },
            match left {
                0 => "out of service".to_owned(),
                left if left < asked => format!("reduced: {left} of {asked} copies"),
                _ => "as now".to_owned(),
            },
        ]
    });
    let heading = ["volume", "copies there", "leave it", &format!("while the host {what}")];
    output::table(&heading, rows.collect());
    if volumes.len() > VOLUMES_SHOWN {
        say!("and {} more (--output json shows all)", volumes.len() - VOLUMES_SHOWN);
    }
    say!("");
}
