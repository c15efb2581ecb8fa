// SPDX-License-Identifier: Apache-2.0
//! The directory in the simulated world. Without faults it passes the conformance suite. With
//! faults, no change happens that was said to be refused, and none is lost that was said to be
//! done.

use base::{LateFrame, Map, Rng};
use directory::{
    ClientOptions, Directory, DirectoryError, Entry, Expect, MemoryBackend, ServerFaults,
    Transaction, WatchEvent, conformance, serve_with,
};
use env::{Address, Env};
use sim::{HostKey, World, WorldOptions};
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

const CLIENTS: u8 = 3;
const COUNTER: &str = "/gabion/counter";
const MARKS: &str = "/gabion/marks/";

fn address() -> Address {
    Address::Tcp(SocketAddr::from((Ipv4Addr::new(10, 0, 0, 1), 2379)))
}

fn world(seed: u64) -> World {
    World::new(WorldOptions { seed, ..WorldOptions::default() })
}

fn add_host(world: &World, number: u8) -> HostKey {
    world.add_host(&format!("h{number}"), IpAddr::V4(Ipv4Addr::new(10, 0, 0, number)))
}

fn boot_server(world: &World, host: HostKey, backend: &Rc<MemoryBackend>, faults: ServerFaults) {
    let backend = Rc::clone(backend);
    world.boot(host, move |env: Env| {
        Box::pin(async move {
            let listener = env.listen(address()).await.expect("a listener");
            let end = serve_with(&env, listener, backend, faults).await;
            panic!("the server ended: {end:?}");
        })
    });
}

/// Does `work` on a host beside the server; it ends within so many seconds.
fn ends_within(seconds: u64, work: impl AsyncFnOnce(Env) + 'static) {
    let world = world(1);
    let (server, client) = (add_host(&world, 1), add_host(&world, 2));
    boot_server(&world, server, &Rc::default(), ServerFaults::default());
    let done = Rc::new(Cell::new(false));
    let flag = Rc::clone(&done);
    world.boot(client, move |env: Env| {
        Box::pin(async move {
            work(env).await;
            flag.set(true);
        })
    });
    assert!(world.run_until(Duration::from_secs(seconds), || done.get()), "it never ends");
}

#[test]
fn conformance_suite() {
    ends_within(300, async |env| {
        conformance::suite(&env, Directory::connect(&env, address())).await;
    });
}

/// The server has room for 64 watches of a connection, and drops one that asks for more.
#[test]
fn a_watch_that_was_dropped_takes_no_room() {
    ends_within(60, async |env| {
        let directory = Directory::connect(&env, address());
        for _ in 0..100 {
            let first = directory.watch("/a/").next().await;
            assert!(matches!(first, WatchEvent::Reset(_)), "{first:?}");
        }
    });
}

/// A cluster of 64 hosts with five shards each, and some to spare.
#[test]
fn hundreds_of_clients_are_served_at_once() {
    ends_within(60, async |env| {
        let clients: Vec<_> = (0..600).map(|_| Directory::connect(&env, address())).collect();
        for (number, directory) in clients.iter().enumerate() {
            let put = Transaction::new().put(format!("/a/{number}"), "1");
            assert!(directory.transact(put).await.is_ok(), "client {number}");
        }
        assert_eq!(clients[0].list("/a/").await.map(|all| all.entries.len()), Ok(600));
    });
}

/// What became of each attempt, by its mark; shared by all clients.
#[derive(Default)]
struct Ledger {
    attempts: RefCell<Map<String, Result<bool, DirectoryError>>>,
    /// Whether clients shall end.
    is_over: Cell<bool>,
    ended: Cell<u8>,
    final_listing: RefCell<Option<Map<String, Entry>>>,
    resets: Cell<u64>,
}

