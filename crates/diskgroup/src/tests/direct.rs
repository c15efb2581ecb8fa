// SPDX-License-Identifier: Apache-2.0
//! Direct writes, one story each. Random loads have them too.

use super::rotten::LOG;
use super::scenarios::{Host, ONE, value, write, write_to};
use super::switches::switched;
use super::*;
use crate::devices::superblock::open_disk;
use crate::{CreateSizes, GroupLimits};
use std::cell::Cell;

const TWO: ComponentId = ComponentId(2);
/// Sectors of a write that is large enough here.
const LARGE: u64 = 64;
const CHUNK: u64 = 2048;

fn with_direct(mutations: Mutations) -> GroupOptions {
    let limits = GroupLimits { direct_blocks: 4, direct_spare: 1, ..GroupLimits::default() };
    GroupOptions { limits, mutations, ..GroupOptions::default() }
}

/// A group with segments of so many bytes, and two components.
async fn fresh(env: &Env, segment_size: u64, options: GroupOptions) -> DiskGroup {
    let sizes = CreateSizes { cache: (1 << 20) + 8 * segment_size, capacity: 24 << 20 };
    let shape = GroupShape { kind: GroupKind::AllFlash, segment_size };
    let spec = spec(1);
    let made = DiskGroup::format_with(env, &spec, Some(sizes), false, GroupId(1), shape);
    made.await.expect("new files");
    let group = DiskGroup::open(env, &spec, options).await.expect("a new group");
    for id in [ONE, TWO] {
        group.create_component(id, ObjectId(id.0), SECTORS).await.expect("a component");
        group.set_active(id, true);
    }
    group
}

async fn small(env: &Env, mutations: Mutations) -> DiskGroup {
    fresh(env, 64 << 10, with_direct(mutations)).await
}

async fn close(env: &Env, group: DiskGroup) {
    group.close().await;
    drop(group);
    env.sleep(Duration::from_millis(10)).await; // until the devices are closed
}

async fn again(env: &Env, mutations: Mutations) -> DiskGroup {
    DiskGroup::open(env, &spec(1), with_direct(mutations)).await.expect("it opens again")
}

/// All up to that lsn is on capacity, and nothing is left in the log.
async fn rest(env: &Env, group: &DiskGroup, lsn: u64) {
    [ONE, TWO].iter().for_each(|id| group.advance_commit(*id, Lsn::new(Term(1), lsn)));
    group.drain_buffer(true);
    while group.status().buffer_fill > 0.0 {
        env.sleep(Duration::from_millis(1)).await;
    }
    group.drain_buffer(false);
    group.audit().expect("the books at rest");
}

/// The values of some sectors.
async fn values(group: &DiskGroup, sectors: std::ops::Range<u64>) -> Vec<u32> {
    let range = SectorRange::new(sectors.start, sectors.end - sectors.start);
    let read = group.read(ONE, range).await.expect("a read");
    let parts = read.payload.chunks(512).zip(sectors);
    parts.map(|(bytes, sector)| value_of(sector, bytes).expect("a whole sector")).collect()
}

#[test]
fn a_group_whose_closing_nobody_waits_for_lets_its_devices_go_when_they_answer() {
    let host = Host::new(2);
    let (world, key) = (host.world.clone(), host.key);
    host.run(move |env| async move {
        let group = small(&env, Mutations::default()).await;
        world.disk_error(key, "capacity0", sim::DiskFault::Freeze(true));
        // The first goes to capacity at once, and the others wait behind it.
        let writer = |lsn: u64| {
            let (inner, group) = (env.clone(), group.clone());
            env.spawn("writer", async move {
                inner.sleep(Duration::from_millis(lsn)).await;
                let _ = write(&inner, &group, lsn, lsn * LARGE, LARGE / lsn).await;
            })
        };
        let writers: Vec<env::Task> = (1..4).map(writer).collect();
        env.sleep(Duration::from_secs(1)).await;
        let closed = env.timeout(Duration::from_secs(5), group.close()).await;
        assert!(closed.is_err(), "the write to capacity is not answered");
        drop(group);
        world.disk_error(key, "capacity0", sim::DiskFault::Clear);
        env.sleep(Duration::from_secs(1)).await;
        assert!(writers.iter().all(env::Task::is_finished), "what waited was told");
        again(&env, Mutations::default()).await.close().await;
    });
}

