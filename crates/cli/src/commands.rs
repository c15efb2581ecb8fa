// SPDX-License-Identifier: Apache-2.0
//! Commands that ask running hosts.

use crate::Fail;
use crate::args::{Cli, VolumeCommand};
use crate::client::{self, exchange};
use crate::group::say_attention;
use crate::output;
use crate::output::say;
use crate::supervisor::{Answer, Question};
use crate::target::Target;
use anyhow::Result;
use base::format_size;
use host::{Command, Health, HostReport, HostState, StatusReport, VolumeReport};
use placement::VolumeSpec;
use std::path::PathBuf;
use std::time::Duration;

/// Longest wait for a host to end or to be started.
const HOST_MAX: Duration = Duration::from_secs(20);

/// Statuses of all hosts that answer, merged into one picture.
pub fn gather(target: &Target) -> Result<StatusReport> {
    let mut statuses: Vec<StatusReport> =
        target.control_sockets().iter().filter_map(|socket| client::status(socket)).collect();
    if statuses.is_empty() {
        return Err(no_host());
    }
    // The answer of the host that knows most leads; the others add what only they know.
    let lead = statuses.iter().position(|s| s.directory).unwrap_or(0);
    let mut merged = statuses.remove(lead);
    for status in statuses {
        merged.groups.extend(status.groups);
        for theirs in status.volumes {
            let Some(ours) = merged.volumes.iter_mut().find(|v| v.name == theirs.name) else {
                continue;
            };
            ours.clients += theirs.clients;
            if ours.owner.as_deref() == Some(status.host.as_str()) {
                ours.components = theirs.components;
            }
        }
    }
    merged.groups.sort_by(|a, b| a.host.cmp(&b.host));
    Ok(merged)
}

pub fn no_host() -> anyhow::Error {
    Fail::failed("no host answers: start the cluster with 'gabion up'").into()
}

/// The control socket of the first host that answers.
fn any_host(target: &Target) -> Result<PathBuf> {
    let sockets = target.control_sockets();
    let live = sockets.into_iter().find(|socket| client::status(socket).is_some());
    live.ok_or_else(no_host)
}

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
        HostState::Down => "down",
    }
}

/// `gabion status`.
pub fn status(cli: &Cli) -> Result<()> {
    let report = gather(&Target::find(cli)?)?;
    output::print(cli.output, &report, |report| {
        let directory = if report.directory { "reachable" } else { "NOT reachable" };
        say!("health {}, directory {directory}\n", health(report.health));
        host_table(&report.hosts, report);
        if !report.volumes.is_empty() {
            say!("");
            volume_table(&report.volumes);
        }
    })
}

fn host_table(hosts: &[HostReport], report: &StatusReport) {
    let rows = hosts.iter().map(|host| {
        let groups: Vec<_> = report.groups.iter().filter(|g| g.host == host.name).collect();
        let used: u64 = groups.iter().map(|g| g.used_bytes).sum();
        let capacity: u64 = groups.iter().map(|g| g.capacity_bytes).sum();
        let fill = groups.iter().map(|g| g.buffer_fill).fold(0.0, f64::max);
        let known = !groups.is_empty();
        vec![
            host.name.clone(),
            state(host.state).to_owned(),
            if known { format!("{:.0} %", fill * 100.0) } else { "-".to_owned() },
            if known {
                format!("{} of {}", format_size(used), format_size(capacity))
            } else {
                "-".to_owned()
            },
        ]
    });
    output::table(&["host", "state", "write buffer", "capacity used"], rows.collect());
    say_attention(&report.groups);
}

fn volume_table(volumes: &[VolumeReport]) {
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
            if left > 0 { format!("{} to resync", format_size(left)) } else { String::new() },
        ]
    });
    let heading = ["volume", "size", "ftt", "health", "owner", "clients", "reserve", ""];
    output::table(&heading, rows.collect());
}

/// One line about everything, for the foreground of `gabion up`.
pub fn status_line(target: &Target) -> String {
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
    let report = gather(&Target::find(cli)?)?;
    output::print(cli.output, &report.hosts, |hosts| host_table(hosts, &report))
}

/// `gabion host kill`.
pub fn host_kill(cli: &Cli, host: &str) -> Result<()> {
    supervise(cli, &Question::Kill(host.to_owned()))?;
    output::print(cli.output, &serde_json::json!({"name": host, "state": "down"}), |_| {
        say!("{host} was killed; start it again with 'gabion host start {host}'");
    })
}

