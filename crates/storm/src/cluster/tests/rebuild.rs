// SPDX-License-Identifier: Apache-2.0
//! Room for what a lost host had.

use super::*;
use operator::ClusterReport;

impl Cluster {
    fn settings(&self, command: Command) -> ClusterReport {
        serde_json::from_value(self.ask(0, command).expect("it is done")).expect("a report")
    }
}

#[test]
fn nothing_is_provisioned_where_a_lost_host_could_not_be_made_again() {
    let cluster = start(221);
    let show = || cluster.settings(Command::ClusterShow);
    assert_eq!((show().rebuild_reserve, show().not_rebuilt), (false, None));
    cluster.create_on(2, "thin", 1024, 0).expect("there is room");
    assert!(cluster.settings(Command::RebuildReserve { on: true }).rebuild_reserve);
    cluster.world.run_for(Duration::from_secs(2));
    cluster.create_on(1, "web", 16, 0).expect("a host could be made again");
    assert_eq!(cluster.fill("thin", 0, 80), 80);
    cluster.world.run_for(Duration::from_secs(90));
    assert_eq!(show().not_rebuilt, None);
    // A reserve of so much would take what is free on the others.
    let reserved = cluster.create_on(2, "kept", 100, 80).expect_err("too much");
    assert!(reserved.contains("could not be made again"), "{reserved}");
    // Writes go on, whatever they take.
    cluster.create("full", 1024, 0).expect("it can still be made again");
    assert!(cluster.fill("full", 0, 70) > 40, "until the device is full");
    cluster.world.run_for(Duration::from_secs(90));
    let why = show().not_rebuilt.expect("two hosts are nearly full");
    assert!(why.contains("would be free on the others"), "{why}");
    let refused = cluster.create_on(2, "more", 16, 0).expect_err("it is to stay so");
    assert!(refused.contains(&why) && refused.contains("--force"), "{refused}");
    let grow = Command::VolumeGrow { name: "web".to_owned(), size_bytes: 32 * MIB };
    let refused = cluster.ask(0, grow.clone()).expect_err("nor grows one");
    assert!(refused.contains("not made larger") && !refused.contains("--force"), "{refused}");
    assert!(!cluster.settings(Command::RebuildReserve { on: false }).rebuild_reserve);
    cluster.world.run_for(Duration::from_secs(2));
    cluster.ask(0, grow).expect("on the host that has room");
}
