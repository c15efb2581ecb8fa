// SPDX-License-Identifier: Apache-2.0
//! A hybrid group on real files: what a miss, a hit and a read after a restart take, and that each
//! brings what was written. `cargo run --release -p diskgroup --example warm -- FOLDER`

use base::{ComponentId, GroupId, Lsn, ObjectId, SectorRange, Term};
use diskgroup::{
    Append, AppendKind, CreateSizes, DiskGroup, GroupKind, GroupOptions, GroupShape, GroupSpec,
};
use env::{Env, Fifo};
use std::time::Duration;

const ID: ComponentId = ComponentId(1);
/// Of 64 KiB each.
const WRITES: u64 = 1600;
const MIB: u64 = 1 << 20;

fn main() {
    let folder = std::env::args().nth(1).expect("a folder");
    let driver = ring::RingDriver::new().expect("a ring");
    let env = Env::new(Box::new(driver), Box::new(Fifo));
    let inner = env.clone();
    env.run(async move { measure(inner, folder).await });
    env.stop();
}

async fn measure(env: Env, folder: String) {
    let (cache, capacity) = (format!("{folder}/cache"), vec![format!("{folder}/capacity")]);
    let spec = GroupSpec { cache, capacity };
    let sizes = CreateSizes { cache: 256 * MIB, capacity: 512 * MIB };
    let shape = GroupShape { kind: GroupKind::HYBRID, segment_size: MIB };
    let made = DiskGroup::format_with(&env, &spec, Some(sizes), true, GroupId(1), shape);
    made.await.expect("a group");
    let group = open(&env, &spec).await;
    let sectors = WRITES * 128;
    group.create_component(ID, ObjectId(1), sectors).await.expect("a component");
    for number in 0..WRITES {
        write(&env, &group, number).await;
    }
    group.drain_buffer(true);
    while group.status().buffer_fill > 0.0 {
        env.sleep(Duration::from_millis(20)).await;
    }
    group.drain_buffer(false);
    for round in ["cold", "warm"] {
        reads(&env, &group, round).await;
    }
    group.close().await;
    drop(group);
    let group = open(&env, &spec).await;
    while !group.status().read_cache.is_loaded {
        env.sleep(Duration::from_millis(1)).await;
    }
    reads(&env, &group, "after a restart").await;
    println!("{:?}", group.audit_lines().await.expect("lines are what capacity is"));
    group.close().await;
}

async fn open(env: &Env, spec: &GroupSpec) -> DiskGroup {
    env.sleep(Duration::from_millis(100)).await; // until the devices are closed
    DiskGroup::open(env, spec, GroupOptions::default()).await.expect("a group")
}

/// Where writes go, so that neighbours come at different times.
fn place(number: u64) -> u64 {
    number * 617 % WRITES
}

async fn write(env: &Env, group: &DiskGroup, number: u64) {
    let (range, lsn) = (SectorRange::new(place(number) * 128, 128), Lsn::new(Term(1), number + 1));
    let mut buf = env.buf(64 << 10);
    buf.fill((place(number) % 251) as u8 + 1);
    let payload = buf.freeze();
    let crcs = wire::crcs_of(range, &payload);
    let (component, term, kind, crcs, marks) = (ID, Term(1), AppendKind::Data, &crcs[..], &[][..]);
    let append = Append { component, lsn, term, range, kind, crcs, payload, marks };
    group.append(append).await.expect("an append");
    group.advance_commit(ID, lsn);
}

/// Blocks all over the place, the same ones in each round.
async fn reads(env: &Env, group: &DiskGroup, round: &str) {
    let before = group.status().read_cache;
    let mut times = Vec::new();
    for number in 0..1500 {
        let block = number * 7919 % (WRITES * 16);
        let start = env.now();
        let read = group.read(ID, SectorRange::new(block * 8, 8)).await.expect("a read");
        times.push(env.now().since(start));
        let expected = (block / 16 % 251) as u8 + 1;
        assert!(read.payload.iter().all(|byte| *byte == expected), "block {block}");
    }
    env.sleep(Duration::from_millis(1500)).await; // fills and headers
    times.sort_unstable();
    let now = group.status().read_cache;
    let (hits, misses) = (now.hits - before.hits, now.misses - before.misses);
    println!("{round}: {hits} hits, {misses} misses, p50 {:?}, {now:?}", times[times.len() / 2]);
}
