// SPDX-License-Identifier: Apache-2.0
//! How many devices there are, and how far they use the freedom that their contract leaves them.

use super::{Plan, stuck_seconds};
use base::Rng;
use sim::DiskFreedom;
use std::time::Duration;

/// The first seed in which groups have several capacity devices half of the time, and in which
/// devices leave their group.
const OUT_FIRST: u64 = 170_000_000;

/// The first seed whose devices use the freedom that their contract leaves them.
const DEVICE_FIRST: u64 = 256_000_000;
/// The first seed whose devices are quick enough for components once all faults have ended.
const QUICK_FIRST: u64 = 272_000_000;

/// How many capacity devices each group has in a later seed, where it has several.
pub(super) fn devices(seed: u64) -> Option<u32> {
    let mut rng = Rng::stream(seed, 12);
    (seed >= OUT_FIRST && rng.below(2) == 0).then(|| 2 + rng.below(2) as u32)
}

/// In the later seeds operations take effect in parts (in three of four), and flushes and discards
/// take long (in three of four): some often and a little, some at times, some seldom and until just
/// before their device would count as stuck.
pub(super) fn freedom(seed: u64) -> DiskFreedom {
    let mut rng = Rng::stream(seed, 19);
    if seed < DEVICE_FIRST {
        return DiskFreedom::default();
    }
    let is_loose = rng.below(4) > 0;
    let (long_ppm, long_max) = match rng.below(4) {
        0 => (0, Duration::ZERO),
        1 => (400_000, Duration::from_millis(1 << rng.below(8))),
        2 => (50_000, Duration::from_millis(500 + rng.below(2000))),
        _ => (2000 << rng.below(5), Duration::from_millis(stuck_seconds(seed) * 900)),
    };
    DiskFreedom { is_loose, long_ppm, long_max }
}

impl Plan {
    /// How devices are while the run waits for all to be whole again. One that at times is silent
    /// for longer than a component is waited for would take it out again and again: that is a
    /// fault, and has ended by then.
    pub(crate) fn healed_freedom(&self) -> DiskFreedom {
        let long_ppm = if self.is_silent_at_times() { 0 } else { self.freedom.long_ppm };
        DiskFreedom { long_ppm, ..self.freedom }
    }

    /// How long what such devices had begun before may still take.
    pub(crate) fn late_for(&self) -> Duration {
        if self.is_silent_at_times() { self.freedom.long_max } else { Duration::ZERO }
    }

    fn is_silent_at_times(&self) -> bool {
        self.seed >= QUICK_FIRST && self.freedom.long_max > self.object.stall
    }
}
