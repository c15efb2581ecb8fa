// SPDX-License-Identifier: Apache-2.0
//! Backups that are put back into directories of all kinds.

use super::*;
use crate::cluster::membership::{OwnCluster, next_incarnation};
use crate::simulated::{self, address, with_directory};
use base::Incarnation;
use directory::{ComponentState, Listing, OwnerRecord, Writers, Writing, volume_key};

const CLUSTER: u64 = 7;

async fn put(directory: &Directory, key: &str, value: &str) {
    directory.transact(Transaction::new().put(key, value)).await.expect("it lands");
}

/// A cluster with many records of each kind. Their content is not looked at.
async fn fill(env: &Env, directory: &Directory) {
    crate::found(env, address(), CLUSTER, ClusterKind::AllFlash).await.expect("it is founded");
    for n in 0..150 {
        put(directory, &format!("{OBJECT_PREFIX}{n:x}"), "an object").await;
    }
    put(directory, &volume_key("web"), "a volume").await;
    put(directory, &format!("{DELETED_PREFIX}77"), "a deletion").await;
    put(directory, "/gabion/host/1", "as it was").await;
    put(directory, "/gabion/incarnations/1", "5").await;
    put(directory, "/gabion/alive/1", "lives").await;
    put(directory, "/gabion/creating/5", "").await;
    put(directory, &format!("{ORPHAN_PREFIX}4"), "an orphan").await;
}

async fn all(directory: &Directory) -> Map<String, String> {
    let Listing { entries, .. } = directory.list(PREFIX).await.expect("it answers");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    entries.into_iter().map(|(key, entry)| (key, text(entry.value))).collect()
}

#[test]
fn an_empty_directory_gets_everything_back_but_what_runs() {
    with_directory(|env, directory| async move {
        let error = backup(&env, address(), CLUSTER).await.expect_err("nothing is there");
        assert!(matches!(error, RestoreError::Empty));
        fill(&env, &directory).await;
        let before = all(&directory).await;
        let file = backup(&env, address(), CLUSTER).await.expect("a backup");
        let wipe = before.keys().cloned().map(|key| (0, key, None)).collect();
        apply(&directory, wipe).await.expect("it is empty");
        let restored = restore(&env, address(), CLUSTER, &file, false).await.expect("restored");
        assert_eq!((restored.volumes, restored.records), (1, 155));
        let mut wanted = before;
        wanted.retain(|key, _| is_kept(key));
        // Also those of hosts that are younger than the backup.
        wanted.extend((2..=255).map(|n| (incarnation_key(ShardId(n)), "4096".to_owned())));
        wanted.insert("/gabion/incarnations/1".to_owned(), "4101".to_owned());
        assert_eq!(all(&directory).await, wanted);
    });
}

#[test]
fn what_is_younger_is_replaced_only_where_that_is_asked_for() {
    with_directory(|env, directory| async move {
        fill(&env, &directory).await;
        let file = backup(&env, address(), CLUSTER).await.expect("a backup");
        put(&directory, &volume_key("young"), "a volume").await;
        put(&directory, &format!("{DELETED_PREFIX}78"), "a deletion").await;
        put(&directory, "/gabion/host/1", "as it is").await;
        put(&directory, "/gabion/incarnations/1", "9").await;
        let before = all(&directory).await;
        let refused = restore(&env, address(), CLUSTER, &file, false).await;
        assert!(matches!(refused, Err(RestoreError::NotEmpty { volumes: 2 })));
        assert_eq!(all(&directory).await, before);
        restore(&env, address(), CLUSTER, &file, true).await.expect("restored");
        let after = all(&directory).await;
        let of = |key: &str| after.get(key).map(String::as_str);
        assert_eq!((of(&volume_key("web")), of(&volume_key("young"))), (Some("a volume"), None));
        assert_eq!(
            (of("/gabion/deleted/77"), of("/gabion/deleted/78")),
            (Some("a deletion"), None)
        );
        assert_eq!(of("/gabion/host/1"), Some("as it is"), "the host itself knows better");
        assert_eq!(of("/gabion/incarnations/1"), Some("4105"), "no run's number is given twice");
        assert_eq!(of("/gabion/alive/1"), Some("lives"));
    });
}

