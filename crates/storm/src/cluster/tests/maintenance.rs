// SPDX-License-Identifier: Apache-2.0
//! Hosts that are about to be stopped.

use super::repair::{held, is_whole, pass, places, read_all, volume, wait_until, with_copies};
use super::*;
use host::MaintenanceMode;
use host::MaintenanceMode::{EnsureAccessibility, FullEvacuation};
use operator::MaintenanceReport;

fn name(index: usize) -> String {
    format!("host{}", index + 1)
}

fn asked(cluster: &Cluster, command: Command) -> Result<MaintenanceReport, String> {
    let report = cluster.ask(0, command)?;
    Ok(serde_json::from_value(report).expect("a report"))
}

pub(super) fn enter(
    cluster: &Cluster,
    index: usize,
    mode: MaintenanceMode,
) -> Result<MaintenanceReport, String> {
    asked(cluster, Command::MaintenanceEnter { host: name(index), mode })
}

pub(super) fn exit(cluster: &Cluster, index: usize) -> Result<MaintenanceReport, String> {
    asked(cluster, Command::MaintenanceExit { host: name(index) })
}

/// How far it is.
fn now(cluster: &Cluster, index: usize) -> MaintenanceReport {
    let check = Command::MaintenanceCheck { host: name(index), mode: None };
    asked(cluster, check).expect("it answers")
}

pub(super) fn is_ready(cluster: &Cluster, index: usize) -> bool {
    now(cluster, index).ready
}

#[test]
fn a_host_is_emptied_and_stopped_and_nobody_misses_it() {
    let (cluster, other) = with_copies(91, None);
    let third = 3 - other;
    let check = Command::MaintenanceCheck { host: name(other), mode: Some(FullEvacuation) };
    let report = asked(&cluster, check).expect("it answers");
    assert_eq!((report.copies, report.to_move, report.entered), (1, 1, false), "{report:?}");
    assert!(report.move_bytes > 0 && report.obstacles.is_empty(), "{report:?}");
    assert_eq!((report.volumes[0].left, report.volumes[0].asked), (2, 2));
    let report = enter(&cluster, other, FullEvacuation).expect("the third host takes it");
    assert!(report.entered && !report.ready, "{report:?}");
    wait_until(&cluster, 120, |cluster| is_ready(cluster, other));
    assert!(is_whole(&cluster));
    assert_eq!((places(&cluster), held(&cluster, other)), (vec![0, third], 0));
    // Nothing new is made on it, and the operator is told why.
    let refused = cluster.create_on(3, "w", 1, 0).expect_err("two hosts are left");
    assert!(refused.contains(&format!("{} in maintenance", name(other))), "{refused}");
    cluster.create_on(2, "w", 1, 0).expect("two are enough");
    assert_eq!(held(&cluster, other), 0);
    cluster.take_down(other, false);
    pass(&cluster, 30);
    let status = cluster.status(0);
    assert_eq!(status.health, Health::Green, "{status:?}");
    assert!(status.hosts[other].maintenance.as_ref().is_some_and(|report| report.ready));
    assert_eq!(cluster.fill("v", 0, 16), 16);
    // It is in maintenance until somebody ends that, also when it is back.
    cluster.boot(other, |_, _| async {});
    wait_for_hosts(&cluster);
    assert!(now(&cluster, other).entered);
    assert!(!exit(&cluster, other).expect("it takes part again").entered);
    let again = exit(&cluster, other).expect_err("it does");
    assert!(again.contains("not in maintenance"), "{again}");
    cluster.create_on(3, "x", 1, 0).expect("three hosts again");
    read_all(&cluster, third);
}

