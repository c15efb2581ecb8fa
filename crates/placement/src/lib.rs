// SPDX-License-Identifier: Apache-2.0
//! What an operator may ask for, and where the components of a new object go: one per fault domain.
//! Where that is not possible, the error says why. Pure functions.
//!
//! A host that no fault domain was made for is one of its own; those on one machine count as one.
//! The preferred host comes first, or one on its machine: the volume is going to be used there, and
//! I/O on the same host needs no hop. Then come hosts as far away from the chosen ones as there
//! are, as in another room; of these the ones on which most space is likely to stay free. Volumes
//! are thin: existing ones are expected to take half of what they may still take. A group that is
//! nearly full takes no new component.
//!
//! The objects of a stripe set are there to share the load. Those go to the disk groups that have
//! fewest of the set, before anybody is preferred.
#![forbid(unsafe_code)]

mod domains;
mod rebuild;
mod volume_spec;

pub use domains::HostDomains;
pub use rebuild::{HostSpace, NotRebuilt, not_rebuilt};

pub use volume_spec::{
    FTT_MAX, NAME_MAX, STRIPE_WIDTH_MAX, SpecError, VOLUME_SIZE_MAX, VolumeSpec, check_ftt,
    check_name, check_stripe_width,
};

use base::{GroupId, Set, ShardId};
use std::cmp::Reverse;
use thiserror::Error;

/// A group with fewer free bytes takes no new component. They are for the chunk map and for
/// destage.
pub const GROUP_FREE_MIN: u64 = 64 << 20;

/// One disk group that could take a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The host of the group. It is alive.
    pub shard: ShardId,
    /// The group.
    pub group: GroupId,
    /// Unallocated capacity, bytes.
    pub free_bytes: u64,
    /// What the components there may still take, bytes. May be more than is free.
    pub growth_bytes: u64,
    /// Components there of the stripe set that is being placed.
    pub columns: u32,
}

impl Candidate {
    /// Bytes that are likely to stay free. Below zero where the components are likely to want more
    /// than there is. Free bytes alone would not do: they would send all thin volumes that are made
    /// one after the other to the same hosts.
    fn prospect(&self) -> i128 {
        i128::from(self.free_bytes) - i128::from(self.growth_bytes / 2)
    }
}

/// If this many times the capacity of a host is promised there, or more, the operator is told. Thin
/// volumes are made to promise more than there is; few of them fill to a tenth.
pub const OVERCOMMIT_MAX: u64 = 10;

/// What is promised on a host, and what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promised {
    /// What the components there may grow to, bytes.
    pub promised_bytes: u64,
    /// Capacity of all its disk groups, bytes.
    pub capacity_bytes: u64,
}

impl Promised {
    /// How many times the capacity is promised, rounded down.
    #[must_use]
    pub fn times(&self) -> u64 {
        self.promised_bytes / self.capacity_bytes.max(1)
    }

    /// Whether the operator should be told when a volume of this size is added. That is so if the
    /// volume could never be filled, or if what is promised is [`OVERCOMMIT_MAX`] times the
    /// capacity or more.
    #[must_use]
    pub fn is_overcommitted(&self, size_bytes: u64) -> bool {
        size_bytes > self.capacity_bytes || self.times() >= OVERCOMMIT_MAX
    }
}

/// Why a policy cannot be placed.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PlacementError {
    /// fewer hosts than copies
    #[error(
        "failures to tolerate {ftt} needs {needed} hosts with a disk group that has room; there \
         are {found}"
    )]
    TooFewHosts {
        /// The failures to tolerate that were asked for.
        ftt: u8,
        /// Hosts that are needed: one for each copy.
        needed: usize,
        /// Hosts that could take a component.
        found: usize,
        /// Live hosts that have disk groups, but no room on them.
        without_room: Vec<ShardId>,
    },
    /// hosts enough, but too many of them may fail together
    #[error(
        "failures to tolerate {ftt} needs {needed} fault domains with a host that has room; there \
         are {found} ('gabion domain list'; a host in no domain is one of its own, with all \
         its shards)"
    )]
    TooFewDomains {
        /// The failures to tolerate that were asked for.
        ftt: u8,
        /// Fault domains that are needed: one for each copy.
        needed: usize,
        /// Fault domains with a host that could take a component.
        found: usize,
    },
}

