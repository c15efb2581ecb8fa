// SPDX-License-Identifier: Apache-2.0
//! What is kept on a group beside components: through crashes, rot and a lost write buffer.

use super::scenarios::{Host, ONE, open};
use super::*;
use crate::{CreateSizes, KEPT_BYTES_MAX, KEPT_MAX, KeptError};

const SIZES: CreateSizes = CreateSizes { cache: 4 << 20, capacity: 64 << 20 };

/// Of any length, each block another.
fn content(number: u64) -> Vec<u8> {
    let length = 1 + (number * 700_001) % 1_500_000;
    let word = |at: u64| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ number << 32).to_le_bytes();
    let mut bytes: Vec<u8> = (0..length / 8 + 1).flat_map(word).collect();
    bytes.truncate(length as usize);
    bytes
}

async fn fresh(env: &Env) -> DiskGroup {
    let spec = spec(1);
    let made = DiskGroup::format_with(env, &spec, Some(SIZES), false, GroupId(1), 128 << 10);
    made.await.expect("new files");
    open(env).await.expect("a new group")
}

async fn keep(group: &DiskGroup, number: u64) {
    let kept = group.keep(&content(number), 1000 + number, 0).await.expect("there is room");
    assert_eq!((kept.generation, kept.taken), (number, 1000 + number));
}

/// Generations that are there, the newest first; what can be read is what was kept.
async fn whole(group: &DiskGroup) -> Vec<u64> {
    let mut whole = Vec::new();
    for kept in group.kept().await.expect("it is open") {
        match group.read_kept(kept.generation).await {
            Ok(bytes) => {
                assert!(bytes == content(kept.generation), "{kept:?} is another one");
                assert_eq!((kept.taken, kept.length), (1000 + kept.generation, bytes.len() as u64));
                whole.push(kept.generation);
            }
            Err(KeptError::Damaged { generation }) => assert_eq!(generation, kept.generation),
            Err(error) => panic!("{error}"),
        }
    }
    whole
}

/// Until nothing is left to destage.
async fn rest(env: &Env, group: &DiskGroup) {
    group.drain_buffer(true);
    env.sleep(Duration::from_secs(20)).await;
}

#[test]
fn the_three_newest_are_kept_and_are_no_components() {
    let host = Host::new(1);
    host.run(|env| async move {
        let group = fresh(&env).await;
        assert_eq!(group.kept().await.expect("open"), []);
        for number in 1..=5 {
            keep(&group, number).await;
        }
        assert_eq!(whole(&group).await, [5, 4, 3]);
        assert!(group.components().is_empty(), "nobody takes them for a copy of something");
        let gone = group.read_kept(2).await.expect_err("it made room");
        assert!(matches!(gone, KeptError::Gone { generation: 2 }));
        let large = vec![1; KEPT_BYTES_MAX + 1];
        let error = group.keep(&large, 1, 0).await.expect_err("too large");
        assert!(error.to_string().contains("16777217"), "{error}");
        rest(&env, &group).await;
        let audit = group.audit().expect("sound");
        assert_eq!((audit.pending, audit.pins), (0, 0), "{audit:?}");
    });
    host.run(|env| async move {
        let group = open(&env).await.expect("it opens");
        assert_eq!(whole(&group).await, [5, 4, 3]);
        keep(&group, 6).await;
        let largest = vec![7; KEPT_BYTES_MAX];
        let kept = group.keep(&largest, 9, 20).await.expect("it fits");
        assert_eq!((kept.generation, kept.length), (22, KEPT_BYTES_MAX as u64));
        assert!(group.read_kept(22).await.expect("whole") == largest);
        // Smaller ones give the space back.
        for above in [30, 31, 32] {
            group.keep(&[1], 9, above).await.expect("there is room");
        }
        rest(&env, &group).await;
        assert_eq!(group.status().used_bytes, 3 << 20);
    });
}

/// Other groups of the host keep some of the backups, so the numbers of one group skip.
#[test]
fn numbers_that_skip_leave_the_two_before() {
    let host = Host::new(4);
    host.run(|env| async move {
        let group = fresh(&env).await;
        let mut before: Vec<u64> = Vec::new();
        for step in 0..40 {
            let newest = before.first().copied().unwrap_or(0);
            let above = newest + env.random() % 7;
            // The number is known after the call, the content before it.
            let bytes = content(step);
            let kept = group.keep(&bytes, 1000 + step, above).await.expect("there is room");
            assert!(kept.generation > above && kept.generation <= above + 3, "{kept:?}");
            before.insert(0, kept.generation);
            before.truncate(KEPT_MAX);
            let now = group.kept().await.expect("it is open");
            let now: Vec<u64> = now.iter().map(|kept| kept.generation).collect();
            assert_eq!(now, before, "step {step}, above {above}");
            assert!(group.read_kept(kept.generation).await.expect("whole") == bytes);
        }
    });
}

