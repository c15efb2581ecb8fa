// SPDX-License-Identifier: Apache-2.0
//! Operations that take effect in parts, as [`crate::DiskFreedom::is_loose`] lets them.
//!
//! A device promises that an operation has taken effect when it is answered, and nothing of the
//! time before. So a read, write or discard is divided into up to three parts of whole sectors.
//! Each part takes effect at a moment of its own between submission and end. From that follow all
//! mixtures that a real device may show:
//!
//! - a read beside a write or discard of the same sectors sees some of them old and some new;
//! - of two writes of the same sectors, both under way, either may win in each sector;
//! - a write that is not answered yet may already be read, and may be gone after power loss.
//!
//! A discard is a hint: each part of it may read as zeros, or stay as it was, or stay as it was and
//! be zeros after power loss. Flushes have no parts: power loss beside a flush decides for each
//! write apart.

use base::Rng;
use std::ops::Range;

/// Operations of more sectors are cut into contiguous parts only. So what one operation costs stays
/// bounded, however long it is.
const SCATTERED_MAX: u64 = 64;

const SECTOR: u64 = 512;

/// Byte ranges within an operation, each of whole sectors.
pub(crate) type LoosePart = Vec<Range<u64>>;

/// How one operation takes effect.
pub(crate) struct LooseOp {
    /// A part is empty once it has taken effect.
    pub(crate) parts: Vec<LoosePart>,
    /// Where its data goes, once that is decided; nowhere if the write is silently lost.
    pub(crate) place: Option<Option<u64>>,
}

/// An index into memory.
pub(crate) fn index(at: u64) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

impl LooseOp {
    /// Draws the parts of an operation of so many bytes, whole sectors.
    pub(crate) fn draw(bytes: u64, rng: &mut Rng) -> Self {
        Self { parts: divide(bytes / SECTOR, rng), place: None }
    }

    /// How many parts there are, at most three.
    pub(crate) fn count(&self) -> u8 {
        u8::try_from(self.parts.len()).unwrap_or(u8::MAX)
    }
}

/// Divides an operation into one to three parts that are not empty.
fn divide(sectors: u64, rng: &mut Rng) -> Vec<LoosePart> {
    let count = 1 + rng.below(3);
    let mut parts: Vec<LoosePart> = (0..count).map(|_| LoosePart::new()).collect();
    if sectors > SCATTERED_MAX || rng.below(2) == 0 {
        let mut cuts: Vec<u64> = (1..count).map(|_| rng.below(sectors + 1)).collect();
        cuts.extend([0, sectors]);
        cuts.sort_unstable();
        for (part, cut) in parts.iter_mut().zip(cuts.windows(2)) {
            part.push(cut[0] * SECTOR..cut[1] * SECTOR);
        }
    } else {
        for sector in 0..sectors {
            let part = &mut parts[index(rng.below(count))];
            match part.last_mut() {
                Some(last) if last.end == sector * SECTOR => last.end += SECTOR,
                _ => part.push(sector * SECTOR..(sector + 1) * SECTOR),
            }
        }
    }
    parts.iter_mut().for_each(|part| part.retain(|range| !range.is_empty()));
    parts.retain(|part| !part.is_empty());
    parts
}
