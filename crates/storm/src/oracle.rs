// SPDX-License-Identifier: Apache-2.0
//! What each sector may hold: a register per sector (DESIGN.md section 2, promises 1 and 2).
//!
//! Every write carries a tag of its own, repeated in each of its sectors, so that a read tells
//! which write it saw. Operations that are under way at the same time never overlap (the oracle
//! hands out ranges), so after an acknowledged write only its tag may be read. A write without an
//! answer may be read or not, also after later ones: its client died while it was on its way to the
//! owner, and it may land whenever that way is open again (seed 198). Once it was read, the value
//! before it may not come back.

use base::{SECTOR_SIZE, SectorRange};
use std::fmt;

/// The tag of zeros: never written, or discarded.
pub const ZERO: u64 = 0;

#[derive(Clone, Debug, Default)]
struct Sector {
    current: u64,
    undecided: Vec<u64>,
    is_busy: bool,
}

/// A sector that holds what it may not.
#[derive(Clone, Debug)]
pub struct Wrong {
    /// The sector.
    pub sector: u64,
    /// What was read: a write's tag, or nothing that was ever written there.
    pub found: Option<u64>,
    /// The last value known.
    pub current: u64,
    /// Values of unanswered writes.
    pub undecided: Vec<u64>,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sector {} holds ", self.sector)?;
        match self.found {
            Some(tag) => write!(f, "write {tag}")?,
            None => write!(f, "bytes that were never written there")?,
        }
        write!(f, "; it should hold write {}", self.current)?;
        if !self.undecided.is_empty() {
            write!(f, " or one of {:?}", self.undecided)?;
        }
        Ok(())
    }
}

/// What every sector of one volume may hold.
#[derive(Debug)]
pub struct Oracle {
    sectors: Vec<Sector>,
    next_tag: u64,
}

impl Oracle {
    /// A volume of `sectors` sectors, all zero.
    #[must_use]
    pub fn new(sectors: u64) -> Self {
        let sectors = (0..sectors).map(|_| Sector::default()).collect();
        Self { sectors, next_tag: ZERO }
    }

    /// Sectors of the volume.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        self.sectors.len() as u64
    }

    fn part(&mut self, range: SectorRange) -> &mut [Sector] {
        &mut self.sectors[range.start as usize..range.end() as usize]
    }

    /// Takes the range for one operation; false where another one has part of it.
    pub fn begin(&mut self, range: SectorRange) -> bool {
        if self.part(range).iter().any(|sector| sector.is_busy) {
            return false;
        }
        self.part(range).iter_mut().for_each(|sector| sector.is_busy = true);
        true
    }

    /// A tag for a new write.
    pub fn tag(&mut self) -> u64 {
        self.next_tag += 1;
        self.next_tag
    }

    /// The write was acknowledged.
    pub fn acknowledged(&mut self, range: SectorRange, tag: u64) {
        for sector in self.part(range) {
            sector.current = tag;
            sector.is_busy = false;
            sector.undecided.retain(|other| *other != tag);
        }
    }

    /// The write ended without an answer, or with an error: it may be there or not.
    pub fn undecided(&mut self, range: SectorRange, tag: u64) {
        for sector in self.part(range) {
            sector.is_busy = false;
            if !sector.undecided.contains(&tag) {
                sector.undecided.push(tag);
            }
        }
    }

    /// The operation had no effect on what is known.
    pub fn release(&mut self, range: SectorRange) {
        self.part(range).iter_mut().for_each(|sector| sector.is_busy = false);
    }

    /// The range was read and holds `bytes`.
    ///
    /// # Errors
    /// The first sector that holds what it may not.
    pub fn read(&mut self, range: SectorRange, bytes: &[u8]) -> Result<(), Wrong> {
        assert_eq!(bytes.len() as u64, range.bytes(), "a read returns what was asked for");
        let contents = bytes.chunks(SECTOR_SIZE as usize);
        for (number, (sector, content)) in
            (range.start..).zip(self.part(range).iter_mut().zip(contents))
        {
            let found = tag_of(number, content);
            let known =
                found.is_some_and(|tag| tag == sector.current || sector.undecided.contains(&tag));
            let Some(tag) = found.filter(|_| known) else {
                return Err(Wrong {
                    sector: number,
                    found,
                    current: sector.current,
                    undecided: sector.undecided.clone(),
                });
            };
            sector.current = tag;
            sector.undecided.retain(|other| *other != tag);
            sector.is_busy = false;
        }
        Ok(())
    }
}

/// Fills a range's bytes with a tag.
pub fn fill(range: SectorRange, tag: u64, bytes: &mut [u8]) {
    for (index, sector) in bytes.chunks_mut(SECTOR_SIZE as usize).enumerate() {
        let number = range.start + index as u64;
        for (word, place) in sector.chunks_mut(8).enumerate() {
            let value = if word % 2 == 0 { tag } else { number ^ (word as u64) << 48 };
            place.copy_from_slice(&value.to_le_bytes());
        }
    }
}

/// The tag of a sector's content; `None` where it is no whole sector of one write.
fn tag_of(number: u64, content: &[u8]) -> Option<u64> {
    if content.iter().all(|byte| *byte == 0) {
        return Some(ZERO);
    }
    let tag = u64::from_le_bytes(content[..8].try_into().ok()?);
    let mut expected = vec![0; content.len()];
    fill(SectorRange::new(number, 1), tag, &mut expected);
    (expected == content).then_some(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(range: SectorRange, tag: u64) -> Vec<u8> {
        let mut bytes = vec![0; range.bytes() as usize];
        if tag != ZERO {
            fill(range, tag, &mut bytes);
        }
        bytes
    }

    #[test]
    fn acknowledged_writes_must_be_read_and_unanswered_ones_may() {
        let range = SectorRange::new(2, 3);
        let mut oracle = Oracle::new(8);
        assert!(oracle.begin(range));
        assert!(!oracle.begin(SectorRange::new(4, 2)), "overlaps");
        let (first, second) = (oracle.tag(), oracle.tag());
        oracle.acknowledged(range, first);
        assert!(oracle.read(range, &content(range, ZERO)).is_err(), "lost");
        assert!(oracle.read(range, &content(range, first)).is_ok());
        oracle.undecided(range, second);
        assert!(oracle.read(range, &content(range, first)).is_ok(), "not there yet");
        assert!(oracle.read(range, &content(range, second)).is_ok(), "came late");
        assert!(oracle.read(range, &content(range, first)).is_err(), "un-seen");
    }

    #[test]
    fn a_torn_or_misplaced_sector_is_wrong() {
        let range = SectorRange::new(0, 1);
        let mut oracle = Oracle::new(4);
        oracle.acknowledged(range, 1);
        let mut torn = content(range, 1);
        torn[300] ^= 1;
        assert!(oracle.read(range, &torn).is_err());
        assert!(oracle.read(range, &content(SectorRange::new(1, 1), 1)).is_err());
    }
}
