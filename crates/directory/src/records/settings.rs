// SPDX-License-Identifier: Apache-2.0
//! What an operator set for the whole cluster.

use super::error::{RecordError, ensure};
use super::json::{FORMAT, OTHER_FORMAT, Stored, from_json, to_json};
use super::limits::IoLimits;
use serde::{Deserialize, Serialize};

/// The format of a cluster's settings with a limit of resyncs.
pub const FORMAT_RESYNC_LIMIT: u32 = 2;
/// The format of a cluster's settings that keep copies where they are, whatever else they have.
pub const FORMAT_NO_REBALANCE: u32 = 3;
/// The format of a cluster's settings with a rebuild reserve, whatever else they have.
pub const FORMAT_REBUILD_RESERVE: u32 = 4;
/// The format of a cluster's settings that have links between shards encrypted, whatever else they
/// have.
pub const FORMAT_ENCRYPT_LINKS: u32 = 5;

/// Seconds that a copy may be away before it is made again on another host, by default: an hour,
/// long enough for a host that is started again.
pub const REPAIR_DELAY_DEFAULT: u64 = 3600;
/// The longest such delay, seconds: 30 days.
pub const REPAIR_DELAY_MAX: u64 = 30 * 24 * 3600;

/// What an operator set for the whole cluster, at [`settings_key`]. Where there is no record
/// everything is as by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingsRecord {
    /// Seconds that a copy may be away before another host gets it; at most
    /// [`REPAIR_DELAY_MAX`]. `None`: copies are made again by an operator alone.
    pub repair_delay: Option<u64>,
    /// Bytes a second that each host copies to components that are behind, [`BANDWIDTH_MIN`] to
    /// [`BANDWIDTH_MAX`]. `None`: as much as clients leave.
    pub resync_limit: Option<u64>,
    /// Whether copies move so that hosts are filled alike.
    pub rebalances: bool,
    /// Whether nothing is provisioned where what is on one host could not be made again on the
    /// others.
    pub rebuild_reserve: bool,
    /// Whether links between shards are encrypted, and their ends prove who they are.
    pub encrypt_links: bool,
}

