// SPDX-License-Identifier: Apache-2.0
//! The checksums of data: one CRC32C per 4 KiB block that a range touches. They are computed where
//! a client's data comes in. They go with the data to the device and back.

use crate::few::Few;
use base::{BLOCK_SECTORS, SECTOR_SIZE, SectorRange, crc32c};

/// The checksums of a write or of what was read.
pub type Crcs = Few<u32>;

/// Cuts `payload`, the data of `range`, where a block ends. The first and the last part may be less
/// than a block. Their checksums cover only what is there.
fn fractions(range: SectorRange, payload: &[u8]) -> impl Iterator<Item = &[u8]> {
    range.split_at_multiples(BLOCK_SECTORS).scan(payload, |rest, piece| {
        let length = usize::try_from(piece.count * SECTOR_SIZE).unwrap_or(usize::MAX);
        let (part, behind) = rest.split_at_checked(length)?;
        *rest = behind;
        Some(part)
    })
}

/// The checksums of `payload`, the data of `range`: one per block that the range touches. Panics
/// where the payload is not as long as the range.
#[must_use]
pub fn crcs_of(range: SectorRange, payload: &[u8]) -> Crcs {
    assert_eq!(payload.len() as u64, range.bytes(), "data of another length than its range");
    fractions(range, payload).map(crc32c).collect()
}

/// Whether `payload` is as long as `range` and matches the checksums. Never panics.
#[must_use]
pub fn verify(range: SectorRange, crcs: &[u32], payload: &[u8]) -> bool {
    payload.len() as u64 == range.bytes()
        && crcs.len() as u64 == crcs_count(range)
        && fractions(range, payload).zip(crcs).all(|(part, crc)| crc32c(part) == *crc)
}

/// How many checksums the data of `range` has.
pub(crate) fn crcs_count(range: SectorRange) -> u64 {
    let blocks = range.blocks();
    blocks.end - blocks.start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_checksum_per_touched_block() {
        let data: Vec<u8> = (0..512 * 12).map(|at| (at / 7) as u8).collect();
        // Sectors 6..18: two of block 0, all of block 1, two of block 2.
        let range = SectorRange::new(6, 12);
        let crcs = crcs_of(range, &data);
        let expected = [&data[..1024], &data[1024..5120], &data[5120..]].map(crc32c);
        assert_eq!(*crcs, expected);
        assert!(verify(range, &crcs, &data));
        for byte in [0, 1023, 1024, 5119, 5120, 6143] {
            let mut bad = data.clone();
            bad[byte] ^= 0x40;
            assert!(!verify(range, &crcs, &bad), "byte {byte}");
        }
        assert!(!verify(range, &crcs[..2], &data), "a checksum is missing");
        assert!(!verify(range, &crcs, &data[..5632]), "data is missing");
        // The same bytes elsewhere are cut differently.
        assert!(!verify(SectorRange::new(8, 12), &crcs, &data));
        assert_eq!(crcs_of(SectorRange::new(8, 1), &data[..512]).len(), 1);
        assert_eq!(Crcs::new(&[1, 2]), [1, 2].into_iter().collect());
    }
}
