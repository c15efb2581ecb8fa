// SPDX-License-Identifier: Apache-2.0
//! What simulated disks keep, after crashes, kills and faults.

use super::{PATH, any_world, filled, finish, hosts, is_all, is_loose, open, world};
use crate::{DiskFault, DiskModel, HostKey, World, WorldOptions};
use base::Rng;
use env::{Disk, Durability, Env, IoError, OpenDisk};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// Writes blocks of 4 KiB: 16 that are flushed, 8 that are cached, and 1 that is still under way.
/// Then the power goes, or only the process.
fn after_the_end(seed: u64, is_crash: bool) -> (World, Vec<Vec<u8>>) {
    let world = any_world(seed);
    let host = hosts(&world, 1)[0];
    finish(&world, host, |env| async move {
        let disk = open(&env).await;
        for block in 0..16 {
            let (durability, offset) = match block % 2 {
                0 => (Durability::Durable, block * 4096),
                _ => (Durability::Cached, block * 4096),
            };
            disk.write(offset, filled(&env, 4096, 1), durability).await.expect("a write");
        }
        disk.flush().await.expect("a flush");
        for block in 16..24 {
            disk.write(block * 4096, filled(&env, 4096, 2), Durability::Cached).await.expect("ok");
        }
        drop(disk.write(24 * 4096, filled(&env, 4096, 3), Durability::Durable));
    });
    if is_crash {
        world.crash(host)
    } else {
        world.kill(host)
    }
    assert!(!world.is_up(host));
    let blocks = (0..25).map(|b| world.read_raw(host, PATH, b * 4096, 4096)).collect();
    (world, blocks)
}

#[test]
fn a_crash_keeps_what_was_flushed_and_each_fate_of_the_rest_occurs() {
    let (mut kept, mut lost, mut torn, mut half) = (0, 0, 0, [0; 3]);
    for seed in 0..60 {
        let (world, blocks) = after_the_end(seed, true);
        for (at, block) in blocks.iter().enumerate() {
            for sector in block.chunks(512) {
                assert!(sector.iter().all(|b| *b == sector[0]), "seed {seed}: a torn sector");
            }
            let fates = (is_all(block, 0), is_all(block, if at < 24 { 2 } else { 3 }));
            match (at, fates) {
                (0..16, _) => assert!(is_all(block, 1), "seed {seed}: flushed block {at} is gone"),
                (16..24, (true, _)) => lost += 1,
                (16..24, (_, true)) => kept += 1,
                (16..24, _) => torn += 1,
                (_, (true, _)) => half[0] += 1,
                (_, (_, true)) => half[1] += 1,
                _ => half[2] += 1,
            }
        }
        let stable = world.read_stable(HostKey(0), PATH, 0, 25 * 4096);
        assert_eq!(stable, blocks.concat(), "after a crash nothing is in a cache");
    }
    assert!(kept > 50 && lost > 50 && torn > 30, "kept {kept}, lost {lost}, torn {torn}");
    assert!(half.iter().all(|count| *count > 3), "unfinished writes: {half:?}");
}

#[test]
fn a_kill_keeps_what_completed() {
    let mut half = [0; 3];
    for seed in 0..60 {
        let (world, blocks) = after_the_end(seed, false);
        for (at, block) in blocks.iter().enumerate() {
            match at {
                0..16 => assert!(is_all(block, 1), "seed {seed}: block {at}"),
                16..24 => assert!(is_all(block, 2), "seed {seed}: block {at}"),
                _ if is_all(block, 0) => half[0] += 1,
                _ if is_all(block, 3) => half[1] += 1,
                _ => half[2] += 1,
            }
        }
        // The device's cache is still volatile, and the next process gets the lock.
        let host = HostKey(0);
        finish(&world, host, |env| async move {
            open(&env).await.flush().await.expect("a flush");
        });
        world.crash(host);
        let after = world.read_raw(host, PATH, 0, 25 * 4096);
        assert_eq!(after, blocks.concat(), "seed {seed}: a later flush covers them");
    }
    assert!(half.iter().all(|count| *count > 3), "unfinished writes: {half:?}");
}

#[test]
fn an_old_cached_write_never_replaces_a_newer_durable_one() {
    for seed in 0..60 {
        let world = any_world(seed);
        let host = hosts(&world, 1)[0];
        finish(&world, host, move |env| async move {
            let disk = open(&env).await;
            disk.write(0, filled(&env, 8192, 1), Durability::Cached).await.expect("a write");
            disk.discard(4096, 4096).await.expect("a discard");
            disk.write(512, filled(&env, 7680, 2), Durability::Durable).await.expect("a write");
            if seed % 2 == 0 {
                disk.flush().await.expect("a flush");
            }
        });
        world.crash(host);
        assert!(is_all(&world.read_raw(host, PATH, 512, 7680), 2), "seed {seed}");
    }
}

