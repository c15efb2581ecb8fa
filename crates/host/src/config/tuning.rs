// SPDX-License-Identifier: Apache-2.0
//! Settings of a host that have good defaults, and their bounds.

use super::{ConfigError, ensure};
use directory::ClusterKind;
use diskgroup::GroupKind;
use serde::{Deserialize, Serialize};

/// Least milliseconds of `stall_ms`: below it, the pauses between attempts to reach a replica alone
/// are longer.
const STALL_MS_MIN: u64 = 50;
/// Most milliseconds of `stall_ms`: clients give up long before.
const STALL_MS_MAX: u64 = 600_000;
/// Most seconds of `io_timeout_seconds`: a day.
const IO_TIMEOUT_SECONDS_MAX: u64 = 86_400;

/// Most hours of `scrub_period_hours`: a year.
const SCRUB_PERIOD_HOURS_MAX: u64 = 8760;
/// Bytes per second that scrub of a disk group may have: a pass should end some day, and a larger
/// figure than a device can give means nothing.
pub(crate) const SCRUB_RATES: std::ops::RangeInclusive<u64> = 64 << 10..=16 << 30;

/// Seconds of `device_stuck_seconds`: below, a busy magnetic disk that repeats a read would count
/// as stuck; above, nobody would still wait.
const STUCK_SECONDS: std::ops::RangeInclusive<u64> = 5..=600;
/// Longest latency of late devices, microseconds: well below what counts as stuck.
const LATE_US_MAX: u64 = 1_000_000;
/// Least rate of late devices: a request of 1 MiB then takes 16 s, below what counts as stuck.
const LATE_RATE_MIN: u64 = 64 << 10;

/// Most hours of `orphan_keep_hours`: ten years.
const ORPHAN_KEEP_HOURS_MAX: u64 = 87_600;
/// Most hours of `deleted_keep_hours`: a year.
const DELETED_KEEP_HOURS_MAX: u64 = 8760;
/// Most hours of `directory_backup_hours`: a year.
const BACKUP_HOURS_MAX: u64 = 8760;

/// Settings with defaults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tuning {
    /// Seconds that a volume's I/O waits for its components before it fails with EIO.
    pub io_timeout_seconds: u64,
    /// Milliseconds that a silent replica may hold up writes before it is marked absent.
    pub stall_ms: u64,
    /// Hours from the beginning of a scrub pass to that of the next.
    pub scrub_period_hours: u64,
    /// Most bytes per second that scrub reads, per disk group.
    pub scrub_bytes_per_second: u64,
    /// Percent of a new cache device that a hybrid group uses as its read cache.
    pub read_cache_percent: u8,
    /// Percent of a capacity device's space from which on `gabion status` warns.
    pub space_warn_percent: u8,
    /// Percent of a capacity device's space from which on it takes no components of new volumes.
    pub space_full_percent: u8,
    /// Seconds that a device may leave an I/O unanswered before its disk group stops.
    pub device_stuck_seconds: u64,
    /// Where `write_bytes` of `[memory]` stood before; it counts where that is not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_memory_bytes: Option<u64>,
    /// Where `link_bytes` of `[memory]` stood before; it counts where that is not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_memory_bytes: Option<u64>,
    /// Hours for which a component that no record of the directory accounts for is surely kept.
    pub orphan_keep_hours: u64,
    /// Hours for which a deleted volume can be brought back, if its space is not needed before.
    pub deleted_keep_hours: u64,
    /// Hours between two backups of the directory on the host's disk groups; 0: none are taken.
    pub directory_backup_hours: u64,
    /// For tests and benchmarks: device files, as `groups` names them, that behave as magnetic
    /// disks of 7200 rpm would (150 MB/s, 8 ms to a random place) while the host runs. Block
    /// devices are refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub magnetic: Vec<String>,
    /// For tests and benchmarks: how slow all device files of `groups` are while the host runs that
    /// are not in `magnetic`. Block devices are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<LateTuning>,
}

