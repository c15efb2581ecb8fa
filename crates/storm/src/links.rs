// SPDX-License-Identifier: Apache-2.0
//! An operator who now and then has links be encrypted or not, whatever else goes on.

use crate::cluster::{Asking, Cluster};
use crate::plan::{LinkPlan, Plan};
use base::{Instant, Rng};
use operator::{Command, CommandReply};
use std::time::Duration;

/// The random numbers of the operator.
const STREAM: u64 = 43;
/// Longest pause between two of its commands.
const PAUSE_MAX_MS: u64 = 30_000;
/// How long it waits for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Who says whether links are encrypted.
pub(crate) struct Switches {
    rng: Rng,
    next_at: Instant,
    asked: Option<(Asking, Instant)>,
}

impl Switches {
    pub(crate) fn new(seed: u64) -> Self {
        Self { rng: Rng::stream(seed, STREAM), next_at: Instant::default(), asked: None }
    }

    /// Asks for the other thing, if it is time for that. It is refused where a host is away.
    pub(crate) fn go_on(&mut self, plan: &Plan, cluster: &Cluster) {
        let now = cluster.world.now();
        if let Some((asking, until)) = self.asked.take() {
            if !asking.is_over() && now < until {
                self.asked = Some((asking, until));
                return;
            }
            let answer = asking.take();
            tracing::info!(?answer, "links");
            base::hit_if(matches!(answer, Some(CommandReply::Ok(_))), base::Probe::LinksSwitched);
            self.next_at = now + Duration::from_millis(self.rng.below(PAUSE_MAX_MS));
        }
        if plan.links != LinkPlan::Switched || now < self.next_at {
            return;
        }
        let machines = u64::try_from(cluster.machines.len()).unwrap_or(1);
        let through = usize::try_from(self.rng.below(machines)).unwrap_or(0);
        let on = self.rng.below(3) > 0;
        let asked = cluster.asked(through, Command::EncryptLinks { on });
        self.asked = asked.map(|asking| (asking, now + PATIENCE));
    }
}
