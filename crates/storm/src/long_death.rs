// SPDX-License-Identifier: Apache-2.0
//! Before the story of some rounds a host is away for long ([`crate::death`]).

use crate::campaign::{SeedRun, Violation};
use crate::death::{DeadRole, LongDeath};
use crate::story::Story;
use std::time::Duration;

impl SeedRun {
    /// A host is away for longer than clients wait. The load goes on. A story that damages content
    /// needs every host, and gets them back.
    pub(crate) fn die_for_long(&mut self, death: LongDeath, story: Story) -> Result<(), Violation> {
        let Some(roles) = self.roles() else { return Ok(()) };
        let host = match death.who {
            DeadRole::Owner => roles.owner,
            DeadRole::Replica => roles.replica,
            DeadRole::Rest => roles.rest,
        };
        tracing::info!(host = host + 1, ?death, "away for long");
        self.inject_at(death.how, host);
        self.run_for(death.time(self.plan.io_timeout))?;
        if death.is_back || story.is_damage() {
            self.cluster.world.heal_all();
            self.boot_if_down(host);
            self.run_for(Duration::from_secs(1))?;
        }
        Ok(())
    }
}
