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

pub(super) fn switched(names: &[&str]) -> Mutations {
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
    Hybrid,
    /// Of several devices.
    HybridSpread,
    Errors,
    /// Of one area: a seed that is equal to this modulo the number of areas.
    Damage(u64),
    Lies,
    Outs,
}

fn by(name: &str) -> By {
    match name {
        "keep_lines_on_destage"
        | "fill_over_changes"
        | "headers_beside_records"
        | "trust_stale_headers"
        | "skip_header_invalidation"
        | "forget_given_slots" => By::Hybrid,
        "thaw_for_others" => By::HybridSpread,
        "retry_after_failure" | "trust_what_is_read" => By::Errors,
        "skip_read_back" => By::Lies,
        "free_held" | "give_up_unasked" | "give_up_unmarked" | "return_whole" => By::Outs,
        "truncate_damage" => By::Damage(1),
        "trust_older_map" => By::Damage(5),
        "trust_older_page" => By::Damage(6),
        "merge_unverified" => By::Damage(7),
        _ => By::Crashes,
    }
}

fn tell(by: By, seed: u64, mutations: Mutations) {
    if by == By::Hybrid {
        return drop(Case::hybrid(seed, mutations).run());
    }
    if by == By::HybridSpread {
        return drop(Case::hybrid_spread(seed, mutations).run());
    }
    if by == By::Outs {
        return drop(Case::spread(seed, mutations).with_outs());
    }
    let case = Case::new(seed, mutations);
    match by {
        By::Crashes | By::Hybrid | By::HybridSpread | By::Outs => drop(case.run()),
        By::Errors => case.with_errors(),
        By::Damage(area) => case.with_damage(area),
        By::Lies => case.with_a_lie(seed),
    }
}

/// Prints how many seeds each switch needs, if `DISKGROUP_HUNT` in the environment says which:
/// `all`, or names with commas between them and `+` between those that are to be removed together.
/// `DISKGROUP_SEEDS` is how many each gets. Run it with `--nocapture`.
#[test]
fn hunt() {
    let some = asked("DISKGROUP_HUNT").unwrap_or_default();
    let lists: Vec<Vec<&str>> = match some.as_str() {
        "" => return,
        "all" => Mutations::ALL.iter().map(|(name, ..)| vec![*name]).collect(),
        some => some.split(',').map(|names| names.split('+').collect()).collect(),
    };
    let most = asked("DISKGROUP_SEEDS").and_then(|text| text.parse().ok()).unwrap_or(80);
    for names in lists {
        let (mutations, by) = (switched(&names), by(names[0]));
        let mut seeds: Vec<Option<u64>> = [0, 10_000, 20_000]
            .map(|from| first_bad(from, most, |seed| tell(by, seed, mutations)))
            .to_vec();
        seeds.sort_by_key(|seed| seed.unwrap_or(u64::MAX));
        println!("HUNT {}: {by:?} {seeds:?}", names.join(" + "));
    }
}

/// Switches that the random tests notice soon, and the seeds that they get here: some more than
/// docs/faults.md says that they need. The others have scenarios or are hunted by hand.
const SOON: &[(&str, u64)] = &[
    ("ack_out_of_order", 15),
    ("ack_before_durable", 8),
    ("index_before_durable", 30),
    ("trust_summary", 8),
    ("skip_liveness", 8),
    ("skip_destage_flush", 8),
    ("journal_before_data", 8),
    ("skip_journal", 8),
    ("single_page_slot", 60),
    ("early_journal_reuse", 30),
    ("skip_forget", 4),
    ("free_before_destage", 4),
    ("discard_unlogged", 4),
    ("ignore_lsn", 4),
    ("forget_marks", 4),
    ("forget_history", 15),
    ("keep_lines_on_destage", 8),
    ("fill_over_changes", 60),
    ("headers_beside_records", 20),
    ("trust_stale_headers", 80),
    ("skip_header_invalidation", 300),
    ("free_held", 15),
    ("give_up_unasked", 15),
    ("give_up_unmarked", 15),
    ("return_whole", 15),
    ("direct_over_direct", 20),
    ("overtake_direct", 60),
    ("leak_discarded", 15),
    ("leak_deleted", 60),
    ("leak_reserved", 40),
];

#[test]
fn rules_that_are_broken_on_purpose_are_noticed() {
    for (name, most) in SOON {
        let mutations = switched(&[name]);
        let found = first_bad(0, *most, |seed| tell(by(name), seed, mutations));
        assert!(found.is_some(), "{name} is not noticed");
    }
}
