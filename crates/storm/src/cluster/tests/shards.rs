// SPDX-License-Identifier: Apache-2.0
//! Hosts that share a machine.

use super::repair::{has_copies, held, pass, read_all, volume, wait_until};
use super::*;
use host::MaintenanceMode::{EnsureAccessibility, FullEvacuation};
use operator::{MaintenanceReport, MoveReport, PlacementReport, RemovalReport};

/// Hosts 1 and 2 share machine1; hosts 3 and 4 have machines to themselves. A volume of two copies.
fn with_shards(seed: u64) -> Cluster {
    with_pairs(seed, 1)
}

/// The same with a second machine with two hosts.
fn with_pairs(seed: u64, pairs: u32) -> Cluster {
    let cluster = start_pairs(seed, 4, 1, pairs);
    let set = Command::ClusterSet { repair_delay_seconds: Some(20) };
    cluster.ask(0, set).expect("the directory is there");
    cluster.create_on(2, "v", 16, 0).expect("there is room");
    assert_eq!(cluster.fill("v", 0, 16), 16);
    cluster
}

/// The machines of the copies of the volume.
fn machines(cluster: &Cluster) -> Vec<String> {
    let on = |host: String| match host.as_str() {
        "host1" | "host2" => "machine1".to_owned(),
        _ => host,
    };
    let mut all: Vec<_> = volume(cluster).components.into_iter().map(|c| on(c.host)).collect();
    all.sort_unstable();
    all
}

fn asked<T: serde::de::DeserializeOwned>(
    cluster: &Cluster,
    index: usize,
    command: Command,
) -> Result<T, String> {
    Ok(serde_json::from_value(cluster.ask(index, command)?).expect("a report"))
}

fn machine1() -> String {
    "machine1".to_owned()
}

#[test]
fn no_two_copies_are_on_one_machine_and_both_of_its_hosts_are_used() {
    let cluster = with_pairs(191, 2);
    assert!(machines(&cluster).contains(&machine1()), "it was made through host 1");
    for name in ["a", "b", "c"] {
        cluster.create_on(2, name, 4, 0).expect("there is room");
    }
    let held_now = [held(&cluster, 0), held(&cluster, 1)];
    assert!(held_now[0] >= 1 && held_now[1] >= 1, "{held_now:?}");
    assert_eq!(held_now[0] + held_now[1], 4, "one copy of each");
    let refused = cluster.create_on(3, "d", 4, 0).expect_err("there are two machines");
    assert!(refused.contains("needs 3 fault domains"), "{refused}");
    let explain = Command::VolumeExplain { name: "v".to_owned() };
    let report: PlacementReport = asked(&cluster, 0, explain).expect("it is there");
    let told = format!("{report:?}");
    assert!(told.contains("on the same host, has a copy"), "{told}");
    assert_eq!(volume(&cluster).nbd.len(), 2, "one door on each machine");
}

/// Two of four hosts are away, but one of three machines.
#[test]
fn what_a_machine_had_is_made_again_on_another_one() {
    let cluster = with_shards(192);
    cluster.take_down(0, true);
    cluster.take_down(1, true);
    let asked_on = 2;
    let show = || -> VolumeReport {
        let show = Command::VolumeShow { name: "v".to_owned() };
        asked(&cluster, asked_on, show).expect("it is there")
    };
    let is_whole = || {
        let components = show().components;
        let mut hosts: Vec<_> = components.iter().map(|c| c.host.as_str()).collect();
        hosts.sort_unstable();
        hosts == ["host3", "host4"] && components.iter().all(|c| c.state == "active")
    };
    for _ in 0..90 {
        pass_anyway(&cluster, 1);
        if is_whole() {
            break;
        }
    }
    assert!(is_whole(), "{:?}", show());
    read_all(&cluster, 3);
    // All of it is taken out by its name, and only once none of it is up.
    cluster.boot(1, |_, _| async {});
    assert!(cluster.world.run_until(Duration::from_secs(60), || cluster.node(1).is_some()));
    let remove = || Command::HostRemove { host: machine1(), lost: true };
    let refused = asked::<RemovalReport>(&cluster, asked_on, remove()).expect_err("one is up");
    assert!(refused.contains("machine1 is up"), "{refused}");
    cluster.take_down(1, true);
    pass_anyway(&cluster, 20);
    asked::<RemovalReport>(&cluster, asked_on, remove()).expect("it is taken out");
    let names: Vec<_> = cluster.status(asked_on).hosts.into_iter().map(|host| host.name).collect();
    assert_eq!(names, ["host3", "host4"]);
}

