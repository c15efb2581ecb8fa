// SPDX-License-Identifier: Apache-2.0
//! Which hosts have room for one more component.

use super::view::View;
use base::{ComponentId, Map, ObjectId, ShardId};
use directory::ObjectRecord;
use placement::{Candidate, HostDomains};
use std::cmp::Reverse;

/// The groups of live hosts that are not in maintenance. What a host has free it tells from time to
/// time; what is placed on it is known at once, so that volumes made in a row spread.
pub(crate) fn candidates(view: &View) -> Vec<Candidate> {
    let shards = view.shards();
    let placed = view.placed_bytes();
    let maintenance = view.maintenance();
    let open = shards.iter().filter(|shard| maintenance.mode(shard.id).is_none());
    let live = open.filter_map(|shard| Some((shard, view.alive(shard.id)?)));
    live.flat_map(|(shard, alive)| {
        let share = shard.groups.len().max(1) as u64;
        let used = shard.capacity_bytes().saturating_sub(alive.free_bytes);
        let placed = placed.get(&shard.id).copied().unwrap_or(0);
        shard.groups.iter().map(move |group| Candidate {
            shard: shard.id,
            group: group.id,
            free_bytes: alive.free_bytes / share,
            growth_bytes: placed.saturating_sub(used) / share,
            columns: 0,
        })
    })
    .collect()
}

/// Bytes that each host may still be given, and which hosts count as one. Hosts that are down or in
/// maintenance are not among them.
#[derive(Clone, Default)]
pub(crate) struct Rooms {
    free: Map<ShardId, u64>,
    domains: HostDomains,
    stripes: Stripes,
}

/// Where the stripe sets of several objects are: they are to share the load.
#[derive(Clone, Default)]
struct Stripes {
    sets: Map<ObjectId, usize>,
    /// Components of each set by host.
    taken: Vec<Map<ShardId, u32>>,
}

impl Stripes {
    fn of(view: &View) -> Self {
        let mut stripes = Self::default();
        view.for_each_volume(|volume| {
            for set in volume.layout().sets().filter(|set| set.width > 1) {
                let objects = volume.objects.iter().skip(set.object).take(set.width.into());
                let objects = objects.filter_map(|id| view.object(*id));
                stripes.add(&objects.collect::<Vec<_>>());
            }
        });
        stripes
    }

    fn add(&mut self, set: &[ObjectRecord]) {
        let mut taken: Map<ShardId, u32> = Map::new();
        for component in set.iter().flat_map(|object| &object.components) {
            *taken.entry(component.shard).or_default() += 1;
        }
        self.sets.extend(set.iter().map(|object| (object.id, self.taken.len())));
        self.taken.push(taken);
    }

    fn count(&self, set: Option<usize>, shard: ShardId) -> u32 {
        let taken = set.and_then(|set| self.taken.get(set));
        taken.and_then(|taken| taken.get(&shard)).copied().unwrap_or(0)
    }

    fn take(&mut self, set: Option<usize>, shard: ShardId) {
        if let Some(taken) = set.and_then(|set| self.taken.get_mut(set)) {
            *taken.entry(shard).or_default() += 1;
        }
    }
}

/// Why there is no host for another component of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// Every host that is up has one.
    NoHost,
    /// Every other host is in a fault domain with one that has.
    DomainsTaken,
}

/// Where a host stands as a place for another component of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has one.
    HasOne,
    /// It is down, in maintenance, or without a disk group.
    OutOfReach,
    /// This host has one, and counts as the same.
    Shares(ShardId),
    /// It could take one.
    Able(Preference),
}

/// How a host compares with others as a place for a component: the least is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Preference {
    /// Fault domains in common with the closest host that has a component.
    pub(crate) closeness: usize,
    /// Components of the object's stripe set on the host.
    pub(crate) columns: u32,
    /// Bytes that the host may still be given.
    pub(crate) room: Reverse<u64>,
    /// The lowest number where two have the same room.
    shard: ShardId,
}

impl Rooms {
    pub(crate) fn of(view: &View) -> Self {
        let mut free: Map<ShardId, u64> = Map::new();
        for group in candidates(view) {
            let bytes = group.free_bytes.saturating_sub(group.growth_bytes);
            let sum = free.entry(group.shard).or_default();
            *sum = sum.saturating_add(bytes);
        }
        Self { free, domains: view.host_domains(), stripes: Stripes::of(view) }
    }

