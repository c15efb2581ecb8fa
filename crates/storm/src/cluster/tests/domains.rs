// SPDX-License-Identifier: Apache-2.0
//! Hosts that may fail together.

use super::repair::{has_copies, is_whole, pass, read_all, volume, wait_until};
use super::*;
use operator::{ComplianceState, DomainsReport, PlaceKind, PlacementReport, RepairReport};

/// Four hosts, of which two are in each rack, and a volume of two copies.
fn in_racks(seed: u64) -> Cluster {
    let cluster = start_hosts(seed, 4, 1);
    create(&cluster, "room", None).expect("the first one");
    for rack in ["rack1", "rack2"] {
        create(&cluster, rack, Some("room")).expect("it is new");
    }
    assign(&cluster, &[1, 2], Some("rack1"), false).expect("nothing is there yet");
    assign(&cluster, &[3, 4], Some("rack2"), false).expect("nothing is there yet");
    cluster.create_on(2, "v", 16, 0).expect("there is room");
    assert_eq!(cluster.fill("v", 0, 16), 16);
    cluster
}

fn asked(cluster: &Cluster, command: Command) -> Result<DomainsReport, String> {
    let report = cluster.ask(0, command)?;
    Ok(serde_json::from_value(report).expect("a report"))
}

fn create(cluster: &Cluster, name: &str, within: Option<&str>) -> Result<DomainsReport, String> {
    let (name, within) = (name.to_owned(), within.map(str::to_owned));
    asked(cluster, Command::DomainCreate { name, within })
}

fn assign(
    cluster: &Cluster,
    hosts: &[u32],
    domain: Option<&str>,
    check: bool,
) -> Result<DomainsReport, String> {
    let hosts = hosts.iter().map(|host| format!("host{host}")).collect();
    asked(cluster, Command::DomainAssign { hosts, domain: domain.map(str::to_owned), check })
}

/// The hosts with a copy, and whether these are in different racks.
fn copies(cluster: &Cluster, name: &str) -> (Vec<String>, bool) {
    let show = Command::VolumeShow { name: name.to_owned() };
    let report: VolumeReport =
        serde_json::from_value(cluster.ask(0, show).expect("it is there")).expect("a volume");
    let mut hosts: Vec<_> = report.components.iter().map(|c| c.host.clone()).collect();
    let mut racks: Vec<_> = report.components.into_iter().map(|c| c.domain).collect();
    hosts.sort_unstable();
    racks.sort_unstable();
    racks.dedup();
    let is_apart = racks.len() == hosts.len();
    (hosts, is_apart)
}

#[test]
fn copies_of_new_volumes_are_in_different_racks() {
    let cluster = in_racks(171);
    for name in ["a", "b", "c", "d"] {
        cluster.create_on(2, name, 4, 0).expect("there is room");
        assert!(copies(&cluster, name).1, "{:?}", copies(&cluster, name));
    }
    let refused = cluster.create_on(3, "e", 4, 0).expect_err("there are two racks");
    assert!(refused.contains("needs 3 fault domains"), "{refused}");
    assert!(refused.contains("there are 2"), "{refused}");
    let report = asked(&cluster, Command::DomainList).expect("a list");
    let names: Vec<_> = report.domains.iter().map(|d| (d.name.as_str(), d.depth)).collect();
    assert_eq!(names, [("room", 0), ("rack1", 1), ("rack2", 1)]);
    assert_eq!(report.domains[2].hosts, ["host3", "host4"]);
    assert_eq!((report.to_move, report.without.len()), (0, 0));
    assert_eq!(cluster.status(1).hosts[0].domains, ["room", "rack1"]);
    // Three copies, for hosts that count for themselves.
    assign(&cluster, &[1, 2], None, false).expect("nothing moves");
    cluster.create_on(3, "e", 4, 0).expect("host1, host2 and one of a rack");
    let moved = Command::VolumeMove {
        name: "e".to_owned(),
        from: "host2".to_owned(),
        to: Some(if copies(&cluster, "e").0.contains(&"host3".to_owned()) {
            "host4".to_owned()
        } else {
            "host3".to_owned()
        }),
    };
    let refused = cluster.ask(0, moved).expect_err("another copy is there");
    assert!(refused.contains("in the same fault domain"), "{refused}");
}

