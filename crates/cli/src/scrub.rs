// SPDX-License-Identifier: Apache-2.0
//! `gabion scrub`: commands for the hosts' scrubs, and what these found.

use crate::Fail;
use crate::args::{Cli, ScrubCommand};
use crate::client::{self, ApiDoor};
use crate::output;
use crate::output::say;
use crate::target::{TargetHost, no_host};
use anyhow::Result;
use base::format_size;
use operator::{Command, GroupReport, ScrubReport};

/// `gabion scrub ...`.
pub fn scrub(cli: &Cli, command: &ScrubCommand) -> Result<()> {
    let (order, host) = match command {
        ScrubCommand::Status => (Command::ScrubStatus, None),
        ScrubCommand::Start { rate, host } => {
            (Command::ScrubStart { bytes_per_second: *rate }, host.as_deref())
        }
        ScrubCommand::Pause { host } => (Command::ScrubPause, host.as_deref()),
    };
    let hosts = chosen(&TargetHost::find(cli)?, host)?;
    let (mut reports, mut silent) = (Vec::new(), Vec::new());
    for (name, door) in hosts {
        match client::ask::<Vec<ScrubReport>>(&door, &order) {
            Ok(devices) => reports.extend(devices),
            // What one host refuses, every host refuses.
            Err(error) if error.is::<Fail>() => return Err(error),
            Err(_) => silent.push(name),
        }
    }
    if reports.is_empty() && !silent.is_empty() {
        return Err(no_host(&TargetHost::find(cli)?));
    }
    output::print(cli.output, &reports, |reports| {
        let rows = reports.iter().map(row).collect();
        output::table(&HEADING, rows);
        for name in &silent {
            say!("\nattention: {name} does not answer: it was not asked");
        }
    })
}

/// The shards of hosts that a command is for.
fn chosen(target: &TargetHost, wanted: Option<&str>) -> Result<Vec<(String, ApiDoor)>> {
    let Some(wanted) = wanted else { return Ok(target.shards()) };
    let hosts = target.shards_of(wanted);
    if hosts.is_empty() {
        return Err(Fail::failed(format!(
            "there is no host '{wanted}' here: see 'gabion host list'; in a cluster of several \
             machines, ask on the host itself"
        ))
        .into());
    }
    Ok(hosts)
}

const HEADING: [&str; 10] = [
    "host",
    "device",
    "state",
    "progress",
    "rate",
    "found",
    "repaired",
    "lost",
    "last pass",
    "all verified",
];

fn row(report: &ScrubReport) -> Vec<String> {
    vec![
        report.host.clone(),
        report.device.clone(),
        report.state.clone(),
        report.progress.map_or_else(|| "-".to_owned(), |part| format!("{:.0} %", part * 100.0)),
        format!("{}/s", format_size(report.bytes_per_second)),
        report.bad_blocks.to_string(),
        report.repaired_blocks.to_string(),
        report.unrepaired_blocks.to_string(),
        match (report.last_pass_seconds_ago, report.next_pass_seconds) {
            (Some(ago), _) => format!("{} ago", time(ago)),
            (None, Some(next)) => format!("none; next in {}", time(next)),
            (None, None) => "none".to_owned(),
        },
        all_verified(report.oldest_unverified_seconds),
    ]
}

/// How long ago every byte had been verified.
fn all_verified(oldest_unverified_seconds: Option<u64>) -> String {
    oldest_unverified_seconds
        .map_or_else(|| "not yet".to_owned(), |age| format!("{} ago", time(age)))
}

/// Scrub of a host's groups in a few words.
pub fn summary(groups: &[&GroupReport]) -> String {
    if groups.is_empty() {
        return "-".to_owned();
    }
    let is_any_new = groups.iter().any(|group| group.oldest_unverified_seconds.is_none());
    let oldest = groups.iter().filter_map(|group| group.oldest_unverified_seconds).max();
    let done = groups.iter().filter_map(|group| group.scrub_progress);
    let all = all_verified(oldest.filter(|_| !is_any_new));
    match done.reduce(f64::min) {
        Some(done) => format!("{all}, {:.0} % of a pass", done * 100.0),
        None => all,
    }
}

/// A time in the largest unit of which there is at least one, or two days.
pub fn time(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::shard;
    use crate::config::{HostFiles, ShardFile};
    use std::path::PathBuf;

    #[test]
    fn an_order_is_for_all_shards_or_for_those_of_a_name_that_exists() {
        let file = |n| ShardFile { path: PathBuf::from(format!("/a.{n}.toml")), config: shard(n) };
        let files = HostFiles { leash: None, shards: vec![file(1), file(2)] };
        let target = TargetHost::Host(Box::new(files));
        let names = |wanted| {
            let hosts = chosen(&target, wanted);
            hosts.map(|hosts| hosts.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
        };
        for all in [None, Some("a")] {
            assert_eq!(names(all).expect("all"), ["a.1", "a.2"]);
        }
        assert_eq!(names(Some("a.2")).expect("one"), ["a.2"]);
        let error = names(Some("c")).expect_err("none").to_string();
        assert!(error.contains("'c'") && error.contains("gabion host list"), "{error}");
    }

    #[test]
    fn times_are_short() {
        let times = [59, 60, 7199, 86_399, 86_400 * 3].map(time);
        assert_eq!(times, ["59 s", "1 min", "1 h", "23 h", "3 days"]);
    }
}
