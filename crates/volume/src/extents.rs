// SPDX-License-Identifier: Apache-2.0
//! What is allocated in a range of one stripe set, from what its objects say. Pure.
//!
//! Each object is asked once, for all of its units in the range. Their answers are joined in the
//! order of the volume.

use crate::Extent;
use base::SectorRange;
use directory::StripeSet;

/// What an object said: parts of it in order, and whether each is allocated.
type Said = Vec<(SectorRange, bool)>;

/// A range of a stripe set, and which part of each object it is.
pub(crate) struct Columns {
    set: StripeSet,
    range: SectorRange,
    /// What of each object of the set is in the range, in order of the objects. May be empty.
    parts: Vec<SectorRange>,
}

impl Columns {
    /// Those of `range`, which is within `set` and not empty.
    pub(crate) fn of(set: StripeSet, range: SectorRange) -> Self {
        let mut parts = vec![SectorRange::new(0, 0); usize::from(set.width)];
        for (place, count) in set.places(range) {
            let part = &mut parts[place.object - set.object];
            let start = if part.is_empty() { place.sector } else { part.start };
            *part = SectorRange::new(start, place.sector + count - start);
        }
        Self { set, range, parts }
    }

    /// Which sectors each object is asked about, by its number in the volume.
    pub(crate) fn asked(&self) -> impl Iterator<Item = (usize, SectorRange)> {
        let parts = (self.set.object..).zip(self.parts.iter().copied());
        parts.filter(|(_, part)| !part.is_empty())
    }

    /// What is allocated, from the begin of the range on. It ends where an object said nothing
    /// more, or left out something. `answers` are those of [`Columns::asked`], in its order.
    pub(crate) fn joined(&self, answers: &[Said]) -> Vec<Extent> {
        let mut answers = answers.iter();
        let take = |part: &SectorRange| {
            let said = if part.is_empty() { None } else { answers.next() };
            said.map(|said| Cursor { rest: said, at: part.start })
        };
        let mut cursors: Vec<Option<Cursor<'_>>> = self.parts.iter().map(take).collect();
        let mut list = Vec::new();
        for (place, count) in self.set.places(self.range) {
            let Some(cursor) = &mut cursors[place.object - self.set.object] else { return list };
            let mut left = count;
            while left > 0 {
                let Some((count, is_allocated)) = cursor.take(left) else { return list };
                let bytes = SectorRange::new(0, count).bytes();
                Extent::append(&mut list, Extent { bytes, is_allocated });
                left -= count;
            }
        }
        list
    }
}

/// How far an answer was read.
struct Cursor<'a> {
    rest: &'a [(SectorRange, bool)],
    at: u64,
}

impl Cursor<'_> {
    /// The next sectors that are alike, at most `most` of them. `None` where the answer ends or has
    /// a gap.
    fn take(&mut self, most: u64) -> Option<(u64, bool)> {
        let behind = self.rest.iter().position(|(range, _)| range.end() > self.at)?;
        self.rest = &self.rest[behind..];
        let (range, is_allocated) = *self.rest.first()?;
        if range.start > self.at {
            return None;
        }
        let count = most.min(range.end() - self.at);
        self.at += count;
        Some((count, is_allocated))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use directory::{OBJECT_SECTORS_MAX, VolumeLayout};
    use proptest::prelude::*;

    proptest! {
        /// Each object says what a map of the whole volume has for it, cut anywhere; one may say
        /// less than it was asked.
        #[test]
        fn objects_that_are_asked_once_say_what_the_volume_holds(
            width in 1_u8..5,
            chunks in prop::collection::vec(any::<bool>(), 1..24),
            (start, count) in (0_u64..20_000, 1_u64..40_000),
            cut in 1_u64..5000,
            short in prop::option::of((0_usize..4, 0_u64..6000)),
        ) {
            let sectors = chunks.len() as u64 * 2048 - 700;
            let layout = VolumeLayout::striped(sectors, width, OBJECT_SECTORS_MAX);
            let set = layout.set_of(0).unwrap();
            let start = start.min(sectors - 1);
            let range = SectorRange::new(start, count.min(sectors - start));
            let is_set = |sector: u64| chunks[usize::try_from(sector / 2048).unwrap()];
            let mut by_object = vec![Vec::new(); usize::from(set.width)];
            for chunk in SectorRange::new(0, sectors).split_at_multiples(2048) {
                for (place, count) in set.places(chunk) {
                    let part = SectorRange::new(place.sector, count);
                    by_object[place.object].push((part, is_set(chunk.start)));
                }
            }
            let columns = Columns::of(set, range);
            let mut ends = Vec::new();
            let answers = columns.asked().map(|(object, asked)| {
                let most = match short {
                    Some((one, most)) if one == object => most,
                    _ => u64::MAX,
                };
                let told = SectorRange::new(asked.start, asked.count.min(most));
                ends.push((object, told.end()));
                let parts = by_object[object].iter();
                let parts = parts.map(|(part, is_set)| (part.intersect(told), *is_set));
                let cut = |(part, is_allocated): (SectorRange, bool)| {
                    part.split_at_multiples(cut).map(move |part| (part, is_allocated))
                };
                parts.flat_map(cut).collect()
            });
            let answers: Vec<Said> = answers.collect();
            let list = columns.joined(&answers);
            let mut at = range.start;
            for extent in &list {
                let count = extent.bytes / 512;
                prop_assert!((at..at + count).all(|sector| is_set(sector) == extent.is_allocated));
                at += count;
            }
            let told = |sector: &u64| {
                let place = set.place(*sector);
                ends.iter().any(|(object, end)| *object == place.object && place.sector < *end)
            };
            let end = (range.start..range.end()).find(|sector| !told(sector));
            prop_assert_eq!(at, end.unwrap_or(range.end()));
            prop_assert!(list.windows(2).all(|two| two[0].is_allocated != two[1].is_allocated));
        }
    }

    #[test]
    fn an_answer_with_a_gap_ends_the_list() {
        let layout = VolumeLayout::striped(4096, 1, OBJECT_SECTORS_MAX);
        let columns = Columns::of(layout.set_of(0).unwrap(), SectorRange::new(8, 1000));
        let said = |parts: &[(u64, u64)]| {
            let parts = parts.iter().map(|(start, count)| (SectorRange::new(*start, *count), true));
            columns.joined(&[parts.collect()]).iter().map(|extent| extent.bytes / 512).sum::<u64>()
        };
        assert_eq!(said(&[(8, 8), (16, 2000)]), 1000, "no more than was asked");
        assert_eq!(said(&[(0, 16), (16, 8)]), 16);
        assert_eq!(said(&[(8, 8), (24, 8)]), 8);
        assert_eq!((said(&[(16, 8)]), said(&[])), (0, 0));
    }
}
