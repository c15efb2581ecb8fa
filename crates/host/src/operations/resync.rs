// SPDX-License-Identifier: Apache-2.0
//! What is being copied to components, as the owners on this host know it.

use super::Operations;
use base::{Map, ObjectId, Seat};
use directory::{ComponentRecord, ObjectRecord, VolumeRecord};
use object::{ComponentStatus, Returning};
use operator::{ResyncReason, ResyncReport, seconds_left};

impl Operations {
    /// Components that are filled or brought up to date by owners on this host, or are to be.
    pub(super) fn resyncs(&self) -> Vec<ResyncReport> {
        let returning = self.objects.returning();
        if returning.is_empty() {
            return Vec::new(); // mostly so: the volumes need not be gone through
        }
        let volumes = self.view.volumes();
        let mut of: Map<ObjectId, (&VolumeRecord, u64)> = Map::new();
        for volume in &volumes {
            of.extend((0..).zip(&volume.objects).map(|(at, object)| (*object, (volume, at))));
        }
        let reports = returning.into_iter().filter_map(|Returning { object, component }| {
            let (volume, at) = of.get(&object)?;
            let record = self.view.object(object)?;
            Some(self.resync_report(&volume.title(), *at, &record, component))
        });
        reports.collect()
    }

    fn resync_report(
        &self,
        volume: &str,
        object: u64,
        record: &ObjectRecord,
        component: ComponentStatus,
    ) -> ResyncReport {
        let progress = component.progress;
        let bytes_left = component.resync_bytes_left;
        let bytes_per_second = progress.map_or(0, |progress| progress.per_second);
        let of_record = record.components.iter().find(|one| one.id == component.id);
        let waits = || {
            let why = of_record.and_then(|one| self.why(one, component.away));
            why.unwrap_or_else(|| "others of its host come first".to_owned())
        };
        ResyncReport {
            volume: volume.to_owned(),
            object,
            host: self.view.shard_name(component.shard),
            by: self.view.shard_name(self.me),
            reason: self.resync_reason(record, component, of_record),
            waits: progress.is_none().then(waits),
            bytes_left,
            bytes_copied: progress.map_or(0, |progress| progress.copied),
            bytes_per_second,
            seconds: progress.map_or(0, |progress| progress.since.as_secs()),
            seconds_left: seconds_left(bytes_left, bytes_per_second),
            writes_waiting: component.writes_waiting,
        }
    }

    fn resync_reason(
        &self,
        record: &ObjectRecord,
        component: ComponentStatus,
        of_record: Option<&ComponentRecord>,
    ) -> ResyncReason {
        let old = component.replaces.and_then(|old| record.components.iter().find(|c| c.id == old));
        // A component of a new volume is active at its first seat; one that was added is not yet.
        let is_new = of_record.is_none_or(|one| one.seat <= Seat(1));
        match old {
            Some(old) => {
                let from = self.view.shard_name(old.shard);
                match self.view.alive(old.shard) {
                    Some(_) => ResyncReason::Moves { from },
                    None => ResyncReason::Repairs { from },
                }
            }
            None if is_new => ResyncReason::OneMore,
            None => ResyncReason::Returns,
        }
    }
}
