// SPDX-License-Identifier: Apache-2.0
//! Volumes that are kept on one host.

use super::balance::{LONG, balanced};
use super::life::HEARD;
use super::repair::{pass, wait_until};
use super::*;
use host::{Affinity, MaintenanceMode};
use operator::{
    ComplianceState, EffectReport, MaintenanceReport, PlacementReport, PolicyCheckReport,
    PolicyRules,
};
use serde::de::DeserializeOwned;

fn asked<T: DeserializeOwned>(cluster: &Cluster, command: Command) -> Result<T, String> {
    Ok(serde_json::from_value(cluster.ask(0, command)?).expect("a report"))
}

fn create(
    cluster: &Cluster,
    name: &str,
    on: Option<&str>,
    ftt: u8,
) -> Result<VolumeReport, String> {
    let on = on.map(str::to_owned);
    let new = NewVolume { on, ..NewVolume::new(name, 16 * MIB, ftt) };
    asked(cluster, Command::VolumeCreate(new))
}

fn keep(cluster: &Cluster, name: &str, host: Option<&str>) -> Result<VolumeReport, String> {
    let (name, host) = (name.to_owned(), host.map(str::to_owned));
    asked(cluster, Command::VolumeKeep { name, host })
}

fn volume(cluster: &Cluster, name: &str) -> VolumeReport {
    asked(cluster, Command::VolumeShow { name: name.to_owned() }).expect("it is there")
}

/// The host of each component.
fn hosts(volume: &VolumeReport) -> Vec<&str> {
    volume.components.iter().map(|component| component.host.as_str()).collect()
}

/// Whether all of a volume is whole, on these hosts, and as its rules ask for.
fn is_on(cluster: &Cluster, name: &str, on: &[&str]) -> bool {
    let volume = volume(cluster, name);
    hosts(&volume) == on
        && volume.components.iter().all(|component| component.state == "active")
        && volume.compliance.state == ComplianceState::Compliant
}

fn affinity(affinity: Affinity, ftt: u8) -> PolicyRules {
    PolicyRules { affinity: Some(affinity), ftt: Some(ftt), ..PolicyRules::default() }
}

/// Reads a byte of each MiB.
fn reads(cluster: &Cluster, name: &'static str, byte: u8) {
    for at in 0..16 {
        assert_eq!(cluster.look(0, name, (at * MIB, 4096)), Some(byte), "MiB {at} of {name}");
    }
}

#[test]
fn a_volume_is_kept_where_an_operator_says_and_moves_while_it_is_in_use() {
    let cluster = start(231);
    let why = create(&cluster, "v", Some("host2"), 1).expect_err("two copies on one host");
    assert!(why.contains("choose --ftt 0"), "{why}");
    let why = create(&cluster, "v", Some("host9"), 0).expect_err("no such host");
    assert!(why.contains("there is no host 'host9'"), "{why}");
    let made = create(&cluster, "v", Some("host2"), 0).expect("there is room");
    assert_eq!(hosts(&made), ["host2"]);
    assert_eq!(made.home.expect("it is kept").host, "host2");
    assert_eq!(cluster.fill("v", 0, 16), 16);
    // Nothing but an operator's word moves it.
    let (name, from) = ("v".to_owned(), "host2".to_owned());
    let moved = cluster.ask(0, Command::VolumeMove { name, from, to: None }).expect_err("kept");
    assert!(moved.contains("is kept on host2: 'gabion volume change v --on HOST'"), "{moved}");
    let redundancy = Command::VolumeRedundancy { name: "v".to_owned(), ftt: 1, force: false };
    let more = cluster.ask(0, redundancy).expect_err("one host has one copy");
    assert!(more.contains("--anywhere"), "{more}");
    let explain = Command::VolumeExplain { name: "v".to_owned() };
    let told: PlacementReport = asked(&cluster, explain).expect("it is there");
    let why: Vec<_> = told.layouts[0].hosts.iter().map(|host| host.why.as_str()).collect();
    assert_eq!(why, ["the volume is kept on host2"; 3]);
    // It moves, under a client.
    let node = cluster.node(0).expect("it runs");
    let client = node.exports().attach("v").expect("a volume");
    keep(&cluster, "v", Some("host3")).expect("host 3 takes it");
    let home = volume(&cluster, "v").home.expect("it is kept");
    assert_eq!((home.host.as_str(), home.elsewhere, home.not_moved), ("host3", 1, None));
    wait_until(&cluster, 120, |cluster| is_on(cluster, "v", &["host3"]));
    drop(client);
    reads(&cluster, "v", 9);
    // What it gets more is there too, and it goes where there is room once it may.
    cluster.grow("v", 20 * MIB).expect("there is room");
    cluster.world.run_for(HEARD);
    assert!(is_on(&cluster, "v", &["host3", "host3"]), "{:?}", volume(&cluster, "v"));
    let free = keep(&cluster, "v", None).expect("it may");
    assert_eq!(free.home, None);
    pass(&cluster, 30);
    assert!(is_on(&cluster, "v", &["host3", "host3"]), "it has no reason to move");
}

