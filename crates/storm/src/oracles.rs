// SPDX-License-Identifier: Apache-2.0
//! What may be read of a volume that has several objects: an oracle for each of them. Objects have
//! terms of their own, so what is known of one says nothing of another.

use base::SectorRange;
use oracle::{Author, Oracle, ReadId, WriteId};

/// The oracles of a volume.
pub struct ObjectOracles {
    /// Sectors of each object but the last one.
    each: u64,
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
        let parts = SectorRange::new(0, sectors).split_at_multiples(each);
        Self { each, all: parts.map(Oracle::of_part).collect() }
    }

    /// Sectors of the volume.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        self.all.iter().map(Oracle::sectors).sum()
    }

    /// Sectors of each object but the last one.
    #[must_use]
    pub fn object_sectors(&self) -> u64 {
        self.each
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

    fn parts(&self, range: SectorRange) -> impl Iterator<Item = (usize, SectorRange)> + use<> {
        let each = self.each;
        let number = move |part: SectorRange| usize::try_from(part.start / each).unwrap_or(0);
        range.split_at_multiples(each).map(move |part| (number(part), part))
    }

    /// Begins a write of data, or of zeros. `None` where another write that somebody waits for
    /// overlaps the range.
    pub fn begin_write(
        &mut self,
        author: Author,
        range: SectorRange,
        is_zero: bool,
    ) -> Option<Vec<WritePart>> {
        if self.parts(range).any(|(object, range)| self.all[object].is_written(range)) {
            return None;
        }
        let parts = self.parts(range);
        let begin = |(object, range): (usize, SectorRange)| {
            let (id, tag) = self.all[object].begin_write(author, range, is_zero)?;
            Some(WritePart { object, range, id, tag })
        };
        parts.map(begin).collect()
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
        parts.map(begin).collect()
    }

    /// Begins a read.
    pub fn begin_read(&mut self, range: SectorRange) -> Vec<ReadPart> {
        let parts = self.parts(range);
        let begin = |(object, range): (usize, SectorRange)| {
            let id = self.all[object].begin_read(range);
            ReadPart { object, range, id }
        };
        parts.map(begin).collect()
    }
}
