// SPDX-License-Identifier: Apache-2.0
//! Where the bytes of a volume lie: which object, which sectors of it. Pure.

use crate::VolumeError;
use base::{CHUNK_SECTORS, SECTOR_SIZE, SectorRange};
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

/// One piece of a request, in a volume with objects of `each` sectors. `part` is sectors of the
/// volume, all within one object; `start` is the first sector of the request. `None` where a number
/// does not fit a `usize`.
pub(crate) fn piece(part: SectorRange, start: u64, each: u64) -> Option<Piece> {
    let from = usize::try_from((part.start - start) * SECTOR_SIZE).ok()?;
    let len = usize::try_from(part.bytes()).ok()?;
    Some(Piece {
        object: usize::try_from(part.start / each).ok()?,
        range: SectorRange::new(part.start % each, part.count),
        within: from..from + len,
    })
}

/// A request cut at chunks, in order, in a volume with objects of `each` sectors. An object ends at
/// a chunk's end, so a piece that crosses no chunk crosses no object.
pub(crate) fn pieces(range: SectorRange, each: u64) -> impl Iterator<Item = Piece> {
    range.split_at_multiples(CHUNK_SECTORS).filter_map(move |part| piece(part, range.start, each))
}

#[cfg(test)]
mod tests {
    use super::*;
    use directory::OBJECT_SECTORS_MAX;
    use proptest::prelude::*;

    proptest! {
        /// Every sector of a request is in exactly one piece, in order, at its place.
        #[test]
        fn pieces_cover_the_request(
            object in 0u64..3,
            near in 0u64..5000,
            count in 1u64..20_000,
            chunks in prop::sample::select(vec![1, 2, 3, OBJECT_SECTORS_MAX / CHUNK_SECTORS]),
        ) {
            let each = chunks * CHUNK_SECTORS;
            let start = (object * each + near).saturating_sub(2500);
            let range = SectorRange::new(start, count);
            let mut at = start;
            for piece in pieces(range, each) {
                prop_assert_eq!(piece.object as u64 * each + piece.range.start, at);
                prop_assert_eq!(piece.within.start as u64, (at - start) * SECTOR_SIZE);
                prop_assert_eq!(piece.within.len() as u64, piece.range.bytes());
                prop_assert!(piece.range.end() <= each);
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
        assert!(matches!(range(1, 511, 1024), Err(VolumeError::Unaligned { .. })));
        let far = u64::MAX - 511;
        assert!(matches!(range(far, far, u64::MAX), Err(VolumeError::OutOfRange { .. })));
    }
}
