// SPDX-License-Identifier: Apache-2.0
//! Tests with whole hosts, and a directory that was set back or lost its content. Components that
//! it then does not account for are orphans.

mod grown;
mod kept;
mod relief;

use super::tests::life::with_a_lossy_directory;
use super::tests::{MIB, start, wait_for_hosts};
use super::*;
use base::{Incarnation, Seat, ShardId, Term, Version};
use directory::store::Snapshot;
use directory::{Backend, ORPHAN_PREFIX};
use operator::{Health, NewVolume, OrphanReport};
use volume::Device;

/// Time in which every task that cleans up has looked several times.
const LONG: Duration = Duration::from_secs(400);
/// Time in which hosts write what the records say to the disks of the components.
const DESCRIBED: Duration = Duration::from_secs(2);

impl Cluster {
    fn backup(&self) -> Snapshot {
        self.records.load().expect("it is in memory")
    }

    /// Kills the directory and starts it again with what it held before.
    fn go_back(&self, backup: Snapshot) {
        self.world.kill(self.directory);
        self.records.go_back(backup);
        self.boot_directory();
    }

    pub(super) fn run(&self, time: Duration) {
        let never = self.world.run_until(time, || false);
        assert!(!never, "it is never true");
    }

    /// How many components all running hosts hold.
    fn held(&self) -> usize {
        let nodes = (0..self.machines.len()).filter_map(|index| self.node(index));
        let groups = nodes.flat_map(|node| node.groups());
        groups.map(|group| group.components().len()).sum()
    }

    pub(in crate::cluster) fn delete(&self, name: &str) {
        self.ask(0, Command::VolumeDelete { name: name.to_owned(), for_good: true })
            .expect("deleted");
    }

    pub(super) fn restart(&self) {
        self.restart_over(|| {});
    }

    /// Takes all hosts down and starts them again, with this in between.
    fn restart_over(&self, work: impl FnOnce()) {
        (0..3).for_each(|index| self.take_down(index, true));
        work();
        (0..3).for_each(|index| self.boot(index, |_, _| async {}));
        wait_for_hosts(self);
    }

    fn orphans(&self) -> Vec<OrphanReport> {
        let orphans = self.ask(1, Command::OrphanList).expect("a list");
        serde_json::from_value(orphans).expect("a list")
    }

    fn adopt(&self, volume: &str) -> Result<(), String> {
        let (volume, name, force) = (volume.to_owned(), None, false);
        self.ask(0, Command::OrphanAdopt { volume, name, force }).map(drop)
    }

    /// The first byte of the volume's second MiB, as host `index` reads it. `None` if it cannot.
    fn read(&self, index: usize, name: &'static str) -> Option<u8> {
        let node = self.node(index).expect("it runs");
        self.on(index, async move |_| {
            let device = node.exports().attach(name).ok()?;
            let data = device.read(MIB, 4096).await.ok()?;
            let bytes: Vec<u8> = data.iter().flat_map(|piece| piece.iter().copied()).collect();
            bytes.iter().all(|byte| *byte == bytes[0]).then_some(bytes[0])
        })
    }

    fn write(&self, name: &'static str, fill: u8) {
        let node = self.node(0).expect("it runs");
        self.on(0, async move |env| {
            let device = node.exports().attach(name).expect("a volume");
            let mut block = env.buf(4096);
            block.fill(fill);
            device.write(MIB, block.freeze()).await.expect("it is written");
        });
    }
}

#[test]
fn what_a_backup_of_before_does_not_know_is_kept() {
    let cluster = start(31);
    cluster.create("old", 8, 0).expect("there is room");
    cluster.write("old", 1);
    let backup = cluster.backup();
    cluster.create("young", 8, 0).expect("there is room");
    cluster.write("young", 2);
    assert_eq!(cluster.held(), 6);
    cluster.go_back(backup);
    cluster.run(LONG);
    assert_eq!(cluster.held(), 6, "nothing says that the younger volume was deleted");
    cluster.take_down(1, true);
    cluster.boot(1, |_, _| async {});
    wait_for_hosts(&cluster);
    cluster.run(LONG);
    assert_eq!(cluster.held(), 6, "nor after a restart");
}

