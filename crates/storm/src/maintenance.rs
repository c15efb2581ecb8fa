// SPDX-License-Identifier: Apache-2.0
//! Hosts enter maintenance, are stopped, and take part again, while hosts, links and the directory
//! fail. What clients may expect meanwhile, and that all copies are there in the end, the campaign
//! checks in any round.

use crate::campaign::{SeedRun, Violation};
use crate::fault::Fault;
use directory::{MaintenanceRecord, maintenance_key};
use host::MaintenanceMode;
use operator::{Command, CommandReply, MaintenanceReport};
use std::time::Duration;

/// Seeds from here on have hosts in maintenance.
pub(crate) const MAINTENANCE_FROM: u64 = 283_000_000;
/// How often a host is asked whether it may be stopped.
const LOOK: Duration = Duration::from_millis(500);
/// So many times at most.
const LOOKS_MAX: usize = 40;

impl SeedRun {
    /// A host enters maintenance. At a chosen moment, mostly once it may be stopped, something
    /// fails, it is stopped, or somebody changes his mind.
    pub(crate) fn one_maintenance(&mut self) -> Result<(), Violation> {
        let modes = [
            MaintenanceMode::EnsureAccessibility,
            MaintenanceMode::FullEvacuation,
            MaintenanceMode::FullEvacuation,
            MaintenanceMode::None,
        ];
        let mode = self.any_from(&modes).copied().unwrap_or_default();
        let (at, asked) = (self.any_host(), self.any_host());
        // A machine with all that is on it, or one host of it.
        let machine = self.plan.machine_of(at).filter(|_| self.one_of(2) == 0);
        let host = machine.unwrap_or_else(|| self.name_of(at));
        if !self.is_done(asked, Command::MaintenanceEnter { host: host.clone(), mode }) {
            return self.pass(0, 2000);
        }
        match self.one_of(4) {
            0 => return self.called_off(asked, host),
            1 => self.pass(0, 5000)?,
            _ => self.until_ready(asked, &host)?,
        }
        self.decisive();
        match self.one_of(8) {
            0..3 => {
                self.take_down_somehow(at);
                self.pass(0, 20_000)?;
            }
            3 => {
                let other = self.any_host();
                self.take_down_somehow(other);
            }
            4 => self.isolate(at),
            5 => self.inject(Fault::DirectoryCut),
            6 => self.inject_at(Fault::MoveCopy, asked),
            _ => {}
        }
        if self.one_of(2) == 0 {
            self.is_done(asked, Command::MaintenanceExit { host });
        }
        Ok(())
    }

    /// A copy cannot be filled that is to take another's place, and maintenance is over.
    fn called_off(&mut self, asked: usize, host: String) -> Result<(), Violation> {
        self.until(|record| record.components.iter().any(|new| new.replaces.is_some()))?;
        let record = self.record();
        let mut new = record.iter().flat_map(|record| &record.components);
        let new = new.find(|component| component.replaces.is_some()).map(|new| new.shard.0);
        let at = self.cluster.machines.iter().position(|machine| Some(machine.number) == new);
        self.decisive();
        if let Some(at) = at.filter(|at| *at != asked) {
            self.isolate(at);
        }
        self.is_done(asked, Command::MaintenanceExit { host });
        self.pass(0, 8000)
    }

    /// Until a host may be stopped, as another one says; not for long.
    fn until_ready(&mut self, asked: usize, host: &str) -> Result<(), Violation> {
        let check = Command::MaintenanceCheck { host: host.to_owned(), mode: None };
        for _ in 0..LOOKS_MAX {
            self.run_for(LOOK)?;
            let Some(CommandReply::Ok(report)) = self.ask(asked, check.clone()) else { break };
            let report = serde_json::from_value::<MaintenanceReport>(report);
            if report.is_ok_and(|report| report.ready) {
                break;
            }
        }
        Ok(())
    }

    /// Has all hosts take part again that are in maintenance, whoever made them so: the directory
    /// may have been set back.
    pub(crate) fn end_maintenance(&mut self) {
        if self.plan.seed < MAINTENANCE_FROM {
            return;
        }
        let value = self.cluster.records.value(&maintenance_key());
        let record = value.and_then(|value| MaintenanceRecord::decode(&value).ok());
        for one in record.unwrap_or_default().hosts {
            let at = self.cluster.machines.iter().position(|m| m.number == one.shard.0);
            let Some(host) = at.map(|at| self.name_of(at)) else { continue };
            let asked = self.any_host();
            self.is_done(asked, Command::MaintenanceExit { host });
        }
    }

    pub(crate) fn name_of(&self, index: usize) -> String {
        format!("host{}", index + 1)
    }
}
