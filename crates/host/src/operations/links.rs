// SPDX-License-Identifier: Apache-2.0
//! Links that are encrypted, by ends that prove who they are.

use super::{Operations, Outcome, failed};
use directory::{Level, SettingsRecord};
use operator::ClusterReport;

impl Operations {
    /// Says whether links between shards are encrypted. Before they are, each other host has to
    /// prove itself: one that cannot would be cut off.
    pub(super) async fn encrypt_links(&self, on: bool) -> Outcome<ClusterReport> {
        if on {
            self.need(Level::LINKS, "encryption of the links between hosts")?;
            self.need_proof_of_all().await?;
        }
        self.change_settings(|now| SettingsRecord { encrypt_links: on, ..now }).await
    }

    async fn need_proof_of_all(&self) -> Outcome<()> {
        if !self.seen.has_identity() {
            return Err(failed(
                "this host has no certificate that the others know: copy ca.pem and ca-key.pem \
                 from the host that created the cluster into the folder of its configuration, and \
                 start it again",
            ));
        }
        let others = self.view.shards().into_iter().filter(|shard| shard.id != self.me);
        // One after the other: each takes some milliseconds, and a second where it is down.
        for shard in others {
            if let Err(why) = self.seen.prove(shard.id).await {
                let name = shard.name;
                return Err(failed(format!(
                    "{name} would be cut off, for it does not prove that it is {name}: {why}; \
                     start it if it is down, with a release that encrypts and with ca.pem and \
                     ca-key.pem of the cluster beside its configuration"
                )));
            }
        }
        Ok(())
    }

    /// One line for each host to which there is no link because one end did not prove itself.
    pub(super) fn link_alarms(&self) -> Vec<String> {
        let unproven = self.seen.unproven().into_iter();
        let told = unproven.map(|(shard, why)| {
            let host = self.view.shard_name(shard);
            format!("no link to {host}, for links are encrypted: {why}")
        });
        told.collect()
    }
}