#[test]
fn a_host_that_cannot_take_it_is_named_and_taken_once_it_can() {
    let cluster = start(232);
    create(&cluster, "v", Some("host2"), 0).expect("there is room");
    assert_eq!(cluster.fill("v", 0, 16), 16);
    cluster.take_down(2, false);
    pass(&cluster, 30);
    for why in [create(&cluster, "w", Some("host3"), 0), keep(&cluster, "v", Some("host3"))] {
        let why = why.expect_err("it is down");
        assert!(why.contains("host3 is down: start it, or name another host"), "{why}");
    }
    cluster.boot(2, |_, _| async {});
    wait_for_hosts(&cluster);
    keep(&cluster, "v", Some("host3")).expect("it is up");
    cluster.take_down(2, true);
    // The half of it that moved does not count, and nothing is lost.
    pass(&cluster, 120);
    let now = volume(&cluster, "v");
    assert!(hosts(&now).contains(&"host2"), "{now:?}");
    assert_eq!(now.compliance.state, ComplianceState::NotCompliant, "{now:?}");
    assert!(now.compliance.why.iter().any(|why| why.contains("host3 is down")), "{now:?}");
    reads(&cluster, "v", 9);
    cluster.boot(2, |_, _| async {});
    wait_for_hosts(&cluster);
    wait_until(&cluster, 300, |cluster| is_on(cluster, "v", &["host3"]));
    reads(&cluster, "v", 9);
}

#[test]
fn maintenance_leaves_it_where_it_is_and_says_so() {
    let cluster = start(233);
    create(&cluster, "v", Some("host2"), 0).expect("there is room");
    create(&cluster, "free", None, 0).expect("there is room");
    assert_eq!(cluster.fill("v", 0, 16), 16);
    for mode in [MaintenanceMode::FullEvacuation, MaintenanceMode::EnsureAccessibility] {
        let enter = Command::MaintenanceEnter { host: "host2".to_owned(), mode };
        let why = cluster.ask(0, enter).expect_err("its only copy stays");
        assert!(why.contains("volume v could not be used without it"), "{why}");
        assert!(why.contains("'gabion volume change --on HOST'"), "{why}");
    }
    keep(&cluster, "v", None).expect("it may go");
    let mode = MaintenanceMode::FullEvacuation;
    let enter = Command::MaintenanceEnter { host: "host2".to_owned(), mode };
    let report: MaintenanceReport = asked(&cluster, enter).expect("others take it");
    assert_eq!(report.obstacles, [""; 0]);
    wait_until(&cluster, 120, |cluster| !hosts(&volume(cluster, "v")).contains(&"host2"));
    reads(&cluster, "v", 9);
    let why = keep(&cluster, "v", Some("host2")).expect_err("it takes nothing");
    assert!(why.contains("host2 is in maintenance"), "{why}");
}