#[test]
fn a_whole_chunk_is_written_once() {
    let host = Host::new(1);
    host.run(|env| async move {
        let group = fresh(&env, 4 << 20, with_direct(Mutations::default())).await;
        // The first write to a chunk of a file is a megabyte.
        write_to(&env, &group, TWO, 1, 0, 8).await.expect("an append");
        rest(&env, &group, 1).await;
        for lsn in 1..=3 {
            let before = group.devices();
            write(&env, &group, lsn, 0, CHUNK).await.expect("an append");
            assert_eq!(values(&group, 0..CHUNK).await, vec![lsn as u32; CHUNK as usize]);
            rest(&env, &group, lsn).await;
            assert_eq!(values(&group, 0..CHUNK).await, vec![lsn as u32; CHUNK as usize]);
            // So that a header is durable which needs nothing of before.
            write_to(&env, &group, TWO, lsn + 1, 0, 8).await.expect("an append");
            rest(&env, &group, lsn + 1).await;
            let after = group.devices();
            let written = |at: usize| after[at].written_bytes - before[at].written_bytes;
            assert!(written(0) < 200_000, "{} bytes of a megabyte to the log", written(0));
            assert!(written(1) < 1_300_000, "{} bytes for a megabyte", written(1));
        }
        let status = group.status();
        assert_eq!((status.direct_bytes, status.mapped_bytes), (3 << 20, 3 << 20));
        assert_eq!(status.requests.direct, 3);
        assert_eq!(group.audit().expect("books").allocated, 2, "what was replaced came back");
        close(&env, group).await;
        let group = again(&env, Mutations::default()).await;
        assert_eq!(values(&group, 0..CHUNK).await, vec![3; CHUNK as usize]);
    });
}

/// The first bytes of a device chunk, as the device has them.
async fn raw(env: &Env, group: &DiskGroup, chunk: u32) -> Vec<u8> {
    let handle = &group.shared().devices[0];
    let at = handle.layout.chunk_start + u64::from(chunk) * base::CHUNK_SIZE;
    handle.disk().read(at, env.buf(4096)).await.expect("a read").to_vec()
}

/// The device chunk of a component's first chunk.
fn place(group: &DiskGroup, id: ComponentId) -> u32 {
    let state = group.shared().state.borrow();
    let serial = state.store.components.by_id(id).expect("it is there").row.serial;
    state.store.base(crate::keys::chunk_key(serial, 0)).expect("capacity has it")
}

/// A component's first chunk is written over, destaged, and no header needs what was before.
async fn write_over(env: &Env, group: &DiskGroup, lsn: u64) -> u32 {
    write(env, group, lsn, 0, CHUNK).await.expect("an append");
    rest(env, group, lsn).await;
    write_to(env, group, TWO, lsn, 0, 8).await.expect("an append");
    rest(env, group, lsn).await;
    place(group, ONE)
}

