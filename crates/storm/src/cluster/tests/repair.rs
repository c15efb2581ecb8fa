// SPDX-License-Identifier: Apache-2.0
//! Copies of hosts that stay away are made again on others.

use super::*;
use operator::{RepairReport, VolumeReport};

pub(super) fn pass(cluster: &Cluster, seconds: u64) {
    assert!(!cluster.world.run_until(Duration::from_secs(seconds), || false));
}

/// A volume with copies on host 1 and on another one, whose index is returned, and the delay after
/// which missing copies are made again.
pub(super) fn with_copies(seed: u64, seconds: Option<u64>) -> (Cluster, usize) {
    let cluster = start(seed);
    let set = Command::ClusterSet { repair_delay_seconds: seconds };
    cluster.ask(0, set).expect("the directory is there");
    let hosts = cluster.create_on(2, "v", 16, 0).expect("there is room");
    assert!(hosts.contains(&"host1".to_owned()), "{hosts:?}");
    assert_eq!(cluster.fill("v", 0, 16), 16);
    let other = (1..3).find(|at| hosts.contains(&format!("host{}", at + 1)));
    (cluster, other.expect("a second copy"))
}

pub(super) fn volume(cluster: &Cluster) -> VolumeReport {
    let show = Command::VolumeShow { name: "v".to_owned() };
    serde_json::from_value(cluster.ask(0, show).expect("it is there")).expect("a volume")
}

/// Where its copies are, by the index of the host.
pub(super) fn places(cluster: &Cluster) -> Vec<usize> {
    let components = volume(cluster).components;
    let mut at: Vec<usize> = (0..3)
        .filter(|at| components.iter().any(|c| c.host == format!("host{}", at + 1)))
        .collect();
    at.sort_unstable();
    at
}

pub(super) fn is_whole(cluster: &Cluster) -> bool {
    has_copies(cluster, 2)
}

/// Whether the volume has so many copies, each of them whole.
pub(super) fn has_copies(cluster: &Cluster, copies: usize) -> bool {
    let volume = volume(cluster);
    volume.components.len() == copies && volume.components.iter().all(|c| c.state == "active")
}

/// Everything that was written is read on a host.
pub(super) fn read_all(cluster: &Cluster, index: usize) {
    let node = cluster.node(index).expect("it runs");
    cluster.on(index, async move |_| {
        let device = node.exports().attach("v").expect("a volume");
        for at in 0..16 {
            let read = device.read(at * MIB, 4096).await.expect("a read");
            let mut bytes = read.iter().flat_map(|part| part.iter());
            assert!(bytes.all(|byte| *byte == 9), "MiB {at}");
        }
    });
}

pub(super) fn wait_until(cluster: &Cluster, seconds: u64, is_so: impl Fn(&Cluster) -> bool) {
    for _ in 0..seconds {
        pass(cluster, 1);
        if is_so(cluster) {
            return;
        }
    }
    panic!("not within {seconds} s: {:?}", volume(cluster));
}

pub(super) fn held(cluster: &Cluster, index: usize) -> usize {
    let groups = cluster.node(index).expect("it runs").groups();
    groups.iter().map(|group| group.components().len()).sum()
}

#[test]
fn a_host_that_is_gone_for_good_is_done_without() {
    let (cluster, gone) = with_copies(71, Some(20));
    let third = 3 - gone;
    cluster.take_down(gone, true);
    pass(&cluster, 15);
    assert_eq!(places(&cluster), [0, gone], "its host may come back");
    let left = volume(&cluster).repair_in_seconds.expect("it is made again");
    assert!(left <= 20, "{left}");
    wait_until(&cluster, 60, |cluster| places(cluster) == [0, third] && is_whole(cluster));
    let report = volume(&cluster);
    assert_eq!((report.health, report.repair_in_seconds), (Health::Green, None), "{report:?}");
    // What was taken out is deleted when its host is back.
    cluster.boot(gone, |_, _| async {});
    wait_for_hosts(&cluster);
    wait_until(&cluster, 120, |cluster| held(cluster, gone) == 0);
    // The new copy alone has everything.
    cluster.take_down(0, true);
    read_all(&cluster, third);
}

