// SPDX-License-Identifier: Apache-2.0
//! Changing how much of a volume is kept for it, how many failures it tolerates, and who may use it
//! beside whom.
//!
//! More is kept in this order: every component is asked whether it has the room, every component
//! keeps it, and only then the volume's record says so. Less is kept in the other order. So the
//! record never promises what was refused, and a command that was interrupted leaves components
//! that keep more than the record says: their hosts give that back by themselves (`reserves`), and
//! the same command again finishes. A component whose host is down takes what the record says when
//! it returns, whether the room is there or not.

use super::writers::WRITER_RACES_MAX;
use super::{Undecided, directory_away, unknown};
use crate::cluster::room::candidates;
use crate::operations::groups::device_of;
use crate::operations::{Operations, Outcome, failed, no_such_volume, usage};
use base::{CHUNK_SIZE, ComponentId, ShardId, format_size};
use directory::{ComponentState, Connections, Expect, ObjectRecord, VolumeRecord};
use env::join_all;
use object::{ObjectError, reserve_chunks};
use operator::CommandFailure;
use operator::VolumeReport;

/// Components that are spelled out where there is no room.
const NAMED_MAX: usize = 3;

/// A component whose host is up.
struct Part {
    shard: ShardId,
    component: ComponentId,
    sectors: u64,
    /// It has all data: without it the volume is not what it should be.
    is_active: bool,
}

impl Operations {
    /// Keeps so many percent of a volume for it, on all hosts that are up. It follows no policy
    /// from then on.
    pub(crate) async fn change(&self, name: &str, percent: u8) -> Outcome<VolumeReport> {
        placement::check_name(name).map_err(usage)?;
        if percent > 100 {
            return Err(usage(placement::SpecError::Reserve(percent)));
        }
        let (volume, revision) = self.volume_entry(name).await?;
        let own = VolumeRecord { reserve_percent: percent, policy: None, ..volume.clone() };
        self.change_to(&volume, revision, own).await
    }

    /// Gives a volume another record with another reserve: the room first, then the record, then
    /// what is given back.
    pub(crate) async fn change_to(
        &self,
        volume: &VolumeRecord,
        revision: u64,
        record: VolumeRecord,
    ) -> Outcome<VolumeReport> {
        let (name, percent, before) =
            (&record.name, record.reserve_percent, volume.reserve_percent);
        let parts = self.parts(volume).await?;
        if percent >= before {
            if let Some(missing) = self.missing(&parts, percent).await {
                return Err(not_changed(name, &missing));
            }
            if let Err(why) = self.keep_all(&parts, percent).await {
                self.keep_what_is_recorded(name, before, &parts).await;
                return Err(not_changed(name, &why));
            }
        }
        let put = self.put_record(volume, &record, revision).await;
        if let Err(undecided) = put {
            if undecided == Some(Undecided::Unknown) {
                return Err(unknown(&format!("the reserve of volume '{name}' was changed")));
            }
            if percent > before {
                self.keep_what_is_recorded(name, before, &parts).await;
            }
            return Err(match undecided {
                Some(Undecided::Away(error)) => directory_away(error),
                _ => not_changed(name, "somebody else changed it meanwhile; try again"),
            });
        }
        // Less is given back now; and another command may have taken back what this one took. What
        // is not reached here its host does by itself.
        if let Err(why) = self.keep_all(&parts, percent).await {
            tracing::warn!(volume = name, why, "a reserve is not everywhere yet");
        }
        let record = put.unwrap_or(record);
        self.until_seen(volume, |now| *now == record).await;
        Ok(self.report(&record))
    }

    /// Says who may use a volume beside whom from now on; those who use it already go on.
    pub(crate) async fn change_connections(
        &self,
        name: &str,
        connections: Connections,
    ) -> Outcome<VolumeReport> {
        placement::check_name(name).map_err(usage)?;
        let (volume, revision) = self.volume_entry(name).await?;
        let record = VolumeRecord { connections, ..volume.clone() };
        self.put_changed(&volume, &record, revision).await?;
        self.until_seen(&record, |now| now.connections == connections).await;
        Ok(self.report(&record))
    }

