// SPDX-License-Identifier: Apache-2.0
//! What rotted on one component is written again from another, without any client; what rotted on
//! all of them stays bad.

use crate::cluster::{BLOCKS, Cluster, OBJECT, put};
use crate::oracle::Oracle;
use base::{BLOCK_SIZE, ComponentId};
use diskgroup::GroupError;
use object::{Mutations, ObjectError};
use std::rc::Rc;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
/// Blocks that are written, in two chunks.
const WRITTEN: [usize; 6] = [3, 4, 5, 80, 300, 301];

fn component(at: usize) -> ComponentId {
    ComponentId(101 + at as u64)
}

/// A cluster whose owner is host `at`, with some blocks on the capacity devices of all hosts.
fn at_rest(seed: u64, at: usize) -> Cluster {
    at_rest_with(seed, at, Mutations::default())
}

fn at_rest_with(seed: u64, at: usize, mutations: Mutations) -> Cluster {
    let cluster = Cluster::new(seed, mutations);
    cluster.create();
    let objects = cluster.objects(at).expect("it is up");
    let env = cluster.world.env(cluster.hosts[at].key).expect("it is up");
    let oracle = Rc::clone(&cluster.oracle);
    let written = cluster.on(at, Duration::from_secs(60), async move {
        objects.acquire(OBJECT).await.expect("an owner");
        for block in WRITTEN {
            put(&env, &objects, &oracle, block).await.expect("a write");
        }
    });
    assert!(written.is_some(), "written in time");
    to_capacity(&cluster);
    cluster
}

fn to_capacity(cluster: &Cluster) {
    cluster.run(1.0);
    let groups: Vec<_> =
        cluster.hosts.iter().map(|host| host.group.borrow().clone().expect("it is up")).collect();
    groups.iter().for_each(|group| group.drain_buffer(true));
    let is_drained = || groups.iter().all(|group| group.status().buffer_fill == 0.0);
    assert!(cluster.world.run_until(HOUR, is_drained), "everything gets to capacity");
    groups.iter().for_each(|group| group.drain_buffer(false));
}

/// Bits flip in a block on the capacity device of one host.
fn rot(cluster: &Cluster, at: usize, block: usize) {
    let (world, key) = (&cluster.world, cluster.hosts[at].key);
    let content = Oracle::content(block, 1);
    let size = world.disk_size(key, "capacity");
    let is_there = |from: &u64| world.read_raw(key, "capacity", *from, 4096) == content;
    let place = (0..size.min(64 << 20)).step_by(4096).find(is_there);
    world.flip_bits(key, "capacity", place.expect("the block is on capacity") + 77, 5);
}

/// One pass of a host over its component: blocks found bad, and how asking for them went.
fn pass(cluster: &Cluster, at: usize) -> Vec<(usize, Result<(), ObjectError>)> {
    let group = cluster.hosts[at].group.borrow().clone().expect("it is up");
    let objects = cluster.objects(at).expect("it is up");
    let done = cluster.on(at, HOUR, async move {
        let (mut found, mut from) = (Vec::new(), Some(0));
        while let Some(sector) = from {
            let verified = group.verify(component(at), sector).await.expect("a component");
            from = verified.next;
            for bad in verified.bad {
                for block in bad.range.split_at_multiples(8) {
                    let repaired = objects.repair(OBJECT, component(at), block).await;
                    found.push(((block.start / 8) as usize, repaired));
                }
            }
        }
        found
    });
    done.expect("a pass ends")
}

#[test]
fn what_rotted_on_one_component_is_written_again() {
    // The component of the owner's own host, and that of another one.
    for (seed, owner) in [(1, 0), (2, 1), (3, 2)] {
        let cluster = at_rest(seed, owner);
        [3, 4, 300].into_iter().for_each(|block| rot(&cluster, 0, block));
        let done = |blocks: &[usize]| blocks.iter().map(|block| (*block, Ok(()))).collect();
        let repaired: Vec<_> = done(&[3, 4, 300]);
        assert_eq!(pass(&cluster, 0), repaired, "seed {seed}");
        assert_eq!(pass(&cluster, 0), Vec::new(), "seed {seed}: from the log it is good again");
        to_capacity(&cluster);
        assert_eq!(pass(&cluster, 0), Vec::new(), "seed {seed}: on capacity too");
        cluster.verify();
    }
}

