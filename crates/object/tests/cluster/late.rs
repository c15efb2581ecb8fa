// SPDX-License-Identifier: Apache-2.0
//! Writes of a host that died, on their way to the owner over a link that is slow but alive (the
//! storm campaign's seed 198; rules 43 to 46, docs/protocol.md#not-guaranteed).

use crate::cluster::{Cluster, OBJECT, record_on};
use crate::oracle::Oracle;
use base::{ComponentId, Seat, WriterEpoch};
use env::Env;
use object::{Mutations, ObjectError, Objects};
use std::time::Duration;

const OWNER: usize = 0;
const COPY: usize = 1;
const CLIENT: usize = 2;
const BLOCK: usize = 7;
/// Less than the time after which an idle link is pinged: the reset with which the dead run's
/// machine answers would overtake the frame.
const TRAVEL: Duration = Duration::from_millis(450);

async fn write(env: Env, objects: Objects, value: u64) -> Result<(), ObjectError> {
    let (range, bytes) = (Oracle::range(BLOCK), Oracle::content(BLOCK, value));
    let mut buf = env.buf(bytes.len());
    buf.copy_from_slice(&bytes);
    let payload = buf.freeze();
    let crcs = wire::crcs_of(range, &payload);
    let request = objects.begin_write(OBJECT, WriterEpoch::ANY).await;
    objects.write(OBJECT, &request, range, wire::WriteKind::Data, crcs, payload).await
}

/// Writes `value` through a host until that is acknowledged.
fn put(cluster: &Cluster, at: usize, value: u64) {
    let (env, objects) =
        (cluster.world.env(cluster.hosts[at].key).unwrap(), cluster.objects(at).unwrap());
    let done = cluster.on(at, Duration::from_secs(20), async move {
        while write(env.clone(), objects.clone(), value).await.is_err() {
            let _ = objects.acquire(OBJECT).await;
        }
    });
    assert!(done.is_some(), "write {value} is acknowledged");
}

/// What a read through a host returns.
fn get(cluster: &Cluster, at: usize) -> u64 {
    let objects = cluster.objects(at).unwrap();
    let found = cluster.on(at, Duration::from_secs(20), async move {
        loop {
            if let Ok(data) = objects.read(OBJECT, Oracle::range(BLOCK)).await {
                return data.payload.to_vec();
            }
            let _ = objects.acquire(OBJECT).await;
        }
    });
    let found = found.expect("read in time");
    (0..10).find(|value| Oracle::content(BLOCK, *value) == found).expect("one of the writes")
}

/// An owner with clients of its own; write 2 of another host, which is dead by now, is on its way
/// and arrives after [`TRAVEL`]. Write 1 is acknowledged.
fn with_a_write_on_its_way(seed: u64) -> Cluster {
    let cluster = Cluster::new(seed, Mutations::default());
    cluster.create_as(record_on(&[1, 2]));
    cluster.objects(OWNER).unwrap().set_attached(OBJECT, true);
    put(&cluster, OWNER, 1);
    assert_eq!(cluster.owner(), Some(OWNER));
    assert_eq!(get(&cluster, CLIENT), 1, "the other host knows the way to the owner");

    cluster.world.clog(cluster.hosts[CLIENT].key, cluster.hosts[OWNER].key, TRAVEL);
    let env = cluster.world.env(cluster.hosts[CLIENT].key).unwrap();
    let objects = cluster.objects(CLIENT).unwrap();
    std::mem::forget(env.spawn("late", {
        let env = env.clone();
        async move { assert!(write(env, objects, 2).await.is_err(), "nobody is there for it") }
    }));
    cluster.run(0.01);
    cluster.kill(CLIENT);
    cluster
}

#[test]
fn a_dead_hosts_write_may_land_late_and_stays_once_it_was_read() {
    for seed in 0..5 {
        let cluster = with_a_write_on_its_way(seed);
        put(&cluster, OWNER, 3);
        assert_eq!(get(&cluster, OWNER), 3);
        cluster.run(2.0);
        // Nobody waits for it and nobody came after it: that is allowed
        // (docs/protocol.md#not-guaranteed).
        assert_eq!(get(&cluster, OWNER), 2, "seed {seed}: the frame was followed to its end");
        cluster.run(2.0);
        assert_eq!(get(&cluster, OWNER), 2, "seed {seed}: it stays");
        put(&cluster, OWNER, 4);
        cluster.run(2.0);
        assert_eq!(get(&cluster, OWNER), 4, "seed {seed}: once");
    }
}

#[test]
fn once_its_host_is_back_a_dead_runs_write_cannot_land() {
    for seed in 0..5 {
        let cluster = with_a_write_on_its_way(seed);
        let sent_at = cluster.world.now();
        // New links are fast; what is on its way on the old one stays there.
        cluster.world.heal_all();
        cluster.boot(CLIENT);
        let up = || cluster.objects(CLIENT).is_some();
        assert!(cluster.world.run_until(Duration::from_secs(5), up), "it is back");
        assert_eq!(get(&cluster, CLIENT), 1, "seed {seed}");
        let is_early = cluster.world.now().since(sent_at) < TRAVEL - Duration::from_millis(20);
        assert!(is_early, "seed {seed}: the new run was served before the frame can be there");
        put(&cluster, OWNER, 3);
        cluster.run(4.0);
        assert_eq!(get(&cluster, CLIENT), 3, "seed {seed}: rule 45");
        assert_eq!(get(&cluster, OWNER), 3, "seed {seed}: rule 45");
    }
}

/// The last write of an idle object: what says that it is complete is lost with its link, and the
/// session outlives that. A copy that does not hear of it keeps the write in its log for ever.
#[test]
fn a_copy_hears_of_the_last_write_although_its_link_was_cut() {
    for seed in 0..5 {
        let cluster = Cluster::new(seed, Mutations::default());
        cluster.create_as(record_on(&[1, 2]));
        cluster.objects(OWNER).unwrap().set_attached(OBJECT, true);
        put(&cluster, OWNER, 1);
        cluster.run(1.0);
        put(&cluster, OWNER, 2);
        let has_heard = || {
            let group = cluster.hosts[COPY].group.borrow().clone().expect("open");
            let info = group.component(ComponentId(102)).expect("it has one");
            info.commit == info.durable
        };
        assert!(!has_heard(), "seed {seed}: the next frame tells it, or the next turn");
        cluster.isolate(COPY, false, true);
        cluster.run(4.0);
        assert!(!has_heard(), "seed {seed}: the link is cut");
        cluster.isolate(COPY, false, false);
        cluster.run(4.0);
        assert!(has_heard(), "seed {seed}");
        assert_eq!(cluster.record().components[COPY].seat, Seat(1), "seed {seed}: it never left");
    }
}
