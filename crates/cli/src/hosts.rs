// SPDX-License-Identifier: Apache-2.0
//! `gabion host list`, `show` and `remove`: hosts, and the shards of those that have several.

use crate::args::Cli;
use crate::ask::{self, Deed};
use crate::group::say_attention;
use crate::maintenance;
use crate::memory;
use crate::output::{self, say};
use crate::scrub::{self, time};
use crate::target::{TargetHost, gather};
use crate::token::day;
use crate::upgrade;
use crate::{Fail, client};
use anyhow::Result;
use base::format_size;
use operator::{
    Command, GroupReport, HostReport, HostState, InviteReport, RemovalReport, StatusReport,
    TurnsReport, WritesReport,
};
use std::time::Duration;

fn state(state: HostState) -> &'static str {
    match state {
        HostState::Up => "up",
        HostState::NotAnswering => "not answering",
        HostState::Down => "down",
    }
}

/// Hosts, and below those of several shards these.
pub fn table(all: &[HostReport], report: &StatusReport) {
    let has_domains = all.iter().any(|host| !host.domains.is_empty());
    let mut rows = Vec::new();
    for (name, shards) in operator::by_host(all) {
        if let [shard] = shards.as_slice() {
            rows.push(row(shard.name.clone(), host_state(shard), &shards, report, has_domains));
            continue;
        }
        let up = shards.iter().filter(|one| one.state == HostState::Up).count();
        let state = match (up, shards.len()) {
            (0, _) if shards.iter().all(|one| one.state == HostState::Down) => "down".to_owned(),
            (0, _) => "no shard answers".to_owned(),
            (up, all) if up == all => format!("up, {all} shards"),
            (up, all) => format!("{up} of {all} shards up"),
        };
        rows.push(row(name.to_owned(), state, &shards, report, has_domains));
        let each = shards.iter().map(|shard| {
            let name = format!("  {}", shard.name);
            row(name, host_state(shard), std::slice::from_ref(shard), report, has_domains)
        });
        rows.extend(each);
    }
    let heading =
        ["host", "state", "write buffer", "capacity used", "all verified", "fault domain"];
    let columns = if has_domains { heading.len() } else { heading.len() - 1 };
    output::table(&heading[..columns], rows);
    say_attention(&report.groups);
}

