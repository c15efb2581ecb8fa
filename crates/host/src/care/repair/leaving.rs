// SPDX-License-Identifier: Apache-2.0
//! Which components leave a host in maintenance, and what is left without that host. Pure.

use base::HostId;
use directory::{
    ComponentRecord, ComponentState, MaintenanceMode, MaintenanceRecord, ObjectRecord,
};

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
                    && left_without(record, component.host, maintenance, is_up) == 0
            }
            Some(MaintenanceMode::None) | None => false,
        }
}

/// How many components count that are neither on `host` nor on another host in maintenance: those
/// may be stopped too.
pub(crate) fn left_without(
    record: &ObjectRecord,
    host: HostId,
    maintenance: &MaintenanceRecord,
    is_up: impl Fn(HostId) -> bool,
) -> usize {
    let stays = |other: HostId| other != host && is_up(other) && maintenance.mode(other).is_none();
    let is_left = |one: &&ComponentRecord| one.state == ComponentState::Active && stays(one.host);
    record.components.iter().filter(is_left).count()
}
