// SPDX-License-Identifier: Apache-2.0
//! A volume's record as JSON, in all its formats.

use super::super::json::{OTHER_FORMAT, Stored, from_json, to_json};
use super::super::policy::StoredFollowed;
use super::super::{
    Connections, FORMAT, FORMAT_CONNECTIONS, FORMAT_LIMITS, FORMAT_POLICY, FORMAT_RESERVE,
    FollowedPolicy, RecordError, VolumeRecord, ensure,
};
use super::Hex;
use base::{ObjectId, VolumeId};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Volume {
    format: u32,
    id: Hex,
    name: String,
    size_bytes: u64,
    ftt: u8,
    /// In format 2 always, in formats 3 to 5 sometimes, else never. Not 0: no reserve means no
    /// field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reserve_percent: Option<u8>,
    /// In format 3 always, in formats 4 and 5 sometimes, else never. Not `shared`, which means no
    /// field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    connections: Option<Connections>,
    /// In formats 4 and 5 always, else never. With limits in format 5 alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy: Option<StoredFollowed>,
    objects: Vec<Hex>,
}

impl Stored for Volume {
    const FORMATS: &[u32] =
        &[FORMAT, FORMAT_RESERVE, FORMAT_CONNECTIONS, FORMAT_POLICY, FORMAT_LIMITS];

    fn format(&self) -> u32 {
        self.format
    }

    fn check_format(&self) -> Result<(), RecordError> {
        let policy = match self.policy.as_ref().map(|policy| policy.limits) {
            Some(Some(limits)) => self.format == FORMAT_LIMITS && limits.is_any(),
            Some(None) => self.format == FORMAT_POLICY,
            None => !matches!(self.format, FORMAT_POLICY | FORMAT_LIMITS),
        };
        ensure(policy, "policy", OTHER_FORMAT)?;
        let connections = match self.format {
            FORMAT_CONNECTIONS => self.connections.is_some(),
            FORMAT_POLICY | FORMAT_LIMITS => true,
            _ => self.connections.is_none(),
        };
        let is_right = connections && self.connections != Some(Connections::Shared);
        ensure(is_right, "connections", OTHER_FORMAT)?;
        let reserve = match self.format {
            FORMAT_CONNECTIONS | FORMAT_POLICY | FORMAT_LIMITS => true,
            FORMAT_RESERVE => self.reserve_percent.is_some(),
            _ => self.reserve_percent.is_none(),
        };
        ensure(reserve && self.reserve_percent != Some(0), "reserve_percent", OTHER_FORMAT)
    }
}

codec!(VolumeRecord, Volume);

impl From<&VolumeRecord> for Volume {
    fn from(r: &VolumeRecord) -> Self {
        let has_reserve = r.reserve_percent > 0;
        let connections = Some(r.connections).filter(|c| *c != Connections::Shared);
        // The lowest format that holds everything, so that older programs read it where they can.
        let format = match (&r.policy, has_reserve, connections) {
            (Some(policy), ..) if policy.limits.is_any() => FORMAT_LIMITS,
            (Some(_), ..) => FORMAT_POLICY,
            (None, _, Some(_)) => FORMAT_CONNECTIONS,
            (None, true, None) => FORMAT_RESERVE,
            (None, false, None) => FORMAT,
        };
        Self {
            format,
            id: Hex(r.id.0),
            name: r.name.clone(),
            size_bytes: r.size_bytes,
            ftt: r.ftt,
            reserve_percent: has_reserve.then_some(r.reserve_percent),
            connections,
            policy: r.policy.as_ref().map(StoredFollowed::from),
            objects: r.objects.iter().map(|id| Hex(id.0)).collect(),
        }
    }
}

impl From<Volume> for VolumeRecord {
    fn from(s: Volume) -> Self {
        Self {
            id: VolumeId(s.id.0),
            name: s.name,
            size_bytes: s.size_bytes,
            ftt: s.ftt,
            reserve_percent: s.reserve_percent.unwrap_or(0),
            connections: s.connections.unwrap_or_default(),
            policy: s.policy.map(FollowedPolicy::from),
            objects: s.objects.into_iter().map(|id| ObjectId(id.0)).collect(),
        }
    }
}
