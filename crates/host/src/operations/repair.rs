// SPDX-License-Identifier: Apache-2.0
//! Settings of the cluster, and copies that are made again because somebody asks for it.

use super::volumes::directory_away;
use super::{Operations, Outcome, failed, no_such_volume, usage};
use crate::care::repair::Outlook;
use base::{Map, ObjectId, Set};
use directory::{SettingsRecord, Transaction, VolumeRecord};
use operator::{ClusterReport, NotRepaired, RepairReport, RepairedCopy};

impl Operations {
    pub(super) fn settings(&self) -> ClusterReport {
        ClusterReport { repair_delay_seconds: self.view.settings().repair_delay }
    }

    /// Sets how long a copy may be away before another host gets it.
    pub(super) async fn set_repair_delay(&self, seconds: Option<u64>) -> Outcome<ClusterReport> {
        let record = SettingsRecord { repair_delay: seconds };
        record.check().map_err(usage)?;
        let put = Transaction::new().put(directory::settings_key(), record.encode());
        self.directory.transact(put).await.map_err(directory_away)?;
        Ok(ClusterReport { repair_delay_seconds: seconds })
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
        let begun = repaired.begun.into_iter().filter_map(|(object, host)| {
            let (volume, at) = names.get(&object)?;
            let (volume, to) = (volume.name.clone(), self.view.host_name(host));
            Some(RepairedCopy { volume, object: *at, to })
        });
        let mut refused: Set<(String, String)> = Set::new();
        for (object, why) in repaired.refused {
            refused.extend(names.get(&object).map(|(volume, _)| (volume.name.clone(), why)));
        }
        let refused = refused.into_iter().map(|(volume, why)| NotRepaired { volume, why });
        Ok(RepairReport { begun: begun.collect(), refused: refused.collect() })
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
