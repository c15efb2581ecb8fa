// SPDX-License-Identifier: Apache-2.0
//! The part of the audit that is about chunks which direct writes have filled.

use super::audit::Inconsistency;
use crate::keys::{chunk_of_block, serial_of};
use crate::log::build::to_usize;
use crate::state::GroupState;
use crate::store::capacity::CapacityState;
use base::{CHUNK_BLOCKS, Set};

impl GroupState {
    /// Counts the chunks of a device that records of staged chunks own, and adds them to those that
    /// have a place already.
    pub(super) fn audit_owned(
        &self,
        device: usize,
        capacity: &CapacityState,
        seen: &mut Set<u32>,
    ) -> Result<u64, Inconsistency> {
        let mut staged = 0;
        let all = self.store.all_staged().filter(|(_, known)| known.device == device);
        for chunk in all.filter(|(_, known)| known.is_owned()).map(|(_, known)| known.chunk) {
            staged += 1;
            if !seen.insert(chunk) {
                return Err(Inconsistency::ChunkTwice { device, chunk });
            }
        }
        if staged != capacity.staged() {
            let counted = capacity.staged();
            return Err(Inconsistency::Staged { device, staged, counted });
        }
        Ok(staged)
    }

    /// Blocks of direct writes have a staged chunk that has them.
    pub(super) fn audit_staged(&self) -> Result<(), Inconsistency> {
        for (key, places) in self.log.index.entries() {
            if !places.all.iter().any(|place| place.is_direct()) {
                continue;
            }
            let chunk = chunk_of_block(key);
            let block = key & (CHUNK_BLOCKS - 1);
            let is_there = self.store.staged(chunk).is_some_and(|staged| {
                let written = staged.written[to_usize(block / 64)];
                written >> (block % 64) & 1 == 1
            });
            let is_known = self.store.components.get(serial_of(chunk)).is_some();
            if is_known && !is_there {
                return Err(Inconsistency::Unstaged { key });
            }
        }
        Ok(())
    }
}
