// SPDX-License-Identifier: Apache-2.0
//! How much volumes may grow, and the room for that.

use super::volumes;
use base::{BLOCK_SECTORS, CHUNK_SECTORS, CHUNK_SIZE, Rng};
use object::FREE_CHUNKS_RESERVE;

/// Seeds from here on have volumes that grow.
pub(crate) const GROW_FROM: u64 = 293_000_000;
/// Seeds from here on have spare volumes, in some rounds.
pub(crate) const LIFE_FROM: u64 = 305_000_000;
/// Seeds from here on have spare volumes that are kept on one host, where their hosts are of one
/// release.
pub(crate) const AFFINITY_FROM: u64 = 308_000_000;
/// The most that a volume may have to grow, sectors: the large ones stay as they are.
pub(crate) const SIZE_MAX: u64 = 24 * CHUNK_SECTORS;
/// The most by which a volume grows at once, sectors.
pub(crate) const STEP_MAX: u64 = 4 * CHUNK_SECTORS;
/// The most objects that a volume may have to grow; one with a reserve has fewer, since each of
/// them keeps [`FREE_CHUNKS_RESERVE`] chunks at least.
pub(crate) const OBJECTS_MAX: usize = 12;
/// See [`OBJECTS_MAX`].
pub(crate) const RESERVED_OBJECTS_MAX: usize = 6;

/// The size of a volume of so many sectors: in half of the seeds such that it can grow.
pub(super) fn size(seed: u64, sectors: u64) -> u64 {
    let is_whole = seed >= GROW_FROM && Rng::stream(seed, 28).below(2) == 0;
    if is_whole { sectors.next_multiple_of(BLOCK_SECTORS) } else { sectors }
}

/// Bytes that so many volumes may grow into on each device.
pub(super) fn room(seed: u64, volumes: usize) -> u64 {
    // Those of the step that goes beyond.
    let more = if volumes::may_stripe(seed) { u64::from(volumes::WIDTH_MAX) } else { 1 };
    let objects = u64::try_from(RESERVED_OBJECTS_MAX).unwrap_or(u64::MAX) + more;
    let chunks = (SIZE_MAX + STEP_MAX) / CHUNK_SECTORS + objects * u64::from(FREE_CHUNKS_RESERVE);
    let volumes = if seed < GROW_FROM { 0 } else { u64::try_from(volumes).unwrap_or(0) };
    // A spare volume grows like the others.
    let volumes = volumes + u64::from(seed >= LIFE_FROM);
    volumes * chunks * CHUNK_SIZE
}
