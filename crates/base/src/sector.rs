// SPDX-License-Identifier: Apache-2.0
//! Addresses inside a volume, object or component.
//!
//! A *sector* is 512 bytes, the unit of every address; a *block* is 4 KiB, the unit of checksums
//! and atomicity; a *chunk* is 1 MiB, the unit of allocation.

use std::fmt;

/// Bytes per sector.
pub const SECTOR_SIZE: u64 = 512;
/// Bytes per block.
pub const BLOCK_SIZE: u64 = 4096;
/// Bytes per chunk.
pub const CHUNK_SIZE: u64 = 1 << 20;
/// Sectors per block.
pub const BLOCK_SECTORS: u64 = BLOCK_SIZE / SECTOR_SIZE;
/// Sectors per chunk.
pub const CHUNK_SECTORS: u64 = CHUNK_SIZE / SECTOR_SIZE;
/// Blocks per chunk.
pub const CHUNK_BLOCKS: u64 = CHUNK_SIZE / BLOCK_SIZE;

/// A run of sectors, `start..start + count`. `start + count` never overflows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SectorRange {
    /// First sector.
    pub start: u64,
    /// Number of sectors; zero is an empty range.
    pub count: u64,
}

impl SectorRange {
    /// The range of `count` sectors from `start`. Panics on overflow: check numbers from outside
    /// with [`SectorRange::checked`].
    #[must_use]
    pub fn new(start: u64, count: u64) -> Self {
        assert!(start.checked_add(count).is_some(), "sector range overflows");
        Self { start, count }
    }

    /// The range of `count` sectors from `start`. `None` where its end overflows, in sectors or in
    /// bytes.
    #[must_use]
    pub fn checked(start: u64, count: u64) -> Option<Self> {
        let end = start.checked_add(count)?;
        end.checked_mul(SECTOR_SIZE)?;
        Some(Self { start, count })
    }

    /// The sector behind the last.
    #[must_use]
    pub fn end(self) -> u64 {
        self.start + self.count
    }

    /// Length in bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.count * SECTOR_SIZE
    }

    /// Whether no sector is in it.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.count == 0
    }

    /// Whether a sector is in both. For ranges that are not empty: an empty one inside the other
    /// counts too.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.start < other.end() && other.start < self.end()
    }

    /// Whether all of `other` is in this one.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.start <= other.start && other.end() <= self.end()
    }

    /// The sectors in both; empty (with `start` of the later one) where there are none.
    #[must_use]
    pub fn intersect(self, other: Self) -> Self {
        let start = self.start.max(other.start);
        let end = self.end().min(other.end());
        Self { start, count: end.saturating_sub(start) }
    }

    /// The numbers of the 4 KiB blocks that it touches.
    #[must_use]
    pub fn blocks(self) -> std::ops::Range<u64> {
        if self.is_empty() {
            let at = self.start / BLOCK_SECTORS;
            return at..at;
        }
        self.start / BLOCK_SECTORS..self.end().div_ceil(BLOCK_SECTORS)
    }

    /// Cuts it at multiples of `step` sectors, in order. `step` must not be zero.
    pub fn split_at_multiples(self, step: u64) -> impl Iterator<Item = SectorRange> {
        assert!(step > 0, "a step of zero never ends");
        let mut rest = self;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let boundary = (rest.start / step + 1).saturating_mul(step);
            let end = boundary.min(rest.end());
            let piece = SectorRange { start: rest.start, count: end - rest.start };
            rest = SectorRange { start: end, count: rest.end() - end };
            Some(piece)
        })
    }
}

impl fmt::Debug for SectorRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}+{}]", self.start, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_at_boundaries_and_loses_nothing() {
        let pieces: Vec<_> = SectorRange::new(5, 20).split_at_multiples(8).collect();
        let expected = [(5, 3), (8, 8), (16, 8), (24, 1)].map(|(s, c)| SectorRange::new(s, c));
        assert_eq!(pieces, expected);
        assert_eq!(SectorRange::new(7, 2).blocks(), 0..2);
        assert_eq!(SectorRange::new(8, 0).blocks(), 1..1);
        assert_eq!(SectorRange::checked(u64::MAX, 1), None);
    }
}
