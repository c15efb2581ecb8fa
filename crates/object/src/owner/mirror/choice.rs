// SPDX-License-Identifier: Apache-2.0
//! Which copy a region of an object is read from, where read caches are to hold different data.
//!
//! Rendezvous hashing (Thaler and Ravishankar, 1998): each copy has a weight for each region, and
//! the heaviest of those that can be read is chosen. So a copy that leaves moves its own regions
//! alone, evenly to the others, and takes them back when it returns: the caches of the others stay
//! what they were.

use base::{CHUNK_SECTORS, ComponentId};

/// Sectors of a region: 8 MiB. A stream stays with one copy for so long that its device can read
/// ahead; what is hot is many of them still.
const REGION_SECTORS: u64 = 8 * CHUNK_SECTORS;

/// The region of an object that a sector is in.
pub(super) fn region_of(sector: u64) -> u64 {
    sector / REGION_SECTORS
}

/// The copy to read a region from; `None` where there is none.
pub(super) fn choose<T>(
    region: u64,
    copies: impl Iterator<Item = T>,
    id: impl Fn(&T) -> ComponentId,
) -> Option<T> {
    copies.max_by_key(|copy| (weight(region, id(copy)), id(copy)))
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, 2014) over both.
fn weight(region: u64, component: ComponentId) -> u64 {
    let mut z = component.0.wrapping_add(region.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chosen(region: u64, copies: &[u64]) -> Option<u64> {
        choose(region, copies.iter().copied(), |id| ComponentId(*id))
    }

    proptest! {
        #[test]
        fn a_copy_that_leaves_moves_its_own_regions_alone(
            region in any::<u64>(),
            mut copies in prop::collection::btree_set(any::<u64>(), 1..6),
            leaver in any::<prop::sample::Index>(),
        ) {
            let all: Vec<u64> = copies.iter().copied().collect();
            let before = chosen(region, &all).expect("one of them");
            prop_assert!(copies.contains(&before));
            let turned: Vec<u64> = all.iter().rev().copied().collect();
            prop_assert_eq!(chosen(region, &turned), Some(before), "whatever their order");
            let gone = all[leaver.index(all.len())];
            copies.remove(&gone);
            let rest: Vec<u64> = copies.iter().copied().collect();
            match chosen(region, &rest) {
                None => prop_assert!(rest.is_empty()),
                Some(after) if before != gone => prop_assert_eq!(after, before),
                Some(after) => prop_assert!(rest.contains(&after)),
            }
        }

        #[test]
        fn regions_are_spread_evenly(
            copies in prop::collection::btree_set(any::<u64>(), 2..5),
            first in any::<u32>(),
        ) {
            let copies: Vec<u64> = copies.into_iter().collect();
            let regions = 4000;
            for copy in &copies {
                let mine = (0..regions)
                    .filter(|at| chosen(u64::from(first) + at, &copies) == Some(*copy))
                    .count() as f64;
                let fair = regions as f64 / copies.len() as f64;
                prop_assert!((mine - fair).abs() < 0.15 * fair, "{mine} of {fair}");
            }
        }
    }
}