#[test]
fn failed_operations_say_so_and_a_failed_flush_vouches_for_nothing() {
    let mut lost = 0;
    for seed in 0..40 {
        let world = any_world(seed);
        let host = hosts(&world, 1)[0];
        let faults = world.clone();
        let device = Some(IoError::Device { errno: 5 });
        finish(&world, host, move |env| async move {
            let disk = open(&env).await;
            disk.write(0, filled(&env, 4096, 1), Durability::Durable).await.expect("a write");
            disk.write(8192, filled(&env, 4096, 7), Durability::Cached).await.expect("a write");
            faults.disk_error(host, PATH, DiskFault::FailFlush);
            assert_eq!(disk.flush().await.err(), device);
            faults.disk_error(host, PATH, DiskFault::Clear);
            disk.flush().await.expect("a flush that lies");
            faults.disk_error(host, PATH, DiskFault::FailWrites);
            let write = disk.write(16_384, filled(&env, 512, 1), Durability::Durable).await;
            assert_eq!(write.err(), device);
            faults.disk_error(host, PATH, DiskFault::Clear);
            faults.disk_error(host, PATH, DiskFault::BadRange { offset: 512, len: 512 });
            assert_eq!(disk.read(0, env.buf(4096)).await.err(), device);
            disk.read(1024, env.buf(512)).await.expect("the neighbour reads");
            disk.write(512, filled(&env, 512, 1), Durability::Durable).await.expect("a write");
            disk.read(0, env.buf(4096)).await.expect("rewritten means readable");
            faults.flip_bits(host, PATH, 100, 1);
            let read = disk.read(0, env.buf(512)).await.expect("rot is silent");
            assert_eq!(read.iter().filter(|b| **b != 1).count(), 1);
            faults.disk_error(host, PATH, DiskFault::Freeze(true));
            let frozen = env.timeout(Duration::from_secs(9), disk.read(0, env.buf(512))).await;
            assert!(frozen.is_err(), "a frozen device answers nothing");
            faults.disk_error(host, PATH, DiskFault::Clear);
            disk.read(0, env.buf(512)).await.expect("thawed");
        });
        world.crash(host);
        lost += usize::from(is_all(&world.read_raw(host, PATH, 8192, 4096), 0));
    }
    assert!(lost > 3, "what a failed flush covered was lost {lost} times");
}

#[test]
fn a_disk_that_is_given_up_holds_on_to_what_it_has_and_to_its_lock() {
    let world = world(8);
    let host = hosts(&world, 1)[0];
    let faults = world.clone();
    finish(&world, host, move |env| async move {
        let disk = open(&env).await;
        faults.disk_error(host, PATH, DiskFault::Freeze(true));
        let read = disk.read(0, env.buf(512));
        let write = disk.write(0, filled(&env, 4096, 9), Durability::Durable);
        let waited = env.timeout(Duration::from_secs(9), read).await;
        assert!(waited.is_err(), "a frozen device answers nothing");
        assert_eq!(disk.meter().in_flight(), 2, "also what nobody waits for any more");
        disk.give_up();
        assert_eq!(write.await.err(), Some(IoError::NoAnswer));
        assert_eq!(disk.flush().await.err(), Some(IoError::NoAnswer), "nothing new begins");
        assert_eq!(disk.meter().in_flight(), 2, "the device has them still");
        drop(disk);
        let busy = env.open_disk(OpenDisk { path: PATH.to_owned(), create: None }).await;
        assert_eq!(busy.err(), Some(IoError::Busy));
        faults.disk_error(host, PATH, DiskFault::Clear);
        env.sleep(Duration::from_secs(1)).await;
        let disk = env.open_disk(OpenDisk { path: PATH.to_owned(), create: None }).await;
        let disk = disk.expect("its operations have ended");
        let read = disk.read(0, env.buf(4096)).await.expect("a read");
        assert_eq!(read[..], filled(&env, 4096, 9)[..], "it happened all the same");
        disk.give_up();
        disk.give_up();
        assert_eq!(disk.read(0, env.buf(512)).await.err(), Some(IoError::NoAnswer));
    });
}

#[test]
fn a_flush_covers_only_what_completed_before_it() {
    let mut lost = 0;
    for seed in 0..60 {
        let world = any_world(seed);
        let host = hosts(&world, 1)[0];
        finish(&world, host, |env| async move {
            let disk = open(&env).await;
            disk.write(0, filled(&env, 4096, 1), Durability::Cached).await.expect("a write");
            let late = disk.write(4096, filled(&env, 4096, 2), Durability::Cached);
            disk.flush().await.expect("a flush");
            late.await.expect("a write");
        });
        world.crash(host);
        assert!(is_all(&world.read_raw(host, PATH, 0, 4096), 1), "seed {seed}: flushed");
        lost += usize::from(!is_all(&world.read_raw(host, PATH, 4096, 4096), 2));
    }
    assert!(lost > 10, "a write beside a flush was lost {lost} times");
}