/// `gabion host start`: returns when the host answers.
pub fn host_start(cli: &Cli, host: &str) -> Result<()> {
    supervise(cli, &Question::Start(host.to_owned()))?;
    let (layout, _) = Target::local(cli)?;
    let until = std::time::Instant::now() + HOST_MAX;
    while client::status(&layout.control_socket(host)).is_none() {
        if std::time::Instant::now() > until {
            let log = layout.log();
            return Err(Fail::failed(format!(
                "{host} does not get ready: see '{}'",
                log.display()
            ))
            .into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    output::print(cli.output, &serde_json::json!({"name": host, "state": "up"}), |_| {
        say!("{host} is up");
    })
}

fn supervise(cli: &Cli, question: &Question) -> Result<()> {
    let (layout, _) = Target::local(cli)?;
    let answer = exchange(&layout.supervisor_socket(), question, HOST_MAX);
    match answer {
        Ok(Answer::Failed(message)) => Err(Fail::failed(message).into()),
        Ok(_) => Ok(()),
        Err(_) => Err(Fail::failed("the cluster is not running: start it with 'gabion up'").into()),
    }
}

/// `gabion volume ...`.
pub fn volume(cli: &Cli, command: &VolumeCommand) -> Result<()> {
    match command {
        VolumeCommand::Create { name, size, ftt, reserve } => {
            create(cli, name, *size, *ftt, *reserve)
        }
        VolumeCommand::List => {
            let report = gather(&Target::find(cli)?)?;
            output::print(cli.output, &report.volumes, |volumes| volume_table(volumes))
        }
        VolumeCommand::Show { name } => show(cli, name),
        VolumeCommand::Change { name, reserve } => change(cli, name, *reserve),
        VolumeCommand::Delete { name } => delete(cli, name),
    }
}

fn create(cli: &Cli, name: &str, size: u64, ftt: u8, reserve: u8) -> Result<()> {
    let spec = VolumeSpec::new(name, size, ftt).and_then(|spec| spec.with_reserve(reserve));
    spec.map_err(|error| Fail::usage(error.to_string()))?;
    let socket = any_host(&Target::find(cli)?)?;
    let command = Command::VolumeCreate {
        name: name.to_owned(),
        size_bytes: size,
        ftt,
        reserve_percent: reserve,
    };
    let volume: VolumeReport = client::ask(&socket, &command)?;
    output::print(cli.output, &volume, |volume| {
        say!("volume {} of {} created", volume.name, format_size(volume.size_bytes));
        if let Some(uri) = volume.nbd.first() {
            say!("{uri}");
        }
    })
}

fn change(cli: &Cli, name: &str, reserve: u8) -> Result<()> {
    placement::check_name(name).map_err(|error| Fail::usage(error.to_string()))?;
    let target = Target::find(cli)?;
    let command = Command::VolumeChange { name: name.to_owned(), reserve_percent: reserve };
    let volume: VolumeReport = client::ask(&any_host(&target)?, &command)?;
    let away = volume.components.iter().filter(|c| c.state != "active");
    let away: Vec<_> = away.map(|c| c.host.as_str()).collect();
    output::print(cli.output, &volume, |volume| {
        say!("{} % of volume {} are kept for it", volume.reserve_percent, volume.name);
        if !away.is_empty() {
            say!("not active now: {}; its copy there takes it when it returns", away.join(", "));
        }
    })
}

fn show(cli: &Cli, name: &str) -> Result<()> {
    placement::check_name(name).map_err(|error| Fail::usage(error.to_string()))?;
    let report = gather(&Target::find(cli)?)?;
    let volume = report.volumes.into_iter().find(|v| v.name == name);
    let Some(volume) = volume else {
        return Err(
            Fail::failed(format!("there is no volume '{name}': see 'gabion volume list'")).into()
        );
    };
    output::print(cli.output, &volume, |volume| {
        volume_table(std::slice::from_ref(volume));
        say!("");
        let rows = volume.components.iter().map(|c| {
            let more = match c.resync_bytes_left {
                0 => c.why.clone().unwrap_or_default(),
                left => format!("{} to resync", format_size(left)),
            };
            vec![c.host.clone(), c.state.clone(), more]
        });
        output::table(&["component on", "state", ""], rows.collect());
        say!("");
        for uri in &volume.nbd {
            say!("{uri}");
        }
    })
}

fn delete(cli: &Cli, name: &str) -> Result<()> {
    placement::check_name(name).map_err(|error| Fail::usage(error.to_string()))?;
    let target = Target::find(cli)?;
    let report = gather(&target)?;
    if let Some(volume) = report.volumes.iter().find(|v| v.name == name && v.clients > 0) {
        return Err(Fail::failed(format!(
            "volume '{name}' is in use by {} client(s): disconnect them first",
            volume.clients
        ))
        .into());
    }
    let socket = any_host(&target)?;
    let () = client::ask(&socket, &Command::VolumeDelete { name: name.to_owned() })?;
    output::print(cli.output, &serde_json::json!({"name": name, "deleted": true}), |_| {
        say!("volume {name} deleted");
    })
}
