// SPDX-License-Identifier: Apache-2.0
//! Volumes that are to have more copies, or fewer.

use super::repair::{
    has_copies, held, is_whole, pass, places, read_all, volume, wait_until, with_copies,
};
use super::*;

fn change(cluster: &Cluster, index: usize, ftt: u8) -> Result<VolumeReport, String> {
    let name = "v".to_owned();
    let report = cluster.ask(index, Command::VolumeRedundancy { name, ftt })?;
    Ok(serde_json::from_value(report).expect("a report"))
}

#[test]
fn a_volume_gets_a_third_copy_that_alone_has_everything() {
    let (cluster, other) = with_copies(91, None);
    let third = 3 - other;
    let report = change(&cluster, third, 2).expect("there is a third host");
    assert_eq!((report.ftt, report.health), (2, Health::Yellow), "it has two copies yet");
    wait_until(&cluster, 60, |cluster| has_copies(cluster, 3));
    assert_eq!((volume(&cluster).health, places(&cluster).len()), (Health::Green, 3));
    cluster.take_down(0, true);
    cluster.take_down(other, true);
    read_all(&cluster, third);
}

#[test]
fn a_volume_gets_along_with_fewer_copies_and_the_space_is_free() {
    let (cluster, other) = with_copies(92, None);
    assert_eq!(change(&cluster, 0, 0).expect("fewer is always possible").ftt, 0);
    wait_until(&cluster, 60, |cluster| has_copies(cluster, 1));
    wait_until(&cluster, 60, |cluster| held(cluster, 0) + held(cluster, other) == 1);
    assert_eq!(volume(&cluster).health, Health::Green);
    read_all(&cluster, 0);
    // And again as it was.
    change(&cluster, 0, 1).expect("there is room");
    wait_until(&cluster, 60, is_whole);
    assert_eq!(volume(&cluster).health, Health::Green);
}

#[test]
fn what_cannot_be_is_refused_and_what_a_host_lacks_is_done_when_it_is_there() {
    let (cluster, other) = with_copies(93, None);
    let third = 3 - other;
    let refused = cluster.ask(0, Command::VolumeRedundancy { name: "v".to_owned(), ftt: 3 });
    assert!(refused.expect_err("no such thing").contains("--ftt 3"));
    let unknown = cluster.ask(0, Command::VolumeRedundancy { name: "w".to_owned(), ftt: 1 });
    assert!(unknown.expect_err("there is none").contains("gabion volume list"));
    cluster.take_down(third, true);
    pass(&cluster, 20);
    let refused = change(&cluster, 0, 2).expect_err("two hosts are up");
    assert!(refused.contains("needs 3 hosts"), "{refused}");
    assert_eq!(volume(&cluster).ftt, 1);
    cluster.boot(third, |_, _| async {});
    wait_for_hosts(&cluster);
    // The host goes before anything is there.
    change(&cluster, 0, 2).expect("three hosts are up");
    cluster.take_down(third, true);
    pass(&cluster, 60);
    assert_eq!(volume(&cluster).health, Health::Yellow);
    cluster.boot(third, |_, _| async {});
    wait_for_hosts(&cluster);
    wait_until(&cluster, 120, |cluster| has_copies(cluster, 3));
    assert_eq!(volume(&cluster).health, Health::Green);
}

#[test]
fn a_volume_that_nobody_uses_gets_another_copy_within_seconds_too() {
    let cluster = start(94);
    cluster.create_on(2, "v", 16, 0).expect("there is room");
    change(&cluster, 0, 2).expect("three hosts are up");
    wait_until(&cluster, 15, |cluster| has_copies(cluster, 3));
}
