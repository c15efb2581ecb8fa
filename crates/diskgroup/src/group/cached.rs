// SPDX-License-Identifier: Apache-2.0
//! Read cache that is kept for components (docs/operations/read-cache.md).

use crate::state::DiskGroup;
use crate::types::CacheShare;
use base::ComponentId;
use format::PIECE_SIZE;

impl DiskGroup {
    /// Keeps so many bytes of the read cache for each of these components from now on, and none for
    /// others: what they read lately does not go for what others read. Together they keep at most
    /// [`CACHE_KEPT_MAX_PERCENT`](crate::CACHE_KEPT_MAX_PERCENT) of the cache, each the same part of
    /// what was asked. Whole pieces of 64 KiB; components that are not there are left out. Nothing
    /// in an all-flash group. Forgotten when the group is closed.
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
