// SPDX-License-Identifier: Apache-2.0
//! What capacity has leaves the index; a segment that nothing points into is free.

use crate::keys::{chunk_of_block, serial_of};
use crate::log::index::LogPlace;
use crate::state::{GroupInner, GroupState};
use crate::types::GroupError;
use base::Lsn;

/// Writes what the segment says about requests into the components' rows, before the segment is
/// freed (rule 46). A row takes along everything that is known by then, so a row is written about
/// once per lap of the log and not once per segment.
///
/// A component of which the log has nothing behind the segment gets its row too. Its highest lsn
/// may be that of a discard, which leaves nothing on capacity that would tell.
pub(super) async fn keep_marks(inner: &GroupInner, segment: u64) -> Result<(), GroupError> {
    if inner.options.mutations.forget_marks() {
        return Ok(());
    }
    let leaving = {
        let state = inner.state.borrow();
        let info = state.log.segment(segment);
        let last_of = |serial: &u32| {
            let component = state.store.components.get(*serial)?;
            let is_last = component.lowest.from(segment + 1).is_none();
            is_last.then_some((*serial, component.row.durable))
        };
        let last = info.serials.iter().filter_map(last_of);
        info.marked.iter().copied().chain(last).collect::<Vec<_>>()
    };
    for (serial, highest) in leaving {
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
        let chunk = chunk_of_block(key);
        let device = self.store.components.get(serial_of(chunk)).map(|c| c.device);
        if self.log.forget(key, place, device.is_some())
            && let Some(device) = device
        {
            self.note_erased(chunk);
            self.settle(chunk, device);
        }
    }

    /// The same for all of a chunk that was discarded.
    pub(super) fn forget_clear(&mut self, key: u64, device: usize, place: LogPlace) {
        if self.log.forget_clear(key, place) {
            self.note_erased(key);
            self.settle(key, device);
        }
    }

    /// Something of a chunk leaves the log; zeros or a discard where capacity does not hold it.
    fn note_erased(&mut self, chunk: u64) {
        if self.store.base(chunk).is_none() {
            let lsn = Lsn(self.log.highest_of(chunk));
            self.store.note_erased(serial_of(chunk), lsn);
        }
    }

    /// Store rule 12: nothing points into the segment any more, for `has_live` in `whole` has just
    /// said so. So it may be written again.
    pub(super) fn free_oldest(&mut self, segment: u64) {
        assert!(!self.is_held(), "a segment is freed that a device needs which is out");
        let serials = self.log.free_oldest(segment);
        if self.mutations.reuse_named() {
            self.let_staged_go(segment + 1);
        }
        for serial in serials {
            self.raise_destaged(serial, 0);
        }
    }

    /// Raises W (rule 30) as if so many of the oldest segments, `without`, were free already.
    pub(crate) fn raise_destaged(&mut self, serial: u32, without: u64) {
        let tail = self.log.tail;
        self.store.raise_destaged(serial, tail, tail + without);
    }

    /// Whether the oldest segment of the log may hold something that a device needs which is out.
    /// If no segment is closed, the oldest one is the open one.
    pub(crate) fn is_held(&self) -> bool {
        self.log.segment(self.log.tail).is_held && !self.mutations.free_held()
    }
}
