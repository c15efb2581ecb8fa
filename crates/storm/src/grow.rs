// SPDX-License-Identifier: Apache-2.0
//! Volumes are made larger while they are in use, while hosts, links, devices and the directory
//! fail.
//!
//! How large a volume is the directory's record says, also where the answer to a command was lost.
//! Clients use what both the record and their host say that there is.

use crate::campaign::SeedRun;
use crate::plan::VolumePlan;
use crate::plan::growth::{GROW_FROM, OBJECTS_MAX, RESERVED_OBJECTS_MAX, SIZE_MAX, STEP_MAX};
use base::{BLOCK_SECTORS, SECTOR_SIZE};
use operator::Command;

/// The random numbers of growth at the beginning of a round.
const STREAM: u64 = 29;

impl SeedRun {
    /// Before something fails in a round, its volume may grow.
    pub(crate) fn grow_at_begin(&mut self) {
        if self.plan.seed >= GROW_FROM {
            self.with_stream(STREAM, Self::grow_volume);
        }
    }

    /// The round's volume is made larger, if that is possible, and if the host that is asked can.
    pub(crate) fn grow_volume(&mut self) {
        if self.plan.seed < GROW_FROM || self.one_of(2) == 0 {
            return;
        }
        let name = VolumePlan::name(self.focus);
        let Some(record) = self.cluster.records.volume(&name) else { return };
        let has = record.size_bytes / SECTOR_SIZE;
        let is_whole = has.is_multiple_of(BLOCK_SECTORS);
        let most = if record.reserve_percent > 0 { RESERVED_OBJECTS_MAX } else { OBJECTS_MAX };
        if !is_whole || has > SIZE_MAX || record.objects.len() > most {
            return;
        }
        let blocks = 1 + self.one_of(STEP_MAX / BLOCK_SECTORS);
        // Mostly so that it can grow once more.
        let rest = if self.one_of(4) == 0 { 1 + self.one_of(BLOCK_SECTORS) } else { BLOCK_SECTORS };
        let more = (blocks - 1) * BLOCK_SECTORS + rest;
        let asked = self.any_host();
        self.is_done(asked, Command::VolumeGrow { name, size_bytes: (has + more) * SECTOR_SIZE });
        self.note_growth();
    }

    /// Clients use what the volumes have by now.
    pub(crate) fn note_growth(&mut self) {
        for shared in &self.shared {
            if let Some(record) = self.cluster.records.volume(&shared.volume) {
                let is_larger = shared.oracle.borrow_mut().grow(&record.layout());
                base::hit_if(is_larger, base::Probe::VolumeGrown);
            }
        }
    }
}
