// SPDX-License-Identifier: Apache-2.0
//! Every switch of [`Mutations`] must be noticed, or stand behind another rule.

use super::campaign::Case;
use super::*;




/// The first seed, counted from 1, in which a story fails.
pub(super) fn first_bad(from: u64, most: u64, story: impl Fn(u64)) -> Option<u64> {
    (0..most).find_map(|number| {
        let run = std::panic::AssertUnwindSafe(|| story(from + number));
        std::panic::catch_unwind(run).err().map(|_| number + 1)
    })
}

fn switched(names: &[&str]) -> Mutations {
    let mut mutations = Mutations::default();
    for name in names {
        let found = Mutations::ALL.iter().find(|(known, ..)| known == name);
        match found {
            Some((_, _, switch)) => switch(&mut mutations),
            None => assert!(*name == "none", "no switch {name}"),
        }
    }
    mutations
}

/// Prints how many seeds each switch needs: `cargo test -p diskgroup hunt -- --ignored --nocapture`,
/// `DISKGROUP_HUNT` in the environment names some: commas between them, `+` between those that are
/// to be removed together.
#[test]
#[ignore = "a table for docs/faults-store.md, takes minutes"]
fn hunt() {
    let some = asked("DISKGROUP_HUNT").unwrap_or_default();
    let lists: Vec<Vec<&str>> = match some.is_empty() {
        false => some.split(',').map(|names| names.split('+').collect()).collect(),
        true => Mutations::ALL.iter().map(|(name, ..)| vec![*name]).collect(),
    };
    for names in lists {
        let mutations = switched(&names);
        let mut seeds: Vec<Option<u64>> = (0..5)
            .map(|start| {
                first_bad(start * 10_000, 100, |seed| drop(Case::new(seed, mutations).run()))
            })
            .collect();
        seeds.sort_by_key(|seed| seed.unwrap_or(u64::MAX));
        println!("HUNT {}: {seeds:?}", names.join(" + "));
    }
}
