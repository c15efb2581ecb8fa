// SPDX-License-Identifier: Apache-2.0
//! Tests that the world behaves as its documentation says.

mod around;
mod calls;
mod calm;
mod disk;
mod loose;
mod modelled;

use crate::{DiskFreedom, DiskModel, HostKey, Latency, NetModel, World, WorldOptions};
use base::Instant;
use env::{Address, Disk, Durability, Env, IoError, Link, OpenDisk, Slice, conformance};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const PATH: &str = "disk";

fn ip(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
}

fn at(last: u8, port: u16) -> Address {
    Address::Tcp(SocketAddr::new(ip(last), port))
}

fn world(seed: u64) -> World {
    World::new(WorldOptions { seed, ..WorldOptions::default() })
}

/// Whether the devices of [`any_world`] take all the freedom that they have.
fn is_loose(seed: u64) -> bool {
    !seed.is_multiple_of(2)
}

/// A world whose devices are free in every other seed.
fn any_world(seed: u64) -> World {
    if is_loose(seed) { loose::world(seed) } else { world(seed) }
}

fn hosts(world: &World, count: u8) -> Vec<HostKey> {
    (1..=count).map(|n| world.add_host(&format!("h{n}"), ip(n))).collect()
}

/// Runs `main` on `host` to its end.
fn finish<F: Future<Output = ()> + 'static>(
    world: &World,
    host: HostKey,
    main: impl FnOnce(Env) -> F + 'static,
) {
    world.boot(host, |env| Box::pin(main(env)));
    assert!(world.run_until(HOUR, || world.is_finished(host)), "seed {}", world.seed());
}

fn is_all(block: &[u8], byte: u8) -> bool {
    block.iter().all(|b| *b == byte)
}

async fn open(env: &Env) -> Disk {
    let options = OpenDisk { path: PATH.to_owned(), create: Some(1 << 20) };
    env.open_disk(options).await.expect("the disk opens")
}

fn filled(env: &Env, len: usize, byte: u8) -> Slice {
    let mut buf = env.buf(len);
    buf.fill(byte);
    buf.freeze()
}

/// A world with slow disks and links, little room on links, and many partial receives.
fn hostile() -> WorldOptions {
    WorldOptions {
        disk: DiskModel {
            write_cached: Latency::micros(1, 100_000, 1_000_000_000),
            channels: 3,
            tail_ppm: 500_000,
            ..DiskModel::default()
        },
        net: NetModel {
            remote: Latency::micros(1, 10_000, 1_000_000),
            local: Latency::micros(1, 1000, 100_000_000),
            window: 20_011, // the suite sends 10,000 bytes before it receives
            partial_ppm: 900_000,
            ..NetModel::default()
        },
        ..WorldOptions::default()
    }
}

#[test]
fn the_driver_conforms() {
    for seed in 0..12 {
        let mut options = if seed % 4 == 3 { hostile() } else { WorldOptions::default() };
        options.disk.freedom = DiskFreedom { is_loose: seed >= 6, ..DiskFreedom::default() };
        let world = World::new(WorldOptions { seed, ..options });
        let host = hosts(&world, 1)[0];
        finish(&world, host, |env| async move {
            conformance::disk(&env, PATH).await;
            conformance::timers(&env).await;
            let unix = Address::Unix("socket".to_owned());
            conformance::network(&env, unix, at(1, 0)).await;
        });
    }
}

