// SPDX-License-Identifier: Apache-2.0
//! `gabion policy`: its commands and flags.

use super::repair::{self, Switch};
use base::parse_size;
use clap::{Args, Subcommand};
use host::{Affinity, RepairDelay};
use operator::{PolicyRules, RateLimit};

#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Make a policy; where nothing is said: two copies, thin, the repair delay of the cluster
    #[command(after_help = "Examples:
  gabion policy create gold --ftt 2 --reserve 100
  gabion policy create wide --stripe-width 4      load on one volume is spread over more devices
  gabion policy create gold --ftt 2 --force on    also before there are hosts for three copies
  gabion policy create quick --read-cache 20      that part stays in the cache of hybrid groups
  gabion policy create scratch --ftt 0 --affinity host   each volume stays on one host
  gabion policy create batch --ftt 0 --repair-delay never --iops 2000 --bandwidth 50MiB
Then: gabion volume create db --size 50GiB --policy gold, or gabion volume set-policy db gold")]
    Create {
        /// Its name: a-z, 0-9, '.' and '-', at most 63
        name: String,
        #[command(flatten)]
        rules: RulesArgs,
    },
    /// List the policies
    #[command(visible_alias = "ls")]
    List,
    /// Show a policy, and the volumes that follow it
    #[command(after_help = "Example:\n  gabion policy show gold")]
    Show {
        /// Its name
        name: String,
    },
    /// Change a policy and all volumes that follow it; first it shows what that comes to
    #[command(after_help = "Examples:
  gabion policy edit gold --ftt 2
  gabion policy edit batch --iops none     its volumes may do what they can again
  gabion policy edit gold --ftt 2 --yes    in scripts: nothing is asked
  gabion policy edit gold --yes            volumes that kept older rules are tried again
Volumes stay in use. What must be copied is copied in the background: gabion volume show")]
    Edit {
        /// Its name
        name: String,
        #[command(flatten)]
        rules: RulesArgs,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Show whether the cluster can do what a policy asks, and what a change of it would come to;
    /// nothing is changed
    #[command(after_help = "Examples:
  gabion policy check gold
  gabion policy check gold --ftt 2         what if it were so?")]
    Check {
        /// Its name
        name: String,
        #[command(flatten)]
        rules: RulesArgs,
    },
    /// Delete a policy that no volume follows
    #[command(visible_alias = "rm", after_help = "Example:\n  gabion policy delete gold")]
    Delete {
        /// Its name
        name: String,
    },
}

/// Rules of a policy.
#[derive(Args, Clone, Copy, Debug)]
pub struct RulesArgs {
    /// Failures that volumes tolerate: 0 (one copy), 1 (two copies), 2 or 3 (four)
    #[arg(long, value_name = "N")]
    pub ftt: Option<u8>,
    /// Part of a volume's size that is kept for it on each of its hosts, 0 to 100
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=100), value_name = "PERCENT")]
    pub reserve: Option<u8>,
    /// For which part of a volume's size the read cache of hybrid disk groups is kept, 0 to 100
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=100), value_name = "PERCENT")]
    pub read_cache: Option<u8>,
    /// Over how many parts volumes are striped, 1 (not at all) to 12; they are on different disk
    /// groups as far as there are any. Volumes that are there keep what they have
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=12), value_name = "N")]
    pub stripe_width: Option<u8>,
    /// Whether all of a volume is kept on one host, which nothing but 'gabion volume change --on'
    /// moves it from: host (only with --ftt 0), or none
    #[arg(long, value_parser = affinity, value_name = "host|none")]
    pub affinity: Option<Affinity>,
    /// Whether volumes are made, and get this policy, also where there is no place for all of their
    /// copies; the others are made as soon as there is one
    #[arg(long, value_enum)]
    pub force: Option<Switch>,
    /// How long a copy may be away before it is made again on another host: for example 45s,
    /// 30min, 2h; never; or cluster, as 'gabion cluster show' has it
    #[arg(long, value_parser = repair_delay, value_name = "TIME")]
    pub repair_delay: Option<RepairDelay>,
    /// Reads and writes that a volume may do in a second, each counted once for every 32 KiB that
    /// it has; more wait for their turn; or none: no limit
    #[arg(long, value_parser = iops, value_name = "N")]
    pub iops: Option<RateLimit>,
    /// Bytes that a volume may read and write in a second: for example 50MiB; or none: no limit
    #[arg(long, value_parser = bandwidth, value_name = "SIZE")]
    pub bandwidth: Option<RateLimit>,
}

impl RulesArgs {
    /// As a host is told.
    pub fn rules(self) -> PolicyRules {
        let Self { ftt, reserve, read_cache, stripe_width, affinity, .. } = self;
        let Self { force, repair_delay, iops, bandwidth, .. } = self;
        PolicyRules {
            ftt,
            reserve_percent: reserve,
            cache_percent: read_cache,
            stripe_width,
            affinity,
            force: force.map(|switch| switch == Switch::On),
            repair_delay,
            iops,
            bytes_per_second: bandwidth,
        }
    }
}

fn affinity(text: &str) -> Result<Affinity, String> {
    let all = [Affinity::None, Affinity::Host].into_iter();
    all.clone().find(|one| one.name() == text).ok_or_else(|| "write host or none".to_owned())
}

/// The host says which are too low or too high.
fn iops(text: &str) -> Result<RateLimit, String> {
    if text == "none" {
        return Ok(RateLimit::None);
    }
    let rate = text.parse().map_err(|_| "write a number, or none".to_owned())?;
    Ok(RateLimit::At(rate))
}

pub(super) fn bandwidth(text: &str) -> Result<RateLimit, String> {
    if text == "none" {
        return Ok(RateLimit::None);
    }
    let size = text.trim_end_matches("/s");
    let rate = parse_size(size).map_err(|error| format!("{error}; or none"))?;
    Ok(RateLimit::At(rate))
}

fn repair_delay(text: &str) -> Result<RepairDelay, String> {
    if text == "cluster" {
        return Ok(RepairDelay::Cluster);
    }
    let delay = repair::delay(text).map_err(|error| format!("{error}; or cluster"))?;
    Ok(delay.0.map_or(RepairDelay::Never, RepairDelay::Seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_rate_or_none() {
        assert_eq!(iops("none"), Ok(RateLimit::None));
        assert_eq!(iops("2000"), Ok(RateLimit::At(2000)));
        assert_eq!(bandwidth("none"), Ok(RateLimit::None));
        assert_eq!(bandwidth("50MiB"), Ok(RateLimit::At(50 << 20)));
        assert_eq!(bandwidth("50MiB/s"), Ok(RateLimit::At(50 << 20)));
        for wrong in ["", "-1", "fast", "2k/s"] {
            assert!(iops(wrong).is_err(), "{wrong}");
        }
        assert!(bandwidth("fast").is_err());
    }

    #[test]
    fn an_affinity_is_to_a_host_or_to_none() {
        assert_eq!(affinity("host"), Ok(Affinity::Host));
        assert_eq!(affinity("none"), Ok(Affinity::None));
        assert!(affinity("rack").is_err());
    }

    #[test]
    fn a_repair_delay_is_a_time_or_never_or_that_of_the_cluster() {
        assert_eq!(repair_delay("cluster"), Ok(RepairDelay::Cluster));
        assert_eq!(repair_delay("never"), Ok(RepairDelay::Never));
        assert_eq!(repair_delay("2h"), Ok(RepairDelay::Seconds(7200)));
        for wrong in ["", "soon", "31days", "default"] {
            assert!(repair_delay(wrong).is_err(), "{wrong}");
        }
    }
}
