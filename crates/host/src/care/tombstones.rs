// SPDX-License-Identifier: Apache-2.0
//! Records of what was deleted on purpose. Where a component's record is missing, the component is
//! deleted only if such a record names it. There are two exceptions: see `cleanup`.
//!
//! A host deletes a component only where such a record names its object *and* the host, and the
//! object's record, read after it, is gone. The host takes itself out of the record when it holds
//! nothing of the volume any more; until then nobody can make the volume again (`adopt`).

use crate::storage::{SlotState, Storage};
use base::{ObjectId, Set, ShardId, VolumeId};
use directory::{DELETED_PREFIX, DeletedRecord, Directory, DirectoryError, Expect, Transaction};
use object::Objects;
use tracing::{info, warn};

/// The records, each with its key and revision.
pub(crate) struct Tombstones(Vec<(String, u64, DeletedRecord)>);

impl Tombstones {
    /// All of them, by a linearizable read. What cannot be read deletes nothing.
    pub(crate) async fn read(directory: &Directory) -> Result<Self, DirectoryError> {
        let entries = directory.list(DELETED_PREFIX).await?.entries.into_iter();
        let decoded =
            entries.filter_map(|(key, entry)| match DeletedRecord::decode(&entry.value) {
                Ok(record) => Some((key, entry.revision, record)),
                Err(error) => {
                    warn!(key, %error, "what this says is deleted stays: it cannot be read");
                    None
                }
            });
        Ok(Self(decoded.collect()))
    }

    /// The objects that `host` is to delete.
    pub(crate) fn objects_for(&self, shard: ShardId) -> Set<ObjectId> {
        let mine = self.0.iter().filter(|(_, _, record)| record.shards.contains(&shard));
        mine.flat_map(|(_, _, record)| record.objects.iter().copied()).collect()
    }

    /// Whether a volume was deleted, and not everything of it is gone yet.
    pub(crate) fn names(&self, volume: VolumeId) -> bool {
        self.0.iter().any(|(_, _, record)| record.id == volume)
    }

    /// Takes `me` out of records of which it holds nothing, and hosts that are no members any more
    /// out of all. With a group or device out of service nobody knows what this one holds; and
    /// where it has not heard yet that an object is gone, something may still be made for it. All
    /// the same where `is_early`, which breaks the rule.
    pub(crate) async fn settle(
        &self,
        directory: &Directory,
        (me, removed): (ShardId, Set<ShardId>),
        (storage, objects): (&Storage, &Objects),
        is_early: bool,
    ) {
        let is_whole = storage.slots().iter().all(|slot| match &slot.state {
            SlotState::Open(serving) => !serving.group.is_any_out(),
            SlotState::Closed(_) => false,
        });
        let held: Set<ObjectId> = storage.components().values().map(|info| info.object).collect();
        for (key, revision, record) in &self.0 {
            let has = |object: &ObjectId| held.contains(object) || objects.has_record(*object);
            let is_done = is_early || is_whole && !record.objects.iter().any(has);
            let is_left = |shard: &ShardId| !(*shard == me && is_done || removed.contains(shard));
            let hosts: Vec<_> = record.shards.iter().copied().filter(is_left).collect();
            if hosts.len() == record.shards.len() {
                continue;
            }
            let transaction = Transaction::new().expect(key, Expect::Revision(*revision));
            let transaction = match hosts.is_empty() {
                true => transaction.delete(key),
                false => {
                    transaction.put(key, DeletedRecord { shards: hosts, ..record.clone() }.encode())
                }
            };
            // Lost to another host: the next round tries again.
            if directory.transact(transaction).await.is_ok_and(|done| done.succeeded) {
                info!(volume = record.name, "deleted: nothing of it is left here");
            }
        }
    }
}
