// SPDX-License-Identifier: Apache-2.0
//! How a volume is cut into objects, and where each of its sectors lies. Pure.
//!
//! Objects follow each other in a volume, or are striped: the objects of a *stripe set* take turns,
//! a unit of 1 MiB each, and stripe sets follow each other. Where nothing is striped, each object
//! is a set of its own.
//!
//! A new volume that is not striped is cut evenly: all objects but the last one have the same size,
//! which follows from their number. Of any other its record says how large each set is, and in how
//! many objects it lies.

use super::error::{RecordError, ensure};
use base::{BLOCK_SECTORS, CHUNK_SECTORS, SECTOR_SIZE, SectorRange};
use std::iter;

/// Sectors of the largest object: 255 GiB.
pub const OBJECT_SECTORS_MAX: u64 = (255 << 30) / SECTOR_SIZE;
/// Objects of one volume: 255 TiB.
pub const OBJECTS_MAX: usize = 1024;
/// Objects of one stripe set, at most.
pub const STRIPE_WIDTH_MAX: u8 = 12;
/// Sectors of a unit of a stripe: 1 MiB, a chunk, so that no chunk is of two units.
pub const STRIPE_UNIT_SECTORS: u64 = CHUNK_SECTORS;

/// Stripe sets of equal size that follow each other in a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectRun {
    /// How many sets they are, at least 1.
    pub sets: u32,
    /// Sectors of each set, at least 1, and so many that each of its objects has some.
    pub sectors: u64,
    /// Objects of each set, 1 to [`STRIPE_WIDTH_MAX`]. 1: nothing is striped.
    pub width: u8,
}

/// Where the sectors of a volume lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeLayout {
    /// In order; neighbours differ in size or width.
    runs: Vec<PlacedRun>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PlacedRun {
    run: ObjectRun,
    /// Number of its first object.
    object: u64,
    /// First sector of the volume that is in it.
    start: u64,
}

/// Where one sector of a volume lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectorPlace {
    /// Which object, from 0.
    pub object: usize,
    /// Which sector of the object.
    pub sector: u64,
    /// Sectors of the volume from there on that follow each other in the object, at least 1.
    pub left: u64,
}

/// The stripe set that a sector of a volume lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripeSet {
    /// The number of its first object.
    pub object: usize,
    /// How many objects it has.
    pub width: u8,
    /// Sectors of the volume that lie in it.
    pub range: SectorRange,
}

impl ObjectRun {
    /// One object.
    #[must_use]
    pub fn of_object(sectors: u64) -> Self {
        Self { sets: 1, sectors, width: 1 }
    }

    /// How many objects.
    #[must_use]
    pub fn objects(&self) -> u64 {
        u64::from(self.sets) * u64::from(self.width)
    }

    /// Sectors of all sets.
    #[must_use]
    pub fn span(&self) -> u64 {
        u64::from(self.sets) * self.sectors
    }

    /// Sectors of each object of one set.
    pub fn columns(&self) -> impl Iterator<Item = u64> + use<> {
        let (sectors, width) = (self.sectors, u64::from(self.width));
        (0..width).map(move |column| column_sectors(sectors, width, column))
    }

    /// Whether its objects can be: none empty, none too large.
    fn check(&self, is_end: bool) -> Result<(), RecordError> {
        let width = u64::from(self.width);
        check_width(self.width)?;
        let fits = (1..=OBJECT_SECTORS_MAX * width).contains(&self.sectors)
            && self.columns().all(|sectors| (1..=OBJECT_SECTORS_MAX).contains(&sectors));
        ensure(fits, "runs", "has objects that are empty or above 255 GiB")?;
        let count = usize::try_from(self.objects()).unwrap_or(usize::MAX);
        ensure((1..=OBJECTS_MAX).contains(&count), "runs", "has a wrong number of objects")?;
        // Blocks of the volume are blocks of its objects.
        let is_whole = self.sectors.is_multiple_of(BLOCK_SECTORS) || is_end && self.sets == 1;
        ensure(is_whole, "runs", "has objects that begin within a block")
    }
}

