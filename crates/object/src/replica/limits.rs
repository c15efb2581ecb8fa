// SPDX-License-Identifier: Apache-2.0
//! Lists that must fit a frame. Where there are too many entries, neighbours become one that covers
//! both: the owner then copies more than it must, never less.

use base::{Lsn, RequestId, SectorRange};
use wire::OPEN_MAX;

/// What changed, in at most `most` ranges.
pub(super) fn ranges(list: Vec<SectorRange>, most: usize) -> Vec<SectorRange> {
    if list.len() <= most {
        return list;
    }
    base::hit(base::Probe::ListMerged);
    let entries = list.into_iter().map(|range| (range, Lsn::ZERO)).collect();
    merged(entries, most).into_iter().map(|(range, _)| range).collect()
}

/// The tail, in at most `most` entries; the lsn of a merged one is the highest of its parts.
pub(super) fn tail(list: Vec<(SectorRange, Lsn)>, most: usize) -> Vec<(SectorRange, Lsn)> {
    base::hit_if(list.len() > most, base::Probe::TailMerged);
    merged(list, most)
}

/// Requests of the tail, in at most [`OPEN_MAX`] entries: more than a table has slots, unless a
/// request's parts did not come one after the other.
pub(super) fn open(
    mut list: Vec<(SectorRange, Lsn, RequestId)>,
) -> Vec<(SectorRange, Lsn, RequestId)> {
    if list.len() > OPEN_MAX {
        tracing::warn!(count = list.len(), "requests of a tail are forgotten");
        list.truncate(OPEN_MAX);
    }
    list
}

fn merged(mut list: Vec<(SectorRange, Lsn)>, most: usize) -> Vec<(SectorRange, Lsn)> {
    if list.len() <= most {
        return list;
    }
    list.sort_unstable_by_key(|(range, _)| range.start);
    let mut gap = 0;
    while list.len() > most {
        let mut out: Vec<(SectorRange, Lsn)> = Vec::with_capacity(most);
        for (range, lsn) in list {
            match out.last_mut() {
                Some((last, highest)) if range.start <= last.end().saturating_add(gap) => {
                    let end = last.end().max(range.end());
                    *last = SectorRange::new(last.start, end - last.start);
                    *highest = lsn.max(*highest);
                }
                _ => out.push((range, lsn)),
            }
        }
        list = out;
        gap = gap * 2 + 8;
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    #[test]
    fn merging_covers_everything_and_fits() {
        let mut rng = Rng::new(4);
        for most in [1, 2, 10, 60] {
            let entry = |rng: &mut Rng| {
                let range = SectorRange::new(rng.below(1 << 40), rng.between(1, 2048));
                (range, Lsn(rng.next_u64()))
            };
            let list: Vec<_> = (0..100).map(|_| entry(&mut rng)).collect();
            let fewer = merged(list.clone(), most);
            assert!(fewer.len() <= most);
            for (range, lsn) in &list {
                let covers = |e: &&(SectorRange, Lsn)| e.0.contains(*range) && e.1 >= *lsn;
                assert!(fewer.iter().any(|e| covers(&e)), "{range:?} at {lsn} is gone");
            }
            assert_eq!(merged(list.clone(), 100), list, "what fits stays as it is");
        }
    }
}
