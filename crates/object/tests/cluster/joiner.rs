// SPDX-License-Identifier: Apache-2.0
//! A component that comes back slower than the clients write: the resync ends all the same, and
//! the owner keeps next to nothing for it meanwhile.

use crate::cluster::{Cluster, HOSTS, OBJECT, record};
use base::{CHUNK_SECTORS, ComponentId, Rng, SectorRange, WriterEpoch};
use directory::{ComponentState, ObjectRecord};
use env::Env;
use object::{Mutations, ObjectError, Objects};
use sim::DiskFault;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// The object: the oracle's blocks in its first three chunks, the load behind them.
const CHUNKS: u64 = 48;
const LOAD_FROM: u64 = 3;
/// Writes of the load under way at a time.
const DEPTH: usize = 16;
const MIB: u64 = 1 << 20;
/// The devices' latency and time per byte are this many times those of fast flash.
const SLOW: u64 = 8;
/// Client writes under way for two copies, the window of the joiner and its copies.
const KEPT_MAX: u64 = 2 * (DEPTH as u64) * MIB + 8 * MIB;

/// What a load did.
#[derive(Default)]
struct Counts {
    bytes: Cell<u64>,
    writes: Cell<u64>,
    longest: Cell<Duration>,
    is_over: Cell<bool>,
}

fn large(hosts: &[u32]) -> ObjectRecord {
    let mut record = crate::cluster::record_on(hosts);
    record.sectors = CHUNKS * CHUNK_SECTORS;
    record
}

/// Random writes of up to 1 MiB, as many as fit under way.
fn load(cluster: &Cluster, kib_max: u64) -> Rc<Counts> {
    load_of(cluster, DEPTH, move |rng, _| {
        let chunk = rng.between(LOAD_FROM, CHUNKS - 1);
        let sectors = (8 << rng.below(9)).min(kib_max * 2);
        let start = rng.below((CHUNK_SECTORS - sectors) / 8 + 1) * 8;
        SectorRange::new(chunk * CHUNK_SECTORS + start, sectors)
    })
}

/// So many writers on the first host, each with one write under way where `pick` says for it.
fn load_of(
    cluster: &Cluster,
    writers: usize,
    pick: impl Fn(&mut Rng, u64) -> SectorRange + Copy + 'static,
) -> Rc<Counts> {
    let counts: Rc<Counts> = Rc::default();
    let env = cluster.world.env(cluster.hosts[0].key).expect("it runs");
    let objects = cluster.objects(0).expect("it runs");
    objects.set_attached(OBJECT, true);
    for writer in 0..writers as u64 {
        let (env2, objects, counts) = (env.clone(), objects.clone(), Rc::clone(&counts));
        let mut rng = Rng::new(env.random());
        let task = env.spawn("load", async move {
            while !counts.is_over.get() {
                let range = pick(&mut rng, writer);
                let begun = env2.now();
                write(&env2, &objects, range, rng.next_u64()).await;
                counts.longest.set(counts.longest.get().max(env2.now().since(begun)));
                counts.bytes.set(counts.bytes.get() + range.bytes());
                counts.writes.set(counts.writes.get() + 1);
            }
        });
        std::mem::forget(task);
    }
    counts
}

async fn write(env: &Env, objects: &Objects, range: SectorRange, salt: u64) {
    let mut buf = env.buf(range.bytes() as usize);
    for (at, eight) in buf.chunks_mut(8).enumerate() {
        eight.copy_from_slice(&(salt ^ at as u64).to_le_bytes()[..eight.len()]);
    }
    let payload = buf.freeze();
    let crcs = wire::crcs_of(range, &payload);
    let request = objects.begin_write(OBJECT, WriterEpoch::ANY).await;
    loop {
        let (kind, crcs, payload) = (wire::WriteKind::Data, crcs.clone(), payload.clone());
        match objects.write(OBJECT, &request, range, kind, crcs, payload).await {
            Ok(()) => return,
            Err(ObjectError::NotOwner | ObjectError::Inaccessible) => {
                env.sleep(Duration::from_millis(20)).await;
                let _ = objects.acquire(OBJECT).await;
            }
            Err(error) => panic!("a write failed: {error}"),
        }
    }
}

fn state_of(cluster: &Cluster, at: usize) -> Option<ComponentState> {
    let status = cluster.objects(0)?.status(OBJECT)?;
    Some(status.components.get(at)?.state)
}

/// A cluster whose third host went away under a load, which goes on.
fn away(seed: u64, kib_max: u64) -> (Cluster, Rc<Counts>) {
    let cluster = Cluster::new(seed, Mutations::default());
    cluster.create_as(large(&[1, 2, 3]));
    cluster.clients(0, 2, Duration::from_secs(3600));
    cluster.run(1.0);
    cluster.kill(2);
    // Slow ones, so that a virtual minute is not too much work.
    for host in &cluster.hosts[..2] {
        cluster.world.disk_error(host.key, "cache", DiskFault::Slow(SLOW));
    }
    let counts = load(&cluster, kib_max);
    cluster.run(5.0);
    assert_eq!(state_of(&cluster, 2), Some(ComponentState::Absent));
    (cluster, counts)
}