#[test]
fn what_waits_for_an_operator_stays_listed_although_the_directory_often_does_not_answer() {
    let cluster = with_a_lossy_directory(241);
    cluster.create_in_the_end("old", 1);
    let backup = cluster.backup();
    cluster.create_in_the_end("young", 2);
    cluster.write("young", 2);
    cluster.go_back(backup);
    let listed = || {
        let entries = cluster.records.snapshot().entries;
        entries.iter().filter(|(key, ..)| key.starts_with(ORPHAN_PREFIX)).count()
    };
    assert!(cluster.world.run_until(LONG, || listed() == 6), "each host tells of its components");
    let is_less = cluster.world.run_until(LONG, || listed() < 6);
    assert!(!is_less, "one is not there for a while");
}

#[test]
fn a_deleted_volume_goes_at_once_and_on_a_host_that_was_down_when_it_is_back() {
    let cluster = start(32);
    cluster.create("web", 8, 0).expect("there is room");
    cluster.write("web", 1);
    cluster.take_down(2, true);
    cluster.run(Duration::from_secs(20));
    cluster.delete("web");
    cluster.run(Duration::from_secs(5));
    assert_eq!(cluster.held(), 0, "its hosts delete at once what a record says is deleted");
    cluster.boot(2, |_, _| async {});
    wait_for_hosts(&cluster);
    cluster.run(Duration::from_secs(60));
    assert_eq!(cluster.held(), 0, "so does the one that was down");
    let entries = cluster.backup().entries;
    let left = entries.iter().filter(|(key, ..)| key.starts_with(directory::DELETED_PREFIX));
    assert_eq!(left.count(), 0, "nobody has anything of it any more");
}

#[test]
fn a_volume_younger_than_the_backup_is_shown_and_made_again() {
    let cluster = start(33);
    let backup = cluster.backup();
    cluster.create("young", 8, 20).expect("there is room");
    cluster.create("empty", 8, 0).expect("there is room");
    cluster.write("young", 2);
    cluster.run(DESCRIBED);
    cluster.go_back(backup);
    cluster.run(LONG);
    let status = cluster.status(1);
    assert_eq!((status.health, status.alarms.len()), (Health::Red, 1), "{:?}", status.alarms);
    assert!(status.alarms[0].contains("gabion orphan adopt"), "{:?}", status.alarms);
    let orphans = cluster.orphans();
    assert_eq!(orphans.len(), 6);
    let written: Vec<_> = orphans.iter().filter(|orphan| !orphan.is_empty).collect();
    assert!(written.iter().all(|o| o.volume.as_deref() == Some("young")), "{orphans:#?}");
    assert_eq!(cluster.read(0, "young"), None, "it is not served");
    let error = cluster.adopt("older").expect_err("there is no such thing");
    assert!(error.contains("orphan list"), "{error}");
    cluster.adopt("young").expect("it is made again");
    cluster.adopt("empty").expect("so is one that was never written");
    assert_eq!((cluster.read(0, "young"), cluster.read(1, "young")), (Some(2), Some(2)));
    assert_eq!(cluster.read(2, "empty"), Some(0));
    cluster.write("young", 3);
    cluster.run(LONG);
    assert_eq!((cluster.orphans().len(), cluster.status(0).health), (0, Health::Green));
    cluster.restart();
    assert_eq!(cluster.read(2, "young"), Some(3));
    let volume = cluster.status(0).volumes.into_iter().find(|volume| volume.name == "young");
    let volume = volume.expect("it is there");
    assert_eq!((volume.size_bytes, volume.ftt, volume.reserve_percent), (8 * MIB, 2, 20));
}

#[test]
fn a_directory_set_back_raw_gives_the_number_of_no_run_again_however_short_it_was() {
    let cluster = start(39);
    cluster.create("web", 8, 0).expect("there is room");
    cluster.run(DESCRIBED);
    let snapshot = cluster.backup();
    cluster.take_down(1, true);
    cluster.boot(1, |_, _| async {});
    let is_ready = || cluster.node(1).is_some();
    assert!(cluster.world.run_until(Duration::from_secs(20), is_ready));
    let short = cluster.node(1).map(|node| node.incarnation());
    cluster.take_down(1, true);
    cluster.go_back(snapshot);
    cluster.boot(1, |_, _| async {});
    assert!(cluster.world.run_until(Duration::from_secs(20), is_ready));
    assert!(cluster.node(1).map(|node| node.incarnation()) > short, "{short:?}");
}