#[test]
fn what_a_large_write_left_is_for_the_next_one_until_none_comes() {
    let host = Host::new(1);
    host.run(|env| async move {
        let group = fresh(&env, 4 << 20, with_direct(Mutations::default())).await;
        let stock = || group.shared().state.borrow().store.capacity[0].stocked();
        let is_there = async |chunk| raw(&env, &group, chunk).await.iter().any(|byte| *byte != 0);
        let (first, second) =
            (write_over(&env, &group, 1).await, write_over(&env, &group, 2).await);
        assert_eq!(stock(), [first]);
        assert!(is_there(first).await, "its space is kept");
        let crate::DeviceRole::Capacity(space) = group.devices()[1].role else { unreachable!() };
        assert_eq!((space.freeing_bytes, space.allocated_bytes), (0, 2 << 20), "it is free");
        assert_eq!(write_over(&env, &group, 3).await, first, "it is taken again");
        assert_eq!(stock(), [second]);
        assert_eq!(values(&group, 0..CHUNK).await, vec![3; CHUNK as usize]);
        env.sleep(Duration::from_secs(9)).await;
        assert_eq!(stock(), [second]);
        env.sleep(Duration::from_secs(2)).await;
        assert_eq!(stock(), [0; 0], "it went back to the device"); // which may ignore a discard

        // A component that is deleted gives its space back at once, and so does a new run.
        write_over(&env, &group, 4).await;
        let (last, kept) = (place(&group, ONE), stock());
        group.delete_component(ONE).await.expect("deleted");
        env.sleep(Duration::from_secs(1)).await;
        assert_eq!(stock(), kept, "nothing of it is kept");
        assert!(!kept.contains(&last) && is_there(kept[0]).await);
        let free = group.audit().expect("books").free;
        close(&env, group).await;
        let group = again(&env, Mutations::default()).await;
        assert_eq!(group.audit().expect("books").free, free, "what was kept is free");
    });
}

#[test]
fn no_more_is_kept_than_may_be() {
    let host = Host::new(1);
    host.run(|env| async move {
        let mut options = with_direct(Mutations::default());
        options.limits.stock_chunks = 1;
        let group = fresh(&env, 4 << 20, options).await;
        for (lsn, chunk) in [(1, 0), (2, 1), (3, 0), (4, 1)] {
            write(&env, &group, lsn, chunk * CHUNK, CHUNK).await.expect("an append");
            if lsn % 2 == 0 {
                rest(&env, &group, lsn).await;
                write_to(&env, &group, TWO, lsn, 0, 8).await.expect("an append");
                rest(&env, &group, lsn).await;
            }
        }
        assert_eq!(group.shared().state.borrow().store.capacity[0].stocked().len(), 1);
        group.audit().expect("books");
    });
}

#[test]
fn the_smaller_part_is_copied() {
    for (old, copied) in [(8, false), (1024, true)] {
        let host = Host::new(1);
        host.run(move |env| async move {
            let group = small(&env, Mutations::default()).await;
            // What capacity holds came through the log: a few blocks, or more than the large write.
            for (lsn, at) in (0..old).step_by(8).enumerate() {
                write(&env, &group, lsn as u64 + 1, 512 + at, 8).await.expect("an append");
                if lsn % 8 == 0 {
                    group.advance_commit(ONE, Lsn::new(Term(1), lsn as u64));
                }
            }
            rest(&env, &group, old).await;
            let before = group.status();
            write(&env, &group, 5000, 0, LARGE).await.expect("an append");
            assert_eq!(group.status().direct_bytes - before.direct_bytes, LARGE * 512);
            let expected = values(&group, 0..CHUNK).await;
            rest(&env, &group, 5000).await;
            let mapped = group.status().mapped_bytes - before.mapped_bytes;
            assert_eq!(mapped, if copied { 0 } else { LARGE * 512 });
            assert!(group.status().requests.merged > 0);
            assert_eq!(values(&group, 0..CHUNK).await, expected);
            close(&env, group).await;
            let group = again(&env, Mutations::default()).await;
            assert_eq!(values(&group, 0..CHUNK).await, expected);
        });
    }
}

#[test]
fn without_a_chunk_to_spare_it_goes_through_the_log() {
    let host = Host::new(1);
    host.run(|env| async move {
        let mut options = with_direct(Mutations::default());
        options.limits.direct_spare = 1000;
        let group = fresh(&env, 64 << 10, options).await;
        write(&env, &group, 1, 0, LARGE).await.expect("an append");
        assert_eq!((group.status().direct_bytes, value(&group, 0).await), (0, Some(1)));
    });
}

