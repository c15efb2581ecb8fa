// SPDX-License-Identifier: Apache-2.0
//! The rules as written break no promise within these bounds. With a rule broken on purpose one
//! does break.

use super::*;
use crate::search::{Limits, Outcome, Progress, search};
use std::ops::ControlFlow;

const LIMITS: Limits = Limits { states: 1_000_000, bytes: 1 << 30 };

fn run(setup: Setup) -> (Outcome, Progress) {
    search(&mut Mirror::new(setup), LIMITS, |_| ControlFlow::Continue(()))
}

fn assert_holds(name: &str, setup: Setup) -> Progress {
    let (outcome, progress) = run(setup);
    assert!(matches!(outcome, Outcome::Complete), "{name}: {outcome}");
    progress
}

#[test]
fn the_rules_hold_in_every_state_of_the_smaller_setups() {
    let small = ["stale", "commits", "session-commits", "resend", "grants", "grants-resync"];
    for (name, _, setup) in SETUPS.iter().filter(|(name, ..)| small.contains(name)) {
        let progress = assert_holds(name, *setup);
        assert!(progress.states > 10_000, "{name}: only {} states", progress.states);
    }
}

#[test]
fn the_rules_hold_for_writes_that_a_returning_component_does_not_get() {
    let setup = Setup { joiner: Joiner::Deferred, reads: 0, ..Setup::SMALL };
    assert_holds("deferred", setup.faults([0, 0, 1, 2]));
    assert_holds("deferred, two blocks", Setup { blocks: 2, ..setup }.faults([0, 0, 1, 1]));
}

#[test]
fn every_broken_rule_is_noticed_and_the_rule_holds_unbroken() {
    for known in MUTATIONS {
        let (outcome, _) = run(known.setup);
        let Outcome::Broken(found) = outcome else { panic!("{}: {outcome}", known.name) };
        println!("rule {} broken, {}: {found}", known.rule, known.name);
        assert_holds(known.name, Setup { mutation: None, ..known.setup });
    }
}

/// When this fails, the rule has become needed. Then it belongs in `MUTATIONS`.
#[test]
fn what_is_not_needed_is_known() {
    for known in NOT_NEEDED {
        assert_holds(known.name, known.setup);
    }
}

#[test]
fn a_counterexample_reads_as_a_story() {
    let mut known = MUTATIONS.iter().filter(|known| known.name == "answer-before-all");
    let (outcome, _) = run(known.next().unwrap().setup);
    let story = "active components differ at rest, after 3 steps:
   1. A sends w1, lsn 1.1
   2. A has x = w1 durable, lsn 1.1
   3. w1 is complete at A, answered
      component of A: active, has w1 (lsn 1.1)
      component of B: active, has nothing (lsn 0.0)
";
    assert_eq!(outcome.to_string(), story);
}

#[test]
fn a_search_is_the_same_each_time() {
    let known = &MUTATIONS[0];
    assert_eq!(run(known.setup).0.to_string(), run(known.setup).0.to_string());
}
