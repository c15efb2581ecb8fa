// SPDX-License-Identifier: Apache-2.0
//! What a host counts and measures. It is asked for every few seconds, so it must not hold up the
//! host's thread: volumes are gone through a few hundred at a time, and few are told of.

use super::Operations;
use base::{Map, VolumeId};
use directory::VolumeRecord;
use operator::{
    Health, LinksReport, MetricsReport, OperationReport, OwnedVolume, ResyncTotals, StageTotal,
    TrafficReport, VolumeTally,
};
use volume::{Limited, TrafficCount};

/// Volumes that are looked at in one turn: about a millisecond.
const LOOK_MAX: usize = 256;
/// Most volumes in each list. One with all kinds of requests has a hundred numbers, so these are
/// half a megabyte as JSON. What is beyond is counted as left out.
const VOLUMES_MAX: usize = 500;

/// What is seen as the volumes are gone through.
#[derive(Default)]
struct Gone {
    tally: VolumeTally,
    owned: Vec<OwnedVolume>,
    traffic: Vec<TrafficReport>,
    left_out: u64,
}

impl Operations {
    pub(super) async fn metrics(&self) -> MetricsReport {
        let (counts, all) = self.exports.traffic();
        let seen = self.go_through(&counts).await;
        let worst = match seen.tally {
            VolumeTally { red: 1.., .. } => Health::Red,
            VolumeTally { yellow: 1.., .. } => Health::Yellow,
            _ => Health::Green,
        };
        MetricsReport {
            status: self.status_with(worst),
            volumes: seen.tally,
            owned: seen.owned,
            traffic: seen.traffic,
            all_traffic: OperationReport::all(&all),
            left_out: seen.left_out,
            stages: StageTotal::all(&self.env),
            resync: self.resync_totals(),
            links: self.links(),
            scrubs: self.scrub(),
            not_rebuilt: self.not_rebuilt(0),
        }
    }

    async fn go_through(&self, counts: &Map<VolumeId, TrafficCount>) -> Gone {
        let mut seen = Gone::default();
        let mut last = String::new();
        loop {
            let volumes = self.view.volumes_behind(&last, LOOK_MAX);
            volumes.iter().for_each(|volume| self.look_at(volume, counts, &mut seen));
            match volumes.last() {
                Some(volume) if volumes.len() == LOOK_MAX => last.clone_from(&volume.name),
                _ => return seen,
            }
            self.env.yield_now().await;
        }
    }

    fn look_at(
        &self,
        volume: &VolumeRecord,
        counts: &Map<VolumeId, TrafficCount>,
        seen: &mut Gone,
    ) {
        if volume.trashed.is_some() {
            seen.tally.deleted += 1;
            return;
        }
        let objects: Vec<_> =
            volume.objects.iter().filter_map(|id| self.view.object(*id)).collect();
        let known: Vec<_> = objects.iter().map(|o| self.objects.status(o.id)).collect();
        let pairs = objects.iter().zip(known.iter().map(Option::as_ref));
        let health = self.volume_health(volume, pairs);
        seen.tally.count(health);
        let owner = objects.first().and_then(|object| object.owner);
        if owner.is_some_and(|owner| owner.shard == self.me) {
            let components = known.iter().flatten().flat_map(|known| &known.components);
            let owned = OwnedVolume {
                volume: volume.name.clone(),
                health,
                size_bytes: volume.size_bytes,
                resync_bytes_left: components.map(|one| one.resync_bytes_left).sum(),
            };
            seen.left_out += keep(&mut seen.owned, owned);
        }
        if let Some(count) = counts.get(&volume.id) {
            let Limited { requests, waited } = self.exports.limited(volume.id).unwrap_or_default();
            let traffic = TrafficReport {
                volume: volume.name.clone(),
                clients: self.exports.clients(volume.id),
                limited_requests: requests,
                limited_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
                operations: OperationReport::used(count),
            };
            seen.left_out += keep(&mut seen.traffic, traffic);
        }
    }

    fn resync_totals(&self) -> ResyncTotals {
        let mut totals =
            ResyncTotals { copied_bytes: self.objects.copied_bytes(), ..ResyncTotals::default() };
        for returning in self.objects.returning() {
            match returning.component.progress {
                Some(_) => totals.copying += 1,
                None => totals.waiting += 1,
            }
            totals.bytes_left += returning.component.resync_bytes_left;
        }
        totals
    }

    fn links(&self) -> LinksReport {
        let stats = self.objects.link_stats();
        LinksReport {
            made: stats.links,
            silent: stats.silent,
            refused: stats.malformed + stats.strangers + stats.incompatible + stats.overrun,
            messages_sent: stats.frames_sent,
            messages_received: stats.frames_received,
            bytes_received: stats.bytes_received,
            waiting_bytes: stats.waiting_bytes,
        }
    }
}

/// Puts one more into a list that has room; otherwise it is one left out.
fn keep<T>(list: &mut Vec<T>, one: T) -> u64 {
    if list.len() >= VOLUMES_MAX {
        return 1;
    }
    list.push(one);
    0
}

#[cfg(test)]
mod tests;