/// One line of the table: what `shards` are and have together.
fn row(
    name: String,
    state: String,
    shards: &[&HostReport],
    report: &StatusReport,
    has_domains: bool,
) -> Vec<String> {
    let is_theirs = |group: &&GroupReport| shards.iter().any(|one| one.name == group.host);
    let groups: Vec<_> = report.groups.iter().filter(is_theirs).collect();
    let used: u64 = groups.iter().map(|g| g.used_bytes).sum();
    let capacity: u64 = groups.iter().map(|g| g.capacity_bytes).sum();
    let fill = groups.iter().map(|g| g.buffer_fill).fold(0.0, f64::max);
    let or_dash = |text: String| if groups.is_empty() { "-".to_owned() } else { text };
    let path = shards.first().map(|one| one.domains.join("/")).unwrap_or_default();
    let domain = if path.is_empty() { "-".to_owned() } else { path };
    let row = vec![
        name,
        state,
        or_dash(format!("{:.0} %", fill * 100.0)),
        or_dash(format!("{} of {}", format_size(used), format_size(capacity))),
        scrub::summary(&groups),
    ];
    row.into_iter().chain(has_domains.then_some(domain)).collect()
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
pub fn remove(cli: &Cli, host: &str, lost: bool, yes: bool) -> Result<()> {
    placement::check_name(host).map_err(|error| Fail::usage(error.to_string()))?;
    let door = TargetHost::find(cli)?.door();
    if !yes {
        let what = match lost {
            true => format!("host '{host}' and gives up all that it had"),
            false => format!("host '{host}'"),
        };
        ask::confirm_name(Deed::Remove, &what, host)?;
    }
    let command = Command::HostRemove { host: host.to_owned(), lost };
    let report: RemovalReport = client::ask(&door, &command)?;
    output::print(cli.output, &report, |report| {
        say!("{host} is no host of the cluster any more");
        if report.copies > 0 {
            say!("{} copies that it had are made again elsewhere: gabion status", report.copies);
        }
    })
}

/// `gabion host list`.
pub fn list(cli: &Cli) -> Result<()> {
    let report = gather(&TargetHost::find(cli)?)?;
    output::print(cli.output, &report.hosts, |hosts| {
        table(hosts, &report);
        upgrade::say_levels(&report);
    })
}

/// `gabion host show`.
pub fn show(cli: &Cli, name: &str) -> Result<()> {
    let report = gather(&TargetHost::find(cli)?)?;
    if let Some(shard) = report.hosts.iter().find(|one| one.name == name) {
        let shown = shown(shard, &report);
        return output::print(cli.output, &shown, |_| people(shard, &report));
    }
    let shards: Vec<_> = report.hosts.iter().filter(|one| one.host() == name).collect();
    if shards.is_empty() {
        let known: Vec<_> = report.hosts.iter().map(|host| host.name.as_str()).collect();
        let known = known.join(", ");
        return Err(Fail::failed(format!("no host '{name}': there are {known}")).into());
    }
    let all: Vec<_> = shards.iter().map(|shard| shown(shard, &report)).collect();
    output::print(cli.output, &serde_json::json!({"name": name, "shards": all}), |_| {
        say!("{name} has {} shards", shards.len());
        for shard in shards {
            say!("");
            people(shard, &report);
        }
    })
}

/// What is known of one shard, for programs.
fn shown(host: &HostReport, report: &StatusReport) -> serde_json::Value {
    let turns = report.turns.iter().find(|turns| turns.host == host.name);
    let writes = report.writes.iter().find(|writes| writes.host == host.name);
    let groups: Vec<_> = report.groups.iter().filter(|group| group.host == host.name).collect();
    let memory = report.memory.iter().find(|memory| memory.host == host.name);
    serde_json::json!({
        "name": host.name, "state": host.state, "peer": host.peer, "turns": turns, "groups": groups,
        "writes": writes.map(|writes| &writes.stages),
        "memory": memory, "maintenance": &host.maintenance, "domains": &host.domains,
    })
}

/// The same for people.
fn people(host: &HostReport, report: &StatusReport) {
    say!("{} is {}, other hosts reach it at {}", host.name, state(host.state), host.peer);
    if !host.domains.is_empty() {
        say!("it is in fault domain {}", host.domains.join("/"));
    }
    if let Some(report) = &host.maintenance {
        say!("{}", maintenance::how_far(report));
    }
    match report.turns.iter().find(|turns| turns.host == host.name) {
        None => say!("it does not answer here: its disk groups and turns are not known"),
        Some(turns) => say!("{}", turns_line(turns)),
    }
    for group in report.groups.iter().filter(|group| group.host == host.name) {
        let path = group.devices.first().map_or("", |device| device.path.as_str());
        say!("disk group {} ({path}): {}", group.id, group.state);
    }
    let writes = report.writes.iter().find(|writes| writes.host == host.name);
    if let Some(writes) = writes.filter(|writes| writes.stages.iter().any(|s| s.passed > 0)) {
        say!("where the time of writes went since its start (microseconds, one in 100 measured):");
        stage_table(writes);
    }
    report.memory.iter().filter(|memory| memory.host == host.name).for_each(memory::table);
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

/// `gabion host invite`.
pub fn invite(cli: &Cli, expires_in: Duration) -> Result<()> {
    let command = Command::HostInvite { seconds: expires_in.as_secs() };
    let made: InviteReport = client::ask(&TargetHost::find(cli)?.door(), &command)?;
    output::print(cli.output, &made, |made| {
        say!("one machine becomes a host with this, until {}:", day(made.expires));
        say!("gabion host join --invitation {} --name NAME --address IP", made.invitation);
        say!("whoever has it can become a host: it is shown this once");
    })
}
