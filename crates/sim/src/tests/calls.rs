// SPDX-License-Identifier: Apache-2.0
//! Late calls hold up nothing but themselves.

use super::{PATH, filled, finish, hosts, open, world};
use crate::{DeviceCall, DiskFault, World};
use env::{Durability, Env, IoError, OpenDisk, Task};
use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

const LATE: Duration = Duration::from_secs(7);

fn existing(path: &str) -> OpenDisk {
    OpenDisk { path: path.to_owned(), create: None }
}

/// Runs `call` while rounds of one write and one look go to another device. Returns what `call`
/// brought, how long it took, and how long the longest of those rounds took.
async fn beside<T>(env: &Env, call: impl Future<Output = T>) -> (T, Duration, Duration) {
    let options = OpenDisk { path: "other".to_owned(), create: Some(1 << 20) };
    let other = env.open_disk(options).await.expect("the other device opens");
    let longest = Rc::new(Cell::new(Duration::ZERO));
    let (most, own) = (Rc::clone(&longest), env.clone());
    let load: Task = env.spawn("load", async move {
        loop {
            let begun = own.now();
            let write = other.write(0, filled(&own, 4096, 1), Durability::Durable);
            write.await.expect("a write");
            other.look("other").await.expect("a look");
            most.set(most.get().max(own.now().since(begun)));
        }
    });
    let begun = env.now();
    let result = call.await;
    let took = env.now().since(begun);
    drop(load);
    (result, took, longest.get())
}

/// Runs `act` in a world in which such a call takes [`LATE`].
fn late<F: Future<Output = ()> + 'static>(
    call: DeviceCall,
    act: impl FnOnce(World, Env) -> F + 'static,
) {
    let world = world(call as u64);
    let host = hosts(&world, 1)[0];
    world.call_takes(host, PATH, call, LATE);
    let own = world.clone();
    finish(&world, host, move |env| act(own, env));
    assert!(world.stats().late_calls > 0 || call == DeviceCall::Discard, "{call:?}");
}

fn check<T>((result, took, longest): (T, Duration, Duration)) -> T {
    assert!((LATE..LATE * 2).contains(&took), "{took:?}");
    assert!(longest < Duration::from_millis(50), "another device waited for {longest:?}");
    result
}

#[test]
fn each_call_takes_its_time_and_nothing_else_does() {
    late(DeviceCall::Create, |_, env| async move {
        let create = OpenDisk { path: PATH.to_owned(), create: Some(1 << 20) };
        check(beside(&env, env.open_disk(create)).await).expect("a new file");
    });
    late(DeviceCall::Open, |_, env| async move {
        drop(open(&env).await);
        check(beside(&env, env.open_disk(existing(PATH))).await).expect("it opens late");
    });
    late(DeviceCall::Look, |_, env| async move {
        let disk = open(&env).await;
        check(beside(&env, disk.look(PATH)).await).expect("it is there");
    });
    late(DeviceCall::Discard, |_, env| async move {
        let disk = open(&env).await;
        check(beside(&env, disk.discard(0, 4096)).await).expect("a discard");
        disk.read(0, env.buf(512)).await.expect("a read");
    });
    late(DeviceCall::Close, |_, env| async move {
        drop(open(&env).await);
        let again = async {
            while let Err(error) = env.open_disk(existing(PATH)).await {
                assert_eq!(error, IoError::Busy, "in use while it is being closed");
                env.sleep(Duration::from_millis(10)).await;
            }
        };
        check(beside(&env, again).await);
    });
}

#[test]
fn an_open_that_nobody_waits_for_leaves_the_device_free() {
    late(DeviceCall::Open, |world, env| async move {
        drop(open(&env).await);
        let short = env.timeout(Duration::from_secs(1), env.open_disk(existing(PATH))).await;
        assert!(short.is_err(), "it hangs");
        env.sleep(LATE).await; // it opens by now, and is closed again
        world.calls_are_well(crate::HostKey(0), PATH);
        env.open_disk(existing(PATH)).await.expect("free");
    });
}

#[test]
fn a_cleared_device_ends_what_hangs_and_a_crash_forgets_it() {
    let world = world(3);
    let host = hosts(&world, 1)[0];
    world.boot(host, |env| {
        Box::pin(async move {
            drop(open(&env).await);
            env.sleep(Duration::from_secs(1)).await;
            open(&env).await.discard(0, 4096).await.expect("a discard");
        })
    });
    world.run_for(Duration::from_millis(500));
    for call in DeviceCall::ALL {
        world.call_takes(host, PATH, call, Duration::from_secs(100_000));
    }
    world.run_for(Duration::from_secs(10));
    assert!(!world.is_finished(host), "the open hangs");
    world.disk_error(host, PATH, DiskFault::Clear);
    world.run_for(Duration::from_secs(1));
    assert!(world.is_finished(host));

    world.crash(host);
    world.call_takes(host, PATH, DeviceCall::Close, LATE);
    finish(&world, host, |env| async move { drop(open(&env).await) });
    world.crash(host);
    finish(&world, host, |env| async move {
        env.open_disk(existing(PATH)).await.expect("a close ends with its process");
    });
}
