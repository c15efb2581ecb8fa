// SPDX-License-Identifier: Apache-2.0
//! What checks look at.

use crate::report::{
    GroupReport, Health, HostReport, HostState, MetricsReport, ReceiverReport, StatusReport,
    TokenReport,
};

/// Over so many seconds, at most, is seen what counters gained.
pub const WINDOW_SECONDS: u64 = 600;

/// Everything that checks look at.
#[derive(Clone, Debug, Default)]
pub struct HealthFacts {
    /// Seconds since 1970.
    pub now: u64,
    /// What all shards that answered say together; none where none did.
    pub status: Option<StatusReport>,
    /// What each of them says by itself.
    pub metrics: Vec<MetricsReport>,
    /// The tokens of the API; none where nobody said.
    pub tokens: Option<Vec<TokenReport>>,
    /// Who is told of what is found; none where nobody said.
    pub receivers: Option<Vec<ReceiverReport>>,
    /// What shards had counted at the beginning of the window; none of those that began since.
    pub before: Vec<ShardCounts>,
    /// What is wrong with the members of the directory; none where the hosts do not keep it by
    /// themselves, or nobody said.
    pub members: Option<Vec<String>>,
    /// How worn devices are; without those of which nothing tells.
    pub wear: Vec<DeviceWear>,
}

/// How worn a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceWear {
    /// Its path.
    pub device: String,
    /// Part of its rated writes that is used up, percent; more than 100 where it is beyond them.
    pub percent: u8,
}

/// What a shard had counted at some time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardCounts {
    /// Its name.
    pub shard: String,
    /// Links that were dropped because nothing was heard any more.
    pub silent_links: u64,
    /// Requests of clients that failed.
    pub failed: u64,
    /// Copies of writes that were measured on their way to other hosts, and what they took
    /// together, microseconds.
    pub there: (u64, u64),
    /// The same of copies on the host itself.
    pub here: (u64, u64),
}

impl ShardCounts {
    /// What a shard has counted by now.
    #[must_use]
    pub fn of(said: &MetricsReport) -> Self {
        let stage = |name: &str| {
            let found = said.stages.iter().find(|one| one.stage == name);
            found.map_or((0, 0), |one| (one.measured, one.took_us))
        };
        Self {
            shard: said.status.host.clone(),
            silent_links: said.links.silent,
            failed: said.all_traffic.iter().map(|one| one.failed).sum(),
            there: stage("copy there"),
            here: stage("copy here"),
        }
    }

    /// What was gained since. `None`: the shard was started anew in between.
    #[must_use]
    pub fn since(&self, before: &Self) -> Option<Self> {
        let pair = |now: (u64, u64), then: (u64, u64)| {
            Some((now.0.checked_sub(then.0)?, now.1.checked_sub(then.1)?))
        };
        Some(Self {
            shard: self.shard.clone(),
            silent_links: self.silent_links.checked_sub(before.silent_links)?,
            failed: self.failed.checked_sub(before.failed)?,
            there: pair(self.there, before.there)?,
            here: pair(self.here, before.here)?,
        })
    }
}

impl HealthFacts {
    /// What shards counted in the window. A shard whose beginning of it is not known is left out.
    /// `None`: none is known.
    pub(super) fn gained(&self) -> Option<Vec<ShardCounts>> {
        let gained: Vec<ShardCounts> = self
            .metrics
            .iter()
            .filter_map(|said| {
                let now = ShardCounts::of(said);
                let before = self.before.iter().find(|before| before.shard == now.shard)?;
                now.since(before)
            })
            .collect();
        (!gained.is_empty()).then_some(gained)
    }

    /// The hosts that do not answer or are down, though nobody stopped them on purpose.
    pub(super) fn missed(&self) -> Vec<&HostReport> {
        let hosts = self.status.iter().flat_map(|status| &status.hosts);
        hosts.filter(|one| one.state != HostState::Up && one.maintenance.is_none()).collect()
    }

    /// The disk groups of the shards that answered. `None`: there is none.
    pub(super) fn groups(&self) -> Option<&[GroupReport]> {
        let groups = self.status.as_ref().map(|status| status.groups.as_slice());
        groups.filter(|groups| !groups.is_empty())
    }

    /// The worst that `gabion status` says; green where nobody answers.
    #[must_use]
    pub fn status_health(&self) -> Health {
        self.status.as_ref().map_or(Health::Green, |status| status.health)
    }
}
