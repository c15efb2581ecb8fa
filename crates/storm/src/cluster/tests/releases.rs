// SPDX-License-Identifier: Apache-2.0
//! Hosts of different releases.

use super::*;
use directory::{ClusterKind, ClusterRecord, Directory, Labels, Level, Transaction, cluster_key};
use operator::{AccessRole, AdmissionStep, HostState, UpgradeReport};
use wire::{VERSION, VERSION_MIN};

const BLOCK: u64 = 4096;
/// The level of this release.
const NEWEST: u32 = 8;
/// What hosts speak of the release of before, of this one, and of the next but one.
const OLDER: (u8, u8) = (VERSION_MIN, VERSION);
const NEWER: (u8, u8) = (VERSION_MIN, VERSION + 1);
const FAR: (u8, u8) = (VERSION + 2, VERSION + 3);

impl Cluster {
    fn set_release(&self, index: usize, level: Level, (min, max): (u8, u8)) {
        self.machines[index].level.set(level);
        let versions = Versions::new(min, max).expect("the lower one comes first");
        self.machines[index].versions.set(Some(versions));
    }

    /// Takes a host down and starts it with a release that knows so much, and speaks this.
    fn restart_with(&self, index: usize, level: Level, versions: (u8, u8)) {
        self.take_down(index, false);
        self.set_release(index, level, versions);
        self.boot(index, |_, _| async {});
    }

    fn label_team(&self, index: usize) -> Result<(), String> {
        let set = Labels::from([("team".to_owned(), "db".to_owned())]);
        let (name, remove) = ("v".to_owned(), Vec::new());
        self.ask(index, Command::VolumeLabel { name, set, remove }).map(drop)
    }

    fn upgrade(&self, index: usize, check: bool) -> Result<(u32, u32), String> {
        let report = self.ask(index, Command::ClusterUpgrade { check })?;
        let report: UpgradeReport = serde_json::from_value(report).expect("a report");
        Ok((report.from, report.to))
    }

    fn level(&self, index: usize) -> Option<u32> {
        self.status(index).level
    }
}

/// Three hosts of a release of before, in a cluster that was made with it.
fn start_older(seed: u64) -> Cluster {
    let plan = Plan { kind: ClusterKind::AllFlash, ..calm(seed, 3, 1, 0) };
    let cluster = Cluster::new(&plan, None);
    cluster.boot_empty_directory();
    for index in 0..3 {
        cluster.set_release(index, Level::FIRST, OLDER);
        cluster.boot(index, |_, _| async {});
    }
    cluster.on(0, async move |env| {
        let (id, name) = (CLUSTER, "old".to_owned());
        let record = ClusterRecord { id, name, kind: ClusterKind::AllFlash, level: Level::FIRST };
        let put = Transaction::new().put(cluster_key(), record.encode());
        let directory = Directory::connect(&env, directory_address());
        directory.transact(put).await.expect("a directory takes it");
    });
    wait_for_hosts(&cluster);
    cluster
}

/// Writes through one host while another one comes back with the new release: no write fails.
fn roll(cluster: &Cluster, through: usize, restarted: usize) {
    let node = cluster.node(through).expect("it runs");
    let written = Rc::new(Cell::new(0_u64));
    let count = Rc::clone(&written);
    let env = cluster.world.env(cluster.machines[through].key).expect("it runs");
    let inner = env.clone();
    let _load = env.spawn("load", async move {
        let device = node.exports().attach("v").expect("a volume");
        for at in 0.. {
            let mut block = inner.buf(4096);
            block.fill(u8::try_from(at % 251).unwrap_or(0));
            device.write(at % 256 * BLOCK, block.freeze()).await.expect("it is written");
            count.set(count.get() + 1);
            inner.sleep(Duration::from_millis(20)).await;
        }
    });
    cluster.world.run_for(Duration::from_secs(2));
    cluster.restart_with(restarted, Level::NEWEST, NEWER);
    wait_for_hosts(cluster);
    let back = written.get();
    cluster.world.run_for(Duration::from_secs(30));
    assert!(back > 50 && written.get() > back + 100, "it goes on: {back}, {}", written.get());
}

