// SPDX-License-Identifier: Apache-2.0
//! A component on another host takes the place of one, while clients go on (rules 38-40).

use crate::cluster::{Cluster, HOSTS, OBJECT, record_on};
use base::{ComponentId, Set, ShardId};
use directory::ComponentState;
use object::{MemberChange, Mutations, ReplaceError};
use sim::{QuirkModel, World, WorldOptions};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

const LOAD: Duration = Duration::from_secs(1000);
const MAX: Duration = Duration::from_secs(30);

/// An object with copies on these hosts, and clients on all hosts.
fn loaded(seed: u64, hosts: &[u32], mutations: Mutations) -> Cluster {
    // In every other world moments that are short by nature last, now and then.
    let armed_ppm = if seed.is_multiple_of(2) { 0 } else { 500_000 };
    let quirks = QuirkModel { armed_ppm, fire_ppm: 300_000 };
    let world = World::new(WorldOptions { seed, quirks, ..WorldOptions::default() });
    let cluster = Cluster::in_world(world, mutations);
    cluster.create_as(record_on(hosts));
    for at in 0..HOSTS {
        cluster.clients(at, 2, LOAD);
    }
    cluster.run(1.0);
    cluster
}

/// Asks host `at`; `None`: no answer.
fn replace(
    cluster: &Cluster,
    at: usize,
    component: ComponentId,
    to: Option<u32>,
) -> Option<Result<(), ReplaceError>> {
    let members = cluster.record().members();
    let change = match to {
        Some(to) => MemberChange::Replace { old: component, to: ShardId(to), members },
        None => MemberChange::Keep(component),
    };
    change_members(cluster, at, change)
}

fn change_members(
    cluster: &Cluster,
    at: usize,
    change: MemberChange,
) -> Option<Result<(), ReplaceError>> {
    let objects = cluster.objects(at)?;
    cluster.on(at, MAX, async move { objects.change_members(OBJECT, change).await })
}

fn hosts(cluster: &Cluster) -> Vec<u32> {
    cluster.record().components.iter().map(|component| component.shard.0).collect()
}

/// The component of a host in the record.
fn component(cluster: &Cluster, host: u32) -> ComponentId {
    let components = cluster.record().components;
    components.iter().find(|c| c.shard == ShardId(host)).expect("it has one").id
}

/// Clients end. All copies are equal and right, and nothing else is left.
fn at_rest(cluster: &Cluster) {
    cluster.stop.set(true);
    cluster.run(2.0); // a write may linger
    cluster.verify();
    nothing_is_left(cluster);
}

/// Nothing is left of what was taken out: neither in the record nor on a device.
fn nothing_is_left(cluster: &Cluster) {
    let is_clean = || cluster.record().removed.is_empty();
    let seed = cluster.world.seed();
    assert!(
        cluster.world.run_until(Duration::from_secs(150), is_clean),
        "seed {seed}: {:?}",
        cluster.record()
    );
    let listed: Set<(u32, ComponentId)> =
        cluster.record().components.iter().map(|c| (c.shard.0, c.id)).collect();
    let held = cluster.hosts.iter().flat_map(|host| {
        let group = host.group.borrow().clone().expect("host is up");
        group.components().into_iter().map(|id| (host.id.0, id)).collect::<Vec<_>>()
    });
    assert_eq!(held.collect::<Set<_>>(), listed, "seed {seed}");
}

#[test]
fn a_copy_moves_while_clients_write_and_its_old_place_is_freed() {
    let cluster = loaded(300, &[1, 2], Mutations::default());
    let old = component(&cluster, 2);
    assert_eq!(replace(&cluster, 0, old, Some(1)), Some(Err(ReplaceError::SameHost)));
    assert_eq!(replace(&cluster, 0, ComponentId(9), Some(3)), Some(Err(ReplaceError::Unknown)));
    // Whoever is asked: the owner is found.
    for (at, from, to) in [(0, 2, 3), (1, 1, 2), (2, 3, 1)] {
        let old = component(&cluster, from);
        assert_eq!(replace(&cluster, at, old, Some(to)), Some(Ok(())));
        let is_there = || !hosts(&cluster).contains(&from);
        assert!(cluster.world.run_until(MAX, is_there), "{from} to {to}: {:?}", cluster.record());
        cluster.run(0.5); // the owner learns that the change landed
    }
    at_rest(&cluster);
}