/// How slow devices are: bytes pass one after the other, and each request ends `latency_us` after
/// its last byte has passed, however many are under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LateTuning {
    /// Microseconds that each request takes beside its bytes; 1,000,000 at most.
    pub latency_us: u64,
    /// Bytes that pass in a second; at least 64 KiB.
    pub bytes_per_second: u64,
}

impl LateTuning {
    fn check(&self) -> Result<(), ConfigError> {
        let latency = self.latency_us <= LATE_US_MAX;
        ensure(latency, "tuning.late.latency_us", "is more than 1000000")?;
        let rate = self.bytes_per_second >= LATE_RATE_MIN;
        ensure(rate, "tuning.late.bytes_per_second", "is less than 65536")
    }
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            io_timeout_seconds: 60,
            stall_ms: 2000,
            scrub_period_hours: 7 * 24,
            scrub_bytes_per_second: 8 << 20,
            read_cache_percent: 70,
            space_warn_percent: 80,
            space_full_percent: 90,
            device_stuck_seconds: 30,
            write_memory_bytes: None,
            link_memory_bytes: None,
            orphan_keep_hours: 7 * 24,
            deleted_keep_hours: 24,
            directory_backup_hours: 24,
            magnetic: Vec::new(),
            late: None,
        }
    }
}

impl Tuning {
    /// What a disk group of a cluster is.
    #[must_use]
    pub fn group_kind(&self, kind: ClusterKind) -> GroupKind {
        let read_cache_percent = self.read_cache_percent;
        match kind {
            ClusterKind::AllFlash => GroupKind::AllFlash,
            ClusterKind::Hybrid => GroupKind::Hybrid { read_cache_percent },
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let stall = (STALL_MS_MIN..=STALL_MS_MAX).contains(&self.stall_ms);
        ensure(stall, "tuning.stall_ms", "is not between 50 and 600000")?;
        let timeout = (1..=IO_TIMEOUT_SECONDS_MAX).contains(&self.io_timeout_seconds);
        ensure(timeout, "tuning.io_timeout_seconds", "is not between 1 and 86400")?;
        let period = (1..=SCRUB_PERIOD_HOURS_MAX).contains(&self.scrub_period_hours);
        ensure(period, "tuning.scrub_period_hours", "is not between 1 and 8760")?;
        let rate = SCRUB_RATES.contains(&self.scrub_bytes_per_second);
        let rule = "is not between 65536 and 17179869184";
        ensure(rate, "tuning.scrub_bytes_per_second", rule)?;
        let part = (1..=90).contains(&self.read_cache_percent);
        ensure(part, "tuning.read_cache_percent", "is not between 1 and 90")?;
        let full = (1..=100).contains(&self.space_full_percent);
        ensure(full, "tuning.space_full_percent", "is not between 1 and 100")?;
        let warn = (1..=self.space_full_percent).contains(&self.space_warn_percent);
        ensure(warn, "tuning.space_warn_percent", "is not between 1 and space_full_percent")?;
        let keep = (1..=ORPHAN_KEEP_HOURS_MAX).contains(&self.orphan_keep_hours);
        ensure(keep, "tuning.orphan_keep_hours", "is not between 1 and 87600")?;
        let keep = (1..=DELETED_KEEP_HOURS_MAX).contains(&self.deleted_keep_hours);
        ensure(keep, "tuning.deleted_keep_hours", "is not between 1 and 8760")?;
        let backup = self.directory_backup_hours <= BACKUP_HOURS_MAX;
        ensure(backup, "tuning.directory_backup_hours", "is more than 8760")?;
        let stuck = STUCK_SECONDS.contains(&self.device_stuck_seconds);
        ensure(stuck, "tuning.device_stuck_seconds", "is not between 5 and 600")?;
        self.late.iter().try_for_each(LateTuning::check)
    }
}