async fn echo(env: Env, port: u16) {
    let listener = env.listen(at(1, port)).await.expect("a free port");
    let tasks = env::TaskSet::default();
    loop {
        let link = listener.accept().await.expect("a caller");
        let env2 = env.clone();
        tasks.spawn(&env, "echo", async move {
            while let Ok((buf, count @ 1..)) = link.recv(env2.buf(8192), 0).await {
                if link.send(buf.freeze().slice(0..count)).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// Sends `len` bytes and waits until all of them have come back.
async fn ask(env: &Env, link: &Link, len: usize) -> Result<(), IoError> {
    link.send(filled(env, len, 5)).await?;
    let (mut into, mut done) = (env.buf(len), 0);
    while done < len {
        let (buf, count) = link.recv(into, done).await?;
        if count == 0 {
            return Err(IoError::Closed);
        }
        (into, done) = (buf, done + count);
    }
    assert!(is_all(&into, 5), "what came back is what was sent");
    Ok(())
}

/// What a question brought, and when; `None` if it has not ended.
type Outcome = Option<(Result<(), IoError>, Duration)>;

/// Runs a server on the first host and a client on the second. The client asks a first question at
/// once, and a second one after 1 s. `between` acts after 0.5 s, `after` 10 s later. Returns what
/// the second question brought.
fn second_question(
    seed: u64,
    between: impl FnOnce(&World, &[HostKey]),
    after: impl FnOnce(&World, &[HostKey]),
) -> (World, Outcome) {
    let world = world(seed);
    let hosts = hosts(&world, 2);
    world.boot(hosts[0], |env| Box::pin(echo(env, 7)));
    let outcome = Rc::new(RefCell::new(None));
    let place = Rc::clone(&outcome);
    world.boot(hosts[1], |env| {
        Box::pin(async move {
            env.sleep(Duration::from_millis(5)).await;
            let start = env.now();
            let link = env.dial(at(1, 7)).await.expect("the server is there");
            ask(&env, &link, 50_000).await.expect("an answer");
            env.sleep_until(start + Duration::from_secs(1)).await;
            let result = ask(&env, &link, 50_000).await;
            *place.borrow_mut() = Some((result, env.now().since(start)));
        })
    });
    world.run_for(Duration::from_millis(500));
    between(&world, &hosts);
    world.run_for(Duration::from_secs(10));
    after(&world, &hosts);
    world.run_for(Duration::from_secs(10));
    let outcome = outcome.borrow_mut().take();
    (world, outcome)
}

#[test]
fn over_a_partition_nothing_arrives_until_it_heals() {
    let (mut late, mut reset) = (0, 0);
    for seed in 0..30 {
        let cut = |w: &World, h: &[HostKey]| w.partition(h[0], h[1], true);
        assert_eq!(second_question(seed, cut, |_, _| {}).1, None, "seed {seed}: nobody answers");
        let one_way = |w: &World, h: &[HostKey]| w.cut_one_way(h[0], h[1], true);
        assert_eq!(second_question(seed, one_way, |_, _| {}).1, None, "seed {seed}: one way");
        match second_question(seed, cut, |w, _| w.heal_all()).1 {
            Some((Ok(()), when)) if when > Duration::from_secs(10) => late += 1,
            Some((Err(IoError::Reset), when)) if when > Duration::from_secs(10) => reset += 1,
            other => panic!("seed {seed}: after the heal came {other:?}"),
        }
    }
    assert!(late > 3 && reset > 3, "late {late}, reset {reset}");
}

#[test]
fn a_dead_peer_is_reset_or_silent() {
    let (mut reset, mut silent, mut told_after_boot) = (0, 0, 0);
    for seed in 0..40 {
        let kill = |w: &World, h: &[HostKey]| w.kill(h[0]);
        let outcome = second_question(seed, kill, |_, _| {}).1;
        assert_eq!(outcome.map(|o| o.0), Some(Err(IoError::Reset)), "seed {seed}: killed");
        let crash = |w: &World, h: &[HostKey]| w.crash(h[0]);
        match second_question(seed, crash, |_, _| {}).1 {
            Some((Err(IoError::Reset), _)) => reset += 1,
            None => silent += 1,
            other => panic!("seed {seed}: a crashed peer brought {other:?}"),
        }
        let boot = |w: &World, h: &[HostKey]| w.boot(h[0], |env| Box::pin(echo(env, 7)));
        match second_question(seed, crash, boot).1 {
            Some((Err(IoError::Reset), _)) => told_after_boot += 1,
            other => panic!("seed {seed}: a rebooted peer brought {other:?}"),
        }
    }
    assert!(reset > 5 && silent > 5, "reset {reset}, silent {silent}");
    assert_eq!(told_after_boot, 40, "a machine that is back knows nothing of old links");
}

#[test]
fn resets_and_clogs_do_what_they_say() {
    for seed in 0..10 {
        let reset = |w: &World, h: &[HostKey]| w.reset_links(h[0], h[1]);
        let outcome = second_question(seed, reset, |_, _| {}).1;
        assert_eq!(outcome.map(|o| o.0), Some(Err(IoError::Reset)), "seed {seed}");
        let clog = |w: &World, h: &[HostKey]| w.clog(h[0], h[1], Duration::from_secs(1));
        let Some((Ok(()), when)) = second_question(seed, clog, |_, _| {}).1 else {
            panic!("seed {seed}: a clogged link still works")
        };
        assert!(when >= Duration::from_secs(3), "there and back took {when:?}");
    }
}

#[test]
fn dials_are_refused_by_a_live_machine_and_hang_or_fail_at_a_dead_one() {
    let (mut hang, mut fail) = (0, 0);
    for seed in 0..40 {
        let world = world(seed);
        let hosts = hosts(&world, 2);
        let (outcome, place) = {
            let outcome = Rc::new(RefCell::new(Vec::new()));
            (Rc::clone(&outcome), outcome)
        };
        world.boot(hosts[0], |env| Box::pin(echo(env, 7)));
        world.run_for(Duration::from_millis(1));
        world.kill(hosts[0]);
        let dialler = move |env: Env| async move {
            let dial = env.timeout(Duration::from_secs(30), env.dial(at(1, 7))).await;
            place.borrow_mut().push(dial.map(|link| link.err()).ok());
        };
        let again = dialler.clone();
        finish(&world, hosts[1], dialler);
        world.crash(hosts[0]);
        world.kill(hosts[1]);
        finish(&world, hosts[1], again);
        let seen = outcome.borrow();
        assert_eq!(seen[0], Some(Some(IoError::Refused)), "seed {seed}");
        match &seen[1] {
            None => hang += 1,
            Some(Some(IoError::Refused | IoError::Reset)) => fail += 1,
            other => panic!("seed {seed}: dialling a dead machine brought {other:?}"),
        }
    }
    assert!(hang > 5 && fail > 5, "hang {hang}, fail {fail}");
}

#[test]
fn clocks_drift_and_pauses_stop_a_host_but_not_its_clock() {
    let world = world(1);
    let hosts = hosts(&world, 2);
    let ticks = [Rc::new(Cell::new(0)), Rc::new(Cell::new(0))];
    for (host, ticks) in hosts.iter().zip(ticks.clone()) {
        world.boot(*host, |env| {
            Box::pin(async move {
                loop {
                    env.sleep(Duration::from_millis(1)).await;
                    ticks.set(ticks.get() + 1);
                }
            })
        });
    }
    world.run_for(Duration::from_millis(10));
    world.clock_drift(hosts[0], 100_000);
    let (before, at) = ([ticks[0].get(), ticks[1].get()], world.now());
    world.run_for(Duration::from_secs(1));
    let passed = [ticks[0].get() - before[0], ticks[1].get() - before[1]];
    assert!((1098..=1101).contains(&passed[0]), "a fast clock ticked {} times", passed[0]);
    assert!((999..=1001).contains(&passed[1]), "an exact clock ticked {} times", passed[1]);
    assert_eq!(world.now(), at + Duration::from_secs(1));

    let Some(env) = world.env(hosts[1]) else { panic!("it is up") };
    let (before, then) = (ticks[1].get(), env.now());
    world.pause(hosts[1], Duration::from_millis(500));
    world.run_for(Duration::from_millis(499));
    assert_eq!(ticks[1].get(), before, "a paused host does nothing");
    world.run_for(Duration::from_millis(3));
    assert!(env.now().since(then) >= Duration::from_millis(500), "its clock went on");
    assert!(ticks[1].get() > before, "it goes on");
}

/// Runs writes, flushes and questions, with crashes and a partition. Returns the digest of it all.
fn campaign(seed: u64) -> (u64, crate::WorldStats, Instant) {
    let world = world(seed);
    let hosts = hosts(&world, 3);
    world.boot(hosts[0], |env| Box::pin(echo(env, 7)));
    for host in &hosts[1..] {
        world.boot(*host, |env| {
            Box::pin(async move {
                let disk = open(&env).await;
                for round in 0.. {
                    let offset = env.random() % 256 * 4096;
                    let byte = env.random() as u8;
                    let write = disk.write(offset, filled(&env, 4096, byte), Durability::Cached);
                    drop(write.await);
                    if round % 8 == 0 {
                        drop(disk.flush().await);
                    }
                    let Ok(Ok(link)) = env.timeout(HOUR, env.dial(at(1, 7))).await else {
                        continue;
                    };
                    let asked = env.timeout(Duration::from_secs(1), ask(&env, &link, 9000)).await;
                    drop(asked);
                }
            })
        });
    }
    world.run_for(Duration::from_millis(100));
    world.partition(hosts[0], hosts[1], true);
    world.run_for(Duration::from_millis(100));
    world.crash(hosts[0]);
    world.heal_all();
    world.run_for(Duration::from_millis(100));
    world.boot(hosts[0], |env| Box::pin(echo(env, 7)));
    world.crash(hosts[2]);
    world.run_for(Duration::from_secs(2));
    (world.digest(), world.stats(), world.now())
}

#[test]
fn a_seed_decides_everything() {
    let mut digests = Vec::new();
    for seed in 0..6 {
        let (first, second) = (campaign(seed), campaign(seed));
        assert_eq!(first, second, "seed {seed} twice");
        assert!(first.1.events > 1000, "something happened: {:?}", first.1);
        digests.push(first.0);
    }
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), 6, "other seeds, other worlds");
}

#[test]
fn a_host_may_end_itself_and_the_world_goes_on() {
    let world = world(3);
    let hosts = hosts(&world, 2);
    let inner = world.clone();
    let victim = hosts[0];
    world.boot(victim, move |env| {
        Box::pin(async move {
            inner.crash(victim);
            env.sleep(HOUR).await;
        })
    });
    world.run_for(Duration::from_millis(1));
    assert!(!world.is_up(victim));
    finish(&world, hosts[1], |env| async move { env.sleep(Duration::from_secs(1)).await });
}

#[test]
#[should_panic(expected = "livelock")]
fn a_host_that_never_rests_is_told_apart_from_a_slow_one() {
    let world = world(1);
    let host = hosts(&world, 1)[0];
    world.boot(host, |env| {
        Box::pin(async move {
            loop {
                env.yield_now().await;
            }
        })
    });
    world.run_for(Duration::from_secs(1));
}

#[test]
fn the_end_of_a_world_drops_what_its_tasks_hold() {
    let held = Rc::new(());
    let world = world(1);
    let hosts = hosts(&world, 2);
    for host in &hosts {
        let mine = Rc::clone(&held);
        world.boot(*host, |env| {
            Box::pin(async move {
                let disk = open(&env).await;
                env.sleep(HOUR).await;
                drop((mine, disk));
            })
        });
    }
    world.run_for(Duration::from_secs(1));
    assert_eq!(Rc::strong_count(&held), 3);
    world.crash(hosts[0]);
    assert_eq!(Rc::strong_count(&held), 2, "a crash drops what its tasks hold");
    drop(world);
    assert_eq!(Rc::strong_count(&held), 1);
}

#[test]
fn tasks_may_take_other_hosts_down_and_up_again() {
    let world = world(2);
    let hosts = hosts(&world, 2);
    let (inner, server) = (world.clone(), hosts[0]);
    world.boot(server, |env| Box::pin(echo(env, 7)));
    finish(&world, hosts[1], move |env| async move {
        for round in 0..20 {
            let link = loop {
                match env.dial(at(1, 7)).await {
                    Ok(link) => break link,
                    Err(_) => env.sleep(Duration::from_millis(1)).await,
                }
            };
            ask(&env, &link, 20_000).await.expect("an answer");
            if round % 2 == 0 {
                inner.kill(server)
            } else {
                inner.crash(server)
            }
            inner.boot(server, |env| Box::pin(echo(env, 7)));
        }
    });
    assert_eq!((world.stats().crashes, world.stats().kills), (10, 10));
}

#[test]
fn a_sender_without_room_learns_of_the_end_that_it_missed() {
    for seed in 0..20 {
        let world = world(seed);
        let hosts = hosts(&world, 2);
        world.boot(hosts[0], |env| {
            Box::pin(async move {
                let listener = env.listen(at(1, 7)).await.expect("a free port");
                let _link = listener.accept().await.expect("a caller");
                env.sleep(HOUR).await; // reads nothing
            })
        });
        world.run_for(Duration::from_millis(1));
        let outcome = Rc::new(RefCell::new(None));
        let place = Rc::clone(&outcome);
        world.boot(hosts[1], |env| {
            Box::pin(async move {
                let link = env.dial(at(1, 7)).await.expect("the server is there");
                *place.borrow_mut() = Some(link.send(filled(&env, 1 << 20, 1)).await);
            })
        });
        world.run_for(Duration::from_secs(1));
        assert_eq!(*outcome.borrow(), None, "a link holds only so much");
        world.partition(hosts[0], hosts[1], true);
        if seed % 2 == 0 {
            world.kill(hosts[0])
        } else {
            world.crash(hosts[0])
        }
        world.run_for(Duration::from_secs(5));
        assert_eq!(*outcome.borrow(), None, "seed {seed}: the reset cannot arrive");
        if seed % 2 == 1 {
            world.boot(hosts[0], |env| Box::pin(echo(env, 7)));
        }
        world.heal_all();
        world.run_for(Duration::from_secs(5));
        assert_eq!(*outcome.borrow(), Some(Err(IoError::Reset)), "seed {seed}");
    }
}