#[test]
fn other_components_do_not_wait_and_its_own_does() {
    let host = Host::new(1);
    host.run(|env| async move {
        let group = small(&env, Mutations::default()).await;
        let order: RefCell<Vec<u64>> = RefCell::default();
        let all = [(1, ONE, 0, 80), (2, ONE, 1000, 8), (3, TWO, 0, 8)];
        let appends = all.map(|(lsn, id, start, count)| {
            let (env, group, order) = (&env, &group, &order);
            Box::pin(async move {
                write_to(env, group, id, lsn, start, count).await.expect("an append");
                order.borrow_mut().push(lsn);
            })
        });
        env::join_all(appends.into()).await;
        assert_eq!(*order.borrow(), [3, 1, 2]);
    });
}

/// Runs a load until each of some moments, cuts the power and asks what is found.
fn cut<F, G>(
    (mutations, micros): (Mutations, u64),
    load: impl Fn(Env, DiskGroup) -> F + Copy + 'static,
    check: impl Fn(Env, DiskGroup) -> G + Copy + 'static,
) where
    F: Future<Output = ()> + 'static,
    G: Future<Output = ()> + 'static,
{
    for step in 0..150 {
        let host = Host::new(step);
        let is_ready = Rc::new(Cell::new(false));
        let ready = Rc::clone(&is_ready);
        host.world.boot(host.key, move |env| {
            Box::pin(async move {
                let group = small(&env, mutations).await;
                for lsn in 0..12 {
                    write(&env, &group, lsn + 1, lsn * 8, 8).await.expect("an append");
                }
                rest(&env, &group, 12).await;
                ready.set(true);
                load(env.clone(), group).await;
                env.sleep(HOUR).await;
            })
        });
        assert!(host.world.run_until(HOUR, || is_ready.get()));
        host.world.run_for(Duration::from_micros(step * micros));
        host.world.crash(host.key);
        host.run(move |env| async move {
            let group = again(&env, mutations).await;
            group.audit().expect("books after power loss");
            check(env, group).await;
        });
    }
}

/// Whether a switch makes a story fail.
fn is_noticed(name: &str, story: fn(Mutations)) -> bool {
    let mutations = switched(&[name]);
    std::panic::catch_unwind(move || story(mutations)).is_err()
}

/// Power fails while a large write is on its way: all of it is there, or all of what was before.
fn old_or_new(mutations: Mutations) {
    let load = |env: Env, group: DiskGroup| async move {
        write(&env, &group, 40, 0, LARGE).await.expect("an append");
        write(&env, &group, 41, 0, LARGE).await.expect("an append");
    };
    cut((mutations, 10), load, |_, group| async move {
        let found = values(&group, 0..LARGE).await;
        let old = (0..LARGE).map(|sector| (sector / 8) as u32 + 1);
        let is_new = [40, 41].iter().any(|new| found.iter().all(|value| value == new));
        assert!(is_new || old.eq(found.iter().copied()), "{found:?}");
    });
}

/// What comes behind a large write is not found without it (store rule 16).
fn in_order(mutations: Mutations) {
    let load = |env: Env, group: DiskGroup| async move {
        let large = write(&env, &group, 40, 0, LARGE);
        let behind = write(&env, &group, 41, 1024, 8);
        let (large, behind) = env::join(Box::pin(large), Box::pin(behind)).await;
        large.and(behind).expect("appends");
    };
    cut((mutations, 10), load, |_, group| async move {
        if value(&group, 1024).await == Some(41) {
            assert_eq!(value(&group, 0).await, Some(40), "a hole");
        }
    });
}

/// Power fails while a staged chunk takes the place of another one (store rule 17).
fn replaced(mutations: Mutations) {
    let load = |env: Env, group: DiskGroup| async move {
        // What is left of the old chunk, two blocks, is copied.
        write(&env, &group, 40, 0, 80).await.expect("an append");
        rest(&env, &group, 40).await;
    };
    cut((mutations, 25), load, |_, group| async move {
        for sector in 0..96 {
            let found = value(&group, sector).await;
            let is_old = found == Some((sector / 8) as u32 + 1);
            assert!(is_old || sector < 80 && found == Some(40), "{found:?} at {sector}");
        }
    });
}

#[test]
fn power_loss_leaves_all_of_a_direct_write_or_nothing() {
    old_or_new(Mutations::default());
    assert!(is_noticed("record_before_data", old_or_new), "store rule 15");
}

