// SPDX-License-Identifier: Apache-2.0
//! Through how many hosts a volume is written, and which one is the writer (rules 54 to 57).
//!
//! Here the volume's record changes. What follows from it hosts do by themselves (`care/writers`).

use crate::operations::{Operations, Outcome, failed, missing, usage};
use base::ShardId;
use directory::{Level, ObjectRecord, OwnerRecord, VolumeRecord, Writers, Writing};
use operator::{CommandFailure, VolumeReport, WriterReport};
use std::time::Duration;

/// Longest wait until a take-over is done; the command line waits for 30 s in all.
const DONE_MAX: Duration = Duration::from_secs(15);
/// Attempts of a command while the writer of its volume changes.
pub(super) const WRITER_RACES_MAX: u32 = 8;

impl Operations {
    /// Says through how many hosts a volume is written from now on, while it is in use. The next
    /// write of a client makes its host the writer, where that is one.
    pub(super) async fn change_writers(
        &self,
        name: &str,
        writers: Writers,
    ) -> Outcome<VolumeReport> {
        placement::check_name(name).map_err(usage)?;
        if writers == Writers::One {
            self.need(Level::WRITERS, "one writing host")?;
        }
        let (volume, revision) = self.volume_entry(name).await?;
        let writing = match volume.writing.writers == writers {
            true => Some(volume.writing),
            false => volume.writing.changed_to(writers),
        };
        let writing = writing.ok_or_else(|| no_more_epochs(name))?;
        let record = VolumeRecord { writing, ..volume.clone() };
        self.put_changed(&volume, &record, revision).await?;
        self.until_done(&record).await;
        self.until_seen(&record, |now| now.writing.epoch >= writing.epoch).await;
        Ok(self.report(&record))
    }

    /// The writer of a volume and the revision of its record, where nothing but the writer changed
    /// since the record was `before`. That changes by itself, with clients that come and go: no
    /// operator's command fails because of it.
    pub(super) async fn only_writer_changed(
        &self,
        (before, revision): (&VolumeRecord, u64),
    ) -> Option<(Writing, u64)> {
        let (now, at) = self.volume_entry(&before.name).await.ok()?;
        let is_same = VolumeRecord { writing: before.writing, ..now.clone() } == *before;
        let is_raced = is_same && at != revision;
        base::hit_if(is_raced, base::Probe::WriterRaced);
        is_raced.then_some((now.writing, at))
    }

    /// Waits until no write of an epoch before that of `record` takes effect any more. Returns
    /// whether that is so: it may take longer than an operator waits.
    async fn until_done(&self, record: &VolumeRecord) -> bool {
        if self.objects.tells_before_done() {
            return true;
        }
        let is_done = || self.view.is_written_in(record, record.writing.epoch);
        self.until_within(DONE_MAX, is_done).await
    }

    /// Makes a host the writer of a volume, whatever the one of before does, and waits until no
    /// write through that one takes effect any more.
    pub(super) async fn take_over(&self, name: &str, host: &str) -> Outcome<VolumeReport> {
        placement::check_name(name).map_err(usage)?;
        let (volume, revision) = self.volume_entry(name).await?;
        if volume.writing.writers == Writers::Any {
            return Err(failed(format!(
                "volume '{name}' is written through any host, so that no host can take it over: \
                 see 'gabion volume change {name} --writers one'"
            )));
        }
        let writer = self.writer_on(&volume, host)?;
        let writing = match volume.writing.writer == Some(writer) {
            true => Some(volume.writing),
            false => volume.writing.with_writer(writer),
        };
        let writing = writing.ok_or_else(|| no_more_epochs(name))?;
        let record = VolumeRecord { writing, ..volume.clone() };
        self.put_changed(&volume, &record, revision).await?;
        if !self.until_done(&record).await {
            return Err(self.not_done(&record));
        }
        self.until_seen(&record, |now| now.writing.epoch >= writing.epoch).await;
        Ok(self.report(&record))
    }

    /// The run of a host that is to write. Of a machine with several shards it is the one through
    /// which clients reach the volume.
    fn writer_on(&self, volume: &VolumeRecord, name: &str) -> Outcome<OwnerRecord> {
        let shards = self.view.shards();
        let objects: Vec<ObjectRecord> =
            volume.objects.iter().filter_map(|id| self.view.object(*id)).collect();
        let shard = shards.iter().find(|shard| shard.name == name).cloned();
        let best = || self.best_doors(&objects).into_iter().find(|best| best.machine() == name);
        let Some(shard) = shard.or_else(best) else {
            return Err(missing(format!("there is no host '{name}': see 'gabion host list'")));
        };
        match self.view.alive(shard.id) {
            Some(alive) => Ok(OwnerRecord { shard: shard.id, incarnation: alive.incarnation }),
            None => Err(failed(format!(
                "{name} is down, so that it cannot write to volume '{}': nothing was changed",
                volume.name
            ))),
        }
    }

    fn not_done(&self, volume: &VolumeRecord) -> CommandFailure {
        let name = &volume.name;
        let waits = self.writer(volume).waits_for.join(", ");
        failed(format!(
            "the take-over of volume '{name}' is not done: writes through its last writer may \
             still take effect ({waits}). It goes on by itself: the same command again waits for \
             its end"
        ))
    }

    /// Who writes to a volume, for people.
    pub(crate) fn writer(&self, volume: &VolumeRecord) -> WriterReport {
        let Writing { writers, epoch, writer } = volume.writing;
        WriterReport {
            writers,
            host: writer.map(|writer| self.view.shard_name(writer.shard)),
            epoch: epoch.0,
            waits_for: self.not_in(volume),
        }
    }

    /// What keeps a change of the writer from being done: one line for each host.
    fn not_in(&self, volume: &VolumeRecord) -> Vec<String> {
        let epoch = volume.writing.epoch;
        let behind = volume.objects.iter().filter_map(|id| self.view.writer_epoch(*id));
        let behind = behind.filter(|(has, _)| *has < epoch);
        let mut count: base::Map<Option<ShardId>, usize> = base::Map::new();
        for (_, owner) in behind {
            *count.entry(owner.map(|owner| owner.shard)).or_default() += 1;
        }
        let line = |(shard, count): (Option<ShardId>, usize)| {
            let parts = if count == 1 { "1 part".to_owned() } else { format!("{count} parts") };
            match shard {
                Some(shard) if self.view.alive(shard).is_none() => {
                    format!("{parts} with {}, which is down", self.view.shard_name(shard))
                }
                Some(shard) => format!("{parts} with {}", self.view.shard_name(shard)),
                None => format!("{parts} that no host serves"),
            }
        };
        count.into_iter().map(line).collect()
    }
}

fn no_more_epochs(name: &str) -> CommandFailure {
    failed(format!(
        "the writer of volume '{name}' has changed as often as it can: copy it into a new volume"
    ))
}
