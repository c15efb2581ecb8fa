// SPDX-License-Identifier: Apache-2.0
//! What holds up writes is named; a destage that stands still is told from one that rests.

use super::scenarios::{Host, ONE, fresh, fresh_with, write, write_to};
use super::*;
use crate::{GroupStatus, Limit};
use env::join_all;
use sim::DiskFault;

const HALF_A_MINUTE: Duration = Duration::from_secs(30);

/// Appends that go on, block by block, until the buffer takes no more.
fn writing(env: &Env, group: &DiskGroup, from: u64) -> env::Task {
    let (inner, group) = (env.clone(), group.clone());
    env.spawn("writer", async move {
        for lsn in from.. {
            let write = write(&inner, &group, lsn, lsn * 8 % 4096, 8);
            if write.await.is_err() {
                return;
            }
            group.advance_commit(ONE, Lsn::new(Term(1), lsn));
        }
    })
}

/// Looks every second until what is seen is as wanted, for two minutes at most.
async fn until(env: &Env, group: &DiskGroup, is_so: impl Fn(&GroupStatus) -> bool) -> GroupStatus {
    for _ in 0..120 {
        let status = group.status();
        if is_so(&status) {
            return status;
        }
        env.sleep(Duration::from_secs(1)).await;
    }
    panic!("not within two minutes: {:?}", group.status());
}

#[test]
fn a_capacity_device_that_stands_still_is_told_of_and_its_return_too() {
    let host = Host::new(51);
    let (world, key) = (host.world.clone(), host.key);
    host.run(move |env| async move {
        // Long enough for destage to be told of before the device itself is.
        let stuck_after = Duration::from_secs(600);
        let options = GroupOptions { stuck_after, ..GroupOptions::default() };
        let group = fresh_with(&env, options).await;
        world.disk_error(key, "capacity0", DiskFault::Freeze(true));
        let begin = env.now();
        let writer = writing(&env, &group, 1);
        let status = until(&env, &group, |status| status.pressure.limit == Limit::Destage).await;
        assert!(status.buffer_fill > 0.6, "{status:?}");
        assert_eq!(status.pressure.waiting, 1, "the writer has one under way: {status:?}");
        let early = status.pressure.stuck.expect("work is due");
        assert!(early < HALF_A_MINUTE, "not yet: {status:?}");
        env.sleep(HALF_A_MINUTE).await;
        let status = group.status();
        let late = status.pressure.stuck.expect("work is due");
        assert_eq!(late, early + HALF_A_MINUTE);
        let oldest = status.pressure.oldest.expect("the buffer is full");
        assert!(oldest >= late && oldest <= env.now().since(begin), "{status:?}");
        assert!(!status.pressure.waits_for_copies, "{status:?}");

        world.disk_error(key, "capacity0", DiskFault::Clear);
        let is_well = |status: &GroupStatus| {
            status.pressure.stuck.is_none_or(|stuck| stuck < Duration::from_secs(1))
        };
        env.sleep(Duration::from_secs(1)).await;
        for _ in 0..50 {
            let status = group.status();
            assert!(is_well(&status), "{status:?}");
            assert!(status.pressure.oldest.is_none_or(|age| age < HALF_A_MINUTE), "{status:?}");
            env.sleep(Duration::from_millis(100)).await;
        }
        drop(writer);
    });
}

#[test]
fn what_waits_for_other_copies_is_told_apart() {
    let host = Host::new(52);
    host.run(|env| async move {
        let group = fresh(&env).await;
        let mut lsn = 1;
        while group.status().buffer_fill < 0.7 {
            write(&env, &group, lsn, lsn * 8 % 4096, 8).await.expect("a write");
            lsn += 1;
        }
        env.sleep(HALF_A_MINUTE).await;
        let pressure = group.status().pressure;
        assert!(
            pressure.waits_for_copies && pressure.stuck >= Some(HALF_A_MINUTE / 2),
            "{pressure:?}"
        );
        assert_eq!((pressure.limit, pressure.waiting), (Limit::Nothing, 0));
        group.advance_commit(ONE, Lsn::new(Term(1), lsn));
        let status = until(&env, &group, |status| status.buffer_fill < 0.1).await;
        assert_eq!(status.pressure.stuck, None);
    });
}

#[test]
fn a_destage_that_rests_is_not_stuck() {
    let host = Host::new(53);
    host.run(|env| async move {
        let group = fresh(&env).await;
        assert_eq!(group.status().pressure.oldest, None);
        write(&env, &group, 1, 0, 8).await.expect("a write");
        group.advance_commit(ONE, Lsn::new(Term(1), 1));
        env.sleep(HOUR / 2).await;
        let pressure = group.status().pressure;
        assert_eq!((pressure.stuck, pressure.limit, pressure.waiting), (None, Limit::Nothing, 0));
        // A slow load never makes it look stuck.
        for lsn in 2..3000 {
            write(&env, &group, lsn, lsn * 8 % 4096, 8).await.expect("a write");
            group.advance_commit(ONE, Lsn::new(Term(1), lsn));
            env.sleep(Duration::from_millis(200)).await;
            let status = group.status();
            assert!(status.pressure.stuck.is_none_or(|s| s < Duration::from_secs(1)), "{status:?}");
        }
    });
}

