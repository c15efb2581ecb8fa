// SPDX-License-Identifier: Apache-2.0
//! Which hosts may fail together.

use base::{HostId, Map};
use std::rc::Rc;

/// The fault domains of hosts: of each, the domains that it is in, the outermost first. A host that
/// is in none is a domain of its own. Two copies of one object are never in the same innermost
/// domain, and no further in common than they must be. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostDomains(Rc<Map<HostId, Vec<String>>>);

impl HostDomains {
    /// Hosts, each with the domains that it is in. A name is of one domain only.
    #[must_use]
    pub fn new(paths: impl IntoIterator<Item = (HostId, Vec<String>)>) -> Self {
        Self(Rc::new(paths.into_iter().filter(|(_, path)| !path.is_empty()).collect()))
    }

    /// Whether no host is in a domain.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The domains that a host is in, the outermost first.
    #[must_use]
    pub fn path(&self, host: HostId) -> &[String] {
        self.0.get(&host).map_or(&[], Vec::as_slice)
    }

    /// The innermost domain that a host is in.
    #[must_use]
    pub fn innermost(&self, host: HostId) -> Option<&str> {
        self.path(host).last().map(String::as_str)
    }

    /// Whether two hosts count as one: what takes one away may take the other one along.
    #[must_use]
    pub fn is_shared(&self, one: HostId, other: HostId) -> bool {
        let innermost = self.innermost(one);
        one == other || innermost.is_some() && innermost == self.innermost(other)
    }

    /// How many domains two hosts have in common.
    #[must_use]
    pub fn closeness(&self, one: HostId, other: HostId) -> usize {
        let pairs = self.path(one).iter().zip(self.path(other));
        pairs.take_while(|(one, other)| one == other).count()
    }

    /// How many domains a host has in common with the closest of `others`.
    #[must_use]
    pub fn closest(&self, host: HostId, others: impl IntoIterator<Item = HostId>) -> usize {
        others.into_iter().map(|other| self.closeness(host, other)).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_one_rack_count_as_one_and_those_of_one_room_are_close() {
        let path = |path: &str| path.split('/').map(str::to_owned).collect();
        let domains = HostDomains::new([
            (HostId(1), path("room1/rack1")),
            (HostId(2), path("room1/rack1")),
            (HostId(3), path("room1/rack2")),
            (HostId(4), path("room2")),
            (HostId(5), Vec::new()),
        ]);
        let shared = |one, other| domains.is_shared(HostId(one), HostId(other));
        assert!(shared(1, 2) && shared(5, 5) && shared(6, 6));
        assert!(!shared(1, 3) && !shared(1, 4) && !shared(5, 6) && !shared(4, 5));
        let close = |one, other| domains.closeness(HostId(one), HostId(other));
        assert_eq!((close(1, 2), close(1, 3), close(1, 4), close(5, 6)), (2, 1, 0, 0));
        assert_eq!(domains.closest(HostId(1), [4, 3, 5].map(HostId)), 1);
        assert_eq!(domains.closest(HostId(1), []), 0);
        assert_eq!(domains.innermost(HostId(3)), Some("rack2"));
        assert!(!domains.is_empty() && HostDomains::new([(HostId(1), Vec::new())]).is_empty());
    }
}