    /// Those of chosen hosts.
    #[cfg(test)]
    pub(crate) fn with(free: impl Iterator<Item = (ShardId, u64)>, domains: HostDomains) -> Self {
        Self { free: free.collect(), domains, stripes: Stripes::default() }
    }

    /// The stripe set of several objects that an object is one of.
    pub(crate) fn set_of(&self, object: ObjectId) -> Option<usize> {
        self.stripes.sets.get(&object).copied()
    }

    /// Where another component of `object` goes: to a host of `targets`, or else of all, as far
    /// away from the others as there is, of these to one with fewest of the object's stripe set,
    /// and of these to the one with most room. Never to one that has a component, or that counts as
    /// one with a host that has; the component that is `leaving` its host does not matter then.
    /// What goes there is taken off its room.
    ///
    /// # Errors
    /// [`NoPlace`].
    pub(crate) fn take(
        &mut self,
        object: &ObjectRecord,
        leaving: Option<ComponentId>,
        targets: Option<&[ShardId]>,
    ) -> Result<ShardId, NoPlace> {
        let (free, set) = (&self.free, self.set_of(object.id));
        let has_one = |shard: ShardId| object.components.iter().any(|one| one.shard == shard);
        let stay = object.components.iter().filter(|one| Some(one.id) != leaving);
        let stay: Vec<ShardId> = stay.map(|one| one.shard).collect();
        let hosts = free.iter().map(|(shard, room)| (*shard, *room));
        let room = |shard: &ShardId| (*shard, free.get(shard).copied().unwrap_or(0));
        let asked = targets.unwrap_or_default().iter().map(room);
        let able = hosts.filter(|_| targets.is_none()).chain(asked);
        let able: Vec<_> = able.filter(|(shard, _)| !has_one(*shard)).collect();
        let apart = able.iter().filter(|(shard, _)| self.shares(&stay, *shard).is_none());
        let worth = apart.map(|(shard, room)| self.preference((&stay, set), *shard, *room));
        let Some(Preference { shard, room: Reverse(room), .. }) = worth.min() else {
            return Err(if able.is_empty() { NoPlace::NoHost } else { NoPlace::DomainsTaken });
        };
        self.stripes.take(set, shard);
        if let Some(left) = self.free.get_mut(&shard) {
            *left = room.saturating_sub(object.sectors.saturating_mul(base::SECTOR_SIZE));
        }
        Ok(shard)
    }

    /// Bytes that all hosts may still be given together.
    pub(crate) fn bytes(&self) -> u64 {
        self.free.values().copied().fold(0, u64::saturating_add)
    }

    /// Where `host` stands for another component of an object that has some on the hosts `stay` and
    /// is of this stripe set. Of those that are able [`Rooms::take`] chooses the one that is least
    /// in order.
    pub(crate) fn standing(
        &self,
        (stay, set): (&[ShardId], Option<usize>),
        shard: ShardId,
    ) -> Standing {
        match (self.shares(stay, shard), self.free.get(&shard)) {
            _ if stay.contains(&shard) => Standing::HasOne,
            (_, None) => Standing::OutOfReach,
            (Some(other), _) => Standing::Shares(other),
            (None, Some(room)) => Standing::Able(self.preference((stay, set), shard, *room)),
        }
    }

    /// One of `stay` that counts as one with `host`.
    fn shares(&self, stay: &[ShardId], shard: ShardId) -> Option<ShardId> {
        stay.iter().copied().find(|other| self.domains.is_shared(*other, shard))
    }

    fn preference(
        &self,
        (stay, set): (&[ShardId], Option<usize>),
        shard: ShardId,
        room: u64,
    ) -> Preference {
        let closeness = self.domains.closest(shard, stay.iter().copied());
        let columns = self.stripes.count(set, shard);
        Preference { closeness, columns, room: Reverse(room), shard }
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
        let room = [(ShardId(1), 90_000), (ShardId(2), 8_000), (ShardId(3), 9_000)];
        let mut rooms = Rooms::with(room.into_iter(), HostDomains::default());
        let mut take = |target: Option<u32>| {
            rooms.take(&object, None, target.map(|host| vec![ShardId(host)]).as_deref())
        };
        assert_eq!(take(None), Ok(ShardId(3)));
        assert_eq!(take(None), Ok(ShardId(2)), "its room was taken");
        assert_eq!(take(Some(1)), Err(NoPlace::NoHost), "it has one");
        assert_eq!(take(Some(7)), Ok(ShardId(7)));
        assert_eq!(Rooms::default().take(&object, None, None), Err(NoPlace::NoHost));
    }