/// Sectors of an object of a stripe set: its units of each full row, and what the last row, which
/// may be cut, has for it.
fn column_sectors(sectors: u64, width: u64, column: u64) -> u64 {
    if width == 1 {
        return sectors;
    }
    let row = STRIPE_UNIT_SECTORS * width;
    let of_last = (sectors % row).saturating_sub(column * STRIPE_UNIT_SECTORS);
    sectors / row * STRIPE_UNIT_SECTORS + of_last.min(STRIPE_UNIT_SECTORS)
}

impl PlacedRun {
    fn end(&self) -> u64 {
        self.start + self.run.span()
    }

    /// The set that a sector of the volume lies in, which is within this run.
    fn set_of(&self, sector: u64) -> Option<StripeSet> {
        let set = (sector - self.start) / self.run.sectors;
        let object = usize::try_from(self.object + set * u64::from(self.run.width)).ok()?;
        let range = SectorRange::new(self.start + set * self.run.sectors, self.run.sectors);
        Some(StripeSet { object, width: self.run.width, range })
    }
}

impl StripeSet {
    /// The set by itself.
    #[must_use]
    pub fn run(&self) -> ObjectRun {
        ObjectRun { sets: 1, sectors: self.range.count, width: self.width }
    }

    /// Where a sector of the volume lies, which is in this set.
    #[must_use]
    pub fn place(&self, sector: u64) -> SectorPlace {
        let (at, end) = (sector - self.range.start, self.range.end());
        if self.width == 1 {
            return SectorPlace { object: self.object, sector: at, left: end - sector };
        }
        let (unit, within) = (at / STRIPE_UNIT_SECTORS, at % STRIPE_UNIT_SECTORS);
        let (row, column) = (unit / u64::from(self.width), unit % u64::from(self.width));
        SectorPlace {
            object: self.object + usize::try_from(column).unwrap_or(0),
            sector: row * STRIPE_UNIT_SECTORS + within,
            left: (STRIPE_UNIT_SECTORS - within).min(end - sector),
        }
    }

    /// A range of the volume within this set, cut where another object goes on: places and
    /// sectors.
    pub fn places(&self, range: SectorRange) -> impl Iterator<Item = (SectorPlace, u64)> + use<> {
        let (set, mut at) = (*self, range.start);
        iter::from_fn(move || {
            let place = (at < range.end()).then(|| set.place(at))?;
            let count = place.left.min(range.end() - at);
            at += count;
            Some((place, count))
        })
    }
}

impl VolumeLayout {
    /// That of a volume's record: `objects` objects of `size_bytes` together, cut evenly where
    /// there are no `runs`.
    ///
    /// # Errors
    /// [`RecordError::Invalid`] with the field.
    pub(super) fn of_record(
        size_bytes: u64,
        objects: usize,
        runs: &[ObjectRun],
    ) -> Result<Self, RecordError> {
        ensure(objects <= OBJECTS_MAX, "objects", "has too many entries")?;
        let even = Self::even(size_bytes, objects);
        if runs.is_empty() {
            ensure(even.is_some(), "objects", "does not match the size")?;
            return Ok(even.unwrap_or_default());
        }
        ensure(runs.len() <= OBJECTS_MAX, "runs", "has too many entries")?;
        for (number, run) in (1..).zip(runs) {
            run.check(number == runs.len())?;
        }
        let layout = Self::of_runs(runs.iter().copied());
        let is_all = usize::try_from(layout.objects()) == Ok(objects);
        ensure(is_all, "runs", "does not match the objects")?;
        let is_sum = layout.sectors().checked_mul(SECTOR_SIZE) == Some(size_bytes);
        ensure(is_sum, "runs", "does not match the size")?;
        let is_shortest = layout.runs().eq(runs.iter().copied());
        let is_needed = is_shortest && even.as_ref() != Some(&layout);
        ensure(is_needed, "runs", "could be said shorter")?;
        Ok(layout)
    }

    /// What a record says of it: nothing where it is cut evenly.
    #[must_use]
    pub fn said(&self) -> Vec<ObjectRun> {
        let objects = usize::try_from(self.objects()).unwrap_or(usize::MAX);
        let even = Self::even(self.sectors() * SECTOR_SIZE, objects);
        if even.as_ref() == Some(self) { Vec::new() } else { self.runs().collect() }
    }