    /// Says how many failures a volume tolerates from now on. Its objects get more copies or fewer
    /// by themselves (`care/repair`), with `force` also where there is no place for all of them
    /// yet. It follows no policy from then on.
    pub(crate) async fn change_redundancy(
        &self,
        name: &str,
        ftt: u8,
        force: bool,
    ) -> Outcome<VolumeReport> {
        placement::check_name(name).map_err(usage)?;
        placement::check_ftt(ftt).map_err(usage)?;
        let (volume, revision) = self.volume_entry(name).await?;
        if let Some(host) = volume.kept_on.as_ref().filter(|_| ftt > 0) {
            return Err(usage(format!(
                "volume '{name}' is kept on {host}, which has one copy: first let it go where \
                 there is room ('gabion volume change {name} --anywhere')"
            )));
        }
        if ftt > volume.ftt && !force {
            let hosts = self.are_hosts_enough(ftt);
            hosts.map_err(|why| {
                failed(format!(
                    "volume '{name}' was not changed: {why}; with --force it gets the copies as \
                     soon as there is a place for them"
                ))
            })?;
        }
        let record = VolumeRecord { ftt, policy: None, ..volume.clone() };
        self.put_changed(&volume, &record, revision).await?;
        self.until_seen(&record, |now| now.ftt == ftt).await;
        Ok(self.report(&record))
    }

    /// Whether so many failures can be tolerated with the hosts that are up, else what to do.
    /// Where the copies go is decided later.
    pub(crate) fn are_hosts_enough(&self, ftt: u8) -> Result<(), String> {
        let (candidates, domains) = (candidates(&self.view), self.view.host_domains());
        let placed = placement::place(ftt, None, &candidates, &[], &domains);
        placed.map(drop).map_err(|error| self.why_no_place(&error, ""))
    }

    /// Puts a volume's record where it is another one than before; what stands there then.
    pub(crate) async fn put_changed(
        &self,
        before: &VolumeRecord,
        record: &VolumeRecord,
        revision: u64,
    ) -> Outcome<VolumeRecord> {
        let name = &record.name;
        self.put_record(before, record, revision).await.map_err(|undecided| match undecided {
            Some(undecided) => undecided.told(&format!("volume '{name}' was changed")),
            None => failed(format!(
                "volume '{name}' was not changed: somebody else changed it meanwhile; try again"
            )),
        })
    }

    /// A volume's record as the directory has it now.
    pub(crate) async fn volume_entry(&self, name: &str) -> Outcome<(VolumeRecord, u64)> {
        let entry = self.directory.get(&directory::volume_key(name)).await;
        let Some(entry) = entry.map_err(directory_away)? else { return Err(no_such_volume(name)) };
        match VolumeRecord::decode(&entry.value) {
            Ok(volume) => Ok((volume, entry.revision)),
            Err(error) => Err(failed(format!("the record of volume '{name}' is damaged: {error}"))),
        }
    }

    /// The components of a volume on hosts that are up.
    async fn parts(&self, volume: &VolumeRecord) -> Outcome<Vec<Part>> {
        let mut parts = Vec::new();
        for id in &volume.objects {
            let entry = self.directory.get(&directory::object_key(*id)).await;
            let entry = entry.map_err(directory_away)?;
            let object = entry.map(|entry| ObjectRecord::decode(&entry.value));
            let Some(Ok(object)) = object else {
                return Err(not_changed(&volume.name, "a part of it is being deleted"));
            };
            for component in &object.components {
                if self.view.alive(component.shard).is_none() {
                    continue;
                }
                parts.push(Part {
                    shard: component.shard,
                    component: component.id,
                    sectors: object.sectors,
                    is_active: component.state == ComponentState::Active,
                });
            }
        }
        Ok(parts)
    }

