// SPDX-License-Identifier: Apache-2.0
//! Volumes that go on from copies that are behind (rule 41a).

use super::repair::{held, pass, with_copies};
use super::*;
use operator::{OrphanReport, StaleReport};

fn recover(cluster: &Cluster, index: usize, check: bool) -> Result<StaleReport, String> {
    let report = cluster.ask(index, Command::VolumeRecover { name: "v".to_owned(), check })?;
    Ok(serde_json::from_value(report).expect("a report"))
}

fn name(index: usize) -> String {
    format!("host{}", index + 1)
}

/// The hosts with a copy and its state, as a host tells them.
fn copies(cluster: &Cluster, index: usize) -> Vec<(String, String)> {
    let show = Command::VolumeShow { name: "v".to_owned() };
    let report: VolumeReport =
        serde_json::from_value(cluster.ask(index, show).expect("it is there")).expect("a volume");
    let mut copies: Vec<_> =
        report.components.into_iter().map(|copy| (copy.host, copy.state)).collect();
    copies.sort_unstable();
    copies
}

/// Writes one block of `byte` at the start.
fn write(cluster: &Cluster, index: usize, byte: u8) {
    let node = cluster.node(index).expect("it runs");
    cluster.on(index, async move |env| {
        let device = node.exports().attach("v").expect("a volume");
        let mut block = env.buf(4096);
        block.fill(byte);
        device.write(0, block.freeze()).await.expect("a write");
    });
}

/// The first byte of the volume and that of its second MiB.
fn read(cluster: &Cluster, index: usize) -> [u8; 2] {
    let node = cluster.node(index).expect("it runs");
    cluster.on(index, async move |_| {
        let device = node.exports().attach("v").expect("a volume");
        let mut found = [0; 2];
        for (at, found) in [0, MIB].into_iter().zip(&mut found) {
            let read = device.read(at, 4096).await.expect("a read");
            *found = read.iter().flat_map(|part| part.iter()).copied().next().expect("a byte");
        }
        found
    })
}

fn until(cluster: &Cluster, what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..120 {
        pass(cluster, 1);
        if is_so() {
            return;
        }
    }
    panic!("not within two minutes: {what}");
}

fn orphans(cluster: &Cluster, index: usize) -> Vec<OrphanReport> {
    let list = cluster.ask(index, Command::OrphanList).expect("the directory is there");
    serde_json::from_value(list).expect("a list")
}

/// A volume whose copy on `old` lacks the last write, and whose whole one is on a host that is
/// down. Returns the cluster, `old`, and the host without a copy.
fn with_an_old_copy(seed: u64) -> (Cluster, usize, usize) {
    let (cluster, old) = with_copies(seed, None);
    let third = 3 - old;
    cluster.take_down(old, true);
    pass(&cluster, 10);
    write(&cluster, third, 7);
    cluster.take_down(0, true);
    cluster.boot(old, |_, _| async {});
    until(&cluster, "it is up", || cluster.node(old).is_some());
    (cluster, old, third)
}

#[test]
fn a_volume_goes_on_from_an_old_copy_and_the_lost_one_is_kept() {
    let (cluster, old, third) = with_an_old_copy(181);
    pass(&cluster, 20);
    let before = copies(&cluster, third);
    let would = recover(&cluster, third, true).expect("it can be done");
    assert_eq!((would.is_done, would.parts, would.old.len()), (false, 1, 1));
    assert_eq!((&would.old[0].from, &would.old[0].given_up), (&name(old), &vec![name(0)]));
    assert_eq!(copies(&cluster, third), before, "it was only asked about");
    let done = recover(&cluster, third, false).expect("it can be done");
    assert!(done.is_done);
    assert_eq!(read(&cluster, third), [9, 9], "what it had before");
    write(&cluster, third, 8);
    let two: Vec<_> = [old, third].into_iter().map(|at| (name(at), "active".to_owned())).collect();
    let two: std::collections::BTreeSet<_> = two.into_iter().collect();
    let is_whole =
        || copies(&cluster, third).into_iter().collect::<std::collections::BTreeSet<_>>() == two;
    until(&cluster, "a second copy", is_whole);
    let again = recover(&cluster, third, false).expect_err("it has whole copies");
    assert!(again.contains("each part of it has a whole copy"), "{again}");
    // The lost host comes back after all.
    cluster.boot(0, |_, _| async {});
    until(&cluster, "it says what it has", || orphans(&cluster, third).len() == 1);
    assert_eq!((held(&cluster, 0), is_whole()), (1, true));
    assert_eq!(read(&cluster, 0), [8, 9]);
    let kept = orphans(&cluster, third).remove(0);
    assert_eq!(kept.host, name(0));
    let volume = kept.volume_id.expect("it knows its volume");
    cluster.ask(third, Command::OrphanDelete { volume }).expect("nobody needs it");
    until(&cluster, "it is deleted", || held(&cluster, 0) == 0);
    assert_eq!(read(&cluster, 0), [8, 9]);
}

/// The operator thinks better of it.
#[test]
fn what_was_given_up_can_be_adopted_when_its_host_comes_back() {
    let (cluster, _, third) = with_an_old_copy(182);
    pass(&cluster, 20);
    recover(&cluster, third, false).expect("it can be done");
    assert_eq!(read(&cluster, third), [9, 9]);
    cluster.boot(0, |_, _| async {});
    until(&cluster, "it says what it has", || orphans(&cluster, third).len() == 1);
    let volume = orphans(&cluster, third).remove(0).volume_id.expect("it knows its volume");
    let adopt = |force| {
        let volume = volume.clone();
        cluster.ask(third, Command::OrphanAdopt { volume, name: None, force })
    };
    let refused = adopt(false).expect_err("the volume went on without it");
    assert!(refused.contains("went on without 1 component(s)"), "{refused}");
    adopt(true).expect("an operator may");
    until(&cluster, "the newer data", || read(&cluster, third) == [7, 9]);
}

#[test]
fn nothing_is_given_up_that_may_still_be_there() {
    let (cluster, old) = with_copies(183, None);
    let third = 3 - old;
    let refused = recover(&cluster, third, false).expect_err("both copies are there");
    assert!(refused.contains("each part of it has a whole copy"), "{refused}");
    cluster.take_down(0, true);
    cluster.take_down(old, true);
    pass(&cluster, 2);
    let refused = recover(&cluster, third, false).expect_err("their leases are held");
    assert!(refused.contains("may be up"), "{refused}");
    pass(&cluster, 20);
    let refused = recover(&cluster, third, false).expect_err("no other copy is there");
    assert!(refused.contains("no host that is up has an older copy"), "{refused}");
    let unknown = Command::VolumeRecover { name: "w".to_owned(), check: true };
    assert!(cluster.ask(third, unknown).expect_err("no such volume").contains("no volume"));
}