    /// These sets, in order. Each is as [`ObjectRun`] says.
    #[must_use]
    pub fn of_runs(all: impl IntoIterator<Item = ObjectRun>) -> Self {
        let mut runs: Vec<PlacedRun> = Vec::new();
        let (mut object, mut start) = (0, 0);
        for run in all {
            match runs.last_mut().map(|last| &mut last.run) {
                Some(last) if (last.sectors, last.width) == (run.sectors, run.width) => {
                    last.sets += run.sets;
                }
                _ => runs.push(PlacedRun { run, object, start }),
            }
            object += run.objects();
            start += run.span();
        }
        Self { runs }
    }

    /// A volume of `size_bytes` in `count` objects of equal size, the last of which has what is
    /// left. `None` where there is no such volume.
    #[must_use]
    pub fn even(size_bytes: u64, count: usize) -> Option<Self> {
        let count = u32::try_from(count).ok()?;
        let each = object_sectors(size_bytes, count.into())?;
        let sectors = size_bytes.div_ceil(SECTOR_SIZE);
        let whole = count - 1;
        let last = sectors - u64::from(whole) * each;
        let whole = (whole > 0).then_some(ObjectRun { sets: whole, sectors: each, width: 1 });
        Some(Self::of_runs(whole.into_iter().chain([ObjectRun::of_object(last)])))
    }

    /// `sectors` sectors in stripe sets of `width` objects of up to `each` sectors, whole units.
    /// The last set has what is left, and no more objects than it has units.
    #[must_use]
    pub fn striped(sectors: u64, width: u8, each: u64) -> Self {
        let sets = SectorRange::new(0, sectors).split_at_multiples(each * u64::from(width));
        Self::of_runs(sets.map(|set| {
            let units = set.count.div_ceil(STRIPE_UNIT_SECTORS);
            let width = width.min(u8::try_from(units).unwrap_or(u8::MAX));
            ObjectRun { sets: 1, sectors: set.count, width }
        }))
    }

    /// The same objects, with those of `more` behind them.
    #[must_use]
    pub fn with(&self, more: &VolumeLayout) -> Self {
        Self::of_runs(self.runs().chain(more.runs()))
    }

    /// Runs of equal sets, in order; neighbours differ in size or width.
    pub fn runs(&self) -> impl Iterator<Item = ObjectRun> {
        self.runs.iter().map(|placed| placed.run)
    }

    /// Each stripe set by itself, in order.
    pub fn sets(&self) -> impl Iterator<Item = StripeSet> {
        let mut next = self.set_of(0);
        iter::from_fn(move || {
            let set = next?;
            next = self.set_of(set.range.end());
            Some(set)
        })
    }

    /// The same sets in parts of at most `objects` objects, or of one set.
    #[must_use]
    pub fn parts(&self, objects: usize) -> Vec<VolumeLayout> {
        let most = u64::try_from(objects).unwrap_or(u64::MAX);
        let mut parts: Vec<VolumeLayout> = Vec::new();
        for set in self.sets() {
            let next = Self::of_runs([set.run()]);
            match parts.last_mut() {
                Some(last) if last.objects() + next.objects() <= most => {
                    *last = last.with(&next);
                }
                _ => parts.push(next),
            }
        }
        parts
    }

    /// Sectors of each object, in order.
    pub fn sizes(&self) -> impl Iterator<Item = u64> {
        self.runs().flat_map(|run| (0..run.sets).flat_map(move |_| run.columns()))
    }

    /// Objects of the widest stripe set, 1 where nothing is striped.
    #[must_use]
    pub fn width(&self) -> u8 {
        self.runs().map(|run| run.width).max().unwrap_or(1)
    }

