// SPDX-License-Identifier: Apache-2.0
//! Whether what is on any one host could be made again on the others. Pure.

use base::ShardId;

/// What a host has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostSpace {
    /// The host.
    pub shard: ShardId,
    /// Bytes that components take there, or that are set aside for them.
    pub used_bytes: u64,
    /// Bytes that components could still take.
    pub free_bytes: u64,
}

impl HostSpace {
    /// What it and `other` have together.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            shard: self.shard,
            used_bytes: self.used_bytes.saturating_add(other.used_bytes),
            free_bytes: self.free_bytes.saturating_add(other.free_bytes),
        }
    }
}

/// A host whose components would find no place on the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotRebuilt {
    /// The host.
    pub shard: ShardId,
    /// Bytes that it has.
    pub needed_bytes: u64,
    /// Bytes that are free on the others together.
    pub free_bytes: u64,
}

/// Of the hosts whose components would find no place on the others, the one that misses most;
/// `None`: any one host may be lost. `more_bytes` more are about to be taken, nobody knows where,
/// so they count as taken from what is free elsewhere. Which hosts may hold which copies does not
/// count. So it is the largest host that misses most: its size, less what is free on all.
#[must_use]
pub fn not_rebuilt(hosts: &[HostSpace], more_bytes: u64) -> Option<NotRebuilt> {
    let free = hosts.iter().fold(0, |sum: u64, host| sum.saturating_add(host.free_bytes));
    let without = |host: &HostSpace| NotRebuilt {
        shard: host.shard,
        needed_bytes: host.used_bytes,
        free_bytes: (free - host.free_bytes).saturating_sub(more_bytes),
    };
    let lacking = hosts.iter().map(without).filter(|one| one.free_bytes < one.needed_bytes);
    lacking.max_by_key(|one| one.needed_bytes - one.free_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(host: u32, used_bytes: u64, free_bytes: u64) -> HostSpace {
        HostSpace { shard: ShardId(host), used_bytes, free_bytes }
    }

    #[test]
    fn the_host_that_misses_most_is_named() {
        let named = |hosts: &[HostSpace], more| {
            let one = not_rebuilt(hosts, more)?;
            Some((one.shard.0, one.needed_bytes, one.free_bytes))
        };
        let even = [space(1, 60, 40), space(2, 60, 40), space(3, 60, 40)];
        assert_eq!(named(&even, 0), None);
        assert_eq!(named(&even, 20), None);
        assert!(named(&even, 21).is_some(), "what is about to be taken counts");
        let large = [space(1, 60, 40), space(2, 130, 70), space(3, 60, 40)];
        assert_eq!(named(&large, 0), Some((2, 130, 80)));
        let two = [space(1, 70, 30), space(2, 90, 10)];
        assert_eq!(named(&two, 0), Some((2, 90, 30)), "both miss 60, and one is named");
        let (both, rest) = (space(1, 60, 40).with(space(2, 60, 40)), space(3, 60, 119));
        assert_eq!(named(&[both, rest], 0), Some((1, 120, 119)), "two that are lost together");
        assert_eq!(named(&[space(1, 1, 99)], 0), Some((1, 1, 0)), "there is no other host");
        assert_eq!(named(&[space(1, 0, 100)], 0), None, "it has nothing");
        assert_eq!(named(&[], 7), None);
    }
}