#[test]
fn what_rotted_everywhere_stays_bad_and_nothing_is_made_up() {
    let cluster = at_rest(4, 0);
    (0..3).for_each(|at| rot(&cluster, at, 80));
    rot(&cluster, 1, 5);
    for at in 0..3 {
        let mut expected = vec![(80, Err(ObjectError::Io))];
        if at == 1 {
            expected.insert(0, (5, Ok(())));
        }
        assert_eq!(pass(&cluster, at), expected);
    }
    to_capacity(&cluster);
    for at in 0..3 {
        let group = cluster.hosts[at].group.borrow().clone().expect("it is up");
        let read = cluster.on(at, HOUR, async move {
            (group.read(component(at), Oracle::range(80)).await.map(drop), {
                group.read(component(at), Oracle::range(5)).await.map(drop)
            })
        });
        let (lost, good) = read.expect("reads end");
        assert!(matches!(lost, Err(GroupError::BadCrc { .. })), "host {at}: {lost:?}");
        assert!(good.is_ok(), "host {at}: {good:?}");
    }
}

#[test]
fn a_wrong_complaint_changes_nothing() {
    let cluster = at_rest(5, 0);
    let objects = cluster.objects(1).expect("it is up");
    let all = base::SectorRange::new(0, BLOCKS as u64 * 8);
    let asked = cluster.on(1, HOUR, async move {
        let first = Oracle::range(3);
        let beyond = base::SectorRange::new(all.end(), BLOCK_SIZE / 512);
        [
            objects.repair(OBJECT, component(1), first).await,
            // Never written: its other copies read as zeros.
            objects.repair(OBJECT, component(1), Oracle::range(500)).await,
            // Somebody else's, one that nobody has, and a range that no object has.
            objects.repair(OBJECT, component(2), first).await,
            objects.repair(OBJECT, ComponentId(9), first).await,
            objects.repair(OBJECT, component(1), beyond).await,
            objects.repair(base::ObjectId(5), component(1), first).await,
        ]
    });
    use ObjectError::{Inaccessible, Io, NotOwner};
    let no = [Err(Inaccessible), Err(Inaccessible), Err(Io), Err(NotOwner)];
    assert_eq!(asked.expect("answered"), [[Ok(()); 2].as_slice(), &no].concat().as_slice());
    to_capacity(&cluster);
    cluster.verify();
}

/// Complaints about everything while clients write: a repair never overwrites what is newer.
fn repairs_beside_clients(seed: u64, mutations: Mutations) {
    let cluster = at_rest_with(seed, 0, mutations);
    (0..3).for_each(|at| cluster.clients(at, 2, Duration::from_secs(4)));
    for at in 0..3 {
        let objects = cluster.objects(at).expect("it is up");
        let env = cluster.world.env(cluster.hosts[at].key).expect("it is up");
        let task = env.spawn("complaints", async move {
            for block in (0..12).cycle().take(800) {
                let _ = objects.repair(OBJECT, component(at), Oracle::range(block)).await;
            }
        });
        std::mem::forget(task);
    }
    cluster.run(6.0);
    assert!(cluster.oracle.borrow().writes > 100, "seed {seed}: clients got nowhere");
    cluster.verify();
}

#[test]
fn repairs_beside_clients_lose_nothing() {
    (10..14).for_each(|seed| repairs_beside_clients(seed, Mutations::default()));
    let unlocked = Mutations { repair_without_lock: true, ..Mutations::default() };
    let is_noticed = |seed| {
        let run = std::panic::AssertUnwindSafe(|| repairs_beside_clients(seed, unlocked));
        std::panic::catch_unwind(run).is_err()
    };
    assert!((10..14).any(is_noticed), "repairs without a lock lose nothing");
}
