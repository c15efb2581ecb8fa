// SPDX-License-Identifier: Apache-2.0
//! What a failed write left may be read for a while and go with the power (store rule 3). So before
//! the other one of two slots is written over, the slot that was read is made durable.

use super::scenarios::{Host, ONE, SIZES, format};
use super::*;
use crate::GroupKind;
use sim::DiskFault;

/// Worlds that are tried: in one of some ten the first slot that was written is the torn one.
const WORLDS: u64 = 200;

/// What is tried again and again on a device that fails all writes, and then once it is well.
type Attempt = fn(Env, Mutations) -> env::Boxed<'static, Result<(), GroupError>>;

/// A power loss that tears whatever is not durable.
fn tearing(seed: u64) -> Host {
    let mut options = WorldOptions { seed, ..WorldOptions::default() };
    let crash = &mut options.crash;
    (crash.lost_ppm, crash.torn_ppm, crash.uniform_ppm) = (0, 1_000_000, 0);
    let world = World::new(options);
    let key = world.add_host("host", IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
    Host { world, key }
}

/// The error with which an attempt ends on a device that was well again after power loss, in the
/// first world that has one.
fn first_error(device: &'static str, mutations: Mutations, attempt: Attempt) -> Option<GroupError> {
    (0..WORLDS).find_map(|seed| {
        let host = tearing(seed);
        host.run(move |env| async move {
            format(&env, false).await.expect("new files");
            let group = DiskGroup::open(&env, &spec(1), options(Mutations::default(), 1)).await;
            let group = group.expect("a new group");
            // Without one there is no row that a failed write could stop at.
            if seed % 2 == 0 {
                group.create_component(ONE, ObjectId(9), SECTORS).await.expect("a component");
            }
            group.close().await;
        });
        host.world.disk_error(host.key, device, DiskFault::FailWrites);
        for _ in 0..3 {
            host.run(move |env| async move {
                let failed = attempt(env, mutations).await;
                assert!(matches!(failed, Err(GroupError::Device { .. })), "{failed:?}");
            });
        }
        host.world.crash(host.key);
        host.world.disk_error(host.key, device, DiskFault::Clear);
        let found = Rc::new(RefCell::new(None));
        let place = Rc::clone(&found);
        host.run(move |env| async move {
            *place.borrow_mut() = attempt(env, mutations).await.err();
        });
        found.take()
    })
}

/// Nothing is lost with the rule, and something without it.
fn check(device: &'static str, attempt: Attempt) {
    let lost = first_error(device, Mutations::default(), attempt);
    assert!(lost.is_none(), "{lost:?}");
    let mutations = Mutations { trust_what_is_read: true, ..Mutations::default() };
    let lost = first_error(device, mutations, attempt);
    assert!(matches!(lost, Some(GroupError::Corrupt { .. })), "{lost:?}");
}

#[test]
fn openings_that_fail_leave_a_superblock() {
    check("cache", |env, mutations| {
        Box::pin(async move {
            let group = DiskGroup::open(&env, &spec(1), options(mutations, 1)).await?;
            group.close().await;
            Ok(())
        })
    });
}

#[test]
fn replacements_of_a_capacity_device_that_fail_leave_a_superblock() {
    let attempt: Attempt = |env, _| {
        Box::pin(
            async move { DiskGroup::replace_capacity(&env, &spec(1), 0, Some(SIZES), true).await },
        )
    };
    let lost = first_error("cache", Mutations::default(), attempt);
    assert!(lost.is_none(), "{lost:?}");
}

/// The rows of its components, then its superblocks.
#[test]
fn replacements_of_a_cache_device_that_fail_leave_rows_and_a_superblock() {
    let attempt: Attempt = |env, _| {
        Box::pin(async move {
            let shape = crate::GroupShape { kind: GroupKind::AllFlash, segment_size: 64 << 10 };
            let (spec, sizes) = (spec(1), Some(SIZES));
            DiskGroup::replace_cache_with(&env, &spec, sizes, true, shape).await.map(drop)
        })
    };
    let lost = first_error("capacity0", Mutations::default(), attempt);
    assert!(lost.is_none(), "{lost:?}");
}
