// SPDX-License-Identifier: Apache-2.0
//! The sectors of an oracle. Most of a large volume is never written: what is known of such a
//! sector is that it holds zeros, and that takes no memory.

use crate::Sector;
use base::SectorRange;

/// Sectors that get their memory together.
const TOGETHER: u64 = 64;

/// The sectors of a part of a volume.
#[derive(Debug)]
pub(crate) struct Sectors {
    part: SectorRange,
    /// Those that were written, and their neighbours.
    written: Vec<Option<Vec<Sector>>>,
}

impl Sectors {
    /// Sectors that were never written.
    pub(crate) fn new(part: SectorRange) -> Self {
        let written = (0..part.count.div_ceil(TOGETHER)).map(|_| None).collect();
        Self { part, written }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.part.count
    }

    /// A sector. `None` where neither it nor a neighbour was ever written: it holds zeros.
    pub(crate) fn get(&self, number: u64) -> Option<&Sector> {
        let (at, within) = self.place(number);
        self.written[at].as_ref().map(|together| &together[within])
    }

    /// As [`Self::get`].
    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut Sector> {
        let (at, within) = self.place(number);
        self.written[at].as_mut().map(|together| &mut together[within])
    }

    /// A sector that is to be written.
    pub(crate) fn for_write(&mut self, number: u64) -> &mut Sector {
        let (at, within) = self.place(number);
        let zeros = || (0..TOGETHER).map(|_| Sector::zero()).collect();
        &mut self.written[at].get_or_insert_with(zeros)[within]
    }

    /// For how many there is memory.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> u64 {
        self.written.iter().flatten().map(|together| together.len() as u64).sum()
    }

    fn place(&self, number: u64) -> (usize, usize) {
        let index = number - self.part.start;
        assert!(index < self.part.count, "sector {number} is not in {:?}", self.part);
        ((index / TOGETHER) as usize, (index % TOGETHER) as usize)
    }
}