fn pass_anyway(cluster: &Cluster, seconds: u64) {
    cluster.world.run_for(Duration::from_secs(seconds));
}

#[test]
fn a_machine_is_emptied_as_a_whole() {
    let cluster = with_shards(193);
    let enter = |mode| Command::MaintenanceEnter { host: machine1(), mode };
    let report: MaintenanceReport =
        asked(&cluster, 0, enter(FullEvacuation)).expect("others take it");
    assert_eq!((report.copies, report.to_move, report.entered), (1, 1, true), "{report:?}");
    let here = || held(&cluster, 0) + held(&cluster, 1);
    wait_until(&cluster, 120, |cluster| has_copies(cluster, 2) && here() == 0);
    assert_eq!(machines(&cluster), ["host3", "host4"]);
    let check = Command::MaintenanceCheck { host: machine1(), mode: None };
    let report: MaintenanceReport = asked(&cluster, 0, check).expect("it answers");
    assert!(report.ready, "{report:?}");
    let states = cluster.status(0).hosts;
    assert!(states[..2].iter().all(|host| host.maintenance.is_some()), "{states:?}");
    let exit = Command::MaintenanceExit { host: machine1() };
    asked::<MaintenanceReport>(&cluster, 0, exit.clone()).expect("it was in maintenance");
    assert!(cluster.status(0).hosts.iter().all(|host| host.maintenance.is_none()));
    let again = asked::<MaintenanceReport>(&cluster, 0, exit).expect_err("it is over");
    assert!(again.contains("machine1 is not in maintenance"), "{again}");
    // One host of the machine alone: the other one takes what it has.
    let to = Command::VolumeMove {
        name: "v".to_owned(),
        from: "host3".to_owned(),
        to: Some(machine1()),
    };
    let report: MoveReport = asked(&cluster, 0, to).expect("it has none");
    assert_eq!(report.begun.len(), 1);
    wait_until(&cluster, 120, |cluster| machines(cluster) == ["host4", "machine1"]);
    wait_until(&cluster, 120, |cluster| has_copies(cluster, 2));
    let from = if held(&cluster, 0) > 0 { "host1" } else { "host2" };
    let enter = Command::MaintenanceEnter { host: from.to_owned(), mode: FullEvacuation };
    asked::<MaintenanceReport>(&cluster, 0, enter).expect("its neighbour may take it");
    let at = usize::from(from == "host2");
    wait_until(&cluster, 120, |cluster| held(cluster, at) == 0 && has_copies(cluster, 2));
    let check = Command::MaintenanceCheck { host: machine1(), mode: Some(EnsureAccessibility) };
    let report: MaintenanceReport = asked(&cluster, 0, check).expect("it answers");
    assert_eq!(report.obstacles, [""; 0]);
}

#[test]
fn a_machine_is_in_one_domain() {
    let cluster = with_shards(194);
    for (name, within) in [("room", None), ("rack", Some("room".to_owned()))] {
        let create = Command::DomainCreate { name: name.to_owned(), within };
        cluster.ask(0, create).expect("it is new");
    }
    let assign = |host: &str, domain: Option<&str>| Command::DomainAssign {
        hosts: vec![host.to_owned()],
        domain: domain.map(str::to_owned),
        check: false,
    };
    let domains = || -> Vec<Vec<String>> {
        cluster.status(0).hosts.into_iter().map(|host| host.domains).collect()
    };
    cluster.ask(0, assign("host2", Some("rack"))).expect("it is free");
    let rack = vec!["room".to_owned(), "rack".to_owned()];
    pass(&cluster, 1);
    assert_eq!(domains(), [rack.clone(), rack, Vec::new(), Vec::new()]);
    cluster.ask(0, assign("machine1", None)).expect("it is in one");
    pass(&cluster, 1);
    assert!(domains().iter().all(Vec::is_empty));
}
