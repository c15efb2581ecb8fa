// SPDX-License-Identifier: Apache-2.0
//! Volumes that are made larger, renamed, deleted, and brought back.

use super::repair::held;
use super::*;
use directory::{DELETED_PREFIX, ServerFaults};
use operator::TrashedReport;
use volume::CreationOptions;

/// Time in which every host has heard of a change.
pub(in crate::cluster) const HEARD: Duration = Duration::from_secs(3);
/// Seconds, longer than a deleted volume is kept.
const DAY: i64 = 25 * 3600;

impl Cluster {
    /// Creates a volume of three copies, whatever it takes.
    pub(in crate::cluster) fn create_in_the_end(&self, name: &str, mib: u64) {
        let is_made = |_| self.create_on(3, name, mib, 0).is_ok() || self.is_there(name);
        assert!((0..50).any(is_made), "{name}");
    }

    fn is_there(&self, name: &str) -> bool {
        self.world.run_for(HEARD);
        self.status(0).volumes.iter().any(|volume| volume.name == name)
    }

    pub(in crate::cluster) fn grow(&self, name: &str, bytes: u64) -> Result<VolumeReport, String> {
        let grow = Command::VolumeGrow { name: name.to_owned(), size_bytes: bytes };
        self.ask(1, grow).map(|volume| serde_json::from_value(volume).expect("a volume"))
    }

    fn rename(&self, name: &str, new: &str) -> Result<(), String> {
        let rename = Command::VolumeRename { name: name.to_owned(), new: new.to_owned() };
        self.ask(1, rename).map(drop)
    }

    pub(in crate::cluster) fn throw_away(&self, name: &str) -> Result<(), String> {
        let delete = Command::VolumeDelete { name: name.to_owned(), for_good: false };
        self.ask(1, delete).map(drop)
    }

    fn undelete(&self, volume: &str, name: Option<&str>) -> Result<(), String> {
        let name = name.map(str::to_owned);
        self.ask(2, Command::VolumeUndelete { volume: volume.to_owned(), name }).map(drop)
    }

    fn trash(&self) -> Vec<TrashedReport> {
        self.status(0).trash
    }

    fn names(&self) -> Vec<String> {
        self.status(0).volumes.into_iter().map(|volume| volume.name).collect()
    }

    /// Writes bytes of `fill` through one host, across whatever lies there.
    pub(in crate::cluster) fn put(
        &self,
        index: usize,
        name: &'static str,
        (offset, bytes): (u64, usize),
        fill: u8,
    ) {
        let node = self.node(index).expect("it runs");
        self.on(index, async move |env| {
            let device = node.exports().attach(name).expect("a volume");
            let mut data = env.buf(bytes);
            data.fill(fill);
            device.write(offset, data.freeze()).await.expect("it is written");
        });
    }

    /// What one host reads there, if all of it is one byte.
    pub(in crate::cluster) fn look(
        &self,
        index: usize,
        name: &'static str,
        (offset, bytes): (u64, u64),
    ) -> Option<u8> {
        let node = self.node(index).expect("it runs");
        self.on(index, async move |_| {
            let device = node.exports().attach(name).ok()?;
            let data = device.read(offset, bytes).await.ok()?;
            let bytes: Vec<u8> = data.iter().flat_map(|piece| piece.iter().copied()).collect();
            bytes.iter().all(|byte| *byte == bytes[0]).then_some(bytes[0])
        })
    }

    /// Components of all running hosts.
    fn components(&self) -> usize {
        let nodes = (0..self.machines.len()).filter_map(|index| self.node(index));
        let groups = nodes.flat_map(|node| node.groups());
        groups.map(|group| group.components().len()).sum()
    }
}

/// A cluster whose only volume was deleted; its first block is 3.
fn with_a_deleted_volume(seed: u64) -> Cluster {
    let cluster = start(seed);
    cluster.create("db", 8, 0).expect("there is room");
    cluster.put(0, "db", (0, 4096), 3);
    cluster.throw_away("db").expect("nobody uses it");
    cluster.world.run_for(HEARD);
    cluster
}

