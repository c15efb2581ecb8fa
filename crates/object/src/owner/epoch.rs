// SPDX-License-Identifier: Apache-2.0
//! The epoch of a volume's writer, as an owner keeps it (rules 54 and 55).

use super::change::ChangeError;
use super::state::Owner;
use crate::record;
use crate::status::ObjectError;
use base::WriterEpoch;
use std::rc::Rc;

impl Owner {
    /// Refuses a write that was not taken in the epoch of the record. For the step in which the
    /// write gets its lsn: what it waited for before may have taken long (rule 54).
    pub(super) fn admit(&self, epoch: WriterEpoch) -> Result<(), ObjectError> {
        let state = self.state.borrow();
        let is_open = state.next_epoch == state.record.writer_epoch;
        let is_its = epoch == state.record.writer_epoch && is_open;
        if is_its || self.options().mutations.admit_any_epoch() {
            return Ok(());
        }
        base::hit(base::Probe::WriterRefused);
        Err(ObjectError::NotWriter)
    }

    /// Has the record say that no write of an epoch before this one takes effect any more, once
    /// that is so: none is admitted from here on, and those that were are waited for (rule 55).
    /// [`ChangeError::Nothing`]: the record has the epoch or a later one.
    ///
    /// Dropped half-way, or where the directory cannot be reached, nothing is admitted until it is
    /// called again.
    pub(crate) async fn bring_in(self: &Rc<Self>, epoch: WriterEpoch) -> Result<(), ChangeError> {
        {
            let mut state = self.state.borrow_mut();
            state.next_epoch = state.next_epoch.max(epoch);
        }
        base::hit_if(self.state.borrow().window.live() > 0, base::Probe::WriterDrained);
        self.drain().await;
        let next = |state: &super::state::OwnerState| record::bring_in(&state.record, epoch);
        self.change(next).await
    }
}
