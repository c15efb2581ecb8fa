// SPDX-License-Identifier: Apache-2.0
//! Backups of the directory that hosts take by themselves and keep on their own disk groups.

use super::super::tests::start_with;
use super::*;
use operator::{BackupReport, RestoreReport};

/// Time after a change until hosts have a backup with the change.
const TAKEN: Duration = Duration::from_secs(450);

impl Cluster {
    fn backups(&self, index: usize) -> Vec<BackupReport> {
        let backups = self.ask(index, Command::DirectoryBackups).expect("a list");
        serde_json::from_value(backups).expect("a list")
    }

    /// For each host the number of each of its backups, newest first, and the volumes in it.
    fn numbers(&self) -> Vec<Vec<(u64, usize)>> {
        let of = |backup: BackupReport| (backup.number, backup.volumes.expect("it is whole"));
        (0..3).map(|index| self.backups(index).into_iter().map(of).collect()).collect()
    }

    fn restore(&self, index: usize, number: Option<u64>) -> Result<RestoreReport, String> {
        let restore = Command::DirectoryRestore { number, replace: false };
        self.ask(index, restore).map(|done| serde_json::from_value(done).expect("a report"))
    }

    /// At rest the audit of every group finds nothing pending.
    fn audit(&self) {
        for group in (0..3).filter_map(|index| self.node(index)).flat_map(|node| node.groups()) {
            let audit = group.audit().expect("sound");
            assert_eq!((audit.pending, audit.pins), (0, 0), "{audit:?}");
        }
    }
}

#[test]
fn a_lost_directory_comes_back_from_what_a_host_kept() {
    let cluster = start(41);
    cluster.run(TAKEN);
    assert_eq!(cluster.numbers(), [[], [], []], "nothing is worth it yet");
    for (count, name) in (1..).zip(["a", "b", "c", "d", "e"]) {
        cluster.create(name, 8, 0).expect("there is room");
        cluster.write(name, count);
        cluster.label(name, &[("called", name)], &[]).expect("it is there");
        cluster.run(TAKEN);
    }
    let kept = vec![vec![(5, 5), (4, 4), (3, 3)]; 3];
    assert_eq!(cluster.numbers(), kept, "the three newest, each on every host");
    cluster.run(4 * TAKEN);
    assert_eq!(cluster.numbers(), kept, "nothing changed");
    assert_eq!((cluster.held(), cluster.status(0).health), (15, Health::Green));
    cluster.audit();
    cluster.write("a", 77);

    (0..3).for_each(|index| cluster.take_down(index, true));
    cluster.world.kill(cluster.directory);
    cluster.records.go_back(Snapshot::default());
    cluster.boot_empty_directory();
    (0..3).for_each(|index| cluster.boot(index, |_, _| async {}));
    cluster.run(Duration::from_secs(20));
    assert!((0..3).all(|index| cluster.node(index).is_none()), "nobody starts on nothing");
    let kind = cluster.plan.kind;
    let recovered = cluster.on(0, async move |env| {
        host::recover(&env, directory_address(), CLUSTER, kind).await.expect("it is begun anew")
    });
    assert!(recovered);
    wait_for_hosts(&cluster);
    cluster.run(LONG);
    assert_eq!(cluster.numbers(), kept, "a directory that forgot pushes none of them out");
    let error = cluster.restore(2, Some(2)).expect_err("it made room");
    assert!(error.contains("gabion directory backups"), "{error}");
    let restored = cluster.restore(2, None).expect("it is there");
    assert_eq!((restored.host.as_str(), restored.number, restored.volumes), ("host3", 5, 5));
    cluster.run(2 * LONG);
    assert_eq!(cluster.numbers(), kept, "nor does one that is in doubt");
    for (count, name) in (1..).zip(["a", "b", "c", "d", "e"]) {
        cluster.adopt(name).expect("it is made again");
        // Gives the other hosts time to hear of it.
        cluster.run(Duration::from_secs(1));
        let byte = if name == "a" { 77 } else { count };
        assert_eq!((cluster.read(0, name), cluster.read(1, name)), (Some(byte), Some(byte)));
        let volumes = cluster.status(0).volumes;
        let it = volumes.iter().find(|volume| volume.name == name).expect("it is there");
        assert_eq!(it.labels.get("called").map(String::as_str), Some(name), "as in its record");
    }
    cluster.create("f", 8, 0).expect("there is room");
    cluster.run(TAKEN);
    assert_eq!(cluster.numbers(), [[(6, 6), (5, 5), (4, 4)]; 3]);
    assert_eq!(cluster.status(0).health, Health::Green);
    cluster.audit();
}

