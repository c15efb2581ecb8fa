// SPDX-License-Identifier: Apache-2.0
//! What a resync still has to copy (rules 32-34): one bit per 4 KiB block.
//!
//! Pure. Guarantees: a block that was inserted is taken again unless it was inserted before the
//! last take of it. Memory is bounded by the object: 64 bytes per dirty chunk, 16 MiB for the
//! largest object wholly dirty.

use base::{BLOCK_SECTORS, BLOCK_SIZE, CHUNK_BLOCKS, Map, SectorRange};

const WORDS: usize = 4;
const _: () = assert!(WORDS as u64 * 64 == CHUNK_BLOCKS);

/// A set of blocks of one object.
#[derive(Clone, Debug)]
pub(crate) struct DirtySet {
    sectors: u64,
    chunks: Map<u64, [u64; WORDS]>,
    blocks: u64,
    cursor: u64,
}

impl DirtySet {
    /// Nothing of an object of `sectors` sectors.
    pub(crate) fn new(sectors: u64) -> Self {
        Self { sectors, chunks: Map::new(), blocks: 0, cursor: 0 }
    }

    /// Adds every block that `range` touches; what lies behind the object's end is ignored.
    pub(crate) fn insert(&mut self, range: SectorRange) {
        let range = range.intersect(SectorRange::new(0, self.sectors));
        for block in range.blocks() {
            let (chunk, word, bit) = place(block);
            let words = self.chunks.entry(chunk).or_default();
            if words[word] & bit == 0 {
                words[word] |= bit;
                self.blocks += 1;
            }
        }
    }

    /// Removes every block that `range` touches.
    pub(crate) fn remove(&mut self, range: SectorRange) {
        for block in range.blocks() {
            let (chunk, word, bit) = place(block);
            let Some(words) = self.chunks.get_mut(&chunk) else { continue };
            if words[word] & bit != 0 {
                words[word] &= !bit;
                self.blocks -= 1;
                if *words == [0; WORDS] {
                    self.chunks.remove(&chunk);
                }
            }
        }
    }

    /// Whether every block that `range` touches is in it.
    pub(crate) fn covers(&self, range: SectorRange) -> bool {
        range.blocks().all(|block| self.contains(block))
    }

    /// Takes the next run of at most `blocks_max` dirty blocks within one chunk, ascending and
    /// from the start again after the end (rule 32: a range leaves when its copy is started).
    pub(crate) fn take(&mut self, blocks_max: u64) -> Option<SectorRange> {
        assert!(blocks_max > 0, "a run of no blocks");
        let first = self.next_from(self.cursor).or_else(|| self.next_from(0))?;
        let chunk_end = (first / CHUNK_BLOCKS + 1) * CHUNK_BLOCKS;
        let mut end = first + 1;
        while end < chunk_end && end - first < blocks_max && self.contains(end) {
            end += 1;
        }
        let run = SectorRange::new(first * BLOCK_SECTORS, (end - first) * BLOCK_SECTORS);
        self.remove(run);
        self.cursor = end;
        Some(run.intersect(SectorRange::new(0, self.sectors)))
    }

    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks == 0
    }

    /// Bytes left, in whole blocks.
    pub(crate) fn bytes(&self) -> u64 {
        self.blocks * BLOCK_SIZE
    }

    fn contains(&self, block: u64) -> bool {
        let (chunk, word, bit) = place(block);
        self.chunks.get(&chunk).is_some_and(|words| words[word] & bit != 0)
    }

    fn next_from(&self, from: u64) -> Option<u64> {
        for (chunk, words) in self.chunks.range(from / CHUNK_BLOCKS..) {
            for (word, bits) in words.iter().enumerate() {
                let base = chunk * CHUNK_BLOCKS + word as u64 * 64;
                let below = from.saturating_sub(base).min(64);
                let kept = if below == 64 { 0 } else { bits & (u64::MAX << below) };
                if kept != 0 {
                    return Some(base + u64::from(kept.trailing_zeros()));
                }
            }
        }
        None
    }
}

fn place(block: u64) -> (u64, usize, u64) {
    let within = block % CHUNK_BLOCKS;
    let word = usize::try_from(within / 64).unwrap_or_else(|_| unreachable!("below WORDS"));
    (block / CHUNK_BLOCKS, word, 1 << (within % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Rng, Set};

    #[test]
    fn behaves_as_a_set_of_blocks_and_takes_each_once() {
        for seed in 0..100 {
            let mut rng = Rng::new(seed);
            let sectors = 3 * 2048 + rng.between(1, 8);
            let mut dirty = DirtySet::new(sectors);
            let mut model: Set<u64> = Set::new();
            for _ in 0..200 {
                let start = rng.below(sectors);
                let range = SectorRange::new(start, rng.between(1, 300).min(sectors - start));
                match rng.below(5) {
                    0 | 1 => {
                        dirty.insert(range);
                        model.extend(range.blocks());
                    }
                    2 => {
                        dirty.remove(range);
                        model.retain(|block| !range.blocks().contains(block));
                    }
                    _ => match dirty.take(rng.between(1, 64)) {
                        None => assert!(model.is_empty(), "seed {seed}: blocks forgotten"),
                        Some(run) => {
                            assert!(!run.is_empty() && run.end() <= sectors);
                            assert_eq!(run.start / 2048, (run.end() - 1) / 2048);
                            for block in run.blocks() {
                                assert!(model.remove(&block), "seed {seed}: block {block}");
                            }
                        }
                    },
                }
                assert_eq!(dirty.bytes(), model.len() as u64 * BLOCK_SIZE);
                assert_eq!(dirty.is_empty(), model.is_empty());
            }
        }
    }
}
