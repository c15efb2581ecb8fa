// SPDX-License-Identifier: Apache-2.0
//! Giving a volume another name.
//!
//! A volume's record stands under its name, so it moves: one transaction deletes it at one key and
//! puts it at the other. Its objects know the volume by its id, and nothing else changes.

use super::writers::WRITER_RACES_MAX;
use super::{DECIDE_MAX, Undecided, decide, directory_away, unknown};
use crate::operations::{Operations, Outcome, failed, usage};
use directory::{Entry, Expect, Transaction, VolumeRecord, volume_key};
use operator::VolumeReport;

impl Operations {
    /// Gives a volume that nobody uses another name.
    pub(crate) async fn rename(&self, name: &str, new: &str) -> Outcome<VolumeReport> {
        placement::check_name(name).map_err(usage)?;
        placement::check_name(new).map_err(usage)?;
        let (volume, revision) = self.volume_entry(name).await?;
        if name == new {
            return Ok(self.report(&volume));
        }
        self.check_unused(&volume, "renamed")?;
        let renamed = VolumeRecord { name: new.to_owned(), ..volume.clone() };
        self.put_moved(&volume, revision, &renamed).await?;
        self.until_seen(&renamed, |_| true).await;
        Ok(self.report(&renamed))
    }

    /// Writes a volume's record under another name, in the place of the one that it has.
    pub(super) async fn put_moved(
        &self,
        volume: &VolumeRecord,
        mut revision: u64,
        moved: &VolumeRecord,
    ) -> Outcome<()> {
        let (from, to) = (volume_key(&volume.name), volume_key(&moved.name));
        let is_it = |entry: Option<&Entry>| {
            let there = entry.map(|entry| VolumeRecord::decode(&entry.value));
            matches!(there, Some(Ok(there)) if there.id == moved.id)
        };
        let until = self.env.now() + DECIDE_MAX;
        let name = &volume.name;
        let mut next = moved.clone();
        for _ in 0..WRITER_RACES_MAX {
            let put = Transaction::new()
                .expect(from.clone(), Expect::Revision(revision))
                .expect(to.clone(), Expect::Absent)
                .delete(from.clone())
                .put(to.clone(), next.encode());
            match decide(&self.env, &self.directory, &put, &to, is_it, until).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(Undecided::Away(error)) => return Err(directory_away(error)),
                Err(Undecided::Unknown) => {
                    return Err(unknown(&format!("volume '{name}' was changed")));
                }
            }
            if self.directory.get(&to).await.map_err(directory_away)?.is_some() {
                return Err(failed(format!(
                    "there is a volume '{}' already: choose another name",
                    moved.name
                )));
            }
            let raced = self.only_writer_changed((volume, revision)).await;
            let Some(now) = raced.filter(|_| moved.writing == volume.writing) else { break };
            (next.writing, revision) = now;
        }
        Err(failed(format!("volume '{name}' changed meanwhile: try again")))
    }
}
