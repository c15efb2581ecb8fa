// SPDX-License-Identifier: Apache-2.0
//! Deletes object records whose volume does not exist: the rest of a creation or deletion of a
//! large volume, which takes several transactions, that did not come to its end.
//!
//! Why no object of a living volume can be hit:
//! 1. A creation in several transactions holds a *guard* key from the first one to the last, which
//!    writes the volume's record and deletes the guard; every one in between expects the guard.
//! 2. Here the guard is read first, then the objects, then the volumes, each linearizable. The
//!    transaction expects the guard as it was read and deletes it, and expects every object's
//!    revision. So the creation is over, or it can go on no more.
//! 3. If the guard was absent at (2), no transaction that could still write the volume's record
//!    finds a guard, and the volumes were read later: the volume never comes.
//! 4. A directory that was lost or that holds an undecodable volume record deletes nothing.

use crate::care::trash::hosts_of;
use crate::cluster::guard::guard_key;
use crate::cluster::membership;
use crate::cluster::view::View;
use base::{Instant, Map, Set, ShardId, VolumeId};
use directory::{
    DeletedRecord, Directory, DirectoryError, Entry, Expect, OBJECT_PREFIX, ObjectRecord,
    Transaction, VOLUME_PREFIX, VolumeRecord, deleted_key,
};
use env::Env;
use std::time::Duration;
use tracing::{info, warn};

/// Time between rounds.
const ROUND: Duration = Duration::from_secs(30);
/// How long objects may be without their volume: its creation gives up long before.
const PENDING: Duration = Duration::from_secs(120);
/// Objects deleted in one transaction: each also takes a comparison, and etcd takes 128.
const OBJECTS_MAX: usize = 96;

/// Runs for ever.
pub(crate) async fn run(env: Env, directory: Directory, cluster: u64, view: View) {
    let mut since: Map<VolumeId, Instant> = Map::new();
    loop {
        env.sleep(ROUND).await;
        let orphaned = view.volumes_missing();
        since.retain(|volume, _| orphaned.contains(volume));
        for volume in orphaned {
            let begun = *since.entry(volume).or_insert(env.now());
            if env.now().since(begun) < PENDING {
                continue;
            }
            match collect(&directory, cluster, volume).await {
                Ok(0) => {}
                Ok(count) => info!(%volume, count, "objects deleted: their volume does not exist"),
                Err(error) => warn!(%volume, %error, "objects without a volume stay for now"),
            }
        }
    }
}

/// Deletes the objects of a volume that does not exist; returns how many.
async fn collect(
    directory: &Directory,
    cluster: u64,
    volume: VolumeId,
) -> Result<usize, DirectoryError> {
    let guard = guard_key(volume);
    let held = directory.get(&guard).await?;
    let objects = directory.list(OBJECT_PREFIX).await?.entries;
    let objects = objects.into_iter().filter(|(_, entry)| {
        ObjectRecord::decode(&entry.value).is_ok_and(|object| object.volume == volume)
    });
    let objects: Vec<_> = objects.collect();
    for (_, entry) in directory.list(VOLUME_PREFIX).await?.entries {
        let Ok(record) = VolumeRecord::decode(&entry.value) else { return Ok(0) };
        if record.id == volume {
            return Ok(0);
        }
    }
    if membership::is_cluster(directory, cluster).await != Some(true) {
        return Ok(0);
    }
    let mut count = 0;
    let mut held = held.map(|entry| entry.revision);
    for part in objects.chunks(OBJECTS_MAX) {
        let expect = held.map_or(Expect::Absent, Expect::Revision);
        let mut transaction = Transaction::new().expect(guard.clone(), expect);
        if held.take().is_some() {
            transaction = transaction.delete(guard.clone());
        }
        for (key, entry) in part {
            transaction = transaction.expect(key, Expect::Revision(entry.revision)).delete(key);
        }
        let entries = part.iter().map(|(_, entry)| entry);
        let transaction = name_hosts(directory, volume, entries, transaction).await?;
        if !directory.transact(transaction).await?.succeeded {
            return Ok(count); // something changed meanwhile: the next round looks again
        }
        count += part.len();
    }
    Ok(count)
}