#[test]
fn a_copy_that_is_back_in_time_stays_where_it_is() {
    let (cluster, gone) = with_copies(72, Some(300));
    cluster.take_down(gone, true);
    pass(&cluster, 60);
    cluster.boot(gone, |_, _| async {});
    wait_for_hosts(&cluster);
    wait_until(&cluster, 120, is_whole);
    pass(&cluster, 400);
    assert_eq!(places(&cluster), [0, gone]);
}

#[test]
fn nobody_is_waited_for_where_an_operator_asks_and_nothing_is_done_unasked() {
    let (cluster, gone) = with_copies(73, None);
    cluster.take_down(gone, true);
    pass(&cluster, 60);
    let told = volume(&cluster).not_repaired.expect("it says why");
    assert!(told.contains("gabion repair now"), "{told}");
    assert_eq!(places(&cluster), [0, gone]);
    let now = Command::RepairNow { volume: Some("v".to_owned()) };
    let report: RepairReport =
        serde_json::from_value(cluster.ask(0, now).expect("it is begun")).expect("a report");
    assert_eq!((report.begun.len(), report.refused.len()), (1, 0), "{report:?}");
    wait_until(&cluster, 60, |cluster| places(cluster) == [0, 3 - gone] && is_whole(cluster));
}

#[test]
fn nothing_is_made_again_while_more_than_a_third_of_the_hosts_are_missing() {
    let (cluster, gone) = with_copies(74, Some(10));
    cluster.take_down(gone, true);
    cluster.take_down(3 - gone, true);
    pass(&cluster, 60);
    let told = volume(&cluster).not_repaired.expect("it says why");
    assert!(told.contains("more than a third"), "{told}");
    assert_eq!(places(&cluster), [0, gone]);
    let now = Command::RepairNow { volume: None };
    let report: RepairReport =
        serde_json::from_value(cluster.ask(0, now).expect("an answer")).expect("a report");
    assert!(report.begun.is_empty(), "{report:?}");
    let [refused] = report.refused.as_slice() else { panic!("{report:?}") };
    assert!(refused.why.contains("every host that is up has a copy"), "{refused:?}");
    let no_such = cluster.ask(0, Command::RepairNow { volume: Some("w".to_owned()) });
    assert!(no_such.expect_err("there is none").contains("gabion volume list"));
}

/// The replacement's host cannot be reached while it is filled.
#[test]
fn a_copy_that_is_back_before_its_replacement_is_whole_stays() {
    let (cluster, gone) = with_copies(75, Some(10));
    let third = 3 - gone;
    cluster.take_down(gone, true);
    while volume(&cluster).components.len() == 2 {
        assert!(!cluster.world.run_until(Duration::from_millis(10), || false));
    }
    let (owner, new) = (cluster.machines[0].key, cluster.machines[third].key);
    cluster.world.partition(owner, new, true);
    cluster.boot(gone, |_, _| async {});
    wait_until(&cluster, 120, |cluster| places(cluster) == [0, gone] && is_whole(cluster));
    cluster.world.partition(owner, new, false);
    wait_until(&cluster, 120, |cluster| held(cluster, third) == 0);
}

#[test]
fn a_volume_that_nobody_uses_is_whole_again_when_its_hosts_are_back() {
    let (cluster, gone) = with_copies(76, None);
    cluster.take_down(gone, true);
    assert_eq!(cluster.fill("v", 0, 4), 4);
    wait_until(&cluster, 60, |cluster| {
        volume(cluster).components.iter().any(|component| component.state == "absent")
    });
    cluster.take_down(0, false);
    for index in [0, gone] {
        cluster.boot(index, |_, _| async {});
    }
    wait_for_hosts(&cluster);
    wait_until(&cluster, 120, is_whole);
}
