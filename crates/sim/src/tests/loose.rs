// SPDX-License-Identifier: Apache-2.0
//! Devices that use all the freedom that their contract leaves them.

use super::{HOUR, PATH, filled, finish, hosts, is_all, open};
use crate::{DiskFreedom, DiskModel, HostKey, World, WorldOptions};
use base::Instant;
use env::Durability;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(27);

fn with(seed: u64, freedom: DiskFreedom) -> World {
    let disk = DiskModel { freedom, tail_ppm: 0, ..DiskModel::default() };
    World::new(WorldOptions { seed, disk, ..WorldOptions::default() })
}

pub(super) fn world(seed: u64) -> World {
    with(seed, DiskFreedom { is_loose: true, ..DiskFreedom::default() })
}

/// What a test tells of one seed.
type Told = Rc<RefCell<Vec<u8>>>;

/// The first byte of each sector, each of which is whole.
fn sectors(bytes: &[u8]) -> Vec<u8> {
    let whole = |sector: &[u8]| {
        assert!(is_all(sector, sector[0]), "a torn sector");
        sector[0]
    };
    bytes.chunks(512).map(whole).collect()
}

#[test]
fn a_read_beside_a_write_sees_any_mixture_of_sectors() {
    let (mut old, mut new, mut mixed, mut again) = (0, 0, 0, 0);
    for seed in 0..200 {
        let world = world(seed);
        let host = hosts(&world, 1)[0];
        let told = Told::default();
        let tell = Rc::clone(&told);
        finish(&world, host, move |env| async move {
            let disk = open(&env).await;
            disk.write(0, filled(&env, 4096, 1), Durability::Durable).await.expect("a write");
            let write = disk.write(0, filled(&env, 4096, 2), Durability::Durable);
            let read = disk.read(0, env.buf(4096)).await.expect("a read");
            tell.borrow_mut().extend(sectors(&read));
            write.await.expect("a write");
            let after = disk.read(0, env.buf(4096)).await.expect("a read");
            assert!(is_all(&after, 2), "an answered write has happened");
        });
        let told = told.borrow();
        let count = told.iter().filter(|value| **value == 2).count();
        old += usize::from(count == 0);
        new += usize::from(count == 8);
        mixed += usize::from(count % 8 > 0);
        // Neither the first sectors nor the last ones.
        again += usize::from(told.windows(2).filter(|pair| pair[0] != pair[1]).count() > 1);
    }
    let counts = [old, new, mixed, again];
    assert!(counts.iter().all(|count| *count > 10), "{counts:?}");
}

#[test]
fn of_two_writes_under_way_either_wins_in_each_sector() {
    let mut wins = [0; 3];
    for seed in 0..200 {
        let world = world(seed);
        let host = hosts(&world, 1)[0];
        finish(&world, host, |env| async move {
            let disk = open(&env).await;
            let first = disk.write(0, filled(&env, 4096, 1), Durability::Durable);
            let second = disk.write(0, filled(&env, 4096, 2), Durability::Cached);
            first.await.expect("a write");
            second.await.expect("a write");
        });
        let before = sectors(&world.read_raw(host, PATH, 0, 4096));
        let count = before.iter().filter(|value| **value == 2).count();
        wins[if count == 0 { 0 } else { 1 + usize::from(count < 8) }] += 1;
        world.crash(host);
        // The durable one is there; the cached one may have gone, wherever it was the later one.
        for (sector, before) in sectors(&world.read_raw(host, PATH, 0, 4096)).iter().zip(before) {
            assert!(*sector == 1 || *sector == before, "seed {seed}: {sector} after {before}");
        }
    }
    assert!(wins.iter().all(|count| *count > 10), "{wins:?}");
}

#[test]
fn a_discard_leaves_old_data_and_zeros_in_parts() {
    let (mut zeros, mut old, mut mixed, mut lazy, mut back) = (0, 0, 0, 0, 0);
    for seed in 0..200 {
        let world = world(seed);
        let host = hosts(&world, 1)[0];
        finish(&world, host, |env| async move {
            let disk = open(&env).await;
            disk.write(0, filled(&env, 65_536, 1), Durability::Durable).await.expect("a write");
            disk.discard(0, 65_536).await.expect("a discard");
        });
        let before = sectors(&world.read_raw(host, PATH, 0, 65_536));
        zeros += usize::from(is_all(&before, 0));
        old += usize::from(is_all(&before, 1));
        mixed += usize::from(!is_all(&before, before[0]));
        world.crash(host);
        let after = sectors(&world.read_raw(host, PATH, 0, 65_536));
        let came = |from, to| before.iter().zip(&after).any(|pair| pair == (&from, &to));
        lazy += usize::from(came(1, 0));
        back += usize::from(came(0, 1));
    }
    let counts = [zeros, old, mixed, lazy, back];
    assert!(counts.iter().all(|count| *count > 5), "{counts:?}");
}

