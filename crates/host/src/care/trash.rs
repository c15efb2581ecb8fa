// SPDX-License-Identifier: Apache-2.0
//! Volumes that are deleted and can be brought back go for good: after a while, and before that
//! where a device that they are on would otherwise refuse the writes of others.
//!
//! Such a volume is one like others, under a name that nobody can ask for: its copies are kept
//! whole and leave hosts that are emptied, so that it can be brought back
//! (docs/operations/volumes.md).
//! The living host with the lowest number deletes what is old. Each host looks at its own devices.

use crate::cluster::membership;
use crate::cluster::view::View;
use crate::storage::Storage;
use base::{ObjectId, Set, ShardId};
use directory::{
    DeletedRecord, Directory, DirectoryError, Expect, ObjectRecord, Transaction, VolumeRecord,
    deleted_key, object_key, volume_key,
};
use diskgroup::DiskGroup;
use env::Env;
use object::FREE_CHUNKS_RESERVE;
use std::time::Duration;
use tracing::{debug, info, warn};

/// Time between two looks.
const ROUND: Duration = Duration::from_secs(5);
/// How long nothing is deleted for want of space after a volume went so: its space comes back
/// meanwhile.
const SPACE_PAUSE: Duration = Duration::from_secs(60);

/// See the module.
pub(crate) struct Trash {
    pub(crate) env: Env,
    pub(crate) directory: Directory,
    pub(crate) cluster: u64,
    pub(crate) me: ShardId,
    pub(crate) view: View,
    pub(crate) storage: Storage,
    /// How long a deleted volume can be brought back.
    pub(crate) keep: Duration,
    /// Objects in one transaction at most.
    pub(crate) at_once: usize,
}

impl Trash {
    /// Runs for ever.
    pub(crate) async fn run(self) {
        let (mut known, mut space_from) = (Vec::new(), self.env.now());
        loop {
            self.env.sleep(ROUND).await;
            let trashed = self.trashed();
            let is_there = |volume: &VolumeRecord| trashed.iter().any(|one| one.id == volume.id);
            if !known.iter().all(is_there) {
                space_from = self.env.now() + SPACE_PAUSE; // whoever deleted it
            }
            known.clone_from(&trashed);
            let may_take_space = self.env.now() >= space_from;
            let Some((volume, why)) = self.next(trashed, may_take_space) else { continue };
            // A directory that is not this cluster's says nothing about its volumes.
            if membership::is_cluster(&self.directory, self.cluster).await != Some(true) {
                continue;
            }
            let title = volume.title();
            match self.delete(&volume).await {
                Some(true) => info!(volume = title, ?why, "it is gone for good"),
                // Others may have been faster, or have brought it back.
                Some(false) | None => debug!(volume = title, ?why, "not deleted; looked at again"),
            }
        }
    }

    /// The deleted volumes, the oldest first.
    fn trashed(&self) -> Vec<VolumeRecord> {
        let mut trashed = self.view.volumes_where(|volume| volume.trashed.is_some());
        trashed.sort_by_key(|volume| (since(volume), volume.id));
        trashed
    }

    /// The volume that goes next, and why.
    fn next(
        &self,
        trashed: Vec<VolumeRecord>,
        may_take_space: bool,
    ) -> Option<(VolumeRecord, Why)> {
        if trashed.is_empty() || !self.directory.is_connected() || !self.view.is_complete() {
            return None;
        }
        let wall = self.env.wall().0 / 1_000_000_000;
        let is_old =
            |volume: &&VolumeRecord| wall.saturating_sub(since(volume)) >= self.keep.as_secs();
        if self.view.first_alive() == Some(self.me)
            && let Some(old) = trashed.iter().find(is_old)
        {
            return Some((old.clone(), Why::Age));
        }
        if !may_take_space {
            return None;
        }
        let short = self.objects_where_space_is_short();
        let is_there = |volume: &VolumeRecord| volume.objects.iter().any(|id| short.contains(id));
        trashed.into_iter().find(is_there).map(|volume| (volume, Why::Space))
    }

    /// Objects with a component of this host on a device that is too full to take writes.
    fn objects_where_space_is_short(&self) -> Set<ObjectId> {
        let groups = self.storage.groups().into_iter();
        let is_short = |group: &DiskGroup| {
            group.failure().is_none() && group.least_free() < u64::from(FREE_CHUNKS_RESERVE)
        };
        let objects_of = |group: DiskGroup| {
            let components = group.components().into_iter();
            let objects = components.filter_map(|id| {
                let info = group.component(id)?;
                let is_full = group.free_beside(id)? < u64::from(FREE_CHUNKS_RESERVE);
                (is_full && info.held > 0).then_some(info.object)
            });
            objects.collect::<Vec<_>>()
        };
        groups.filter(is_short).flat_map(objects_of).collect()
    }