/// Chooses a group for each of the `ftt + 1` copies, no two on hosts that count as one, none on a
/// host in `refused`. Those hosts said that they have no room, which is newer than what a candidate
/// says.
///
/// # Errors
/// [`PlacementError`].
pub fn place(
    ftt: u8,
    preferred: Option<ShardId>,
    candidates: &[Candidate],
    refused: &[ShardId],
    domains: &HostDomains,
) -> Result<Vec<Candidate>, PlacementError> {
    let needed = usize::from(ftt) + 1;
    let has_room = |c: &Candidate| c.free_bytes >= GROUP_FREE_MIN && !refused.contains(&c.shard);
    let with_room: Vec<Candidate> = candidates.iter().copied().filter(has_room).collect();
    let is_preferred =
        |shard| preferred.is_some_and(|preferred| domains.are_on_one_machine(preferred, shard));
    let mut chosen: Vec<Candidate> = Vec::with_capacity(needed);
    while chosen.len() < needed {
        let is_free =
            |c: &&Candidate| chosen.iter().all(|other| !domains.is_shared(other.shard, c.shard));
        let worth = |c: &&Candidate| {
            let closest = domains.closest(c.shard, chosen.iter().map(|other| other.shard));
            (closest, c.columns, !is_preferred(c.shard), Reverse(c.prospect()), c.shard, c.group)
        };
        let Some(next) = with_room.iter().filter(is_free).min_by_key(worth) else {
            let found = chosen.len();
            return Err(too_few(ftt, found, candidates, &with_room));
        };
        chosen.push(*next);
    }
    Ok(chosen)
}

/// Chooses groups for each of the `width` objects of a stripe set as [`place`] does for one. What
/// the ones before got counts: groups that have fewer of the set come first, and each object is
/// expected to grow to `bytes_each`.
///
/// # Errors
/// [`PlacementError`].
pub fn place_set(
    ftt: u8,
    preferred: Option<ShardId>,
    candidates: &mut [Candidate],
    refused: &[ShardId],
    domains: &HostDomains,
    (width, bytes_each): (u8, u64),
) -> Result<Vec<Vec<Candidate>>, PlacementError> {
    candidates.iter_mut().for_each(|candidate| candidate.columns = 0);
    let mut set = Vec::with_capacity(usize::from(width));
    for _ in 0..width {
        let chosen = place(ftt, preferred, candidates, refused, domains)?;
        for taken in &chosen {
            let is_taken = |c: &&mut Candidate| (c.shard, c.group) == (taken.shard, taken.group);
            if let Some(candidate) = candidates.iter_mut().find(is_taken) {
                candidate.columns += 1;
                candidate.growth_bytes = candidate.growth_bytes.saturating_add(bytes_each);
            }
        }
        set.push(chosen);
    }
    Ok(set)
}

