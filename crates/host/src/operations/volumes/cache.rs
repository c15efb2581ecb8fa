// SPDX-License-Identifier: Apache-2.0
//! Read cache that is kept for volumes (docs/operations/read-cache.md).
//!
//! The volume's record says for which part of it, and nothing else: each host has its disk groups
//! keep their share (`care/caches`), and says how much that is.

use crate::operations::{Operations, Outcome, usage};
use directory::{Level, ObjectRecord, VolumeRecord};
use diskgroup::CacheShare;
use operator::{CachedReport, VolumeReport};

impl Operations {
    /// Keeps read cache for so many percent of a volume from now on. It follows no policy from then
    /// on.
    pub(crate) async fn keep_cache(&self, name: &str, percent: u8) -> Outcome<VolumeReport> {
        placement::check_name(name).map_err(usage)?;
        self.check_cache(percent)?;
        let (volume, revision) = self.volume_entry(name).await?;
        let record = VolumeRecord { cache_percent: percent, policy: None, ..volume.clone() };
        self.put_changed(&volume, &record, revision).await?;
        self.until_seen(&record, |now| now.cache_percent == percent).await;
        Ok(self.report(&record))
    }

    /// Whether read cache can be kept for so many percent of a volume.
    pub(crate) fn check_cache(&self, percent: u8) -> Outcome<()> {
        match percent {
            0 => Ok(()),
            1..=100 => self.need(Level::CACHE, "read cache that is kept for volumes"),
            _ => Err(usage(format!(
                "read cache is kept for 0 to 100 % of a volume, not for {percent}"
            ))),
        }
    }

    /// What a volume of these objects has of the read cache of this host; nothing where all of its
    /// components here are on all-flash groups.
    pub(crate) fn cached_report(&self, objects: &[ObjectRecord]) -> Vec<CachedReport> {
        let all = objects.iter().flat_map(|object| &object.components);
        let mine = all.filter(|component| component.shard == self.me);
        let shares = mine.filter_map(|one| self.storage.holding(one.id)?.cached(one.id));
        let report = |CacheShare { held_bytes, asked_bytes, kept_bytes }| CachedReport {
            host: self.view.shard_name(self.me),
            held_bytes,
            asked_bytes,
            kept_bytes,
        };
        shares.reduce(CacheShare::plus).map(report).into_iter().collect()
    }
}