#[test]
fn a_host_that_was_taken_out_since_does_not_come_back_with_a_backup() {
    with_directory(|env, directory| async move {
        fill(&env, &directory).await;
        let file = backup(&env, address(), CLUSTER).await.expect("a backup");
        let (host, removed) = ("/gabion/host/1", "/gabion/removed/1");
        let gone = Transaction::new().put(removed, "it went").delete(host);
        directory.transact(gone).await.expect("it lands");
        restore(&env, address(), CLUSTER, &file, true).await.expect("restored");
        let after = all(&directory).await;
        assert_eq!(after.get(host), None);
        assert_eq!(after.get(removed).map(String::as_str), Some("it went"));
    });
}

#[test]
fn another_clusters_backup_or_directory_is_refused() {
    with_directory(|env, directory| async move {
        fill(&env, &directory).await;
        let file = backup(&env, address(), CLUSTER).await.expect("a backup");
        let before = all(&directory).await;
        let refused = restore(&env, address(), 8, &file, true).await;
        assert!(matches!(refused, Err(RestoreError::Foreign { found: 7, wanted: 8 })));
        let mut other = Backup::decode(&file).expect("a backup");
        other.cluster = 8;
        let refused = restore(&env, address(), 8, &other.encode(), true).await;
        assert!(matches!(refused, Err(RestoreError::Foreign { found: 7, wanted: 8 })));
        let damaged = restore(&env, address(), CLUSTER, &file[1..], true).await;
        assert!(matches!(damaged, Err(RestoreError::Backup(BackupError::Magic))));
        let refused = recover(&env, address(), 8, ClusterKind::AllFlash).await;
        assert!(matches!(refused, Err(RestoreError::Foreign { found: 7, wanted: 8 })));
        assert_eq!(all(&directory).await, before);
    });
}

#[test]
fn a_directory_made_again_counts_runs_above_all_that_were() {
    with_directory(|env, directory| async move {
        let kind = ClusterKind::Hybrid;
        let next = async |host, seen| {
            let cluster = OwnCluster { cluster: CLUSTER, level: Level::NEWEST };
            next_incarnation(&env, &directory, cluster, ShardId(host), Incarnation(seen)).await
        };
        let lost = next(7, 3).await;
        assert!(matches!(lost, Err(crate::StartError::DirectoryLost)), "a lost one gives none");
        put(&directory, "/gabion/incarnations/5", "12").await;
        put(&directory, "/gabion/incarnations/6", "70000").await;
        assert!(recover(&env, address(), CLUSTER, kind).await.expect("it is made"));
        assert!(!recover(&env, address(), CLUSTER, kind).await.expect("it is there"));
        for host in [200, 5] {
            let next = next(host, 3).await.expect("a number");
            assert!(next.0 > INCARNATION_LEAP, "{next:?}");
        }
        let next = async |host, seen| next(host, seen).await.expect("a number").0;
        assert_eq!(next(6, 3).await, 70_001, "nor below what a run that went on has said");
        assert_eq!(next(9, 1 << 20).await, (1 << 20) + 1, "nor below what its disks know");
    });
}

#[test]
fn nobody_writes_to_a_volume_in_an_epoch_that_was_given_before() {
    with_directory(|env, directory| async move {
        fill(&env, &directory).await;
        let key = volume_key("db");
        let copies = vec![simulated::component(1, 1, ComponentState::Active)];
        let writer = OwnerRecord { shard: ShardId(2), incarnation: Incarnation(4) };
        let writing =
            Writing { writers: Writers::One, epoch: WriterEpoch(7), writer: Some(writer) };
        let volume =
            simulated::volume(VolumeId(9), "db", &[simulated::object(1, VolumeId(9), copies)]);
        let record = VolumeRecord { writing, ..volume };
        let put_it = async |record: &VolumeRecord| {
            let put = Transaction::new().put(key.clone(), record.encode());
            directory.transact(put).await.expect("it lands");
        };
        let now = async || {
            let entry = directory.get(&key).await.expect("it answers").expect("it is there");
            VolumeRecord::decode(&entry.value).expect("a record").writing
        };
        put_it(&record).await;
        let file = backup(&env, address(), CLUSTER).await.expect("a backup");
        let mut latest = writing;
        // The second time is as after one that was interrupted, and others had gone on.
        for _ in 0..2 {
            let next = latest.with_writer(OwnerRecord { shard: ShardId(3), ..writer });
            latest = next.expect("there are more");
            put_it(&VolumeRecord { writing: latest, ..record.clone() }).await;
            restore(&env, address(), CLUSTER, &file, true).await.expect("restored");
            let back = now().await;
            assert!(back.epoch > latest.epoch && back.writer.is_none(), "{back:?}");
            latest = back;
        }
    });
}
