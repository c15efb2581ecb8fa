// SPDX-License-Identifier: Apache-2.0
//! A volume's record as JSON, in all its formats.

use super::super::json::{OTHER_FORMAT, Stored, from_json, to_json};
use super::super::policy::StoredFollowed;
use super::super::{
    Connections, FORMAT, FORMAT_AFFINITY, FORMAT_CACHE, FORMAT_CONNECTIONS, FORMAT_LABELS,
    FORMAT_LIMITS, FORMAT_POLICY, FORMAT_RESERVE, FORMAT_RUNS, FORMAT_STRIPED, FORMAT_TRASHED,
    FORMAT_WRITERS, FollowedPolicy, ObjectRun, RecordError, Trashed, VolumeRecord, Writers,
    Writing, ensure,
};
use super::{Hex, OwnerRecord, StoredOwner};
use base::{ObjectId, VolumeId, WriterEpoch};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Volume {
    format: u32,
    id: Hex,
    name: String,
    size_bytes: u64,
    ftt: u8,
    /// In format 2 always, in formats 3 to 12 sometimes, else never. Not 0: no reserve means no
    /// field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reserve_percent: Option<u8>,
    /// In format 3 always, in formats 4 to 12 sometimes, else never. Not `shared`, which means no
    /// field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    connections: Option<Connections>,
    /// In formats 4 and 5 always, in formats 6 to 12 sometimes, else never. With limits in format 5
    /// always, in formats 6 to 12 sometimes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy: Option<StoredFollowed>,
    /// In format 7 always, in formats 8 to 12 sometimes, else never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deleted: Option<Trashed>,
    /// In format 6 always, in formats 7 to 12 sometimes, else never: how many objects, and sectors
    /// of each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    runs: Option<Vec<(u32, u64)>>,
    /// In formats 8 to 12 sometimes, else never. Not 1, which means no field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stripe_width: Option<u8>,
    /// In formats 8 to 12 sometimes, else never: how many sets, sectors of each, and objects of
    /// each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sets: Option<Vec<(u32, u64, u8)>>,
    /// In format 9 always, in formats 10 to 12 sometimes, else never: keys, which rise, and their
    /// values. Not empty, which means no field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    labels: Option<Vec<(String, String)>>,
    /// In format 10 always, in formats 11 and 12 sometimes, else never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    writers: Option<Writers>,
    /// The same; not 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    writer_epoch: Option<u32>,
    /// In formats 10 to 12 sometimes, else never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    writer: Option<StoredOwner>,
    /// In format 11 always, in format 12 sometimes, else never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kept_on: Option<String>,
    /// In format 12 always, else never. Not 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cache_percent: Option<u8>,
    objects: Vec<Hex>,
}

impl Stored for Volume {
    const FORMATS: &[u32] = &[
        FORMAT,
        FORMAT_RESERVE,
        FORMAT_CONNECTIONS,
        FORMAT_POLICY,
        FORMAT_LIMITS,
        FORMAT_RUNS,
        FORMAT_TRASHED,
        FORMAT_STRIPED,
        FORMAT_LABELS,
        FORMAT_WRITERS,
        FORMAT_AFFINITY,
        FORMAT_CACHE,
    ];

    fn format(&self) -> u32 {
        self.format
    }

    fn check_format(&self) -> Result<(), RecordError> {
        let has_cache = self.format == FORMAT_CACHE;
        let is_said = self.cache_percent.is_some_and(|percent| percent > 0);
        let cache = if has_cache { is_said } else { self.cache_percent.is_none() };
        ensure(cache, "cache_percent", OTHER_FORMAT)?;
        let is_near = self.format == FORMAT_AFFINITY;
        let belongs = has_cache || self.kept_on.is_some() == is_near;
        ensure(belongs, "kept_on", OTHER_FORMAT)?;
        let is_kept = is_near || has_cache;
        let is_written = self.format == FORMAT_WRITERS;
        let has_epoch = self.writer_epoch.is_some_and(|epoch| epoch > 0);
        let writers = match self.writers {
            Some(_) => has_epoch && (is_written || is_kept),
            None => !is_written && (self.writer_epoch, &self.writer) == (None, &None),
        };
        ensure(writers, "writers", OTHER_FORMAT)?;
        let is_written = is_written || is_kept;
        let labels = self.labels.as_deref().is_none_or(|labels| {
            !labels.is_empty() && labels.windows(2).all(|two| two[0].0 < two[1].0)
        });
        let belongs = is_written || self.labels.is_some() == (self.format == FORMAT_LABELS);
        ensure(labels && belongs, "labels", OTHER_FORMAT)?;
        let is_labelled = is_written || self.format == FORMAT_LABELS;
        let is_striped = self.format == FORMAT_STRIPED;
        let is_trashed = self.format == FORMAT_TRASHED;
        let deleted = is_labelled || is_striped || self.deleted.is_some() == is_trashed;
        ensure(deleted, "deleted", OTHER_FORMAT)?;
        let is_wide = self.stripe_width.is_some() || self.sets.is_some();
        let is_said =
            self.stripe_width != Some(1) && self.sets.as_deref().is_none_or(is_striped_run);
        let belongs = is_labelled || is_wide == is_striped;
        ensure(belongs && is_said, "stripe_width", OTHER_FORMAT)?;
        // What each format from here on may have beside.
        let has_all = is_labelled || is_striped || is_trashed || self.format == FORMAT_RUNS;
        let runs = match &self.runs {
            Some(runs) => has_all && !runs.is_empty() && self.sets.is_none(),
            None => self.format != FORMAT_RUNS,
        };
        ensure(runs, "runs", OTHER_FORMAT)?;
        let policy = match self.policy.as_ref().map(|policy| policy.limits) {
            Some(Some(limits)) => (has_all || self.format == FORMAT_LIMITS) && limits.is_any(),
            Some(None) => has_all || self.format == FORMAT_POLICY,
            None => !matches!(self.format, FORMAT_POLICY | FORMAT_LIMITS),
        };
        ensure(policy, "policy", OTHER_FORMAT)?;
        let connections = match self.format {
            FORMAT_CONNECTIONS => self.connections.is_some(),
            FORMAT_POLICY | FORMAT_LIMITS => true,
            _ if has_all => true,
            _ => self.connections.is_none(),
        };
        let is_right = connections && self.connections != Some(Connections::Shared);
        ensure(is_right, "connections", OTHER_FORMAT)?;
        let reserve = match self.format {
            FORMAT_CONNECTIONS | FORMAT_POLICY | FORMAT_LIMITS => true,
            _ if has_all => true,
            FORMAT_RESERVE => self.reserve_percent.is_some(),
            _ => self.reserve_percent.is_none(),
        };
        ensure(reserve && self.reserve_percent != Some(0), "reserve_percent", OTHER_FORMAT)
    }
}

