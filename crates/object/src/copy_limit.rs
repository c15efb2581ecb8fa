// SPDX-License-Identifier: Apache-2.0
//! How much all owners of a host may copy in a second, as an operator set it
//! (docs/operations/resync.md).

use base::{Instant, RateMeter};
use env::{Env, Notify, Semaphore, select};
use std::cell::Cell;
use std::time::Duration;

/// How far ahead of the limit copies may be: short ones begin without a timer for each.
const BURST: Duration = Duration::from_millis(20);

/// The limit, shared by all resyncs of a host. Copies go in the order in which they came.
pub(crate) struct CopyLimit {
    bytes_per_second: Cell<Option<u64>>,
    meter: Cell<RateMeter>,
    turn: Semaphore,
    changed: Notify,
}

impl Default for CopyLimit {
    fn default() -> Self {
        Self {
            bytes_per_second: Cell::default(),
            meter: Cell::default(),
            turn: Semaphore::new(1),
            changed: Notify::default(),
        }
    }
}

impl CopyLimit {
    /// Another limit from now on, also for copies that wait. `None`: no limit.
    pub(crate) fn set(&self, bytes_per_second: Option<u64>) {
        if self.bytes_per_second.replace(bytes_per_second) != bytes_per_second {
            self.meter.take();
            self.changed.notify();
        }
    }

    /// Waits until a copy of so many bytes may begin. Whoever drops the future has not used
    /// anything.
    pub(crate) async fn pass(&self, env: &Env, bytes: u64) {
        if self.bytes_per_second.get().is_none() {
            return;
        }
        let _turn = self.turn.acquire(1).await;
        loop {
            let changed = self.changed.wait();
            let Some(until) = self.take(env.now(), bytes) else { return };
            base::hit(base::Probe::ResyncLimited);
            select(changed, env.sleep_until(until)).await;
        }
    }

    /// Takes a copy's bytes where it may begin; else says when to look again.
    fn take(&self, now: Instant, bytes: u64) -> Option<Instant> {
        let rate = self.bytes_per_second.get()?;
        let mut meter = self.meter.get();
        let ahead = meter.ahead(now);
        if ahead > BURST {
            return Some(now + (ahead - BURST));
        }
        meter.take(now, bytes, rate);
        self.meter.set(meter);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When each of so many copies begins, of hosts that always have one.
    fn begin(limit: &CopyLimit, copies: u64, bytes: u64) -> Vec<Duration> {
        let first = Instant(1_000_000_000);
        let mut now = first;
        let copies = (0..copies).map(|_| {
            while let Some(until) = limit.take(now, bytes) {
                assert!(until > now);
                now = until;
            }
            now.since(first)
        });
        copies.collect()
    }

    #[test]
    fn copies_keep_to_the_limit_long_and_short_ones() {
        let limit = CopyLimit::default();
        assert_eq!(begin(&limit, 100, 1 << 20)[99], Duration::ZERO, "there is none");
        limit.set(Some(1 << 20));
        for bytes in [4 << 10, 256 << 10, 1 << 20] {
            let at = begin(&limit, (64 << 20) / bytes + 1, bytes).pop().expect("the last one");
            let least = Duration::from_secs(64) - BURST;
            assert!(at >= least && at <= least + BURST, "{bytes}: {at:?}");
            limit.set(None);
            limit.set(Some(1 << 20));
        }
    }
}
