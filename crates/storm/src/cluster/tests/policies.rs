// SPDX-License-Identifier: Apache-2.0
//! Rules under a name, and the volumes that follow them.

use super::repair::{has_copies, is_whole, pass, places, volume, wait_until, with_copies};
use super::*;
use host::RepairDelay;
use operator::{
    ComplianceState, PolicyCheckReport, PolicyEditReport, PolicyReport, PolicyRules, RateLimit,
};
use serde::de::DeserializeOwned;
use std::cell::Cell;
use std::rc::Rc;

fn asked<T: DeserializeOwned>(cluster: &Cluster, command: Command) -> Result<T, String> {
    Ok(serde_json::from_value(cluster.ask(0, command)?).expect("a report"))
}

fn ftt(ftt: u8) -> PolicyRules {
    PolicyRules { ftt: Some(ftt), ..PolicyRules::default() }
}

fn reserve(percent: u8) -> PolicyRules {
    PolicyRules { reserve_percent: Some(percent), ..PolicyRules::default() }
}

fn create(cluster: &Cluster, name: &str, rules: PolicyRules) -> Result<PolicyReport, String> {
    asked(cluster, Command::PolicyCreate { name: name.to_owned(), rules })
}

fn edit(cluster: &Cluster, name: &str, rules: PolicyRules) -> Result<PolicyEditReport, String> {
    asked(cluster, Command::PolicyEdit { name: name.to_owned(), rules })
}

fn check(cluster: &Cluster, name: &str, rules: PolicyRules) -> Result<PolicyCheckReport, String> {
    asked(cluster, Command::PolicyCheck { name: name.to_owned(), rules })
}

fn delete(cluster: &Cluster, name: &str) -> Result<PolicyReport, String> {
    asked(cluster, Command::PolicyDelete { name: name.to_owned() })
}

fn set(cluster: &Cluster, volume: &str, policy: Option<&str>) -> Result<VolumeReport, String> {
    let (name, policy) = (volume.to_owned(), policy.map(str::to_owned));
    asked(cluster, Command::VolumeSetPolicy { name, policy })
}

/// Version and followers of a policy.
fn shown(cluster: &Cluster, name: &str) -> Option<(u64, Vec<String>)> {
    let all: Vec<PolicyReport> = asked(cluster, Command::PolicyList).expect("a list");
    let policy = all.into_iter().find(|policy| policy.name == name)?;
    Some((policy.version, policy.volumes.into_iter().map(|volume| volume.name).collect()))
}

fn compliance(cluster: &Cluster) -> ComplianceState {
    volume(cluster).compliance.state
}

#[test]
fn a_volume_gets_the_rules_of_its_policy_and_those_that_it_gets_later() {
    let (cluster, _) = with_copies(101, None);
    assert_eq!(create(&cluster, "gold", ftt(2)).expect("a policy").version, 1);
    assert!(create(&cluster, "gold", ftt(1)).expect_err("there is one").contains("policy edit"));
    let report = set(&cluster, "v", Some("gold")).expect("three hosts are up");
    assert_eq!(report.policy.expect("it follows one").name, "gold");
    assert_ne!(report.compliance.state, ComplianceState::Compliant, "it has two copies yet");
    wait_until(&cluster, 60, |cluster| has_copies(cluster, 3));
    assert_eq!(compliance(&cluster), ComplianceState::Compliant);
    assert!(delete(&cluster, "gold").expect_err("it is followed").contains("followed by v"));

    let planned = check(&cluster, "gold", ftt(1)).expect("an answer");
    let effect = &planned.effects[0];
    assert_eq!((planned.impossible, effect.copied_bytes), (None, 0));
    assert_eq!((effect.freed_bytes, effect.at_most), (16 * MIB, false), "one block in each MiB");
    assert_eq!(shown(&cluster, "gold"), Some((1, vec!["v".to_owned()])), "only asked");
    let edited = edit(&cluster, "gold", ftt(1)).expect("fewer is possible");
    assert_eq!((edited.changed, edited.refused), (vec!["v".to_owned()], vec![]));
    assert_eq!(edited.policy.version, 2);
    wait_until(&cluster, 60, is_whole);
    assert_eq!(compliance(&cluster), ComplianceState::Compliant);
    assert_eq!(edit(&cluster, "gold", ftt(1)).expect("as it is").policy.version, 2);

    // Rules of its own again.
    let change = Command::VolumeRedundancy { name: "v".to_owned(), ftt: 0, force: false };
    let report: VolumeReport = asked(&cluster, change).expect("it is changed");
    assert_eq!((report.policy, report.ftt), (None, 0));
    assert_eq!(shown(&cluster, "gold"), Some((2, vec![])));
    delete(&cluster, "gold").expect("nobody follows it");
    assert!(set(&cluster, "v", Some("gold")).expect_err("it is gone").contains("policy list"));
}