/// Why no more than `found` copies have a place.
fn too_few(
    ftt: u8,
    found: usize,
    candidates: &[Candidate],
    with_room: &[Candidate],
) -> PlacementError {
    let needed = usize::from(ftt) + 1;
    let hosts = |all: &[Candidate]| all.iter().map(|c| c.shard).collect::<Set<ShardId>>();
    let able = hosts(with_room);
    if able.len() >= needed {
        return PlacementError::TooFewDomains { ftt, needed, found };
    }
    let without_room = hosts(candidates).difference(&able).copied().collect();
    PlacementError::TooFewHosts { ftt, needed, found: able.len(), without_room }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn candidate(host: u32, group: u64, free_mib: u64) -> Candidate {
        let free_bytes = free_mib << 20;
        let (shard, group) = (ShardId(host), GroupId(group));
        Candidate { shard, group, free_bytes, growth_bytes: 0, columns: 0 }
    }

    /// The hosts that were chosen.
    fn numbers(placed: Result<Vec<Candidate>, PlacementError>) -> Result<Vec<u32>, PlacementError> {
        placed.map(|chosen| chosen.iter().map(|c| c.shard.0).collect())
    }

    #[test]
    fn prefers_the_users_host_then_the_emptiest() {
        let all = [candidate(1, 10, 100), candidate(2, 20, 900), candidate(3, 30, 500)];
        let hosts = |ftt, preferred| {
            let placed = place(ftt, preferred, &all, &[], &HostDomains::default());
            numbers(placed)
        };
        assert_eq!(hosts(1, Some(ShardId(1))), Ok(vec![1, 2]));
        assert_eq!(hosts(1, None), Ok(vec![2, 3]));
        assert_eq!(
            hosts(3, None),
            Err(PlacementError::TooFewHosts { ftt: 3, needed: 4, found: 3, without_room: vec![] })
        );
    }

    #[test]
    fn the_preferred_machine_has_one_copy_on_whichever_of_its_hosts_has_most_room() {
        let all = [
            candidate(1, 10, 100),
            candidate(2, 20, 900),
            candidate(3, 30, 950),
            candidate(4, 40, 800),
        ];
        let machine = |host: u32| (ShardId(host), format!("m{}", host.div_ceil(2)));
        let domains = HostDomains::on_machines([], (1..=4).map(machine));
        let hosts = |ftt, preferred| {
            let placed = place(ftt, Some(ShardId(preferred)), &all, &[], &domains);
            numbers(placed)
        };
        assert_eq!(hosts(1, 1), Ok(vec![2, 3]));
        assert_eq!(hosts(1, 4), Ok(vec![3, 2]));
        let too_few = PlacementError::TooFewDomains { ftt: 2, needed: 3, found: 2 };
        assert_eq!(hosts(2, 1), Err(too_few));
    }

    #[test]
    fn an_overcommitment_is_one_that_cannot_end_well() {
        let load = |promised_bytes| Promised { promised_bytes, capacity_bytes: 4 << 30 };
        assert!(!load(4 << 30).is_overcommitted(4 << 30));
        assert!(load(5 << 30).is_overcommitted(5 << 30), "it can never be full");
        assert!(!load((40 << 30) - 1).is_overcommitted(1 << 30));
        assert!(load(40 << 30).is_overcommitted(1 << 30));
        assert_eq!(load(62 << 40).times(), 15_872);
        assert!(Promised { promised_bytes: 1, capacity_bytes: 0 }.is_overcommitted(1));
    }

    #[test]
    fn thin_volumes_spread_before_anything_is_written() {
        let mut all = [candidate(1, 10, 900), candidate(2, 20, 900), candidate(3, 30, 880)];
        let mut taken = [0; 4];
        for _ in 0..30 {
            let placed = place(1, Some(ShardId(1)), &all, &[], &HostDomains::default());
            for chosen in placed.expect("room") {
                let at = all.iter().position(|c| c.shard == chosen.shard).expect("one of them");
                all[at].growth_bytes += 100 << 20;
                taken[at] += 1;
            }
        }
        assert_eq!(taken, [30, 15, 15, 0], "more than there is at the end");
    }

    #[test]
    fn hosts_without_room_are_left_out_and_named() {
        let full = GROUP_FREE_MIN.div_ceil(1 << 20) - 1;
        let all = [
            candidate(1, 10, full),
            candidate(1, 11, full),
            candidate(2, 20, 900),
            candidate(3, 30, full),
            candidate(3, 31, 500),
            candidate(4, 40, 800),
        ];
        let hosts = |ftt, refused: &[ShardId]| {
            let placed = place(ftt, Some(ShardId(1)), &all, refused, &HostDomains::default());
            numbers(placed)
        };
        assert_eq!(hosts(2, &[]), Ok(vec![2, 4, 3]), "not the preferred one");
        assert_eq!(hosts(1, &[ShardId(2)]), Ok(vec![4, 3]));
        let without_room = vec![ShardId(1), ShardId(2)];
        assert_eq!(
            hosts(2, &[ShardId(2)]),
            Err(PlacementError::TooFewHosts { ftt: 2, needed: 3, found: 2, without_room })
        );
    }

    /// Hosts in racks, these in rooms: `h` is in rack `h / 10`, which is in room `h / 100`.
    fn in_racks(all: &[Candidate]) -> HostDomains {
        HostDomains::new(all.iter().map(|c| {
            let (rack, room) = (c.shard.0 / 10, c.shard.0 / 100);
            (c.shard, vec![format!("room{room}"), format!("rack{rack}")])
        }))
    }

    #[test]
    fn copies_are_in_different_racks_and_rooms_where_there_are() {
        let all = [
            candidate(111, 1, 900),
            candidate(112, 2, 990),
            candidate(121, 3, 980),
            candidate(122, 4, 970),
            candidate(211, 5, 100),
        ];
        let domains = in_racks(&all);
        let hosts = |ftt, preferred: u32, refused: &[ShardId]| {
            let placed = place(ftt, Some(ShardId(preferred)), &all, refused, &domains);
            numbers(placed)
        };
        assert_eq!(hosts(1, 111, &[]), Ok(vec![111, 211]), "the other room, full as it is");
        assert_eq!(hosts(2, 111, &[]), Ok(vec![111, 211, 121]));
        assert_eq!(hosts(1, 111, &[ShardId(211)]), Ok(vec![111, 121]), "the other rack");
        let too_few = |ftt, found| {
            Err(PlacementError::TooFewDomains { ftt, needed: usize::from(ftt) + 1, found })
        };
        assert_eq!(hosts(2, 111, &[ShardId(211)]), too_few(2, 2));
        assert_eq!(hosts(3, 111, &[]), too_few(3, 3));
        let without_room = [111, 121, 122, 211].map(ShardId);
        assert_eq!(
            hosts(1, 112, &without_room),
            Err(PlacementError::TooFewHosts {
                ftt: 1,
                needed: 2,
                found: 1,
                without_room: without_room.to_vec()
            })
        );
    }

    proptest! {
        /// No group has two objects of a set more than another one that could have them, whatever
        /// room there is.
        #[test]
        fn the_objects_of_a_stripe_set_share_all_groups(
            free in prop::collection::vec(64_u64..1000, 3..9),
            ftt in 0u8..3,
            width in 1u8..13,
        ) {
            let all = (1..).zip(&free).map(|(host, free)| candidate(host, host.into(), *free));
            let mut all: Vec<Candidate> = all.collect();
            let domains = HostDomains::default();
            let set = place_set(ftt, Some(ShardId(1)), &mut all, &[], &domains, (width, 1 << 30));
            let set = set.unwrap();
            prop_assert_eq!(set.len(), usize::from(width));
            let mut counts = vec![0_usize; free.len()];
            for chosen in &set {
                let shards: Set<ShardId> = chosen.iter().map(|c| c.shard).collect();
                prop_assert_eq!(shards.len(), usize::from(ftt) + 1);
                for host in shards {
                    counts[usize::try_from(host.0).unwrap() - 1] += 1;
                }
            }
            let (most, fewest) = (counts.iter().max(), counts.iter().min());
            prop_assert!(most.unwrap() - fewest.unwrap() <= 1, "{:?}", counts);
            prop_assert!(set[0].iter().any(|c| c.shard == ShardId(1)), "where it is used");
        }

        /// Thin volumes on hosts that are alike: in one rack none is promised more than another one
        /// and the largest volume together, whatever came before.
        #[test]
        fn no_host_of_a_rack_gets_more_than_a_volume_above_another(
            sizes in prop::collection::vec(1_u64..64, 1..60),
            (racks, each) in (2u32..5, 1u32..5),
            is_flat: bool,
            ftt in 0u8..2,
        ) {
            let hosts = (0..racks).flat_map(|rack| (0..each).map(move |host| rack * 10 + host));
            let mut all: Vec<_> = hosts.map(|host| candidate(host, host.into(), 10_000)).collect();
            let domains = if is_flat { HostDomains::default() } else { in_racks(&all) };
            for size in &sizes {
                for chosen in place(ftt, None, &all, &[], &domains).unwrap() {
                    let it = all.iter_mut().find(|it| it.shard == chosen.shard);
                    it.unwrap().growth_bytes += size << 20;
                }
            }
            let largest = sizes.iter().max().unwrap() << 20;
            let rack = |c: &Candidate| if is_flat { 0 } else { c.shard.0 / 10 };
            for (one, other) in all.iter().flat_map(|one| all.iter().map(move |it| (one, it))) {
                let is_fair = one.growth_bytes <= other.growth_bytes + largest;
                prop_assert!(is_fair || rack(one) != rack(other), "{:?}", all);
            }
        }

        /// The same cluster gives the same places, in whatever order it is told of.
        #[test]
        fn the_order_of_candidates_says_nothing(
            groups in
                prop::collection::btree_map((1u32..40, 1u64..4), (64u64..500, 0u64..4), 4..30),
            (ftt, preferred) in (0u8..3, 1u32..40),
            turn in 0usize..30,
        ) {
            let all = groups.iter().map(|((host, group), (free, growth))| Candidate {
                growth_bytes: growth << 28,
                ..candidate(*host, *group, *free)
            });
            let mut all: Vec<_> = all.collect();
            let domains = in_racks(&all);
            let preferred = Some(ShardId(preferred));
            let places = |all: &[Candidate]| place(ftt, preferred, all, &[], &domains);
            let first = places(&all);
            let turn = turn % all.len();
            all.rotate_left(turn);
            prop_assert_eq!(&places(&all), &first);
            all.reverse();
            prop_assert_eq!(&places(&all), &first);
        }

        /// As many copies as there are racks with room have a place, none of them in one rack; and
        /// no room has two of them while another one with room has none.
        #[test]
        fn never_two_copies_in_one_rack(
            groups in prop::collection::vec(
                ((1u32..4, 1u32..4, 1u32..4), any::<u64>(), 0u64..1000),
                0..20,
            ),
            is_flat: bool,
            ftt in 0u8..4,
        ) {
            let host = |(room, rack, host)| room * 100 + rack * 10 + host;
            let all: Vec<_> = groups.iter().map(|(h, g, f)| candidate(host(*h), *g, *f)).collect();
            let domains = if is_flat { HostDomains::default() } else { in_racks(&all) };
            let part = |shard: ShardId, size: u32| if is_flat { shard.0 } else { shard.0 / size };
            let refused = ShardId(111);
            let able = all.iter().filter(|c| c.free_bytes >= GROUP_FREE_MIN && c.shard != refused);
            let racks: Set<u32> = able.clone().map(|c| part(c.shard, 10)).collect();
            let rooms: Set<u32> = able.map(|c| part(c.shard, 100)).collect();
            let needed = usize::from(ftt) + 1;
            let placed = place(ftt, None, &all, &[refused], &domains);
            prop_assert_eq!(placed.is_ok(), racks.len() >= needed);
            if let Ok(chosen) = placed {
                let count = |size| {
                    let parts = chosen.iter().map(|c| part(c.shard, size));
                    parts.collect::<Set<_>>().len()
                };
                prop_assert_eq!(count(10), needed);
                prop_assert_eq!(count(100), needed.min(rooms.len()));
                prop_assert!(chosen.iter().all(|c| c.free_bytes >= GROUP_FREE_MIN));
                prop_assert!(chosen.iter().all(|c| c.shard != refused));
            }
        }
    }
}
