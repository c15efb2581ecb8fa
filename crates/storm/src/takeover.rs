// SPDX-License-Identifier: Apache-2.0
//! Take-overs of volumes that one host writes to at a time, beside all stories and at rest.

use crate::campaign::{SeedRun, Violation};
use crate::operators::take_over;
use directory::Writers;

impl SeedRun {
    /// Operators go on, unless the directory forgot who writes.
    pub(crate) fn operators_take_over(&self) {
        if !self.log.went_back() {
            self.switches.borrow_mut().go_on(&self.plan, &self.cluster);
            let mut operators = self.take_overs.borrow_mut();
            operators.go_on(&self.plan, &self.cluster, &self.shared);
        }
    }

    /// At rest a volume that one host writes to can be taken over by any of its hosts.
    pub(crate) fn take_all_over(&mut self) -> Result<(), Violation> {
        for volume in 0..self.plan.volumes.len() {
            let writing = self.cluster.records.writing(&self.shared[volume].volume);
            if writing.is_none_or(|writing| writing.writers == Writers::Any) {
                continue; // also where it was made anew: its components do not say that
            }
            let hosts = self.plan.volumes[volume].clients.clone();
            let Some(host) = self.any_from(&hosts).copied() else { continue };
            let what = format!("host{} as the writer of volume {volume}", host + 1);
            self.wait(&what, |run| {
                let through = run.any_host();
                run.is_done(through, take_over(volume, host))
            })?;
        }
        Ok(())
    }
}
