// SPDX-License-Identifier: Apache-2.0
//! What the groups of a host hold in memory stays within what the host gives them.

use super::scenarios::{Host, ONE, write_to};
use super::*;
use crate::devices::out::Tolerance;
use crate::{CreateSizes, MemoryParts, StoreMemory};
use env::join_all;

const PAGE: u64 = 4096;
const SEGMENT: u64 = 64 << 10;

fn spec_of(name: &str, devices: usize) -> GroupSpec {
    let capacity = (0..devices).map(|n| format!("{name}-capacity{n}")).collect();
    GroupSpec { cache: format!("{name}-cache"), capacity }
}

async fn make(env: &Env, name: &str, devices: usize, capacity: u64) {
    let (spec, sizes) = (spec_of(name, devices), CreateSizes { cache: 4 << 20, capacity });
    let id = GroupId(env.random());
    let made = DiskGroup::format_with(env, &spec, Some(sizes), false, id, SEGMENT).await;
    made.expect("new files");
}

async fn open_of(
    env: &Env,
    name: &str,
    devices: usize,
    memory: &StoreMemory,
) -> Result<DiskGroup, GroupError> {
    // Checkpoints come often: they keep pages for a while that nobody else may evict.
    let limits = GroupLimits { half_bytes: 8192, ..GroupLimits::default() };
    let options = GroupOptions { limits, ..GroupOptions::default() };
    let (spec, tolerance) = (spec_of(name, devices), Tolerance::default());
    DiskGroup::open_within(env, &spec, options, &tolerance, memory).await
}

/// Pages that groups hold, counted one by one. Those that are kept for their images are not.
fn pages_of(groups: &[&DiskGroup]) -> u64 {
    let of = |group: &&DiskGroup| {
        let state = group.shared().state.borrow();
        let pages = state.store.capacity.iter().map(|capacity| capacity.pages_held().0);
        pages.sum::<usize>() as u64
    };
    groups.iter().map(of).sum()
}

/// Holds what all open groups have against the budget.
fn check(memory: &StoreMemory, groups: &[&DiskGroup]) {
    let (budget, held, most) = memory.checksums();
    assert_eq!(held, pages_of(groups) * PAGE, "what is said is what is there");
    assert!(held <= budget && most <= budget, "{held}, at most {most}, of {budget}");
}