/// Adds to the counter by compare and swap, each attempt with a mark of its own.
async fn count(env: &Env, directory: &Directory, client: u8, ledger: &Ledger) {
    let (mut number, mut found) = (0, None);
    while !ledger.is_over.get() {
        env.sleep(Duration::from_millis(env.random() % 50)).await;
        if let Ok(newer) = directory.get(COUNTER).await {
            found = newer;
        }
        // If the directory did not answer, this is an attempt with an old value, which may be
        // refused.
        let known = found.as_ref();
        let expect = known.map_or(Expect::Absent, |e: &Entry| Expect::Revision(e.revision));
        let value = known.map_or(0, parse) + 1;
        number += 1;
        let mark = format!("{MARKS}{client}.{number}");
        let transaction = Transaction::new()
            .expect(COUNTER, expect)
            .put(COUNTER, value.to_string())
            .put(&*mark, "1");
        let begun = env.now();
        let outcome = directory.transact(transaction).await.map(|t| t.succeeded);
        let took = env.now().since(begun);
        assert!(took <= directory::CALL_TIMEOUT + Duration::from_millis(1), "it took {took:?}");
        ledger.attempts.borrow_mut().insert(mark, outcome);
    }
}

fn parse(entry: &Entry) -> u64 {
    std::str::from_utf8(&entry.value).ok().and_then(|text| text.parse().ok()).expect("a number")
}

/// Follows all changes. At the end its copy must equal a listing. Its watch keeps so few events
/// that it drops some again and again.
async fn follow(env: &Env, directory: &Directory, ledger: &Ledger) {
    let mut watch = directory.watch("/gabion/");
    let mut mirror: Option<Map<String, Entry>> = None;
    let mut last = 0;
    loop {
        let event = env.timeout(Duration::from_secs(20), watch.next()).await;
        match event {
            Ok(WatchEvent::Reset(listing)) => {
                assert!(listing.revision >= last, "a reset never goes back");
                last = listing.revision;
                mirror = Some(listing.entries.into_iter().collect());
                ledger.resets.set(ledger.resets.get() + 1);
            }
            Ok(WatchEvent::Put(key, entry)) => {
                assert!(entry.revision >= last, "events never go back");
                last = entry.revision;
                mirror.as_mut().expect("a reset first").insert(key, entry);
            }
            Ok(WatchEvent::Delete(key, revision)) => {
                assert!(revision >= last, "events never go back");
                last = revision;
                mirror.as_mut().expect("a reset first").remove(&key);
            }
            // No event for a long time: the clients have ended, and every gap is closed.
            Err(_) if ledger.is_over.get() => break,
            Err(_) => {}
        }
    }
    let listing = directory.list("/gabion/").await.expect("the faults are over");
    let listed: Map<_, _> = listing.entries.into_iter().collect();
    assert_eq!(mirror.as_ref(), Some(&listed), "the watch missed something");
    *ledger.final_listing.borrow_mut() = Some(listed);
}

/// A key whose lease is kept never vanishes, whatever fails for less than its time to live.
async fn keep_alive(env: &Env, directory: &Directory, key: &str, ledger: &Ledger) {
    let ttl = Duration::from_secs(30);
    while !ledger.is_over.get() {
        let begun = env.now();
        let Ok(lease) = directory.lease_grant(ttl).await else { continue };
        let put = Transaction::new().put_leased(key, "1", lease);
        if directory.transact(put).await.is_err() {
            continue;
        }
        while !ledger.is_over.get() && env.now().since(begun) < ttl - Duration::from_secs(4) {
            env.sleep(Duration::from_millis(300)).await;
            if let Ok(entry) = directory.get(key).await {
                assert!(entry.is_some(), "a lease ended early");
            }
        }
    }
}

/// The one that follows all changes keeps few of them, so that its watch falls behind.
fn options_of(number: u8) -> ClientOptions {
    ClientOptions { watch_events: if number == 0 { 2 } else { directory::WATCH_EVENTS_MAX } }
}

