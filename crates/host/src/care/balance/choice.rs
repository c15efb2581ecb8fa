// SPDX-License-Identifier: Apache-2.0
//! Which copy moves where, so that hosts are filled alike; pure.

use base::{ComponentId, ObjectId, ShardId};
use std::cmp::Reverse;
use std::time::Duration;

/// When copies move so that hosts are filled alike. `Default` is what production runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BalanceOptions {
    /// Thousandths of its capacity by which the fullest host is above the emptiest one before
    /// copies leave it.
    pub begin: u64,
    /// The same, down to which they go on leaving it.
    pub end: u64,
    /// Thousandths of its capacity from which on a host gives copies away also where the
    /// difference is between the two.
    pub full: u64,
    /// Time between looks.
    pub round: Duration,
    /// The pause after a move, in which hosts tell how much they have free.
    pub settle: Duration,
}

impl Default for BalanceOptions {
    fn default() -> Self {
        Self {
            begin: 300,
            end: 150,
            full: 800,
            round: Duration::from_secs(10),
            settle: Duration::from_secs(30),
        }
    }
}

/// How full a host is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fill {
    pub(super) shard: ShardId,
    pub(super) used_bytes: u64,
    pub(super) capacity_bytes: u64,
}

impl Fill {
    /// Thousandths of its capacity that are in use.
    pub(super) fn share(self) -> u64 {
        let share = u128::from(self.used_bytes) * 1000 / u128::from(self.capacity_bytes.max(1));
        u64::try_from(share).unwrap_or(u64::MAX)
    }

    fn with(self, bytes: u64) -> Self {
        Self { used_bytes: self.used_bytes.saturating_add(bytes), ..self }
    }

    fn without(self, bytes: u64) -> Self {
        Self { used_bytes: self.used_bytes.saturating_sub(bytes), ..self }
    }
}

/// By how many thousandths a host is to be above another one to give it copies. Once it has begun
/// it goes on until they are near enough.
pub(super) fn least_difference(from: Fill, has_begun: bool, options: &BalanceOptions) -> u64 {
    let goes_on = has_begun || from.share() >= options.full;
    if goes_on { options.end } else { options.begin }
}

/// How many hosts are fuller than this one: they come first.
pub(super) fn rank(of: Fill, others: &[Fill]) -> u32 {
    let worth = |fill: &Fill| (fill.share(), Reverse(fill.shard));
    others.iter().map(|other| u32::from(worth(other) > worth(&of))).sum()
}

/// A copy that may leave its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Movable {
    pub(super) component: ComponentId,
    pub(super) object: ObjectId,
    /// The members of the object's record.
    pub(super) members: u64,
    /// What it takes, or has set aside for it.
    pub(super) bytes: u64,
    /// The owner of the object is here: its own copy is the one that it reads.
    pub(super) is_owners: bool,
    /// Hosts that can take it, without two copies being closer together than now.
    pub(super) takers: Vec<ShardId>,
}