#[test]
fn a_volume_grows_under_its_clients_who_find_what_they_had_and_zeros_behind_it() {
    let cluster = start(201);
    cluster.create_on(2, "db", 8, 10).expect("there is room");
    let end = 8 * MIB;
    cluster.put(0, "db", (end - 8192, 8192), 7);
    let open = [0, 2].map(|index| {
        let node = cluster.node(index).expect("it runs");
        node.exports().attach("db").expect("a volume")
    });
    assert_eq!(open.each_ref().map(Device::size), [end; 2]);
    let grown = cluster.grow("db", 11 * MIB + 512).expect("there is room");
    assert_eq!((grown.size_bytes, grown.health), (11 * MIB + 512, Health::Green));
    cluster.world.run_for(HEARD);
    assert_eq!(open.each_ref().map(Device::size), [11 * MIB + 512; 2], "on every host");
    assert_eq!(cluster.look(2, "db", (end, 3 * MIB)), Some(0), "what is new is empty");
    // Across the end of before, by two hosts in turn.
    cluster.put(2, "db", (end - 4096, 8192), 9);
    assert_eq!(cluster.look(0, "db", (end - 8192, 4096)), Some(7));
    assert_eq!(cluster.look(0, "db", (end - 4096, 8192)), Some(9));
    assert_eq!(cluster.look(0, "db", (11 * MIB, 512)), Some(0), "to its last sector");
    let node = cluster.node(0).expect("it runs");
    let behind = cluster.on(0, async move |_| {
        let device = node.exports().attach("db").expect("a volume");
        device.read(11 * MIB, 1024).await.map(drop)
    });
    assert!(matches!(behind, Err(VolumeError::OutOfRange { .. })), "{behind:?}");
    drop(open);
    let volume = cluster.status(0).volumes.remove(0);
    let hosts = |object: u64| {
        let of = volume.components.iter().filter(move |one| one.object == object);
        of.map(|one| one.host.clone()).collect::<Vec<_>>()
    };
    assert_eq!(hosts(0), hosts(1), "on the hosts that it was on");
    let kept = part(8, 10) + u64::from(object::reserve_chunks(3 * MIB / 512 + 1, 10));
    assert_eq!(cluster.kept(0), kept, "its reserve holds for all of it");
}

#[test]
fn a_volume_that_cannot_grow_stays_as_it_is_and_says_why() {
    let cluster = start(202);
    cluster.create("db", 8, 0).expect("there is room");
    let same = cluster.grow("db", 8 * MIB).expect("it has that");
    assert_eq!((same.size_bytes, same.components.len()), (8 * MIB, 3));
    let why = |bytes| cluster.grow("db", bytes).expect_err("it cannot");
    assert!(why(4 * MIB).contains("larger, not smaller"));
    assert!(why(9 * MIB + 1).contains("512"));
    assert!(cluster.grow("web", 16 * MIB).expect_err("none").contains("there is no volume 'web'"));
    // Beside the place for a third copy.
    cluster.take_down(2, false);
    cluster.world.run_for(Duration::from_secs(20));
    let refused = why(16 * MIB);
    assert!(refused.contains("needs 3 hosts"), "{refused}");
    assert!(!refused.contains("--f"), "there is no such option: {refused}");
    assert_eq!((cluster.status(0).volumes[0].size_bytes, cluster.components()), (8 * MIB, 2));
    cluster.boot(2, |_, _| async {});
    wait_for_hosts(&cluster);
    cluster.world.run_for(HEARD);
    cluster.grow("db", 8 * MIB + 512).expect("there is room");
    let odd = why(16 * MIB);
    assert!(odd.contains("not a multiple of 4 KiB"), "{odd}");
}

/// With small objects, and few of them in a transaction.
#[test]
fn a_volume_grows_by_many_objects_in_several_steps() {
    let mut plan = Plan::of_seed(203);
    (plan.hosts, plan.groups, plan.devices, plan.drift_ppm) = (3, 1, 1, Vec::new());
    (plan.group, plan.object) = (GroupOptions::default(), ObjectOptions::default());
    (plan.directory, plan.quirks) = Default::default();
    let object_sectors = 2 * MIB / 512;
    plan.limits.creation =
        CreationOptions { object_sectors, objects_at_once: 2, transaction_objects: 2 };
    let cluster = Cluster::new(&plan, None);
    cluster.boot_directory();
    (0..3).for_each(|index| cluster.boot(index, |_, _| async {}));
    wait_for_hosts(&cluster);
    cluster.create_on(2, "db", 3, 0).expect("there is room");
    let grown = cluster.grow("db", 17 * MIB).expect("there is room");
    assert_eq!(grown.components.len(), 2 * (2 + 7), "two objects, and seven of 2 MiB");
    cluster.put(0, "db", (0, 17 << 20), 5);
    assert_eq!(cluster.look(1, "db", (0, 17 * MIB)), Some(5));
}

