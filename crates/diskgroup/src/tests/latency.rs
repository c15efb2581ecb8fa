// SPDX-License-Identifier: Apache-2.0
//! Devices that answer late, or leave an I/O unanswered; and hosts that stand still themselves.

use super::scenarios::{Host, ONE, fresh, open, write};
use super::*;
use crate::{DeviceHealth, DeviceLatency};
use sim::DiskFault;

const SECOND: Duration = Duration::from_secs(1);

/// Cache or capacity device of a group with one of each.
fn latency(group: &DiskGroup, device: &str) -> DeviceLatency {
    let devices = group.devices();
    devices.iter().find(|d| d.path == device).expect("a device of the group").latency
}

/// What is written is on capacity, where reads go.
async fn filled(env: &Env, group: &DiskGroup) {
    for lsn in 1..=100 {
        write(env, group, lsn, lsn * 8, 8).await.expect("a write");
    }
    group.advance_commit(ONE, Lsn::new(Term(1), 100));
    group.drain_buffer(true);
    env.sleep(5 * SECOND).await;
    assert_eq!(group.component(ONE).expect("it is there").destaged, Lsn::new(Term(1), 100));
}

/// Reads from capacity without end, one at a time.
fn reading(env: &Env, group: &DiskGroup) -> env::Task {
    let (inner, group) = (env.clone(), group.clone());
    env.spawn("reader", async move {
        loop {
            let at = 8 + inner.random() % 100 * 8;
            if group.read(ONE, SectorRange::new(at, 8)).await.is_err() {
                return;
            }
            inner.sleep(Duration::from_millis(40)).await;
        }
    })
}

/// Seconds until a device is so.
async fn until(env: &Env, group: &DiskGroup, device: &str, health: DeviceHealth) -> u64 {
    let begin = env.now();
    while latency(group, device).health != health {
        let seconds = env.now().since(begin).as_secs();
        assert!(seconds < 400, "not {health:?} after {seconds} s: {:?}", latency(group, device));
        env.sleep(SECOND).await;
    }
    env.now().since(begin).as_secs()
}

#[test]
fn a_device_that_gets_slower_is_told_of_and_told_well_when_it_is() {
    let host = Host::new(61);
    let (world, key) = (host.world.clone(), host.key);
    host.run(move |env| async move {
        let group = fresh(&env).await;
        filled(&env, &group).await;
        let reader = reading(&env, &group);
        env.sleep(300 * SECOND).await;
        let well = latency(&group, "capacity0");
        assert_eq!((well.health, group.is_slow(ONE)), (DeviceHealth::Ok, false));
        let usual = well.reads.usual.expect("five minutes are known");
        assert!(usual < Duration::from_millis(1) && well.reads.operations > 100, "{well:?}");

        world.disk_error(key, "capacity0", DiskFault::Slow(2000));
        let took = until(&env, &group, "capacity0", DeviceHealth::Slow).await;
        assert!((55..75).contains(&took), "a minute, not {took} s");
        let slow = latency(&group, "capacity0");
        assert!(slow.reads.is_slow && group.is_slow(ONE));
        assert!(slow.reads.median > 100 * usual && slow.reads.usual < Some(2 * usual), "{slow:?}");
        assert_eq!(latency(&group, "cache").health, DeviceHealth::Ok, "that is another one");
        assert_eq!(group.status().fenced, None, "it works");

        // Nobody reads from it any more: it is asked all the same, now and then.
        drop(reader);
        env.sleep(200 * SECOND).await;
        assert!(group.is_slow(ONE), "{:?}", latency(&group, "capacity0"));
        world.disk_error(key, "capacity0", DiskFault::Clear);
        let took = until(&env, &group, "capacity0", DeviceHealth::Ok).await;
        assert!((110..150).contains(&took), "two minutes, not {took} s");
        assert!(!group.is_slow(ONE));
    });
}

