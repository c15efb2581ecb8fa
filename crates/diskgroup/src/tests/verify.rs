// SPDX-License-Identifier: Apache-2.0
//! Scrub of what lies on capacity: it finds what rotted, all of it, and calls nothing else bad.

use super::campaign::Case;
use super::scenarios::{Host, ONE, fresh, fresh_tiny, write, write_to};
use super::*;
use crate::BadCause;
use crate::keys::chunk_key;
use base::Set;
use sim::DiskFault;
use std::cell::Cell;

const TWO: ComponentId = ComponentId(2);
/// Whole blocks of the component.
const BLOCKS: u64 = SECTORS / 8;

/// Everything on capacity: blocks compared, and those that are bad with the reason.
async fn pass(group: &DiskGroup) -> (u64, Vec<(u64, BadCause)>) {
    let (mut blocks, mut bad, mut from) = (0, Vec::new(), Some(0));
    while let Some(at) = from {
        let verified = group.verify(ONE, at).await.expect("a component");
        assert!(verified.blocks <= 32, "more than one step: {verified:?}");
        for found in verified.bad {
            let within = verified.range.is_some_and(|range| range.contains(found.range));
            assert!(within, "{found:?} is not in {:?}", verified.range);
            bad.extend(found.range.blocks().map(|block| (block, found.cause)));
        }
        blocks += verified.blocks;
        assert!(verified.next.is_none_or(|next| next > at), "scrub stands still at {at}");
        from = verified.next;
    }
    (blocks, bad)
}

/// Where a block of the component lies on its capacity device.
fn place(group: &DiskGroup, block: u64) -> u64 {
    let inner = group.shared();
    let state = inner.state.borrow();
    let serial = state.store.components.serial(ONE).expect("a component");
    let chunk = state.store.base(chunk_key(serial, block / 256)).expect("it is on capacity");
    inner.devices[0].layout.chunk_start + u64::from(chunk) * (1 << 20) + block % 256 * 4096
}

async fn to_capacity(env: &Env, group: &DiskGroup, lsn: u64) {
    group.advance_commit(ONE, Lsn::new(Term(1), lsn));
    group.drain_buffer(true);
    while group.status().buffer_fill > 0.0 {
        env.sleep(Duration::from_millis(10)).await;
    }
    group.drain_buffer(false);
}

/// Some blocks on capacity, some of them newer in the log, some of them rotten.
async fn found_exactly(env: Env, world: World, key: HostKey, seed: u64) {
    let mut rng = Rng::new(seed);
    let group = fresh(&env).await;
    let (mut lsn, mut stored) = (0, Set::new());
    for _ in 0..rng.between(1, 300) {
        let block = if rng.below(2) == 0 { rng.below(40) } else { rng.below(BLOCKS) };
        let count = rng.between(1, 7).min(BLOCKS - block).min(256 - block % 256);
        lsn += 1;
        write(&env, &group, lsn, block * 8, count * 8).await.expect("a write");
        group.advance_commit(ONE, Lsn::new(Term(1), lsn));
        stored.extend(block..block + count);
    }
    to_capacity(&env, &group, lsn).await;
    assert_eq!(pass(&group).await, (stored.len() as u64, Vec::new()), "seed {seed}");

    // What the log holds whole is not looked at; what it holds in parts is, for the rest of it.
    let all: Vec<u64> = stored.iter().copied().collect();
    for _ in 0..rng.below(20) {
        let block = all[rng.below(all.len() as u64) as usize];
        let is_whole = rng.below(2) == 0;
        lsn += 1;
        let (start, count) = if is_whole { (block * 8, 8) } else { (block * 8 + 2, 3) };
        write(&env, &group, lsn, start, count).await.expect("a write");
        if is_whole {
            stored.remove(&block);
        }
    }
    let mut rotten: Vec<(u64, BadCause)> = Vec::new();
    for block in &stored {
        let at = place(&group, *block);
        match rng.below(20) {
            0 => {
                world.flip_bits(key, "capacity0", at + rng.below(4096), 1);
                rotten.push((*block, BadCause::Checksum));
            }
            1 => {
                let bad = DiskFault::BadRange { offset: at + rng.below(8) * 512, len: 512 };
                world.disk_error(key, "capacity0", bad);
                rotten.push((*block, BadCause::Unreadable));
            }
            _ => {}
        }
    }
    assert_eq!(pass(&group).await, (stored.len() as u64, rotten.clone()), "seed {seed}");
    let mismatches = rotten.iter().filter(|(_, cause)| *cause == BadCause::Checksum).count();
    assert_eq!(group.status().bad_blocks, mismatches as u64, "seed {seed}");
    assert_eq!(group.status().fenced, None, "seed {seed}");

    // Written whole, as a repair does it, they are good again.
    for (block, _) in &rotten {
        lsn += 1;
        write(&env, &group, lsn, block * 8, 8).await.expect("a repair");
    }
    assert_eq!(pass(&group).await.1, Vec::new(), "seed {seed}");
    to_capacity(&env, &group, lsn).await;
    assert_eq!(pass(&group).await, (all.len() as u64, Vec::new()), "seed {seed}");
}