#[test]
fn power_loss_at_any_moment_leaves_the_two_before() {
    let mut seen = base::Set::new();
    for step in 0..60 {
        let host = Host::new(100 + step);
        let last = Rc::new(std::cell::Cell::new(0));
        let shared = Rc::clone(&last);
        host.world.boot(host.key, move |env| {
            Box::pin(async move {
                let group = fresh(&env).await;
                for number in 1..=4 {
                    keep(&group, number).await;
                    shared.set(number);
                }
                env.sleep(HOUR).await;
            })
        });
        assert!(host.world.run_until(HOUR, || last.get() == 3));
        host.world.run_for(Duration::from_micros(step * 250));
        let done = last.get();
        host.world.crash(host.key);
        let found = Rc::new(RefCell::new(Vec::new()));
        let place = Rc::clone(&found);
        host.run(move |env| async move {
            let group = open(&env).await.expect("it opens");
            place.replace(whole(&group).await);
            let next = place.borrow()[0] + 1;
            keep(&group, next).await;
            assert_eq!(whole(&group).await[..2], [next, place.borrow()[0]]);
            rest(&env, &group).await;
            let audit = group.audit().expect("sound");
            assert_eq!((audit.pending, audit.pins), (0, 0), "{audit:?}");
        });
        let found = found.borrow().clone();
        let is_sound = match done {
            3 => [&[3, 2, 1][..], &[3, 2], &[4, 3, 2]].contains(&&found[..]),
            _ => found == [4, 3, 2],
        };
        assert!(is_sound, "step {step}, {done} kept: {found:?}");
        seen.insert((done, found));
    }
    let has = |wanted: &[u64]| seen.iter().any(|(_, found)| found == wanted);
    assert!(has(&[3, 2]) && has(&[4, 3, 2]), "in the middle and at the end: {seen:?}");
}

#[test]
fn a_damaged_one_leaves_the_others() {
    let host = Host::new(2);
    host.run(|env| async move {
        let group = fresh(&env).await;
        for number in 1..=3 {
            keep(&group, number).await;
        }
        rest(&env, &group).await;
    });
    let newest = content(3);
    let block = &newest[8 << 10..12 << 10];
    let mut found = 0;
    for (device, size) in [("cache", SIZES.cache), ("capacity0", SIZES.capacity)] {
        let bytes = host.world.read_raw(host.key, device, 0, size as usize);
        for (at, _) in bytes.chunks(4096).enumerate().filter(|(_, found)| *found == block) {
            host.world.flip_bits(host.key, device, at as u64 * 4096 + 77, 1);
            found += 1;
        }
    }
    assert!(found > 0, "it is on a device");
    host.run(|env| async move {
        let group = open(&env).await.expect("it opens");
        assert_eq!(whole(&group).await, [2, 1]);
        keep(&group, 4).await;
        assert_eq!(whole(&group).await, [4, 2]);
    });
}

#[test]
fn a_lost_write_buffer_costs_what_it_held() {
    let host = Host::new(3);
    host.run(|env| async move {
        let group = fresh(&env).await;
        group.create_component(ONE, ObjectId(9), SECTORS).await.expect("a component");
        keep(&group, 1).await;
        keep(&group, 2).await;
        rest(&env, &group).await;
        group.drain_buffer(false);
        group.close().await;
        drop(group);
        let shape = GroupShape::from(128 << 10);
        let spec = spec(1);
        let replaced = DiskGroup::replace_cache_with(&env, &spec, None, true, shape);
        replaced.await.expect("a new cache device");
        let group = open(&env).await.expect("it opens");
        assert_eq!(group.components(), [ONE]);
        assert_eq!(whole(&group).await, [2, 1]);
        let info = group.component(crate::store::components::KEPT).expect("it is on capacity");
        assert!(!info.partial, "nobody else has what it lacks");
        for number in 3..=4 {
            keep(&group, number).await;
        }
        assert_eq!(whole(&group).await, [4, 3, 2]);
        rest(&env, &group).await;
        let audit = group.audit().expect("sound");
        assert_eq!((audit.pending, audit.pins), (0, 0), "{audit:?}");
    });
}
