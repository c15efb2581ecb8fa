// SPDX-License-Identifier: Apache-2.0
//! Hosts that are about to be stopped (docs/operations/maintenance.md).
//!
//! A record of the directory says which hosts are in maintenance. Whoever decides about repair has
//! what is to leave them made on other hosts, and no host of them gets anything new meanwhile. The
//! record is one for all hosts, and it is written only where nobody changed it since the check: so
//! two that enter at once do not each count on the other's copies.

mod effect;

use super::{Operations, Outcome, failed, usage};
use crate::cluster::alive::ROOM_PART;
use base::ShardId;
use directory::{
    Expect, MAINTENANCE_MAX, MaintenanceMode, MaintenanceRecord, ObjectRecord, ShardRecord,
    maintenance_key,
};
use effect::Situation;
use operator::{Command, MaintenanceReport};

impl Operations {
    /// Carries out what is asked about maintenance.
    pub(super) async fn maintenance_command(&self, command: Command) -> Outcome<MaintenanceReport> {
        match command {
            Command::MaintenanceEnter { host, mode } => self.enter_maintenance(&host, mode).await,
            Command::MaintenanceExit { host } => self.exit_maintenance(&host).await,
            Command::MaintenanceCheck { host, mode } => self.check_maintenance(&host, mode),
            other => Err(usage(format!("{other:?} is not about maintenance"))),
        }
    }

    /// What maintenance would come to; of a host in maintenance, how far it is.
    fn check_maintenance(
        &self,
        name: &str,
        mode: Option<MaintenanceMode>,
    ) -> Outcome<MaintenanceReport> {
        let members = self.members(name)?;
        let maintenance = self.view.maintenance();
        let entered = members.iter().find_map(|shard| maintenance.mode(shard.id));
        let stop = Stop { name, members: &members, mode: mode.or(entered).unwrap_or_default() };
        Ok(self.maintenance_report(&self.view.objects(), &maintenance, &stop))
    }

    /// How far a host in maintenance is; the volumes are left out.
    pub(super) fn maintenance_of(&self, shard: &ShardRecord) -> Option<MaintenanceReport> {
        let maintenance = self.view.maintenance();
        let mode = maintenance.mode(shard.id)?;
        let objects = self.view.objects();
        let stop = Stop { name: &shard.name, members: std::slice::from_ref(shard), mode };
        let report = self.maintenance_report(&objects, &maintenance, &stop);
        Some(MaintenanceReport { volumes: Vec::new(), ..report })
    }

    /// Nothing new is made on a host from now on, and what is to leave it does.
    async fn enter_maintenance(
        &self,
        name: &str,
        mode: MaintenanceMode,
    ) -> Outcome<MaintenanceReport> {
        let members = self.members(name)?;
        if members.iter().all(|shard| self.view.alive(shard.id).is_none()) {
            return Err(failed(format!(
                "{name} is down: what it has is made again elsewhere after the repair delay, or by \
                 'gabion repair now'; if it is gone for good, 'gabion host remove {name} --lost'"
            )));
        }
        let (before, expect) = self.maintenance_entry().await?;
        let stop = Stop { name, members: &members, mode };
        let report = self.maintenance_report(&self.all_objects().await?, &before, &stop);
        if let Some(why) = report.obstacles.first() {
            let more = match report.obstacles.len() {
                1 => String::new(),
                many => format!(" (and {} more: 'gabion host maintenance check')", many - 1),
            };
            return Err(failed(format!("{name} did not enter maintenance: {why}{more}")));
        }
        let after = stop.begun(&before);
        if after.check().is_err() {
            return Err(failed(format!(
                "{MAINTENANCE_MAX} shards of hosts are in maintenance, the most that can be: end \
                 that of another host ('gabion host maintenance exit')"
            )));
        }
        self.put_maintenance(&after, expect, name).await?;
        Ok(MaintenanceReport { entered: true, ..report })
    }

