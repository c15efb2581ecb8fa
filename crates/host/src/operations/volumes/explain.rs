// SPDX-License-Identifier: Apache-2.0
//! Why the copies of a volume are where they are, why not elsewhere, and where another one would
//! go. It asks what repairs and moves ask ([`Rooms`]), so it says what they would do.

use crate::cluster::room::{Preference, Rooms, Standing};
use crate::operations::{Operations, Outcome, no_such_volume, usage};
use base::{Map, ShardId};
use directory::{ComponentRecord, ObjectRecord, VolumeRecord};
use operator::{LayoutReport, PlaceKind, PlaceReport, PlacementReport};

/// Layouts that are told of. A volume has more than one where some of its copies have moved.
const LAYOUTS_MAX: usize = 16;

/// Where the copies of some parts are.
#[derive(Default, PartialEq, Eq, PartialOrd, Ord)]
struct Copies {
    /// Hosts with a copy that is to stay.
    stay: Vec<ShardId>,
    /// Hosts whose copy goes once another one has taken its place.
    leave: Vec<ShardId>,
    /// The stripe set that they are of.
    set: Option<usize>,
}

/// What the hosts of one layout are compared by.
struct Layout<'a> {
    operations: &'a Operations,
    copies: &'a Copies,
    rooms: &'a Rooms,
    /// The host that the volume is kept on, and its shards.
    home: Option<(&'a str, &'a [ShardId])>,
}

impl Operations {
    pub(crate) fn explain(&self, name: &str) -> Outcome<PlacementReport> {
        placement::check_name(name).map_err(usage)?;
        let volume = self.view.volume(name).ok_or_else(|| no_such_volume(name))?;
        let rooms = Rooms::of(&self.view);
        let mut parts: Map<Copies, Vec<u64>> = Map::new();
        for (part, id) in (1_u64..).zip(&volume.objects) {
            let copies = self.view.object(*id).map(|object| copies_of(&object, &rooms));
            parts.entry(copies.unwrap_or_default()).or_default().push(part);
        }
        let mut parts: Vec<_> = parts.into_iter().collect();
        parts.sort_by(|(_, one), (_, other)| one.cmp(other));
        let more = parts.split_off(parts.len().min(LAYOUTS_MAX));
        let more_parts = more.iter().map(|(_, parts)| parts.iter().map(|_| 1).sum::<u64>()).sum();
        let home = volume.kept_on.as_deref().map(|host| (host, self.view.shards_of(host)));
        let home = home.as_ref().map(|(host, shards)| (*host, shards.as_slice()));
        let layout = |(copies, parts): (Copies, Vec<u64>)| {
            let layout = Layout { operations: self, copies: &copies, rooms: &rooms, home };
            LayoutReport { parts, hosts: layout.hosts() }
        };
        let copies = u64::from(volume.ftt) + 1;
        let layouts = parts.into_iter().map(layout).collect();
        let VolumeRecord { name: volume, kept_on, .. } = volume;
        Ok(PlacementReport { volume, copies, kept_on, layouts, more_parts })
    }
}

fn copies_of(object: &ObjectRecord, rooms: &Rooms) -> Copies {
    let is_leaving =
        |one: &&ComponentRecord| object.components.iter().any(|new| new.replaces == Some(one.id));
    let (leave, stay): (Vec<_>, Vec<_>) = object.components.iter().partition(is_leaving);
    let hosts = |of: Vec<&ComponentRecord>| {
        let mut hosts: Vec<_> = of.into_iter().map(|one| one.shard).collect();
        hosts.sort_unstable();
        hosts
    };
    Copies { stay: hosts(stay), leave: hosts(leave), set: rooms.set_of(object.id) }
}

