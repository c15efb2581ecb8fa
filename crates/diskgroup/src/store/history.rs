// SPDX-License-Identifier: Apache-2.0
//! Which blocks were destaged last, and by which lsn.
//!
//! Capacity keeps one lsn per chunk. A resync that asks what changed since an lsn would get a chunk
//! for every block, 256 times as much, if nothing else remembered. So the last blocks that left
//! the log are remembered here, as many as the log holds: enough for a component that was away
//! while its write buffer filled once, or lost it (docs/store.md, "A lost cache device"). The
//! memory is gone with the process. When the group is opened again, it is filled from the journal;
//! for what the pages hold already, chunks have to do.

use crate::keys::block_key;
use crate::mutations::Mutations;
use crate::store::components::Components;
use base::{CHUNK_BLOCKS, Lsn, Map};
use format::CacheLayout;
use std::collections::VecDeque;

/// Blocks that are remembered of the smallest log.
const BLOCKS_MIN: u64 = 64;
/// A key with this bit stands for the whole chunk of its block. Block numbers never reach this bit:
/// they are below 2^27.
const WHOLE: u64 = 1 << 39;
const WORDS: usize = CHUNK_BLOCKS as usize / 64;

/// The memory of one group.
pub(crate) struct History {
    /// Block keys and lsns in the order in which they left the log.
    entries: VecDeque<(u64, Lsn)>,
    /// The highest lsn of each key in `entries`, ordered by key. A question about one chunk costs
    /// only as much as is remembered of that chunk.
    newest: Map<u64, Lsn>,
    most: usize,
    mutations: Mutations,
}

/// What is remembered of one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recent {
    /// These of its blocks changed: a bit for each.
    Blocks([u64; WORDS]),
    /// Any of them may have.
    Whole,
}

impl History {
    /// As many blocks are remembered as the log has, `most` at most.
    pub(crate) fn new(layout: &CacheLayout, most: u64, mutations: Mutations) -> Self {
        let blocks = layout.segment_size * u64::from(layout.segments) / 4096;
        let most = blocks.max(BLOCKS_MIN).min(most);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Self { entries: VecDeque::new(), newest: Map::new(), most, mutations }
    }

    /// Blocks that it remembers.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// A block is on capacity by an entry of that lsn.
    pub(crate) fn block(&mut self, components: &mut Components, key: u64, lsn: Lsn) {
        if self.entries.len() >= self.most
            && let Some((oldest, lsn)) = self.entries.pop_front()
        {
            // `remembered_from` rises to this lsn below, and the history is asked only from there
            // on. So nobody misses this key, even if an older entry of it is still remembered.
            if self.newest.get(&oldest).is_some_and(|newest| *newest <= lsn) {
                self.newest.remove(&oldest);
            }
            let component = components
                .get_mut((oldest >> 40) as u32)
                .filter(|_| !self.mutations.forget_history());
            if let Some(component) = component {
                base::hit(base::Probe::HistoryForgot);
                component.remembered_from = component.remembered_from.max(lsn);
            }
        }
        self.entries.push_back((key, lsn));
        let newest = self.newest.entry(key).or_default();
        *newest = (*newest).max(lsn);
    }

    /// All of a chunk changed by an entry of that lsn.
    pub(crate) fn chunk(&mut self, components: &mut Components, key: u64, lsn: Lsn) {
        let (serial, chunk) = (key >> 32, key & u64::from(u32::MAX));
        self.block(components, serial << 40 | WHOLE | (chunk * CHUNK_BLOCKS), lsn);
    }

    /// What left the log of a chunk by lsns above `since`. Counts what it looks at.
    pub(crate) fn since(&self, serial: u32, chunk: u64, since: Lsn, steps: &mut u64) -> Recent {
        let first = block_key(serial, chunk * CHUNK_BLOCKS);
        *steps += 1;
        if self.newest.get(&(first | WHOLE)).is_some_and(|lsn| *lsn > since) {
            return Recent::Whole;
        }
        let mut blocks = [0; WORDS];
        for (key, lsn) in self.newest.range(first..first + CHUNK_BLOCKS) {
            *steps += 1;
            let at = key - first;
            blocks[(at / 64) as usize] |= u64::from(*lsn > since) << (at % 64);
        }
        Recent::Blocks(blocks)
    }
}

impl Recent {
    /// Nothing changed.
    pub(crate) const NOTHING: Self = Self::Blocks([0; WORDS]);

    /// Whether a block of the chunk changed, by its number in the component.
    pub(crate) fn has(&self, block: u64) -> bool {
        let at = block % CHUNK_BLOCKS;
        match self {
            Self::Whole => true,
            Self::Blocks(blocks) => blocks[(at / 64) as usize] >> (at % 64) & 1 == 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::components::Component;
    use base::{ComponentId, ObjectId, Rng};
    use format::ComponentRow;

    fn component(serial: u32) -> Component {
        let row = ComponentRow::new(serial, ComponentId(serial.into()), ObjectId(1), 1 << 20);
        Component::new(row, 0, serial)
    }

    /// The entries alone, looked through for every answer.
    fn looked_through(history: &History, serial: u32, chunk: u64, since: Lsn) -> Recent {
        let first = block_key(serial, chunk * CHUNK_BLOCKS);
        let mut recent = Recent::NOTHING;
        for (key, _) in history.entries.iter().filter(|(_, lsn)| *lsn > since) {
            match &mut recent {
                _ if *key == first | WHOLE => recent = Recent::Whole,
                Recent::Blocks(blocks) if (first..first + CHUNK_BLOCKS).contains(key) => {
                    let at = key - first;
                    blocks[(at / 64) as usize] |= 1 << (at % 64);
                }
                _ => {}
            }
        }
        recent
    }

    #[test]
    fn it_answers_as_its_entries_do_and_forgets_with_them() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let (entries, newest) = (VecDeque::new(), Map::new());
            let mut history =
                History { entries, newest, most: 300, mutations: Mutations::default() };
            let mut components = Components::default();
            (1..=2).for_each(|serial| components.insert(component(serial)));
            for lsn in 1..2000 {
                let serial = 1 + rng.below(2) as u32;
                // Blocks of one chunk leave the log in any order, an old one a second time too.
                let lsn = Lsn(lsn - rng.below(lsn.min(8)));
                match rng.below(40) {
                    0 => {
                        history.chunk(&mut components, u64::from(serial) << 32 | rng.below(4), lsn)
                    }
                    _ => history.block(&mut components, block_key(serial, rng.below(1024)), lsn),
                }
                assert!(history.newest.len() <= history.entries.len());
                let (serial, chunk) = (1 + rng.below(2) as u32, rng.below(4));
                let from = components.get(serial).expect("it is there").remembered_from;
                let since = Lsn(from.0 + rng.below(40));
                let expected = looked_through(&history, serial, chunk, since);
                let found = history.since(serial, chunk, since, &mut 0);
                assert_eq!(found, expected, "seed {seed}, since {since:?}");
            }
            // Who asks for a chunk pays for its blocks alone.
            let mut steps = 0;
            let found = history.since(1, 77, Lsn::ZERO, &mut steps);
            assert_eq!((found, steps), (Recent::NOTHING, 1), "{} are remembered", history.most);
        }
    }
}