#[test]
fn what_was_adopted_is_not_adopted_again_by_what_was_said_before() {
    let cluster = start(38);
    let backup = cluster.backup();
    cluster.create("web", 8, 0).expect("there is room");
    cluster.write("web", 2);
    cluster.run(DESCRIBED);
    cluster.go_back(backup);
    cluster.run(LONG);
    cluster.adopt("web").expect("it is made again");
    cluster.write("web", 3);
    // One copy misses a write while its host lives. Before that, it had said that it is whole.
    cluster.world.partition(cluster.machines[0].key, cluster.machines[1].key, true);
    cluster.run(Duration::from_secs(10));
    cluster.write("web", 4);
    assert_eq!(cluster.orphans().len(), 3, "the hosts have not looked again");
    cluster.adopt("web").expect("it is there");
    cluster.take_down(0, true);
    cluster.take_down(2, true);
    cluster.world.heal_all();
    [0, 2].into_iter().for_each(|index| cluster.boot(index, |_, _| async {}));
    wait_for_hosts(&cluster);
    let read = [1, 0, 2].map(|index| cluster.read(index, "web"));
    assert_eq!(read, [Some(4); 3], "nobody takes that one for whole");
}

#[test]
fn a_directory_that_is_lost_whole_is_made_again_from_the_disks() {
    let cluster = start(35);
    for name in ["a", "b"] {
        cluster.create(name, 8, 0).expect("there is room");
    }
    cluster.write("a", 4);
    cluster.write("b", 5);
    cluster.run(Duration::from_secs(5));
    cluster.go_back(Snapshot::default());
    cluster.run(LONG);
    assert_eq!((cluster.held(), cluster.orphans().len()), (6, 6), "also where hosts go on running");
    assert_eq!(cluster.status(0).hosts.len(), 3, "they tell of themselves again");
    cluster.restart();
    cluster.run(LONG);
    assert_eq!((cluster.held(), cluster.orphans().len()), (6, 6));
    ["a", "b"].iter().for_each(|name| cluster.adopt(name).expect("it is made again"));
    assert_eq!((cluster.read(0, "a"), cluster.read(1, "b")), (Some(4), Some(5)));
}

#[test]
fn what_an_operator_gives_up_is_deleted() {
    let cluster = start(36);
    let backup = cluster.backup();
    cluster.create("young", 8, 0).expect("there is room");
    cluster.write("young", 2);
    cluster.run(DESCRIBED);
    cluster.go_back(backup);
    cluster.run(LONG);
    let delete = Command::OrphanDelete { volume: "young".to_owned() };
    cluster.ask(0, delete).expect("it is deleted");
    cluster.adopt("young").expect_err("it is deleted");
    cluster.run(LONG);
    assert_eq!((cluster.held(), cluster.orphans().len()), (0, 0));
}

/// The same backup as it is written into a directory: nothing is served by it until it is adopted.
fn doubted(mut backup: Snapshot) -> Snapshot {
    for (key, entry, _) in &mut backup.entries {
        if key.starts_with(directory::OBJECT_PREFIX) {
            let record = directory::ObjectRecord::decode(&entry.value).expect("a record");
            entry.value = directory::ObjectRecord { is_doubted: true, ..record }.encode();
        }
    }
    backup
}

/// Seed 295003710: they went down as soon as they had made them.
#[test]
fn components_that_never_came_to_say_what_they_are_of_are_adopted_by_the_backup_that_knows() {
    let cluster = start(40);
    cluster.create("web", 8, 0).expect("there is room");
    let backup = doubted(cluster.backup());
    cluster.restart_over(|| cluster.go_back(backup));
    cluster.run(LONG);
    assert_eq!(cluster.read(0, "web"), None, "it is not served");
    cluster.adopt("web").expect("the backup says what they are of");
    assert_eq!(cluster.read(0, "web"), Some(0));
    cluster.write("web", 3);
    assert_eq!(cluster.read(2, "web"), Some(3));
    cluster.run(LONG);
    assert_eq!((cluster.orphans().len(), cluster.status(0).health), (0, Health::Green));
}