#[test]
fn what_is_not_answered_may_be_read_and_be_gone_after_power_loss() {
    let (mut gone, mut kept) = (0, 0);
    for seed in 0..300 {
        let world = world(seed);
        let host = hosts(&world, 1)[0];
        let moment = Duration::from_micros(110 + seed % 60);
        world.boot(host, |env| {
            Box::pin(async move {
                let disk = open(&env).await;
                env.sleep_until(Instant(env.now().0 + 100_000)).await;
                drop(disk.write(0, filled(&env, 4096, 1), Durability::Durable));
                env.sleep(HOUR).await;
            })
        });
        world.run_for(moment);
        let seen = sectors(&world.read_raw(host, PATH, 0, 4096));
        world.crash(host);
        let after = sectors(&world.read_raw(host, PATH, 0, 4096));
        gone += usize::from(seen.iter().zip(&after).any(|pair| pair == (&1, &0)));
        kept += usize::from(seen.iter().zip(&after).any(|pair| pair == (&1, &1)));
    }
    assert!(gone > 10 && kept > 10, "{gone} gone, {kept} kept");
}

#[test]
fn flushes_and_discards_take_as_long_as_they_may_and_nothing_else_does() {
    let freedom = DiskFreedom { long_ppm: 500_000, long_max: LONG, ..DiskFreedom::default() };
    let (mut long, mut soon) = ([0; 2], [0; 2]);
    for seed in 0..20 {
        let world = with(seed, freedom);
        let host = hosts(&world, 1)[0];
        let times = Rc::new(RefCell::new(Vec::new()));
        let tell = Rc::clone(&times);
        finish(&world, host, move |env| async move {
            let disk = open(&env).await;
            let start = env.now();
            disk.write(0, filled(&env, 4096, 1), Durability::Cached).await.expect("a write");
            disk.read(0, env.buf(4096)).await.expect("a read");
            assert!(env.now().since(start) < Duration::from_secs(1), "reads and writes are soon");
            let start = env.now();
            disk.flush().await.expect("a flush");
            let middle = env.now();
            disk.discard(4096, 4096).await.expect("a discard");
            *tell.borrow_mut() = vec![middle.since(start), env.now().since(middle)];
        });
        for (at, time) in times.borrow().iter().enumerate() {
            match time {
                time if *time < Duration::from_secs(1) => soon[at] += 1,
                time if (LONG / 2..LONG + Duration::from_secs(1)).contains(time) => long[at] += 1,
                time => panic!("seed {seed}: {time:?}"),
            }
        }
    }
    assert!(long.iter().chain(&soon).all(|count| *count > 3), "{long:?} {soon:?}");
}

#[test]
fn a_killed_process_leaves_parts_that_the_next_flush_covers() {
    let mut parts = 0;
    for seed in 0..200 {
        let world = world(seed);
        let host = hosts(&world, 1)[0];
        finish(&world, host, |env| async move {
            let disk = open(&env).await;
            drop(disk.write(0, filled(&env, 4096, 1), Durability::Cached));
            env.sleep(Duration::from_micros(15)).await;
        });
        world.kill(HostKey(0));
        let before = world.read_raw(host, PATH, 0, 4096);
        parts += usize::from(!is_all(&before, before[0]));
        finish(&world, host, |env| async move {
            open(&env).await.flush().await.expect("a flush");
        });
        world.crash(host);
        assert_eq!(world.read_raw(host, PATH, 0, 4096), before, "seed {seed}");
    }
    assert!(parts > 10, "{parts}");
}

#[test]
fn what_is_written_to_a_copy_is_newer_than_what_was_copied() {
    for seed in 0..20 {
        let world = world(seed);
        let both = hosts(&world, 2);
        finish(&world, both[0], |env| async move {
            let disk = open(&env).await;
            for value in 1..=100 {
                let write = disk.write(0, filled(&env, 4096, value), Durability::Durable);
                write.await.expect("a write");
            }
        });
        world.copy_disk(both[0], PATH, both[1], PATH);
        finish(&world, both[1], |env| async move {
            let disk = open(&env).await;
            let write = disk.write(0, filled(&env, 4096, 200), Durability::Durable);
            write.await.expect("a write");
        });
        world.crash(both[1]);
        assert!(is_all(&world.read_raw(both[1], PATH, 0, 4096), 200), "seed {seed}");
    }
}