#[test]
fn a_copy_leaves_a_rack_that_is_made_around_two_of_them() {
    let cluster = start_hosts(172, 4, 1);
    let hosts = cluster.create_on(2, "v", 16, 0).expect("there is room");
    assert_eq!(cluster.fill("v", 0, 16), 16);
    let number = |host: &String| host["host".len()..].parse::<u32>().expect("a number");
    let both: Vec<u32> = hosts.iter().map(number).collect();
    create(&cluster, "rack", None).expect("the first one");
    let would = assign(&cluster, &both, Some("rack"), true).expect("it is possible");
    assert_eq!((would.to_move, would.without_place), (1, 0), "{would:?}");
    assert!(would.move_bytes >= 16 * MIB && would.close_volumes == ["v"], "{would:?}");
    assert_eq!(asked(&cluster, Command::DomainList).expect("a list").domains[0].hosts.len(), 0);
    let done = assign(&cluster, &both, Some("rack"), false).expect("it is possible");
    assert_eq!(done.to_move, 1);
    assert_ne!(volume(&cluster).compliance.state, ComplianceState::Compliant);
    wait_until(&cluster, 120, |cluster| copies(cluster, "v").1 && is_whole(cluster));
    assert_eq!(volume(&cluster).compliance.state, ComplianceState::Compliant);
    assert!(copies(&cluster, "v").0.contains(&"host1".to_owned()), "its user's copy stays");
    read_all(&cluster, 0);
}

#[test]
fn a_copy_with_nowhere_to_go_stays_and_moves_once_there_is_a_host() {
    let cluster = start_hosts(173, 4, 1);
    let all = [1, 2, 3, 4];
    cluster.create_on(2, "v", 16, 0).expect("there is room");
    assert_eq!(cluster.fill("v", 0, 16), 16);
    create(&cluster, "rack", None).expect("the first one");
    let done = assign(&cluster, &all, Some("rack"), false).expect("an operator may");
    assert_eq!((done.to_move, done.without_place), (1, 1), "{done:?}");
    pass(&cluster, 30);
    assert!(is_whole(&cluster));
    let report = volume(&cluster);
    assert_eq!(report.compliance.state, ComplianceState::NotCompliant);
    assert!(report.compliance.why[0].contains("fault domain rack"), "{:?}", report.compliance);
    let refused = cluster.create_on(2, "w", 4, 0).expect_err("one rack");
    assert!(refused.contains("fault domains"), "{refused}");
    let free = (2..=4).find(|host| !copies(&cluster, "v").0.contains(&format!("host{host}")));
    assign(&cluster, &[free.expect("two have none")], None, false).expect("it is possible");
    wait_until(&cluster, 120, |cluster| copies(cluster, "v").1 && is_whole(cluster));
}

#[test]
fn a_copy_that_is_missing_is_made_again_in_its_own_rack_or_not_at_all() {
    let cluster = in_racks(174);
    let set = Command::ClusterSet { repair_delay_seconds: Some(10) };
    cluster.ask(0, set).expect("the directory is there");
    let far = |cluster: &Cluster| {
        let there = copies(cluster, "v").0;
        (2..4).find(|at| there.contains(&format!("host{}", at + 1))).expect("one in rack2")
    };
    let gone = far(&cluster);
    cluster.take_down(gone, true);
    let other = 5 - gone;
    wait_until(&cluster, 120, |cluster| far(cluster) == other && has_copies(cluster, 2));
    // All of rack2 is down, and nobody waits for more than a third of the hosts.
    cluster.take_down(other, true);
    pass(&cluster, 30);
    let now = Command::RepairNow { volume: Some("v".to_owned()) };
    let report: RepairReport =
        serde_json::from_value(cluster.ask(0, now).expect("an answer")).expect("a report");
    assert!(report.begun.is_empty(), "{report:?}");
    assert!(report.refused[0].why.contains("in a fault domain with one that has"), "{report:?}");
    cluster.boot(gone, |_, _| async {});
    wait_until(&cluster, 120, |cluster| far(cluster) == gone && has_copies(cluster, 2));
    read_all(&cluster, 0);
}