#[test]
fn a_cluster_uses_what_is_new_once_all_its_hosts_have_the_release() {
    let cluster = start_older(231);
    cluster.create("v", 4, 0).expect("as the older release does");
    let new = NewVolume { writers: Some(Writers::One), ..NewVolume::new("w", 4 * MIB, 1) };
    let early = cluster.ask(0, Command::VolumeCreate(new)).expect_err("nor would it this one");
    assert!(early.contains("one writing host came with level 3"), "{early}");
    let kept = NewVolume { on: Some("host2".to_owned()), ..NewVolume::new("k", 4 * MIB, 0) };
    let early = cluster.ask(0, Command::VolumeCreate(kept)).expect_err("nor would it this one");
    assert!(early.contains("volumes that are kept on one host came with level 4"), "{early}");
    let cached = NewVolume { cache_percent: 20, ..NewVolume::new("c", 4 * MIB, 1) };
    let early = cluster.ask(0, Command::VolumeCreate(cached)).expect_err("nor would it this one");
    assert!(early.contains("read cache that is kept for volumes came with level 5"), "{early}");
    let (name, role, digest) = ("ci".to_owned(), AccessRole::Viewer, "0".repeat(64));
    let token = AdmissionStep::TokenPut { name, role, seconds: 60, digest };
    let token = Command::Admission(token);
    let early = cluster.ask(0, token).expect_err("nor would it know this record");
    assert!(early.contains("tokens came with level 7"), "{early}");
    let early = cluster.label_team(0).expect_err("the older release would not read the volume");
    assert!(early.contains("gabion cluster upgrade"), "{early}");
    let nothing = cluster.upgrade(0, false).expect("there is nothing to raise");
    assert_eq!(nothing, (1, 1));
    for (through, restarted) in [(1, 0), (2, 1), (0, 2)] {
        roll(&cluster, through, restarted);
        let asked = cluster.upgrade(through, false);
        match restarted {
            2 => assert_eq!(asked, Ok((1, NEWEST))),
            _ => {
                let refused = asked.expect_err("the others have the older release");
                assert!(refused.contains("has an older release"), "{refused}");
                assert!(refused.contains("host3"), "{refused}");
            }
        }
        assert_eq!(cluster.label_team(through).is_ok(), restarted == 2);
    }
    assert_eq!(cluster.level(1), Some(NEWEST));
    assert_eq!(cluster.upgrade(1, false), Ok((NEWEST, NEWEST)), "again changes nothing");
    // None of them goes back.
    cluster.restart_with(2, Level::FIRST, OLDER);
    cluster.world.run_for(Duration::from_secs(60));
    assert!(cluster.node(2).is_none(), "it would not read the volume");
    let state = cluster.status(0).hosts.into_iter().find(|host| host.name == "host3");
    assert_eq!(state.map(|host| (host.state, host.level)), Some((HostState::Down, None)));
    let refused = cluster.upgrade(0, true).expect_err("a host is down");
    assert!(refused.contains("host3 does not run"), "{refused}");
}

#[test]
fn a_host_that_goes_back_while_the_cluster_is_upgraded_ends() {
    let cluster = start_older(232);
    cluster.restart_with(0, Level::NEWEST, NEWER);
    cluster.restart_with(1, Level::NEWEST, NEWER);
    wait_for_hosts(&cluster);
    let ended = [0, 1, 2].map(|index| {
        let (node, ended) = (cluster.node(index).expect("it runs"), Rc::new(Cell::new(false)));
        let place = Rc::clone(&ended);
        let env = cluster.world.env(cluster.machines[index].key).expect("it runs");
        let wait = async move {
            node.stopped().await;
            place.set(true);
        };
        (env.spawn("test", wait), ended)
    });
    // Somebody raised the level who did not know of the third one.
    cluster.on(0, async move |env| {
        let directory = Directory::connect(&env, directory_address());
        let entry = directory.get(&cluster_key()).await.expect("it answers").expect("a cluster");
        let record = ClusterRecord::decode(&entry.value).expect("a record");
        let raised = ClusterRecord { level: Level::NEWEST, ..record };
        let put = Transaction::new().put(cluster_key(), raised.encode());
        directory.transact(put).await.expect("a directory takes it");
    });
    cluster.world.run_for(Duration::from_secs(5));
    assert_eq!(ended.map(|(_, ended)| ended.get()), [false, false, true]);
}

#[test]
fn a_host_whose_release_is_too_far_from_the_others_is_an_alarm_until_it_has_another_one() {
    let cluster = start_older(233);
    cluster.create("v", 4, 0).expect("there is room");
    assert_eq!(cluster.status(0).alarms, Vec::<String>::new());
    cluster.restart_with(2, Level::FIRST, FAR);
    cluster.world.run_for(Duration::from_secs(30));
    for index in [0, 1] {
        let status = cluster.status(index);
        let said = format!("host3 speaks versions {} to {} of the frames", FAR.0, FAR.1);
        assert!(status.alarms.iter().any(|alarm| alarm.starts_with(&said)), "{:?}", status.alarms);
        assert_eq!(status.health, Health::Red);
    }
    cluster.restart_with(2, Level::FIRST, NEWER);
    let is_whole = || cluster.status(0).health == Health::Green;
    assert!((0..60).any(|_| {
        cluster.world.run_for(Duration::from_secs(1));
        is_whole()
    }));
    assert_eq!(cluster.status(0).alarms, Vec::<String>::new());
}