#[test]
fn power_loss_leaves_no_hole_below_what_came_behind() {
    in_order(Mutations::default());
    assert!(is_noticed("overtake_direct", in_order), "store rule 16");
}

#[test]
fn power_loss_while_a_chunk_is_replaced_leaves_what_it_held() {
    replaced(Mutations::default());
    assert!(is_noticed("free_before_replaced", replaced), "store rule 17");
}

#[test]
fn a_chunk_that_a_durable_header_still_names_is_kept() {
    for (name, kept) in [("none", 1), ("reuse_named", 0)] {
        let host = Host::new(1);
        host.run(move |env| async move {
            let group = small(&env, switched(&[name])).await;
            for lsn in 1..=32 {
                write(&env, &group, lsn, lsn * 8, 8).await.expect("an append");
            }
            rest(&env, &group, 32).await;
            write(&env, &group, 40, 8, LARGE).await.expect("an append");
            // Its blocks are copied to the old chunk.
            rest(&env, &group, 40).await;
            assert_eq!(group.audit().expect("books").staged, kept, "store rule 18, {name}");
            write(&env, &group, 41, 0, 8).await.expect("an append");
            write(&env, &group, 42, 0, 8).await.expect("an append");
            assert_eq!(group.audit().expect("books").staged, 0);
        });
    }
}

/// A part of a block rots in the log while its old content stands in a chunk that a staged one is
/// to replace: the block is bad, and its old content does not come along.
#[test]
fn what_rots_beside_a_direct_write_does_not_come_back_as_it_was() {
    let host = Host::new(1);
    let (world, key) = (host.world.clone(), host.key);
    host.run(move |env| async move {
        let group = small(&env, Mutations::default()).await;
        for lsn in 0..12 {
            write(&env, &group, lsn + 1, lsn * 8, 8).await.expect("an append");
        }
        rest(&env, &group, 12).await;
        write(&env, &group, 40, 0, 80).await.expect("an append");
        write(&env, &group, 41, 83, 3).await.expect("an append");
        let is_part = |at: &u64| value_of(83, &world.read_raw(key, "cache", *at, 512)) == Some(41);
        let part = (LOG..world.disk_size(key, "cache")).step_by(4096).find(is_part);
        world.flip_bits(key, "cache", part.expect("it is in the log") + 100, 1);
        rest(&env, &group, 41).await;
        for sector in (0..96).filter(|sector| sector / 8 != 10) {
            let expected = if sector < 80 { 40 } else { 12 };
            assert_eq!(value(&group, sector).await, Some(expected), "sector {sector}");
        }
        let bad = group.read(ONE, SectorRange::new(80, 8)).await;
        assert!(matches!(bad, Err(GroupError::BadCrc { .. })), "{bad:?}");
        write(&env, &group, 42, 80, 8).await.expect("a repair");
        rest(&env, &group, 42).await;
        assert_eq!(value(&group, 83).await, Some(42));
        close(&env, group).await;
        let group = again(&env, Mutations::default()).await;
        assert_eq!((value(&group, 0).await, value(&group, 83).await), (Some(40), Some(42)));
    });
}

#[test]
fn a_build_without_direct_writes_finds_no_superblock_that_it_knows() {
    let host = Host::new(1);
    host.run(|env| async move {
        // As a build of before made it, and opened twice.
        let mut options = with_direct(Mutations::default());
        options.limits.direct_blocks = 1000;
        fresh(&env, 64 << 10, options.clone()).await.close().await;
        DiskGroup::open(&env, &spec(1), options).await.expect("opens").close().await;
        for kinds in [[1, 1], [8, 8]] {
            let disk = open_disk(&env, "cache").await.expect("a file");
            for (slot, kind) in format::SUPERBLOCK_SLOTS.into_iter().zip(kinds) {
                let page = disk.read(slot, env.buf(4096)).await.expect("a page");
                assert_eq!(page[6], kind);
            }
            drop(disk);
            again(&env, Mutations::default()).await.close().await;
        }
    });
}