    /// A host takes part as before. What is on its way to others stays where it is.
    async fn exit_maintenance(&self, name: &str) -> Outcome<MaintenanceReport> {
        let members = self.members(name)?;
        let (before, expect) = self.maintenance_entry().await?;
        let Some(mode) = members.iter().find_map(|shard| before.mode(shard.id)) else {
            return Err(failed(format!("{name} is not in maintenance: see 'gabion host list'")));
        };
        let without = |all: MaintenanceRecord, shard: &ShardRecord| all.with(shard.id, None);
        let after = members.iter().fold(before, without);
        self.put_maintenance(&after, expect, name).await?;
        let stop = Stop { name, members: &members, mode };
        Ok(self.maintenance_report(&self.view.objects(), &after, &stop))
    }

    /// The record as the directory has it now, without hosts that are no members any more.
    async fn maintenance_entry(&self) -> Outcome<(MaintenanceRecord, Expect)> {
        let read = self.only_record(&maintenance_key(), MaintenanceRecord::decode).await;
        let (mut record, expect) = read?;
        let removed = self.view.removed();
        record.hosts.retain(|one| !removed.contains(&one.shard));
        Ok((record, expect))
    }

    async fn put_maintenance(
        &self,
        record: &MaintenanceRecord,
        expect: Expect,
        name: &str,
    ) -> Outcome<()> {
        let put = self.put_at(maintenance_key(), expect, record.encode()).await;
        put.map_err(|undecided| match undecided {
            None => failed(format!(
                "maintenance of another host began or ended meanwhile: {name} stays as it was; try \
                 again"
            )),
            Some(undecided) => undecided.told(&format!("maintenance of {name} was changed")),
        })?;
        self.until(|| self.view.maintenance() == *record).await;
        Ok(())
    }

    fn maintenance_report(
        &self,
        objects: &[ObjectRecord],
        maintenance: &MaintenanceRecord,
        stop: &Stop<'_>,
    ) -> MaintenanceReport {
        let Stop { name, members, mode } = *stop;
        let stopped: Vec<ShardId> = members.iter().map(|shard| shard.id).collect();
        let entered = stopped.iter().all(|shard| maintenance.mode(*shard) == Some(mode));
        let maintenance = stop.begun(maintenance);
        let takers = self.view.takers(&maintenance);
        let up = self.view.shards().into_iter().map(|one| one.id);
        let up: Vec<ShardId> = up.filter(|one| self.view.alive(*one).is_some()).collect();
        let free = |shard: ShardId| self.view.alive(shard).map_or(0, |alive| alive.free_bytes);
        let used = |shard: &ShardRecord| shard.capacity_bytes().saturating_sub(free(shard.id));
        let are_up = stopped.iter().all(|shard| up.contains(shard));
        let capacity: u64 = members.iter().map(ShardRecord::capacity_bytes).sum();
        let mut report = MaintenanceReport {
            entered,
            used_bytes: are_up.then(|| members.iter().map(used).sum()),
            free_bytes: takers.iter().map(|shard| free(*shard)).sum(),
            ..MaintenanceReport::new(name, mode)
        };
        let untold_bytes = capacity / ROOM_PART;
        let domains = self.view.host_domains();
        let situation = Situation { stopped, maintenance, mode, up, takers, domains, untold_bytes };
        situation.add_all(objects, &self.view.volumes(), &mut report);
        let is_empty = mode != MaintenanceMode::FullEvacuation || report.to_delete == 0;
        report.ready = report.to_move == 0 && is_empty && report.obstacles.is_empty();
        base::hit_if(report.ready && entered, base::Probe::MaintenanceReady);
        report
    }
}

/// A host that is to be stopped, or one of its shards.
#[derive(Clone, Copy)]
struct Stop<'a> {
    name: &'a str,
    /// One at least.
    members: &'a [ShardRecord],
    mode: MaintenanceMode,
}

impl Stop<'_> {
    /// The same with all of it in maintenance.
    fn begun(&self, maintenance: &MaintenanceRecord) -> MaintenanceRecord {
        let with =
            |all: MaintenanceRecord, shard: &ShardRecord| all.with(shard.id, Some(self.mode));
        self.members.iter().fold(maintenance.clone(), with)
    }
}