/// The buffer fills up with what is above K, and data of its oldest segment is rotten.
async fn full_of_open(env: &Env, world: &World, key: HostKey) -> (DiskGroup, env::Task) {
    let group = fresh(env).await;
    let (inner, writer) = (env.clone(), group.clone());
    let task = env.spawn("writer", async move {
        for lsn in 1.. {
            if write(&inner, &writer, lsn, lsn * 8 % 4096, 8).await.is_err() {
                return;
            }
        }
    });
    while group.closed_segments().len() < 2 {
        env.sleep(Duration::from_micros(100)).await;
    }
    let oldest = &group.closed_segments()[0];
    world.flip_bits(key, "cache", oldest.start + 4096, 64);
    let pressed = until(env, &group, |status| status.is_pressed).await;
    assert_eq!(pressed.fenced, None);
    (group, task)
}

#[test]
fn rotten_data_above_k_waits_for_k() {
    let host = Host::new(54);
    let (world, key) = (host.world.clone(), host.key);
    host.run(move |env| async move {
        let (group, _writer) = full_of_open(&env, &world, key).await;
        env.sleep(Duration::from_millis(100)).await;
        group.advance_commit(ONE, group.component(ONE).expect("it is here").durable);
        let status = until(&env, &group, |status| status.destaged_blocks > 0).await;
        assert_eq!(status.fenced, None);
        let bad = group.read(ONE, SectorRange::new(8, 8)).await;
        assert!(matches!(bad, Err(GroupError::BadCrc { .. })), "{bad:?}");
    });
}

#[test]
fn rotten_data_that_stays_above_k_ends_destage_by_its_name() {
    let host = Host::new(53);
    let (world, key) = (host.world.clone(), host.key);
    host.run(move |env| async move {
        let (group, _writer) = full_of_open(&env, &world, key).await;
        let status = until(&env, &group, |status| status.fenced.is_some()).await;
        let cause = status.fenced.expect("it is fenced");
        assert!(cause.starts_with("cache: log segment 0 is damaged: checksum"), "{cause}");
    });
}

/// Destage has moved what is above K as often as it may. While it moves the last of that, K of one
/// component rises; that of the other one, with an entry in each segment, stays. A hybrid group
/// reads the next segment then, and the log has had its turn when destage begins to wait.
#[test]
fn k_that_rises_while_entries_are_moved_lets_appends_go_on() {
    const TWO: ComponentId = ComponentId(2);
    let host = Host::new(56);
    host.run(|env| async move {
        let sizes = crate::CreateSizes { cache: 11 << 20, capacity: 24 << 20 };
        let kind = GroupKind::Hybrid { read_cache_percent: 90 };
        let (id, shape) = (GroupId(1), GroupShape { kind, segment_size: 64 << 10 });
        let made = DiskGroup::format_with(&env, &spec(1), Some(sizes), false, id, shape).await;
        made.expect("new files");
        let group = DiskGroup::open(&env, &spec(1), GroupOptions::default()).await;
        let group = group.expect("a new group");
        group.create_component(ONE, ObjectId(9), SECTORS).await.expect("a component");
        group.create_component(TWO, ObjectId(7), SECTORS).await.expect("a component");
        let (inner, writer) = (env.clone(), group.clone());
        let _writer = env.spawn("writer", async move {
            for lsn in 1.. {
                let id = if lsn % 4 == 0 { TWO } else { ONE };
                write_to(&inner, &writer, id, lsn, lsn * 8 % 4096, 8).await.expect("a write");
            }
        });
        let most = 2 * group.shared().state.borrow().log.layout.segments;
        while group.shared().state.borrow().destage.moved_in_row < u64::from(most) {
            env.sleep(Duration::from_micros(1)).await;
        }
        assert!(!group.shared().state.borrow().destage.waits_for_commit(), "it is moving");
        group.advance_commit(ONE, group.component(ONE).expect("it is here").durable);
        let appends = group.status().appends;
        until(&env, &group, |status| status.appends > appends).await;
    });
}

#[test]
fn a_task_that_ends_is_named() {
    for task in ["destage", "checkpointing"] {
        let host = Host::new(55);
        host.run(move |env| async move {
            let group = fresh(&env).await;
            group.shared().stop(task, GroupError::Full { free: 0 });
            let cause = group.status().fenced.expect("it is fenced");
            assert_eq!(cause, format!("cache: {task} ended: no space on the capacity device"));
        });
    }
}

/// Zeros take no room in the log beside their header, but a place in its index for each block. So
/// they fill the index while all of them are in the open segment.
#[test]
fn an_index_full_of_zeros_in_the_open_segment_is_destaged() {
    const OTHER: ComponentId = ComponentId(2);
    let host = Host::new(54);
    host.run(|env| async move {
        let group = fresh(&env).await;
        let limit = group.shared().state.borrow().log.index.limit() as u64;
        let chunks = 2 * limit.div_ceil(255);
        let sectors = chunks * base::CHUNK_SECTORS;
        group.create_component(OTHER, ObjectId(10), sectors).await.expect("a component");
        group.set_active(OTHER, true);
        let append = |lsn: u64| {
            group.append(Append {
                component: OTHER,
                lsn: Lsn::new(Term(1), lsn),
                term: Term(1),
                range: SectorRange::new((lsn - 1) * base::CHUNK_SECTORS, 255 * 8),
                kind: AppendKind::Zero,
                crcs: &[],
                payload: env.buf(0).freeze(),
                marks: &[],
            })
        };
        for first in (1..=chunks - 6).step_by(6) {
            let appends: Vec<_> = (first..first + 6).map(append).collect();
            let done = env.timeout(HALF_A_MINUTE, join_all(appends)).await;
            assert!(done.is_ok(), "from {first} of {chunks} on: {:?}", group.status());
            group.advance_commit(OTHER, Lsn::new(Term(1), first + 5));
        }
    });
}
