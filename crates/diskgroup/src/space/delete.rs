// SPDX-License-Identifier: Apache-2.0
//! Deletion of components.
//!
//! First the component's row says, durably, that the component is deleted. From then on nobody
//! finds it. Its chunks are given back afterwards, some in each turn, since the largest component
//! has 261,120 of them. A crash in between loses no chunk: when the group is opened, each chunk
//! whose serial no row names is free.

use crate::state::DiskGroup;
use crate::state::{GroupInner, GroupState};
use crate::store::chunks::chunk_key;
use crate::store::deletion::Deletion;
use crate::types::GroupError;
use base::{CHUNK_SECTORS, ComponentId};
use std::rc::Rc;

/// Chunks that are looked at between two rests.
const CHUNKS_MAX: u64 = 1024;

impl DiskGroup {
    /// Deletes a component. On return this is durable, and its chunks are free but for their
    /// discard. Where the group is fenced or closed meanwhile, the chunks are free when it is
    /// opened again. The deletion goes on where the future is dropped.
    ///
    /// # Errors
    /// [`GroupError::UnknownComponent`], [`GroupError::Fenced`].
    pub async fn delete_component(&self, id: ComponentId) -> Result<(), GroupError> {
        let inner = self.shared();
        let serial = inner.delete_row(id).await?;
        loop {
            let progress = inner.progress.wait();
            {
                let state = inner.state.borrow();
                let is_over = state.fenced.is_some() || state.is_closed;
                if is_over || !state.is_deleting(serial) {
                    return Ok(());
                }
            }
            progress.await;
        }
    }
}

impl GroupInner {
    /// The part that is durable; the serial.
    async fn delete_row(&self, id: ComponentId) -> Result<u32, GroupError> {
        let _permit = self.table.acquire(1).await;
        self.check_open()?;
        let (mut row, device, place) = {
            let state = self.state.borrow();
            let Some(old) = state.store.components.by_id(id) else {
                return Err(GroupError::UnknownComponent { component: id });
            };
            (old.row.clone(), old.device, old.place)
        };
        row.is_deleted = true;
        let (serial, chunks) = (row.serial, row.sectors.div_ceil(CHUNK_SECTORS));
        self.write_row(device, place, row).await?;
        let mut state = self.state.borrow_mut();
        if let Some(gone) = state.store.components.remove(id) {
            state.store.capacity[device].promised -= gone.promised();
        }
        state.store.capacity[device].rows[place as usize].serial = 0;
        state.store.deletions.push_back(Deletion { serial, device, next: 0, chunks });
        drop(state);
        self.delete_kick.notify();
        Ok(serial)
    }
}

/// The task of a group that gives the chunks of deleted components back.
pub(crate) async fn give_back(inner: Rc<GroupInner>) {
    loop {
        let kick = inner.delete_kick.wait();
        let steps = inner.state.borrow_mut().give_back_some();
        if steps == 0 {
            kick.await;
            continue;
        }
        inner.destage_kick.notify();
        inner.progress.notify();
        inner.env.spend_steps(steps).await;
    }
}

impl GroupState {
    /// Whether chunks of it are still to come back.
    pub(crate) fn is_deleting(&self, serial: u32) -> bool {
        self.store.deletions.iter().any(|deletion| deletion.serial == serial)
    }

    /// Gives some chunks of the oldest deletion back: how many were looked at.
    fn give_back_some(&mut self) -> u64 {
        let Some(deletion) = self.store.deletions.front_mut() else { return 0 };
        let (serial, device, first) = (deletion.serial, deletion.device, deletion.next);
        let end = deletion.chunks.min(first + CHUNKS_MAX);
        deletion.next = end;
        if end == deletion.chunks {
            self.store.deletions.pop_front();
        }
        for chunk in first..end {
            self.give_back_chunk(device, chunk_key(serial, chunk));
        }
        (end - first).max(1)
    }

    fn give_back_chunk(&mut self, device: usize, key: u64) {
        if self.store.chunks.drop_over(key) {
            self.store.capacity[device].reserved -= 1;
        }
        let Some(base) = self.store.chunks.base(key) else { return };
        self.store.chunks.set_base(key, None);
        let capacity = &mut self.store.capacity[device];
        // Recovery takes chunks of serials that no row names for free.
        capacity.map[base as usize] = format::ChunkEntry::default();
        capacity.map_meta[base as usize / format::MAP_PAGE_CHUNKS].is_dirty = true;
        capacity.freeing.push_back(base);
        self.drop_slots(device, base);
    }
}