/// Two hosts each move the copy that they have, and neither knows yet what the other one has done:
/// together that could put both copies into one fault domain.
#[test]
fn a_move_that_was_decided_by_other_members_is_not_made() {
    moved_as_it_was(Mutations::default());
}

fn moved_as_it_was(mutations: Mutations) {
    let cluster = loaded(306, &[1, 2], mutations);
    let (mine, members) = (component(&cluster, 1), cluster.record().members());
    assert_eq!(replace(&cluster, 0, component(&cluster, 2), Some(3)), Some(Ok(())));
    let is_moved = || !hosts(&cluster).contains(&2);
    assert!(cluster.world.run_until(MAX, is_moved), "{:?}", cluster.record());
    cluster.run(0.5);
    let stale = MemberChange::Replace { old: mine, to: ShardId(2), members };
    assert_eq!(change_members(&cluster, 0, stale), Some(Err(ReplaceError::Busy)));
    assert_eq!(hosts(&cluster), [1, 3]);
    assert_eq!(replace(&cluster, 0, mine, Some(2)), Some(Ok(())), "as it is by now");
    at_rest(&cluster);
}

#[test]
fn a_copy_whose_host_is_gone_is_replaced_and_deleted_when_that_comes_back() {
    let cluster = loaded(301, &[1, 2], Mutations::default());
    let old = component(&cluster, 2);
    cluster.crash(1);
    cluster.run(8.0);
    assert_eq!(replace(&cluster, 0, old, Some(3)), Some(Ok(())));
    cluster.settle(30.0);
    assert_eq!(hosts(&cluster), [1, 3]);
    cluster.run(5.0);
    let removed: Vec<_> = cluster.record().removed.iter().map(|one| one.id).collect();
    assert_eq!(removed, [old], "not deleted yet");
    cluster.boot(1);
    cluster.run(5.0);
    at_rest(&cluster);
}

#[test]
fn what_was_to_take_a_place_can_be_called_off() {
    let cluster = loaded(302, &[1, 2], Mutations::default());
    let old = component(&cluster, 1);
    assert_eq!(replace(&cluster, 0, old, None), Some(Err(ReplaceError::Unknown)));
    assert_eq!(replace(&cluster, 0, old, Some(3)), Some(Ok(())));
    assert_eq!(replace(&cluster, 0, old, Some(3)), Some(Err(ReplaceError::Busy)));
    assert_eq!(replace(&cluster, 1, old, None), Some(Ok(())));
    cluster.run(1.0);
    assert_eq!(hosts(&cluster), [1, 2]);
    at_rest(&cluster);
}

#[test]
fn a_host_without_a_link_is_no_place() {
    let cluster = loaded(303, &[1, 2], Mutations::default());
    let old = component(&cluster, 1);
    cluster.isolate(2, false, true);
    let asked = replace(&cluster, 0, old, Some(3));
    assert_eq!(asked, Some(Err(ReplaceError::NotMade)));
    assert_eq!(hosts(&cluster), [1, 2]);
    cluster.isolate(2, false, false);
    at_rest(&cluster);
}