/// A block in each of so many chunks, destaged, and each read again at random, many at a time.
async fn use_it(env: &Env, group: &DiskGroup, chunks: u64, rng: &mut Rng, lsn: &mut u64) {
    for chunk in 0..chunks {
        *lsn += 1;
        let start = chunk * base::CHUNK_SECTORS + rng.below(256) * 8;
        write_to(env, group, ONE, *lsn, start, 8).await.expect("a write");
        group.advance_commit(ONE, Lsn::new(Term(1), *lsn));
    }
    for _ in 0..8 {
        let reads = (0..32).map(|_| {
            let start = rng.below(chunks) * base::CHUNK_SECTORS + rng.below(256) * 8;
            let group = group.clone();
            async move { drop(group.read(ONE, SectorRange::new(start, 8)).await.expect("read")) }
        });
        join_all(reads.collect::<Vec<_>>().into_iter().map(Box::pin).collect()).await;
    }
    while group.status().buffer_fill > 0.0 {
        env.sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn pages_of_all_groups_stay_within_the_hosts_budget() {
    Host::new(51).run(|env| async move {
        let (chunks, devices) = (150, [1, 2, 1]);
        for (name, devices) in ["a", "b", "c"].into_iter().zip(devices) {
            make(&env, name, devices, 200 << 20).await;
        }
        let memory = StoreMemory::new(44 * PAGE, u64::MAX);
        let (mut rng, mut lsn) = (Rng::stream(1, 1), 0);
        let mut groups = Vec::new();
        for (name, devices) in ["a", "b"].into_iter().zip(devices) {
            let group = open_of(&env, name, devices, &memory).await.expect("there is room");
            group
                .create_component(ONE, ObjectId(9), chunks * base::CHUNK_SECTORS)
                .await
                .expect("new");
            group.set_active(ONE, true);
            group.drain_buffer(true);
            use_it(&env, &group, chunks, &mut rng, &mut lsn).await;
            groups.push(group);
            check(&memory, &groups.iter().collect::<Vec<_>>());
        }
        let [a, b] = &groups[..] else { unreachable!() };
        assert!(pages_of(&[a, b]) > 20, "well filled: {} pages", pages_of(&[a, b]));
        // The one that comes has not asked for a page yet, and the others have given up theirs.
        let before = pages_of(&[a, b]);
        let c = open_of(&env, "c", 1, &memory).await.expect("there is room");
        assert!(pages_of(&[a, b]) < before, "{before} pages, and there is one more group");
        check(&memory, &[a, b, &c]);
        c.create_component(ONE, ObjectId(9), chunks * base::CHUNK_SECTORS).await.expect("new");
        c.set_active(ONE, true);
        c.drain_buffer(true);
        for group in [a, &c, b, a] {
            use_it(&env, group, chunks, &mut rng, &mut lsn).await;
            check(&memory, &[a, b, &c]);
        }
        c.close().await;
        let last = pages_of(&[a, b]);
        drop(c);
        assert_eq!(memory.checksums().1, last * PAGE, "who goes gives back what it had");
        use_it(&env, a, chunks, &mut rng, &mut lsn).await;
        check(&memory, &[a, b]);
        let (budget, _, most) = memory.checksums();
        assert!(most > budget * 3 / 4, "{most} of {budget}: nothing was put to the test");
    });
}

/// Nobody waits for a page that somebody else holds: groups whose devices have one each go on, with
/// many readers, destage and checkpoints beside each other.
#[test]
fn one_page_for_each_device_is_enough() {
    Host::new(54).run(|env| async move {
        let memory = StoreMemory::new(2 * PAGE, u64::MAX);
        let mut groups = Vec::new();
        for name in ["a", "b"] {
            make(&env, name, 1, 200 << 20).await;
            let group = open_of(&env, name, 1, &memory).await.expect("there is room");
            group.create_component(ONE, ObjectId(9), 60 * base::CHUNK_SECTORS).await.expect("new");
            group.set_active(ONE, true);
            group.drain_buffer(true);
            groups.push(group);
        }
        let [a, b] = &groups[..] else { unreachable!() };
        for round in 0..3 {
            let use_both = [(a, 1), (b, 2)].map(|(group, salt)| {
                let env = &env;
                Box::pin(async move {
                    let (mut rng, mut lsn) = (Rng::stream(round, salt), round * 60);
                    use_it(env, group, 60, &mut rng, &mut lsn).await;
                })
            });
            join_all(use_both.into()).await;
            check(&memory, &[a, b]);
        }
        assert_eq!(memory.checksums().2, 2 * PAGE, "both were in use");
        for group in [a, b] {
            assert!(group.status().requests.pages_written > 0, "checkpoints went on beside it");
        }
    });
}

#[test]
fn what_a_group_holds_is_what_it_said_it_needs() {
    Host::new(52).run(|env| async move {
        let memory = StoreMemory::new(1 << 20, u64::MAX);
        make(&env, "a", 2, 200 << 20).await;
        let group = open_of(&env, "a", 2, &memory).await.expect("there is room");
        group.create_component(ONE, ObjectId(9), 300 * base::CHUNK_SECTORS).await.expect("new");
        group.set_active(ONE, true);
        let (mut rng, mut lsn) = (Rng::stream(2, 1), 0);
        let needed = group.memory_needed();
        assert_eq!(memory.needed(), needed);
        for round in 0..4 {
            group.drain_buffer(true);
            use_it(&env, &group, 190, &mut rng, &mut lsn).await;
            let used = group.memory_used();
            let parts = [(used.buffers, needed.buffers), (used.maps, needed.maps)];
            assert!(parts.iter().all(|(used, needed)| used <= needed), "{round}: {used:?}");
            assert!(used.buffers * 4 > needed.buffers, "{used:?}, {needed:?}");
            // A journal with room for all that may be pending is most of the other part.
            assert!(used.maps > 2 * 190 * 17, "{used:?}, {needed:?}");
        }
    });
}

#[test]
fn a_group_whose_tables_have_no_room_is_refused_and_nothing_is_written() {
    Host::new(53).run(|env| async move {
        make(&env, "a", 1, 200 << 20).await;
        let roomy = StoreMemory::new(1 << 20, u64::MAX);
        let group = open_of(&env, "a", 1, &roomy).await.expect("there is room");
        let needed = group.memory_needed();
        group.close().await;
        drop(group);
        assert_eq!(roomy.needed(), MemoryParts::default());

        let tight = StoreMemory::new(1 << 20, needed.sum() - 1);
        let refused = open_of(&env, "a", 1, &tight).await.err().expect("a byte is missing");
        assert!(matches!(refused, GroupError::NoMemory { .. }), "{refused}");
        let fits = StoreMemory::new(1 << 20, needed.sum());
        let group = open_of(&env, "a", 1, &fits).await.expect("it fits, and its devices are free");

        // Another one is not even formatted, and no device is added.
        let (spec, shape) = (spec_of("b", 1), crate::GroupShape::from(SEGMENT));
        let sizes = CreateSizes { cache: 4 << 20, capacity: 100 << 20 };
        let made = async |memory: &StoreMemory| {
            let id = (GroupId(7), shape);
            DiskGroup::format_within(&env, &spec, Some(sizes), false, id, memory).await
        };
        let refused = made(&fits).await.expect_err("no byte is left");
        assert!(matches!(refused, GroupError::NoMemory { left: 0, .. }), "{refused}");
        made(&roomy).await.expect("nothing stands there");
        group.close().await;
        drop(group);
        let more = spec_of("a", 2);
        let add = async |memory: &StoreMemory| {
            DiskGroup::add_capacity(&env, &more, Some(100 << 20), false, (memory, needed)).await
        };
        let refused = add(&fits).await.expect_err("no byte is left");
        assert!(matches!(refused, GroupError::NoMemory { .. }), "{refused}");
        let group = open_of(&env, "a", 1, &fits).await.expect("as it was");
        group.close().await;
        drop(group);
        add(&roomy).await.expect("nothing stands there");
        drop(open_of(&env, "a", 2, &roomy).await.expect("with one more device"));
    });
}
