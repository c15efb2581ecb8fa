// SPDX-License-Identifier: Apache-2.0
//! Commands that ask running hosts.

use crate::args::Cli;
use crate::ask::{self, Deed};
use crate::gather::gather;
use crate::group::say_attention;
use crate::maintenance;
use crate::memory;
use crate::output;
use crate::output::say;
use crate::resync;
use crate::scrub::{self, time};
use crate::target::{TargetHost, any_host};
use crate::{Fail, client};
use anyhow::Result;
use base::format_size;
use operator::{
    Command, Health, HostReport, HostState, RemovalReport, StatusReport, TurnsReport, VolumeReport,
    WritesReport,
};

fn health(health: Health) -> &'static str {
    match health {
        Health::Green => "green",
        Health::Yellow => "yellow",
        Health::Red => "red",
    }
}

fn state(state: HostState) -> &'static str {
    match state {
        HostState::Up => "up",
        HostState::NotAnswering => "not answering",
        HostState::Down => "down",
    }
}

/// `gabion status`.
pub fn status(cli: &Cli) -> Result<()> {
    let report = gather(&TargetHost::find(cli)?)?;
    output::print(cli.output, &report, show_status)
}

/// A status for people.
pub fn show_status(report: &StatusReport) {
    let directory = if report.directory { "reachable" } else { "NOT reachable" };
    say!("health {}, directory {directory}\n", health(report.health));
    for alarm in &report.alarms {
        say!("ALARM: {alarm}\n");
    }
    host_table(&report.hosts, report);
    if let Some(line) = resync::summary(&report.resyncs) {
        say!("\n{line} (gabion resync list)");
    }
    if !report.volumes.is_empty() {
        say!("");
        volume_table(&report.volumes);
    }
}

fn host_table(hosts: &[HostReport], report: &StatusReport) {
    let has_domains = hosts.iter().any(|host| !host.domains.is_empty());
    let rows = hosts.iter().map(|host| {
        let groups: Vec<_> = report.groups.iter().filter(|g| g.host == host.name).collect();
        let used: u64 = groups.iter().map(|g| g.used_bytes).sum();
        let capacity: u64 = groups.iter().map(|g| g.capacity_bytes).sum();
        let fill = groups.iter().map(|g| g.buffer_fill).fold(0.0, f64::max);
        let known = !groups.is_empty();
        let domain = has_domains.then(|| match host.domains.join("/") {
            none if none.is_empty() => "-".to_owned(),
            path => path,
        });
        let row = vec![
            host.name.clone(),
            host_state(host),
            if known { format!("{:.0} %", fill * 100.0) } else { "-".to_owned() },
            if known {
                format!("{} of {}", format_size(used), format_size(capacity))
            } else {
                "-".to_owned()
            },
            scrub::summary(&groups),
        ];
        row.into_iter().chain(domain).collect()
    });
    let heading =
        ["host", "state", "write buffer", "capacity used", "all verified", "fault domain"];
    let columns = if has_domains { heading.len() } else { heading.len() - 1 };
    output::table(&heading[..columns], rows.collect());
    say_attention(&report.groups);
}

/// For how long it does not answer, and how far its maintenance is.
fn host_state(host: &HostReport) -> String {
    let state = match host.silent_seconds {
        Some(silent) => format!("{} for {}", state(host.state), time(silent)),
        None => state(host.state).to_owned(),
    };
    match &host.maintenance {
        None => state,
        Some(report) if report.ready => format!("{state}, in maintenance: may be stopped"),
        Some(report) if !report.obstacles.is_empty() => {
            format!("{state}, in maintenance: must NOT be stopped")
        }
        Some(report) => {
            format!("{state}, in maintenance: {} copies to leave", report.to_move)
        }
    }
}

/// `gabion host remove`.
pub fn host_remove(cli: &Cli, host: &str, lost: bool, yes: bool) -> Result<()> {
    placement::check_name(host).map_err(|error| Fail::usage(error.to_string()))?;
    let socket = any_host(&TargetHost::find(cli)?)?;
    if !yes {
        let what = match lost {
            true => format!("host '{host}' and gives up all that it had"),
            false => format!("host '{host}'"),
        };
        ask::confirm_name(Deed::Remove, &what, host)?;
    }
    let command = Command::HostRemove { host: host.to_owned(), lost };
    let report: RemovalReport = client::ask(&socket, &command)?;
    output::print(cli.output, &report, |report| {
        say!("{host} is no host of the cluster any more");
        if report.copies > 0 {
            say!("{} copies that it had are made again elsewhere: gabion status", report.copies);
        }
    })
}

