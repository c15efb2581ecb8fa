// SPDX-License-Identifier: Apache-2.0
//! Waking a parked shard from another thread or from a signal handler.

use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Wakes one [`crate::RingDriver`] out of its park. A wake carries no message: first set an
/// `AtomicBool` (or wake a task's `std::task::Waker`), then call [`RingWaker::wake`]. Once the
/// driver is gone, a wake does nothing.
#[derive(Clone, Debug)]
pub struct RingWaker(pub(crate) Arc<OwnedFd>);

impl RingWaker {
    /// Makes the current park return, or the next one if the shard is not parked. This is safe in a
    /// signal handler: it is one write(2), without allocation or lock.
    pub fn wake(&self) {
        // This fails only if the counter is full. Then a wake is pending anyway.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}
