// SPDX-License-Identifier: Apache-2.0
//! Read cache that is kept for volumes.

use super::repair::{pass, wait_until};
use super::*;
use host::ClusterKind;
use operator::{
    CachedReport, ComplianceState, EffectReport, PolicyCheckReport, PolicyRules, ReadCacheReport,
};
use serde::de::DeserializeOwned;

/// A round of the care for read cache, and some more.
const TOLD: u64 = 30;

/// Three hosts with a hybrid group each, of which this is the read cache.
fn hybrid(seed: u64) -> (Cluster, u64) {
    let mut plan = calm(seed, 3, 1, 0);
    (plan.kind, plan.read_cache_percent) = (ClusterKind::Hybrid, 50);
    plan.sizes.cache = 48 * MIB;
    let cluster = Cluster::new(&plan, None);
    cluster.boot_directory();
    (0..3).for_each(|index| cluster.boot(index, |_, _| async {}));
    wait_for_hosts(&cluster);
    let bytes = read_cache(&cluster, 0).size_bytes;
    (cluster, bytes)
}

fn asked<T: DeserializeOwned>(cluster: &Cluster, command: Command) -> Result<T, String> {
    Ok(serde_json::from_value(cluster.ask(0, command)?).expect("a report"))
}

fn create(cluster: &Cluster, new: NewVolume) -> VolumeReport {
    asked(cluster, Command::VolumeCreate(new)).expect("there is room")
}

fn keep(cluster: &Cluster, name: &str, cache_percent: u8) -> Result<VolumeReport, String> {
    asked(cluster, Command::VolumeCache { name: name.to_owned(), cache_percent })
}

fn read_cache(cluster: &Cluster, host: usize) -> ReadCacheReport {
    cluster.status(host).groups[0].read_cache.expect("it is hybrid")
}

/// What each host that is up says of a volume, by its name, and that of all together.
fn cached(cluster: &Cluster, name: &str) -> (Vec<CachedReport>, VolumeReport) {
    let up = (0..3).filter(|index| cluster.node(*index).is_some());
    let statuses = up.map(|index| cluster.status(index)).collect();
    let merged = operator::merge(statuses, &[]).expect("answers");
    let volume =
        merged.volumes.into_iter().find(|volume| volume.name == name).expect("it is there");
    (volume.cached.clone(), volume)
}

/// Of all hosts together: what is asked for a volume, and what is kept.
fn sums(cluster: &Cluster, name: &str) -> (u64, u64) {
    let (cached, _) = cached(cluster, name);
    let sum = |of: fn(&CachedReport) -> u64| cached.iter().map(of).sum();
    (sum(|at| at.asked_bytes), sum(|at| at.kept_bytes))
}

#[test]
fn the_copies_of_a_volume_share_what_is_kept_for_it_and_one_that_is_alone_gets_all() {
    let (cluster, bytes) = hybrid(251);
    assert!(bytes >= 20 * MIB, "{bytes} bytes of read cache");
    create(&cluster, NewVolume { cache_percent: 50, ..NewVolume::new("v", 16 * MIB, 1) });
    pass(&cluster, TOLD);
    let (on, volume) = cached(&cluster, "v");
    assert_eq!(volume.compliance.state, ComplianceState::Compliant, "{volume:?}");
    assert_eq!(on.len(), 2, "the hosts with a copy");
    assert!(on.iter().all(|at| (at.asked_bytes, at.kept_bytes) == (4 * MIB, 4 * MIB)), "{on:?}");
    let kept = (0..3).map(|host| read_cache(&cluster, host).kept_bytes).sum::<u64>();
    assert_eq!(kept, 8 * MIB);
    // More, less, none; not more than all.
    keep(&cluster, "v", 100).expect("there is room");
    pass(&cluster, TOLD);
    assert_eq!(sums(&cluster, "v"), (16 * MIB, 16 * MIB));
    let why = keep(&cluster, "v", 101).expect_err("more than all");
    assert!(why.contains("0 to 100 %"), "{why}");
    // One copy is alone: it is read for both.
    let alone = on[0].host.clone();
    let gone = volume.components.iter().find(|one| one.host != alone).expect("two copies");
    let gone: usize = gone.host.trim_start_matches("host").parse().expect("a number");
    cluster.take_down(gone - 1, false);
    pass(&cluster, 60);
    let index = (0..3).find(|index| format!("host{}", index + 1) == alone).expect("a host");
    let kept = read_cache(&cluster, index).kept_bytes;
    assert_eq!(kept, 16 * MIB, "what {alone} keeps");
    cluster.boot(gone - 1, |_, _| async {});
    wait_for_hosts(&cluster);
    wait_until(&cluster, 300, |cluster| {
        let (on, _) = cached(cluster, "v");
        on.iter().all(|at| at.kept_bytes == 8 * MIB)
    });
    keep(&cluster, "v", 0).expect("nothing is needed for that");
    pass(&cluster, TOLD);
    assert_eq!(sums(&cluster, "v"), (0, 0));
}

