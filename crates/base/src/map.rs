// SPDX-License-Identifier: Apache-2.0
//! Maps that behave the same in every run: iteration is in the order of the keys, never random.

/// An ordered map. Iteration order is key order, under the kernel and in the simulation.
pub type Map<K, V> = std::collections::BTreeMap<K, V>;
/// An ordered set. Iteration order is key order, under the kernel and in the simulation.
pub type Set<K> = std::collections::BTreeSet<K>;
