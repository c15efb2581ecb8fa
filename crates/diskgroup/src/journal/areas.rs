// SPDX-License-Identifier: Apache-2.0
//! What stands in the journal's areas, and what of it counts.
//!
//! The journal has two *halves*. Records go to the *open* half from its start; when it is full they
//! go to the other one, and a checkpoint brings what the *closed* half changed to the pages. Only
//! when it is over may the closed half be written again. So a device has records of three kinds:
//!
//! - those of the open half, whose first one is the newest beginning;
//! - those of the closed half, while its checkpoint is not over: they are replayed too, before the
//!   others;
//! - what is left of a half whose checkpoint is over. Perhaps it is being written again.
//!
//! Which of the last two it is must not be guessed: a closed half with a rotten record would read
//! as one that is being overwritten. Page 0 of the chunk map is the last that a checkpoint writes,
//! and images of a checkpoint hold the first record of the open half. So the page tells.
//!
//! Builds of before wrote the journal as one area, and wrote nothing while a checkpoint went on.
//! What they left is replayed as a closed half, and written to the pages before the first record.

use crate::store::capacity::Journal;
use format::{CapacityLayout, JournalRecord, PAGE_SIZE};

/// Records that follow one another from the start of an area.
#[derive(Default)]
pub(crate) struct Stretch {
    pub(crate) records: Vec<JournalRecord>,
    /// Bytes that they take.
    pub(crate) position: u64,
    /// Bytes of the last one.
    pub(crate) last_size: u64,
    /// Checksum of the last one.
    pub(crate) crc: u32,
}

impl Stretch {
    /// Takes the records that follow, of what was read of the area from its start.
    pub(crate) fn follow(&mut self, device: u64, bytes: &[u8]) {
        loop {
            let at = usize::try_from(self.position).unwrap_or(usize::MAX);
            let rest = bytes.get(at..).unwrap_or_default();
            let Ok((record, size, crc)) = JournalRecord::decode(device, rest) else { return };
            let follows = self.records.last().is_none_or(|last| {
                record.sequence == last.sequence + 1 && record.previous == self.crc
            });
            if !follows {
                return;
            }
            self.last_size = u64::try_from(size).unwrap_or(u64::MAX);
            self.position += self.last_size;
            self.crc = crc;
            self.records.push(record);
        }
    }

    pub(crate) fn first(&self) -> Option<u64> {
        self.records.first().map(|record| record.sequence)
    }

    /// The record that would come next.
    pub(crate) fn next(&self) -> Option<u64> {
        self.records.last().map(|record| record.sequence + 1)
    }

    /// Whether the other one begins where this one ends.
    fn leads_to(&self, other: &Self) -> bool {
        let begins = other.records.first();
        begins
            .is_some_and(|first| self.next() == Some(first.sequence) && self.crc == first.previous)
    }
}

/// What of the journal counts.
#[derive(Default)]
pub(crate) struct FoundJournal {
    /// Records whose checkpoint is perhaps not over.
    pub(crate) closed: Stretch,
    /// Records behind them.
    pub(crate) open: Stretch,
    /// The first record that stood in a half; none where the journal is one area.
    halves_from: Option<u64>,
    /// Which half the open one is.
    pub(crate) half: u64,
    /// Images that hold this record or a later one may not be durable: they are of the newest
    /// checkpoint.
    pub(crate) doubt_from: Option<u64>,
    /// The checkpoint that is not over has written a page if its image holds this record.
    pub(crate) written_from: Option<u64>,
}

impl FoundJournal {
    /// Whether an image of the map's first page that holds this record may be of the checkpoint
    /// before the one that is not over.
    pub(crate) fn is_checkpointed_by(&self, applied: u64) -> bool {
        match self.halves_from {
            None => true,
            from => self.closed.first() <= from || Some(applied) >= self.closed.first(),
        }
    }

    /// Of what stands in the journal's areas: one, or two halves, of which `halves_from` was the
    /// first record ever. Pages hold records before `paged`, and page 0 of the chunk map all up to
    /// `checkpointed`.
    ///
    /// # Errors
    /// The record that is missing.
    pub(crate) fn of_areas(
        areas: Vec<Stretch>,
        halves_from: u64,
        (paged, checkpointed): (u64, u64),
    ) -> Result<Self, u64> {
        match <[Stretch; 2]>::try_from(areas) {
            Ok(halves) => Self::of_halves(halves, halves_from, checkpointed),
            Err(mut area) => Ok(Self::linear(area.pop().unwrap_or_default(), paged)),
        }
    }

    /// Of a journal that is one area. Its records had a checkpoint when pages hold more than they.
    fn linear(area: Stretch, paged: u64) -> Self {
        if area.next().is_none_or(|next| next < paged) {
            return Self::default();
        }
        let doubt_from = area.first();
        let written_from = area.records.last().map(|record| record.sequence);
        Self { closed: area, doubt_from, written_from, ..Self::default() }
    }