/// Where a record says that the volume was deleted, it comes to name each host that may have
/// something of these objects: one that got a copy after the volume went is not named yet. The
/// objects of a creation that failed have no such record and get none: a directory that was set
/// back to the middle of a creation does not know how it ended.
async fn name_hosts(
    directory: &Directory,
    volume: VolumeId,
    objects: impl Iterator<Item = &Entry>,
    transaction: Transaction,
) -> Result<Transaction, DirectoryError> {
    let key = deleted_key(volume);
    let Some(entry) = directory.get(&key).await? else { return Ok(transaction) };
    let Ok(record) = DeletedRecord::decode(&entry.value) else { return Ok(transaction) };
    let objects = objects.filter_map(|entry| ObjectRecord::decode(&entry.value).ok());
    let shards: Set<ShardId> = objects.flat_map(|object| hosts_of(&object)).collect();
    if shards.iter().all(|shard| record.shards.contains(shard)) {
        return Ok(transaction);
    }
    let shards = shards.into_iter().chain(record.shards.iter().copied()).collect::<Set<_>>();
    let record = DeletedRecord { shards: shards.into_iter().collect(), ..record };
    Ok(transaction.expect(&key, Expect::Revision(entry.revision)).put(key, record.encode()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{self, component, with_directory};
    use base::ObjectId;
    use directory::{ComponentState, object_key};

    const CLUSTER: u64 = 7;
    const VOLUME: VolumeId = VolumeId(9);

    fn object(id: u64, volume: VolumeId) -> ObjectRecord {
        simulated::object(id, volume, vec![component(id, 1, ComponentState::Active)])
    }

    fn volume(id: VolumeId, object: u64) -> VolumeRecord {
        VolumeRecord {
            id,
            name: format!("v{id}"),
            size_bytes: 4096,
            ftt: 0,
            reserve_percent: 0,
            cache_percent: 0,
            stripe_width: 1,
            kept_on: None,
            connections: directory::Connections::Shared,
            writing: directory::Writing::default(),
            policy: None,
            labels: directory::Labels::new(),
            trashed: None,
            runs: Vec::new(),
            objects: vec![ObjectId(object)],
        }
    }

    async fn put(directory: &Directory, transaction: Transaction) {
        assert!(directory.transact(transaction).await.expect("it lands").succeeded);
    }

    /// A cluster with 200 objects of a volume that is not there and one of a volume that is.
    async fn littered(directory: &Directory) {
        let record = simulated::cluster(CLUSTER);
        put(directory, Transaction::new().put(directory::cluster_key(), record.encode())).await;
        let other = VolumeId(10);
        let kept = (object(1000, other), volume(other, 1000));
        let kept = Transaction::new()
            .put(object_key(kept.0.id), kept.0.encode())
            .put(directory::volume_key(&kept.1.name), kept.1.encode());
        put(directory, kept).await;
        for part in (1..=200).collect::<Vec<u64>>().chunks(50) {
            let records = part.iter().map(|id| object(*id, VOLUME));
            let part = records.fold(Transaction::new(), |transaction, record| {
                transaction.put(object_key(record.id), record.encode())
            });
            put(directory, part).await;
        }
    }

    async fn left(directory: &Directory) -> usize {
        directory.list(OBJECT_PREFIX).await.expect("it answers").entries.len()
    }

    #[test]
    fn what_a_creation_left_behind_goes_after_two_minutes_and_nothing_else() {
        with_directory(|env, directory| async move {
            littered(&directory).await;
            put(&directory, Transaction::new().put(guard_key(VOLUME), "")).await;
            let view = View::default();
            view.reset(&directory.list(directory::PREFIX).await.expect("it answers").entries);
            let run = run(env.clone(), directory.clone(), CLUSTER, view);
            let _task = env.spawn("leftovers", run);
            env.sleep(Duration::from_secs(110)).await;
            assert_eq!(left(&directory).await, 201, "a creation may be under way");
            env.sleep(Duration::from_secs(110)).await;
            assert_eq!(left(&directory).await, 1);
            // The creation's last transaction, late: it must not make a volume without objects.
            let late = Transaction::new().expect(guard_key(VOLUME), Expect::Present);
            let late = directory.transact(late).await.expect("it answers");
            assert!(!late.succeeded, "the guard is gone");
        });
    }

    #[test]
    fn a_host_that_got_a_copy_after_the_volume_went_is_told_to_delete_it() {
        with_directory(|_, directory| async move {
            littered(&directory).await;
            let mut late = object(150, VOLUME);
            late.components.push(component(1150, 4, ComponentState::Active));
            let record = DeletedRecord {
                id: VOLUME,
                name: "v9".to_owned(),
                shards: vec![ShardId(1), ShardId(7)],
                objects: (1..=200).map(ObjectId).collect(),
            };
            let put_all = Transaction::new().put(object_key(late.id), late.encode());
            put(&directory, put_all.put(deleted_key(VOLUME), record.encode())).await;
            assert_eq!(collect(&directory, CLUSTER, VOLUME).await, Ok(200));
            let entry = directory.get(&deleted_key(VOLUME)).await.expect("it answers");
            let now = DeletedRecord::decode(&entry.expect("it is there").value).expect("it is one");
            let shards = vec![ShardId(1), ShardId(4), ShardId(7)];
            assert_eq!(now, DeletedRecord { shards, ..record });
        });
    }

    #[test]
    fn what_a_creation_left_behind_is_not_named_for_deletion() {
        with_directory(|_, directory| async move {
            littered(&directory).await;
            assert_eq!(collect(&directory, CLUSTER, VOLUME).await, Ok(200));
            let entry = directory.get(&deleted_key(VOLUME)).await.expect("it answers");
            assert_eq!(entry, None);
        });
    }

    #[test]
    fn a_view_that_lags_deletes_no_object_of_a_volume_that_exists() {
        with_directory(|_, directory| async move {
            littered(&directory).await;
            let record = volume(VOLUME, 1);
            let there = Transaction::new().put("/gabion/volume/late", {
                VolumeRecord { name: "late".to_owned(), ..record }.encode()
            });
            put(&directory, there).await;
            assert_eq!(collect(&directory, CLUSTER, VOLUME).await, Ok(0));
            assert_eq!(left(&directory).await, 201);
        });
    }

    #[test]
    fn another_clusters_directory_and_a_damaged_record_delete_nothing() {
        with_directory(|_, directory| async move {
            littered(&directory).await;
            assert_eq!(collect(&directory, CLUSTER + 1, VOLUME).await, Ok(0));
            put(&directory, Transaction::new().put("/gabion/volume/x", "?")).await;
            assert_eq!(collect(&directory, CLUSTER, VOLUME).await, Ok(0));
            assert_eq!(left(&directory).await, 201);
        });
    }
}
