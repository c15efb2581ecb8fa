// SPDX-License-Identifier: Apache-2.0
//! How a volume is cut into objects, and where each of its sectors lies. Pure.
//!
//! A new volume is cut evenly: all objects but the last one have the same size, which follows from
//! their number. A volume that was grown got objects behind those that it had, so that its record
//! says how large each one is.

use super::error::{RecordError, ensure};
use base::{BLOCK_SECTORS, CHUNK_SECTORS, SECTOR_SIZE};

/// Sectors of the largest object: 255 GiB.
pub const OBJECT_SECTORS_MAX: u64 = (255 << 30) / SECTOR_SIZE;
/// Objects of one volume: 255 TiB.
pub const OBJECTS_MAX: usize = 1024;

/// Objects of equal size that follow each other in a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectRun {
    /// How many they are, at least 1.
    pub objects: u32,
    /// Sectors of each, 1 to [`OBJECT_SECTORS_MAX`].
    pub sectors: u64,
}

/// Where the sectors of a volume lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeLayout {
    /// In order; neighbours differ in size.
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
    /// Sectors of the object from there to its end, at least 1.
    pub left: u64,
}

impl PlacedRun {
    fn end(&self) -> u64 {
        self.start + u64::from(self.run.objects) * self.run.sectors
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
            let fits = (1..=OBJECT_SECTORS_MAX).contains(&run.sectors);
            ensure(fits, "runs", "has objects that are empty or above 255 GiB")?;
            let count = usize::try_from(run.objects).unwrap_or(usize::MAX);
            ensure((1..=OBJECTS_MAX).contains(&count), "runs", "has a wrong number of objects")?;
            // Blocks of the volume are blocks of its objects.
            let is_whole = run.sectors.is_multiple_of(BLOCK_SECTORS);
            let is_end = number == runs.len() && run.objects == 1;
            ensure(is_whole || is_end, "runs", "has objects that begin within a block")?;
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
    pub(super) fn said(&self) -> Vec<ObjectRun> {
        let objects = usize::try_from(self.objects()).unwrap_or(usize::MAX);
        let even = Self::even(self.sectors() * SECTOR_SIZE, objects);
        if even.as_ref() == Some(self) { Vec::new() } else { self.runs().collect() }
    }

    /// Objects of these sectors, in order. Each has at least one.
    #[must_use]
    pub fn of_sizes(sizes: impl IntoIterator<Item = u64>) -> Self {
        Self::default().with(sizes)
    }

    /// These objects, in order.
    fn of_runs(all: impl IntoIterator<Item = ObjectRun>) -> Self {
        let mut runs: Vec<PlacedRun> = Vec::new();
        let (mut object, mut start) = (0, 0);
        for run in all {
            match runs.last_mut() {
                Some(last) if last.run.sectors == run.sectors => last.run.objects += run.objects,
                _ => runs.push(PlacedRun { run, object, start }),
            }
            object += u64::from(run.objects);
            start += u64::from(run.objects) * run.sectors;
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
        let whole = (whole > 0).then_some(ObjectRun { objects: whole, sectors: each });
        Some(Self::of_runs(whole.into_iter().chain([ObjectRun { objects: 1, sectors: last }])))
    }

    /// The same objects, with some more behind them.
    #[must_use]
    pub fn with(&self, sizes: impl IntoIterator<Item = u64>) -> Self {
        let more = sizes.into_iter().map(|sectors| ObjectRun { objects: 1, sectors });
        Self::of_runs(self.runs().chain(more))
    }

    /// Runs of equal objects, in order; neighbours differ in size.
    pub fn runs(&self) -> impl Iterator<Item = ObjectRun> {
        self.runs.iter().map(|placed| placed.run)
    }

    /// Sectors of all objects.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        self.runs.last().map_or(0, PlacedRun::end)
    }

    /// How many objects.
    #[must_use]
    pub fn objects(&self) -> u64 {
        self.runs.last().map_or(0, |last| last.object + u64::from(last.run.objects))
    }

    /// Where a sector of the volume lies; `None` behind its end.
    #[must_use]
    pub fn place(&self, sector: u64) -> Option<SectorPlace> {
        let next = self.runs.partition_point(|run| run.start <= sector);
        let placed = self.runs.get(next.checked_sub(1)?)?;
        if sector >= placed.end() {
            return None;
        }
        let (within, each) = (sector - placed.start, placed.run.sectors);
        let object = usize::try_from(placed.object + within / each).ok()?;
        Some(SectorPlace { object, sector: within % each, left: each - within % each })
    }
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

    proptest! {
        /// The layout against a plain list of sectors.
        #[test]
        fn each_sector_lies_where_a_list_of_all_says(
            sizes in prop::collection::vec(prop::sample::select(vec![1_u64, 2, 8, 13]), 1..12),
        ) {
            let layout = VolumeLayout::of_sizes(sizes.iter().copied());
            let all = sizes.iter().enumerate().flat_map(|(object, size)| {
                (0..*size).map(move |sector| SectorPlace { object, sector, left: size - sector })
            });
            let mut end = 0;
            for (at, place) in (0..).zip(all) {
                prop_assert_eq!(layout.place(at), Some(place));
                end = at + 1;
            }
            prop_assert_eq!(layout.place(end), None);
            prop_assert_eq!(layout.sectors(), end);
            prop_assert_eq!(usize::try_from(layout.objects()), Ok(sizes.len()));
            let split = sizes.len() / 2;
            let first = VolumeLayout::of_sizes(sizes[..split].iter().copied());
            prop_assert_eq!(first.with(sizes[split..].iter().copied()), layout);
        }
    }

    #[test]
    fn a_volume_that_is_cut_evenly_is_laid_out_by_the_number_of_its_objects() {
        let runs =
            |size, count| VolumeLayout::even(size, count).map(|l| l.runs().collect::<Vec<_>>());
        let run = |objects, sectors| ObjectRun { objects, sectors };
        let most = OBJECT_SECTORS_MAX * SECTOR_SIZE;
        assert_eq!(runs(512, 1), Some(vec![run(1, 1)]));
        assert_eq!(runs(2 * most, 2), Some(vec![run(2, OBJECT_SECTORS_MAX)]));
        assert_eq!(runs(most + 512, 2), Some(vec![run(1, OBJECT_SECTORS_MAX), run(1, 1)]));
        assert_eq!((runs(most + 512, 1), runs(512, 0)), (None, None));
    }
}