/// Copies are moved and called off at any moment, and get more and fewer where `resizes`, while
/// hosts and links come and go.
fn campaign(seed: u64, (copies, resizes): (&[u32], bool), mutations: Mutations) {
    let mut cluster = loaded(seed, copies, mutations);
    let mut is_up = [true; HOSTS];
    for _ in 0..14 {
        let (record, members) = (cluster.record(), cluster.record().members());
        let (components, version) = (record.components, record.version);
        let chosen = components[cluster.rng.below(components.len() as u64) as usize];
        let at = cluster.rng.below(HOSTS as u64) as usize;
        match cluster.rng.below(10) {
            0..=4 => {
                let to = ShardId(cluster.rng.between(1, HOSTS as u64) as u32);
                let change = match cluster.rng.below(5) {
                    0 => MemberChange::Keep(chosen.id),
                    1 | 2 if resizes => MemberChange::Add { to, version },
                    3 if resizes => MemberChange::TakeOut { component: chosen.id, version },
                    _ => MemberChange::Replace { old: chosen.id, to, members },
                };
                if let (Some(objects), Some(env)) =
                    (cluster.objects(at), cluster.world.env(cluster.hosts[at].key))
                {
                    let asked = async move {
                        let _ = objects.change_members(OBJECT, change).await;
                    };
                    std::mem::forget(env.spawn("replace", asked));
                }
            }
            5 if is_up[at] => {
                is_up[at] = false;
                if cluster.rng.below(2) == 0 { cluster.kill(at) } else { cluster.crash(at) }
            }
            6 => {
                let with_directory = cluster.rng.below(2) == 0;
                cluster.isolate(at, with_directory, true);
                let cut = cluster.rng.below(9) as f64;
                cluster.run(cut);
                cluster.isolate(at, true, false);
            }
            _ => {}
        }
        let pause = cluster.rng.below(3_000) as f64 / 1000.0;
        cluster.run(pause);
        if let Some(at) = (0..HOSTS).find(|at| !is_up[*at])
            && cluster.rng.below(3) == 0
        {
            is_up[at] = true;
            cluster.boot(at);
            cluster.run(0.5);
            cluster.clients(at, 2, LOAD);
        }
    }
    for at in (0..HOSTS).filter(|at| !is_up[*at]) {
        cluster.boot(at);
    }
    cluster.run(10.0);
    at_rest(&cluster);
}

#[test]
fn nothing_is_lost_while_copies_move() {
    for seed in 0..12 {
        campaign(1000 + seed, (&[1, 2], false), Mutations::default());
    }
    for seed in 0..8 {
        campaign(2000 + seed, (&[1], false), Mutations::default());
    }
}

#[test]
fn nothing_is_lost_while_copies_get_more_and_fewer() {
    for seed in 0..12 {
        campaign(4000 + seed, (&[1, 2], true), Mutations::default());
    }
    for seed in 0..4 {
        campaign(5000 + seed, (&[3], true), Mutations::default());
    }
}

#[test]
fn an_object_gets_one_more_copy_and_one_less_while_clients_write() {
    let cluster = loaded(320, &[1], Mutations::default());
    let version = || cluster.record().version;
    let add = |at, host| {
        change_members(&cluster, at, MemberChange::Add { to: ShardId(host), version: version() })
    };
    let take_out = |at, component| {
        change_members(&cluster, at, MemberChange::TakeOut { component, version: version() })
    };
    let only = component(&cluster, 1);
    assert_eq!(take_out(0, only), Some(Err(ReplaceError::Busy)));
    assert_eq!(add(0, 1), Some(Err(ReplaceError::SameHost)));
    for host in [2, 3] {
        let before = version();
        assert_eq!(add(2, host), Some(Ok(())));
        // Somebody else who saw the same.
        let late = MemberChange::Add { to: ShardId(5 - host), version: before };
        assert_eq!(change_members(&cluster, 2, late), Some(Err(ReplaceError::Busy)));
        cluster.settle(30.0);
    }
    assert_eq!(hosts(&cluster), [1, 2, 3]);
    cluster.run(1.0);
    // The owner's own, while it writes, and one whose host is gone.
    let owner = cluster.owner().expect("clients write");
    let own = component(&cluster, cluster.hosts[owner].id.0);
    let before = version();
    assert_eq!(take_out(owner, own), Some(Ok(())));
    let other = component(&cluster, hosts(&cluster)[0]);
    let late = MemberChange::TakeOut { component: other, version: before };
    assert_eq!(change_members(&cluster, owner, late), Some(Err(ReplaceError::Busy)));
    cluster.run(2.0);
    let gone = (0..HOSTS).find(|at| *at != owner && *at != cluster.owner().unwrap_or(owner));
    let gone = gone.expect("three hosts");
    let other = component(&cluster, cluster.hosts[gone].id.0);
    cluster.crash(gone);
    cluster.run(8.0);
    let at = (0..HOSTS).find(|at| *at != gone && *at != owner).expect("three hosts");
    assert_eq!(take_out(at, other), Some(Ok(())));
    assert_eq!(hosts(&cluster).len(), 1);
    assert_eq!(take_out(at, other), Some(Err(ReplaceError::Unknown)));
    cluster.boot(gone);
    cluster.run(5.0);
    at_rest(&cluster);
}