    #[test]
    fn a_copy_goes_to_no_domain_with_another_one_but_to_that_of_the_one_that_leaves() {
        let path = |path: &str| path.split('/').map(str::to_owned).collect();
        let domains = HostDomains::new([
            (ShardId(1), path("room1/rack1")),
            (ShardId(2), path("room1/rack1")),
            (ShardId(3), path("room1/rack2")),
            (ShardId(4), path("room2/rack3")),
            (ShardId(5), path("room2/rack3")),
        ]);
        let active = |id, host| component(id, host, ComponentState::Active);
        let object = object(1, VolumeId(1), vec![active(1, 1), active(2, 4)]);
        let take = |hosts: &[u32], leaving: Option<u64>, target: Option<u32>| {
            let room = hosts.iter().map(|host| (ShardId(*host), u64::from(*host) << 40));
            let mut rooms = Rooms::with(room, domains.clone());
            rooms.take(
                &object,
                leaving.map(ComponentId),
                target.map(|host| vec![ShardId(host)]).as_deref(),
            )
        };
        assert_eq!(take(&[1, 2, 3, 4, 5], None, None), Ok(ShardId(3)));
        assert_eq!(take(&[1, 2, 4, 5], None, None), Err(NoPlace::DomainsTaken));
        assert_eq!(take(&[1, 2, 4, 5], Some(1), None), Ok(ShardId(2)));
        assert_eq!(
            take(&[1, 2, 3, 4, 5], Some(2), None),
            Ok(ShardId(5)),
            "another room than rack2"
        );
        assert_eq!(take(&[1, 4, 6], Some(2), None), Ok(ShardId(6)), "one in no domain");
        assert_eq!(take(&[], Some(2), Some(2)), Err(NoPlace::DomainsTaken));
        assert_eq!(take(&[], Some(2), Some(5)), Ok(ShardId(5)));
        assert_eq!(take(&[1, 4], None, None), Err(NoPlace::NoHost));
    }

    #[test]
    fn parts_of_a_stripe_set_are_kept_apart_before_room_counts() {
        let active = |id, host| component(id, host, ComponentState::Active);
        let part = |id, host| object(id, VolumeId(1), vec![active(id, host)]);
        let (one, two) = (part(1, 1), part(2, 3));
        let room = [(1, 9), (2, 5), (3, 8), (4, 4)].map(|(host, room)| (ShardId(host), room << 40));
        let mut rooms = Rooms::with(room.into_iter(), HostDomains::default());
        rooms.stripes.add(&[one.clone(), two.clone()]);
        assert_eq!(rooms.take(&one, None, None), Ok(ShardId(2)), "not where the other part is");
        assert_eq!(rooms.take(&two, None, None), Ok(ShardId(4)), "nor where one goes just now");
        assert_eq!(rooms.take(&one, None, None), Ok(ShardId(3)), "where there is no other place");
        assert_eq!(rooms.take(&part(3, 1), None, None), Ok(ShardId(3)), "it is of no set");
    }

    #[test]
    fn the_one_that_is_taken_stands_first() {
        let path = |path: &str| path.split('/').map(str::to_owned).collect();
        let domains = HostDomains::new([
            (ShardId(1), path("room1/rack1")),
            (ShardId(2), path("room1/rack1")),
            (ShardId(3), path("room1/rack2")),
            (ShardId(4), path("room2/rack3")),
            (ShardId(5), path("room2/rack4")),
        ]);
        let object = object(1, VolumeId(1), vec![component(1, 1, ComponentState::Active)]);
        let room =
            [(1, 9), (2, 9), (3, 9), (4, 7), (5, 8)].map(|(host, room)| (ShardId(host), room));
        let mut rooms = Rooms::with(room.into_iter(), domains);
        let stands = |host| rooms.standing((&[ShardId(1)], None), ShardId(host));
        assert_eq!(stands(1), Standing::HasOne);
        assert_eq!(stands(2), Standing::Shares(ShardId(1)));
        assert_eq!(stands(6), Standing::OutOfReach);
        let able = (3..6).map(|host| match stands(host) {
            Standing::Able(worth) => (worth, ShardId(host)),
            other => panic!("{host}: {other:?}"),
        });
        let mut able: Vec<_> = able.collect();
        able.sort_unstable();
        let order: Vec<_> = able.iter().map(|(_, shard)| shard.0).collect();
        assert_eq!(order, [5, 4, 3]);
        assert_eq!(rooms.take(&object, None, None), Ok(able[0].1));
    }
}
