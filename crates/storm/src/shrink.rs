// SPDX-License-Identifier: Apache-2.0
//! Finds a smaller run that shows the same violation as a failing seed, with fewer hosts, volumes,
//! rounds, clients and faults.

use crate::mutation::Mutation;
use crate::plan::{Plan, Trim};
use crate::runner::{plan_of, run_caught};
use crate::story::Story;

/// In how many worlds each step is tried. One is not enough: what is left out changes every later
/// draw, so the violation may need other draws to come.
const SALTS: u64 = 6;

/// Where a failure was found.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The seed.
    pub seed: u64,
    /// The story of every round; `None` for those that the seed draws.
    pub story: Option<Story>,
    /// The rule that was broken on purpose, if any.
    pub mutation: Option<Mutation>,
}

impl Case {
    /// The plan without what `trim` leaves out.
    #[must_use]
    pub fn plan(&self, trim: Trim) -> Plan {
        plan_of(self.seed, self.story, trim)
    }

    /// The kind of violation that a run without these parts finds.
    fn finds(&self, trim: Trim) -> Option<String> {
        let violation = run_caught(&self.plan(trim), self.mutation).violation?;
        Some(violation.kind().to_owned())
    }

    /// Leaves out more and more, for as long as a violation of the same kind is found. `tell` is
    /// called after each step. Returns what can be left out; `None` if the seed is clean.
    pub fn shrink(&self, mut tell: impl FnMut(&Trim)) -> Option<Trim> {
        let mut best = Trim::default();
        let kind = self.finds(best)?;
        loop {
            let smaller = steps(&best, &self.plan(best)).into_iter().find_map(|step| {
                let mut salted = (0..SALTS).map(|salt| Trim { salt: best.salt ^ salt, ..step });
                salted.find(|trim| self.finds(*trim).as_ref() == Some(&kind))
            });
            match smaller {
                Some(smaller) => best = smaller,
                None => return Some(best),
            }
            tell(&best);
        }
    }
}

/// What may be left out next. The largest parts come first.
fn steps(from: &Trim, plan: &Plan) -> Vec<Trim> {
    let mut steps = Vec::new();
    if plan.rounds.len() > 1 {
        steps.push(Trim { rounds: Some(1), ..*from });
        steps.push(Trim { first_round: from.first_round + 1, ..*from });
        steps.push(Trim { rounds: Some(plan.rounds.len() - 1), ..*from });
    }
    if plan.volumes.len() > 1 {
        steps.push(Trim { volumes: Some(1), ..*from });
    }
    if plan.hosts > 3 {
        steps.push(Trim { hosts: Some(3), ..*from });
        steps.push(Trim { hosts: Some(plan.hosts - 1), ..*from });
    }
    if !from.is_plain && (plan.groups > 1 || plan.devices > 1) {
        steps.push(Trim { is_plain: true, ..*from });
    }
    if !from.is_default {
        steps.push(Trim { is_default: true, ..*from });
    }
    if !from.is_calm {
        steps.push(Trim { is_calm: true, ..*from });
    }
    if plan.volumes.iter().any(|volume| volume.load.writers > 1 || volume.load.readers > 1) {
        steps.push(Trim { clients: Some(1), ..*from });
    }
    if plan.steps > 1 {
        steps.push(Trim { steps: Some(plan.steps / 2), ..*from });
    }
    steps
}
