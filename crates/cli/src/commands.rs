// SPDX-License-Identifier: Apache-2.0
//! Commands that ask running hosts.

use crate::args::Cli;
use crate::directory;
use crate::hosts;
use crate::labels::{LabelColumn, in_one_line};
use crate::output;
use crate::output::say;
use crate::resync;
use crate::scrub::time;
use crate::target::{TargetHost, gather};
use crate::upgrade;
use anyhow::Result;
use base::format_size;
use operator::{Health, HostReport, HostState, StatusReport, VolumeReport};
use serde::Serialize;
use std::path::PathBuf;

fn health(health: Health) -> &'static str {
    match health {
        Health::Green => "green",
        Health::Yellow => "yellow",
        Health::Red => "red",
    }
}

/// `gabion status`.
pub fn status(cli: &Cli) -> Result<()> {
    let target = TargetHost::find(cli)?;
    let mut report = gather(&target)?;
    let alarms = directory::alarms(&target);
    if !alarms.is_empty() && report.health == Health::Green {
        report.health = Health::Yellow;
    }
    report.alarms.extend(alarms);
    let said = StatusSaid { report: &report, api: ApiPlace::of(&target) };
    output::print(cli.output, &said, |said| show_status(said.report))
}

/// A status, and where more can be asked.
#[derive(Serialize)]
struct StatusSaid<'a> {
    #[serde(flatten)]
    report: &'a StatusReport,
    api: ApiPlace,
}

/// Where the API listens.
#[derive(Serialize)]
pub struct ApiPlace {
    /// A Unix socket, for the user of the hosts alone.
    socket: PathBuf,
    /// On the network, for whoever has a token; none where there are no keys for it.
    urls: Vec<String>,
    /// The certificate that it proves itself with there.
    ca_file: Option<PathBuf>,
}

impl ApiPlace {
    /// That of whoever answers here.
    pub fn of(target: &TargetHost) -> Self {
        let (address, ca_file) = target.api_network().unzip();
        let urls = address.map(|address| format!("https://{address}")).into_iter().collect();
        Self { socket: target.api_socket(), urls, ca_file }
    }
}

/// A status for people.
pub fn show_status(report: &StatusReport) {
    let directory = if report.directory { "reachable" } else { "NOT reachable" };
    say!("health {}, directory {directory}\n", health(report.health));
    for alarm in &report.alarms {
        say!("ALARM: {alarm}\n");
    }
    hosts::table(&report.hosts, report);
    upgrade::say_levels(report);
    if let Some(line) = resync::summary(&report.resyncs) {
        say!("\n{line} (gabion resync list)");
    }
    if !report.volumes.is_empty() {
        say!("");
        volume_table(&report.volumes, LabelColumn::Hidden);
    }
}

pub fn volume_table(volumes: &[VolumeReport], labels: LabelColumn) {
    let has_labels = labels == LabelColumn::Shown;
    let rows = volumes.iter().map(|v| {
        let left: u64 = v.components.iter().map(|c| c.resync_bytes_left).sum();
        let row = [
            v.name.clone(),
            format_size(v.size_bytes),
            v.ftt.to_string(),
            health(v.health).to_owned(),
            v.owner.clone().unwrap_or_else(|| "-".to_owned()),
            v.clients.to_string(),
            crate::policy::percent(v.reserve_percent),
            v.policy.as_ref().map_or_else(|| "-".to_owned(), |policy| policy.name.clone()),
        ];
        let labels = has_labels.then(|| in_one_line(&v.labels));
        row.into_iter().chain(labels).chain([redundancy(v, left)]).collect()
    });
    let heading = ["volume", "size", "ftt", "health", "owner", "clients", "reserve", "policy"];
    let heading = heading.into_iter().chain(has_labels.then_some("labels")).chain([""]);
    output::table(&heading.collect::<Vec<_>>(), rows.collect());
}

/// For how long a volume has had too few copies, how much is left to copy, and when it is repaired.
fn redundancy(volume: &VolumeReport, left: u64) -> String {
    let reduced = volume.reduced_seconds.map(|seconds| match volume.health {
        Health::Red => format!("out of service, reduced for {}", time(seconds)),
        _ => format!("reduced for {}", time(seconds)),
    });
    let resync = (left > 0).then(|| format!("{} to resync", format_size(left)));
    let repair = match (&volume.not_repaired, volume.repair_in_seconds) {
        (Some(_), _) => Some("not repaired ('gabion volume show')".to_owned()),
        (None, Some(seconds)) if seconds > 0 => Some(format!("repair in {}", time(seconds))),
        (None, Some(_) | None) => None,
    };
    let parts: Vec<String> = reduced.into_iter().chain(resync).chain(repair).collect();
    parts.join(", ")
}

/// One line about everything, for the foreground of `gabion up`.
pub fn status_line(target: &TargetHost) -> String {
    let Ok(report) = gather(target) else { return "no host answers".to_owned() };
    let hosts = operator::by_host(&report.hosts);
    let is_up = |shards: &[&HostReport]| shards.iter().all(|one| one.state == HostState::Up);
    let up = hosts.iter().filter(|(_, shards)| is_up(shards)).count();
    let left: u64 =
        report.volumes.iter().flat_map(|v| &v.components).map(|c| c.resync_bytes_left).sum();
    let fill = report.groups.iter().map(|g| g.buffer_fill).fold(0.0, f64::max);
    let resync =
        if left > 0 { format!(", {} to resync", format_size(left)) } else { String::new() };
    format!(
        "{}: {up} of {} hosts up, {} volumes, write buffers at most {:.0} % full{resync}",
        health(report.health),
        hosts.len(),
        report.volumes.len(),
        fill * 100.0
    )
}
