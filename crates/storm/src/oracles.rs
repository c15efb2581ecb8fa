// SPDX-License-Identifier: Apache-2.0
//! What may be read of a volume that has several objects: an oracle for each of them. Objects have
//! terms of their own, so what is known of one says nothing of another.

use base::SectorRange;
use directory::VolumeLayout;
use oracle::{Author, Oracle, ReadId, WriteId};

/// The oracles of a volume.
pub struct ObjectOracles {
    /// The first sector of each object.
    starts: Vec<u64>,
    all: Vec<Oracle>,
}

/// A part of a write, in one object.
pub struct WritePart {
    /// The object's number.
    pub object: usize,
    /// Sectors of the volume.
    pub range: SectorRange,
    /// The part in its oracle.
    pub id: WriteId,
    /// What its content is made of.
    pub tag: u64,
}

/// A part of a read, in one object.
pub struct ReadPart {
    /// The object's number.
    pub object: usize,
    /// Sectors of the volume.
    pub range: SectorRange,
    /// The part in its oracle.
    pub id: ReadId,
}

impl ObjectOracles {
    /// A volume of `sectors` sectors, all zero, with objects of `each` sectors.
    #[must_use]
    pub fn new(sectors: u64, each: u64) -> Self {
        let mut new = Self { starts: Vec::new(), all: Vec::new() };
        SectorRange::new(0, sectors).split_at_multiples(each).for_each(|part| new.add(part));
        new
    }

    fn add(&mut self, part: SectorRange) {
        self.starts.push(part.start);
        self.all.push(Oracle::of_part(part));
    }

    /// Has the objects of `layout` behind those that it has, all zero. Returns whether there are
    /// any.
    pub fn grow(&mut self, layout: &VolumeLayout) -> bool {
        let before = self.all.len();
        let mut start = self.sectors();
        while let Some(place) = layout.place(start) {
            assert_eq!(
                (place.object, place.sector),
                (self.all.len(), 0),
                "objects keep their size"
            );
            self.add(SectorRange::new(start, place.left));
            start += place.left;
        }
        self.all.len() > before
    }

    /// Sectors of the volume.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        self.all.iter().map(Oracle::sectors).sum()
    }

    /// The first sector of each object.
    #[must_use]
    pub fn starts(&self) -> &[u64] {
        &self.starts
    }

    /// How many objects there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// The oracle of an object.
    pub fn of(&mut self, object: usize) -> &mut Oracle {
        &mut self.all[object]
    }

    /// Whether a write of `host` is under way that overlaps one of another host.
    #[must_use]
    pub fn has_rivals(&self, host: u32) -> bool {
        self.all.iter().any(|oracle| oracle.has_rivals(host))
    }

    fn parts(&self, range: SectorRange) -> Vec<(usize, SectorRange)> {
        let objects = self.starts.iter().zip(&self.all).enumerate();
        let parts = objects.map(|(object, (start, oracle))| {
            let all = SectorRange::new(*start, oracle.sectors());
            (object, range.intersect(all))
        });
        parts.filter(|(_, part)| !part.is_empty()).collect()
    }

    /// Begins a write of data, or of zeros. `None` where another write that somebody waits for
    /// overlaps the range.
    pub fn begin_write(
        &mut self,
        author: Author,
        range: SectorRange,
        is_zero: bool,
    ) -> Option<Vec<WritePart>> {
        if self.parts(range).into_iter().any(|(object, range)| self.all[object].is_written(range)) {
            return None;
        }
        let parts = self.parts(range);
        let begin = |(object, range): (usize, SectorRange)| {
            let (id, tag) = self.all[object].begin_write(author, range, is_zero)?;
            Some(WritePart { object, range, id, tag })
        };
        parts.into_iter().map(begin).collect()
    }

    /// As [`Self::begin_write`], also where another write under way overlaps the range.
    pub fn begin_rival(
        &mut self,
        author: Author,
        range: SectorRange,
        is_zero: bool,
    ) -> Vec<WritePart> {
        let parts = self.parts(range);
        let begin = |(object, range): (usize, SectorRange)| {
            let (id, tag) = self.all[object].begin_rival(author, range, is_zero);
            WritePart { object, range, id, tag }
        };
        parts.into_iter().map(begin).collect()
    }

    /// Begins a read.
    pub fn begin_read(&mut self, range: SectorRange) -> Vec<ReadPart> {
        let parts = self.parts(range);
        let begin = |(object, range): (usize, SectorRange)| {
            let id = self.all[object].begin_read(range);
            ReadPart { object, range, id }
        };
        parts.into_iter().map(begin).collect()
    }
}