#[test]
fn a_directory_that_is_made_again_piece_by_piece_pushes_nothing_out() {
    let cluster = start(45);
    for (count, name) in (1..).zip(["a", "b", "c"]) {
        cluster.create(name, 8, 0).expect("there is room");
        cluster.write(name, count);
    }
    cluster.run(TAKEN);
    let kept = vec![vec![(1, 3)]; 3];
    assert_eq!(cluster.numbers(), kept);
    cluster.go_back(Snapshot::default());
    cluster.run(LONG);
    for name in ["a", "b"] {
        cluster.adopt(name).expect("it is made again");
        cluster.run(2 * TAKEN);
        assert_eq!(cluster.numbers(), kept, "it does not know of all that is there");
    }
    cluster.adopt("c").expect("it is made again");
    cluster.run(2 * TAKEN);
    assert_eq!(cluster.numbers(), [[(1, 3)]; 3], "it is the same as it was");
    cluster.create("d", 8, 0).expect("there is room");
    cluster.run(TAKEN);
    assert_eq!(cluster.numbers(), [[(2, 4), (1, 3)]; 3]);
}

#[test]
fn power_loss_and_new_devices_cost_a_host_its_own_backups_alone() {
    let cluster = start(42);
    cluster.create("a", 8, 0).expect("there is room");
    cluster.run(TAKEN);
    cluster.create("b", 8, 0).expect("there is room");
    // Hosts may be at any point of taking the second backup.
    cluster.run(Duration::from_secs(300));
    cluster.restart();
    let newest: Vec<_> = cluster.numbers().into_iter().map(|kept| kept[0]).collect();
    assert!(newest.iter().all(|(number, volumes)| *number == *volumes as u64), "{newest:?}");
    let cache = cluster.config(1).groups[0].cache.clone();
    cluster.replace_devices(1, vec![cache], New::All);
    cluster.boot(1, |_, _| async {});
    wait_for_hosts(&cluster);
    assert_eq!(cluster.backups(1), []);
    cluster.run(TAKEN);
    let kept = cluster.numbers();
    assert_eq!((kept[0][0].1, kept[1][0], kept[2][0].1), (2, (1, 2), 2));
    cluster.audit();
}

#[test]
fn a_group_that_holds_backups_alone_is_removed() {
    let cluster = start_with(43, 2);
    cluster.create("a", 8, 0).expect("there is room");
    cluster.run(TAKEN);
    let [kept] = &cluster.backups(0)[..] else { panic!("one is taken") };
    cluster.delete("a");
    cluster.run(Duration::from_secs(60));
    let group = kept.group.clone();
    cluster.ask(0, Command::GroupRemove { group }).expect("no volume has anything there");
    assert_eq!((cluster.backups(0).len(), cluster.backups(1).len()), (0, 1));
    cluster.create("b", 8, 0).expect("there is room");
    cluster.run(TAKEN);
    let [other] = &cluster.backups(0)[..] else { panic!("one is taken") };
    assert_ne!(other.group, kept.group);
}

#[test]
fn backups_that_grow_old_are_told_of() {
    let cluster = start(44);
    cluster.create("a", 8, 0).expect("there is room");
    cluster.run(TAKEN);
    assert_eq!(cluster.status(0).backups, None);
    cluster.world.kill(cluster.directory);
    cluster.world.wall_jump(cluster.machines[0].key, 73 * 3600);
    cluster.run(Duration::from_secs(20));
    let said = cluster.status(0).backups.expect("it is old");
    assert!(said.contains("73 hours old"), "{said}");
    assert_eq!(cluster.status(1).backups, None);
    cluster.boot_directory();
    cluster.run(TAKEN);
    assert_eq!((cluster.status(0).backups, cluster.backups(0).len()), (None, 2));
    assert_eq!(cluster.backups(1).len(), 1, "it was not due");
}
