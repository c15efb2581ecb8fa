// SPDX-License-Identifier: Apache-2.0
//! Which chunk of a component is where on capacity, or has a device chunk set aside.

use base::FixedMap;

/// Stands for a chunk that capacity does not hold; no device has so many chunks.
const NOWHERE: u32 = u32::MAX;

/// Bytes of a leaf's place in the table of its component.
const LEAF_PLACE: usize = size_of::<Option<Box<[u32]>>>();

/// Device chunk of each chunk that capacity holds: per component a table of leaves, made when
/// something stands in them. Four bytes a chunk where a component is dense; at worst, with one
/// chunk in each leaf of 64, 270.
struct Bases {
    leaves: FixedMap<Leaves>,
    /// Chunks of one leaf, as a power of two.
    leaf_bits: u32,
}

#[derive(Default)]
struct Leaves {
    all: Vec<Option<Box<[u32]>>>,
    /// Of them, those that there are.
    made: usize,
}

impl Bases {
    fn new(leaf_bits: u32) -> Self {
        Self { leaves: FixedMap::default(), leaf_bits }
    }

    /// The component's serial, the leaf, the place in it.
    fn place_of(&self, key: u64) -> (u64, usize, usize) {
        let chunk = (key & u64::from(u32::MAX)) as usize;
        (key >> 32, chunk >> self.leaf_bits, chunk & ((1 << self.leaf_bits) - 1))
    }

    fn get(&self, key: u64) -> Option<u32> {
        let (serial, leaf, at) = self.place_of(key);
        let leaf = self.leaves.get(&serial)?.all.get(leaf)?.as_ref()?;
        Some(leaf[at]).filter(|chunk| *chunk != NOWHERE)
    }

    fn set(&mut self, key: u64, chunk: u32) {
        assert!(chunk != NOWHERE, "a device chunk has a number");
        let (serial, leaf, at) = self.place_of(key);
        base::hit_if(leaf > 0, base::Probe::SecondLeaf);
        let leaves = self.leaves.entry(serial).or_default();
        if leaves.all.len() <= leaf {
            leaves.all.resize(leaf + 1, None);
        }
        let place = &mut leaves.all[leaf];
        leaves.made += usize::from(place.is_none());
        place.get_or_insert_with(|| vec![NOWHERE; 1 << self.leaf_bits].into())[at] = chunk;
    }

    fn clear(&mut self, key: u64) {
        let (serial, leaf, at) = self.place_of(key);
        let Some(leaves) = self.leaves.get_mut(&serial) else { return };
        let Some(place) = leaves.all.get_mut(leaf) else { return };
        let Some(chunks) = place else { return };
        chunks[at] = NOWHERE;
        if chunks.iter().all(|chunk| *chunk == NOWHERE) {
            *place = None;
            leaves.made -= 1;
            if leaves.made == 0 {
                self.leaves.remove(&serial);
            }
        }
    }

    fn bytes(&self) -> usize {
        let leaf = size_of::<u32>() << self.leaf_bits;
        let of = |leaves: &Leaves| leaves.made * leaf + leaves.all.capacity() * LEAF_PLACE;
        self.leaves.values().map(of).sum()
    }

    fn keys(&self) -> impl Iterator<Item = u64> {
        let leaf_bits = self.leaf_bits;
        self.leaves.iter().flat_map(move |(serial, leaves)| {
            let all =
                leaves.all.iter().enumerate().filter_map(|(at, leaf)| Some((at, leaf.as_ref()?)));
            all.flat_map(move |(number, leaf)| {
                let held = leaf.iter().enumerate().filter(|(_, chunk)| **chunk != NOWHERE);
                held.map(move |(at, _)| serial << 32 | (number << leaf_bits | at) as u64)
            })
        })
    }
}

/// What capacity holds, keyed by [`crate::keys::chunk_key`].
pub(crate) struct Chunks {
    base: Bases,
    /// Chunks that only the log has: one of the device's is set aside for each.
    pub(super) aside: FixedMap<()>,
}

impl Chunks {
    /// None; a leaf of the map has so many chunks, as a power of two.
    pub(crate) fn new(leaf_bits: u32) -> Self {
        Self { base: Bases::new(leaf_bits), aside: FixedMap::default() }
    }

    pub(crate) fn base(&self, key: u64) -> Option<u32> {
        self.base.get(key)
    }

    /// Bytes of its tables.
    pub(crate) fn table_bytes(&self) -> usize {
        self.base.bytes() + self.aside.allocation_size()
    }

    /// All chunks that capacity holds, for counting: in no order.
    pub(crate) fn bases(&self) -> impl Iterator<Item = u64> {
        self.base.keys()
    }

    pub(super) fn set_base(&mut self, key: u64, chunk: Option<u32>) {
        match chunk {
            Some(chunk) => self.base.set(key, chunk),
            None => self.base.clear(key),
        }
    }

    /// None is set aside for this chunk any more; whether one was.
    pub(super) fn end_aside(&mut self, key: u64) -> bool {
        self.aside.contains_key(&key) && self.aside.remove(&key).is_some()
    }

    /// All chunks that one is set aside for, for counting: in no order.
    pub(crate) fn asides(&self) -> impl Iterator<Item = u64> {
        self.aside.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::chunk_key;
    use base::{Map, Rng};

    #[test]
    fn bases_are_a_map() {
        (0..=6).for_each(bases_with_leaves_of_a_size_are_a_map);
    }

    fn bases_with_leaves_of_a_size_are_a_map(bits: u32) {
        let (mut bases, mut model, mut rng) = (Bases::new(bits), Map::new(), Rng::stream(1, 1));
        for _ in 0..20_000 {
            let key = chunk_key(1 + rng.below(3) as u32, rng.below(300));
            let chunk = rng.below(1 << 20) as u32;
            if rng.below(2) == 0 {
                bases.set(key, chunk);
                model.insert(key, chunk);
            } else {
                bases.clear(key);
                model.remove(&key);
            }
            let other = chunk_key(1 + rng.below(4) as u32, rng.below(400));
            assert_eq!(bases.get(other), model.get(&other).copied());
            assert!(bases.leaves.len() <= 3, "components without a chunk take no room");
        }
        let mut keys: Vec<u64> = bases.keys().collect();
        keys.sort_unstable();
        assert!(keys.iter().eq(model.keys()), "all of them, and nothing else");
        for key in keys {
            bases.clear(key);
        }
        assert!(bases.leaves.is_empty());
    }
}