/// A cluster whose directory leaves one call of eight without an answer. Objects have 1 MiB.
pub(in crate::cluster) fn with_a_lossy_directory(seed: u64) -> Cluster {
    let mut plan = Plan::of_seed(seed);
    (plan.hosts, plan.groups, plan.devices, plan.drift_ppm) = (3, 1, 1, Vec::new());
    (plan.group, plan.object) = (GroupOptions::default(), ObjectOptions::default());
    plan.quirks = Default::default();
    let (drop_before_ppm, drop_after_ppm) = (60_000, 60_000);
    plan.directory = ServerFaults { drop_before_ppm, drop_after_ppm, ..ServerFaults::default() };
    plan.limits.creation.object_sectors = MIB / 512;
    let cluster = Cluster::new(&plan, None);
    cluster.boot_directory();
    (0..3).for_each(|index| cluster.boot(index, |_, _| async {}));
    wait_for_hosts(&cluster);
    cluster
}

#[test]
fn a_deleted_volume_is_done_with_although_the_directory_often_does_not_answer() {
    let cluster = with_a_lossy_directory(240);
    cluster.create_in_the_end("large", 80);
    cluster.create_in_the_end("db", 2);
    let delete = || Command::VolumeDelete { name: "db".to_owned(), for_good: true };
    let is_deleted = |_| cluster.ask(0, delete()).is_ok() || !cluster.is_there("db");
    assert!((0..50).any(is_deleted), "in the end");
    let is_done = || {
        let entries = cluster.records.snapshot().entries;
        !entries.iter().any(|(key, ..)| key.starts_with(DELETED_PREFIX))
    };
    assert!(cluster.world.run_until(Duration::from_secs(300), is_done), "no host says so");
    assert!((0..3).all(|index| held(&cluster, index) >= 80), "of the other volume nothing goes");
}

#[test]
fn a_volume_that_nobody_uses_gets_another_name() {
    let cluster = start(204);
    cluster.create("db", 8, 0).expect("there is room");
    cluster.create("web", 8, 0).expect("there is room");
    cluster.put(0, "db", (0, 4096), 3);
    let taken = cluster.rename("db", "web").expect_err("there is one");
    assert!(taken.contains("there is a volume 'web' already"), "{taken}");
    let node = cluster.node(1).expect("it runs");
    let client = node.exports().attach("db").expect("a volume");
    let used = cluster.rename("db", "archive").expect_err("a client uses it");
    assert!(used.contains("in use by 1 client(s)"), "{used}");
    drop(client);
    // One that the asked host does not know of.
    let node = cluster.node(2).expect("it runs");
    let client = node.exports().attach("db").expect("a volume");
    cluster.rename("db", "archive").expect("it is free");
    cluster.world.run_for(HEARD);
    assert_eq!(cluster.names(), ["archive", "web"]);
    // Its door does not know of that client under this name.
    let refused = node.exports().attach("archive").map(drop).map_err(|error| error.to_string());
    assert!(refused.as_ref().is_err_and(|why| why.starts_with("in use by")), "{refused:?}");
    let read = cluster.on(2, async move |_| client.read(0, 4096).await.map(|data| data.bytes()));
    assert_eq!(read.ok(), Some(4096), "that client goes on");
    assert_eq!([0, 2].map(|index| cluster.look(index, "archive", (0, 4096))), [Some(3); 2]);
    assert!(node.exports().attach("db").is_err(), "it is gone under its old name");
    cluster.create("db", 8, 0).expect("the name is free");
    assert_eq!(cluster.look(0, "db", (0, 4096)), Some(0));
    assert!(cluster.is_green());
}