/// The copy that leaves the host `from`, and where it goes: one of another owner before one of this
/// host's, the largest first, to the emptiest host that is more than `least` below it. It never
/// makes the other one fuller than this one, so that no copy goes back and forth.
pub(super) fn choose(
    from: Fill,
    others: &[Fill],
    mut movable: Vec<Movable>,
    least: u64,
) -> Option<(Movable, ShardId)> {
    movable.sort_by_key(|one| (one.is_owners, Reverse(one.bytes), one.component));
    movable.into_iter().filter(|one| one.bytes > 0).find_map(|one| {
        let fits = |fill: &&Fill| {
            let after = fill.with(one.bytes);
            one.takers.contains(&fill.shard)
                && from.share() > fill.share().saturating_add(least)
                && after.used_bytes <= after.capacity_bytes
                && after.share() <= from.without(one.bytes).share()
        };
        let to = others.iter().filter(fits).min_by_key(|fill| (fill.share(), fill.shard))?;
        Some((one, to.shard))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fill(host: u32, used_bytes: u64, capacity_bytes: u64) -> Fill {
        Fill { shard: ShardId(host), used_bytes, capacity_bytes }
    }

    fn movable(id: u64, bytes: u64, is_owners: bool, takers: &[u32]) -> Movable {
        Movable {
            component: ComponentId(id),
            object: ObjectId(id),
            members: 0,
            bytes,
            is_owners,
            takers: takers.iter().copied().map(ShardId).collect(),
        }
    }

    fn chosen(from: Fill, others: &[Fill], movable: &[Movable]) -> Option<(u64, u32)> {
        let chosen = choose(from, others, movable.to_vec(), 0);
        chosen.map(|(one, to)| (one.component.0, to.0))
    }

    #[test]
    fn a_host_gives_from_30_percent_of_difference_on_down_to_15() {
        let options = BalanceOptions::default();
        let does = |mine: u64, other: u64, has_begun| {
            let (from, others) = (fill(1, mine, 100), [fill(2, 2 * other, 200)]);
            let least = least_difference(from, has_begun, &options);
            choose(from, &others, vec![movable(1, 1, false, &[2])], least).is_some()
        };
        assert!(does(41, 10, false) && !does(40, 10, false), "30 % are not above 30 %");
        assert!(does(26, 10, true) && !does(25, 10, true));
        assert!(does(80, 64, false), "one that is nearly full gives sooner");
        assert!(!does(79, 64, false) && !does(80, 65, false));
    }

    #[test]
    fn the_fullest_comes_first() {
        let fills = [fill(1, 5, 10), fill(2, 60, 100), fill(3, 50, 100), fill(4, 1, 100)];
        let ranks = fills.map(|of| {
            let others: Vec<_> = fills.into_iter().filter(|fill| fill.shard != of.shard).collect();
            rank(of, &others)
        });
        assert_eq!(ranks, [1, 0, 2, 3]);
    }

    #[test]
    fn the_largest_copy_goes_that_does_not_make_the_other_host_the_fuller_one() {
        let (from, others) = (fill(1, 60, 100), [fill(2, 20, 100), fill(3, 10, 100)]);
        let all = [
            movable(1, 5, false, &[2, 3]),
            movable(2, 25, false, &[2, 3]),
            movable(3, 26, false, &[2, 3]),
            movable(4, 24, true, &[2, 3]),
        ];
        assert_eq!(chosen(from, &others, &all), Some((2, 3)), "26 would leave 34 and make 36");
        assert_eq!(chosen(from, &others, &all[3..]), Some((4, 3)), "an owner's own at last");
        assert_eq!(chosen(from, &others, &[movable(1, 5, false, &[2])]), Some((1, 2)));
        assert_eq!(chosen(from, &others, &[movable(1, 5, false, &[])]), None);
        assert_eq!(chosen(from, &others, &[movable(1, 0, false, &[2])]), None, "it frees nothing");
        // Shares count, not bytes.
        let small = [fill(2, 2, 40), fill(3, 10, 400)];
        assert_eq!(chosen(from, &small, &[movable(1, 25, false, &[2, 3])]), Some((1, 3)));
    }

    proptest! {
        /// However copies lie, moves end, and each makes the fullest less full or leaves it so.
        #[test]
        fn moves_come_to_an_end(
            copies in prop::collection::vec((0_usize..4, 1_u64..60), 1..40),
            capacities in prop::collection::vec(200_u64..1500, 4),
        ) {
            let options = BalanceOptions::default();
            let mut copies = copies;
            let mut has_begun = [false; 4];
            for _ in 0..1000 {
                let fills: Vec<Fill> = (0..4).map(|at| {
                    let used = copies.iter().filter(|copy| copy.0 == at).map(|copy| copy.1).sum();
                    fill(u32::try_from(at).unwrap() + 1, used, capacities[at].max(used))
                }).collect();
                let top = fills.iter().map(|fill| fill.share()).max();
                let mut moved = None;
                for at in 0..4 {
                    if moved.is_some() {
                        break;
                    }
                    let mine = copies.iter().enumerate().filter(|(_, copy)| copy.0 == at);
                    let all = [1, 2, 3, 4];
                    let mine = mine.map(|(id, copy)| movable(id as u64, copy.1, false, &all));
                    let others = fills.iter().filter(|fill| fill.shard != fills[at].shard);
                    let others: Vec<Fill> = others.copied().collect();
                    let least = least_difference(fills[at], has_begun[at], &options);
                    moved = choose(fills[at], &others, mine.collect(), least);
                    has_begun[at] = moved.is_some();
                }
                let Some((one, to)) = moved else { return Ok(()) };
                let id = usize::try_from(one.component.0).unwrap();
                copies[id].0 = usize::try_from(to.0).unwrap() - 1;
                let now = (0..4).map(|at| {
                    let used = copies.iter().filter(|copy| copy.0 == at).map(|copy| copy.1).sum();
                    fill(1, used, capacities[at].max(used)).share()
                });
                prop_assert!(now.max() <= top);
            }
            prop_assert!(false, "copies move for ever");
        }
    }
}
