// SPDX-License-Identifier: Apache-2.0
//! Transactions whose outcome is unknown (trap 7), against directories that lose requests and
//! answers.

use super::create::creation;
use super::grow::growth;
use super::*;
use crate::cluster::guard::guard_key;
use crate::simulated::{self, component, with_directory, with_faults};
use base::{SECTOR_SIZE, VolumeId};
use directory::{
    ComponentState, Expect, OBJECT_SECTORS_MAX, ObjectRecord, ObjectRun, ServerFaults, VolumeLayout,
};

const UNTIL: Instant = Instant(u64::MAX);

#[test]
fn a_lost_answer_is_repeated_until_the_outcome_is_known() {
    let faults = ServerFaults {
        drop_before_ppm: 300_000,
        drop_after_ppm: 300_000,
        ..ServerFaults::default()
    };
    for seed in 0..30 {
        with_faults(seed, faults, |env, directory| async move {
            for round in 0..10 {
                let key = format!("/gabion/test/{round}");
                let put = Transaction::new().expect(&key, Expect::Absent).put(&key, "1");
                let there = |entry: Option<&Entry>| entry.is_some();
                let mut decided = Err(Undecided::Unknown);
                // Before the first request went out it may say that nothing happened.
                while decided.is_err() {
                    decided = decide(&env, &directory, &put, &key, there, UNTIL).await;
                }
                assert_eq!(decided, Ok(true), "nobody else writes it");
            }
        });
    }
}

#[test]
fn a_transaction_that_others_forestalled_is_refused_and_not_taken_for_done() {
    with_directory(|env, directory| async move {
        let other = Transaction::new().put("/gabion/name", "theirs");
        directory.transact(other).await.expect("it lands");
        let mine = Transaction::new()
            .expect("/gabion/name", Expect::Absent)
            .put("/gabion/mine", "1")
            .put("/gabion/name", "mine");
        let there = |entry: Option<&Entry>| entry.is_some();
        let decided = decide(&env, &directory, &mine, "/gabion/mine", there, UNTIL).await;
        assert_eq!(decided, Ok(false));
    });
}

#[test]
fn a_directory_that_never_answers_leaves_it_unknown() {
    let faults = ServerFaults { drop_after_ppm: 1_000_000, ..ServerFaults::default() };
    with_faults(1, faults, |env, directory| async move {
        let put = Transaction::new().expect("/gabion/a", Expect::Absent).put("/gabion/a", "1");
        let until = env.now() + DECIDE_MAX;
        let there = |entry: Option<&Entry>| entry.is_some();
        let decided = decide(&env, &directory, &put, "/gabion/a", there, until).await;
        assert_eq!(decided, Err(Undecided::Unknown));
    });
}

pub(super) fn large(objects: u64) -> (VolumeRecord, Vec<ObjectRecord>) {
    let id = VolumeId(9);
    let object = |number: u64| {
        let copies = vec![component(number, 1, ComponentState::Active)];
        ObjectRecord { sectors: OBJECT_SECTORS_MAX, ..simulated::object(number, id, copies) }
    };
    let objects: Vec<_> = (1..=objects).map(object).collect();
    let volume = VolumeRecord {
        id,
        name: "large".to_owned(),
        size_bytes: objects.len() as u64 * OBJECT_SECTORS_MAX * SECTOR_SIZE,
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
        objects: objects.iter().map(|object| object.id).collect(),
    };
    (volume, objects)
}

#[test]
fn no_part_of_a_creation_lands_after_its_guard_is_gone() {
    with_directory(|_, directory| async move {
        let (volume, objects) = large(240);
        let parts: Vec<_> = objects.chunks(volume::TRANSACTION_OBJECTS_MAX).collect();
        assert_eq!(parts.len(), 3);
        let part = |index| creation(&volume, &parts, index, &[]).0;
        let send = async |index| {
            let sent = directory.transact(part(index)).await;
            sent.expect("a directory takes it").succeeded
        };
        assert!(send(0).await);
        assert!(send(1).await);
        let undo = Transaction::new().delete(guard_key(volume.id));
        directory.transact(undo).await.expect("it lands");
        assert!(!send(2).await, "a volume without its first objects");

        let again = part(0).put(guard_key(volume.id), "");
        assert!(again.check().is_err() || !send(0).await, "its objects stand already");
    });
}

#[test]
fn a_creation_in_parts_ends_with_the_volume_and_without_a_guard() {
    with_directory(|_, directory| async move {
        let (volume, objects) = large(240);
        let parts: Vec<_> = objects.chunks(volume::TRANSACTION_OBJECTS_MAX).collect();
        for index in 0..parts.len() {
            let (transaction, probe) = creation(&volume, &parts, index, &[]);
            let sent = directory.transact(transaction).await.expect("a directory takes it");
            assert!(sent.succeeded);
            assert!(directory.get(&probe).await.expect("it answers").is_some());
        }
        let get = async |key: String| directory.get(&key).await.expect("it answers");
        assert!(get(directory::volume_key("large")).await.is_some());
        assert!(get(guard_key(volume.id)).await.is_none());
    });
}

#[test]
fn a_growth_lands_once_and_only_on_the_volume_that_it_was_made_for() {
    with_directory(|_, directory| async move {
        let (volume, mut more) = large(4);
        let more = more.split_off(2);
        let (key, objects) = (directory::volume_key(&volume.name), volume.objects[..2].to_vec());
        let size_bytes = 2 * OBJECT_SECTORS_MAX * SECTOR_SIZE;
        let volume = VolumeRecord { objects, size_bytes, ..volume };
        let revision = async || {
            let entry = directory.get(&key).await.expect("it answers");
            entry.expect("the volume").revision
        };
        let send = async |transaction| {
            let sent = directory.transact(transaction).await;
            sent.expect("a directory takes it").succeeded
        };
        let next = |volume: VolumeRecord| {
            let layout = more.iter().map(|object| ObjectRun::of_object(object.sectors));
            volume.with_objects(&VolumeLayout::of_runs(layout), &more)
        };
        let put = |volume: &VolumeRecord| Transaction::new().put(&key, volume.encode());
        assert!(send(put(&volume)).await);
        let before = revision().await;
        let changed = VolumeRecord { reserve_percent: 10, ..volume.clone() };
        assert!(send(put(&changed)).await, "somebody else was faster");
        let (stale, probe) = growth(&next(volume), before, &more, &[]);
        assert!(!send(stale).await);
        assert!(directory.get(&probe).await.expect("it answers").is_none(), "nothing of it");
        let (fresh, _) = growth(&next(changed), revision().await, &more, &[]);
        assert!(send(fresh.clone()).await);
        assert!(!send(fresh).await, "again it does nothing");
        let entry = directory.get(&key).await.expect("it answers").expect("the volume");
        let grown = VolumeRecord::decode(&entry.value).expect("a volume");
        assert_eq!((grown.objects.len(), grown.reserve_percent), (4, 10));
    });
}
