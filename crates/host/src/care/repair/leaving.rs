// SPDX-License-Identifier: Apache-2.0
//! Which components leave their host: it is in maintenance, or counts as one with another that has
//! a component too, or it is not the one that the volume is kept on. What is left without a host.
//! Pure.

use base::HostId;
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
    is_up: impl Fn(HostId) -> bool,
) -> bool {
    is_up(component.host)
        && match maintenance.mode(component.host) {
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
    is_up: impl Fn(HostId) -> bool,
) -> bool {
    if component.replaces.is_some() || !is_up(component.host) {
        return false;
    }
    let is_owners = |one: &ComponentRecord| record.owner.is_some_and(|o| o.host == one.host);
    let worth = |one: &ComponentRecord| {
        let is_whole = one.state == ComponentState::Active && is_up(one.host);
        (is_whole, is_owners(one), Reverse((one.host, one.id)))
    };
    // One that is being replaced leaves already, and what replaces another one was given its place.
    let is_leaving =
        |one: &ComponentRecord| record.components.iter().any(|new| new.replaces == Some(one.id));
    let others = record.components.iter().filter(|one| one.id != component.id);
    let mut close = others.filter(|one| domains.is_shared(one.host, component.host));
    close.any(|one| one.replaces.is_none() && !is_leaving(one) && worth(one) > worth(component))
}

/// Whether a component is to leave its host, which is up, for the one that all of its volume is
/// kept on. One that is there stays, also in maintenance.
pub(crate) fn is_away(
    component: &ComponentRecord,
    home: &[HostId],
    is_up: impl Fn(HostId) -> bool,
    takes: impl Fn(HostId) -> bool,
) -> bool {
    let is_there = home.contains(&component.host);
    !is_there && is_up(component.host) && home.iter().copied().any(takes)
}

/// Whether one of `takers` may take what the host `leaving` has of an object: it is another one,
/// and counts as one with no host that keeps a component.
pub(crate) fn has_place(
    record: &ObjectRecord,
    leaving: HostId,
    takers: &[HostId],
    domains: &HostDomains,
) -> bool {
    let stay = || record.components.iter().filter(|one| one.host != leaving);
    let is_free = |host: &HostId| stay().all(|one| !domains.is_shared(one.host, *host));
    takers.iter().any(|host| *host != leaving && is_free(host))
}

/// How many components count that are not on a host in maintenance: all of those may be stopped.
pub(crate) fn left_without(
    record: &ObjectRecord,
    maintenance: &MaintenanceRecord,
    is_up: impl Fn(HostId) -> bool,
) -> usize {
    let stays = |host: HostId| is_up(host) && maintenance.mode(host).is_none();
    let is_left = |one: &&ComponentRecord| one.state == ComponentState::Active && stays(one.host);
    record.components.iter().filter(is_left).count()
}
