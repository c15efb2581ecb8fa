// SPDX-License-Identifier: Apache-2.0
//! Which components leave their host: it is in maintenance, or counts as one with another that has
//! a component too, or it is not the one that the volume is kept on. What is left without a host.
//! Pure.

use base::ShardId;
use directory::{
    ComponentRecord, ComponentState, MaintenanceMode, MaintenanceRecord, ObjectRecord,
};
use placement::HostDomains;
use std::cmp::Reverse;

/// Whether a component is to leave its host, which is in maintenance and up: all do in one mode, in
/// another those without which the object could not be used.
pub(crate) fn is_to_leave(
    record: &ObjectRecord,
    component: &ComponentRecord,
    maintenance: &MaintenanceRecord,
    is_up: impl Fn(ShardId) -> bool,
) -> bool {
    is_up(component.shard)
        && match maintenance.mode(component.shard) {
            Some(MaintenanceMode::FullEvacuation) => true,
            Some(MaintenanceMode::EnsureAccessibility) => {
                component.state == ComponentState::Active
                    && left_without(record, maintenance, is_up) == 0
            }
            Some(MaintenanceMode::None) | None => false,
        }
}

/// Whether a component is to leave its host, which is up, because another one is in the same fault
/// domain, or on the same host as after an adoption of what was found: of those there the best one
/// stays.
pub(crate) fn is_too_close(
    record: &ObjectRecord,
    component: &ComponentRecord,
    domains: &HostDomains,
    is_up: impl Fn(ShardId) -> bool,
) -> bool {
    if component.replaces.is_some() || !is_up(component.shard) {
        return false;
    }
    let is_owners = |one: &ComponentRecord| record.owner.is_some_and(|o| o.shard == one.shard);
    let worth = |one: &ComponentRecord| {
        let is_whole = one.state == ComponentState::Active && is_up(one.shard);
        (is_whole, is_owners(one), Reverse((one.shard, one.id)))
    };
    // One that is being replaced leaves already, and what replaces another one was given its place.
    let is_leaving =
        |one: &ComponentRecord| record.components.iter().any(|new| new.replaces == Some(one.id));
    let others = record.components.iter().filter(|one| one.id != component.id);
    let mut close = others.filter(|one| domains.is_shared(one.shard, component.shard));
    close.any(|one| one.replaces.is_none() && !is_leaving(one) && worth(one) > worth(component))
}

/// Whether a component is to leave its host, which is up, for the one that all of its volume is
/// kept on. One that is there stays, also in maintenance.
pub(crate) fn is_away(
    component: &ComponentRecord,
    home: &[ShardId],
    is_up: impl Fn(ShardId) -> bool,
    takes: impl Fn(ShardId) -> bool,
) -> bool {
    let is_there = home.contains(&component.shard);
    !is_there && is_up(component.shard) && home.iter().copied().any(takes)
}

/// Whether one of `takers` may take what the host `leaving` has of an object: it is another one,
/// and counts as one with no host that keeps a component.
pub(crate) fn has_place(
    record: &ObjectRecord,
    leaving: ShardId,
    takers: &[ShardId],
    domains: &HostDomains,
) -> bool {
    let stay = || record.components.iter().filter(|one| one.shard != leaving);
    let is_free = |shard: &ShardId| stay().all(|one| !domains.is_shared(one.shard, *shard));
    takers.iter().any(|shard| *shard != leaving && is_free(shard))
}

/// How many components count that are not on a host in maintenance: all of those may be stopped.
pub(crate) fn left_without(
    record: &ObjectRecord,
    maintenance: &MaintenanceRecord,
    is_up: impl Fn(ShardId) -> bool,
) -> usize {
    let stays = |shard: ShardId| is_up(shard) && maintenance.mode(shard).is_none();
    let is_left = |one: &&ComponentRecord| one.state == ComponentState::Active && stays(one.shard);
    record.components.iter().filter(is_left).count()
}
