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

/// Which random test looks for a broken rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    Crashes,
    Errors,
    Damage,
}

fn by(name: &str) -> By {
    match name {
        "retry_after_failure" | "trust_what_is_read" => By::Errors,
        "merge_unverified" | "truncate_damage" | "trust_older_map" => By::Damage,
        _ => By::Crashes,
    }
}

fn tell(by: By, seed: u64, mutations: Mutations) {
    let case = Case::new(seed, mutations);
    match by {
        By::Crashes => drop(case.run()),
        By::Errors => case.with_errors(),
        By::Damage => case.with_damage(seed),
    }
}

/// Prints how many seeds each switch needs: `cargo test -p diskgroup hunt -- --ignored --nocapture`;
/// `DISKGROUP_HUNT` in the environment names some: commas between them, `+` between those that
/// are to be removed together.
#[test]
#[ignore = "a table for docs/faults-store.md, takes minutes"]
fn hunt() {
    let some = asked("DISKGROUP_HUNT").unwrap_or_default();
    let lists: Vec<Vec<&str>> = match some.is_empty() {
        false => some.split(',').map(|names| names.split('+').collect()).collect(),
        true => Mutations::ALL.iter().map(|(name, ..)| vec![*name]).collect(),
    };
    for names in lists {
        let (mutations, by) = (switched(&names), by(names[0]));
        let mut seeds: Vec<Option<u64>> = [0, 10_000, 20_000]
            .map(|from| first_bad(from, 80, |seed| tell(by, seed, mutations)))
            .to_vec();
        seeds.sort_by_key(|seed| seed.unwrap_or(u64::MAX));
        println!("HUNT {}: {by:?} {seeds:?}", names.join(" + "));
    }
}
