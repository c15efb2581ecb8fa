// SPDX-License-Identifier: Apache-2.0
//! Runs many seeds on several threads. Each seed has a world of its own.

use crate::campaign::{RunOutcome, Violation, run};
use crate::mutation::Mutation;
use crate::plan::{Plan, Trim};
use crate::story::Story;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;

/// One seed in so many runs twice, to see that it gives the same digest.
const TWICE_EVERY: u64 = 20;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct SeedJob {
    /// The first seed.
    pub first: u64,
    /// How many seeds, at most.
    pub seeds: u64,
    /// How many threads; at least one is used.
    pub jobs: usize,
    /// Run every seed twice, not one in twenty.
    pub is_twice: bool,
    /// The rule to break; `None` for none.
    pub mutation: Option<Mutation>,
    /// The story of every round, instead of those that the seed draws.
    pub story: Option<Story>,
}

/// The result of one seed.
#[derive(Clone, Debug)]
pub struct SeedDone {
    /// The seed.
    pub seed: u64,
    /// What the run found.
    pub outcome: RunOutcome,
    /// Whether both runs gave the same digest. `None` if it ran once.
    pub is_repeatable: Option<bool>,
    /// Whether the seed's plan goes beyond what the system promises.
    pub is_beyond: bool,
}

/// The plan of a seed without what `trim` leaves out. If a story is named, every round tells it.
#[must_use]
pub fn plan_of(seed: u64, story: Option<Story>, trim: Trim) -> Plan {
    let mut plan = trim.apply(Plan::of_seed(seed));
    if let Some(story) = story {
        plan.tell_only(story);
    }
    plan
}

/// As [`run`], but a panic becomes a violation of its own kind.
#[must_use]
pub fn run_caught(plan: &Plan, mutation: Option<Mutation>) -> RunOutcome {
    std::panic::catch_unwind(|| run(plan, mutation)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let violation = Violation::Panicked(text.unwrap_or_else(|| "no message".to_owned()));
        RunOutcome { violation: Some(violation), ..RunOutcome::default() }
    })
}

/// Calls `work` with 0, 1, 2 and so on until it returns nothing, on so many threads; one at least
/// is used. `see` gets each result as it is there, in any order, until it returns false.
pub fn on_threads<T: Send>(
    jobs: usize,
    work: impl Fn(u64) -> Option<T> + Sync,
    mut see: impl FnMut(T) -> bool,
) {
    let (next, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let (sender, done) = mpsc::sync_channel(jobs);
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            let sender = sender.clone();
            let (next, is_over, work) = (&next, &is_over, &work);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let Some(one) = work(next.fetch_add(1, Ordering::Relaxed)) else { return };
                    if sender.send(one).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for one in done {
            if !see(one) {
                is_over.store(true, Ordering::Relaxed);
            }
        }
    });
}

impl SeedJob {
    /// Runs all seeds, or until `see` returns false. `see` is called for each seed when it ends.
    pub fn run(&self, see: impl FnMut(SeedDone) -> bool) {
        on_threads(self.jobs, |at| (at < self.seeds).then(|| self.one(self.first + at)), see);
    }

    fn one(&self, seed: u64) -> SeedDone {
        let plan = plan_of(seed, self.story, Trim::default());
        let outcome = run_caught(&plan, self.mutation);
        let is_due = self.mutation.is_none() && seed.is_multiple_of(TWICE_EVERY);
        let again = self.is_twice || is_due;
        let is_repeatable =
            again.then(|| run_caught(&plan, self.mutation).digest == outcome.digest);
        SeedDone { seed, outcome, is_repeatable, is_beyond: plan.is_beyond() }
    }
}