/// The directory is gone when the new component has everything, and then the owner and the new one
/// are: the old one, which the record still has, goes on with all that was acknowledged.
fn cut_off_before_the_cas(mutations: Mutations) {
    let cluster = Cluster::new(310, mutations);
    cluster.create_as(record_on(&[2]));
    cluster.clients(0, 12, LOAD);
    cluster.run(1.0);
    assert_eq!(cluster.owner(), Some(0));
    let old = component(&cluster, 2);
    assert_eq!(replace(&cluster, 0, old, Some(3)), Some(Ok(())));
    let is_filled = || {
        let components = cluster.record().components;
        components.iter().any(|component| component.state == ComponentState::Resyncing)
    };
    assert!(cluster.world.run_until(MAX, is_filled));
    cluster.run(0.002); // until the owner knows
    cluster.world.partition(cluster.hosts[0].key, cluster.directory, true);
    cluster.run(3.0);
    assert!(is_filled(), "the directory does not know that it has everything");
    cluster.crash(0);
    cluster.crash(2);
    cluster.clients(1, 2, LOAD);
    cluster.run(15.0);
    assert_eq!(cluster.owner(), Some(1), "it serves what the record says");
    // The CAS may arrive only now: it loses.
    cluster.world.partition(cluster.hosts[0].key, cluster.directory, false);
    cluster.boot(0);
    cluster.boot(2);
    cluster.run(5.0);
    at_rest(&cluster);
}

/// The same for a component that is taken out and that none takes the place of.
fn cut_off_before_it_is_taken_out(mutations: Mutations) {
    let cluster = Cluster::new(311, mutations);
    cluster.create_as(record_on(&[2, 3]));
    cluster.clients(0, 12, LOAD);
    cluster.run(1.0);
    assert_eq!(cluster.owner(), Some(0));
    let old = component(&cluster, 2);
    cluster.world.partition(cluster.hosts[0].key, cluster.directory, true);
    let change = MemberChange::TakeOut { component: old, version: cluster.record().version };
    let asked = change_members(&cluster, 0, change);
    assert_ne!(asked, Some(Ok(())), "the directory was not asked");
    cluster.crash(0);
    cluster.crash(2);
    cluster.clients(1, 2, LOAD);
    cluster.run(15.0);
    assert_eq!(cluster.owner(), Some(1), "it serves what the record says");
    cluster.world.partition(cluster.hosts[0].key, cluster.directory, false);
    cluster.boot(0);
    cluster.boot(2);
    cluster.run(5.0);
    at_rest(&cluster);
}

#[test]
fn until_the_cas_is_known_the_old_component_counts() {
    cut_off_before_the_cas(Mutations::default());
    cut_off_before_it_is_taken_out(Mutations::default());
}

/// Writes that complete before the CAS is known (rule 39) are noticed by the storm.
#[test]
fn what_breaks_a_rule_of_replacement_is_noticed() {
    let off = Mutations::default();
    let is_noticed = |run: &dyn Fn()| catch_unwind(AssertUnwindSafe(run)).is_err();
    let deleted = Mutations { delete_before_replaced: true, ..off };
    assert!(is_noticed(&|| cut_off_before_the_cas(deleted)), "nothing was left of the old one");
    assert!(is_noticed(&|| cut_off_before_it_is_taken_out(deleted)), "nor of the one that left");
    let completed = Mutations { complete_before_replaced: true, ..off };
    assert!(is_noticed(&|| cut_off_before_it_is_taken_out(completed)), "it missed writes");
    let stale = Mutations { move_as_it_was: true, ..off };
    assert!(is_noticed(&|| moved_as_it_was(stale)), "by what the record was once");
    let unfilled = Mutations { join_unfilled: true, ..off };
    let mut seeds = 3000..3012;
    let is_seen = seeds.any(|seed| is_noticed(&|| campaign(seed, (&[1, 2], false), unfilled)));
    assert!(is_seen, "nothing was copied");
}