    /// Whether the volume went; `None`: the directory does not answer.
    async fn delete(&self, volume: &VolumeRecord) -> Option<bool> {
        let entry = self.directory.get(&volume_key(&volume.name)).await.ok()??;
        if VolumeRecord::decode(&entry.value).ok().as_ref() != Some(volume) {
            return Some(false); // it was brought back meanwhile
        }
        let (known, at_once) = ((volume, entry.revision), self.at_once);
        let going = Deletion::read(&self.directory, &self.view, known, at_once).await.ok()?;
        if !self.directory.transact(going.first.clone()).await.ok()?.succeeded {
            return Some(false);
        }
        going.rest(&self.directory).await;
        Some(true)
    }
}

/// When a volume was deleted, seconds of the wall clock.
fn since(volume: &VolumeRecord) -> u64 {
    volume.trashed.as_ref().map_or(0, |trashed| trashed.since)
}

/// Why a deleted volume goes for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Age,
    Space,
}

/// What deletes a volume for good, as its records were read.
pub(crate) struct Deletion {
    /// The volume is gone with this one. It fails where the volume's record or one of its objects'
    /// changed meanwhile, as when a copy was added elsewhere.
    pub(crate) first: Transaction,
    rest: Vec<Transaction>,
}

impl Deletion {
    /// For a volume whose record has this revision, with `at_once` objects in each transaction.
    /// The directory is asked for the objects, for a view may not know yet of a copy that was just
    /// added: its host would not be named, and would keep it.
    pub(crate) async fn read(
        directory: &Directory,
        view: &View,
        (volume, revision): (&VolumeRecord, u64),
        at_once: usize,
    ) -> Result<Self, DirectoryError> {
        let mut entries = Vec::with_capacity(volume.objects.len());
        for id in &volume.objects {
            let key = object_key(*id);
            let entry = directory.get(&key).await?;
            entries.push((key, entry));
        }
        let mut parts = entries.chunks(at_once).map(|part| {
            part.iter().fold(Transaction::new(), |transaction, (key, entry)| {
                let revision = entry.as_ref().map(|entry| entry.revision);
                let expect = revision.map_or(Expect::Absent, Expect::Revision);
                transaction.expect(key, expect).delete(key)
            })
        });
        let (key, first) = (volume_key(&volume.name), parts.next().unwrap_or_default());
        let first = first.expect(key.clone(), Expect::Revision(revision)).delete(key);
        let known = entries.iter().map(|(_, entry)| {
            entry.as_ref().and_then(|entry| ObjectRecord::decode(&entry.value).ok())
        });
        // Hosts delete what this record names, and nothing else.
        let first = match tombstone(view, volume, known.collect()) {
            Some(record) => first.put(deleted_key(volume.id), record.encode()),
            None => first,
        };
        Ok(Self { first, rest: parts.collect() })
    }

    /// Deletes what is left of the objects once the first transaction landed. What does not land
    /// `leftovers` deletes, and names the hosts that this one did not know of.
    pub(crate) async fn rest(self, directory: &Directory) {
        for rest in self.rest {
            base::hit(base::Probe::SecondTransaction);
            match directory.transact(rest).await {
                Ok(done) if done.succeeded => {}
                Ok(_) => debug!("objects of a deleted volume changed meanwhile, and go later"),
                Err(error) => warn!(%error, "objects of a deleted volume go later"),
            }
        }
    }
}

/// Deletes the records of these objects.
pub(crate) fn deletion(objects: &[ObjectId]) -> Transaction {
    let keys = objects.iter().map(|id| object_key(*id));
    keys.fold(Transaction::new(), Transaction::delete)
}

/// What a volume's deletion leaves in the directory: the hosts that may have something of it.
/// `None` where no host has anything. `known` has a record of each object, or none that can be
/// read: any host may have something of that one.
fn tombstone(
    view: &View,
    volume: &VolumeRecord,
    known: Option<Vec<ObjectRecord>>,
) -> Option<DeletedRecord> {
    let shards: Set<ShardId> = match known {
        None => view.shards().iter().map(|shard| shard.id).collect(),
        Some(known) => known.iter().flat_map(hosts_of).collect(),
    };
    let (id, name, objects) = (volume.id, volume.name.clone(), volume.objects.clone());
    let shards: Vec<ShardId> = shards.into_iter().collect();
    (!shards.is_empty()).then_some(DeletedRecord { id, name, shards, objects })
}

