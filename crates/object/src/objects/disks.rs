// SPDX-License-Identifier: Apache-2.0
//! Disk groups that come and go while this host runs.
//!
//! A group may close and open again. To the owners of the components on it this looks as if the
//! host had been started anew: the components have what is durable, and know no session. Grants
//! do not depend on disks. Those that others gave to this host stay, and so do those that it gave.

use super::{Objects, Route};
use base::{ComponentId, GroupId, Set, ShardId};
use directory::ComponentState;
use diskgroup::DiskGroup;

impl Objects {
    /// Takes a group out of service, in one step: nothing on it is served from this call on, and
    /// what is not known on the other groups counts as out of service, not as lost. The caller
    /// closes it. `None` where it is not open.
    #[must_use]
    pub fn take_group(&self, id: GroupId) -> Option<DiskGroup> {
        let inner = &self.0.0;
        let group = inner.context.disks.take(id)?;
        let components = group.components();
        inner.replicas.forget(&components);
        let components: Set<ComponentId> = components.into_iter().collect();
        let slots = inner.slots.borrow();
        let owners = slots.values().filter_map(|slot| match &slot.route {
            Route::Local(owner) => Some(owner.clone()),
            Route::Unknown | Route::Remote(..) => None,
        });
        let owners: Vec<_> = owners.collect();
        drop(slots);
        for owner in owners {
            owner.break_legs(&components, "its disk group was closed");
        }
        Some(group)
    }

    /// One more group, out of service until [`Objects::add_group`].
    pub fn expect_group(&self) {
        self.0.0.context.disks.add_closed();
    }

    /// A group that is out of service is given up: what was on it is unknown from now on.
    pub fn forget_group(&self) {
        self.0.0.context.disks.remove_closed();
    }

    /// A group that was out of service serves.
    pub fn add_group(&self, group: DiskGroup) {
        let inner = &self.0.0;
        let components: Set<ComponentId> = group.components().into_iter().collect();
        inner.context.disks.add_open(group);
        let mut known = Vec::new();
        for slot in inner.slots.borrow().values() {
            let Some((record, _)) = &slot.record else { continue };
            for component in record.components.iter().filter(|c| components.contains(&c.id)) {
                let is_active = component.state == ComponentState::Active;
                known.push((component.id, is_active.then_some(component.seat)));
            }
        }
        for (component, active) in known {
            inner.replicas.note_state(component, active);
        }
    }

    /// The record of a host was written anew, at that revision of the directory: its disks may be
    /// others, and what failed there may go well now.
    pub fn host_changed(&self, shard: ShardId, revision: u64) {
        self.0.0.context.hosts.borrow_mut().insert(shard, revision);
    }
}
