// SPDX-License-Identifier: Apache-2.0
//! What components say of themselves, for the day on which the directory does not.

use crate::state::DiskGroup;
use crate::types::GroupError;
use base::{ComponentId, Incarnation, ShardId};
use format::{ComponentRow, Description};

/// With the time of a component that no record accounts for: the directory had an older record.
pub(crate) const WENT_BACK: u64 = 1 << 63;

impl DiskGroup {
    /// What a component says of itself.
    #[must_use]
    pub fn description(&self, id: ComponentId) -> Option<Description> {
        let state = self.shared().state.borrow();
        state.store.components.by_id(id)?.row.description.as_deref().cloned()
    }

    /// Keeps what a component is to say of itself, by a record that accounts for it: it is no
    /// orphan any more. Durable on return.
    ///
    /// # Errors
    /// [`GroupError::UnknownComponent`], [`GroupError::Fenced`].
    pub async fn describe(&self, id: ComponentId, new: Description) -> Result<(), GroupError> {
        let new = Some(Box::new(new));
        let change = |row: &mut ComponentRow| {
            row.description.clone_from(&new);
            row.orphaned = None;
        };
        self.change_row(id, change).await
    }

    /// Keeps in which run of its host a component was described last. Whether a record accounts for
    /// it is not told by that. Durable on return.
    ///
    /// # Errors
    /// As [`DiskGroup::describe`].
    pub async fn note_run(&self, id: ComponentId, run: Incarnation) -> Result<(), GroupError> {
        let change = |row: &mut ComponentRow| {
            if let Some(description) = &mut row.description {
                description.incarnation = run;
            }
        };
        self.change_row(id, change).await
    }

    /// Keeps since when no record accounts for a component, in seconds of the wall clock, and
    /// whether that is because the directory went back in time; `None`: one does. Durable on
    /// return.
    ///
    /// # Errors
    /// As [`DiskGroup::describe`].
    pub async fn set_orphaned(
        &self,
        id: ComponentId,
        since: Option<u64>,
        went_back: bool,
    ) -> Result<(), GroupError> {
        let mark = if went_back { WENT_BACK } else { 0 };
        let kept = since.map(|since| since & !WENT_BACK | mark);
        self.change_row(id, |row| row.orphaned = kept).await
    }

    /// The highest run of `host`, whose group this is, that anything on it knows of.
    #[must_use]
    pub fn incarnation_seen(&self, shard: ShardId) -> Incarnation {
        let state = self.shared().state.borrow();
        let seen = state.store.components.ids().into_iter().filter_map(|id| {
            let row = &state.store.components.by_id(id)?.row;
            let owner = (row.meta.owner_shard == shard).then_some(row.meta.owner_incarnation);
            let described = row.description.as_ref().map(|about| about.incarnation);
            owner.into_iter().chain(described).max()
        });
        seen.max().unwrap_or_default()
    }

    /// The highest run of this group's host that a description names.
    #[must_use]
    pub fn described_in(&self) -> Incarnation {
        let state = self.shared().state.borrow();
        let rows = state.store.components.ids().into_iter().filter_map(|id| {
            Some(state.store.components.by_id(id)?.row.description.as_ref()?.incarnation)
        });
        rows.max().unwrap_or_default()
    }

    async fn change_row(
        &self,
        id: ComponentId,
        change: impl Fn(&mut ComponentRow),
    ) -> Result<(), GroupError> {
        let inner = self.shared();
        let _permit = inner.table.acquire(1).await;
        inner.check_open()?;
        let (row, device, place) = {
            let state = inner.state.borrow();
            let Some(component) = state.store.components.by_id(id) else {
                return Err(GroupError::UnknownComponent { component: id });
            };
            let mut row = component.row.clone();
            change(&mut row);
            (row, component.device, component.place)
        };
        inner.write_row(device, place, row).await?;
        if let Some(component) = inner.state.borrow_mut().store.components.by_id_mut(id) {
            change(&mut component.row);
        }
        Ok(())
    }
}