pub fn volume_table(volumes: &[VolumeReport]) {
    let rows = volumes.iter().map(|v| {
        let left: u64 = v.components.iter().map(|c| c.resync_bytes_left).sum();
        vec![
            v.name.clone(),
            format_size(v.size_bytes),
            v.ftt.to_string(),
            health(v.health).to_owned(),
            v.owner.clone().unwrap_or_else(|| "-".to_owned()),
            v.clients.to_string(),
            if v.reserve_percent > 0 { format!("{} %", v.reserve_percent) } else { "-".to_owned() },
            v.policy.as_ref().map_or_else(|| "-".to_owned(), |policy| policy.name.clone()),
            redundancy(v, left),
        ]
    });
    let heading = ["volume", "size", "ftt", "health", "owner", "clients", "reserve", "policy", ""];
    output::table(&heading, rows.collect());
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
    let up = report.hosts.iter().filter(|h| h.state == HostState::Up).count();
    let left: u64 =
        report.volumes.iter().flat_map(|v| &v.components).map(|c| c.resync_bytes_left).sum();
    let fill = report.groups.iter().map(|g| g.buffer_fill).fold(0.0, f64::max);
    let resync =
        if left > 0 { format!(", {} to resync", format_size(left)) } else { String::new() };
    format!(
        "{}: {up} of {} hosts up, {} volumes, write buffers at most {:.0} % full{resync}",
        health(report.health),
        report.hosts.len(),
        report.volumes.len(),
        fill * 100.0
    )
}

/// `gabion host list`.
pub fn host_list(cli: &Cli) -> Result<()> {
    let report = gather(&TargetHost::find(cli)?)?;
    output::print(cli.output, &report.hosts, |hosts| host_table(hosts, &report))
}

/// `gabion host show`.
pub fn host_show(cli: &Cli, name: &str) -> Result<()> {
    let report = gather(&TargetHost::find(cli)?)?;
    let Some(host) = report.hosts.iter().find(|host| host.name == name) else {
        let known: Vec<_> = report.hosts.iter().map(|host| host.name.as_str()).collect();
        let known = known.join(", ");
        return Err(Fail::failed(format!("no host '{name}': there are {known}")).into());
    };
    let turns = report.turns.iter().find(|turns| turns.host == name);
    let writes = report.writes.iter().find(|writes| writes.host == name);
    let groups: Vec<_> = report.groups.iter().filter(|group| group.host == name).collect();
    let memory = report.memory.iter().find(|memory| memory.host == name);
    let shown = serde_json::json!({
        "name": host.name, "state": host.state, "peer": host.peer, "turns": turns, "groups": groups,
        "writes": writes.map(|writes| &writes.stages),
        "memory": memory, "maintenance": &host.maintenance, "domains": &host.domains,
    });
    output::print(cli.output, &shown, |_| {
        say!("{name} is {}, other hosts reach it at {}", state(host.state), host.peer);
        if !host.domains.is_empty() {
            say!("it is in fault domain {}", host.domains.join("/"));
        }
        if let Some(report) = &host.maintenance {
            say!("{}", maintenance::how_far(report));
        }
        match turns {
            None => say!("it does not answer here: its disk groups and turns are not known"),
            Some(turns) => say!("{}", turns_line(turns)),
        }
        for group in &groups {
            let path = group.devices.first().map_or("", |device| device.path.as_str());
            say!("disk group {} ({path}): {}", group.id, group.state);
        }
        if let Some(writes) = writes.filter(|writes| writes.stages.iter().any(|s| s.passed > 0)) {
            say!(
                "where the time of writes went since its start (microseconds, one in 100 measured):"
            );
            stage_table(writes);
        }
        memory.into_iter().for_each(memory::table);
    })
}

fn stage_table(writes: &WritesReport) {
    let heading = ["STAGE", "PASSED", "MEAN", "MEDIAN", "P99", "LONGEST"];
    let rows = writes.stages.iter().map(|of| {
        let times = [of.mean_us, of.median_us, of.p99_us, of.longest_us];
        let times = times.map(|micros| format!("{micros:.0}"));
        [vec![of.stage.clone(), of.passed.to_string()], times.to_vec()].concat()
    });
    output::table(&heading, rows.collect());
}

/// How often single tasks of a host kept its one thread busy for too long, and how long at most.
fn turns_line(turns: &TurnsReport) -> String {
    let Some(task) = &turns.longest_task else {
        return "no turn of its thread took longer than 20 ms since its start".to_owned();
    };
    let ago = turns.longest_seconds_ago.unwrap_or(0.0);
    let (count, longest) = (turns.long, turns.longest_ms);
    let things = if count == 1 { "turn" } else { "turns" };
    format!(
        "{count} {things} of its thread took longer than 20 ms since its start, the longest \
         {longest:.0} ms ('{task}', {ago:.0} s ago)"
    )
}