#[test]
fn an_unanswered_write_stops_the_group_by_name() {
    let host = Host::new(62);
    let (world, key) = (host.world.clone(), host.key);
    host.run(move |env| async move {
        let group = fresh(&env).await;
        write(&env, &group, 1, 0, 8).await.expect("a write");
        world.disk_error(key, "cache", DiskFault::Freeze(true));
        let begin = env.now();
        let refused = write(&env, &group, 2, 8, 8).await;
        let took = env.now().since(begin).as_secs();
        assert!(matches!(refused, Err(GroupError::Fenced)), "{refused:?}");
        assert!((30..=32).contains(&took), "after {took} s");
        assert_eq!(
            group.status().fenced.as_deref(),
            Some("cache: no answer to an I/O for 30 s"),
            "it has a name"
        );
        assert_eq!(latency(&group, "cache").health, DeviceHealth::Stuck);
        assert!(!group.has_answered());
        // The device still has the write, so nobody else gets the group.
        group.close().await;
        drop(group);
        let busy = open(&env).await.err();
        assert!(
            matches!(busy, Some(GroupError::Device { source: env::IoError::Busy, .. })),
            "{busy:?}"
        );
        world.disk_error(key, "cache", DiskFault::Clear);
        env.sleep(SECOND).await;
        let group = open(&env).await.expect("it has answered");
        let read = group.read(ONE, SectorRange::new(0, 1)).await.expect("what was acknowledged");
        assert_eq!(value_of(0, &read.payload), Some(1));
    });
}

#[test]
fn whoever_reads_from_a_device_that_answers_nothing_gets_an_error() {
    let host = Host::new(63);
    let (world, key) = (host.world.clone(), host.key);
    host.run(move |env| async move {
        let group = fresh(&env).await;
        filled(&env, &group).await;
        world.disk_error(key, "capacity0", DiskFault::Freeze(true));
        let begin = env.now();
        let refused = group.read(ONE, SectorRange::new(80, 8)).await.err();
        let took = env.now().since(begin).as_secs();
        assert!(matches!(refused, Some(GroupError::Fenced)), "{refused:?}");
        assert!((30..=32).contains(&took), "after {took} s");
        let again = env.timeout(SECOND, group.read(ONE, SectorRange::new(80, 8))).await;
        assert!(matches!(again, Ok(Err(GroupError::Fenced))), "at once from now on: {again:?}");
        let status = group.status();
        assert_eq!(status.bad_blocks, 0, "no answer is no bad block");
        assert_eq!(status.fenced.as_deref(), Some("capacity0: no answer to an I/O for 30 s"));
        assert!(group.is_slow(ONE) && !group.has_answered());
        world.disk_error(key, "capacity0", DiskFault::Clear);
        env.sleep(SECOND).await;
        assert!(group.has_answered(), "{:?}", latency(&group, "capacity0"));
        let still = group.read(ONE, SectorRange::new(80, 8)).await.err();
        assert!(matches!(still, Some(GroupError::Fenced)), "until it is opened anew: {still:?}");
    });
}

#[test]
fn a_device_that_failed_before_it_stood_still_is_left_to_a_person() {
    let host = Host::new(65);
    let (world, key) = (host.world.clone(), host.key);
    host.run(move |env| async move {
        let group = fresh(&env).await;
        filled(&env, &group).await;
        world.disk_error(key, "cache", DiskFault::FailWrites);
        assert!(write(&env, &group, 101, 0, 8).await.is_err());
        world.disk_error(key, "capacity0", DiskFault::Freeze(true));
        let read = group.read(ONE, SectorRange::new(80, 8)).await.err();
        assert!(matches!(read, Some(GroupError::Fenced)), "it ends all the same: {read:?}");
        world.disk_error(key, "capacity0", DiskFault::Clear);
        env.sleep(SECOND).await;
        let status = group.status();
        assert!(status.fenced.is_some_and(|why| why.starts_with("cache: device error")));
        assert!(!group.has_answered(), "a write failed");
    });
}

