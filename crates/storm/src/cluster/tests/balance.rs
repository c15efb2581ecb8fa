// SPDX-License-Identifier: Apache-2.0
//! Hosts that are filled alike.

use super::life::HEARD;
use super::*;
use host::BalanceOptions;
use operator::ClusterReport;

/// Time in which some copies have moved.
pub(super) const LONG: Duration = Duration::from_secs(1200);

/// A cluster of so many hosts in which copies move as in production.
pub(super) fn balanced(seed: u64, hosts: u32) -> Cluster {
    let mut plan = Plan::of_seed(seed);
    (plan.hosts, plan.groups, plan.devices, plan.drift_ppm) = (hosts, 1, 1, Vec::new());
    plan.sizes = CreateSizes { cache: 24 * MIB, capacity: 160 * MIB };
    (plan.group, plan.object) = (GroupOptions::default(), ObjectOptions::default());
    (plan.directory, plan.quirks) = Default::default();
    plan.balance = BalanceOptions::default();
    Cluster::new(&plan, None)
}

impl Cluster {
    /// How much of its capacity each host uses, percent.
    pub(super) fn use_of_all(&self) -> Vec<u64> {
        let used = |index| {
            let space = self.space(index);
            let free = space.free_bytes + space.freeing_bytes + space.metadata_bytes;
            100 - 100 * free / self.status(index).groups[0].devices[1].size_bytes
        };
        (0..self.machines.len()).map(used).collect()
    }

    fn rebalance(&self, on: bool) {
        let report = self.ask(0, Command::Rebalance { on }).expect("it is set");
        let report: ClusterReport = serde_json::from_value(report).expect("a report");
        assert_eq!(report.rebalances, on);
    }

    fn spread(&self) -> u64 {
        let all = self.use_of_all();
        all.iter().max().expect("hosts") - all.iter().min().expect("hosts")
    }
}

#[test]
fn a_new_host_gets_copies_until_hosts_are_filled_alike_and_no_client_notices() {
    const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    let cluster = balanced(211, 4);
    cluster.boot_directory();
    (0..3).for_each(|index| cluster.boot(index, |_, _| async {}));
    let is_up = || (0..3).all(|index| cluster.node(index).is_some());
    assert!(cluster.world.run_until(Duration::from_secs(60), is_up));
    for name in NAMES {
        cluster.create_on(2, name, 8, 0).expect("there is room");
        assert_eq!(cluster.fill(name, 0, 8), 8);
    }
    cluster.rebalance(false);
    cluster.boot(3, |_, _| async {});
    wait_for_hosts(&cluster);
    cluster.world.run_for(LONG);
    assert!(cluster.use_of_all()[3] <= 1, "an operator wants it so");
    assert!(cluster.spread() > 30, "{:?}", cluster.use_of_all());
    cluster.rebalance(true);
    // A client that writes and reads all the time.
    let node = cluster.node(0).expect("it runs");
    cluster.on(0, async move |env| {
        let device = node.exports().attach("a").expect("a volume");
        for round in 0..500_u64 {
            let mut block = env.buf(4096);
            block.fill(u8::try_from(round % 251).unwrap());
            let at = round % 8 * MIB;
            device.write(at, block.freeze()).await.expect("it is written");
            let read = device.read(at, 4096).await.expect("it is read");
            let want = u8::try_from(round % 251).unwrap();
            assert!(read.iter().all(|piece| piece.iter().all(|byte| *byte == want)));
            env.sleep(Duration::from_secs(1)).await;
        }
    });
    assert!(cluster.use_of_all()[3] > 20, "{:?}", cluster.use_of_all());
    cluster.world.run_for(LONG);
    assert!(cluster.spread() <= 18, "as far as hosts tell: {:?}", cluster.use_of_all());
    let before = cluster.where_all_are();
    cluster.world.run_for(LONG);
    assert_eq!(cluster.where_all_are(), before, "and then they stay");
    for name in NAMES.into_iter().skip(1) {
        assert_eq!(cluster.look(3, name, (3 * MIB, 4096)), Some(9), "{name}");
    }
    assert!(cluster.is_green());
}

#[test]
fn hosts_that_are_filled_nearly_alike_keep_what_they_have() {
    let cluster = balanced(212, 3);
    cluster.boot_directory();
    (0..3).for_each(|index| cluster.boot(index, |_, _| async {}));
    wait_for_hosts(&cluster);
    cluster.create_on(1, "one", 30, 0).expect("there is room");
    assert_eq!(cluster.fill("one", 0, 30), 30);
    let before = cluster.where_all_are();
    cluster.world.run_for(LONG);
    assert!((10..30).contains(&cluster.spread()), "{:?}", cluster.use_of_all());
    assert_eq!(cluster.where_all_are(), before);
}

#[test]
fn no_copy_moves_into_the_domain_of_another_one_or_to_a_host_in_maintenance() {
    let cluster = balanced(213, 4);
    cluster.boot_directory();
    (0..4).for_each(|index| cluster.boot(index, |_, _| async {}));
    wait_for_hosts(&cluster);
    cluster.rebalance(false);
    let ask = |command| cluster.ask(0, command).expect("it is done");
    // Copies can be on host1 or host2, and on host3 or host4.
    for (name, hosts) in [("left", ["host1", "host2"]), ("right", ["host3", "host4"])] {
        ask(Command::DomainCreate { name: name.to_owned(), within: None });
        let hosts = hosts.map(str::to_owned).to_vec();
        ask(Command::DomainAssign { hosts, domain: Some(name.to_owned()), check: false });
    }
    cluster.world.run_for(HEARD);
    for name in ["a", "b", "c"] {
        cluster.create_on(2, name, 24, 0).expect("there is room");
        assert_eq!(cluster.fill(name, 0, 24), 24);
    }
    let mode = directory::MaintenanceMode::FullEvacuation;
    ask(Command::MaintenanceEnter { host: "host4".to_owned(), mode });
    cluster.world.run_for(Duration::from_secs(120));
    assert!(cluster.use_of_all()[3] <= 1, "it was emptied");
    cluster.rebalance(true);
    cluster.world.run_for(LONG);
    let used = cluster.use_of_all();
    assert!(used[3] <= 1, "it is in maintenance: {used:?}");
    assert!(used[0].abs_diff(used[1]) <= 15, "these can be filled alike: {used:?}");
    assert!(used[2] > used[0] + 15, "this one has a copy of each: {used:?}");
    ask(Command::MaintenanceExit { host: "host4".to_owned() });
    cluster.world.run_for(LONG);
    assert!(cluster.spread() <= 30, "{:?}", cluster.use_of_all());
    assert!(cluster.is_green());
}

impl Cluster {
    /// The hosts of all components, by object.
    fn where_all_are(&self) -> Vec<Vec<u32>> {
        let records = self.node(0).expect("it runs").objects().records();
        let hosts = |record: &directory::ObjectRecord| {
            let mut hosts: Vec<u32> = record.components.iter().map(|one| one.shard.0).collect();
            hosts.sort_unstable();
            hosts
        };
        records.iter().map(hosts).collect()
    }
}
