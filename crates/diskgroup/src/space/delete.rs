// SPDX-License-Identifier: Apache-2.0
//! Deletion of components.
//!
//! First the component's row says, durably, that the component is deleted. From then on nobody
//! finds it. Its chunks are given back afterwards, some in each turn, since the largest component
//! has 261,120 of them. With them goes what the index has of it: a segment that is freed does not
//! know of all its entries where its headers are rotten. A crash in between loses no chunk: when
//! the group is opened, each chunk whose serial no row names is free.

use crate::keys::chunk_key;
use crate::state::{DiskGroup, GroupInner, GroupState};
use crate::types::GroupError;
use base::ComponentId;
use std::rc::Rc;

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
        let is_back = |state: &GroupState| state.store.deleted_from(serial).is_none();
        inner.until(|state| state.is_over() || is_back(state)).await;
        Ok(())
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
        let serial = row.serial;
        self.write_row(device, place, row).await?;
        self.state.borrow_mut().store.begin_deletion(id);
        self.delete_kick.notify();
        Ok(serial)
    }
}

/// The task of a group that gives the chunks of deleted components back.
pub(crate) async fn give_back(inner: Rc<GroupInner>) {
    loop {
        let kick = inner.delete_kick.wait();
        let steps = inner.state.borrow_mut().give_back_some(inner.options.limits.deleted_chunks);
        if steps == 0 {
            kick.await;
            continue;
        }
        inner.destage_kick.notify();
        inner.log_kick.notify(); // there may be room in the index
        inner.progress.notify();
        inner.env.spend_steps(steps).await;
    }
}

impl GroupState {
    /// Gives some chunks of the oldest deletion back, with about `most` looks: how many it took.
    fn give_back_some(&mut self, most: u64) -> u64 {
        let Some((device, serial, mut chunks)) = self.store.next_deleted() else { return 0 };
        let mut looks = 0;
        while looks < most
            && let Some(chunk) = chunks.next()
        {
            let key = chunk_key(serial, chunk);
            looks += 1 + self.log.forget_deleted(key);
            if let Some(base) = self.store.give_back(device, key) {
                self.drop_slots(device, base);
            }
        }
        self.store.deleted_before(chunks.start);
        self.destage.moved_in_row = 0; // less is above K
        looks.max(1)
    }
}
