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
    /// How often all clients of this host were shut out.
    shut_outs: Cell<u64>,
    moved: Notify,
    waiting: Cell<usize>,
    /// Told when a write begins to wait.
    wanted: Notify,
}

/// Since when a client is here: how often all clients had been shut out before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Joined(u64);

/// Whose a write is, and in which epoch it was taken (rule 54).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) joined: Joined,
    pub(crate) epoch: WriterEpoch,
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
        let (shut_outs, waiting) = (Cell::default(), Cell::default());
        Self { epoch, shut_outs, moved: Notify::default(), waiting, wanted }
    }

    /// Writes are taken in this epoch from now on; `None`: they wait.
    pub(crate) fn set(&self, epoch: Option<WriterEpoch>) {
        if self.epoch.replace(epoch) != epoch {
            self.moved.notify();
        }
    }

    /// A client that comes now.
    pub(crate) fn join(&self) -> Joined {
        Joined(self.shut_outs.get())
    }

    /// Writes wait from now on, and those of the clients that are here fail: another host took the
    /// volume over, and whoever had that done must know that they write no more, also where this
    /// host becomes the writer again.
    pub(crate) fn shut_out(&self) {
        self.shut_outs.update(|count| count + 1);
        self.epoch.set(None);
        self.moved.notify();
    }

    pub(crate) fn epoch(&self) -> Option<WriterEpoch> {
        self.epoch.get()
    }

    /// Writes that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.get()
    }

    /// In which epoch a write is taken: another one than `refused`, in which an owner did not admit
    /// it.
    ///
    /// # Errors
    /// [`VolumeError::NotWriter`]: the client was shut out, or this host may still not write after
    /// `most`, or at `deadline`.
    pub(crate) async fn pass(
        &self,
        env: &Env,
        joined: Joined,
        refused: Option<WriterEpoch>,
        (deadline, most): (Instant, Duration),
    ) -> Result<Taken, VolumeError> {
        let open = || {
            let epoch = self.epoch.get().filter(|epoch| Some(*epoch) != refused);
            match joined < self.join() {
                true => Some(Err(VolumeError::NotWriter)),
                false => epoch.map(|epoch| Ok(Taken { joined, epoch })),
            }
        };
        if let Some(outcome) = open() {
            return outcome;
        }
        let _waiting = Waiting::one_more(&self.waiting);
        base::hit(base::Probe::WriterWaited);
        self.wanted.notify();
        let until = deadline.min(env.now() + most);
        loop {
            let moved = self.moved.wait();
            if let Some(outcome) = open() {
                return outcome;
            }
            if let Either::Second(()) = select(moved, env.sleep_until(until)).await {
                return Err(VolumeError::NotWriter);
            }
        }
    }
}
