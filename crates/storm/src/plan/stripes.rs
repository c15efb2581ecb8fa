// SPDX-License-Identifier: Apache-2.0
//! Volumes that are striped over several objects.

use base::Rng;

/// Seeds from here on have such volumes, in one of two.
const STRIPES_FROM: u64 = 300_000_000;
/// The widest of them. What is wider does nothing that four objects do not.
pub(super) const WIDTH_MAX: u8 = 4;

/// Whether a seed may have such volumes.
pub(super) fn are_drawn(seed: u64) -> bool {
    seed >= STRIPES_FROM
}

/// Over how many objects a volume is striped; 1: it is not.
pub(super) fn width(seed: u64, volume: usize) -> u8 {
    let mut rng = Rng::stream(seed, 33);
    if !are_drawn(seed) || rng.below(2) == 0 {
        return 1;
    }
    let drawn = (0..=volume).map(|_| rng.below(u64::from(WIDTH_MAX))).last();
    1 + u8::try_from(drawn.unwrap_or(0)).unwrap_or(0)
}
