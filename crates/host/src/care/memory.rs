// SPDX-License-Identifier: Apache-2.0
//! How much memory the host holds, and for what. The budgets are kept elsewhere: `diskgroup` gives
//! pages up and refuses groups, `object` and `peer` let requests wait. Here it is looked at once a
//! second, so that the most so far can be told.

#[cfg(test)]
mod tests;

use crate::config::MemoryBudgets;
use crate::storage::Storage;
use diskgroup::{MemoryParts, StoreMemory};
use env::Env;
use object::Objects;
use operator::{MemoryPart, MemoryReport, MemoryUse};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Between two looks. What comes and goes within one is not seen, but for checksum pages: their
/// most is exact.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// See the module. Cheap to clone.
#[derive(Clone)]
pub(crate) struct MemoryWatch(Rc<WatchInner>);

struct WatchInner {
    machine: u64,
    budgets: MemoryBudgets,
    store: StoreMemory,
    storage: Storage,
    objects: Objects,
    most: Cell<MemoryParts>,
    most_writes: Cell<u64>,
}

impl MemoryWatch {
    /// Of a machine with so many bytes of memory.
    pub(crate) fn new(
        machine: u64,
        budgets: MemoryBudgets,
        store: StoreMemory,
        storage: &Storage,
        objects: &Objects,
    ) -> Self {
        Self(Rc::new(WatchInner {
            machine,
            budgets,
            store,
            storage: storage.clone(),
            objects: objects.clone(),
            most: Cell::default(),
            most_writes: Cell::default(),
        }))
    }

    /// What the disk groups share.
    pub(crate) fn store(&self) -> StoreMemory {
        self.0.store.clone()
    }

    /// Runs for ever.
    pub(crate) async fn run(self, env: Env) {
        loop {
            env.sleep(LOOK_EVERY).await;
            self.look();
        }
    }

    /// What is held now: by tables of disk groups, and by writes under way.
    fn look(&self) -> (MemoryParts, u64) {
        let groups = self.0.storage.groups();
        let used = groups.iter().map(|group| group.memory_used());
        let used = used.fold(MemoryParts::default(), MemoryParts::plus);
        let most = self.0.most.get();
        self.0.most.set(MemoryParts {
            buffers: used.buffers.max(most.buffers),
            maps: used.maps.max(most.maps),
            caches: used.caches.max(most.caches),
            under_way: used.under_way.max(most.under_way),
        });
        let writes = self.0.objects.write_bytes_under_way();
        self.0.most_writes.set(self.0.most_writes.get().max(writes));
        (used, writes)
    }

    /// What an operator is told. The budgets of all parts are the total.
    pub(crate) fn report(&self, host: String) -> MemoryReport {
        let (used, writes) = self.look();
        let WatchInner { machine, budgets, store, most, most_writes, .. } = &*self.0;
        let (needed, most) = (store.needed(), most.get());
        let (_, pages, most_pages) = store.checksums();
        let counted = |name, budget_bytes, used, most| MemoryPart {
            name,
            budget_bytes,
            used_bytes: Some(used),
            most_bytes: Some(most),
        };
        let uncounted = |name, budget_bytes| MemoryPart {
            name,
            budget_bytes,
            used_bytes: None,
            most_bytes: None,
        };
        let left = store.table_bytes().saturating_sub(needed.sum());
        let parts = vec![
            counted(MemoryUse::ChecksumPages, budgets.checksums, pages, most_pages),
            counted(MemoryUse::WriteBuffers, needed.buffers, used.buffers, most.buffers),
            counted(MemoryUse::ChunkMaps, needed.maps, used.maps, most.maps),
            counted(MemoryUse::ReadCaches, needed.caches, used.caches, most.caches),
            uncounted(MemoryUse::UnderWay, needed.under_way),
            counted(MemoryUse::Traffic, budgets.traffic(), writes, most_writes.get()),
            uncounted(MemoryUse::Process, budgets.process),
            counted(MemoryUse::Left, left, 0, 0),
        ];
        MemoryReport { host, machine_bytes: *machine, total_bytes: budgets.total, parts }
    }
}
