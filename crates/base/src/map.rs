// SPDX-License-Identifier: Apache-2.0
//! Maps that behave the same in every run: iteration follows the keys, never a random hasher.

/// An ordered map: iteration order is key order in both worlds.
pub type Map<K, V> = std::collections::BTreeMap<K, V>;
/// An ordered set: iteration order is key order in both worlds.
pub type Set<K> = std::collections::BTreeSet<K>;
