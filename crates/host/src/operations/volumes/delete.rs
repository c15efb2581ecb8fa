// SPDX-License-Identifier: Apache-2.0
//! Deleting a volume, so that it can be brought back for a while, or for good. For good its record
//! goes first, with a record of what its hosts are to delete.

use super::{DECIDE_MAX, Undecided, decide, directory_away, unknown};
use crate::care::trash::Deletion;
use crate::operations::{Operations, Outcome, failed, missing, usage};
use directory::{Entry, Trashed, VolumeRecord, trash_name};
use operator::{CommandFailure, TrashedReport, VolumeReport};

/// How often a deletion is tried anew because objects of the volume changed meanwhile, as when
/// copies of it move.
const RACES_MAX: u32 = 8;

impl Operations {
    /// Deletes a volume. With `for_good` its data goes at once, else it can be brought back.
    pub(crate) async fn delete(&self, name: &str, for_good: bool) -> Outcome<()> {
        placement::check_name(name).map_err(usage)?;
        let (volume, revision) = self.volume_entry(name).await?;
        self.check_unused(&volume, "deleted")?;
        if for_good {
            return self.delete_for_good(&volume, revision).await;
        }
        let since = self.env.wall().0 / 1_000_000_000;
        let trashed = VolumeRecord {
            name: trash_name(volume.id),
            trashed: Some(Trashed { name: name.to_owned(), since }),
            policy: None, // its rules stay as they are
            ..volume.clone()
        };
        self.put_moved(&volume, revision, &trashed).await?;
        self.until_gone(&volume).await;
        Ok(())
    }

    /// Brings a deleted volume back, under another name where one is given.
    pub(crate) async fn undelete(&self, wanted: &str, name: Option<&str>) -> Outcome<VolumeReport> {
        let (trashed, revision) = self.trashed_entry(wanted).await?;
        let name = name.unwrap_or(said_name(&trashed)).to_owned();
        placement::check_name(&name).map_err(usage)?;
        let volume = VolumeRecord { name, trashed: None, ..trashed.clone() };
        self.put_moved(&trashed, revision, &volume).await?;
        self.until_seen(&volume, |_| true).await;
        Ok(self.report(&volume))
    }

    /// Deletes a deleted volume for good.
    pub(crate) async fn purge(&self, wanted: &str) -> Outcome<()> {
        let (trashed, revision) = self.trashed_entry(wanted).await?;
        self.delete_for_good(&trashed, revision).await
    }

    /// The deleted volumes that can be brought back, the oldest first.
    pub(crate) fn trash(&self) -> Vec<TrashedReport> {
        let wall = self.env.wall().0 / 1_000_000_000;
        let keep = self.tuning.deleted_keep_hours * 3600;
        let report = |volume: VolumeRecord| {
            let trashed = volume.trashed?;
            let seconds_ago = wall.saturating_sub(trashed.since);
            Some(TrashedReport {
                name: trashed.name,
                id: volume.id.to_string(),
                size_bytes: volume.size_bytes,
                deleted: trashed.since,
                deleted_seconds_ago: seconds_ago,
                goes_in_seconds: keep.saturating_sub(seconds_ago),
            })
        };
        let mut all: Vec<_> = self.view.volumes().into_iter().filter_map(report).collect();
        all.sort_by(|a, b| (a.deleted, &a.id).cmp(&(b.deleted, &b.id)));
        all
    }

    /// The deleted volume that had this name, or has this id, as the directory has it: this host's
    /// view may be of before it was brought back and deleted under another name.
    async fn trashed_entry(&self, wanted: &str) -> Outcome<(VolumeRecord, u64)> {
        let known = self.trashed(wanted)?;
        match self.volume_entry(&known.name).await? {
            (volume, revision) if was_called(&volume, wanted) => Ok((volume, revision)),
            _ => Err(changed(wanted)),
        }
    }

    /// The same as this host knows it.
    fn trashed(&self, wanted: &str) -> Outcome<VolumeRecord> {
        let all = self.view.volumes_where(|volume| was_called(volume, wanted));
        let ids: Vec<String> = all.iter().map(|volume| volume.id.to_string()).collect();
        match <[VolumeRecord; 1]>::try_from(all) {
            Ok([volume]) => Ok(volume),
            Err(all) if all.is_empty() => Err(missing(format!(
                "no deleted volume '{wanted}' can be brought back: see 'gabion volume list \
                 --deleted'"
            ))),
            Err(_) => Err(failed(format!(
                "several deleted volumes were '{wanted}': say one of {}",
                ids.join(", ")
            ))),
        }
    }

    /// Whether no client of this host uses the volume; else it is not `done`.
    pub(super) fn check_unused(&self, volume: &VolumeRecord, done: &str) -> Outcome<()> {
        match self.exports.clients(volume.id) {
            0 => Ok(()),
            clients => Err(failed(format!(
                "volume '{}' is in use by {clients} client(s) of this host and was not {done}: \
                 disconnect them first",
                volume.name
            ))),
        }
    }

    async fn delete_for_good(&self, volume: &VolumeRecord, mut revision: u64) -> Outcome<()> {
        let (key, until) = (directory::volume_key(&volume.name), self.env.now() + DECIDE_MAX);
        let name = said_name(volume);
        let at_once = self.creation.transaction_objects;
        // A volume of that name that is another one was made after this one went.
        let landed = |entry: Option<&Entry>| {
            let there = entry.map(|entry| VolumeRecord::decode(&entry.value));
            there.is_none_or(|there| there.is_ok_and(|there| there.id != volume.id))
        };
        for _ in 0..RACES_MAX {
            let known = (volume, revision);
            let read = Deletion::read(&self.directory, &self.view, known, at_once).await;
            let going = read.map_err(directory_away)?;
            match decide(&self.env, &self.directory, &going.first, &key, landed, until).await {
                Ok(true) => {
                    // The volume is gone from here on.
                    going.rest(&self.directory).await;
                    self.until_gone(volume).await;
                    return Ok(());
                }
                Ok(false) => {}
                Err(Undecided::Away(error)) => return Err(directory_away(error)),
                Err(Undecided::Unknown) => {
                    return Err(unknown(&format!("volume '{name}' was deleted")));
                }
            }
            // Its own record may have changed, or only one of its objects'.
            let entry = self.directory.get(&key).await.map_err(directory_away)?;
            if entry.is_none_or(|entry| entry.revision != revision) {
                let Some((_, now)) = self.only_writer_changed(known).await else { break };
                revision = now;
            }
        }
        Err(changed(name))
    }
}

/// Whether it is deleted and this says which one it is: the name that it had, or its id.
fn was_called(volume: &VolumeRecord, wanted: &str) -> bool {
    let trashed = volume.trashed.as_ref();
    trashed.is_some_and(|trashed| trashed.name == wanted || volume.id.to_string() == wanted)
}

/// The name under which people know a volume.
fn said_name(volume: &VolumeRecord) -> &str {
    volume.trashed.as_ref().map_or(&volume.name, |trashed| &trashed.name)
}

fn changed(name: &str) -> CommandFailure {
    failed(format!("volume '{name}' changed meanwhile: try again"))
}
