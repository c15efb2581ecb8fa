// SPDX-License-Identifier: Apache-2.0
//! The cluster, as each shard sees it.

use super::row::{Metric, SHARD, gauge};
use operator::{HostReport, HostState};

/// Whether a host is wanted to be away comes first.
fn state_of(shard: &HostReport) -> &'static str {
    match shard.state {
        _ if shard.maintenance.is_some() => "maintenance",
        HostState::Up => "up",
        HostState::NotAnswering => "not_answering",
        HostState::Down => "down",
    }
}

pub(super) const METRICS: &[Metric] = &[
    gauge(
        "gabion_cluster_health",
        SHARD,
        "The worst of all volumes, hosts and alarms: 0 green, 1 yellow, 2 red",
        |it, out| out.shards(it, |one| one.status.health),
    ),
    gauge(
        "gabion_cluster_alarms",
        SHARD,
        "Red alarms of the directory and of releases",
        |it, out| out.shards(it, |one| one.status.alarms.len()),
    ),
    gauge(
        "gabion_cluster_volumes",
        &["shard", "health"],
        "Volumes of the cluster: green, yellow (less redundant than asked for) or red (no I/O)",
        |it, out| {
            for one in &it.answers {
                let tally = one.volumes;
                let all = [("green", tally.green), ("yellow", tally.yellow), ("red", tally.red)];
                all.iter().for_each(|(health, count)| out.put(&[&one.status.host, health], *count));
            }
        },
    ),
    gauge(
        "gabion_cluster_deleted_volumes",
        SHARD,
        "Deleted volumes that can be brought back",
        |it, out| out.shards(it, |one| one.volumes.deleted),
    ),
    gauge(
        "gabion_cluster_shards",
        &["shard", "state"],
        "Shards of the cluster: up, not_answering, down, or, whatever else they are, maintenance",
        |it, out| {
            for one in &it.answers {
                for state in ["up", "not_answering", "down", "maintenance"] {
                    let is_so = |shard: &&HostReport| state_of(shard) == state;
                    let count = one.status.hosts.iter().filter(is_so).count();
                    out.put(&[&one.status.host, state], count);
                }
            }
        },
    ),
    gauge(
        "gabion_cluster_rebuild_possible",
        SHARD,
        "Whether any one host could be made again on the others",
        |it, out| out.shards(it, |one| one.not_rebuilt.is_none()),
    ),
    gauge(
        "gabion_directory_connected",
        SHARD,
        "Whether the shard reaches the directory",
        |it, out| out.shards(it, |one| one.status.directory),
    ),
    gauge(
        "gabion_directory_backup_usable",
        SHARD,
        "Whether the shard has a good backup of the directory; of shards with disk groups",
        |it, out| {
            out.shards(it, |one| {
                (!one.status.groups.is_empty()).then_some(one.status.backups.is_none())
            });
        },
    ),
];
