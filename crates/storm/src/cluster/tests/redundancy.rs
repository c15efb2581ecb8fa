// SPDX-License-Identifier: Apache-2.0
//! Volumes that are to have more copies, or fewer.

use super::repair::{
    has_copies, held, is_whole, pass, places, read_all, volume, wait_until, with_copies,
};
use super::*;

fn change(cluster: &Cluster, index: usize, ftt: u8) -> Result<VolumeReport, String> {
    let name = "v".to_owned();
    let report = cluster.ask(index, Command::VolumeRedundancy { name, ftt, force: false })?;
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
    let refused =
        cluster.ask(0, Command::VolumeRedundancy { name: "v".to_owned(), ftt: 4, force: false });
    assert!(refused.expect_err("no such thing").contains("--ftt 4"));
    let unknown =
        cluster.ask(0, Command::VolumeRedundancy { name: "w".to_owned(), ftt: 1, force: false });
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

#[test]
fn a_volume_that_is_made_with_fewer_copies_gets_the_others_when_there_is_a_place() {
    let cluster = start(95);
    cluster.take_down(2, true);
    pass(&cluster, 20);
    let create = |force| {
        let create = Command::VolumeCreate(NewVolume { force, ..NewVolume::new("v", 16 * MIB, 2) });
        cluster.ask(0, create)
    };
    let refused = create(false).expect_err("two hosts are up");
    assert!(refused.contains("needs 3 hosts") && refused.contains("--force"), "{refused}");
    let made: VolumeReport = serde_json::from_value(create(true).expect("it is forced")).unwrap();
    assert!(made.note.expect("a note").contains("2 of 3 copies"));
    assert_eq!((made.ftt, made.health, places(&cluster).len()), (2, Health::Yellow, 2));
    assert_eq!(cluster.fill("v", 0, 16), 16);
    cluster.boot(2, |_, _| async {});
    wait_for_hosts(&cluster);
    wait_until(&cluster, 60, |cluster| has_copies(cluster, 3));
    assert_eq!(volume(&cluster).health, Health::Green);
    read_all(&cluster, 2);
}

#[test]
fn more_copies_than_there_are_hosts_are_made_once_they_are_there_where_that_is_asked() {
    let (cluster, other) = with_copies(96, None);
    let third = 3 - other;
    cluster.take_down(third, true);
    pass(&cluster, 20);
    assert!(change(&cluster, 0, 2).expect_err("two hosts are up").contains("--force"));
    let forced = Command::VolumeRedundancy { name: "v".to_owned(), ftt: 2, force: true };
    cluster.ask(0, forced).expect("it is forced");
    pass(&cluster, 20);
    assert_eq!((volume(&cluster).health, places(&cluster).len()), (Health::Yellow, 2));
    cluster.boot(third, |_, _| async {});
    wait_for_hosts(&cluster);
    wait_until(&cluster, 60, |cluster| has_copies(cluster, 3));
}