/// The last that opening asks of the cache device is a read that may fail. The device answers it
/// too late: the group does not open, for nothing can be done with that device any more.
#[test]
fn a_group_that_opens_has_devices_that_answer() {
    const MOMENTS: u32 = 60;
    let host = Host::new(66);
    let (world, key) = (host.world.clone(), host.key);
    host.run(move |env| async move {
        let group = fresh(&env).await;
        filled(&env, &group).await;
        group.close().await;
        drop(group);
        let mut opened = Some(open(&env).await.expect("all is well"));
        let (mut refused, mut lsn, mut usual) = (0, 100, Duration::ZERO);
        for moment in 0..MOMENTS {
            if let Some(group) = opened.take() {
                usual = usual.max(group.recovery().duration);
                group.close().await;
            }
            let found = Rc::new(RefCell::new(None));
            let (inner, opening) = (env.clone(), Rc::clone(&found));
            let task = env.spawn("open", async move {
                opening.replace(Some(open(&inner).await));
            });
            env.sleep(usual.saturating_sub(Duration::from_micros(5) * moment)).await;
            world.disk_error(key, "cache", DiskFault::Freeze(true));
            env.sleep(35 * SECOND).await;
            assert!(task.is_finished(), "at {moment}: opening ends");
            world.disk_error(key, "cache", DiskFault::Clear);
            env.sleep(SECOND).await;
            match found.take().expect("it has ended") {
                Ok(group) => {
                    // The open group itself asked for something that was answered too late.
                    let is_stuck = latency(&group, "cache").health == DeviceHealth::Stuck;
                    lsn += 1;
                    let written = write(&env, &group, lsn, 0, 8).await;
                    assert!(is_stuck || written.is_ok(), "at {moment}: {written:?}");
                    opened = Some(group);
                }
                Err(_) => refused += 1,
            }
        }
        assert!((1..MOMENTS).contains(&refused), "{refused} of {MOMENTS} did not open");
    });
}

#[test]
fn an_answer_that_comes_in_time_stops_nothing() {
    let host = Host::new(64);
    let (world, key) = (host.world.clone(), host.key);
    host.run(move |env| async move {
        let group = fresh(&env).await;
        for (round, device) in ["cache", "capacity0", "cache"].into_iter().enumerate() {
            let lsn = round as u64 + 1;
            world.disk_error(key, device, DiskFault::Freeze(true));
            let (inner, of) = (env.clone(), group.clone());
            let writer = env.spawn("writer", async move {
                write(&inner, &of, lsn, lsn * 8, 8).await.expect("it is answered in the end");
            });
            env.sleep(28 * SECOND).await;
            world.disk_error(key, device, DiskFault::Clear);
            env.sleep(2 * SECOND).await;
            assert!(writer.is_finished(), "{device}");
        }
        assert_eq!(group.status().fenced, None);
        env.sleep(120 * SECOND).await;
        assert_eq!(latency(&group, "cache").health, DeviceHealth::Ok);
    });
}

#[test]
fn a_host_that_stood_still_blames_no_device() {
    for seed in 0..20 {
        let host = Host::new(seed);
        let (world, key) = (host.world.clone(), host.key);
        world.boot(key, |env| {
            Box::pin(async move {
                let group = fresh(&env).await;
                filled(&env, &group).await;
                let reader = reading(&env, &group);
                for lsn in 101..100_000 {
                    if write(&env, &group, lsn, lsn * 8 % 4096, 8).await.is_err() {
                        break;
                    }
                    group.advance_commit(ONE, Lsn::new(Term(1), lsn));
                    let status = group.status();
                    assert_eq!(status.fenced, None);
                    let [cache, capacity] = ["cache", "capacity0"].map(|d| latency(&group, d));
                    assert_eq!(cache.health, DeviceHealth::Ok, "{cache:?}");
                    assert_eq!(capacity.health, DeviceHealth::Ok, "{capacity:?}");
                    env.sleep(Duration::from_millis(50)).await;
                }
                drop(reader);
            })
        });
        let mut rng = Rng::new(seed);
        world.run_for(20 * SECOND);
        for _ in 0..40 {
            // What the devices have then is answered when nobody looks.
            let devices = ["cache", "capacity0"];
            devices.iter().for_each(|d| world.disk_error(key, d, DiskFault::Freeze(true)));
            world.run_for(Duration::from_millis(rng.below(3000)));
            let pause = SECOND * (1 + rng.below(100) as u32);
            world.pause(key, pause);
            world.run_for(pause - Duration::from_millis(rng.below(900)));
            devices.iter().for_each(|d| world.disk_error(key, d, DiskFault::Clear));
            world.run_for(Duration::from_millis(rng.below(20_000)));
        }
        assert!(!world.is_finished(key), "seed {seed}: it goes on");
        world.kill(key);
    }
}