#[test]
fn a_host_is_emptied_into_its_own_rack() {
    let cluster = in_racks(176);
    let enter = Command::MaintenanceEnter {
        host: "host1".to_owned(),
        mode: host::MaintenanceMode::FullEvacuation,
    };
    cluster.ask(0, enter).expect("its neighbour takes it");
    wait_until(&cluster, 120, |cluster| copies(cluster, "v").0[0] == "host2" && is_whole(cluster));
    assert!(copies(&cluster, "v").1);
    let exit = Command::MaintenanceExit { host: "host1".to_owned() };
    cluster.ask(0, exit).expect("it is in maintenance");
    // Its neighbour is down, and the hosts of the other rack count as one with the other copy's.
    let far = if copies(&cluster, "v").0.contains(&"host3".to_owned()) { 2 } else { 3 };
    cluster.take_down(5 - far, false);
    pass(&cluster, 20);
    let enter = Command::MaintenanceEnter {
        host: format!("host{}", far + 1),
        mode: host::MaintenanceMode::FullEvacuation,
    };
    let refused = cluster.ask(0, enter).expect_err("nobody can take it");
    assert!(refused.contains("is in a fault domain with one"), "{refused}");
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let cluster = in_racks(175);
    let refused = |command: Command, why: &str| {
        let refused = asked(&cluster, command).expect_err(why);
        assert!(refused.contains(why), "{refused}");
    };
    let new = |name: &str, within: Option<&str>| Command::DomainCreate {
        name: name.to_owned(),
        within: within.map(str::to_owned),
    };
    let put = |host: &str, domain: &str| Command::DomainAssign {
        hosts: vec![host.to_owned()],
        domain: Some(domain.to_owned()),
        check: false,
    };
    let delete = |name: &str| Command::DomainDelete { name: name.to_owned() };
    refused(new("rack1", None), "already");
    refused(new("a b", None), "is not a fault domain's name");
    refused(new("shelf", Some("rack9")), "there is no fault domain 'rack9'");
    refused(new("shelf", Some("rack1")), "has hosts (host1, host2)");
    refused(put("host9", "rack1"), "there is no host");
    refused(put("host1", "rack9"), "there is no fault domain 'rack9'");
    refused(put("host1", "room"), "name one of them: rack1, rack2");
    refused(delete("room"), "within room: delete these first: rack1, rack2");
    refused(delete("rack1"), "gabion domain unassign host1 host2");
    refused(delete("rack9"), "there is no fault domain 'rack9'");
    create(&cluster, "rack3", Some("room")).expect("it is new");
    create(&cluster, "shelf", Some("rack3")).expect("it is the third level");
    refused(new("slot", Some("shelf")), "is 3 deep");
    asked(&cluster, delete("shelf")).expect("it is empty");
    asked(&cluster, delete("rack3")).expect("it is empty");
    assign(&cluster, &[1, 2], None, false).expect("nothing moves");
    let report = asked(&cluster, delete("rack1")).expect("it is empty");
    assert_eq!(report.without, ["host1", "host2"]);
}

#[test]
fn each_copy_is_explained_and_the_next_place_is_where_one_goes() {
    let cluster = in_racks(176);
    let explain = |name: &str| -> PlacementReport {
        let report = cluster.ask(0, Command::VolumeExplain { name: name.to_owned() });
        serde_json::from_value(report.expect("it is there")).expect("a report")
    };
    let places = |name: &str| -> Vec<(String, PlaceKind)> {
        let mut report = explain(name);
        assert_eq!((report.copies, report.layouts.len()), (2, 1));
        let layout = report.layouts.remove(0);
        assert_eq!(layout.parts, [1]);
        assert!(layout.hosts.iter().all(|place| !place.why.is_empty()));
        layout.hosts.into_iter().map(|place| (place.host, place.place)).collect()
    };
    let (hosts, is_apart) = copies(&cluster, "v");
    assert!(is_apart);
    let of = |kind| -> Vec<String> {
        let places = places("v").into_iter().filter(|(_, place)| *place == kind);
        places.map(|(host, _)| host).collect()
    };
    assert_eq!(of(PlaceKind::Copy), hosts);
    assert_eq!(of(PlaceKind::Not).len(), 2, "one in each rack: {:?}", places("v"));
    // A host that counts for itself could take one, and it is the next that does.
    let free = of(PlaceKind::Not).remove(0);
    let number: u32 = free.trim_start_matches("host").parse().expect("a number");
    assign(&cluster, &[number], None, false).expect("nothing moves");
    assert_eq!(of(PlaceKind::Next).first(), Some(&free));
    let moved = Command::VolumeMove { name: "v".to_owned(), from: hosts[0].clone(), to: None };
    cluster.ask(0, moved).expect("it moves");
    wait_until(&cluster, 60, |cluster| copies(cluster, "v").0.contains(&free));
    let why = cluster.ask(0, Command::VolumeExplain { name: "w".to_owned() });
    assert!(why.expect_err("there is none").contains("there is no volume 'w'"));
}
