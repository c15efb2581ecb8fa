// SPDX-License-Identifier: Apache-2.0
//! Where writes wait until this host may write to the volume (rules 54 and 57).

use crate::VolumeError;
use base::{Instant, WriterEpoch};
use env::{Either, Env, Notify, select};
use std::cell::Cell;
use std::time::Duration;

/// Lets writes through in one epoch at a time, or none.
pub(crate) struct Gate {
    /// In which this host takes writes now.
    epoch: Cell<Option<WriterEpoch>>,
    moved: Notify,
    waiting: Cell<usize>,
    /// Told when a write begins to wait.
    wanted: Notify,
}

/// Counts one that waits.
struct Waiting<'a>(&'a Cell<usize>);

impl<'a> Waiting<'a> {
    fn one_more(count: &'a Cell<usize>) -> Self {
        count.update(|count| count + 1);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.update(|count| count - 1);
    }
}

impl Gate {
    pub(crate) fn new(epoch: Option<WriterEpoch>, wanted: Notify) -> Self {
        let epoch = Cell::new(epoch);
        Self { epoch, moved: Notify::default(), waiting: Cell::default(), wanted }
    }

    /// Writes are taken in this epoch from now on; `None`: they wait.
    pub(crate) fn set(&self, epoch: Option<WriterEpoch>) {
        if self.epoch.replace(epoch) != epoch {
            self.moved.notify();
        }
    }

    pub(crate) fn epoch(&self) -> Option<WriterEpoch> {
        self.epoch.get()
    }

    /// Writes that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.get()
    }

    /// The epoch in which a write is taken: another one than `refused`, in which an owner did not
    /// admit it.
    ///
    /// # Errors
    /// [`VolumeError::NotWriter`]: this host may still not write after `most`, or at `deadline`.
    pub(crate) async fn pass(
        &self,
        env: &Env,
        refused: Option<WriterEpoch>,
        deadline: Instant,
        most: Duration,
    ) -> Result<WriterEpoch, VolumeError> {
        let open = || self.epoch.get().filter(|epoch| Some(*epoch) != refused);
        if let Some(epoch) = open() {
            return Ok(epoch);
        }
        let _waiting = Waiting::one_more(&self.waiting);
        base::hit(base::Probe::WriterWaited);
        self.wanted.notify();
        let until = deadline.min(env.now() + most);
        loop {
            let moved = self.moved.wait();
            if let Some(epoch) = open() {
                return Ok(epoch);
            }
            if let Either::Second(()) = select(moved, env.sleep_until(until)).await {
                return Err(VolumeError::NotWriter);
            }
        }
    }
}
