// SPDX-License-Identifier: Apache-2.0
//! Hosts in maintenance: an operator is about to stop them.

use super::error::{RecordError, are_unique, ensure};
use super::json::{FORMAT, Stored, from_json, to_json};
use base::ShardId;
use serde::{Deserialize, Serialize};

/// Hosts that may be in maintenance at a time.
pub const MAINTENANCE_MAX: usize = 64;

/// What becomes of the components on a host in maintenance. On none of them new ones are made.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MaintenanceMode {
    /// Those go to other hosts without which an object could not be used.
    #[default]
    EnsureAccessibility,
    /// All of them go to other hosts.
    FullEvacuation,
    /// They stay.
    None,
}

impl MaintenanceMode {
    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::EnsureAccessibility => "ensure-accessibility",
            Self::FullEvacuation => "full-evacuation",
            Self::None => "none",
        }
    }
}

/// A host in maintenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostInMaintenance {
    /// The host.
    pub shard: ShardId,
    /// What becomes of its components.
    pub mode: MaintenanceMode,
}

/// All hosts in maintenance, at [`super::maintenance_key`]; without a record there are none. One
/// record for all, so that two that enter at once do not each count on the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MaintenanceRecord {
    /// Each host once, at most [`MAINTENANCE_MAX`].
    pub hosts: Vec<HostInMaintenance>,
}

impl MaintenanceRecord {
    /// In which mode a host is in maintenance, if it is.
    #[must_use]
    pub fn mode(&self, shard: ShardId) -> Option<MaintenanceMode> {
        self.hosts.iter().find(|one| one.shard == shard).map(|one| one.mode)
    }

    /// The same with a host in a mode, or not in maintenance.
    #[must_use]
    pub fn with(&self, shard: ShardId, mode: Option<MaintenanceMode>) -> Self {
        let others = self.hosts.iter().copied().filter(|one| one.shard != shard);
        let it = mode.map(|mode| HostInMaintenance { shard, mode });
        let mut hosts: Vec<_> = others.chain(it).collect();
        hosts.sort_unstable();
        Self { hosts }
    }

    /// Whether it keeps its invariants.
    ///
    /// # Errors
    /// [`RecordError::Invalid`] with the field.
    pub fn check(&self) -> Result<(), RecordError> {
        ensure(self.hosts.len() <= MAINTENANCE_MAX, "hosts", "has too many entries")?;
        ensure(self.hosts.iter().all(|one| one.shard.0 != 0), "hosts", "names host zero")?;
        ensure(are_unique(self.hosts.iter().map(|one| one.shard)), "hosts", "names a host twice")
    }

    /// The value for the directory. Panics where the record breaks an invariant: use
    /// [`Self::check`] first.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let checked = self.check();
        assert!(checked.is_ok(), "a record that breaks its invariants: {checked:?}");
        let hosts = self.hosts.iter().map(|one| (one.shard.0, one.mode)).collect();
        to_json(&Maintenance { format: FORMAT, hosts })
    }

    /// The record in a value of the directory.
    ///
    /// # Errors
    /// [`RecordError`]: not this kind of record, another format, an invariant broken.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let stored = from_json::<Maintenance>(bytes)?;
        let one = |(host, mode)| HostInMaintenance { shard: ShardId(host), mode };
        let record = Self { hosts: stored.hosts.into_iter().map(one).collect() };
        record.check()?;
        Ok(record)
    }
}

/// As it is stored: number and mode of each host.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Maintenance {
    format: u32,
    hosts: Vec<(u32, MaintenanceMode)>,
}

impl Stored for Maintenance {
    fn format(&self) -> u32 {
        self.format
    }
}
