// SPDX-License-Identifier: Apache-2.0
//! A short campaign in every test run. `gabion-storm run --seeds 1000` runs more seeds.

use storm::{Mutation, Plan, run};

const SEEDS: std::ops::Range<u64> = 1..19;

#[test]
fn no_seed_loses_or_invents_a_sector() {
    let mut operations = 0;
    for seed in SEEDS {
        let outcome = run(&Plan::of_seed(seed), None);
        if let Some(violation) = outcome.violation {
            panic!("seed {seed}: {violation} (gabion-storm replay --seed {seed})");
        }
        assert!(
            outcome.compared > 0
                || Plan::of_seed(seed).volumes.iter().all(|volume| volume.ftt == 0),
            "seed {seed}: no mirrors"
        );
        operations += outcome.operations;
    }
    assert!(operations > 10_000, "a campaign that does nothing finds nothing: {operations}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in [3, 17] {
        let plan = Plan::of_seed(seed);
        assert_eq!(run(&plan, None).digest, run(&plan, None).digest, "seed {seed}");
    }
    assert_ne!(run(&Plan::of_seed(3), None).digest, run(&Plan::of_seed(4), None).digest);
}

#[test]
fn a_broken_rule_is_found() {
    // Rule 4: a campaign that does not notice lost acknowledged writes notices nothing.
    let mutation = Mutation::by_name("answer-when-received");
    assert!(mutation.is_some(), "no such mutation");
    let found = (1..20).find(|seed| run(&Plan::of_seed(*seed), mutation).violation.is_some());
    assert!(found.is_some(), "answering before it is durable survives 19 seeds");
}
