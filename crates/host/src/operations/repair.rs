// SPDX-License-Identifier: Apache-2.0
//! Settings of the cluster, and copies that are made again because somebody asks for it.

use super::{Operations, Outcome, failed, no_such_volume, usage};
use crate::care::repair::Outlook;
use base::{Map, ObjectId, Set, format_size};
use directory::{
    BANDWIDTH_MAX, BANDWIDTH_MIN, ClusterKind, ClusterRecord, IoLimits, Level, SettingsRecord,
    VolumeRecord, settings_key,
};
use operator::{ClusterReport, Command, NotRepaired, RepairReport, RepairedCopy};
use placement::HostSpace;

impl Operations {
    /// Carries out what is asked about the settings of the cluster.
    pub(super) async fn settings_command(&self, command: Command) -> Outcome<ClusterReport> {
        match command {
            Command::ClusterSet { repair_delay_seconds: repair_delay } => {
                self.change_settings(|now| SettingsRecord { repair_delay, ..now }).await
            }
            Command::Rebalance { on: rebalances } => {
                self.change_settings(|now| SettingsRecord { rebalances, ..now }).await
            }
            Command::RebuildReserve { on: rebuild_reserve } => {
                self.change_settings(|now| SettingsRecord { rebuild_reserve, ..now }).await
            }
            Command::EncryptLinks { on } => self.encrypt_links(on).await,
            Command::ClusterKind { kind } => self.change_kind(kind).await,
            Command::ResyncLimit { bytes_per_second } => {
                self.set_resync_limit(bytes_per_second).await
            }
            _ => Ok(self.settings_report(self.view.settings())),
        }
    }

    /// Sets how much each host copies in a second to components that are behind.
    async fn set_resync_limit(&self, bytes: Option<u64>) -> Outcome<ClusterReport> {
        let limits = IoLimits { iops: None, bytes_per_second: bytes };
        if limits.check().is_err() {
            let (least, most) = (format_size(BANDWIDTH_MIN), format_size(BANDWIDTH_MAX));
            return Err(usage(format!(
                "a limit of resyncs is from {least} to {most} a second, or none: as much as \
                 clients leave"
            )));
        }
        self.change_settings(|now| SettingsRecord { resync_limit: bytes, ..now }).await
    }

    /// Says what new disk groups are; those that there are stay what they are.
    async fn change_kind(&self, kind: ClusterKind) -> Outcome<ClusterReport> {
        self.need(Level::KINDS, "a cluster of another kind")?;
        let changed = self.change_cluster(|now| ClusterRecord { kind, ..now }).await?;
        Ok(ClusterReport { kind: changed.kind, ..self.settings_report(self.view.settings()) })
    }

    /// Puts settings in the place of those that the directory has now.
    pub(super) async fn change_settings(
        &self,
        change: impl FnOnce(SettingsRecord) -> SettingsRecord,
    ) -> Outcome<ClusterReport> {
        let key = settings_key();
        let (now, expect) = self.only_record(&key, SettingsRecord::decode).await?;
        let record = change(now);
        record.check().map_err(usage)?;
        self.put_at(key, expect, record.encode()).await.map_err(|undecided| match undecided {
            None => failed("somebody else changed the settings meanwhile: try again"),
            Some(undecided) => undecided.told("the settings were changed"),
        })?;
        Ok(self.settings_report(record))
    }

    /// Makes again what one volume, or all of them, miss of hosts that are down.
    pub(super) async fn repair_now(&self, volume: Option<&str>) -> Outcome<RepairReport> {
        let volumes = match volume {
            None => self.view.volumes(),
            Some(name) => {
                placement::check_name(name).map_err(usage)?;
                vec![self.view.volume(name).ok_or_else(|| no_such_volume(name))?]
            }
        };
        if !self.directory.is_connected() {
            return Err(failed("the directory is not reachable: see 'gabion status'"));
        }
        let mut names: Map<ObjectId, (&VolumeRecord, u64)> = Map::new();
        for volume in &volumes {
            names.extend((0..).zip(&volume.objects).map(|(at, object)| (*object, (volume, at))));
        }
        let repaired = self.repairs.repair_now(|object| names.contains_key(&object)).await;
        let begun = repaired.begun.into_iter().filter_map(|(object, shard)| {
            let (volume, at) = names.get(&object)?;
            let (volume, to) = (volume.name.clone(), self.view.shard_name(shard));
            Some(RepairedCopy { volume, object: *at, to })
        });
        let mut refused: Set<(String, String)> = Set::new();
        for (object, why) in repaired.refused {
            refused.extend(names.get(&object).map(|(volume, _)| (volume.name.clone(), why)));
        }
        let refused = refused.into_iter().map(|(volume, why)| NotRepaired { volume, why });
        Ok(RepairReport { begun: begun.collect(), refused: refused.collect() })
    }

    fn settings_report(&self, settings: SettingsRecord) -> ClusterReport {
        ClusterReport {
            kind: self.view.kind(),
            repair_delay_seconds: settings.repair_delay,
            resync_bytes_per_second: settings.resync_limit,
            rebalances: settings.rebalances,
            rebuild_reserve: settings.rebuild_reserve,
            encrypt_links: settings.encrypt_links,
            level: self.view.level().number(),
            not_rebuilt: self.not_rebuilt(0),
        }
    }

    /// The host whose components would find no place on the others, with `more_bytes` more taken.
    pub(super) fn not_rebuilt(&self, more_bytes: u64) -> Option<String> {
        let mut spaces: Map<String, HostSpace> = Map::new();
        for shard in self.view.shards() {
            let Some(alive) = self.view.alive(shard.id) else { continue };
            let free_bytes = alive.free_bytes;
            let used_bytes = shard.capacity_bytes().saturating_sub(free_bytes);
            let space = HostSpace { shard: shard.id, used_bytes, free_bytes };
            // What takes one shard of a host away may take all of them.
            let sum = spaces.get(shard.machine()).map_or(space, |sum| sum.with(space));
            spaces.insert(shard.machine().to_owned(), sum);
        }
        let hosts: Vec<HostSpace> = spaces.values().copied().collect();
        placement::not_rebuilt(&hosts, more_bytes).map(|one| {
            let name = spaces.iter().find(|(_, space)| space.shard == one.shard);
            format!(
                "{} has {}, and {} would be free on the others",
                name.map_or("a host", |(name, _)| name),
                format_size(one.needed_bytes),
                format_size(one.free_bytes)
            )
        })
    }

    /// In how many seconds the first missing copy of a volume is made again; why one is not.
    pub(super) fn outlook(&self, volume: &VolumeRecord) -> (Option<u64>, Option<String>) {
        let (mut soonest, mut why) = (None, None);
        for object in &volume.objects {
            match self.repairs.outlook(*object) {
                Some(Outlook::At(at)) => {
                    let left = at.since(self.env.now()).as_secs();
                    soonest = Some(soonest.map_or(left, |other: u64| other.min(left)));
                }
                Some(Outlook::Never(hindrance)) => why = Some(hindrance.to_string()),
                None => {}
            }
        }
        (soonest, why)
    }
}