#[test]
fn a_deleted_volume_is_out_of_reach_and_can_be_brought_back() {
    let cluster = with_a_deleted_volume(205);
    let node = cluster.node(0).expect("it runs");
    assert!(node.exports().attach("db").is_err());
    let id = cluster.trash()[0].id.clone();
    let hidden = format!("Deleted_{id}");
    assert!(node.exports().attach(&hidden).is_err(), "nor under any other name");
    assert_eq!((cluster.names().len(), cluster.trash().len()), (0, 1));
    let unknown = cluster.grow(&hidden, 16 * MIB).expect_err("that is no name");
    assert!(unknown.contains(&hidden), "{unknown}");
    cluster.create("db", 8, 0).expect("the name is free");
    let taken = cluster.undelete("db", None).expect_err("there is a new one");
    assert!(taken.contains("choose another name"), "{taken}");
    cluster.throw_away("db").expect("nobody uses it");
    cluster.world.run_for(HEARD);
    let two = cluster.undelete("db", None).expect_err("there are two");
    assert!(two.contains("say one of") && two.contains(&id), "{two}");
    cluster.undelete(&id, Some("db-old")).expect("it is there");
    cluster.undelete("db", None).expect("there is one left");
    cluster.world.run_for(HEARD);
    assert_eq!((cluster.names(), cluster.trash().len()), (vec!["db".into(), "db-old".into()], 0));
    assert_eq!(cluster.look(1, "db-old", (0, 4096)), Some(3));
    assert_eq!(cluster.look(1, "db", (0, 4096)), Some(0));
    let none = cluster.undelete("db", None).expect_err("it is in use");
    assert!(none.contains("no deleted volume 'db'"), "{none}");
}

#[test]
fn a_deleted_volume_is_repaired_like_others_and_goes_for_good_after_a_day() {
    let cluster = start_hosts(206, 4, 1);
    let hosts = cluster.create_on(2, "db", 8, 0).expect("there is room");
    cluster.put(0, "db", (0, 4096), 3);
    cluster.throw_away("db").expect("nobody uses it");
    let gone = (0..4).rev().find(|index| hosts.contains(&format!("host{}", index + 1)));
    let gone = gone.expect("it has copies");
    cluster.take_down(gone, true);
    let set = Command::ClusterSet { repair_delay_seconds: Some(10) };
    cluster.ask(1 - usize::from(gone == 1), set).expect("it is set");
    cluster.world.run_for(Duration::from_secs(120));
    assert_eq!(cluster.components(), 2, "its lost copy is made again");
    cluster.world.run_for(Duration::from_secs(600));
    assert_eq!(cluster.trash().len(), 1);
    cluster.machines.iter().for_each(|machine| cluster.world.wall_jump(machine.key, DAY));
    cluster.world.run_for(Duration::from_secs(60));
    assert_eq!((cluster.trash().len(), cluster.components()), (0, 0));
    assert!(cluster.undelete("db", None).expect_err("it is gone").contains("no deleted volume"));
}

#[test]
fn a_deleted_volume_is_purged_at_once_on_demand() {
    let cluster = with_a_deleted_volume(207);
    assert_eq!(cluster.components(), 3);
    cluster.ask(2, Command::VolumePurge { volume: "db".to_owned() }).expect("it is there");
    cluster.world.run_for(Duration::from_secs(20));
    assert_eq!((cluster.trash().len(), cluster.components()), (0, 0));
}

#[test]
fn deleted_volumes_go_the_oldest_first_where_a_device_is_too_full_for_writes() {
    let cluster = start(208);
    for name in ["old", "young"] {
        cluster.create(name, 1024, 0).expect("there is room");
        assert_eq!(cluster.fill(name, 0, 40), 40);
        cluster.throw_away(name).expect("nobody uses it");
        cluster.world.run_for(Duration::from_secs(5));
    }
    cluster.create("db", 1024, 0).expect("there is room");
    let first = cluster.fill("db", 0, 1024);
    assert!(first < 60, "{first} MiB before the device is full");
    cluster.world.run_for(Duration::from_secs(30));
    let left: Vec<_> = cluster.trash().into_iter().map(|one| one.name).collect();
    assert_eq!(left, ["young"], "one is enough");
    let more = cluster.fill("db", first, 1024);
    assert!((30..60).contains(&more), "{more} MiB that the oldest had");
    cluster.world.run_for(Duration::from_secs(120));
    assert_eq!(cluster.trash().len(), 0, "then the next one");
    assert!(cluster.fill("db", first + more, 1024) >= 30);
}
