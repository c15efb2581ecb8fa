// SPDX-License-Identifier: Apache-2.0
//! What commands are made of.

use directory::{Affinity, ClusterKind, Labels, RepairDelay, Writers};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A volume that is to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewVolume {
    /// Its name.
    pub name: String,
    /// Its size.
    pub size_bytes: u64,
    /// Failures to tolerate.
    pub ftt: u8,
    /// Part of its size that is kept for it, percent.
    #[serde(default)]
    pub reserve_percent: u8,
    /// Over how many parts it is striped; 1: it is not.
    #[serde(default = "one")]
    pub stripe_width: u8,
    /// The policy that it follows; its rules count then, and the three above do not.
    #[serde(default)]
    pub policy: Option<String>,
    /// Make it with fewer copies where there is no place for all of them.
    #[serde(default)]
    pub force: bool,
    /// What it is called beside its name.
    #[serde(default)]
    pub labels: Labels,
    /// Through how many hosts it is written; none given: one, where the cluster has the level.
    #[serde(default)]
    pub writers: Option<Writers>,
    /// The host that all of it is kept on. None given: by its policy the host that is asked, else
    /// wherever there is room.
    #[serde(default)]
    pub on: Option<String>,
    /// For which part of its size read cache is kept, 0 to 100 percent.
    #[serde(default)]
    pub cache_percent: u8,
}

impl NewVolume {
    /// Nothing more is asked of it: thin, not striped, with rules of its own, and without labels.
    pub fn new(name: impl Into<String>, size_bytes: u64, ftt: u8) -> Self {
        Self {
            name: name.into(),
            size_bytes,
            ftt,
            reserve_percent: 0,
            stripe_width: 1,
            policy: None,
            force: false,
            labels: Labels::new(),
            writers: None,
            on: None,
            cache_percent: 0,
        }
    }
}

/// One disk group: device paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupConfig {
    /// The cache device.
    pub cache: String,
    /// One to seven capacity devices.
    pub capacity: Vec<String>,
    /// What it is; `None`: what the host's groups are. An open group is what its devices say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ClusterKind>,
}

impl GroupConfig {
    /// All its devices, the cache device first.
    pub fn devices(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.cache).chain(&self.capacity)
    }
}

/// What commands of programs that know no stripes mean.
pub(crate) fn one() -> u8 {
    1
}

/// Rules of a policy; what is none stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyRules {
    /// Failures to tolerate.
    #[serde(default)]
    pub ftt: Option<u8>,
    /// Part of a volume's size that is kept for it, percent.
    #[serde(default)]
    pub reserve_percent: Option<u8>,
    /// For which part of a volume's size read cache is kept, 0 to 100 percent.
    #[serde(default)]
    pub cache_percent: Option<u8>,
    /// Over how many parts volumes are striped.
    #[serde(default)]
    pub stripe_width: Option<u8>,
    /// Whether volumes are kept on one host.
    #[serde(default)]
    pub affinity: Option<Affinity>,
    /// Whether volumes are made also where there is no place for all of their copies.
    #[serde(default)]
    pub force: Option<bool>,
    /// How long a copy may be away.
    #[serde(default)]
    pub repair_delay: Option<RepairDelay>,
    /// Reads and writes of 32 KiB that a volume may do in a second.
    #[serde(default)]
    pub iops: Option<RateLimit>,
    /// Bytes that a volume may read and write in a second.
    #[serde(default)]
    pub bytes_per_second: Option<RateLimit>,
}

/// How much of something is let through in a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RateLimit {
    /// All that there is.
    None,
    /// So much.
    At(u64),
}

impl RateLimit {
    /// What a record says.
    #[must_use]
    pub fn limit(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::At(rate) => Some(rate),
        }
    }
}
