// SPDX-License-Identifier: Apache-2.0
//! Hosts that do not come back are taken out of the cluster.

use super::repair::{held, is_whole, pass, places, volume, wait_until, with_copies};
use super::*;
use operator::RemovalReport;

fn remove(cluster: &Cluster, index: usize, lost: bool) -> Result<RemovalReport, String> {
    let host = format!("host{}", index + 1);
    let report = cluster.ask(0, Command::HostRemove { host, lost })?;
    Ok(serde_json::from_value(report).expect("a report"))
}

fn members(cluster: &Cluster) -> Vec<String> {
    cluster.status(0).hosts.into_iter().map(|host| host.name).collect()
}

/// Repair is off, and nobody waits for it.
#[test]
fn what_a_lost_host_had_is_made_again_at_once_and_the_host_does_not_come_back() {
    let (cluster, gone) = with_copies(81, None);
    let third = 3 - gone;
    cluster.take_down(gone, true);
    pass(&cluster, 20);
    let refused = remove(&cluster, gone, false).expect_err("it has a copy");
    assert!(refused.contains("copies of volume v") && refused.contains("--lost"), "{refused}");
    let report = remove(&cluster, gone, true).expect("it is taken out");
    assert_eq!(report.copies, 1);
    wait_until(&cluster, 60, |cluster| places(cluster) == [0, third] && is_whole(cluster));
    assert_eq!(volume(&cluster).health, Health::Green);
    let names = members(&cluster);
    assert_eq!(names, ["host1".to_owned(), format!("host{}", third + 1)]);
    // Nobody waits for what it held to be deleted there.
    let record = || cluster.records.all_objects("v").into_iter().flatten().next();
    wait_until(&cluster, 120, |_| record().is_some_and(|record| record.removed.is_empty()));
    let again = remove(&cluster, gone, true).expect_err("it is gone");
    assert!(again.contains("already"), "{again}");
    cluster.boot(gone, |_, _| async {});
    pass(&cluster, 60);
    assert!(cluster.node(gone).is_none(), "it does not start");
    assert_eq!(members(&cluster).len(), 2);
}

#[test]
fn a_host_is_kept_that_is_up_or_has_the_only_whole_copy() {
    let (cluster, other) = with_copies(82, None);
    let third = 3 - other;
    let refused = remove(&cluster, other, true).expect_err("it is up");
    assert!(refused.contains("is up"), "{refused}");
    // The other copy misses a write, and then its host alone is left.
    cluster.take_down(0, false);
    let node = cluster.node(third).expect("it runs");
    cluster.on(third, async move |env| {
        let device = node.exports().attach("v").expect("a volume");
        let mut block = env.buf(4096);
        block.fill(7);
        device.write(0, block.freeze()).await.expect("one copy is enough");
    });
    cluster.boot(0, |_, _| async {});
    cluster.take_down(other, false);
    wait_for_some(&cluster, &[0, third]);
    pass(&cluster, 20);
    let refused = remove(&cluster, other, true).expect_err("it has what is new");
    assert!(refused.contains("the only whole copy of volume v"), "{refused}");
    assert_eq!(members(&cluster).len(), 3);
    let unknown = cluster.ask(0, Command::HostRemove { host: "host9".to_owned(), lost: true });
    assert!(unknown.expect_err("there is none").contains("gabion host list"));
}

#[test]
fn a_host_without_copies_goes_without_a_word_about_its_disks_and_nobody_misses_it() {
    let (cluster, other) = with_copies(83, Some(10));
    let third = 3 - other;
    cluster.take_down(third, true);
    pass(&cluster, 20);
    assert_eq!(cluster.status(0).health, Health::Yellow, "it may come back");
    let report = remove(&cluster, third, false).expect("it has no copy");
    assert_eq!(report.copies, 0);
    pass(&cluster, 20);
    let status = cluster.status(0);
    assert_eq!((status.health, status.alarms.len()), (Health::Green, 0), "{status:?}");
    assert_eq!(places(&cluster), [0, other]);
}

/// It ran, but nobody could reach it.
#[test]
fn a_host_that_was_taken_out_while_it_was_cut_off_ends() {
    let (cluster, gone) = with_copies(84, None);
    let third = 3 - gone;
    let key = cluster.machines[gone].key;
    let others = [cluster.machines[0].key, cluster.machines[third].key, cluster.directory];
    others.iter().for_each(|other| cluster.world.partition(key, *other, true));
    pass(&cluster, 20);
    let node = cluster.node(gone).expect("it runs");
    let refused = remove(&cluster, gone, false).expect_err("it has a copy");
    assert!(refused.contains("--lost"), "{refused}");
    remove(&cluster, gone, true).expect("it is taken out");
    wait_until(&cluster, 60, |cluster| places(cluster) == [0, third] && is_whole(cluster));
    assert_eq!(held(&cluster, third), 1);
    others.iter().for_each(|other| cluster.world.partition(key, *other, false));
    cluster.on(gone, async move |env| {
        let ended = env.timeout(Duration::from_secs(60), node.stopped()).await;
        assert!(ended.is_ok(), "it is told that it is no member");
    });
}

/// What was deleted while a host was away stays listed until all hosts have deleted it.
#[test]
fn a_volume_that_was_deleted_is_not_waited_for_on_a_host_that_is_no_member() {
    let (cluster, gone) = with_copies(85, None);
    cluster.take_down(gone, true);
    pass(&cluster, 20);
    cluster
        .ask(0, Command::VolumeDelete { name: "v".to_owned(), for_good: true })
        .expect("nobody uses it");
    pass(&cluster, 120);
    assert_eq!(deletions(&cluster), 1, "the host that is down has it yet");
    remove(&cluster, gone, false).expect("no record names it");
    pass(&cluster, 120);
    assert_eq!(deletions(&cluster), 0);
}

/// Deleted volumes of which some host may have something yet.
fn deletions(cluster: &Cluster) -> usize {
    cluster.on(0, async |env| {
        let directory = directory::Directory::connect(&env, directory_address());
        let listed = directory.list(directory::DELETED_PREFIX).await;
        listed.expect("it answers").entries.len()
    })
}

fn wait_until_so(cluster: &Cluster, seconds: u64, is_so: impl Fn() -> bool) {
    let is_so = cluster.world.run_until(Duration::from_secs(seconds), is_so);
    assert!(is_so, "not within {seconds} s");
}

fn wait_for_some(cluster: &Cluster, hosts: &[usize]) {
    wait_until_so(cluster, 60, || hosts.iter().all(|index| cluster.node(*index).is_some()));
}