#[test]
fn volumes_that_ask_for_more_than_may_be_kept_share_it_and_say_so() {
    let (cluster, bytes) = hybrid(252);
    let size = bytes / MIB * MIB;
    for name in ["a", "b"] {
        create(&cluster, NewVolume { cache_percent: 100, ..NewVolume::new(name, size, 2) });
    }
    keep(&cluster, "a", 100).expect("it may ask");
    pass(&cluster, TOLD);
    let (asked, kept) = sums(&cluster, "a");
    assert_eq!((asked, kept), sums(&cluster, "b"), "alike");
    assert!(asked <= size + 3 * 65536 && kept == asked, "a third on each host: {asked}, {kept}");
    // Of one copy each all is asked for in one place.
    for name in ["c", "d"] {
        let new = NewVolume { on: Some("host1".to_owned()), ..NewVolume::new(name, size, 0) };
        create(&cluster, NewVolume { cache_percent: 100, ..new });
    }
    pass(&cluster, TOLD);
    let cache = read_cache(&cluster, 0);
    assert!(cache.asked_bytes > 2 * size, "{cache:?}");
    let most = cache.size_bytes / 10 * 9;
    assert!(cache.kept_bytes <= most && cache.kept_bytes > most - MIB, "{cache:?}");
    let (on, volume) = cached(&cluster, "c");
    assert!(on[0].kept_bytes < on[0].asked_bytes, "{on:?}");
    assert_eq!(volume.compliance.state, ComplianceState::NotCompliant);
    assert!(volume.compliance.why[0].contains("of read cache for it"), "{:?}", volume.compliance);
    // What goes, and what is deleted, is everybody's again.
    keep(&cluster, "d", 0).expect("it may");
    let delete = Command::VolumeDelete { name: "a".to_owned(), for_good: false };
    cluster.ask(0, delete).expect("nobody uses it");
    keep(&cluster, "c", 50).expect("it may");
    pass(&cluster, TOLD);
    assert_eq!(cached(&cluster, "c").1.compliance.state, ComplianceState::Compliant);
    let kept = read_cache(&cluster, 0).kept_bytes;
    assert!(kept <= size / 2 + size / 3 + 2 * 65536, "{kept}");
}

#[test]
fn a_policy_says_for_which_part_of_its_volumes_cache_is_kept() {
    let (cluster, _) = hybrid(253);
    let rules = |percent| PolicyRules { cache_percent: Some(percent), ..PolicyRules::default() };
    let create_policy = Command::PolicyCreate { name: "quick".to_owned(), rules: rules(25) };
    cluster.ask(0, create_policy).expect("it is new");
    let new = NewVolume { policy: Some("quick".to_owned()), ..NewVolume::new("v", 16 * MIB, 1) };
    assert_eq!(create(&cluster, new).cache_percent, 25);
    let check = Command::PolicyCheck { name: "quick".to_owned(), rules: rules(75) };
    let effects = asked::<PolicyCheckReport>(&cluster, check).expect("it is there").effects;
    let [EffectReport { copied_bytes: 0, freed_bytes: 0, cached_bytes, .. }] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(*cached_bytes, 8 * MIB);
    let edit = Command::PolicyEdit { name: "quick".to_owned(), rules: rules(75) };
    cluster.ask(0, edit).expect("it can");
    pass(&cluster, TOLD);
    assert_eq!(sums(&cluster, "v"), (12 * MIB, 12 * MIB));
    let free = keep(&cluster, "v", 10).expect("it may");
    assert!(free.policy.is_none() && free.cache_percent == 10, "{free:?}");
    let all_flash = start(254);
    create(&all_flash, NewVolume { cache_percent: 50, ..NewVolume::new("v", 16 * MIB, 1) });
    pass(&all_flash, TOLD);
    let (on, volume) = cached(&all_flash, "v");
    assert!(on.is_empty(), "there is no read cache: {on:?}");
    assert_eq!(volume.compliance.state, ComplianceState::Compliant);
}