#[test]
fn a_policy_keeps_volumes_on_one_host_each() {
    let cluster = start(234);
    let create_policy = |rules| {
        let name = "local".to_owned();
        cluster.ask(0, Command::PolicyCreate { name, rules }).map(drop)
    };
    let why = create_policy(affinity(Affinity::Host, 1)).expect_err("one copy");
    assert!(why.contains("choose --ftt 0 with it"), "{why}");
    create_policy(affinity(Affinity::Host, 0)).expect("it can be");
    // A new one is made where the command was given.
    let policy = Some("local".to_owned());
    let new = NewVolume { policy: policy.clone(), ..NewVolume::new("new", 16 * MIB, 1) };
    let ask = |index: usize, new| cluster.ask(index, Command::VolumeCreate(new)).map(drop);
    ask(2, new.clone()).expect("there is room");
    assert!(is_on(&cluster, "new", &["host3"]));
    let on = Some("host1".to_owned());
    ask(2, NewVolume { name: "there".to_owned(), on: on.clone(), ..new }).expect("there is room");
    assert!(is_on(&cluster, "there", &["host1"]));
    let free = NewVolume { policy: Some("default".to_owned()), on, ..NewVolume::new("no", MIB, 1) };
    let why = ask(0, free).expect_err("the policy does not say so");
    assert!(why.contains("leave out --on"), "{why}");
    // One with two copies keeps that which is where most of it is.
    let made = cluster.create_on(2, "v", 16, 0).expect("there is room");
    assert_eq!(cluster.fill("v", 0, 16), 16);
    let what_if = Command::PolicyWhatIf { name: "local".to_owned(), volumes: vec!["v".to_owned()] };
    let report: PolicyCheckReport = asked(&cluster, what_if).expect("it can be");
    let [EffectReport { copied_bytes: 0, freed_bytes: 1.., .. }] = report.effects[..] else {
        panic!("nothing moves: {report:?}");
    };
    let follow = Command::VolumeSetPolicy { name: "v".to_owned(), policy };
    let follows: VolumeReport = asked(&cluster, follow).expect("it can");
    let home = follows.home.expect("it is kept").host;
    assert!(made.contains(&home), "{made:?}");
    wait_until(&cluster, 120, |cluster| is_on(cluster, "v", &[home.as_str()]));
    reads(&cluster, "v", 9);
    // It moves, and follows the policy still; once the policy lets them go, all are free.
    let other = if home == "host1" { "host2" } else { "host1" };
    let moved = keep(&cluster, "v", Some(other)).expect("it can");
    assert!(moved.policy.is_some(), "{moved:?}");
    wait_until(&cluster, 120, |cluster| is_on(cluster, "v", &[other]));
    let rules = affinity(Affinity::None, 1);
    cluster.ask(0, Command::PolicyEdit { name: "local".to_owned(), rules }).expect("it can");
    assert_eq!(volume(&cluster, "v").home, None);
    wait_until(&cluster, 120, |cluster| volume(cluster, "v").components.len() == 2);
    reads(&cluster, "v", 9);
}

#[test]
fn a_host_that_is_fuller_than_others_gives_nothing_away_that_is_kept_there() {
    let cluster = balanced(236, 2);
    cluster.boot_directory();
    (0..2).for_each(|index| cluster.boot(index, |_, _| async {}));
    let is_up = || (0..2).all(|index| cluster.node(index).is_some());
    assert!(cluster.world.run_until(Duration::from_secs(60), is_up));
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    for name in NAMES {
        create(&cluster, name, Some("host1"), 0).expect("there is room");
        assert_eq!(cluster.fill(name, 0, 16), 16);
    }
    cluster.world.run_for(LONG);
    let now = cluster.use_of_all();
    assert!(now[0] > 30 && now[1] <= 1, "{now:?}");
    for name in NAMES {
        keep(&cluster, name, None).expect("it may go");
    }
    cluster.world.run_for(LONG);
    let now = cluster.use_of_all();
    assert!(now[1] > 10, "nothing else kept them: {now:?}");
}

/// Hosts 1 and 2 share machine1.
#[test]
fn a_host_of_several_shards_keeps_it_on_any_of_them() {
    let cluster = start_pairs(235, 4, 1, 1);
    let made = create(&cluster, "v", Some("machine1"), 0).expect("there is room");
    assert!(["host1", "host2"].contains(&hosts(&made)[0]), "{made:?}");
    assert_eq!(made.home.expect("it is kept").host, "machine1");
    assert_eq!(cluster.fill("v", 0, 16), 16);
    keep(&cluster, "v", Some("host4")).expect("it is up");
    wait_until(&cluster, 120, |cluster| is_on(cluster, "v", &["host4"]));
    let back = keep(&cluster, "v", Some("host2")).expect("one of its shards is meant");
    assert_eq!(back.home.expect("it is kept").host, "machine1");
    wait_until(&cluster, 120, |cluster| {
        let on = volume(cluster, "v");
        hosts(&on).len() == 1 && ["host1", "host2"].contains(&hosts(&on)[0])
    });
    reads(&cluster, "v", 9);
}
