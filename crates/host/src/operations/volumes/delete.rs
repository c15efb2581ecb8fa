// SPDX-License-Identifier: Apache-2.0
//! Deleting a volume: its record goes first, with a record of what its hosts are to delete.

use super::{DECIDE_MAX, Undecided, decide, deleted_record, deletion, directory_away, unknown};
use crate::operations::{Operations, Outcome, failed, no_such_volume, usage};
use directory::{DeletedRecord, Entry, Expect, VolumeRecord};
use tracing::warn;

impl Operations {
    /// What a volume's deletion leaves in the directory; `None` where no host has anything of it.
    fn deletion_record(&self, volume: &VolumeRecord) -> Option<DeletedRecord> {
        let known: Vec<_> = volume.objects.iter().filter_map(|id| self.view.object(*id)).collect();
        let mut record = deleted_record(volume, known.iter());
        if known.len() < volume.objects.len() {
            record.hosts = self.view.hosts().iter().map(|host| host.id).collect();
        }
        (!record.hosts.is_empty()).then_some(record)
    }

    /// Deletes a volume and its data.
    pub(crate) async fn delete(&self, name: &str) -> Outcome<()> {
        placement::check_name(name).map_err(usage)?;
        let key = directory::volume_key(name);
        let entry = self.directory.get(&key).await.map_err(directory_away)?;
        let Some(entry) = entry else { return Err(no_such_volume(name)) };
        let volume = VolumeRecord::decode(&entry.value).map_err(|error| {
            failed(format!("the record of volume '{name}' is damaged: {error}"))
        })?;
        let clients = self.exports.clients(name);
        if clients > 0 {
            return Err(failed(format!(
                "volume '{name}' is in use by {clients} client(s) of this host: disconnect them \
                 first"
            )));
        }
        let until = self.env.now() + DECIDE_MAX;
        let mut parts = volume.objects.chunks(self.creation.transaction_objects);
        let first = deletion(parts.next().unwrap_or_default().iter().copied());
        let first = first.expect(key.clone(), Expect::Revision(entry.revision)).delete(key.clone());
        // Hosts delete what this record names, and nothing else.
        let first = match self.deletion_record(&volume) {
            Some(record) => first.put(directory::deleted_key(volume.id), record.encode()),
            None => first,
        };
        // A volume of that name that is another one was made after this one went.
        let landed = |entry: Option<&Entry>| {
            let there = entry.map(|entry| VolumeRecord::decode(&entry.value));
            there.is_none_or(|there| there.is_ok_and(|there| there.id != volume.id))
        };
        match decide(&self.env, &self.directory, &first, &key, landed, until).await {
            Ok(true) => {}
            Ok(false) => {
                return Err(failed(format!("volume '{name}' changed meanwhile: try again")));
            }
            Err(Undecided::Away(error)) => return Err(directory_away(error)),
            Err(Undecided::Unknown) => {
                return Err(unknown(&format!("volume '{name}' was deleted")));
            }
        }
        // The volume is gone from here on. Objects that stay behind are deleted by `leftovers`.
        for part in parts {
            base::hit(base::Probe::SecondTransaction);
            let rest = deletion(part.iter().copied());
            if let Err(error) = self.directory.transact(rest).await {
                warn!(volume = name, %error, "objects of a deleted volume go later");
            }
        }
        Ok(())
    }
}