#[test]
fn what_the_cluster_cannot_do_changes_neither_policy_nor_volume() {
    let (cluster, other) = with_copies(102, None);
    create(&cluster, "gold", ftt(1)).expect("a policy");
    set(&cluster, "v", Some("gold")).expect("it has two copies");
    cluster.take_down(3 - other, true);
    pass(&cluster, 20);
    let planned = check(&cluster, "gold", ftt(2)).expect("an answer");
    assert!(planned.impossible.expect("two hosts are up").contains("needs 3 hosts"));
    let refused = edit(&cluster, "gold", ftt(2)).expect_err("two hosts are up");
    assert!(refused.contains("needs 3 hosts"), "{refused}");
    assert_eq!((volume(&cluster).ftt, shown(&cluster, "gold").expect("it is there").0), (1, 1));
    assert!(edit(&cluster, "gold", ftt(4)).expect_err("no such thing").contains("--ftt 4"));
    assert!(create(&cluster, "Gold", ftt(1)).expect_err("no name").contains("policy's name"));
    assert!(delete(&cluster, "silver").expect_err("there is none").contains("policy list"));
}

#[test]
fn a_policy_may_have_volumes_made_before_there_is_a_place_for_all_of_their_copies() {
    let (cluster, _) = with_copies(109, None);
    create(&cluster, "wide", ftt(3)).expect("a policy");
    let refused = set(&cluster, "v", Some("wide")).expect_err("three hosts");
    assert!(refused.contains("needs 4 hosts"), "{refused}");
    let force = PolicyRules { force: Some(true), ..PolicyRules::default() };
    assert!(edit(&cluster, "wide", force).expect("it is there").policy.force);
    assert!(check(&cluster, "wide", force).expect("it is there").impossible.is_some());
    let report = set(&cluster, "v", Some("wide")).expect("it is forced");
    assert_eq!((report.ftt, report.compliance.state), (3, ComplianceState::NotCompliant));
    let made: VolumeReport = asked(
        &cluster,
        Command::VolumeCreate(NewVolume {
            policy: Some("wide".to_owned()),
            ..NewVolume::new("w", MIB, 0)
        }),
    )
    .expect("it is forced");
    assert_eq!((made.ftt, made.components.len()), (3, 3));
}

#[test]
fn a_volume_without_room_keeps_its_rules_and_says_so_until_it_gets_the_new_ones() {
    let (cluster, _) = with_copies(103, None);
    create(&cluster, "kept", reserve(0)).expect("a policy");
    set(&cluster, "v", Some("kept")).expect("it is thin");
    let large = |policy: &str| {
        Command::VolumeCreate(NewVolume {
            reserve_percent: 9,
            policy: Some(policy.to_owned()),
            ..NewVolume::new("large", 64 << 30, 0)
        })
    };
    let made: VolumeReport = asked(&cluster, large("kept")).expect("thin volumes fit");
    assert_eq!((made.ftt, made.reserve_percent), (1, 0), "the rules are the policy's");
    let edited = edit(&cluster, "kept", reserve(100)).expect("there are hosts");
    assert_eq!(edited.changed, ["v"]);
    assert_eq!(edited.refused.len(), 1);
    assert!(edited.refused[0].why.contains("missing"), "{edited:?}");
    assert_eq!(volume(&cluster).reserve_percent, 100);
    let show = |name: &str| {
        let report: VolumeReport =
            asked(&cluster, Command::VolumeShow { name: name.to_owned() }).expect("it is there");
        report
    };
    let report = show("large");
    assert_eq!((report.reserve_percent, report.policy.expect("one").version), (0, 1));
    assert_eq!(report.compliance.state, ComplianceState::NotCompliant);
    assert!(report.compliance.why[0].contains("set-policy large kept"));
    let edited = edit(&cluster, "kept", reserve(0)).expect("nothing is needed");
    assert_eq!((edited.changed.len(), edited.refused), (2, vec![]));
    assert_eq!(show("large").compliance.state, ComplianceState::Compliant);
    assert_eq!(volume(&cluster).reserve_percent, 0);
}

#[test]
fn a_policy_says_when_a_copy_is_made_again() {
    let (cluster, other) = with_copies(104, None);
    let repair_delay = Some(RepairDelay::Seconds(10));
    create(&cluster, "soon", PolicyRules { repair_delay, ..ftt(1) }).expect("a policy");
    set(&cluster, "v", Some("soon")).expect("it has two copies");
    cluster.take_down(other, true);
    wait_until(&cluster, 60, |cluster| places(cluster) == [0, 3 - other] && is_whole(cluster));
}

