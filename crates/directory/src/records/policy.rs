// SPDX-License-Identifier: Apache-2.0
//! Policies: rules under a name, which many volumes follow. A volume's record has the rules that
//! are applied to it, and says of which version of which policy they are.

use super::cache::check_percents;
use super::json::{OTHER_FORMAT, Stored, from_json, to_json};
use super::layout::check_width;
use super::{
    Affinity, FORMAT, FTT_MAX, IoLimits, NAME_RULE, REPAIR_DELAY_MAX, RecordError, ensure, is_name,
};
use serde::{Deserialize, Serialize};

/// The policy that every cluster has. Where there is no record of it, it is as
/// [`PolicyRecord::built_in`] says.
pub const DEFAULT_POLICY: &str = "default";

/// The format of the record of a policy that has limits.
const FORMAT_LIMITED: u32 = 2;
/// The format of the record of a policy that stripes or forces, with or without limits.
const FORMAT_PROVISIONING: u32 = 3;

/// The format of the record of a policy that keeps volumes on one host.
const FORMAT_POLICY_AFFINITY: u32 = 4;
/// The format of the record of a policy that keeps read cache, whatever else it has.
const FORMAT_POLICY_CACHE: u32 = 5;

/// How long a copy of a volume may be away before another host gets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum RepairDelay {
    /// As long as the settings of the cluster say.
    #[default]
    Cluster,
    /// For ever: an operator has it made again.
    Never,
    /// So many seconds, at most [`REPAIR_DELAY_MAX`].
    Seconds(u64),
}

impl RepairDelay {
    /// Whether it keeps its invariants.
    ///
    /// # Errors
    /// [`RecordError::Invalid`] with the field.
    pub fn check(self) -> Result<(), RecordError> {
        let is_short = !matches!(self, Self::Seconds(delay) if delay > REPAIR_DELAY_MAX);
        ensure(is_short, "repair_delay", "is above 30 days")
    }
}

/// Rules under a name, at [`super::policy_key`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRecord {
    /// As in its key; see [`is_name`].
    pub name: String,
    /// 1 and up; rises by one with every change.
    pub version: u64,
    /// Failures that volumes are to tolerate, 0 to [`FTT_MAX`].
    pub ftt: u8,
    /// Part of a volume's size that is kept for it on each of its disk groups, 0 to 100 percent.
    pub reserve_percent: u8,
    /// For which part of a volume's size read cache is kept, 0 to 100 percent.
    pub cache_percent: u8,
    /// Over how many objects volumes are striped, 1 to
    /// [`STRIPE_WIDTH_MAX`](super::STRIPE_WIDTH_MAX); 1: not at all.
    pub stripe_width: u8,
    /// Whether volumes are kept on one host; only where they tolerate no failure.
    pub affinity: Affinity,
    /// Whether volumes are made also where there is no place for all of their copies.
    pub force: bool,
    /// How long a copy may be away.
    pub repair_delay: RepairDelay,
    /// What each volume may do in a second.
    pub limits: IoLimits,
}

/// Which policy a volume follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedPolicy {
    /// Its name.
    pub name: String,
    /// The version of it that was applied to the volume last.
    pub version: u64,
    /// How long a copy may be away, by that version.
    pub repair_delay: RepairDelay,
    /// What the volume may do in a second, by that version.
    pub limits: IoLimits,
}

impl PolicyRecord {
    /// What the policy [`DEFAULT_POLICY`] is until somebody changes it: two copies, thin.
    #[must_use]
    pub fn built_in() -> Self {
        Self {
            name: DEFAULT_POLICY.to_owned(),
            version: 1,
            ftt: 1,
            reserve_percent: 0,
            cache_percent: 0,
            stripe_width: 1,
            affinity: Affinity::None,
            force: false,
            repair_delay: RepairDelay::Cluster,
            limits: IoLimits::default(),
        }
    }

    /// What a volume's record says of a policy that is applied to it.
    #[must_use]
    pub fn followed(&self) -> FollowedPolicy {
        let Self { version, repair_delay, limits, .. } = *self;
        FollowedPolicy { name: self.name.clone(), version, repair_delay, limits }
    }

    /// Whether it keeps its invariants.
    ///
    /// # Errors
    /// [`RecordError::Invalid`] with the field.
    pub fn check(&self) -> Result<(), RecordError> {
        ensure(is_name(&self.name), "name", NAME_RULE)?;
        ensure(self.version > 0, "version", "is zero")?;
        ensure(self.ftt <= FTT_MAX, "ftt", "is above 3")?;
        check_percents(self.reserve_percent, self.cache_percent)?;
        check_width(self.stripe_width)?;
        self.affinity.check(self.ftt)?;
        self.limits.check()?;
        self.repair_delay.check()
    }

