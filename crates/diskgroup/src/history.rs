// SPDX-License-Identifier: Apache-2.0
//! Which blocks were destaged last, and by which lsn.
//!
//! Capacity keeps one lsn per chunk. A resync that asks what changed since an lsn would get a chunk
//! for every block, 256 times as much, if nothing else remembered. So the last blocks that left
//! the log are remembered here, as many as the log holds: enough for a component that was away
//! while its write buffer filled once, or lost it (STORE.md section 8). It is gone with the
//! process; then chunks have to do.

use crate::chunks::chunk_key;
use crate::components::Components;
use base::{CHUNK_BLOCKS, Lsn, Map, Set};
use format::CacheLayout;
use std::collections::VecDeque;

/// Blocks that are remembered at most: 16 MiB of memory.
const BLOCKS_MAX: u64 = 1 << 20;
const BLOCKS_MIN: u64 = 64;
/// In a key: all of the block's chunk. Blocks have at most 2^27 numbers.
const WHOLE: u64 = 1 << 39;

/// The memory of one group.
pub(crate) struct History {
    /// Block keys and lsns in the order in which they left the log.
    entries: VecDeque<(u64, Lsn)>,
    most: usize,
    /// See [`crate::Mutations::forget_history`].
    forgets: bool,
}

/// What is remembered of one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Recent {
    /// These of its blocks changed.
    Blocks(Set<u64>),
    /// Any of them may have.
    Whole,
}

impl History {
    pub(crate) fn new(layout: &CacheLayout, forgets: bool) -> Self {
        let blocks = layout.segment_size * u64::from(layout.segments) / 4096;
        let most = blocks.clamp(BLOCKS_MIN, BLOCKS_MAX);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Self { entries: VecDeque::new(), most, forgets }
    }

    /// A block is on capacity by an entry of that lsn.
    pub(crate) fn block(&mut self, components: &mut Components, key: u64, lsn: Lsn) {
        if self.entries.len() >= self.most
            && let Some((oldest, lsn)) = self.entries.pop_front()
            && !self.forgets
            && let Some(component) = components.get_mut((oldest >> 40) as u32)
        {
            component.remembered_from = component.remembered_from.max(lsn);
        }
        self.entries.push_back((key, lsn));
    }

    /// All of a chunk changed by an entry of that lsn.
    pub(crate) fn chunk(&mut self, components: &mut Components, key: u64, lsn: Lsn) {
        let (serial, chunk) = (key >> 32, key & u64::from(u32::MAX));
        self.block(components, serial << 40 | WHOLE | (chunk * CHUNK_BLOCKS), lsn);
    }

    /// What left the log by lsns above `since`, by chunk key.
    pub(crate) fn since(&self, serial: u32, since: Lsn) -> Map<u64, Recent> {
        let mut recent = Map::new();
        let is_asked = |(key, lsn): &&(u64, Lsn)| (key >> 40) as u32 == serial && *lsn > since;
        for (key, _) in self.entries.iter().filter(is_asked) {
            let block = key & (WHOLE - 1);
            let chunk = chunk_key(serial, block / CHUNK_BLOCKS);
            let known = recent.entry(chunk).or_insert_with(|| Recent::Blocks(Set::new()));
            match known {
                _ if key & WHOLE != 0 => *known = Recent::Whole,
                Recent::Blocks(blocks) => drop(blocks.insert(block)),
                Recent::Whole => {}
            }
        }
        recent
    }
}
