// SPDX-License-Identifier: Apache-2.0
//! Volumes that are kept on one host (docs/operations/affinity.md).
//!
//! The volume's record names the host, and nothing else: whoever decides about repair has parts
//! that are elsewhere move there (`care/repair`), and all that moves copies for other reasons
//! leaves such a volume alone.

use crate::operations::{Operations, Outcome, usage};
use base::{Map, ShardId};
use directory::{Affinity, ComponentState, Level, ObjectRecord, PolicyRecord, VolumeRecord};
use operator::{HomeReport, VolumeReport};
use std::cmp::Reverse;

impl Operations {
    /// Keeps all of a volume on one host from now on, or lets it go where there is room. It follows
    /// its policy still where that says so too.
    pub(crate) async fn keep_on(&self, name: &str, host: Option<&str>) -> Outcome<VolumeReport> {
        placement::check_name(name).map_err(usage)?;
        let host = host.map(|host| self.home_named(host)).transpose()?;
        let (volume, revision) = self.volume_entry(name).await?;
        if host.is_some() && volume.ftt > 0 {
            return Err(usage(format!(
                "volume '{name}' has {} copies, and no two of them are on one host: 'gabion volume \
                 change {name} --ftt 0' leaves one",
                volume.ftt + 1
            )));
        }
        let is_same_rule = host.is_some() == volume.kept_on.is_some();
        let policy = volume.policy.clone().filter(|_| is_same_rule);
        let record = VolumeRecord { kept_on: host, policy, ..volume.clone() };
        self.put_changed(&volume, &record, revision).await?;
        self.until_seen(&record, |now| now.kept_on == record.kept_on).await;
        Ok(self.report(&record))
    }

    /// The host that is meant, by its name or that of one of its shards. It can take something now.
    fn home_named(&self, name: &str) -> Outcome<String> {
        self.need(Level::AFFINITY, "volumes that are kept on one host")?;
        let able = self.target(name, &[])?;
        Ok(self.view.machine_of(able.first().copied().unwrap_or(self.me)))
    }

    /// The host that a new volume is kept on: the one that is asked for, or by its policy this one.
    pub(super) fn home_of_new(
        &self,
        asked: Option<&str>,
        ftt: u8,
        policy: Option<&PolicyRecord>,
    ) -> Outcome<Option<String>> {
        let affinity = policy.map_or(Affinity::None, |policy| policy.affinity);
        match (asked, policy) {
            (None, _) if affinity == Affinity::None => Ok(None),
            (None, _) => Ok(Some(self.view.machine_of(self.me))),
            (Some(_), Some(policy)) if affinity == Affinity::None => Err(usage(format!(
                "policy '{}' keeps volumes wherever there is room: leave out --on, or choose a \
                 policy with --affinity host",
                policy.name
            ))),
            (Some(_), None) if ftt > 0 => Err(usage(
                "--on keeps all of a volume on one host, which has one copy of it: choose --ftt 0"
                    .to_owned(),
            )),
            (Some(host), _) => self.home_named(host).map(Some),
        }
    }

    /// Where a volume is kept once it has the rules of a policy: where it is, or else where most of
    /// it lies.
    pub(crate) fn home_by(&self, policy: &PolicyRecord, volume: &VolumeRecord) -> Option<String> {
        let is_kept = policy.affinity == Affinity::Host;
        is_kept.then(|| volume.kept_on.clone().unwrap_or_else(|| self.home_with_most(volume)))
    }

    /// The host that has most of a volume; this one where nobody knows.
    fn home_with_most(&self, volume: &VolumeRecord) -> String {
        let mut sectors: Map<String, u64> = Map::new();
        for object in volume.objects.iter().filter_map(|id| self.view.object(*id)) {
            let whole = object.components.iter().filter(|one| one.state == ComponentState::Active);
            for component in whole {
                *sectors.entry(self.view.machine_of(component.shard)).or_default() +=
                    object.sectors;
            }
        }
        let most = sectors.into_iter().max_by_key(|(host, sum)| (*sum, Reverse(host.clone())));
        most.map_or_else(|| self.view.machine_of(self.me), |(host, _)| host)
    }

    /// Whether a volume that is kept on one host is all there.
    pub(crate) fn home_report(&self, volume: &VolumeRecord) -> Option<HomeReport> {
        let host = volume.kept_on.clone()?;
        let home = self.view.shards_of(&host);
        let objects = volume.objects.iter().filter_map(|id| self.view.object(*id));
        let elsewhere = objects.filter(|object| !is_at(object, &home)).count();
        let not_moved = match elsewhere {
            0 => None,
            _ if home.is_empty() => Some(format!("there is no host {host} any more")),
            _ => self.target(&host, &[]).err().map(|why| why.message),
        };
        Some(HomeReport { host, elsewhere: u64::try_from(elsewhere).unwrap_or(0), not_moved })
    }
}

/// Whether an object has a component on one of these hosts that takes no other one's place.
pub(crate) fn is_at(object: &ObjectRecord, home: &[ShardId]) -> bool {
    object.components.iter().any(|one| one.replaces.is_none() && home.contains(&one.shard))
}
