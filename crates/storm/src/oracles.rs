// SPDX-License-Identifier: Apache-2.0
//! What may be read of a volume that has several objects: an oracle for each of them. Objects have
//! terms of their own, so what is known of one says nothing of another.

use crate::writers::MayWrite;
use base::SectorRange;
use directory::{STRIPE_UNIT_SECTORS, StripeSet, VolumeLayout};
use oracle::{Author, Oracle, ReadId, WriteId};

/// The oracles of a volume.
pub struct ObjectOracles {
    layout: VolumeLayout,
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
    /// A volume that lies so, all zero.
    #[must_use]
    pub fn new(layout: &VolumeLayout) -> Self {
        let layout = layout.clone();
        let mut new = Self { layout: layout.clone(), starts: Vec::new(), all: Vec::new() };
        layout.sets().for_each(|set| new.add(set));
        new
    }

    /// Each object of a set has an oracle for all of it, and is asked about its own units alone.
    fn add(&mut self, set: StripeSet) {
        for column in 0..set.width {
            self.starts.push(set.range.start + u64::from(column) * STRIPE_UNIT_SECTORS);
            self.all.push(Oracle::of_part(set.range));
        }
    }

    /// Has the objects of `layout` behind those that it has, all zero. Returns whether there are
    /// any.
    pub fn grow(&mut self, layout: &VolumeLayout) -> bool {
        let known = self.layout.sets().count();
        assert!(self.layout.sets().eq(layout.sets().take(known)), "what there is stays as it is");
        layout.sets().skip(known).for_each(|set| self.add(set));
        self.layout = layout.clone();
        self.layout.sets().count() > known
    }

    /// Sectors of the volume.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        self.layout.sectors()
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

    /// Who may write changed so. To be said before anything is concluded: a host may write as soon
    /// as the record says so.
    pub(crate) fn admitted(&mut self, changes: &[MayWrite]) {
        for may in changes {
            let host = match may {
                MayWrite::Nobody => continue,
                MayWrite::Any => None,
                MayWrite::Only(writer) => Some(writer.shard.0 - 1),
            };
            self.each(|oracle| oracle.admitted(host));
        }
    }

    /// Calls `tell` with each of them.
    pub fn each(&mut self, tell: impl FnMut(&mut Oracle)) {
        self.all.iter_mut().for_each(tell);
    }

    /// Whether a write of `host` is under way that overlaps one of another host.
    #[must_use]
    pub fn has_rivals(&self, host: u32) -> bool {
        self.all.iter().any(|oracle| oracle.has_rivals(host))
    }

    fn parts(&self, range: SectorRange) -> Vec<(usize, SectorRange)> {
        let mut parts = Vec::new();
        let mut rest = range;
        while let Some(set) = self.layout.set_of(rest.start).filter(|_| !rest.is_empty()) {
            let within = rest.intersect(set.range);
            let mut at = within.start;
            for (place, count) in set.places(within) {
                parts.push((place.object, SectorRange::new(at, count)));
                at += count;
            }
            rest = SectorRange::new(at, rest.end() - at);
        }
        parts
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
