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
use base::{HostId, ObjectId, Set};
use directory::{
    DeletedRecord, Directory, Expect, ObjectRecord, Transaction, VolumeRecord, deleted_key,
    object_key, volume_key,
};
use diskgroup::DiskGroup;
use env::Env;
use object::FREE_CHUNKS_RESERVE;
use std::time::Duration;
use tracing::{debug, info};

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
    pub(crate) me: HostId,
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
        let going = Deletion::of(&self.view, volume, entry.revision, self.at_once);
        if !self.directory.transact(going.first).await.ok()?.succeeded {
            return Some(false);
        }
        for rest in going.rest {
            if self.directory.transact(rest).await.is_err() {
                break; // `leftovers` deletes them
            }
        }
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

/// What deletes a volume for good.
pub(crate) struct Deletion {
    /// The volume is gone with this one.
    pub(crate) first: Transaction,
    /// What is left of its objects. Where these do not land, `leftovers` deletes them.
    pub(crate) rest: Vec<Transaction>,
}

impl Deletion {
    /// For a volume whose record has this revision, with `at_once` objects in each transaction.
    pub(crate) fn of(view: &View, volume: &VolumeRecord, revision: u64, at_once: usize) -> Self {
        let key = volume_key(&volume.name);
        let mut parts = volume.objects.chunks(at_once).map(deletion);
        let first = parts.next().unwrap_or_default();
        let first = first.expect(key.clone(), Expect::Revision(revision)).delete(key);
        // Hosts delete what this record names, and nothing else.
        let first = match tombstone(view, volume) {
            Some(record) => first.put(deleted_key(volume.id), record.encode()),
            None => first,
        };
        Self { first, rest: parts.collect() }
    }
}

/// Deletes the records of these objects.
pub(crate) fn deletion(objects: &[ObjectId]) -> Transaction {
    let keys = objects.iter().map(|id| object_key(*id));
    keys.fold(Transaction::new(), Transaction::delete)
}

/// What a volume's deletion leaves in the directory: the hosts that may have something of it.
/// `None` where no host has anything.
fn tombstone(view: &View, volume: &VolumeRecord) -> Option<DeletedRecord> {
    let known: Vec<ObjectRecord> =
        volume.objects.iter().filter_map(|id| view.object(*id)).collect();
    let hosts: Set<HostId> = match known.len() < volume.objects.len() {
        true => view.hosts().iter().map(|host| host.id).collect(),
        false => known.iter().flat_map(hosts_of).collect(),
    };
    let (id, name, objects) = (volume.id, volume.name.clone(), volume.objects.clone());
    let hosts: Vec<HostId> = hosts.into_iter().collect();
    (!hosts.is_empty()).then_some(DeletedRecord { id, name, hosts, objects })
}

/// Hosts that have a component of the object, or are to delete one.
fn hosts_of(object: &ObjectRecord) -> Vec<HostId> {
    let removed = object.removed.iter().map(|removed| removed.host);
    object.components.iter().map(|component| component.host).chain(removed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{component, object, with_directory};
    use base::VolumeId;
    use directory::{ComponentState, Connections, Trashed, trash_name};

    #[test]
    fn a_volume_that_was_brought_back_meanwhile_stays() {
        with_directory(|_, directory| async move {
            let id = VolumeId(9);
            let copies = vec![component(1, 1, ComponentState::Active)];
            let object = object(1, id, copies);
            let trashed = VolumeRecord {
                id,
                name: trash_name(id),
                size_bytes: object.sectors * base::SECTOR_SIZE,
                ftt: 0,
                reserve_percent: 0,
                stripe_width: 1,
                connections: Connections::Shared,
                policy: None,
                labels: directory::Labels::new(),
                trashed: Some(Trashed { name: "db".to_owned(), since: 1 }),
                runs: Vec::new(),
                objects: vec![object.id],
            };
            let send = async |transaction| {
                let sent = directory.transact(transaction).await;
                sent.expect("a directory takes it").succeeded
            };
            let get = async |key: String| directory.get(&key).await.expect("it answers");
            let key = volume_key(&trashed.name);
            let put = Transaction::new().put(key.clone(), trashed.encode());
            assert!(send(put.put(object_key(object.id), object.encode())).await);
            let entry = get(key.clone()).await.expect("it is there");
            let going = || Deletion::of(&View::default(), &trashed, entry.revision, 96).first;
            let back = VolumeRecord { name: "db".to_owned(), trashed: None, ..trashed.clone() };
            let undelete =
                Transaction::new().delete(key.clone()).put(volume_key("db"), back.encode());
            assert!(send(undelete).await);
            assert!(!send(going()).await, "it is in use again");
            assert!(get(object_key(object.id)).await.is_some());
            assert!(get(deleted_key(id)).await.is_none(), "no host is told to delete anything");
            // Deleted once more: what was decided about it before does not hold.
            let again = Transaction::new().delete(volume_key("db")).put(key, trashed.encode());
            assert!(send(again).await);
            assert!(!send(going()).await);
            assert!(get(object_key(object.id)).await.is_some());
        });
    }
}
