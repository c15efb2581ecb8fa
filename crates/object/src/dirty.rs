// SPDX-License-Identifier: Apache-2.0
//! What a resync still has to copy (rules 32-34): one bit per 4 KiB block.
//!
//! Pure. Guarantees: a block that was inserted is taken again unless it was inserted before the
//! last take of it. Memory is bounded by the object: 64 bytes per dirty chunk, 16 MiB for the
//! largest object wholly dirty.

use base::{BLOCK_SECTORS, BLOCK_SIZE, CHUNK_BLOCKS, CHUNK_SECTORS, Map, SectorRange};

const WORDS: usize = 4;
const _: () = assert!(WORDS as u64 * 64 == CHUNK_BLOCKS);

/// A set of blocks of one object.
#[derive(Clone, Debug)]
pub(crate) struct DirtySet {
    sectors: u64,
    chunks: Map<u64, [u64; WORDS]>,
    blocks: u64,
    cursor: u64,
    /// Steps of the map that adding and removing took.
    #[cfg(test)]
    steps: u64,
}

impl DirtySet {
    /// Nothing of an object of `sectors` sectors.
    pub(crate) fn new(sectors: u64) -> Self {
        Self {
            sectors,
            chunks: Map::new(),
            blocks: 0,
            cursor: 0,
            #[cfg(test)]
            steps: 0,
        }
    }

    /// Adds every block that `range` touches; what lies behind the object's end is ignored: a step
    /// of the map for each chunk.
    pub(crate) fn insert(&mut self, range: SectorRange) {
        for (chunk, mask) in masks(range.intersect(SectorRange::new(0, self.sectors))) {
            let words = self.chunks.entry(chunk).or_default();
            for (word, mask) in words.iter_mut().zip(mask) {
                self.blocks += u64::from((mask & !*word).count_ones());
                *word |= mask;
            }
            self.count_step();
        }
    }

    /// Removes every block that `range` touches. One step for each chunk of it that has any.
    pub(crate) fn remove(&mut self, range: SectorRange) {
        let range = range.intersect(SectorRange::new(0, self.sectors));
        if range.is_empty() {
            return;
        }
        let mut from = range.blocks().start / CHUNK_BLOCKS;
        while let Some((chunk, words)) = self.chunks.range_mut(from..).next() {
            let (chunk, first) = (*chunk, *chunk * CHUNK_SECTORS);
            let Some((_, mask)) =
                masks(range.intersect(SectorRange::new(first, CHUNK_SECTORS))).next()
            else {
                return;
            };
            for (word, mask) in words.iter_mut().zip(mask) {
                self.blocks -= u64::from((mask & *word).count_ones());
                *word &= !mask;
            }
            if *words == [0; WORDS] {
                self.chunks.remove(&chunk);
            }
            self.count_step();
            from = chunk + 1;
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

    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "counts in tests only"))]
    fn count_step(&mut self) {
        #[cfg(test)]
        {
            self.steps += 1;
        }
    }

    fn contains(&self, block: u64) -> bool {
        let (chunk, word, bit) = place(block);
        self.chunks.get(&chunk).is_some_and(|words| words[word] & bit != 0)
    }

    fn next_from(&self, from: u64) -> Option<u64> {
        for (chunk, words) in self.chunks.range(from / CHUNK_BLOCKS..) {
            for (word, bits) in words.iter().enumerate() {
                let base = chunk * CHUNK_BLOCKS + word as u64 * 64;
                let kept = bits & !below(from.saturating_sub(base));
                if kept != 0 {
                    return Some(base + u64::from(kept.trailing_zeros()));
                }
            }
        }
        None
    }
}

/// The chunks that a range touches, each with its blocks as bits.
fn masks(range: SectorRange) -> impl Iterator<Item = (u64, [u64; WORDS])> {
    let blocks = range.blocks();
    let chunks = blocks.start / CHUNK_BLOCKS..blocks.end.div_ceil(CHUNK_BLOCKS);
    chunks.filter(move |_| !range.is_empty()).map(move |chunk| {
        let mut mask = [0; WORDS];
        for (word, mask) in mask.iter_mut().enumerate() {
            let base = chunk * CHUNK_BLOCKS + word as u64 * 64;
            let [from, to] = [blocks.start, blocks.end].map(|at| at.saturating_sub(base).min(64));
            *mask = below(to) & !below(from);
        }
        (chunk, mask)
    })
}

/// The lowest bits, so many of them.
fn below(bits: u64) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
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
            let sectors = 5 * 2048 + rng.between(1, 8);
            let mut dirty = DirtySet::new(sectors);
            let mut model: Set<u64> = Set::new();
            for _ in 0..200 {
                let start = rng.below(sectors);
                // From parts of a block to several chunks, also of no length and over the end.
                let most = [8, 300, 9000][rng.below(3) as usize];
                let range = SectorRange::new(start, rng.below(most));
                let inside = range.intersect(SectorRange::new(0, sectors));
                let blocks = if inside.is_empty() { 0..0 } else { inside.blocks() };
                match rng.below(5) {
                    0 | 1 => {
                        dirty.insert(range);
                        model.extend(blocks);
                    }
                    2 => {
                        dirty.remove(range);
                        model.retain(|block| !blocks.contains(block));
                    }
                    _ => {
                        let most = rng.between(1, 64);
                        let Some(run) = dirty.take(most) else {
                            assert!(model.is_empty(), "seed {seed}: blocks forgotten");
                            continue;
                        };
                        assert!(!run.is_empty() && run.end() <= sectors);
                        assert!(run.blocks().count() as u64 <= most, "seed {seed}: {run:?}");
                        assert_eq!(run.start / 2048, (run.end() - 1) / 2048);
                        for block in run.blocks() {
                            assert!(model.remove(&block), "seed {seed}: block {block}");
                        }
                    }
                }
                assert_eq!(dirty.bytes(), model.len() as u64 * BLOCK_SIZE);
                assert_eq!(dirty.is_empty(), model.is_empty());
            }
        }
    }

    #[test]
    fn the_largest_object_costs_a_step_for_each_chunk() {
        const CHUNKS: u64 = 255 * 1024;
        let sectors = CHUNKS * CHUNK_SECTORS;
        let mut dirty = DirtySet::new(sectors);
        dirty.insert(SectorRange::new(0, sectors));
        assert_eq!((dirty.bytes(), dirty.steps), (sectors * 512, CHUNKS));
        let all_but_two = SectorRange::new(8, sectors - 16);
        dirty.remove(all_but_two);
        assert_eq!((dirty.bytes(), dirty.steps), (2 * BLOCK_SIZE, 2 * CHUNKS));
        // What is not there costs nothing.
        dirty.remove(all_but_two);
        assert_eq!(dirty.steps, 2 * CHUNKS + 2);
        assert_eq!(dirty.take(256), Some(SectorRange::new(0, 8)));
        assert_eq!(dirty.take(256), Some(SectorRange::new(sectors - 8, 8)));
        assert!(dirty.is_empty());
    }
}