impl Default for SettingsRecord {
    fn default() -> Self {
        let repair_delay = Some(REPAIR_DELAY_DEFAULT);
        Self {
            repair_delay,
            resync_limit: None,
            rebalances: true,
            rebuild_reserve: false,
            encrypt_links: false,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    format: u32,
    repair_delay_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resync_bytes_per_second: Option<u64>,
    /// `false`: always in format 3, sometimes in those above. Else not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rebalance: Option<bool>,
    /// `true`: always in format 4, sometimes in format 5. Else not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rebuild_reserve: Option<bool>,
    /// `true`, in format 5; else not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    encrypt_links: Option<bool>,
}

impl Stored for Settings {
    const FORMATS: &[u32] = &[
        FORMAT,
        FORMAT_RESYNC_LIMIT,
        FORMAT_NO_REBALANCE,
        FORMAT_REBUILD_RESERVE,
        FORMAT_ENCRYPT_LINKS,
    ];

    fn format(&self) -> u32 {
        self.format
    }

    fn check_format(&self) -> Result<(), RecordError> {
        let is_encrypted = self.format == FORMAT_ENCRYPT_LINKS;
        let is_told = self.encrypt_links == is_encrypted.then_some(true);
        ensure(is_told, "encrypt_links", OTHER_FORMAT)?;
        let has_all = is_encrypted || self.format == FORMAT_REBUILD_RESERVE;
        let is_kept = match self.rebuild_reserve {
            Some(is_kept) => is_kept && has_all,
            None => self.format != FORMAT_REBUILD_RESERVE,
        };
        ensure(is_kept, "rebuild_reserve", OTHER_FORMAT)?;
        let stays = match self.rebalance {
            Some(moves) => !moves && (has_all || self.format == FORMAT_NO_REBALANCE),
            None => self.format != FORMAT_NO_REBALANCE,
        };
        ensure(stays, "rebalance", OTHER_FORMAT)?;
        let has_limit = self.resync_bytes_per_second.is_some();
        let may_have = has_all || self.format == FORMAT_NO_REBALANCE;
        let is_right = may_have || has_limit == (self.format == FORMAT_RESYNC_LIMIT);
        ensure(is_right, "resync_bytes_per_second", OTHER_FORMAT)
    }
}

impl From<&SettingsRecord> for Settings {
    fn from(r: &SettingsRecord) -> Self {
        // As for a cluster: the lowest that holds everything.
        let format = match (r.rebalances, r.resync_limit) {
            _ if r.encrypt_links => FORMAT_ENCRYPT_LINKS,
            _ if r.rebuild_reserve => FORMAT_REBUILD_RESERVE,
            (false, _) => FORMAT_NO_REBALANCE,
            (true, Some(_)) => FORMAT_RESYNC_LIMIT,
            (true, None) => FORMAT,
        };
        Self {
            format,
            repair_delay_seconds: r.repair_delay,
            resync_bytes_per_second: r.resync_limit,
            rebalance: (!r.rebalances).then_some(false),
            rebuild_reserve: r.rebuild_reserve.then_some(true),
            encrypt_links: r.encrypt_links.then_some(true),
        }
    }
}

impl From<Settings> for SettingsRecord {
    fn from(s: Settings) -> Self {
        Self {
            repair_delay: s.repair_delay_seconds,
            resync_limit: s.resync_bytes_per_second,
            rebalances: s.rebalance.unwrap_or(true),
            rebuild_reserve: s.rebuild_reserve.unwrap_or(false),
            encrypt_links: s.encrypt_links.unwrap_or(false),
        }
    }
}

impl SettingsRecord {
    /// Whether it keeps its invariants.
    ///
    /// # Errors
    /// [`RecordError::Invalid`] with the field.
    pub fn check(&self) -> Result<(), RecordError> {
        let is_short = self.repair_delay.is_none_or(|delay| delay <= REPAIR_DELAY_MAX);
        ensure(is_short, "repair_delay_seconds", "is above 30 days")?;
        let limits = IoLimits { iops: None, bytes_per_second: self.resync_limit };
        limits.check()
    }

    /// The value for the directory. Panics where the record breaks an invariant: use
    /// [`Self::check`] first on what people typed.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let checked = self.check();
        assert!(checked.is_ok(), "a record that breaks its invariants: {checked:?}");
        to_json(&Settings::from(self))
    }

    /// The record in a value of the directory.
    ///
    /// # Errors
    /// [`RecordError`]: not this kind of record, another format, an invariant broken.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let record = Self::from(from_json::<Settings>(bytes)?);
        record.check()?;
        Ok(record)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const SETTINGS_LIMIT_JSON: &str = include_str!("../../fixtures/settings-2.json");
    const SETTINGS_STILL_JSON: &str = include_str!("../../fixtures/settings-3.json");
    const SETTINGS_KEPT_JSON: &str = include_str!("../../fixtures/settings-4.json");
    const SETTINGS_SECRET_JSON: &str = include_str!("../../fixtures/settings-5.json");
    const SETTINGS_JSON: &str = include_str!("../../fixtures/settings-1.json");

    pub(in crate::records) const SETTINGS: [&str; 5] = [
        SETTINGS_JSON,
        SETTINGS_LIMIT_JSON,
        SETTINGS_STILL_JSON,
        SETTINGS_KEPT_JSON,
        SETTINGS_SECRET_JSON,
    ];

    fn assert_refused(good: &str, from: &str, to: &str) {
        assert!(good.contains(from), "the fixture has no {from}");
        let bad = good.replacen(from, to, 1);
        assert!(SettingsRecord::decode(bad.as_bytes()).is_err(), "{bad} was taken");
    }

    #[test]
    fn the_fixtures_stay_readable_and_are_what_is_written() {
        let by_default = SettingsRecord::default();
        let settings = SettingsRecord { repair_delay: Some(90), ..by_default };
        let resync_limit = Some(100 << 20);
        let limited = SettingsRecord { repair_delay: None, resync_limit, ..by_default };
        let still = SettingsRecord { rebalances: false, ..limited };
        let kept = SettingsRecord { rebuild_reserve: true, ..still };
        let secret = SettingsRecord { encrypt_links: true, ..kept };
        let pairs = [
            (limited.encode(), SETTINGS_LIMIT_JSON),
            (still.encode(), SETTINGS_STILL_JSON),
            (kept.encode(), SETTINGS_KEPT_JSON),
            (secret.encode(), SETTINGS_SECRET_JSON),
            (settings.encode(), SETTINGS_JSON),
        ];
        for (written, fixture) in pairs {
            assert_eq!(String::from_utf8(written).unwrap(), fixture.trim_end());
        }
        assert_eq!(SettingsRecord::decode(SETTINGS_JSON.as_bytes()).unwrap(), settings);
        assert_eq!(SettingsRecord::decode(SETTINGS_LIMIT_JSON.as_bytes()).unwrap(), limited);
        assert_eq!(SettingsRecord::decode(SETTINGS_STILL_JSON.as_bytes()).unwrap(), still);
        assert_refused(SETTINGS_STILL_JSON, "false", "true");
        assert_refused(SETTINGS_STILL_JSON, "\"format\":3", "\"format\":2");
        assert_eq!(SettingsRecord::decode(SETTINGS_KEPT_JSON.as_bytes()).unwrap(), kept);
        let alone = SettingsRecord { rebuild_reserve: true, ..by_default };
        assert_eq!(SettingsRecord::decode(&alone.encode()).unwrap(), alone);
        assert_refused(SETTINGS_KEPT_JSON, "true", "false");
        assert_refused(SETTINGS_KEPT_JSON, "\"format\":4", "\"format\":3");
        assert_eq!(SettingsRecord::decode(SETTINGS_SECRET_JSON.as_bytes()).unwrap(), secret);
        let alone = SettingsRecord { encrypt_links: true, ..by_default };
        assert_eq!(SettingsRecord::decode(&alone.encode()).unwrap(), alone);
        let told = "\"encrypt_links\":true";
        assert_refused(SETTINGS_SECRET_JSON, told, "\"encrypt_links\":false");
        assert_refused(SETTINGS_SECRET_JSON, "\"format\":5", "\"format\":4");
        let never = SettingsRecord { repair_delay: None, ..by_default };
        assert_eq!(SettingsRecord::decode(&never.encode()).unwrap(), never);
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        for (from, to) in [("90", "2592001"), ("90", "-1"), ("90", "\"90\""), ("1", "2")] {
            assert_refused(SETTINGS_JSON, from, to);
        }
        for (from, to) in
            [("104857600", "1048575"), ("104857600", "null"), ("\"format\":2", "\"format\":1")]
        {
            assert_refused(SETTINGS_LIMIT_JSON, from, to);
        }
    }
}