/// Seed 310100348: an owner that the directory forgot had taken them, and they went down before
/// they came to say what they are of.
#[test]
fn components_that_were_used_but_say_nothing_are_adopted_by_the_record_of_before() {
    let cluster = start(42);
    cluster.create_on(2, "web", 8, 0).expect("there is room");
    let backup = doubted(cluster.backup());
    for index in 0..3 {
        let group = cluster.node(index).expect("it runs").groups().remove(0);
        cluster.on(index, async move |_| {
            for id in group.components() {
                assert_eq!(group.description(id), None, "it was made just now");
                let meta = diskgroup::ComponentMeta {
                    term: Term(2),
                    owner_shard: ShardId(2),
                    owner_incarnation: Incarnation(1),
                    seat: Seat(1),
                    version: Version(3),
                };
                group.set_meta(id, meta).await.expect("it is kept");
            }
        });
    }
    cluster.restart_over(|| cluster.go_back(backup));
    cluster.run(LONG);
    assert_eq!(cluster.read(0, "web"), None, "it is not served");
    let listed = cluster.orphans();
    assert!(listed.iter().all(|one| one.volume.as_deref() == Some("web")), "{listed:?}");
    cluster.adopt("web").expect("the record of before says what they are of");
    cluster.write("web", 3);
    assert_eq!(cluster.read(2, "web"), Some(3));
    cluster.run(LONG);
    assert_eq!((cluster.orphans().len(), cluster.status(0).health), (0, Health::Green));
}

/// Seed 310432712: only the epoch of its writer ever changed its record, and etcd was set back to a
/// snapshot of before.
#[test]
fn a_volume_that_nobody_ever_used_is_told_of_and_made_again_where_its_record_went_back() {
    let cluster = start(43);
    cluster.ask(0, Command::VolumeCreate(NewVolume::new("db", 8 * MIB, 1))).expect("room");
    let take_over = |host: &str| {
        let (name, host) = ("db".to_owned(), host.to_owned());
        cluster.ask(0, Command::VolumeTakeOver { name, host }).expect("taken over");
        cluster.run(DESCRIBED);
        cluster.backup()
    };
    let snapshot = take_over("host1");
    take_over("host2");
    cluster.restart_over(|| cluster.go_back(snapshot));
    cluster.run(Duration::from_secs(60));
    let status = cluster.status(1);
    assert_eq!((status.health, status.alarms.len()), (Health::Red, 1), "{:?}", status.alarms);
    assert!(cluster.orphans().iter().all(|orphan| !orphan.is_empty), "a record names them");
    assert_eq!(cluster.read(0, "db"), None, "it is not served");
    // However long it takes: its record names what it has.
    cluster.machines.iter().for_each(|machine| cluster.world.wall_jump(machine.key, 9 * 86_400));
    cluster.run(LONG);
    assert_eq!(cluster.held(), 2, "nothing of it was deleted");
    cluster.adopt("db").expect("it is made again");
    cluster.write("db", 4);
    assert_eq!(cluster.read(2, "db"), Some(4));
    cluster.run(LONG);
    assert_eq!((cluster.orphans().len(), cluster.status(0).health), (0, Health::Green));
}

/// Seed 304008726: a copy was just being added when the directory was set back.
#[test]
fn a_component_that_never_came_to_say_what_it_is_of_is_deleted_by_its_object() {
    let cluster = start(41);
    cluster.create_on(2, "web", 8, 0).expect("there is room");
    let backup = doubted(cluster.backup());
    let status = cluster.status(0);
    let used = |name: &str| status.volumes[0].components.iter().any(|one| one.host == name);
    let index = (0..3).find(|index| !used(&format!("host{}", index + 1))).expect("one is free");
    let record = cluster.records.all_objects("web").remove(0).expect("it has one");
    let group = cluster.node(index).expect("it runs").groups().remove(0);
    let (object, sectors) = (record.id, record.sectors);
    cluster.on(index, async move |_| {
        let made = group.create_component(base::ComponentId(77), object, sectors).await;
        made.expect("there is room");
    });
    cluster.go_back(backup);
    cluster.run(LONG);
    cluster.adopt("web").expect("its copies are there");
    cluster.write("web", 3);
    cluster.run(LONG);
    let left = cluster.orphans();
    assert_eq!(left.iter().map(|one| &one.volume).collect::<Vec<_>>(), [&None]);
    cluster.ask(0, Command::OrphanDelete { volume: object.to_string() }).expect("it goes");
    cluster.run(LONG);
    assert_eq!((cluster.held(), cluster.orphans().len()), (2, 0));
    assert_eq!(cluster.status(0).health, Health::Green);
    assert_eq!(cluster.read(index, "web"), Some(3));
}
