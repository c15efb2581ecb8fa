// SPDX-License-Identifier: Apache-2.0
//! `gabion performance` and `gabion top`: their flags.

use clap::{Args, Subcommand};
use operator::history::PerformanceKind;
use std::time::Duration;

/// What is kept: ninety days.
const SINCE_MAX: Duration = Duration::from_secs(90 * 86_400);

#[derive(Debug, Subcommand)]
pub enum PerformanceCommand {
    /// Show what a volume, host, disk group or device did over a time: requests, bytes, latencies
    #[command(after_help = "Examples:
  gabion performance show volume web                    the last hour
  gabion performance show volume web --since 1d --every 1h
  gabion performance show host host2 --since 7d --until 6d
  gabion performance show cluster --output json         with all classes of latency
  gabion performance show device /dev/nvme1n1
Kept are five seconds for an hour, a minute for a week, five minutes for 90 days. Percentiles are
of all requests of a line, never averages of percentiles. Each machine keeps what its shards did.")]
    Show(PerformanceArgs),
}

#[derive(Args, Debug)]
pub struct PerformanceArgs {
    /// What it is: cluster, host, shard, volume, group or device
    #[arg(value_parser = kind, value_name = "KIND")]
    pub kind: PerformanceKind,
    /// Its name; the id of a group or the first digits, the path of a device
    #[arg(default_value = "", hide_default_value = true)]
    pub name: String,
    /// From how long ago on, at most 90 days
    #[arg(long, value_parser = ago, value_name = "TIME", default_value = "1h")]
    pub since: Duration,
    /// Until how long ago [default: until now]
    #[arg(long, value_parser = ago, value_name = "TIME")]
    pub until: Option<Duration>,
    /// Time of each line, where it is kept so finely [default: about 24 lines]
    #[arg(long, value_parser = ago, value_name = "TIME")]
    pub every: Option<Duration>,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  gabion top                               volumes, those with most requests first; q ends it
  gabion top --kind host
  gabion top --once --kind group           once, for scripts
  gabion top --once --output json
Keys: v h s g d c for volumes, hosts, shards, disk groups, devices, the cluster; left and right
choose what is sorted by, r turns it round, p holds it, q ends it.")]
pub struct TopArgs {
    /// What is shown: volume, host, shard, group, device or cluster
    #[arg(long, value_parser = kind, value_name = "KIND", default_value = "volume")]
    pub kind: PerformanceKind,
    /// Show it once; so is JSON, and what is no terminal
    #[arg(long)]
    pub once: bool,
    /// Over which time, 5s to 5min
    #[arg(long, value_parser = ago, value_name = "TIME", default_value = "10s")]
    pub over: Duration,
    /// Column that is sorted by, as its heading says [default: requests]
    #[arg(long, value_name = "COLUMN")]
    pub sort: Option<String>,
    /// How many at most
    #[arg(long, default_value_t = 100, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub limit: u16,
}

fn kind(text: &str) -> Result<PerformanceKind, String> {
    let all = PerformanceKind::ALL;
    all.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
        let names = all.map(PerformanceKind::name);
        format!("there is no '{text}': it is one of {}", names.join(", "))
    })
}

fn ago(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write for example 30s, 45min, 2h or 3d"))?;
    match time {
        Duration::ZERO => Err("a time is a second at least".to_owned()),
        time if time > SINCE_MAX => Err("nothing is kept for longer than 90 days".to_owned()),
        time => Ok(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, GabionCommand};
    use clap::Parser;

    #[test]
    fn what_and_since_when_is_said() {
        let show = |line: &str| {
            let line = format!("gabion performance show {line}");
            match Cli::try_parse_from(line.split_whitespace()).map(|cli| cli.command) {
                Ok(GabionCommand::Performance(PerformanceCommand::Show(args))) => Ok(args),
                Ok(other) => panic!("{other:?}"),
                Err(error) => Err(error.to_string()),
            }
        };
        let args = show("volume db --since 2d --every 1h").expect("a line");
        assert_eq!((args.kind, args.name.as_str()), (PerformanceKind::Volume, "db"));
        assert_eq!((args.since.as_secs(), args.every), (172_800, Some(Duration::from_secs(3600))));
        assert_eq!(show("cluster").expect("no name").name, "");
        for (bad, said) in [
            ("disk db", "one of cluster, host"),
            ("volume db --since 91d", "90 days"),
            ("volume db --since ten", "for example"),
            ("volume db --every 0s", "a second at least"),
        ] {
            let error = show(bad).expect_err(bad);
            assert!(error.contains(said), "{bad}: {error}");
        }
    }
}