/// The third host was away and comes back under load; `hinder` makes it slow, again and again.
fn joins(seed: u64, kib_max: u64, minutes: u64, mut hinder: impl FnMut(&Cluster, u64)) {
    let (cluster, counts) = away(seed, kib_max);
    cluster.boot(2);
    let (mut kept, mut waited) = (0, 0);
    let mut is_whole = false;
    for tick in 0..minutes * 600 {
        hinder(&cluster, tick);
        cluster.run(0.1);
        let objects = cluster.objects(0).expect("it runs");
        kept = kept.max(objects.unanswered_bytes(OBJECT));
        let peers = cluster.hosts[0].peers.borrow().clone().expect("it runs");
        waited = waited.max(peers.stats().waiting_bytes_peak);
        is_whole = state_of(&cluster, 2) == Some(ComponentState::Active);
        if is_whole {
            break;
        }
    }
    let longest = counts.longest.get();
    assert!(is_whole, "seed {seed}: the resync does not end under load");
    let mib = counts.bytes.get() / MIB;
    println!("seed {seed}: {mib} MiB written, {kept} and {waited} bytes kept, {longest:?} at most");
    assert!(kept <= KEPT_MAX && waited <= KEPT_MAX, "seed {seed}: {kept} and {waited} bytes kept");
    assert!(longest < Duration::from_secs(20), "seed {seed}: a write took {longest:?}");
    counts.is_over.set(true);
    cluster.stop.set(true);
    for host in &cluster.hosts {
        cluster.world.disk_error(host.key, "cache", DiskFault::Clear);
    }
    cluster.run(20.0);
    cluster.verify();
    equal(&cluster);
}

/// All components hold the same, everywhere.
fn equal(cluster: &Cluster) {
    let content = |at: usize| {
        let group = cluster.hosts[at].group.borrow().clone().expect("host is up");
        let id = ComponentId(100 + at as u64 + 1);
        let read = cluster.on(at, Duration::from_secs(60), async move {
            let mut sums = Vec::new();
            for chunk in 0..CHUNKS {
                let range = SectorRange::new(chunk * CHUNK_SECTORS, CHUNK_SECTORS);
                sums.push(group.read(id, range).await.expect("readable").crcs);
            }
            sums
        });
        read.expect("read in time")
    };
    let first = content(0);
    for at in 1..HOSTS {
        assert!(first == content(at), "seed {}: host {at} differs", cluster.world.seed());
    }
    assert_eq!(record().components.len(), HOSTS);
}

#[test]
fn a_joiner_far_slower_than_the_load_is_brought_back_in_little_memory() {
    for (seed, kib_max) in [(1, 1024), (2, 4)] {
        joins(seed, kib_max, 20, |cluster, tick| {
            if tick == 0 {
                let host = cluster.hosts[2].key;
                cluster.world.disk_error(host, "cache", DiskFault::Slow(SLOW * 10));
            }
        });
    }
}

#[test]
fn blocks_here_and_there_do_not_wait_for_a_slow_host_a_few_at_a_time() {
    let (cluster, counts) = away(4, 4);
    counts.is_over.set(true);
    cluster.boot(2);
    let host = cluster.hosts[2].key;
    cluster.world.disk_error(host, "cache", DiskFault::Slow(SLOW * 100));
    tenths_until(&cluster, ComponentState::Resyncing);
    let tenths = tenths_until(&cluster, ComponentState::Active);
    // 32 s for the bytes; 46 with four at a time.
    assert!(tenths < 400, "{tenths} tenths of a second: each waits for the device's latency");
}

#[test]
fn a_joiner_that_stands_still_most_of_the_time_is_brought_back_too() {
    joins(3, 256, 20, |cluster, tick| {
        if tick % 10 == 0 {
            cluster.world.pause(cluster.hosts[2].key, Duration::from_millis(900));
        }
    });
}

/// Tenths of a second until the third host's component is in `state`.
fn tenths_until(cluster: &Cluster, state: ComponentState) -> u64 {
    let reached = (0..6000).find(|_| {
        cluster.run(0.1);
        state_of(cluster, 2) == Some(state)
    });
    reached.expect("it comes back")
}

#[test]
fn short_copies_under_load_are_not_kept_to_the_rate_of_long_ones() {
    let (cluster, counts) = away(6, 4);
    let blocks = counts.writes.get();
    cluster.boot(2);
    tenths_until(&cluster, ComponentState::Resyncing);
    let tenths = tenths_until(&cluster, ComponentState::Active);
    println!("{blocks} blocks were written meanwhile, {tenths} tenths of a second");
    // 31; 63 with a rest of a millisecond before each.
    assert!(tenths < 45, "{tenths} tenths of a second: each short copy rests as a long one does");
}

#[test]
fn a_crowd_of_large_writes_waits_in_line_for_a_slow_host() {
    let (cluster, counts) = away(5, 1024);
    counts.is_over.set(true);
    cluster.run(1.0);
    cluster.boot(2);
    let host = cluster.hosts[2].key;
    cluster.world.disk_error(host, "cache", DiskFault::Slow(SLOW * 10));
    // Each its own chunk, so that nothing but the slow host holds them up.
    let counts = load_of(&cluster, 32, |_, writer| {
        SectorRange::new((LOAD_FROM + writer) * CHUNK_SECTORS, CHUNK_SECTORS)
    });
    let mut waiting = 0;
    while state_of(&cluster, 2) != Some(ComponentState::Active) {
        cluster.run(0.1);
        assert!(cluster.world.now() < base::Instant(600_000_000_000), "the resync ends");
        let status = cluster.objects(0).and_then(|objects| objects.status(OBJECT));
        waiting = waiting.max(status.map_or(0, |status| status.components[2].writes_waiting));
    }
    let longest = counts.longest.get();
    println!("{waiting} waited at a time, {longest:?} at most");
    assert!(waiting > 8, "nobody is seen to wait");
    // 16 MiB of the object under way, at the pace of the slow host.
    assert!(longest < Duration::from_secs(8), "a write took {longest:?}");
}