    /// Where there is not enough room, and how much is missing.
    async fn missing(&self, parts: &[Part], percent: u8) -> Option<String> {
        let limits =
            parts.iter().map(|part| self.objects.reserve_limit(part.shard, part.component));
        let limits = join_all(limits.map(Box::pin).collect()).await;
        let mut lines = Vec::new();
        for (part, limit) in parts.iter().zip(limits) {
            let host = self.view.shard_name(part.shard);
            let wanted = reserve_chunks(part.sectors, percent);
            match limit {
                Ok(Some(limit)) if limit < wanted => {
                    let size = |chunks: u32| format_size(u64::from(chunks) * CHUNK_SIZE);
                    lines.push(format!(
                        "{host} has to keep {} for its copy and can keep {}: {} are missing on {}",
                        size(wanted),
                        size(limit),
                        size(wanted - limit),
                        self.place_of(part)
                    ));
                }
                Err(error) if part.is_active => lines.push(format!("{host}: {}", why(error))),
                Ok(_) | Err(_) => {}
            }
        }
        let first = lines.first()?;
        let next = match first.contains("missing") {
            true => "; see 'gabion group show' for what takes the space, or choose less",
            false => "",
        };
        let more = lines.len().saturating_sub(NAMED_MAX);
        lines.truncate(NAMED_MAX);
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        Some(format!("{}{next}", lines.join("; ")))
    }

    /// The device of a component, as far as this host knows it.
    fn place_of(&self, part: &Part) -> String {
        let group = self.storage.holding(part.component);
        let device = group.and_then(|group| device_of(&group, part.component));
        device.unwrap_or_else(|| format!("the capacity device of component {}", part.component))
    }

    /// Every component that can be reached keeps its part.
    async fn keep_all(&self, parts: &[Part], percent: u8) -> Result<(), String> {
        let keep = |part: &Part| {
            let chunks = reserve_chunks(part.sectors, percent);
            Box::pin(self.objects.reserve(part.shard, part.component, chunks))
        };
        let kept = join_all(parts.iter().map(keep).collect()).await;
        let mut failures = parts.iter().zip(kept).filter_map(|(part, kept)| {
            let error = kept.err()?;
            (part.is_active || error == ObjectError::Full).then_some((part.shard, error))
        });
        let Some((shard, error)) = failures.next() else { return Ok(()) };
        drop(failures);
        if error == ObjectError::Full
            && let Some(missing) = self.missing(parts, percent).await
        {
            return Err(missing);
        }
        Err(format!("{}: {}", self.view.shard_name(shard), why(error)))
    }

    /// Takes back what a command that failed had components keep: what the record says now counts,
    /// for somebody else may have changed it meanwhile. What is not reached gives it back by
    /// itself.
    async fn keep_what_is_recorded(&self, name: &str, before: u8, parts: &[Part]) {
        let now = self.volume_entry(name).await;
        let percent = now.map_or(before, |(volume, _)| volume.reserve_percent);
        if let Err(why) = self.keep_all(parts, percent).await {
            tracing::warn!(volume = name, why, "what was kept in vain is given back later");
        }
    }

    /// As [`Self::put_changed`]; an error of none: somebody changed more than the writer meanwhile.
    async fn put_record(
        &self,
        before: &VolumeRecord,
        record: &VolumeRecord,
        mut revision: u64,
    ) -> Result<VolumeRecord, Option<Undecided>> {
        let mut record = record.clone();
        if record == *before {
            return Ok(record);
        }
        let keeps_writer = record.writing == before.writing;
        for _ in 0..WRITER_RACES_MAX {
            let key = directory::volume_key(&record.name);
            let put = self.put_at(key, Expect::Revision(revision), record.encode()).await;
            if put != Err(None) || !keeps_writer {
                return put.map(|()| record);
            }
            let Some(now) = self.only_writer_changed((before, revision)).await else { break };
            (record.writing, revision) = now;
        }
        Err(None)
    }
}

fn not_changed(name: &str, why: &str) -> CommandFailure {
    failed(format!("the reserve of volume '{name}' was not changed: {why}"))
}

fn why(error: ObjectError) -> String {
    match error {
        ObjectError::Full => "no room for it".to_owned(),
        ObjectError::Inaccessible => "its copy cannot be reached now; try again".to_owned(),
        error => error.to_string(),
    }
}