#[test]
fn what_rots_is_found_and_nothing_else() {
    for seed in 0..25 {
        let host = Host::new(seed);
        let (world, key) = (host.world.clone(), host.key);
        host.run(move |env| found_exactly(env, world, key, seed));
    }
}

#[test]
fn checksums_that_cannot_be_read_are_named_and_fence_nothing() {
    let host = Host::new(3);
    let (world, key) = (host.world.clone(), host.key);
    host.run(|env| async move {
        let group = fresh_tiny(&env, Mutations::default(), &[ONE, TWO]).await;
        // Three chunks share a page of checksums. What comes behind the checkpoint is in the next
        // page, and opening reads neither.
        for (lsn, chunk) in [(1, 0), (2, 1), (3, 2)] {
            write(&env, &group, lsn, chunk * 2048, 64).await.expect("a write");
        }
        to_capacity(&env, &group, 3).await;
        // Their half of the journal is closed; the next record has the checkpoint begin.
        group.shared().turn(0).await.expect("the other half");
        write_to(&env, &group, TWO, 1, 0, 64).await.expect("a write");
        group.advance_commit(TWO, Lsn::new(Term(1), 1));
        to_capacity(&env, &group, 3).await;
        while group.shared().state.borrow().store.capacity[0].journal.has_closed {
            env.sleep(Duration::from_millis(1)).await;
        }
        group.close().await;
    });
    host.run(move |env| async move {
        let group = super::scenarios::open(&env).await.expect("it opens");
        let layout = group.shared().devices[0].layout;
        let len = layout.chunk_start - layout.crc_start;
        let bad = DiskFault::BadRange { offset: layout.crc_start, len };
        world.disk_error(key, "capacity0", bad);
        let (_, bad) = pass(&group).await;
        assert!(bad.iter().any(|(block, cause)| (*block, *cause) == (0, BadCause::Metadata)));
        assert_eq!(group.status().fenced, None);
    });
}

/// A few blocks are written, destaged and verified all the time, on devices that are slow now and
/// then; whether any was called bad.
fn called_bad(seed: u64, mutations: Mutations) -> bool {
    let mut options = WorldOptions { seed, ..WorldOptions::default() };
    (options.disk.tail_ppm, options.disk.tail_factor) = (50_000, 60);
    let world = World::new(options);
    let key = world.add_host("host", IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
    let host = Host { world, key };
    let bad = Rc::new(Cell::new(false));
    let found = Rc::clone(&bad);
    host.run(move |env| async move {
        let group = fresh_tiny(&env, mutations, &[ONE]).await;
        group.drain_buffer(true);
        let writer = {
            let (env, group) = (env.clone(), group.clone());
            async move {
                let mut rng = Rng::new(seed);
                for lsn in 1..=400 {
                    write(&env, &group, lsn, rng.below(4) * 8, 8).await.expect("a write");
                    group.advance_commit(ONE, Lsn::new(Term(1), lsn));
                    env.sleep(Duration::from_micros(rng.below(1000))).await;
                }
            }
        };
        let writer = env.spawn("writer", writer);
        while !writer.is_finished() {
            found.set(found.get() | !pass(&group).await.1.is_empty());
            env.sleep(Duration::from_micros(5)).await;
        }
    });
    bad.get()
}

#[test]
fn a_look_that_destage_overtakes_calls_nothing_bad() {
    for seed in 0..15 {
        assert!(!called_bad(seed, Mutations::default()), "seed {seed}");
    }
    let once = Mutations { single_look: true, ..Mutations::default() };
    assert!((0..15).any(|seed| called_bad(seed, once)), "no look was overtaken");
}

#[test]
fn nothing_good_is_called_bad_beside_any_load() {
    let mut verified = 0;
    for seed in seeds() {
        let case = Case::new(seed, Mutations::default()).scrubbed().run();
        verified += case.signs.verified.get();
    }
    assert!(verified > 1000 || asked("DISKGROUP_SEEDS").is_some(), "{verified} blocks verified");
}