    fn of_halves(
        [zero, one]: [Stretch; 2],
        halves_from: u64,
        checkpointed: u64,
    ) -> Result<Self, u64> {
        // What stands before the first half is of the time when the journal was one area.
        let [zero, one] = [zero, one].map(|half| match half.first() >= Some(halves_from) {
            true => half,
            false => Stretch::default(),
        });
        let (half, open, closed) = match zero.first() >= one.first() {
            true => (0, zero, one),
            false => (1, one, zero),
        };
        let Some(first) = open.first() else { return Ok(Self::default()) };
        let doubt_from = Some(first);
        if first == halves_from || checkpointed >= first {
            return Ok(Self { open, half, doubt_from, ..Self::default() });
        }
        let (written_from, halves_from) = (doubt_from, Some(halves_from));
        match closed.leads_to(&open) {
            true => Ok(Self { closed, open, half, doubt_from, written_from, halves_from }),
            false => Err(closed.next().filter(|next| *next < first).unwrap_or(first - 1)),
        }
    }

    /// Where the journal goes on, with this record.
    pub(crate) fn stands(&self, layout: &CapacityLayout, sequence: u64) -> Journal {
        let last = if self.open.records.is_empty() { &self.closed } else { &self.open };
        let journal = Journal { sequence, previous: last.crc, ..Journal::default() };
        match layout.halves_from {
            // No record more: the first half begins when pages hold all of the area.
            0 => Journal {
                half: 1,
                position: layout.half_size(),
                has_closed: true,
                is_linear: true,
                ..journal
            },
            _ => Journal {
                half: self.half,
                position: self.open.position,
                has_closed: !self.closed.records.is_empty(),
                ..journal
            },
        }
    }

    /// The record that would come next, none where there is no record.
    pub(crate) fn next(&self) -> Option<u64> {
        self.open.next().or_else(|| self.closed.next())
    }
}

/// Whether a record above `next` begins at one of these pages. A record is written when the one
/// before is durable, so the one that is missing was durable once. What a lap before left has lower
/// sequences.
pub(crate) fn has_later(device: u64, bytes: &[u8], next: u64) -> bool {
    let mut pages = (0..bytes.len()).step_by(PAGE_SIZE);
    pages.any(|at| {
        JournalRecord::decode(device, &bytes[at..]).is_ok_and(|(r, _, _)| r.sequence > next)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many records from this one on; the first follows what has the checksum `before`.
    fn stretch(first: u64, count: u64, before: u32) -> Stretch {
        let mut bytes = Vec::new();
        let mut previous = before;
        for sequence in first..first + count {
            let mut page = vec![0; PAGE_SIZE];
            previous = JournalRecord { sequence, previous, items: Vec::new() }.encode(7, &mut page);
            bytes.extend(page);
        }
        let mut found = Stretch::default();
        found.follow(7, &bytes);
        assert_eq!(found.records.len() as u64, count);
        found
    }

    fn found(halves: [Stretch; 2], from: u64, checkpointed: u64) -> Result<[Option<u64>; 4], u64> {
        let found = FoundJournal::of_halves(halves, from, checkpointed)?;
        Ok([found.closed.first(), found.open.first(), found.doubt_from, found.next()])
    }

    #[test]
    fn a_closed_half_counts_where_the_open_one_follows_it() {
        let (zero, one) = (stretch(5, 3, 0), stretch(8, 2, stretch(5, 3, 0).crc));
        let told = [Some(5), Some(8), Some(8), Some(10)];
        assert_eq!(found([zero, one], 1, 4), Ok(told));
        let (zero, one) = (stretch(8, 2, stretch(5, 3, 0).crc), stretch(5, 3, 0));
        assert_eq!(found([zero, one], 1, 4), Ok(told), "the other way round");
    }

    #[test]
    fn what_is_left_of_a_half_does_not_count_once_its_checkpoint_is_over() {
        let alone = [None, Some(8), Some(8), Some(10)];
        let whole = [stretch(5, 3, 0), stretch(8, 2, stretch(5, 3, 0).crc)];
        assert_eq!(found(whole, 1, 8), Ok(alone), "all of it is left");
        for left in [0, 2] {
            let halves = || [stretch(5, left, 0), stretch(8, 2, stretch(5, 3, 0).crc)];
            assert_eq!(found(halves(), 1, 8), Ok(alone), "{left} are left");
            assert_eq!(found(halves(), 1, 7), Err(7), "{left} are left, and one is missing");
        }
        // A record of another history is no reason to believe either.
        assert_eq!(found([stretch(5, 3, 1), stretch(8, 2, 0)], 1, 7), Err(7));
        assert_eq!(
            found([stretch(8, 2, 0), Stretch::default()], 8, 7),
            Ok(alone),
            "the first half"
        );
        assert_eq!(found([stretch(5, 3, 0), Stretch::default()], 8, 7), Ok([None; 4]), "one area");
        assert_eq!(found([Stretch::default(), Stretch::default()], 1, 7), Ok([None; 4]));
    }

    #[test]
    fn one_area_counts_unless_pages_hold_more() {
        let told = |paged| {
            let found = FoundJournal::linear(stretch(5, 3, 0), paged);
            [found.closed.first(), found.doubt_from, found.written_from, found.next()]
        };
        assert_eq!(told(8), [Some(5), Some(5), Some(7), Some(8)]);
        assert_eq!(told(9), [None; 4]);
    }
}
