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
use base::HostId;
use directory::{
    Expect, HostRecord, MAINTENANCE_MAX, MaintenanceMode, MaintenanceRecord, ObjectRecord,
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
        let host = self.member(name)?;
        let maintenance = self.view.maintenance();
        let mode = mode.or(maintenance.mode(host.id)).unwrap_or_default();
        Ok(self.maintenance_report(&self.view.objects(), &maintenance, &host, mode))
    }

    /// How far a host in maintenance is; the volumes are left out.
    pub(super) fn maintenance_of(&self, host: &HostRecord) -> Option<MaintenanceReport> {
        let maintenance = self.view.maintenance();
        let mode = maintenance.mode(host.id)?;
        let objects = self.view.objects();
        let report = self.maintenance_report(&objects, &maintenance, host, mode);
        Some(MaintenanceReport { volumes: Vec::new(), ..report })
    }

    /// Nothing new is made on a host from now on, and what is to leave it does.
    async fn enter_maintenance(
        &self,
        name: &str,
        mode: MaintenanceMode,
    ) -> Outcome<MaintenanceReport> {
        let host = self.member(name)?;
        if self.view.alive(host.id).is_none() {
            return Err(failed(format!(
                "{name} is down: what it has is made again elsewhere after the repair delay, or by \
                 'gabion repair now'; if it is gone for good, 'gabion host remove {name} --lost'"
            )));
        }
        let (before, expect) = self.maintenance_entry().await?;
        let report = self.maintenance_report(&self.all_objects().await?, &before, &host, mode);
        if let Some(why) = report.obstacles.first() {
            let more = match report.obstacles.len() {
                1 => String::new(),
                many => format!(" (and {} more: 'gabion host maintenance check')", many - 1),
            };
            return Err(failed(format!("{name} did not enter maintenance: {why}{more}")));
        }
        let after = before.with(host.id, Some(mode));
        if after.check().is_err() {
            return Err(failed(format!(
                "{MAINTENANCE_MAX} hosts are in maintenance, the most that can be: end that of \
                 another one ('gabion host maintenance exit')"
            )));
        }
        self.put_maintenance(&after, expect, name).await?;
        Ok(MaintenanceReport { entered: true, ..report })
    }

    /// A host takes part as before. What is on its way to others stays where it is.
    async fn exit_maintenance(&self, name: &str) -> Outcome<MaintenanceReport> {
        let host = self.member(name)?;
        let (before, expect) = self.maintenance_entry().await?;
        let Some(mode) = before.mode(host.id) else {
            return Err(failed(format!("{name} is not in maintenance: see 'gabion host list'")));
        };
        let after = before.with(host.id, None);
        self.put_maintenance(&after, expect, name).await?;
        Ok(self.maintenance_report(&self.view.objects(), &after, &host, mode))
    }

    /// The record as the directory has it now, without hosts that are no members any more.
    async fn maintenance_entry(&self) -> Outcome<(MaintenanceRecord, Expect)> {
        let read = self.only_record(&maintenance_key(), MaintenanceRecord::decode).await;
        let (mut record, expect) = read?;
        let removed = self.view.removed();
        record.hosts.retain(|one| !removed.contains(&one.host));
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
        })
    }

    fn maintenance_report(
        &self,
        objects: &[ObjectRecord],
        maintenance: &MaintenanceRecord,
        host: &HostRecord,
        mode: MaintenanceMode,
    ) -> MaintenanceReport {
        let entered = maintenance.mode(host.id) == Some(mode);
        let maintenance = maintenance.with(host.id, Some(mode));
        let takers = self.view.takers(&maintenance);
        let up = self.view.hosts().into_iter().map(|one| one.id);
        let up: Vec<HostId> = up.filter(|one| self.view.alive(*one).is_some()).collect();
        let free = |host: HostId| self.view.alive(host).map_or(0, |alive| alive.free_bytes);
        let capacity = host.capacity_bytes();
        let mut report = MaintenanceReport {
            entered,
            used_bytes: up.contains(&host.id).then(|| capacity.saturating_sub(free(host.id))),
            free_bytes: takers.iter().map(|host| free(*host)).sum(),
            ..MaintenanceReport::new(&host.name, mode)
        };
        let untold_bytes = capacity / ROOM_PART;
        let domains = self.view.host_domains();
        let situation = Situation { host: host.id, maintenance, up, takers, domains, untold_bytes };
        situation.add_all(objects, &self.view.volumes(), &mut report);
        let is_empty = mode != MaintenanceMode::FullEvacuation || report.to_delete == 0;
        report.ready = report.to_move == 0 && is_empty && report.obstacles.is_empty();
        base::hit_if(report.ready && entered, base::Probe::MaintenanceReady);
        report
    }
}