fn run_with_faults(seed: u64) -> Rc<Ledger> {
    let mut rng = Rng::stream(seed, 1);
    let faults = ServerFaults {
        drop_before_ppm: rng.below(50_000),
        drop_after_ppm: rng.below(50_000),
        late_ppm: rng.below(100_000),
        late_max: Duration::from_secs(5),
        compact_ppm: rng.below(100_000),
        expiry_late_max: Duration::from_secs(10),
        lose_lease_ppm: 20_000,
    };
    let world = world(seed);
    let server = add_host(&world, 1);
    let backend = Rc::default();
    boot_server(&world, server, &backend, faults);
    let ledger = Rc::new(Ledger::default());
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let host = add_host(&world, number + 2);
        clients.push(host);
        let ledger = Rc::clone(&ledger);
        world.boot(host, move |env: Env| {
            Box::pin(async move {
                let directory = Directory::connect_with(&env, address(), options_of(number));
                let alive = format!("/gabion/alive/{number}");
                match number {
                    0 => follow(&env, &directory, &ledger).await,
                    _ => {
                        let work = count(&env, &directory, number, &ledger);
                        let lease = keep_alive(&env, &directory, &alive, &ledger);
                        env::join_all(vec![boxed(work), boxed(lease)]).await;
                    }
                }
                ledger.ended.set(ledger.ended.get() + 1);
            })
        });
    }
    for _ in 0..20 {
        for frame in LateFrame::ALL.iter().filter(|_| seed % 2 == 1) {
            world.late_frames(server, *frame, Duration::from_secs(4)); // until the next heal
        }
        world.run_for(Duration::from_millis(rng.below(3000)));
        let client = clients[usize::try_from(rng.below(3)).expect("small")];
        match rng.below(4) {
            0 => {
                world.crash(server);
                world.run_for(Duration::from_millis(rng.below(4000)));
                boot_server(&world, server, &backend, faults);
            }
            1 => {
                world.partition(server, client, true);
                world.run_for(Duration::from_millis(rng.below(5000)));
                world.heal_all();
            }
            2 => world.reset_links(server, client),
            _ => world.clog(server, client, Duration::from_millis(rng.below(300))),
        }
    }
    world.crash(server);
    world.heal_all();
    // At the end only gaps in the history: a reset after them would hide what a watch missed.
    let gaps = ServerFaults { compact_ppm: 100_000, ..ServerFaults::default() };
    boot_server(&world, server, &backend, gaps);
    world.run_for(Duration::from_secs(3));
    ledger.is_over.set(true);
    let end = || ledger.ended.get() == CLIENTS;
    assert!(world.run_until(Duration::from_secs(300), end), "seed {seed}: somebody never ends");
    ledger
}

type Boxed<'a> = std::pin::Pin<Box<dyn Future<Output = ()> + 'a>>;

fn boxed<'a>(future: impl Future<Output = ()> + 'a) -> Boxed<'a> {
    Box::pin(future)
}

#[test]
fn under_faults_every_answer_is_true() {
    let (mut seen, mut resets) = (Map::<String, u64>::new(), 0);
    for seed in 0..20 {
        let ledger = run_with_faults(seed);
        let listing = ledger.final_listing.borrow();
        let listing = listing.as_ref().expect("the follower ended");
        for (mark, outcome) in ledger.attempts.borrow().iter() {
            let is_there = listing.contains_key(mark);
            match outcome {
                Ok(true) => assert!(is_there, "seed {seed}: {mark} was acknowledged and lost"),
                Ok(false) | Err(DirectoryError::Unavailable) => {
                    assert!(!is_there, "seed {seed}: {mark} was refused and happened");
                }
                Err(DirectoryError::Unknown) => {}
                Err(error) => panic!("seed {seed}: {mark} ended with {error}"),
            }
            let name = format!("{outcome:?}, {}", if is_there { "there" } else { "not there" });
            *seen.entry(name).or_default() += 1;
        }
        let marks = listing.keys().filter(|key| key.starts_with(MARKS)).count();
        let counter = listing.get(COUNTER).map_or(0, parse);
        assert_eq!(counter, marks as u64, "seed {seed}: each success counted once");
        resets += ledger.resets.get();
    }
    // The test is worth nothing where a kind of outcome never came.
    for outcome in [
        "Ok(true), there",
        "Ok(false), not there",
        "Err(Unavailable), not there",
        "Err(Unknown), there",
        "Err(Unknown), not there",
    ] {
        assert!(seen.contains_key(outcome), "{outcome} never came: {seen:?}");
    }
    assert!(resets > 40, "watches hardly ever began again: {resets}");
}