impl Layout<'_> {
    fn hosts(&self) -> Vec<PlaceReport> {
        let (mut able, mut others) = (Vec::new(), Vec::new());
        let Copies { stay, leave, set } = self.copies;
        let all = self.operations.view.shards();
        for shard in all.iter().filter(|shard| !leave.contains(&shard.id)) {
            if let Some((kept_on, shards)) = self.home
                && !shards.contains(&shard.id)
                && !stay.contains(&shard.id)
            {
                others.push(self.not(shard.id, &format!("the volume is kept on {kept_on}")));
                continue;
            }
            match self.rooms.standing((stay, *set), shard.id) {
                Standing::HasOne => {}
                Standing::Able(worth) => able.push((worth, shard.id)),
                Standing::Shares(other) => {
                    others.push(self.not(shard.id, &self.shared(shard.id, other)))
                }
                Standing::OutOfReach => {
                    others.push(self.not(shard.id, self.out_of_reach(shard.id)))
                }
            }
        }
        able.sort_unstable();
        let leaving = "it goes once the new copy has everything".to_owned();
        let leave = leave.iter().map(|shard| self.report(*shard, PlaceKind::Copy, leaving.clone()));
        let copies = stay.iter().map(|shard| self.copy(*shard)).chain(leave);
        copies.chain(self.able(&able)).chain(others).collect()
    }

    fn report(&self, shard: ShardId, place: PlaceKind, why: String) -> PlaceReport {
        let view = &self.operations.view;
        let domains = view.host_domains().path(shard).to_vec();
        PlaceReport { host: view.shard_name(shard), domains, place, room_bytes: None, why }
    }

    fn not(&self, shard: ShardId, why: &str) -> PlaceReport {
        self.report(shard, PlaceKind::Not, why.to_owned())
    }

    /// That `other`, which counts as one with `host`, has a copy.
    fn shared(&self, shard: ShardId, other: ShardId) -> String {
        let view = &self.operations.view;
        let how = match view.host_domains().are_on_one_machine(shard, other) {
            true => "on the same host",
            false => "in the same fault domain",
        };
        format!("{}, {how}, has a copy", view.shard_name(other))
    }

    fn out_of_reach(&self, shard: ShardId) -> &'static str {
        let view = &self.operations.view;
        if view.maintenance().mode(shard).is_some() {
            "in maintenance: it gets nothing new"
        } else if view.alive(shard).is_none() {
            "down"
        } else {
            "it has no disk group"
        }
    }

    /// A host that has a copy. No other one may be in its innermost domain.
    fn copy(&self, shard: ShardId) -> PlaceReport {
        let view = &self.operations.view;
        let domains = view.host_domains();
        let others = || self.copies.stay.iter().copied().filter(|other| *other != shard);
        if let Some(other) = others().find(|other| domains.is_shared(*other, shard)) {
            let why = format!("{}: one of the two is to move", self.shared(shard, other));
            return self.report(shard, PlaceKind::TooClose, why);
        }
        if let Some((kept_on, shards)) = self.home {
            let why = match shards.contains(&shard) {
                true => format!("the volume is kept on {kept_on}"),
                false => format!("it moves to {kept_on}, which the volume is kept on"),
            };
            return self.report(shard, PlaceKind::Copy, why);
        }
        let path = domains.path(shard);
        let common = domains.closest(shard, others());
        let within = |depth: usize| path.get(depth).map(String::as_str);
        let why = match (path.last(), common.checked_sub(1).and_then(within)) {
            (None, _) => "no other copy on this host".to_owned(),
            (Some(inner), None) => format!("no other copy in {inner}"),
            (Some(inner), Some(outer)) => {
                format!("no other copy in {inner}; another one is in {outer} too")
            }
        };
        self.report(shard, PlaceKind::Copy, why)
    }

    /// Hosts that could take a copy, the best first.
    fn able(&self, able: &[(Preference, ShardId)]) -> Vec<PlaceReport> {
        let Some(((best, first), others)) = able.split_first() else { return Vec::new() };
        let view = &self.operations.view;
        let name = view.shard_name(*first);
        let why = match others.first() {
            None => "another copy would go here: no other host could take it",
            Some((next, _)) if next.closeness > best.closeness => {
                "another copy would go here: it is farthest from the other copies"
            }
            Some((next, _)) if next.columns > best.columns => {
                "another copy would go here: it has fewest parts of the same stripe"
            }
            Some((next, _)) if next.room == best.room => "another copy would go here",
            Some(_) => "another copy would go here: it has most room",
        };
        let with_room = |report: PlaceReport, worth: &Preference| PlaceReport {
            room_bytes: Some(worth.room.0),
            ..report
        };
        let mut all = vec![with_room(self.report(*first, PlaceKind::Next, why.to_owned()), best)];
        all.extend(others.iter().map(|(worth, shard)| {
            let path = view.host_domains().path(*shard).to_vec();
            let shared = worth.closeness.checked_sub(1).and_then(|depth| path.get(depth));
            let why = match shared.filter(|_| worth.closeness > best.closeness) {
                Some(domain) => format!("it could, but there is a copy in {domain} already"),
                None if worth.columns > best.columns => {
                    "it could, but there are more parts of the same stripe".to_owned()
                }
                None if worth.room == best.room => format!("it could as well as {name}"),
                None => format!("it could; {name} has more room"),
            };
            with_room(self.report(*shard, PlaceKind::Able, why), worth)
        }));
        all
    }
}
