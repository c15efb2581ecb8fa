// SPDX-License-Identifier: Apache-2.0
//! Which hosts have room for one more component.

use super::view::View;
use base::{HostId, Map};
use directory::ObjectRecord;
use placement::Candidate;
use std::cmp::Reverse;

/// The groups of live hosts that are not in maintenance. What a host has free it tells from time to
/// time; what is placed on it is known at once, so that volumes made in a row spread.
pub(crate) fn candidates(view: &View) -> Vec<Candidate> {
    let hosts = view.hosts();
    let placed = view.placed_bytes();
    let maintenance = view.maintenance();
    let open = hosts.iter().filter(|host| maintenance.mode(host.id).is_none());
    let live = open.filter_map(|host| Some((host, view.alive(host.id)?)));
    live.flat_map(|(host, alive)| {
        let share = host.groups.len().max(1) as u64;
        let sizes = host.groups.iter().map(|group| group.capacity_bytes);
        let capacity = sizes.fold(0, u64::saturating_add);
        let used = capacity.saturating_sub(alive.free_bytes);
        let placed = placed.get(&host.id).copied().unwrap_or(0);
        host.groups.iter().map(move |group| Candidate {
            host: host.id,
            group: group.id,
            free_bytes: alive.free_bytes / share,
            growth_bytes: placed.saturating_sub(used) / share,
        })
    })
    .collect()
}

/// Bytes that each host may still be given. Hosts that are down or in maintenance are not among
/// them.
#[derive(Clone, Default)]
pub(crate) struct Rooms(Map<HostId, u64>);

impl Rooms {
    pub(crate) fn of(view: &View) -> Self {
        let mut rooms: Map<HostId, u64> = Map::new();
        for group in candidates(view) {
            let free = group.free_bytes.saturating_sub(group.growth_bytes);
            let sum = rooms.entry(group.host).or_default();
            *sum = sum.saturating_add(free);
        }
        Self(rooms)
    }

    /// Those of chosen hosts.
    #[cfg(test)]
    pub(crate) fn with(rooms: impl Iterator<Item = (HostId, u64)>) -> Self {
        Self(rooms.collect())
    }

    /// Where another component of `object` goes: to `target`, or else to the host with most room,
    /// unless it has one. What goes there is taken off its room.
    pub(crate) fn take(&mut self, object: &ObjectRecord, target: Option<HostId>) -> Option<HostId> {
        let has_one = |host: HostId| object.components.iter().any(|one| one.host == host);
        let bytes = object.sectors.saturating_mul(base::SECTOR_SIZE);
        let chosen = match target {
            Some(host) => Some(host).filter(|host| !has_one(*host)),
            None => {
                let free = self.0.iter().filter(|(host, _)| !has_one(**host));
                // The lowest number where two have the same room.
                let most = free.max_by_key(|(host, room)| (**room, Reverse(**host)));
                most.map(|(host, _)| *host)
            }
        };
        if let Some(room) = chosen.and_then(|host| self.0.get_mut(&host)) {
            *room = room.saturating_sub(bytes);
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{component, object};
    use base::VolumeId;
    use directory::ComponentState;

    #[test]
    fn a_copy_goes_to_the_host_with_most_room_that_has_none() {
        let copies = vec![component(1, 1, ComponentState::Active)];
        let object = object(1, VolumeId(1), copies);
        let room = [(HostId(1), 90_000), (HostId(2), 8_000), (HostId(3), 9_000)];
        let mut rooms = Rooms::with(room.into_iter());
        assert_eq!(rooms.take(&object, None), Some(HostId(3)));
        assert_eq!(rooms.take(&object, None), Some(HostId(2)), "its room was taken");
        assert_eq!(rooms.take(&object, Some(HostId(1))), None, "it has one");
        assert_eq!(rooms.take(&object, Some(HostId(7))), Some(HostId(7)));
        assert_eq!(Rooms::default().take(&object, None), None);
    }
}