/// One volume of one copy, one of two.
#[test]
fn for_a_reboot_only_that_leaves_which_could_not_be_used_meanwhile() {
    let (cluster, other) = with_copies(92, None);
    cluster.create_on(1, "alone", 1, 0).expect("there is room");
    assert_eq!(cluster.fill("alone", 0, 1), 1);
    let refused = enter(&cluster, 0, MaintenanceMode::None).expect_err("it has the only copy");
    assert!(refused.contains("volume alone could not be used without it"), "{refused}");
    let report = enter(&cluster, 0, EnsureAccessibility).expect("another host takes it");
    assert_eq!((report.copies, report.to_move), (2, 1), "{report:?}");
    wait_until(&cluster, 120, |cluster| is_ready(cluster, 0));
    assert_eq!(places(&cluster), [0, other], "it has another copy");
    cluster.take_down(0, false);
    wait_for_some(&cluster, other);
    pass(&cluster, 20);
    for volume in ["v", "alone"] {
        let node = cluster.node(other).expect("it runs");
        cluster.on(other, async move |_| {
            let device = node.exports().attach(volume).expect("a volume");
            device.read(0, 4096).await.expect("a read");
        });
    }
    cluster.boot(0, |_, _| async {});
    wait_for_hosts(&cluster);
    wait_until(&cluster, 120, is_whole);
    exit(&cluster, 0).expect("it takes part again");
}

#[test]
fn an_operator_changes_his_mind() {
    let (cluster, other) = with_copies(93, None);
    let third = 3 - other;
    enter(&cluster, other, FullEvacuation).expect("the third host is there");
    while volume(&cluster).components.len() == 2 {
        assert!(!cluster.world.run_until(Duration::from_millis(10), || false));
    }
    // The copy cannot be filled.
    let (owner, new) = (cluster.machines[0].key, cluster.machines[third].key);
    cluster.world.partition(owner, new, true);
    let report = exit(&cluster, other).expect("nothing has changed yet");
    assert_eq!(report.under_way, 1, "{report:?}");
    wait_until(&cluster, 120, |cluster| places(cluster) == [0, other] && is_whole(cluster));
    cluster.world.partition(owner, new, false);
    pass(&cluster, 60);
    assert_eq!(places(&cluster), [0, other]);
}

#[test]
fn two_hosts_do_not_count_on_each_other() {
    let (cluster, other) = with_copies(94, None);
    enter(&cluster, other, MaintenanceMode::None).expect("the first host has a copy");
    let refused = enter(&cluster, 0, MaintenanceMode::None).expect_err("nobody else has");
    assert!(refused.contains("--mode ensure-accessibility"), "{refused}");
    enter(&cluster, 0, EnsureAccessibility).expect("the third host takes one");
    wait_until(&cluster, 120, |cluster| is_ready(cluster, 0));
    let third = enter(&cluster, 3 - other, FullEvacuation).expect_err("nobody can take it");
    assert!(third.contains("no other host can take copies of volume v"), "{third}");
    let moved = Command::VolumeMove { name: "v".to_owned(), from: name(0), to: Some(name(other)) };
    let refused = cluster.ask(0, moved).expect_err("it takes nothing");
    assert!(refused.contains("in maintenance"), "{refused}");
}

#[test]
fn hosts_that_are_down_or_unknown_do_not_enter() {
    let (cluster, other) = with_copies(95, None);
    let unknown = asked(&cluster, Command::MaintenanceExit { host: "host9".to_owned() });
    assert!(unknown.expect_err("there is none").contains("gabion host list"));
    cluster.take_down(other, true);
    pass(&cluster, 20);
    let refused = enter(&cluster, other, EnsureAccessibility).expect_err("it is down");
    assert!(refused.contains("gabion repair now"), "{refused}");
    // What the first host has is needed, and nobody knows what the other one has.
    let report = enter(&cluster, 0, EnsureAccessibility).expect("the third host takes it");
    assert_eq!(report.to_move, 1);
    wait_until(&cluster, 120, |cluster| is_ready(cluster, 0));
}

fn wait_for_some(cluster: &Cluster, index: usize) {
    let is_there = || cluster.node(index).is_some();
    assert!(cluster.world.run_until(Duration::from_secs(60), is_there), "it runs");
}