    /// Sectors of all objects.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        self.runs.last().map_or(0, PlacedRun::end)
    }

    /// How many objects.
    #[must_use]
    pub fn objects(&self) -> u64 {
        self.runs.last().map_or(0, |last| last.object + last.run.objects())
    }

    /// Which object of its stripe set an object is, and how many the set has; `None` where there is
    /// no such object.
    #[must_use]
    pub fn column_of(&self, object: usize) -> Option<(u8, u8)> {
        let object = u64::try_from(object).ok().filter(|object| *object < self.objects())?;
        let next = self.runs.partition_point(|run| run.object <= object);
        let placed = self.runs.get(next.checked_sub(1)?)?;
        let width = placed.run.width;
        let column = u8::try_from((object - placed.object) % u64::from(width)).ok()?;
        Some((column, width))
    }

    /// The stripe set that a sector of the volume lies in; `None` behind its end.
    #[must_use]
    pub fn set_of(&self, sector: u64) -> Option<StripeSet> {
        let next = self.runs.partition_point(|run| run.start <= sector);
        let placed = self.runs.get(next.checked_sub(1)?)?;
        if sector >= placed.end() { None } else { placed.set_of(sector) }
    }

    /// Where a sector of the volume lies; `None` behind its end.
    #[must_use]
    pub fn place(&self, sector: u64) -> Option<SectorPlace> {
        Some(self.set_of(sector)?.place(sector))
    }
}

/// Whether objects can be striped over so many.
pub(super) fn check_width(width: u8) -> Result<(), RecordError> {
    let is_wide = (1..=STRIPE_WIDTH_MAX).contains(&width);
    ensure(is_wide, "stripe_width", "is not 1 to 12")
}

/// How many objects a volume of `size_bytes` has at least.
#[must_use]
pub fn object_count(size_bytes: u64) -> u64 {
    size_bytes.div_ceil(OBJECT_SECTORS_MAX * SECTOR_SIZE)
}