/// Hosts that have a component of the object, or are to delete one.
pub(crate) fn hosts_of(object: &ObjectRecord) -> Vec<ShardId> {
    let removed = object.removed.iter().map(|removed| removed.shard);
    object.components.iter().map(|component| component.shard).chain(removed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{self, component, object, with_directory};
    use base::VolumeId;
    use directory::{
        ComponentRecord, ComponentState, Entry, OBJECT_SECTORS_MAX, ShardRecord, Trashed, host_key,
        trash_name,
    };

    const VOLUME: VolumeId = VolumeId(9);

    fn copy_on(host: u32) -> ComponentRecord {
        component(u64::from(host), host, ComponentState::Active)
    }

    fn trashed(objects: &[ObjectRecord]) -> VolumeRecord {
        let trashed = Some(Trashed { name: "db".to_owned(), since: 1 });
        VolumeRecord { trashed, ..simulated::volume(VOLUME, &trash_name(VOLUME), objects) }
    }

    async fn send(directory: &Directory, transaction: Transaction) -> bool {
        directory.transact(transaction).await.expect("a directory takes it").succeeded
    }

    async fn get(directory: &Directory, key: &str) -> Option<Entry> {
        directory.get(key).await.expect("it answers")
    }

    /// The hosts that are to delete something of the volume.
    async fn named(directory: &Directory) -> Option<Vec<u32>> {
        let entry = get(directory, &deleted_key(VOLUME)).await?;
        let record = DeletedRecord::decode(&entry.value).expect("it can be read");
        Some(record.shards.iter().map(|shard| shard.0).collect())
    }

    /// Writes the records of a deleted volume, and reads what deletes it for good, `at_once`
    /// objects at a time.
    async fn going(directory: &Directory, objects: &[ObjectRecord], at_once: usize) -> Deletion {
        let volume = trashed(objects);
        let key = volume_key(&volume.name);
        let put = Transaction::new().put(&key, volume.encode());
        let put = objects.iter().fold(put, |put, one| put.put(object_key(one.id), one.encode()));
        assert!(send(directory, put).await);
        let revision = get(directory, &key).await.expect("it is there").revision;
        let view = View::default();
        let read = Deletion::read(directory, &view, (&volume, revision), at_once).await;
        read.expect("it answers")
    }

    #[test]
    fn a_volume_that_was_brought_back_meanwhile_stays() {
        with_directory(|_, directory| async move {
            let object = object(1, VOLUME, vec![copy_on(1)]);
            let trashed = trashed(std::slice::from_ref(&object));
            let before = going(&directory, std::slice::from_ref(&object), 96).await;
            let key = volume_key(&trashed.name);
            let back = VolumeRecord { name: "db".to_owned(), trashed: None, ..trashed.clone() };
            let undelete =
                Transaction::new().delete(key.clone()).put(volume_key("db"), back.encode());
            assert!(send(&directory, undelete).await);
            assert!(!send(&directory, before.first.clone()).await, "it is in use again");
            assert!(get(&directory, &object_key(object.id)).await.is_some());
            assert_eq!(named(&directory).await, None, "no host is told to delete anything");
            // Deleted once more: what was decided about it before does not hold.
            let again = Transaction::new().delete(volume_key("db")).put(key, trashed.encode());
            assert!(send(&directory, again).await);
            assert!(!send(&directory, before.first).await);
            assert!(get(&directory, &object_key(object.id)).await.is_some());
        });
    }

    #[test]
    fn a_host_that_got_a_copy_meanwhile_is_told_to_delete_it() {
        with_directory(|_, directory| async move {
            let object = object(1, VOLUME, vec![copy_on(1)]);
            let before = going(&directory, std::slice::from_ref(&object), 96).await;
            let more = ObjectRecord { components: vec![copy_on(1), copy_on(2)], ..object };
            let added = Transaction::new().put(object_key(more.id), more.encode());
            assert!(send(&directory, added).await);
            assert!(!send(&directory, before.first).await, "host 2 would not be named");
            let now = going(&directory, &[more], 96).await;
            assert!(send(&directory, now.first).await);
            assert_eq!(named(&directory).await, Some(vec![1, 2]));
        });
    }

    #[test]
    fn objects_that_change_after_the_volume_went_stay_for_leftovers() {
        with_directory(|_, directory| async move {
            let mut objects = [1, 2, 3].map(|id| object(id, VOLUME, vec![copy_on(1)]));
            objects[0].sectors = OBJECT_SECTORS_MAX;
            objects[1].sectors = OBJECT_SECTORS_MAX;
            let deletion = going(&directory, &objects, 1).await;
            assert!(send(&directory, deletion.first.clone()).await);
            let mut more = objects[1].clone();
            more.components.push(copy_on(2));
            let key = object_key(more.id);
            assert!(send(&directory, Transaction::new().put(&key, more.encode())).await);
            deletion.rest(&directory).await;
            assert!(get(&directory, &key).await.is_some(), "host 2 is not named");
            assert!(get(&directory, &object_key(objects[2].id)).await.is_none());
            assert_eq!(named(&directory).await, Some(vec![1]));
        });
    }

    #[test]
    fn any_host_may_have_something_of_an_object_without_a_record() {
        let volume = trashed(&[object(1, VOLUME, vec![copy_on(1)])]);
        let view = View::default();
        let there = ShardRecord {
            id: ShardId(3),
            name: "c".to_owned(),
            peer_address: "tcp:10.0.0.3:7070".to_owned(),
            nbd_uri: String::new(),
            groups: Vec::new(),
            machine: None,
        };
        let entry = Entry { value: there.encode(), revision: 1 };
        view.reset(&[(host_key(there.id), entry)]);
        let record = tombstone(&view, &volume, None).expect("host 3 is named");
        assert_eq!(record.shards, vec![ShardId(3)]);
    }
}
