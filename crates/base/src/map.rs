// SPDX-License-Identifier: Apache-2.0
//! Maps that behave the same in every run: iteration is in the order of the keys, never random.

/// An ordered map. Iteration order is key order, under the kernel and in the simulation.
pub type Map<K, V> = std::collections::BTreeMap<K, V>;
/// An ordered set. Iteration order is key order, under the kernel and in the simulation.
pub type Set<K> = std::collections::BTreeSet<K>;

/// A hash map of numbers, for what is too large for an ordered one and is asked for one key at a
/// time. It hashes the same way in each run. All the same nothing may depend on the order of its
/// iteration, which a new release of the hasher may change.
pub type FixedMap<V> = hashbrown::HashMap<u64, V, foldhash::fast::FixedState>;