codec!(VolumeRecord, Volume);

/// Whether any of these sets is striped: only then they are said so.
fn is_striped_run(sets: &[(u32, u64, u8)]) -> bool {
    sets.iter().any(|(_, _, width)| *width != 1)
}

impl From<&VolumeRecord> for Volume {
    fn from(r: &VolumeRecord) -> Self {
        let has_reserve = r.reserve_percent > 0;
        let has_epoch = r.writing.epoch > WriterEpoch::ANY;
        let connections = Some(r.connections).filter(|c| *c != Connections::Shared);
        let is_striped = r.runs.iter().any(|run| run.width > 1);
        let pairs = || r.runs.iter().map(|run| (run.sets, run.sectors)).collect();
        let sets = || r.runs.iter().map(|run| (run.sets, run.sectors, run.width)).collect();
        // The lowest format that holds everything, so that older programs read it where they can.
        let format = match (&r.policy, has_reserve, connections) {
            _ if r.cache_percent > 0 => FORMAT_CACHE,
            _ if r.kept_on.is_some() => FORMAT_AFFINITY,
            _ if has_epoch => FORMAT_WRITERS,
            _ if !r.labels.is_empty() => FORMAT_LABELS,
            _ if is_striped || r.stripe_width > 1 => FORMAT_STRIPED,
            _ if r.trashed.is_some() => FORMAT_TRASHED,
            _ if !r.runs.is_empty() => FORMAT_RUNS,
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
            deleted: r.trashed.clone(),
            runs: (!r.runs.is_empty() && !is_striped).then(pairs),
            stripe_width: (r.stripe_width > 1).then_some(r.stripe_width),
            sets: is_striped.then(sets),
            labels: (!r.labels.is_empty()).then(|| r.labels.clone().into_iter().collect()),
            writers: has_epoch.then_some(r.writing.writers),
            writer_epoch: has_epoch.then_some(r.writing.epoch.0),
            writer: r.writing.writer.as_ref().map(StoredOwner::from),
            kept_on: r.kept_on.clone(),
            cache_percent: (r.cache_percent > 0).then_some(r.cache_percent),
            objects: r.objects.iter().map(|id| Hex(id.0)).collect(),
        }
    }
}

impl From<Volume> for VolumeRecord {
    fn from(s: Volume) -> Self {
        let writing = Writing {
            writers: s.writers.unwrap_or_default(),
            epoch: WriterEpoch(s.writer_epoch.unwrap_or_default()),
            writer: s.writer.map(OwnerRecord::from),
        };
        let plain = s.runs.into_iter().flatten().map(|(sets, sectors)| (sets, sectors, 1));
        let runs = plain.chain(s.sets.into_iter().flatten());
        Self {
            id: VolumeId(s.id.0),
            name: s.name,
            size_bytes: s.size_bytes,
            ftt: s.ftt,
            reserve_percent: s.reserve_percent.unwrap_or(0),
            cache_percent: s.cache_percent.unwrap_or(0),
            connections: s.connections.unwrap_or_default(),
            writing,
            policy: s.policy.map(FollowedPolicy::from),
            trashed: s.deleted,
            labels: s.labels.into_iter().flatten().collect(),
            stripe_width: s.stripe_width.unwrap_or(1),
            kept_on: s.kept_on,
            runs: runs.map(|(sets, sectors, width)| ObjectRun { sets, sectors, width }).collect(),
            objects: s.objects.into_iter().map(|id| ObjectId(id.0)).collect(),
        }
    }
}
