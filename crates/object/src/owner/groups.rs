// SPDX-License-Identifier: Apache-2.0
//! Which disk group each component is on. Its host chooses, also when it makes a lost one anew; the
//! record says what the host said last. Only the owner writes it, as all of the record.

use super::change::ChangeError;
use super::state::{Owner, Phase};
use crate::record;
use std::rc::Rc;
use std::time::Duration;

/// Between two attempts while the directory does not answer.
const RETRY: Duration = Duration::from_secs(1);

impl Owner {
    /// Corrects the record where a component turned out to be on another disk group. Nothing waits
    /// for it. Ends with the owner.
    pub(crate) async fn tell_groups(self: Rc<Self>) {
        while !self.is_stopped() {
            let changed = self.changed.wait();
            let is_right = {
                let state = self.state.borrow();
                record::regroup(&state.record, &state.groups).is_none()
            };
            if is_right || self.phase() != Phase::Serving {
                changed.await;
                continue;
            }
            match self.change(|state| record::regroup(&state.record, &state.groups)).await {
                Ok(()) => tracing::info!(object = %self.id, "the record says the disk groups now"),
                Err(ChangeError::Stopped) => return,
                Err(ChangeError::Nothing) => {}
                Err(ChangeError::Unavailable) => self.env().sleep(RETRY).await,
            }
        }
    }
}