#[test]
fn silent_faults_are_silent() {
    let world = world(5);
    let host = hosts(&world, 1)[0];
    let faults = world.clone();
    finish(&world, host, move |env| async move {
        let disk = open(&env).await;
        faults.disk_error(host, PATH, DiskFault::LoseNextWrite);
        disk.write(0, filled(&env, 4096, 1), Durability::Durable).await.expect("a lie");
        disk.write(4096, filled(&env, 4096, 2), Durability::Durable).await.expect("a write");
        faults.disk_error(host, PATH, DiskFault::MisdirectNextWrite { offset: 12_288 });
        disk.write(8192, filled(&env, 4096, 3), Durability::Durable).await.expect("a lie");
        let back = disk.read(0, env.buf(16_384)).await.expect("a read");
        let bytes: Vec<u8> = back.chunks(4096).map(|block| block[0]).collect();
        assert_eq!(bytes, [0, 2, 0, 3]);
    });
}

#[test]
fn space_is_limited_and_a_full_cache_spills() {
    let disk = DiskModel { disk_space: Some(3 << 19), cache_bytes: 8192, ..DiskModel::default() };
    let world = World::new(WorldOptions { disk, ..WorldOptions::default() });
    let host = hosts(&world, 1)[0];
    finish(&world, host, |env| async move {
        let disk = open(&env).await;
        let other = env::OpenDisk { path: "other".to_owned(), create: Some(1 << 20) };
        assert_eq!(env.open_disk(other).await.err(), Some(IoError::NoSpace));
        for block in 0..16 {
            disk.write(block * 4096, filled(&env, 4096, 9), Durability::Cached).await.expect("ok");
        }
    });
    let stable = world.read_stable(host, PATH, 0, 16 * 4096);
    let spilled = stable.iter().filter(|byte| **byte == 9).count() / 4096;
    assert!((8..16).contains(&spilled), "{spilled} blocks of 16 left the cache");
}

/// How often the power goes in a run of the oracle below.
const LIVES: u64 = 3;
/// Sectors that it writes to.
const SECTORS: usize = 64;

/// What a crash may leave in each sector. The last entry is what reads see now.
type Oracle = Rc<RefCell<Vec<Vec<u8>>>>;

async fn play(env: Env, disk: Disk, oracle: Oracle, seed: u64) {
    let mut rng = Rng::new(seed);
    for id in 1..=rng.between(1, 60) as u8 {
        let from = rng.below(SECTORS as u64) as usize;
        let count = rng.between(1, (SECTORS - from) as u64) as usize;
        let (offset, len) = (from as u64 * 512, count * 512);
        let durability = match rng.below(6) {
            0 => {
                disk.flush().await.expect("a flush");
                for allowed in oracle.borrow_mut().iter_mut() {
                    allowed.drain(..allowed.len() - 1);
                }
                continue;
            }
            1 => {
                let before = disk.read(offset, env.buf(len)).await.expect("a read");
                disk.discard(offset, len as u64).await.expect("a discard");
                let after = disk.read(offset, env.buf(len)).await.expect("a read");
                let mut oracle = oracle.borrow_mut();
                let both = before.chunks(512).zip(after.chunks(512));
                for (allowed, (before, after)) in oracle[from..].iter_mut().zip(both) {
                    match before == after {
                        // It may still happen in a crash, if devices are so free.
                        true if is_loose(seed / LIVES) => allowed.insert(0, 0),
                        true => {}
                        false => allowed.push(after[0]),
                    }
                }
                continue;
            }
            2 | 3 => Durability::Durable,
            _ => Durability::Cached,
        };
        disk.write(offset, filled(&env, len, id), durability).await.expect("a write");
        for allowed in &mut oracle.borrow_mut()[from..from + count] {
            if durability == Durability::Durable {
                allowed.clear();
            }
            allowed.push(id);
        }
    }
}

#[test]
fn each_sector_is_one_that_was_written_and_not_replaced_durably() {
    for seed in 0..300 {
        let world = any_world(seed);
        let host = hosts(&world, 1)[0];
        let oracle: Oracle = Rc::new(RefCell::new(vec![vec![0]; SECTORS]));
        for life in 0..LIVES {
            let mine = Rc::clone(&oracle);
            finish(&world, host, move |env| async move {
                let disk = open(&env).await;
                play(env, disk, mine, seed * LIVES + life).await;
            });
            let bytes = world.read_raw(host, PATH, 0, SECTORS * 512);
            for (sector, allowed) in bytes.chunks(512).zip(oracle.borrow().iter()) {
                assert!(is_all(sector, allowed[allowed.len() - 1]), "seed {seed}: reads lie");
            }
            world.crash(host);
            let bytes = world.read_raw(host, PATH, 0, SECTORS * 512);
            for (sector, allowed) in bytes.chunks(512).zip(oracle.borrow_mut().iter_mut()) {
                let is = sector[0];
                assert!(is_all(sector, is), "seed {seed}: a torn sector");
                assert!(allowed.contains(&is), "seed {seed}: {is} is none of {allowed:?}");
                *allowed = vec![is];
            }
        }
    }
}
