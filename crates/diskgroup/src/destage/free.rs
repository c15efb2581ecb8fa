// SPDX-License-Identifier: Apache-2.0
//! What capacity has leaves the index; a segment that nothing points into is free.

use super::batch::Found;
use crate::log::build::to_usize;
use crate::log::index::LogPlace;
use crate::state::{GroupInner, GroupState};
use crate::store::chunks::{block_key, chunk_key};
use crate::types::GroupError;
use base::{CHUNK_BLOCKS, Lsn};

/// Writes what the segment says about requests into the components' rows, before the segment is
/// freed (rule 46). A row takes along everything that is known by then, so a row is written about
/// once per lap of the log and not once per segment.
pub(super) async fn keep_marks(inner: &GroupInner, segment: u64) -> Result<(), GroupError> {
    if inner.options.mutations.forget_marks() {
        return Ok(());
    }
    let marked = {
        let state = inner.state.borrow();
        state.log.infos[to_usize(segment - state.log.tail)].marked.clone()
    };
    for (serial, highest) in marked {
        let _permit = inner.table.acquire(1).await;
        let found = {
            let state = inner.state.borrow();
            let component = state.store.components.get(serial);
            let component = component.filter(|component| component.marks_kept < highest);
            component.map(|c| (c.device, c.place, c.row.clone()))
        };
        if let Some((device, place, row)) = found {
            base::hit(base::Probe::DestageKeptMarks);
            inner.write_row(device, place, row).await?;
        }
    }
    Ok(())
}

impl GroupState {
    /// Store rule 11: the block is read from capacity from now on, unless something newer is here.
    pub(super) fn forget_block(&mut self, key: u64, place: LogPlace) {
        if !self.log.index.forget(key, place) {
            return;
        }
        let (serial, block) = ((key >> 40) as u32, key & ((1 << 40) - 1));
        let Some(device) = self.store.components.get(serial).map(|c| c.device) else { return };
        let chunk = chunk_key(serial, block / CHUNK_BLOCKS);
        self.note_erased(serial, chunk);
        self.store.chunks.over_mut(chunk).live -= 1;
        self.settle(chunk, device);
    }

    /// Notes that zeros or a discard leave the log, which is all that can leave it for a chunk that
    /// capacity does not hold. No other trace of them is left for a component that was away
    /// meanwhile and asks what changed (rule 30).
    pub(super) fn note_erased(&mut self, serial: u32, chunk: u64) {
        if self.store.chunks.base(chunk).is_some() {
            return;
        }
        let lsn = Lsn(self.store.chunks.over(chunk).map_or(0, |over| over.lsn));
        if let Some(component) = self.store.components.get_mut(serial) {
            component.erased = component.erased.max(lsn);
        }
    }

    pub(super) fn forget_clear(&mut self, key: u64, device: usize, place: LogPlace) {
        if self
            .store
            .chunks
            .over(key)
            .and_then(|over| over.cleared)
            .is_some_and(|(at, _)| at == place)
        {
            self.note_erased((key >> 32) as u32, key);
            self.store.chunks.over_mut(key).cleared = None;
            self.settle(key, device);
        }
    }

    /// Store rule 12: nothing points into the segment any more, for `has_live` in `whole` has just
    /// said so. So it may be written again.
    pub(super) fn free_oldest(&mut self, segment: u64, found: &[Found]) {
        for found in found {
            let serial = found.entry.serial;
            let is_known = self.store.components.get(serial).is_some();
            if !is_known && !found.is_clear() {
                // Of a deleted component.
                found.entry.range.blocks().for_each(|block| {
                    self.log.index.clear(block_key(serial, block), u64::MAX);
                });
            }
        }
        assert!(self.log.tail == segment, "segments are freed in order");
        assert!(!self.is_held(), "a segment is freed that a device needs which is out");
        self.log.tail = segment + 1;
        let Some(info) = self.log.infos.pop_front() else { return };
        for serial in info.serials {
            self.raise_destaged(serial, 0);
        }
    }

    /// Whether the oldest segment of the log may hold something that a device needs which is out.
    /// If no segment is closed, the oldest one is the open one.
    pub(crate) fn is_held(&self) -> bool {
        let is_held = self.log.infos.front().is_some_and(|info| info.is_held);
        is_held && !self.mutations.free_held()
    }

    /// W: everything below the lowest lsn that the log, without so many of its oldest segments,
    /// still needs of a component.
    pub(crate) fn raise_destaged(&mut self, serial: u32, without: usize) {
        let first = self.log.tail + without as u64;
        // A component that lost its write buffer gets a delta of everything above W. While the
        // component comes back from an absence, and while copies for it are in the log, it still
        // lacks writes with lower lsns. So W stays where it was when the component was last active.
        let may_rise = !self.has_copies(serial, without) || self.mutations.forget_copies();
        let is_any = self.mutations.raise_inactive();
        let Some(component) = self.store.components.get_mut(serial) else { return };
        component.lowest.forget_before(self.log.tail);
        let lowest = component.lowest.from(first);
        let is_whole = component.row.lost_at.is_none();
        if may_rise && is_whole && (component.is_active || is_any) {
            let destaged = lowest.map_or(component.row.durable, |lsn| Lsn(lsn.saturating_sub(1)));
            // Everything that has left the log was at or below K, so K bounds W. Without this bound
            // W could be one less than the first lsn of a new term, which K never reached.
            let destaged = destaged.min(component.row.commit);
            component.row.destaged = component.row.destaged.max(destaged);
            if component.row.destaged > component.destaged_logged {
                self.store.capacity[component.device].risen.insert(serial);
            }
        }
    }

    /// Whether the log, without so many of its oldest segments, holds a copy of a component.
    pub(crate) fn has_copies(&self, serial: u32, without: usize) -> bool {
        let first = self.log.tail + without as u64;
        self.store.components.get(serial).is_some_and(|c| c.lowest.has_copies(first))
    }
}
