// SPDX-License-Identifier: Apache-2.0
//! Which hosts may fail together.

use base::{Map, ShardId};
use std::rc::Rc;

/// The fault domains of hosts: of each, the domains that it is in, the outermost first. A host that
/// is in none is a domain of its own. Two copies of one object are never in the same innermost
/// domain, and no further in common than they must be. Several hosts may share a machine: they are
/// where any of them is, and no two of them have copies of one object. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostDomains(Rc<Domains>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Domains {
    /// Of each host that is in one.
    paths: Map<ShardId, Vec<String>>,
    /// Of each host that shares one.
    machines: Map<ShardId, String>,
}

impl HostDomains {
    /// Hosts, each with the domains that it is in. A name is of one domain only.
    #[must_use]
    pub fn new(paths: impl IntoIterator<Item = (ShardId, Vec<String>)>) -> Self {
        Self::on_machines(paths, [])
    }

    /// The same, with the names of the machines that hosts share. A host that is in no domain is in
    /// that of the host with the lowest number on its machine that is in one.
    #[must_use]
    pub fn on_machines(
        paths: impl IntoIterator<Item = (ShardId, Vec<String>)>,
        machines: impl IntoIterator<Item = (ShardId, String)>,
    ) -> Self {
        let paths = paths.into_iter().filter(|(_, path)| !path.is_empty());
        let mut paths: Map<ShardId, Vec<String>> = paths.collect();
        let machines: Map<ShardId, String> = machines.into_iter().collect();
        let mut found: Map<&String, Vec<String>> = Map::new();
        for (shard, machine) in &machines {
            if let Some(path) = paths.get(shard) {
                found.entry(machine).or_insert_with(|| path.clone());
            }
        }
        for (shard, machine) in &machines {
            if let Some(path) = found.get(machine) {
                paths.entry(*shard).or_insert_with(|| path.clone());
            }
        }
        Self(Rc::new(Domains { paths, machines }))
    }

    /// Whether every host counts as one of its own.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.paths.is_empty() && self.0.machines.is_empty()
    }

    /// The domains that a host is in, the outermost first.
    #[must_use]
    pub fn path(&self, shard: ShardId) -> &[String] {
        self.0.paths.get(&shard).map_or(&[], Vec::as_slice)
    }

    /// Whether two hosts are on one machine.
    #[must_use]
    pub fn are_on_one_machine(&self, one: ShardId, other: ShardId) -> bool {
        let machine = self.0.machines.get(&one);
        one == other || machine.is_some() && machine == self.0.machines.get(&other)
    }

    /// The innermost domain that a host is in.
    #[must_use]
    pub fn innermost(&self, shard: ShardId) -> Option<&str> {
        self.path(shard).last().map(String::as_str)
    }

    /// Whether two hosts count as one: what takes one away may take the other one along.
    #[must_use]
    pub fn is_shared(&self, one: ShardId, other: ShardId) -> bool {
        let innermost = self.innermost(one);
        let is_one_domain = innermost.is_some() && innermost == self.innermost(other);
        is_one_domain || self.are_on_one_machine(one, other)
    }

    /// How many domains two hosts have in common.
    #[must_use]
    pub fn closeness(&self, one: ShardId, other: ShardId) -> usize {
        let pairs = self.path(one).iter().zip(self.path(other));
        pairs.take_while(|(one, other)| one == other).count()
    }

    /// How many domains a host has in common with the closest of `others`.
    #[must_use]
    pub fn closest(&self, shard: ShardId, others: impl IntoIterator<Item = ShardId>) -> usize {
        others.into_iter().map(|other| self.closeness(shard, other)).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_one_rack_count_as_one_and_those_of_one_room_are_close() {
        let path = |path: &str| path.split('/').map(str::to_owned).collect();
        let domains = HostDomains::new([
            (ShardId(1), path("room1/rack1")),
            (ShardId(2), path("room1/rack1")),
            (ShardId(3), path("room1/rack2")),
            (ShardId(4), path("room2")),
            (ShardId(5), Vec::new()),
        ]);
        let shared = |one, other| domains.is_shared(ShardId(one), ShardId(other));
        assert!(shared(1, 2) && shared(5, 5) && shared(6, 6));
        assert!(!shared(1, 3) && !shared(1, 4) && !shared(5, 6) && !shared(4, 5));
        let close = |one, other| domains.closeness(ShardId(one), ShardId(other));
        assert_eq!((close(1, 2), close(1, 3), close(1, 4), close(5, 6)), (2, 1, 0, 0));
        assert_eq!(domains.closest(ShardId(1), [4, 3, 5].map(ShardId)), 1);
        assert_eq!(domains.closest(ShardId(1), []), 0);
        assert_eq!(domains.innermost(ShardId(3)), Some("rack2"));
        assert!(!domains.is_empty() && HostDomains::new([(ShardId(1), Vec::new())]).is_empty());
    }

    #[test]
    fn hosts_of_one_machine_count_as_one_and_are_in_one_rack() {
        let rack = |host, rack: &str| (ShardId(host), vec![rack.to_owned()]);
        let machine = |host, name: &str| (ShardId(host), name.to_owned());
        let machines = [machine(1, "a"), machine(2, "a"), machine(3, "b"), machine(4, "b")];
        let domains = HostDomains::on_machines([rack(2, "r1"), rack(5, "r1")], machines.clone());
        let shared = |one, other| domains.is_shared(ShardId(one), ShardId(other));
        assert!(shared(1, 2) && shared(3, 4) && !shared(1, 3) && !shared(3, 6) && shared(6, 6));
        assert!(shared(1, 5), "it is where its neighbour is");
        assert_eq!(domains.path(ShardId(1)), ["r1"]);
        assert!(domains.path(ShardId(3)).is_empty());
        assert!(domains.are_on_one_machine(ShardId(1), ShardId(2)));
        assert!(!domains.are_on_one_machine(ShardId(2), ShardId(5)));
        let bare = HostDomains::on_machines([], machines);
        assert!(!bare.is_empty() && bare.is_shared(ShardId(1), ShardId(2)));
        // Two of one machine count as one even where they are said to be in different racks.
        let apart = [rack(1, "r1"), rack(2, "r2")];
        let apart = HostDomains::on_machines(apart, [machine(1, "a"), machine(2, "a")]);
        assert!(apart.is_shared(ShardId(1), ShardId(2)));
    }
}
