// SPDX-License-Identifier: Apache-2.0
//! Which hosts fail together: those that are shards of one machine, two on each in campaigns, and
//! those in one fault domain, which operators make meanwhile (`domains.rs`).

use super::Plan;
use base::Rng;

/// Seeds from here on have fault domains.
pub(crate) const DOMAINS_FROM: u64 = 287_000_000;
/// Seeds from here on have such machines, in one of two.
pub(crate) const SHARDS_FROM: u64 = 297_000_000;

impl Plan {
    /// Draws how many machines have two hosts: so few that one machine more than there are copies
    /// of any object remains.
    pub(super) fn with_pairs(self) -> Self {
        let mut rng = Rng::stream(self.seed, 31);
        let copies = self.volumes.iter().map(|volume| u32::from(volume.ftt) + 1).max().unwrap_or(1);
        let most = self.hosts.saturating_sub(copies + 1).min(self.hosts / 2);
        if self.seed < SHARDS_FROM || most == 0 || rng.below(2) == 0 {
            return self;
        }
        let pairs = 1 + u32::try_from(rng.below(most.into())).unwrap_or(0);
        Self { pairs, ..self }
    }

    /// How many machines have several hosts.
    #[must_use]
    pub fn pairs(&self) -> usize {
        usize::try_from(self.pairs).unwrap_or(0)
    }

    /// The name of the machine that a host shares with another one.
    #[must_use]
    pub fn machine_of(&self, host: usize) -> Option<String> {
        let machine = host / usize::try_from(self.shards.max(1)).unwrap_or(1);
        (machine < self.pairs()).then(|| format!("machine{}", machine + 1))
    }

    /// What operators call the host that a shard is on: its machine, or the shard itself.
    #[must_use]
    pub fn host_of(&self, host: usize) -> String {
        self.machine_of(host).unwrap_or_else(|| format!("host{}", host + 1))
    }

    /// The other host on a host's machine, where two are on each.
    #[must_use]
    pub fn mate_of(&self, host: usize) -> Option<usize> {
        self.machine_of(host).map(|_| host ^ 1)
    }
}
