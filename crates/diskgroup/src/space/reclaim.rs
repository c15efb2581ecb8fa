// SPDX-License-Identifier: Apache-2.0
//! Freed chunks: their space is given back to the device, then they may be allocated again.
//!
//! Chunks that direct writes left are kept for the next ones instead, some of them, until no direct
//! write has come for a while: on a file each of them would be a hole, and the next write there
//! would need new extents.
//!
//! Nobody waits for it but who is short of space. A device is slower while it discards, and so are
//! others on the same drive or file system: between two lots it is left alone for longer than a lot
//! took, so that a large volume that was deleted does not hold up who works.

use crate::state::GroupInner;
use base::CHUNK_SIZE;
use env::try_join_at_most;
use std::convert::Infallible;
use std::time::Duration;

/// Other I/O of the device waits behind discards.
const DISCARDS_MAX: usize = 4;
/// A device rests so many times as long as its discards took ...
const REST: u32 = 31;
/// ... but no longer than this: one whose calls hang gives its space back all the same.
const REST_MAX: Duration = Duration::from_secs(1);

impl GroupInner {
    /// Gives some freed chunks of each device back whose turn it is.
    pub(crate) async fn reclaim_due(&self) {
        for device in 0..self.devices.len() {
            let now = self.env.now();
            let at = {
                let capacity = &mut self.state.borrow_mut().store.capacity[device];
                capacity.give_up_stock(now);
                capacity.reclaims_at()
            };
            if at.is_some_and(|at| at <= now) {
                self.reclaim(device).await;
            }
        }
    }

    async fn reclaim(&self, device: usize) {
        let begun = self.env.now();
        let handle = &self.devices[device];
        let most = self.options.limits.reclaimed_chunks;
        let mut chunks = self.state.borrow_mut().store.capacity[device].take_freed(most);
        chunks.sort_unstable();
        let mut runs: Vec<(u32, u64)> = Vec::new();
        for chunk in &chunks {
            match runs.last_mut() {
                Some((start, count)) if u64::from(*start) + *count == u64::from(*chunk) => {
                    *count += 1
                }
                _ => runs.push((*chunk, 1)),
            }
        }
        let discards = runs.iter().map(async |(start, count)| {
            let offset = handle.layout.chunk_start + u64::from(*start) * CHUNK_SIZE;
            // Whether the device could do it does not matter to anybody who reads.
            drop(handle.disk().discard(offset, count * CHUNK_SIZE).await);
            Ok::<(), Infallible>(())
        });
        let Ok(_) = try_join_at_most(DISCARDS_MAX, discards).await;
        let now = self.env.now();
        let rests_until = now + (now.since(begun) * REST).min(REST_MAX);
        self.state.borrow_mut().store.capacity[device].discarded(&chunks, rests_until);
        self.log_kick.notify();
    }
}
