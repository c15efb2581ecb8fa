// SPDX-License-Identifier: Apache-2.0
//! Where the bytes of a volume lie: which object, which sectors of it. Pure.

use crate::VolumeError;
use base::{CHUNK_SECTORS, SECTOR_SIZE, SectorRange};
use directory::VolumeLayout;
use std::iter;
use std::ops::Range;

/// A part of a request that lies in one chunk of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Which object of the volume, from 0.
    pub(crate) object: usize,
    /// Sectors of the object.
    pub(crate) range: SectorRange,
    /// Where its bytes lie within the request.
    pub(crate) within: Range<usize>,
}

/// The sectors of a request.
///
/// # Errors
/// [`VolumeError::Unaligned`], [`VolumeError::OutOfRange`].
pub(crate) fn range(offset: u64, bytes: u64, size: u64) -> Result<SectorRange, VolumeError> {
    if !offset.is_multiple_of(SECTOR_SIZE) || !bytes.is_multiple_of(SECTOR_SIZE) {
        return Err(VolumeError::Unaligned { offset, bytes });
    }
    let range = SectorRange::checked(offset / SECTOR_SIZE, bytes / SECTOR_SIZE);
    range.filter(|range| range.end() <= size / SECTOR_SIZE).ok_or(VolumeError::OutOfRange {
        offset,
        bytes,
        size,
    })
}

/// A request cut at objects and at their chunks, in order. What lies behind the layout's end has no
/// piece.
pub(crate) fn pieces(range: SectorRange, layout: &VolumeLayout) -> impl Iterator<Item = Piece> {
    let mut at = range.start;
    iter::from_fn(move || {
        let piece = piece(range, at, layout)?;
        at += piece.range.count;
        Some(piece)
    })
}

/// The piece of a request that begins with sector `at` of the volume. `None` behind the request's
/// end, and where a number does not fit a `usize`.
fn piece(range: SectorRange, at: u64, layout: &VolumeLayout) -> Option<Piece> {
    let place = layout.place(at).filter(|_| at < range.end())?;
    let of_chunk = CHUNK_SECTORS - place.sector % CHUNK_SECTORS;
    let count = of_chunk.min(place.left).min(range.end() - at);
    let piece = SectorRange::new(place.sector, count);
    let from = usize::try_from((at - range.start) * SECTOR_SIZE).ok()?;
    let len = usize::try_from(piece.bytes()).ok()?;
    Some(Piece { object: place.object, range: piece, within: from..from + len })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LARGEST: u64 = directory::OBJECT_SECTORS_MAX / 2 / CHUNK_SECTORS * CHUNK_SECTORS;

    proptest! {
        /// Every sector of a request is in exactly one piece, in order, at its place.
        #[test]
        fn pieces_cover_the_request(
            sets in prop::collection::vec(
                (
                    prop::sample::select(vec![
                        8,
                        1000,
                        CHUNK_SECTORS,
                        3 * CHUNK_SECTORS,
                        7 * CHUNK_SECTORS + 8,
                        2 * LARGEST,
                    ]),
                    1_u8..4,
                ),
                1..6,
            ),
            edge in 0_usize..6,
            near in 0u64..5000,
            count in 1u64..20_000,
        ) {
            let sets = sets.iter().map(|(sectors, width)| {
                VolumeLayout::striped(*sectors, *width, 2 * LARGEST)
            });
            let layout = sets.reduce(|all, set| all.with(&set)).unwrap();
            let sizes: Vec<u64> = layout.sizes().collect();
            let edge = layout.sets().nth(edge).map_or(0, |set| set.range.start);
            let start = (edge + near).saturating_sub(2500).min(layout.sectors() - 1);
            let range = SectorRange::new(start, count.min(layout.sectors() - start));
            let mut at = start;
            for piece in pieces(range, &layout) {
                let place = layout.place(at).unwrap();
                prop_assert_eq!((piece.object, piece.range.start), (place.object, place.sector));
                prop_assert!(piece.range.count <= place.left);
                prop_assert_eq!(piece.within.start as u64, (at - start) * SECTOR_SIZE);
                prop_assert_eq!(piece.within.len() as u64, piece.range.bytes());
                prop_assert!(piece.range.end() <= sizes[piece.object]);
                let chunk = piece.range.start / CHUNK_SECTORS;
                prop_assert_eq!((piece.range.end() - 1) / CHUNK_SECTORS, chunk);
                at += piece.range.count;
            }
            prop_assert_eq!(at, range.end());
        }
    }

    #[test]
    fn senseless_ranges_are_refused() {
        assert_eq!(range(0, 1024, 1024), Ok(SectorRange::new(0, 2)));
        assert!(matches!(range(512, 1024, 1024), Err(VolumeError::OutOfRange { .. })));
        for (offset, bytes) in [(1, 511), (256, 512), (512, 256)] {
            let refused = VolumeError::Unaligned { offset, bytes };
            assert_eq!(range(offset, bytes, 1024), Err(refused));
        }
        let far = u64::MAX - 511;
        assert!(matches!(range(far, far, u64::MAX), Err(VolumeError::OutOfRange { .. })));
    }
}