/// Blocks that are written to a volume at depth 8 within some seconds, through host 1.
fn written_in(cluster: &Cluster, name: &'static str, seconds: u64) -> u64 {
    let node = cluster.node(0).expect("it runs");
    let device = node.exports().attach(name).expect("a volume");
    let count = Rc::new(Cell::new(0));
    let counted = Rc::clone(&count);
    cluster.on(0, async move |env| {
        let write = async |at: u64| {
            for block in (at..4096).step_by(8).cycle() {
                let mut payload = env.buf(4096);
                payload.fill(9);
                device.write(block * 4096, payload.freeze()).await.expect("a write");
                counted.set(counted.get() + 1);
            }
        };
        let all = env::join_all((0..8).map(write).collect());
        let _ = env.timeout(Duration::from_secs(seconds), all).await;
    });
    count.get()
}

#[test]
fn a_volume_does_what_its_limits_let_through_and_another_one_does_not_wait_for_it() {
    let (cluster, _) = with_copies(106, None);
    cluster.create_on(2, "free", 16, 0).expect("there is room");
    let before = written_in(&cluster, "v", 2);
    let iops = |rate| PolicyRules { iops: Some(rate), ..PolicyRules::default() };
    let refused = create(&cluster, "slow", iops(RateLimit::At(31))).expect_err("too low");
    assert!(refused.contains("--iops is from 32 to"), "{refused}");
    create(&cluster, "slow", iops(RateLimit::At(100))).expect("a policy");
    let report = set(&cluster, "v", Some("slow")).expect("nothing is in the way");
    assert_eq!(report.policy.expect("it follows one").limits.iops, Some(100));
    pass(&cluster, 1);
    // It stays open on host 1: what changes from here on changes while it is in use.
    let device = cluster.node(0).expect("it runs").exports().attach("v").expect("a volume");
    let limited = written_in(&cluster, "v", 10);
    assert!((1000..=1010).contains(&limited), "{limited} in 10 s at 100 a second");
    let free = written_in(&cluster, "free", 2);
    assert!(free > before / 2 && before > 10 * limited, "{before} and {free} without limits");
    let [told] = volume(&cluster).limited.try_into().expect("at one host");
    assert!(told.host == "host1" && told.requests > 900 && told.waited_ms > 9000, "{told:?}");

    let bytes = PolicyRules { bytes_per_second: Some(RateLimit::At(MIB)), ..iops(RateLimit::None) };
    let edited = edit(&cluster, "slow", bytes).expect("nothing is in the way");
    assert_eq!(edited.changed, ["v"]);
    pass(&cluster, 1);
    let limited = written_in(&cluster, "v", 10);
    assert!((2560..=2600).contains(&limited), "{limited} blocks in 10 s at 1 MiB a second");
    set(&cluster, "v", None).expect("its rules are its own");
    pass(&cluster, 1);
    assert!(written_in(&cluster, "v", 2) > before / 2);
    drop(device);
}

#[test]
fn the_built_in_policy_is_changed_and_not_deleted() {
    let (cluster, _) = with_copies(105, None);
    assert_eq!(shown(&cluster, "default"), Some((1, vec![])));
    assert!(delete(&cluster, "default").expect_err("it stays").contains("every cluster"));
    assert!(create(&cluster, "default", ftt(0)).expect_err("there is one").contains("policy edit"));
    set(&cluster, "v", Some("default")).expect("it has two copies");
    edit(&cluster, "default", ftt(2)).expect("three hosts are up");
    wait_until(&cluster, 60, |cluster| has_copies(cluster, 3));
    assert_eq!(shown(&cluster, "default"), Some((2, vec!["v".to_owned()])));
    assert_eq!(set(&cluster, "v", None).expect("it keeps them").policy, None);
    assert_eq!((volume(&cluster).ftt, shown(&cluster, "default")), (2, Some((2, vec![]))));
}

#[test]
fn what_a_policy_would_cost_is_told_of_volumes_that_do_not_follow_it() {
    let (cluster, other) = with_copies(107, None);
    create(&cluster, "gold", ftt(2)).expect("a policy");
    let what_if = |volumes: &[&str]| -> Result<PolicyCheckReport, String> {
        let volumes = volumes.iter().map(|&name| name.to_owned()).collect();
        asked(&cluster, Command::PolicyWhatIf { name: "gold".to_owned(), volumes })
    };
    let told = what_if(&["v"]).expect("an answer");
    let effect = &told.effects[0];
    assert_eq!((told.impossible, effect.copied_bytes, effect.freed_bytes), (None, 16 * MIB, 0));
    assert!(told.room_bytes >= effect.copied_bytes, "{}", told.room_bytes);
    assert_eq!(what_if(&[]).expect("an answer").effects.len(), 1, "all there are");
    assert!(what_if(&["w"]).expect_err("there is none").contains("volume list"));
    assert_eq!(shown(&cluster, "gold"), Some((1, vec![])), "only asked");
    assert_eq!(volume(&cluster).ftt, 1);
    cluster.take_down(3 - other, true);
    pass(&cluster, 20);
    let told = what_if(&["v"]).expect("an answer");
    assert!(told.impossible.expect("two hosts are up").contains("needs 3 hosts"));
}
