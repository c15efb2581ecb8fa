// SPDX-License-Identifier: Apache-2.0
//! `gabion repair` and `gabion cluster set`.

use super::kind::cluster_kind;
use clap::{Subcommand, ValueEnum};
use host::{ClusterKind, REPAIR_DELAY_MAX};
use std::time::Duration;

#[derive(Debug, Subcommand)]
pub enum RepairCommand {
    /// Make again at once what hosts had that are down, without waiting for them
    #[command(after_help = "Examples:
  gabion repair now                        all volumes
  gabion repair now db
Without it that happens by itself after the repair delay ('gabion cluster show'). A copy that comes
back before the new one is whole stays where it is. How far it is: gabion volume show db")]
    Now {
        /// The volume; without one all of them
        volume: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub enum SetCommand {
    /// How long a copy may be away before it is made again on another host: 1h unless it was set
    #[command(after_help = "Examples:
  gabion cluster set repair-delay 30min
  gabion cluster set repair-delay 10s
  gabion cluster set repair-delay never    copies are made again by 'gabion repair now' alone
A delay shorter than a restart of a host has all of its copies made again at each of them.")]
    RepairDelay {
        /// For example 45s, 30min, 2h or 1day; or never
        #[arg(value_parser = delay, value_name = "TIME")]
        delay: Delay,
    },
    /// What new disk groups are; those that there are stay what they are
    #[command(after_help = "Examples:
  gabion cluster set kind all-flash
  gabion cluster set kind hybrid
A cluster becomes what this says by giving its hosts new disk groups one after the other, in use:
docs/operations/disk-groups.md says how. One group of another kind: 'gabion group create --kind'.")]
    Kind {
        /// all-flash, or hybrid for magnetic capacity
        #[arg(value_parser = cluster_kind, value_name = "KIND")]
        kind: ClusterKind,
    },
    /// Whether copies move from full hosts to emptier ones by themselves: on unless it was set
    #[command(after_help = "Examples:
  gabion cluster set rebalance off
  gabion cluster set rebalance on
What is on its way arrives. How full hosts are: gabion host list")]
    Rebalance {
        /// Whether they do
        #[arg(value_enum)]
        switch: Switch,
    },
    /// Whether links between hosts are encrypted, and each host proves to the others who it is: on
    /// in clusters of several machines, unless it was set
    #[command(after_help = "Examples:
  gabion cluster set encrypt-links on
  gabion cluster set encrypt-links off
Before they are, each host has to prove itself: one that cannot would be cut off, and is named.
Links end then, and come back within a second; nothing that runs fails.")]
    EncryptLinks {
        /// Whether they are
        #[arg(value_enum)]
        switch: Switch,
    },
    /// Whether volumes are made, and grow, only while what is on any one host could be made again
    /// on the others: off unless it was set
    #[command(after_help = "Examples:
  gabion cluster set rebuild-reserve on
  gabion cluster set rebuild-reserve off
Whether it could now: gabion cluster show. 'gabion volume create --force' makes one all the same.
Writes to volumes that are there are never refused for it.")]
    RebuildReserve {
        /// Whether it is so
        #[arg(value_enum)]
        switch: Switch,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    On,
    Off,
}

/// Seconds; none: never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay(pub Option<u64>);

pub fn delay(text: &str) -> Result<Delay, String> {
    if text == "never" {
        return Ok(Delay(None));
    }
    let time: Duration = humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write for example 45s, 30min, 2h, or never"))?;
    match time.as_secs() {
        seconds if seconds <= REPAIR_DELAY_MAX => Ok(Delay(Some(seconds))),
        _ => Err("30 days is the longest delay".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_a_time_or_never() {
        assert_eq!(delay("10s"), Ok(Delay(Some(10))));
        assert_eq!(delay("1h 30min"), Ok(Delay(Some(5400))));
        assert_eq!(delay("30days"), Ok(Delay(Some(REPAIR_DELAY_MAX))));
        assert_eq!(delay("never"), Ok(Delay(None)));
        for wrong in ["", "10", "-1s", "31days", "soon"] {
            assert!(delay(wrong).is_err(), "{wrong}");
        }
    }
}
