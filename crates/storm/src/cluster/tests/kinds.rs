// SPDX-License-Identifier: Apache-2.0
//! A cluster that becomes one of another kind, host after host, while its volumes are in use.

use super::maintenance::{enter, exit, is_ready};
use super::repair::{held, is_whole, read_all, wait_until};
use super::*;
use host::ClusterKind::{AllFlash, Hybrid};
use host::MaintenanceMode::FullEvacuation;
use operator::ClusterReport;

fn has_read_cache(cluster: &Cluster, index: usize) -> bool {
    let group = cluster.status(index).groups.into_iter().find(|it| it.host == name(index));
    group.expect("it has one").read_cache.is_some()
}

fn name(index: usize) -> String {
    format!("host{}", index + 1)
}

#[test]
fn a_hybrid_cluster_becomes_all_flash_group_after_group() {
    let mut plan = calm(140, 3, 1, 0);
    (plan.kind, plan.read_cache_percent) = (Hybrid, 50);
    plan.sizes.cache = 48 * MIB;
    let cluster = Cluster::new(&plan, None);
    cluster.boot_directory();
    (0..3).for_each(|index| cluster.boot(index, |_, _| async {}));
    wait_for_hosts(&cluster);
    cluster.create_on(2, "v", 16, 0).expect("there is room");
    assert_eq!(cluster.fill("v", 0, 16), 16);
    let set = cluster.ask(0, Command::ClusterKind { kind: AllFlash }).expect("the kind is set");
    let set: ClusterReport = serde_json::from_value(set).expect("a report");
    assert_eq!(set.kind, AllFlash);
    assert!((0..3).all(|index| has_read_cache(&cluster, index)), "what there is stays");
    for index in 0..3 {
        enter(&cluster, index, FullEvacuation).expect("the others take it");
        wait_until(&cluster, 120, |cluster| is_ready(cluster, index) && is_whole(cluster));
        assert_eq!(held(&cluster, index), 0);
        let group = "cache0".to_owned();
        cluster.ask(index, Command::GroupRemove { group }).expect("it is empty");
        let new = Command::GroupCreate {
            cache: "flash-cache".to_owned(),
            capacity: vec!["flash-capacity".to_owned()],
            kind: None,
            create_bytes: Some(160 * MIB),
            wipe: false,
            ignore_device_kind: false,
        };
        cluster.ask(index, new).expect("it is made");
        exit(&cluster, index).expect("it takes part again");
        assert_eq!(cluster.fill("v", 0, 16), 16);
        (0..3).for_each(|index| read_all(&cluster, index));
    }
    assert!((0..3).all(|index| !has_read_cache(&cluster, index)), "all are new");
    assert_eq!(cluster.status(0).health, Health::Green);
    // A host whose configuration has the old kind, with the old devices, opens them as they are.
    cluster.take_down(1, false);
    cluster.boot(1, |_, _| async {});
    wait_for_hosts(&cluster);
    assert!(has_read_cache(&cluster, 1), "that group is hybrid, whatever the cluster is");
    // One of the other kind is made where somebody says so.
    let new = Command::GroupCreate {
        cache: "other-cache".to_owned(),
        capacity: vec!["other-capacity".to_owned()],
        kind: Some(Hybrid),
        create_bytes: Some(160 * MIB),
        wipe: false,
        ignore_device_kind: false,
    };
    cluster.ask(0, new).expect("it is made");
    let groups = cluster.status(0).groups.into_iter().filter(|group| group.host == name(0));
    assert_eq!(groups.filter(|group| group.read_cache.is_some()).count(), 1);
}
