// SPDX-License-Identifier: Apache-2.0
//! Read cache that is kept for components (docs/operations/read-cache.md).

use crate::state::DiskGroup;
use base::ComponentId;
use format::PIECE_SIZE;

/// What a component has of a read cache, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheShare {
    /// Of its pieces that are there.
    pub held_bytes: u64,
    /// That were asked for it, and those that are kept: less where components ask for more together
    /// than [`CACHE_KEPT_MAX_PERCENT`](crate::CACHE_KEPT_MAX_PERCENT).
    pub asked_bytes: u64,
    /// See above.
    pub kept_bytes: u64,
}

impl CacheShare {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            held_bytes: self.held_bytes.saturating_add(other.held_bytes),
            asked_bytes: self.asked_bytes.saturating_add(other.asked_bytes),
            kept_bytes: self.kept_bytes.saturating_add(other.kept_bytes),
        }
    }
}

impl DiskGroup {
    /// Keeps so many bytes of the read cache for each of these components from now on, and none for
    /// others: what they read lately does not go for what others read. Where they ask for more than
    /// [`CACHE_KEPT_MAX_PERCENT`](crate::CACHE_KEPT_MAX_PERCENT) of the cache together, each keeps
    /// the same part of what was asked. Whole pieces of 64 KiB; components that are not there are
    /// left out. Nothing in an all-flash group. Forgotten when the group is closed.
    pub fn keep_cached(&self, wanted: &[(ComponentId, u64)]) {
        let mut state = self.shared().state.borrow_mut();
        let state = &mut *state;
        let Some(cache) = state.read_cache.as_deref_mut() else { return };
        let slots = |(id, bytes): &(ComponentId, u64)| {
            let component = state.store.components.by_id(*id)?;
            Some((component.row.serial, bytes.div_ceil(PIECE_SIZE)))
        };
        let wanted: Vec<(u32, u64)> = wanted.iter().filter_map(slots).collect();
        cache.slots.keep(&wanted);
    }

    /// What a component has of the read cache; none in an all-flash group, and where there is no
    /// such component.
    #[must_use]
    pub fn cached(&self, id: ComponentId) -> Option<CacheShare> {
        let state = self.shared().state.borrow();
        let cache = state.read_cache.as_deref()?;
        let component = state.store.components.by_id(id)?;
        let of = cache.slots.of_component(component.row.serial);
        let bytes = |slots: u64| slots.saturating_mul(PIECE_SIZE);
        Some(CacheShare {
            held_bytes: bytes(of.held),
            asked_bytes: bytes(of.asked),
            kept_bytes: bytes(of.kept),
        })
    }
}
