// SPDX-License-Identifier: Apache-2.0
//! Tests that the world says which faults are in force, and since when there are none.

use super::*;
use crate::{DeviceCall, DiskFault, HostCondition, PathCondition};

const SECOND: Duration = Duration::from_secs(1);

/// A world with two hosts of which the first runs since second 1 and has a disk.
fn begun() -> (World, HostKey, HostKey) {
    let world = world(1);
    let hosts = hosts(&world, 2);
    world.add_disk(hosts[0], PATH, 1 << 20);
    world.run_for(SECOND);
    world.boot(hosts[0], |_| Box::pin(std::future::pending()));
    (world, hosts[0], hosts[1])
}

fn second(at: u64) -> Instant {
    Instant(at * 1_000_000_000)
}

#[test]
fn a_host_is_sound_since_the_last_thing_that_was_done_to_it() {
    let (world, host, other) = begun();
    assert_eq!(world.condition(other), HostCondition::Off(second(0)));
    assert_eq!(world.condition(host), HostCondition::Sound(second(1)));
    world.run_for(SECOND);
    world.pause(host, 3 * SECOND);
    world.run_for(SECOND);
    assert_eq!(world.condition(host), HostCondition::Disturbed, "paused until second 5");
    world.run_for(4 * SECOND);
    assert_eq!(world.condition(host), HostCondition::Sound(second(5)));
    let faults: [&dyn Fn(); 4] = [
        &|| world.disk_error(host, PATH, DiskFault::Slow(2)),
        &|| world.disk_error(host, PATH, DiskFault::Freeze(true)),
        &|| world.disk_error(host, PATH, DiskFault::BadRange { offset: 0, len: 512 }),
        &|| world.call_takes(host, PATH, DeviceCall::Open, SECOND),
    ];
    for (fault, number) in faults.iter().zip(0..) {
        fault();
        world.run_for(SECOND);
        assert_eq!(world.condition(host), HostCondition::Disturbed, "fault {number}");
        world.disk_error(host, PATH, DiskFault::Clear);
        assert_eq!(world.condition(host), HostCondition::Sound(second(8 + number)));
    }
    world.run_for(SECOND);
    world.kill(host);
    world.run_for(SECOND);
    assert_eq!(world.condition(host), HostCondition::Off(second(12)));
}

#[test]
fn a_path_is_clear_since_the_last_thing_that_was_done_to_it() {
    let (world, a, b) = begun();
    let is = |condition| assert_eq!(world.path_condition(a, b), condition);
    is(PathCondition::Clear(second(0)));
    world.cut_one_way(b, a, true);
    is(PathCondition::Disturbed);
    world.run_for(SECOND);
    world.partition(a, b, true);
    world.run_for(SECOND);
    is(PathCondition::Cut(second(2)));
    world.heal_all();
    is(PathCondition::Clear(second(3)));
    world.run_for(SECOND);
    world.heal_all();
    is(PathCondition::Clear(second(3)));
    world.clog(a, b, SECOND);
    is(PathCondition::Disturbed);
    world.heal_all();
    is(PathCondition::Clear(second(4)));
    world.run_for(SECOND);
    world.reset_links(b, a);
    is(PathCondition::Clear(second(5)));
    world.run_for(SECOND);
    world.half_reset_links(a, b);
    is(PathCondition::Clear(second(6)));
}