/// Sectors of each object but the last one, in a volume of `size_bytes` that is cut into `count`
/// equal objects. A volume with no more objects than it needs has the largest ones. Any other is
/// cut into equal parts of whole chunks: `count` alone says how large they are. `None` where no
/// volume of this size has so many objects.
#[must_use]
pub fn object_sectors(size_bytes: u64, count: u64) -> Option<u64> {
    let needed = object_count(size_bytes);
    if count <= needed {
        return (count == needed && count > 0).then_some(OBJECT_SECTORS_MAX);
    }
    let sectors = size_bytes.div_ceil(SECTOR_SIZE);
    let each = sectors.div_ceil(count).next_multiple_of(CHUNK_SECTORS);
    (sectors.div_ceil(each) == count).then_some(each)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Sets of one object of any size, and of several objects.
    fn runs() -> impl Strategy<Value = ObjectRun> {
        let unit = STRIPE_UNIT_SECTORS;
        let plain = prop::sample::select(vec![1_u64, 2, 8, 13]).prop_map(ObjectRun::of_object);
        let striped = (2_u8..5, 1_u32..3).prop_flat_map(move |(width, sets)| {
            let least = unit * u64::from(width - 1) + 1;
            let row = unit * u64::from(width);
            let sectors = prop_oneof![Just(least), Just(2 * row), least..4 * row];
            sectors.prop_map(move |sectors| ObjectRun { sets, sectors, width })
        });
        prop_oneof![plain, striped]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// The layout against a plain walk: each unit goes to the next object of its set, behind
        /// what that has.
        #[test]
        fn each_sector_lies_where_a_walk_over_all_units_puts_it(
            runs in prop::collection::vec(runs(), 1..5),
        ) {
            let layout = VolumeLayout::of_runs(runs.iter().copied());
            let sizes: Vec<u64> = layout.sizes().collect();
            let (mut at, mut first) = (0, 0);
            let mut filled = vec![0; sizes.len()];
            for run in runs.iter().flat_map(|run| (0..run.sets).map(move |_| run)) {
                let width = usize::from(run.width);
                let unit = if width == 1 { run.sectors } else { STRIPE_UNIT_SECTORS };
                let set = SectorRange::new(at, run.sectors);
                prop_assert_eq!(
                    layout.set_of(set.end() - 1),
                    Some(StripeSet { object: first, width: run.width, range: set })
                );
                let units = SectorRange::new(0, run.sectors).split_at_multiples(unit);
                for (number, unit) in units.enumerate() {
                    let object = first + number % width;
                    let column = u8::try_from(number % width).unwrap();
                    prop_assert_eq!(layout.column_of(object), Some((column, run.width)));
                    for ahead in [0, unit.count / 2, unit.count - 1] {
                        let (sector, left) = (filled[object] + ahead, unit.count - ahead);
                        let place = SectorPlace { object, sector, left };
                        prop_assert_eq!(layout.place(at + ahead), Some(place));
                    }
                    filled[object] += unit.count;
                    at += unit.count;
                }
                first += width;
            }
            prop_assert_eq!((layout.place(at), layout.sectors()), (None, at));
            prop_assert_eq!(&filled, &sizes);
            prop_assert_eq!(layout.column_of(sizes.len()), None);
            prop_assert_eq!(usize::try_from(layout.objects()), Ok(sizes.len()));
            prop_assert!(sizes.iter().all(|sectors| *sectors > 0));
            let half = runs.len() / 2;
            let (first, more) = runs.split_at(half);
            let of = |runs: &[ObjectRun]| VolumeLayout::of_runs(runs.iter().copied());
            prop_assert_eq!(of(first).with(&of(more)), layout);
        }

        /// A range of a set comes in order, without gaps.
        #[test]
        fn the_places_of_a_range_are_those_of_its_sectors(
            width in 1_u8..5,
            sectors in 10_000_u64..40_000,
            start in 0_u64..9_000,
            count in 1_u64..30_000,
        ) {
            let layout = VolumeLayout::striped(sectors, width, OBJECT_SECTORS_MAX);
            let set = layout.set_of(0).unwrap();
            let range = SectorRange::new(start, count.min(sectors - start));
            let mut at = range.start;
            for (place, count) in set.places(range) {
                prop_assert_eq!(layout.place(at), Some(place));
                prop_assert!((1..=place.left).contains(&count));
                at += count;
            }
            prop_assert_eq!(at, range.end());
        }
    }

    #[test]
    fn a_volume_that_is_cut_evenly_is_laid_out_by_the_number_of_its_objects() {
        let runs =
            |size, count| VolumeLayout::even(size, count).map(|l| l.runs().collect::<Vec<_>>());
        let run = |sets, sectors| ObjectRun { sets, sectors, width: 1 };
        let most = OBJECT_SECTORS_MAX * SECTOR_SIZE;
        assert_eq!(runs(512, 1), Some(vec![run(1, 1)]));
        assert_eq!(runs(2 * most, 2), Some(vec![run(2, OBJECT_SECTORS_MAX)]));
        assert_eq!(runs(most + 512, 2), Some(vec![run(1, OBJECT_SECTORS_MAX), run(1, 1)]));
        assert_eq!((runs(most + 512, 1), runs(512, 0)), (None, None));
    }

    #[test]
    fn the_parts_of_a_layout_are_whole_sets() {
        let run = |sets, width| ObjectRun { sets, sectors: 12_288, width };
        let all = VolumeLayout::of_runs([run(5, 1), run(2, 3)]);
        let parts = |most| {
            let parts = all.parts(most);
            let (first, rest) = parts.split_first().unwrap();
            let whole = rest.iter().fold(first.clone(), |whole, part| whole.with(part));
            assert_eq!(whole, all);
            parts.iter().map(VolumeLayout::objects).collect::<Vec<_>>()
        };
        assert_eq!(parts(4), [4, 4, 3]);
        assert_eq!(parts(2), [2, 2, 1, 3, 3]);
        assert_eq!(parts(100), [11]);
    }

    #[test]
    fn a_striped_volume_has_no_more_objects_than_units() {
        let (unit, each) = (STRIPE_UNIT_SECTORS, 4 * STRIPE_UNIT_SECTORS);
        let sizes = |sectors, width| {
            VolumeLayout::striped(sectors, width, each).sizes().collect::<Vec<_>>()
        };
        assert_eq!(sizes(1, 12), [1]);
        assert_eq!(sizes(unit + 8, 3), [unit, 8]);
        assert_eq!(sizes(5 * unit, 3), [2 * unit, 2 * unit, unit]);
        assert_eq!(sizes(3 * each, 3), [each; 3]);
        assert_eq!(sizes(3 * each + 1, 3), [each, each, each, 1], "a set of its own");
        assert_eq!(sizes(2 * each + 8, 1), [each, each, 8]);
    }
}
