// SPDX-License-Identifier: Apache-2.0
//! Devices that follow a model end when it says.

use super::{PATH, filled, finish, hosts, open, world};
use crate::{DiskFault, HostKey, World};
use base::{Instant, Rng};
use devicemodel::{DeviceModel, DeviceOp};
use env::{Durability, Env, TaskSet, conformance};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const SIZE: u64 = 1 << 20;
const LATE: DeviceModel =
    DeviceModel::Late { latency: Duration::from_millis(5), bytes_per_second: 4_096_000 };

fn modelled(seed: u64, model: DeviceModel) -> (World, HostKey) {
    let world = world(seed);
    let host = hosts(&world, 1)[0];
    world.behave_as(host, PATH, model);
    (world, host)
}

fn wait(env: &Env) -> impl Future<Output = ()> {
    env.sleep(Duration::from_secs(1))
}

/// Nanoseconds of world time at which each of a turn's writes of 4 KiB and the flush behind them
/// ended, after the turn itself.
fn ends(seed: u64, model: DeviceModel, places: &[u64]) -> (Instant, Vec<(u64, Instant)>) {
    let (world, host) = modelled(seed, model);
    let ends = Rc::new(RefCell::new((Instant(0), Vec::new())));
    let (found, places, inner) = (Rc::clone(&ends), places.to_vec(), world.clone());
    finish(&world, host, |env| async move {
        let disk = open(&env).await;
        wait(&env).await;
        found.borrow_mut().0 = inner.now();
        let tasks = TaskSet::default();
        for (name, place) in (0..).zip(places) {
            let write = disk.write(place * 4096, filled(&env, 4096, 1), Durability::Cached);
            let (found, world) = (Rc::clone(&found), inner.clone());
            tasks.spawn(&env, "write", async move {
                write.await.expect("a write");
                found.borrow_mut().1.push((name, world.now()));
            });
        }
        disk.flush().await.expect("a flush");
        found.borrow_mut().1.push((u64::MAX, inner.now()));
        wait(&env).await;
        assert!(tasks.is_empty());
    });
    ends.take()
}

/// The same, asked of the model itself.
fn said(model: DeviceModel, begin: Instant, places: &[u64]) -> Vec<(u64, Instant)> {
    let mut running = model.start(SIZE);
    for (name, place) in (0..).zip(places) {
        running.submit(begin, name, DeviceOp::Transfer { offset: place * 4096, bytes: 4096 });
    }
    running.submit(begin, u64::MAX, DeviceOp::Flush);
    let (mut now, mut ends) = (begin, Vec::new());
    loop {
        ends.extend(std::iter::from_fn(|| running.end(now)));
        match running.next_end() {
            Some(next) => now = next,
            None => return ends,
        }
    }
}

fn sorted(mut ends: Vec<(u64, Instant)>) -> Vec<(u64, Instant)> {
    ends.sort_unstable();
    ends
}

#[test]
fn a_device_ends_what_it_is_asked_exactly_when_its_model_does() {
    for model in [DeviceModel::Magnetic, LATE] {
        for seed in 0..10 {
            let mut rng = Rng::new(seed);
            let places: Vec<u64> = (0..40).map(|_| rng.below(SIZE / 4096)).collect();
            let (begin, found) = ends(seed, model, &places);
            let said = said(model, begin, &places);
            assert_eq!(said.len(), 41);
            assert_eq!(sorted(found), sorted(said), "seed {seed}, {model:?}");
        }
    }
}

#[test]
fn a_late_device_takes_its_two_figures() {
    let (begin, found) = ends(3, LATE, &[0, 1, 2]);
    let after = |end: &(u64, Instant)| end.1.since(begin).as_micros();
    let mut found: Vec<_> = found.iter().map(after).collect();
    found.sort_unstable();
    assert_eq!(found, [6000, 7000, 8000, 8000]);
}

#[test]
fn the_driver_conforms_on_such_devices_too() {
    for model in [DeviceModel::Magnetic, LATE] {
        for seed in 0..4 {
            let (world, host) = modelled(seed, model);
            finish(&world, host, |env| async move { conformance::disk(&env, PATH).await });
        }
    }
}

/// Power loss, kill and frost with a whole queue under way: the device serves the next process.
#[test]
fn a_device_outlives_what_was_under_way() {
    for (seed, is_crash) in (0..20).zip([true, false].into_iter().cycle()) {
        let (world, host) = modelled(seed, DeviceModel::Magnetic);
        for _ in 0..3 {
            world.boot(host, |env| {
                Box::pin(async move {
                    let disk = open(&env).await;
                    let buf = filled(&env, 4096, 1);
                    disk.write(0, buf.clone(), Durability::Durable).await.expect("a write");
                    for block in (1..200).rev() {
                        drop(disk.write(block * 4096, buf.clone(), Durability::Durable));
                    }
                    disk.flush().await.expect("a flush");
                })
            });
            world.run_for(Duration::from_millis(20 + seed));
            assert!(!world.is_finished(host), "seed {seed}: all ended before");
            match is_crash {
                true => world.crash(host),
                false => world.kill(host),
            }
        }
        finish(&world, host, move |env| async move {
            let disk = open(&env).await;
            let read = disk.read(0, env.buf(4096)).await.expect("a read");
            assert_eq!(read[0], 1, "seed {seed}");
        });
    }
}

#[test]
fn a_frozen_device_ends_nothing_until_it_thaws() {
    let (world, host) = modelled(1, LATE);
    world.boot(host, |env| {
        Box::pin(async move {
            let disk = open(&env).await;
            wait(&env).await;
            let buf = filled(&env, 4096, 1);
            disk.write(0, buf, Durability::Durable).await.expect("a write");
        })
    });
    world.run_for(Duration::from_millis(500));
    world.disk_error(host, PATH, DiskFault::Freeze(true));
    world.run_for(Duration::from_secs(5));
    assert!(!world.is_finished(host));
    world.disk_error(host, PATH, DiskFault::Freeze(false));
    world.run_for(Duration::from_secs(1));
    assert!(world.is_finished(host));
}
