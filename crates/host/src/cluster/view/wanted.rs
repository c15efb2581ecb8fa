// SPDX-License-Identifier: Apache-2.0
//! What volumes are to have, by their records: how many copies, and where.

use super::View;
use base::{Map, ShardId, VolumeId};
use directory::{RepairDelay, VolumeRecord};

/// What the objects of a volume are to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// How many copies.
    pub copies: usize,
    /// How long one of them may be away.
    pub repair_delay: RepairDelay,
    /// The shards of the host that all of the volume is kept on: none where the cluster has no such
    /// host. `None`: it is kept wherever there is room.
    pub home: Option<Vec<ShardId>>,
}

impl View {
    /// What the objects of each volume are to have.
    pub fn wanted(&self) -> Map<VolumeId, Wanted> {
        let volumes = self.0.volumes.0.borrow();
        let hosts = self.0.hosts.0.borrow();
        let mut shards: Map<&str, Vec<ShardId>> = Map::new();
        for (shard, _) in hosts.values() {
            shards.entry(shard.machine()).or_default().push(shard.id);
        }
        let is_kept = !self.mutations().ignore_affinity();
        let home = |name: &String| shards.get(name.as_str()).cloned().unwrap_or_default();
        let wanted = |record: &VolumeRecord| Wanted {
            copies: usize::from(record.ftt) + 1,
            repair_delay: record.policy.as_ref().map_or(RepairDelay::Cluster, |p| p.repair_delay),
            home: record.kept_on.as_ref().filter(|_| is_kept).map(home),
        };
        volumes.values().map(|(record, _)| (record.id, wanted(record))).collect()
    }

    /// The shards of a host, as far as the cluster has it.
    pub fn shards_of(&self, host: &str) -> Vec<ShardId> {
        self.hosts_of(host).into_iter().map(|shard| shard.id).collect()
    }
}
