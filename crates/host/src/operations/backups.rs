// SPDX-License-Identifier: Apache-2.0
//! The backups of the directory on this host's disk groups, for an operator.

use super::{Operations, Outcome, failed, reply};
use crate::care::backups::{newest_first, read};
use crate::cluster::backup::{self, Restored};
use directory::{Backup, VOLUME_PREFIX};
use operator::{BackupReport, Command, CommandReply, RestoreReport};

impl Operations {
    /// Carries out what is asked about backups.
    pub(super) async fn backup_command(&self, command: Command) -> CommandReply {
        match command {
            Command::DirectoryRestore { number, replace } => {
                reply(self.restore_kept(number, replace).await)
            }
            _ => reply(Ok(self.backups().await)),
        }
    }

    /// The backups of the directory on this host's disk groups, the newest first; each is read
    /// whole.
    pub(crate) async fn backups(&self) -> Vec<BackupReport> {
        let mut reports = Vec::new();
        for (group, kept) in newest_first(&self.storage).await {
            let read = read(&self.storage, group, kept.generation).await;
            let read = read.map_err(|error| error.to_string());
            let backup = read.and_then(|b| Backup::decode(&b).map_err(|error| error.to_string()));
            let is_volume = |(key, _): &&(String, Vec<u8>)| key.starts_with(VOLUME_PREFIX);
            reports.push(BackupReport {
                host: self.view.shard_name(self.me),
                group: group.to_string(),
                number: kept.generation,
                taken: kept.taken,
                bytes: kept.length,
                volumes: backup.as_ref().ok().map(|b| b.entries.iter().filter(is_volume).count()),
                damage: backup.err(),
            });
        }
        reports
    }

    /// Puts one of them back: the newest that is whole, or the one with this number.
    pub(crate) async fn restore_kept(
        &self,
        wanted: Option<u64>,
        replaces: bool,
    ) -> Outcome<RestoreReport> {
        let mut why = "there is none on this host's open disk groups".to_owned();
        for (group, kept) in newest_first(&self.storage).await {
            let number = kept.generation;
            if wanted.is_some_and(|wanted| wanted != number) {
                continue;
            }
            let bytes = match read(&self.storage, group, number).await {
                Ok(bytes) if Backup::decode(&bytes).is_ok() => bytes,
                Ok(_) => {
                    why = format!("number {number} is of another version of this program");
                    continue;
                }
                Err(error) => {
                    why = error.to_string();
                    continue;
                }
            };
            let (env, directory) = (&self.env, &self.directory);
            let restored = backup::put_back(env, directory, self.cluster, &bytes, replaces).await;
            let Restored { taken, records, volumes } = restored.map_err(failed)?;
            let (host, group) = (self.view.shard_name(self.me), group.to_string());
            return Ok(RestoreReport { host, group, number, taken, records, volumes });
        }
        Err(failed(format!(
            "no backup of the directory was restored: {why}; see 'gabion directory backups'"
        )))
    }
}
