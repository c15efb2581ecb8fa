// SPDX-License-Identifier: Apache-2.0
//! What changes in the directory, passed on to whom it concerns.

use crate::care::deletions::Deletions;
use crate::cluster::seen::Seen;
use crate::cluster::view::{ObjectChange, View};
use crate::config::address::parse_address;
use crate::start_error::StartError;
use base::ShardId;
use directory::{Directory, Level, WatchEvent};
use env::Notify;
use object::Objects;
use peer::Peers;
use tracing::{error, warn};

/// Who is told of what changes in the directory.
pub(super) struct Followers {
    pub(super) objects: Objects,
    pub(super) peers: Peers,
    pub(super) deletions: Deletions,
    /// What this host's release knows.
    pub(super) level: Level,
    /// Ends this host.
    pub(super) stop: Notify,
}

impl Followers {
    /// Copies the directory into the view and passes on what concerns objects and peers.
    pub(super) async fn follow(self, directory: Directory, view: View, seen: Seen, me: ShardId) {
        let mut watch = directory.watch(directory::PREFIX);
        let mut is_outdated = false;
        loop {
            let changes = match watch.next().await {
                WatchEvent::Reset(listing) => view.reset(&listing.entries),
                WatchEvent::Put(key, entry) => view.put(&key, &entry).into_iter().collect(),
                WatchEvent::Delete(key, _) => view.delete(&key).into_iter().collect(),
            };
            for change in changes {
                self.pass_on(change, &seen, me);
            }
            let (cluster, known) = (view.level(), self.level);
            if cluster > known {
                // Nobody may listen yet: the next change says it again.
                self.stop.notify();
                if !std::mem::replace(&mut is_outdated, true) {
                    error!("{}", StartError::OlderRelease { cluster, known });
                }
            }
        }
    }

    fn pass_on(&self, change: ObjectChange, seen: &Seen, me: ShardId) {
        let Self { objects, peers, deletions, stop, .. } = self;
        match change {
            ObjectChange::Put(record, revision) => {
                seen.record_changed(&record);
                objects.record_changed(record, revision);
            }
            ObjectChange::Deleted(id) => {
                seen.record_deleted(id);
                deletions.add(id);
            }
            ObjectChange::Alive(shard, alive) => {
                objects.host_alive(shard, alive.map(|record| record.incarnation));
            }
            ObjectChange::Host(record, revision) => {
                objects.host_changed(record.id, revision);
                match parse_address(&record.peer_address) {
                    _ if record.id == me => {}
                    Ok(address) => peers.set_address(record.id, address),
                    Err(error) => warn!(host = record.name, %error, "unusable host record"),
                }
            }
            ObjectChange::Removed(shard) if shard == me => {
                error!("this host was taken out of the cluster while it was away: it ends");
                stop.notify();
            }
            ObjectChange::Removed(shard) => {
                objects.host_removed(shard);
                peers.revoke(shard);
            }
            ObjectChange::Malformed(key) => warn!(key, "undecodable directory record"),
        }
    }
}
