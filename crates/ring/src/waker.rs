// SPDX-License-Identifier: Apache-2.0
//! Making a parked shard turn from another thread or from a signal handler.

use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Wakes one [`crate::RingDriver`] out of its park. It carries no message: set an `AtomicBool` (or
/// wake a task's `std::task::Waker`) first, then call [`RingWaker::wake`]. Harmless once the driver
/// is gone.
#[derive(Clone, Debug)]
pub struct RingWaker(pub(crate) Arc<OwnedFd>);

impl RingWaker {
    /// Makes the current park return, or the next one if the shard is not parked. Safe to call in a
    /// signal handler: one write(2), no allocation, no lock.
    pub fn wake(&self) {
        // It fails only where the counter is full: then a wake is pending anyway.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}
