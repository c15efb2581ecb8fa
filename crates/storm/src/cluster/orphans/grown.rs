// SPDX-License-Identifier: Apache-2.0
//! A directory that was set back to before a volume grew, or that was lost after it did.

use super::*;
use crate::cluster::tests::life::HEARD;

/// The end of before, and a place behind it.
const BEHIND: (u64, usize) = (9 * MIB, 4096);

/// A cluster with a volume that grew from 8 MiB to 11 MiB and has data in both parts, and the
/// directory as it was before.
fn grown(seed: u64) -> (Cluster, Snapshot) {
    let cluster = start(seed);
    cluster.create("db", 8, 0).expect("there is room");
    cluster.put(0, "db", (MIB, 4096), 1);
    cluster.run(DESCRIBED);
    let before = cluster.backup();
    cluster.grow("db", 11 * MIB).expect("there is room");
    cluster.run(HEARD);
    cluster.put(0, "db", BEHIND, 2);
    cluster.run(DESCRIBED);
    (cluster, before)
}

fn assert_is_whole(cluster: &Cluster) {
    cluster.run(HEARD);
    assert_eq!(cluster.status(0).volumes[0].size_bytes, 11 * MIB);
    for index in 0..3 {
        assert_eq!(cluster.look(index, "db", (MIB, 4096)), Some(1));
        assert_eq!(cluster.look(index, "db", (BEHIND.0, 4096)), Some(2));
        assert_eq!(cluster.look(index, "db", (10 * MIB, MIB)), Some(0));
    }
    cluster.run(LONG);
    assert_eq!((cluster.orphans().len(), cluster.held()), (0, 6));
    assert_eq!(cluster.status(0).health, Health::Green);
}

#[test]
fn a_volume_that_the_directory_has_as_small_as_before_is_made_as_large_again() {
    let (cluster, before) = grown(301);
    let node = cluster.node(0).expect("it runs");
    let client = node.exports().attach("db").expect("a volume");
    cluster.go_back(before);
    cluster.run(LONG);
    assert_eq!((cluster.held(), cluster.orphans().len()), (6, 3), "what is behind is kept");
    assert_eq!(cluster.status(0).health, Health::Red);
    assert_eq!(cluster.status(0).volumes[0].size_bytes, 8 * MIB);
    assert_eq!(client.size(), 11 * MIB, "nothing that is open becomes smaller");
    drop(client);
    assert_eq!(cluster.look(1, "db", (MIB, 4096)), Some(1), "what it has is served");
    assert_eq!(cluster.look(1, "db", (BEHIND.0, 4096)), None);
    cluster.adopt("db").expect("it is made larger");
    assert_is_whole(&cluster);
    cluster.restart();
    assert_is_whole(&cluster);
}

#[test]
fn a_volume_that_grew_is_made_again_of_what_its_components_say() {
    let (cluster, _) = grown(302);
    cluster.go_back(Snapshot::default());
    cluster.restart();
    cluster.run(LONG);
    assert_eq!((cluster.held(), cluster.orphans().len()), (6, 6));
    cluster.adopt("db").expect("it is made again");
    assert_is_whole(&cluster);
}

#[test]
fn a_part_that_is_given_up_goes_and_the_volume_stays() {
    let (cluster, before) = grown(303);
    cluster.go_back(before);
    cluster.run(LONG);
    let delete = Command::OrphanDelete { volume: "db".to_owned() };
    cluster.ask(0, delete).expect("it is deleted");
    cluster.run(LONG);
    assert_eq!((cluster.held(), cluster.orphans().len()), (3, 0));
    assert_eq!(cluster.look(1, "db", (MIB, 4096)), Some(1));
    assert_eq!(cluster.status(0).health, Health::Green);
    cluster.grow("db", 11 * MIB).expect("there is room");
    cluster.run(HEARD);
    assert_eq!(cluster.look(1, "db", (BEHIND.0, 4096)), Some(0), "a new part");
}

#[test]
fn a_deleted_volume_that_the_directory_lost_is_made_again_under_the_name_that_it_had() {
    let cluster = start(304);
    cluster.create("db", 8, 0).expect("there is room");
    cluster.write("db", 7);
    cluster.throw_away("db").expect("nobody uses it");
    cluster.run(DESCRIBED);
    cluster.go_back(Snapshot::default());
    cluster.restart();
    cluster.run(LONG);
    let orphans = cluster.orphans();
    assert!(orphans.iter().all(|one| one.volume.as_deref() == Some("db")), "{orphans:?}");
    cluster.adopt("db").expect("it is made again");
    cluster.run(HEARD);
    assert_eq!(cluster.read(1, "db"), Some(7));
}

/// The directory is set back to before a striped volume grew, and is lost afterwards: components
/// say how it is striped.
#[test]
fn a_striped_volume_is_made_again_as_it_was() {
    let cluster = start(304);
    cluster.create_striped(5, 2);
    cluster.put_units(0, 0..5);
    cluster.run(DESCRIBED);
    let before = cluster.backup();
    cluster.grow("db", 12 * MIB).expect("there is room");
    cluster.run(HEARD);
    cluster.put_units(0, 5..12);
    cluster.run(DESCRIBED);
    let layout = |cluster: &Cluster| cluster.records.volume("db").expect("its record").layout();
    let grown = layout(&cluster);
    for backup in [before, Snapshot::default()] {
        let is_lost = backup == Snapshot::default();
        cluster.go_back(backup);
        if is_lost {
            cluster.restart();
        }
        cluster.run(LONG);
        assert_eq!(cluster.orphans().len(), if is_lost { 8 } else { 4 });
        cluster.adopt("db").expect("it is made again");
        cluster.run(HEARD);
        assert_eq!(layout(&cluster), grown);
        assert!(cluster.has_units(1, 0..12));
        let volume = cluster.status(0).volumes.remove(0);
        assert_eq!((volume.stripe_width, volume.otherwise_striped_bytes), (2, 0));
    }
}
