// SPDX-License-Identifier: Apache-2.0
//! `gabion repair` and the settings of the cluster.

use crate::args::{Cli, RepairCommand, SetCommand, Switch};
use crate::output::{self, say};
use crate::target::TargetHost;
use crate::{Fail, client};
use anyhow::Result;
use base::format_size;
use operator::{ClusterReport, Command, RepairReport};
use std::time::Duration;

pub fn repair(cli: &Cli, command: &RepairCommand) -> Result<()> {
    let RepairCommand::Now { volume } = command;
    if let Some(name) = volume {
        placement::check_name(name).map_err(|error| Fail::usage(error.to_string()))?;
    }
    let door = TargetHost::find(cli)?.door();
    let command = Command::RepairNow { volume: volume.clone() };
    let report: RepairReport = client::ask(&door, &command)?;
    output::print(cli.output, &report, |report| {
        if report.begun.is_empty() && report.refused.is_empty() {
            say!("nothing is missing of hosts that are down");
        }
        for (volume, count, to) in by_volume(report) {
            say!("{count} component(s) of volume {volume} are made again on {to}");
        }
        for not in &report.refused {
            say!("volume {}: {}", not.volume, not.why);
        }
        if !report.begun.is_empty() {
            say!("how far it is: gabion status");
        }
    })
}

/// For each volume how many components are made again, and where.
fn by_volume(report: &RepairReport) -> Vec<(&str, usize, String)> {
    let mut all: Vec<(&str, usize, Vec<&str>)> = Vec::new();
    for copy in &report.begun {
        let known = all.iter_mut().find(|(volume, ..)| *volume == copy.volume);
        match known {
            Some((_, count, hosts)) => {
                *count += 1;
                if !hosts.contains(&copy.to.as_str()) {
                    hosts.push(&copy.to);
                }
            }
            None => all.push((&copy.volume, 1, vec![&copy.to])),
        }
    }
    all.into_iter().map(|(volume, count, hosts)| (volume, count, hosts.join(", "))).collect()
}

/// `gabion cluster show`.
pub fn settings(cli: &Cli) -> Result<()> {
    let door = TargetHost::find(cli)?.door();
    let report: ClusterReport = client::ask(&door, &Command::ClusterShow)?;
    output::print(cli.output, &report, |report| {
        say!("kind             {}", report.kind.name());
        say!("repair-delay     {}", told(report));
        match report.resync_bytes_per_second {
            Some(bytes) => say!("resync-limit     {}/s at each host", format_size(bytes)),
            None => say!("resync-limit     none"),
        }
        say!("rebalance        {}", if report.rebalances { "on" } else { "off" });
        say!("rebuild-reserve  {}", if report.rebuild_reserve { "on" } else { "off" });
        say!("encrypt-links    {}", if report.encrypt_links { "on" } else { "off" });
        say!("level            {}", report.level);
        match &report.not_rebuilt {
            None => say!("what is on any one host could be made again on the others"),
            Some(why) => say!("a lost host could not be made again on the others: {why}"),
        }
    })
}

/// `gabion cluster set`.
pub fn set(cli: &Cli, command: &SetCommand) -> Result<()> {
    let door = TargetHost::find(cli)?.door();
    let asked = match command {
        SetCommand::RepairDelay { delay } => Command::ClusterSet { repair_delay_seconds: delay.0 },
        SetCommand::RebuildReserve { switch } => {
            Command::RebuildReserve { on: *switch == Switch::On }
        }
        SetCommand::EncryptLinks { switch } => Command::EncryptLinks { on: *switch == Switch::On },
        SetCommand::Rebalance { switch } => Command::Rebalance { on: *switch == Switch::On },
        SetCommand::Kind { kind } => Command::ClusterKind { kind: *kind },
    };
    let report: ClusterReport = client::ask(&door, &asked)?;
    output::print(cli.output, &report, |report| match (command, report.repair_delay_seconds) {
        (SetCommand::Rebalance { switch: Switch::On }, _) => {
            say!("copies move from full hosts to emptier ones by themselves");
        }
        (SetCommand::Rebalance { switch: Switch::Off }, _) => {
            say!("copies stay where they are: 'gabion volume move' moves them");
        }
        (SetCommand::EncryptLinks { switch: Switch::On }, _) => {
            say!("links between hosts are encrypted, and each proves who it is");
        }
        (SetCommand::EncryptLinks { switch: Switch::Off }, _) => {
            say!("links between hosts are not encrypted: whoever reaches the network of the hosts");
            say!("can read and change what passes");
        }
        (SetCommand::Kind { kind }, _) => {
            say!("new disk groups are {}; those that there are stay what they are", kind.name());
        }
        (SetCommand::RebuildReserve { switch: Switch::On }, _) => {
            say!("volumes are made while any one host could be made again on the others");
            if let Some(why) = &report.not_rebuilt {
                say!("now it could not: {why}");
            }
        }
        (SetCommand::RebuildReserve { switch: Switch::Off }, _) => {
            say!("volumes are made as long as there is a place for them");
        }
        (_, Some(_)) => say!("a copy that is away for {} is made again elsewhere", told(report)),
        (_, None) => say!("copies are made again by 'gabion repair now' alone"),
    })
}

fn told(report: &ClusterReport) -> String {
    match report.repair_delay_seconds {
        Some(seconds) => humantime::format_duration(Duration::from_secs(seconds)).to_string(),
        None => "never".to_owned(),
    }
}