    /// The value for the directory. Panics where the record breaks an invariant: use
    /// [`Self::check`] first on what people typed.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let checked = self.check();
        assert!(checked.is_ok(), "a record that breaks its invariants: {checked:?}");
        to_json(&Policy {
            format: match self.limits.is_any() {
                _ if self.cache_percent > 0 => FORMAT_POLICY_CACHE,
                _ if self.affinity != Affinity::None => FORMAT_POLICY_AFFINITY,
                _ if self.stripe_width > 1 || self.force => FORMAT_PROVISIONING,
                true => FORMAT_LIMITED,
                false => FORMAT,
            },
            name: self.name.clone(),
            version: self.version,
            ftt: self.ftt,
            reserve_percent: self.reserve_percent,
            cache_percent: (self.cache_percent > 0).then_some(self.cache_percent),
            stripe_width: (self.stripe_width > 1).then_some(self.stripe_width),
            affinity: Some(self.affinity).filter(|affinity| *affinity != Affinity::None),
            force: self.force.then_some(true),
            repair_delay: self.repair_delay,
            limits: self.limits.said(),
        })
    }

    /// The record in a value of the directory.
    ///
    /// # Errors
    /// [`RecordError`]: not this kind of record, another format, an invariant broken.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let s = from_json::<Policy>(bytes)?;
        let record = Self {
            name: s.name,
            version: s.version,
            ftt: s.ftt,
            reserve_percent: s.reserve_percent,
            cache_percent: s.cache_percent.unwrap_or(0),
            stripe_width: s.stripe_width.unwrap_or(1),
            affinity: s.affinity.unwrap_or_default(),
            force: s.force.unwrap_or(false),
            repair_delay: s.repair_delay,
            limits: s.limits.unwrap_or_default(),
        };
        record.check()?;
        Ok(record)
    }
}

impl FollowedPolicy {
    /// Whether it keeps its invariants.
    ///
    /// # Errors
    /// [`RecordError::Invalid`] with the field.
    pub fn check(&self) -> Result<(), RecordError> {
        ensure(is_name(&self.name), "policy", NAME_RULE)?;
        ensure(self.version > 0, "policy", "has version zero")?;
        self.limits.check()?;
        self.repair_delay.check()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Policy {
    format: u32,
    name: String,
    version: u64,
    ftt: u8,
    reserve_percent: u8,
    /// In format 5 always, else never. Not 0, which means no field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cache_percent: Option<u8>,
    /// In format 3 this or `force`, in formats 4 and 5 sometimes, else neither. Not 1, which means
    /// no field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stripe_width: Option<u8>,
    /// In format 4 always, in format 5 sometimes, else never. Not `none`, which means no field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    affinity: Option<Affinity>,
    /// Not false, which means no field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    force: Option<bool>,
    repair_delay: RepairDelay,
    /// In format 2 always, in formats 3 to 5 sometimes, else never. Not empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limits: Option<IoLimits>,
}

impl Stored for Policy {
    const FORMATS: &[u32] =
        &[FORMAT, FORMAT_LIMITED, FORMAT_PROVISIONING, FORMAT_POLICY_AFFINITY, FORMAT_POLICY_CACHE];

    fn format(&self) -> u32 {
        self.format
    }

    fn check_format(&self) -> Result<(), RecordError> {
        let has_cache = self.format == FORMAT_POLICY_CACHE;
        let is_kept = self.cache_percent.is_some_and(|percent| percent > 0);
        let cache = if has_cache { is_kept } else { self.cache_percent.is_none() };
        ensure(cache, "cache_percent", OTHER_FORMAT)?;
        let is_near = self.format == FORMAT_POLICY_AFFINITY;
        let affinity = match self.affinity {
            Some(affinity) => affinity == Affinity::Host && (is_near || has_cache),
            None => !is_near,
        };
        ensure(affinity, "affinity", OTHER_FORMAT)?;
        let has_all = is_near || has_cache;
        let provisions = self.format == FORMAT_PROVISIONING;
        let is_said = self.stripe_width.is_some() || self.force.is_some();
        let belongs = has_all || is_said == provisions;
        let is_needed = self.stripe_width != Some(1) && self.force != Some(false);
        ensure(belongs && is_needed, "stripe_width", OTHER_FORMAT)?;
        let may_have = has_all || provisions;
        let is_right = match self.limits {
            Some(limits) => (may_have || self.format == FORMAT_LIMITED) && limits.is_any(),
            None => may_have || self.format == FORMAT,
        };
        ensure(is_right, "limits", OTHER_FORMAT)
    }
}

/// The part of a volume's record in formats 4 and 5.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredFollowed {
    name: String,
    version: u64,
    repair_delay: RepairDelay,
    /// In format 5 always, else never. Not empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) limits: Option<IoLimits>,
}

impl From<&FollowedPolicy> for StoredFollowed {
    fn from(r: &FollowedPolicy) -> Self {
        let FollowedPolicy { version, repair_delay, limits, .. } = *r;
        Self { name: r.name.clone(), version, repair_delay, limits: limits.said() }
    }
}

impl From<StoredFollowed> for FollowedPolicy {
    fn from(s: StoredFollowed) -> Self {
        let StoredFollowed { name, version, repair_delay, limits } = s;
        Self { name, version, repair_delay, limits: limits.unwrap_or_default() }
    }
}
