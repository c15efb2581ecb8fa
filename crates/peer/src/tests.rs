// SPDX-License-Identifier: Apache-2.0
//! Links in the simulated world: order, breaks, silence, strangers and nonsense.

mod dialling;
mod late;
mod pings;
mod secure;
mod versions;

use crate::{
    Call, Class, Handler, LinkSecurity, NotReady, PeerError, PeerId, PeerOptions, Peers, Reply,
};
use base::{
    ComponentId, Incarnation, Instant, Lsn, ObjectId, Seat, SectorRange, Session, ShardId, Term,
};
use env::{Address, Env, Link, TaskSet};
use sim::{HostKey, World, WorldOptions};
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;
use tls::SimulatedAuthority;
use wire::{
    HEADER_LEN, Header, Hello, Message, OwnerId, Request, Response, Target, VERSION, Versions,
    WriteKind, crcs_of, verify,
};

const CLUSTER: u64 = 77;
const MINUTE: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;

fn ip(host: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, host as u8))
}

fn address(host: u32) -> Address {
    Address::Tcp(SocketAddr::new(ip(host), 7000))
}

/// Answers every write with its lsn: at once, late, or never. Keeps what came, in its order.
struct Recorder {
    env: Env,
    seen: Rc<RefCell<Vec<(PeerId, Lsn)>>>,
    mode: Rc<Cell<Mode>>,
    held: Rc<RefCell<Vec<(Reply, Response)>>>,
    tasks: TaskSet,
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    AtOnce,
    Late,
    Hold,
}

impl Handler for Recorder {
    fn handle(&self, from: PeerId, request: Request, reply: Reply) {
        if let Request::Renew { sent } = request {
            self.seen.borrow_mut().push((from, Lsn(sent.0)));
        }
        let Request::Write { lsn, range, crcs, payload, .. } = request else {
            return reply.send(Response::Done);
        };
        assert!(verify(range, &crcs, &payload), "the payload arrives as it was sent");
        self.seen.borrow_mut().push((from, lsn));
        let response = Response::Durable { lsn, free_chunks: 9 };
        match self.mode.get() {
            Mode::AtOnce => reply.send(response),
            Mode::Hold => self.held.borrow_mut().push((reply, response)),
            Mode::Late => {
                let pause = Duration::from_micros(self.env.random() % 3000);
                let env = self.env.clone();
                self.tasks.spawn(&self.env, "late", async move {
                    env.sleep(pause).await;
                    reply.send(response);
                });
            }
        }
    }
}

struct Node {
    key: HostKey,
    id: u32,
    peers: Rc<RefCell<Option<Peers>>>,
    seen: Rc<RefCell<Vec<(PeerId, Lsn)>>>,
    mode: Rc<Cell<Mode>>,
    held: Rc<RefCell<Vec<(Reply, Response)>>>,
    options: PeerOptions,
    security: LinkSecurity,
}

impl Node {
    fn new(world: &World, id: u32) -> Self {
        Self {
            key: world.add_host(&format!("h{id}"), ip(id)),
            id,
            peers: Rc::default(),
            seen: Rc::default(),
            mode: Rc::new(Cell::new(Mode::AtOnce)),
            held: Rc::default(),
            options: PeerOptions::default(),
            security: LinkSecurity::default(),
        }
    }

    fn boot(&self, world: &World, incarnation: u64, others: &[u32]) {
        let (id, others) = (self.id, others.to_vec());
        let options = (self.options, self.security.clone());
        let place = Rc::clone(&self.peers);
        let (seen, mode, held) = (self.seen.clone(), self.mode.clone(), self.held.clone());
        self.held.borrow_mut().clear();
        *place.borrow_mut() = None;
        let me = PeerId { shard: ShardId(id), incarnation: Incarnation(incarnation) };
        world.boot(self.key, |env| {
            Box::pin(async move {
                let (env, tasks) = (&env, TaskSet::default());
                let recorder = Rc::new(Recorder { env: env.clone(), seen, mode, held, tasks });
                let peers = Peers::with_options(env, me, CLUSTER, recorder, options);
                peers.listen(address(id)).await.expect("a free port");
                others.iter().for_each(|id| peers.set_address(ShardId(*id), address(*id)));
                *place.borrow_mut() = Some(peers);
            })
        });
    }

    fn peers(&self) -> Peers {
        self.peers.borrow().clone().expect("the host runs")
    }

    fn is_up(&self, other: u32) -> bool {
        self.peers.borrow().as_ref().is_some_and(|peers| peers.is_up(ShardId(other)))
    }
}

/// Hosts 1 and 2 with links both ways. Every third seed they are encrypted.
fn pair(seed: u64) -> (World, Node, Node) {
    let world = World::new(WorldOptions { seed, ..WorldOptions::default() });
    let (mut a, mut b) = (Node::new(&world, 1), Node::new(&world, 2));
    if seed % 3 == 1 {
        let authority = SimulatedAuthority::new();
        (a, b) = (a.known_by(&authority, true), b.known_by(&authority, true));
    }
    a.boot(&world, 1, &[2]);
    b.boot(&world, 1, &[1]);
    assert!(world.run_until(MINUTE, || a.is_up(2) && b.is_up(1)), "seed {seed}");
    (world, a, b)
}

fn write(env: &Env, number: u64, sectors: u64) -> Request {
    let range = SectorRange::new(2048 - sectors, sectors);
    let mut buf = env.buf(range.bytes() as usize);
    for (at, byte) in buf.iter_mut().enumerate() {
        *byte = ((at as u64 / 3) ^ number) as u8;
    }
    let payload = buf.freeze();
    Request::Write {
        target: Target {
            object: ObjectId(1),
            component: ComponentId(2),
            term: Term(3),
            seat: Seat(4),
            session: Session(5),
        },
        lsn: Lsn(number),
        prev: Lsn(number - 1),
        commit: Lsn::ZERO,
        range,
        kind: WriteKind::Data,
        is_copy: false,
        marks: wire::Marks::NONE,
        crcs: crcs_of(range, &payload),
        payload,
    }
}

/// What became of a call, and when.
type Outcome = Rc<RefCell<Option<(Result<Response, PeerError>, Instant)>>>;

/// Waits for a call in a task of its own.
fn follow(env: &Env, tasks: &TaskSet, call: Call) -> Outcome {
    let outcome = Outcome::default();
    let (place, env2) = (Rc::clone(&outcome), env.clone());
    tasks.spawn(env, "call", async move {
        let result = call.await;
        *place.borrow_mut() = Some((result, env2.now()));
    });
    outcome
}

fn is_durable(outcome: &Outcome, number: u64) -> bool {
    let outcome = outcome.borrow();
    matches!(&*outcome, Some((Ok(Response::Durable { lsn, .. }), _)) if lsn.0 == number)
}

fn error(outcome: &Outcome) -> Option<PeerError> {
    outcome.borrow().as_ref().and_then(|(result, _)| result.as_ref().err().copied())
}

#[test]
fn calls_arrive_in_order_and_answers_find_their_calls() {
    for seed in 0..8 {
        let (world, a, b) = pair(seed);
        b.mode.set(if seed % 2 == 0 { Mode::AtOnce } else { Mode::Late });
        let env = world.env(a.key).expect("it runs");
        let (peers, tasks) = (a.peers(), TaskSet::default());
        let mut outcomes = Vec::new();
        let mut number = 0;
        for _ in 0..40 {
            for _ in 0..env.random() % 40 {
                number += 1;
                let sectors = [1, 8, 8, 8, 31, 128, 400, 1000][(env.random() % 8) as usize];
                let call = peers.call(ShardId(2), write(&env, number, sectors));
                if number.is_multiple_of(5) {
                    drop(call); // the request is on its way all the same
                } else {
                    outcomes.push((number, follow(&env, &tasks, call)));
                }
            }
            world.run_for(Duration::from_micros(env.random() % 2000));
        }
        let done = || outcomes.iter().all(|(number, outcome)| is_durable(outcome, *number));
        assert!(world.run_until(MINUTE, done), "seed {seed}: every call is answered");
        world.run_for(Duration::from_secs(5));
        let seen: Vec<u64> = b.seen.borrow().iter().map(|(_, lsn)| lsn.0).collect();
        assert_eq!(seen, (1..=number).collect::<Vec<_>>(), "seed {seed}");
        let stats = peers.stats();
        assert!(stats.sends < stats.frames_sent, "frames are batched: {stats:?}");
        assert_eq!((stats.malformed, stats.silent, stats.unanswered), (0, 0, 0));
    }
}

#[test]
fn an_idle_link_lives() {
    let (world, a, b) = pair(3);
    world.run_for(Duration::from_secs(120));
    assert!(a.is_up(2) && b.is_up(1));
    assert_eq!(a.peers().stats().links, 2, "one link each way, never replaced");
    assert!(a.peers().silent_for(ShardId(2)) < Duration::from_secs(1));
    assert_eq!(a.peers().silent_for(ShardId(9)), Duration::MAX);
}

#[test]
fn nothing_is_reordered_or_repeated_over_broken_links() {
    for seed in 0..20 {
        let (world, a, b) = pair(seed);
        b.mode.set(Mode::Late);
        let env = world.env(a.key).expect("it runs");
        let (peers, tasks) = (a.peers(), TaskSet::default());
        let mut outcomes = Vec::new();
        for number in 1..=600 {
            let call = peers.call(ShardId(2), write(&env, number, 8));
            outcomes.push((number, follow(&env, &tasks, call)));
            if env.random().is_multiple_of(50) {
                world.reset_links(a.key, b.key);
            }
            if env.random().is_multiple_of(4) {
                world.run_for(Duration::from_micros(env.random() % 5000));
            }
        }
        let ended = || outcomes.iter().all(|(_, outcome)| outcome.borrow().is_some());
        assert!(world.run_until(MINUTE, ended), "seed {seed}: every call ends");
        let seen: Vec<u64> = b.seen.borrow().iter().map(|(_, lsn)| lsn.0).collect();
        assert!(seen.is_sorted_by(|x, y| x < y), "seed {seed}: {seen:?}");
        for (number, outcome) in &outcomes {
            let was_seen = seen.binary_search(number).is_ok();
            match error(outcome) {
                None => assert!(was_seen && is_durable(outcome, *number), "seed {seed}"),
                Some(PeerError::Reset) => {}
                Some(_) => assert!(!was_seen, "seed {seed}: {number} was surely not delivered"),
            }
        }
        assert!(world.run_until(MINUTE, || a.is_up(2)), "seed {seed}: the link comes back");
    }
}

#[test]
fn a_crashed_host_fails_its_calls_and_comes_back_as_another() {
    for seed in 0..20 {
        let (world, a, b) = pair(seed);
        b.mode.set(Mode::Hold);
        let env = world.env(a.key).expect("it runs");
        let (peers, tasks) = (a.peers(), TaskSet::default());
        let pending = follow(&env, &tasks, peers.call(ShardId(2), write(&env, 1, 8)));
        world.run_for(Duration::from_millis(10));
        assert_eq!(b.seen.borrow().len(), 1);
        world.crash(b.key);
        let ended = || pending.borrow().is_some();
        assert!(world.run_until(Duration::from_millis(2600), ended), "seed {seed}");
        assert_eq!(error(&pending), Some(PeerError::Reset));
        assert!(!peers.is_up(ShardId(2)));
        let call = follow(&env, &tasks, peers.call(ShardId(2), write(&env, 2, 8)));
        world.run_for(Duration::from_millis(1));
        assert_eq!(error(&call), Some(PeerError::Unreachable));

        b.mode.set(Mode::AtOnce);
        b.boot(&world, 2, &[1]);
        let is_back = || peers.is_up(ShardId(2)) && b.is_up(1);
        assert!(world.run_until(Duration::from_secs(5), is_back), "seed {seed}");
        assert_eq!(peers.incarnation(ShardId(2)), Some(Incarnation(2)));
        let env = world.env(a.key).expect("it runs");
        let call = follow(&env, &tasks, peers.call(ShardId(2), write(&env, 3, 8)));
        assert!(world.run_until(MINUTE, || is_durable(&call, 3)), "seed {seed}");
    }
}

#[test]
fn requests_in_flight_are_bounded_and_the_rest_waits_in_order() {
    let (world, a, b) = pair(5);
    b.mode.set(Mode::Hold);
    let env = world.env(a.key).expect("it runs");
    let (peers, tasks) = (a.peers(), TaskSet::default());
    let count = 40;
    let outcomes: Vec<_> = (1..=count)
        .map(|number| {
            let call = peers.call(ShardId(2), write(&env, number, MIB / 512));
            (number, follow(&env, &tasks, call))
        })
        .collect();
    world.run_for(Duration::from_secs(10));
    assert_eq!(b.seen.borrow().len(), 7, "8 MiB with headers is 7 requests of 1 MiB");
    assert!(a.is_up(2), "a full window is no silence");
    for _ in 0..count {
        let (reply, response) = b.held.borrow_mut().remove(0);
        reply.send(response);
        let _ = world.env(b.key);
        let held = || !b.held.borrow().is_empty();
        assert!(world.run_until(Duration::from_secs(1), held) || b.seen.borrow().len() == 40);
        assert!(b.held.borrow().len() <= 8);
    }
    let done = || outcomes.iter().all(|(number, outcome)| is_durable(outcome, *number));
    assert!(world.run_until(MINUTE, done));
    let seen: Vec<u64> = b.seen.borrow().iter().map(|(_, lsn)| lsn.0).collect();
    assert_eq!(seen, (1..=count).collect::<Vec<_>>());
}

#[test]
fn a_class_that_stands_still_holds_up_no_other() {
    let (world, a, b) = pair(5);
    b.mode.set(Mode::Hold);
    let env = world.env(a.key).expect("it runs");
    let (peers, tasks) = (a.peers(), TaskSet::default());
    for number in 1..=60 {
        drop(peers.call(ShardId(2), write(&env, number, MIB / 512)));
    }
    let Request::Write { target, range, .. } = write(&env, 1, 8) else { unreachable!() };
    let read = Request::Read { target, range };
    let list = Request::ListChanged { target, since: Lsn::ZERO, cursor: 0 };
    let outcomes = [read, list].map(|one| follow(&env, &tasks, peers.call(ShardId(2), one)));
    let done = || outcomes.iter().all(|one| one.borrow().is_some());
    assert!(world.run_until(Duration::from_secs(1), done), "behind 60 MiB of writes");
    // A resync is no reason for writes to wait either: its share is its own.
    let mut copy = write(&env, 99, 8);
    if let Request::Write { is_copy, .. } = &mut copy {
        *is_copy = true;
    }
    drop(peers.call(ShardId(2), copy));
    let _ = world.env(a.key);
    world.run_for(Duration::from_millis(100));
    assert_eq!(b.seen.borrow().last().map(|(_, lsn)| lsn.0), Some(99));
}

#[test]
fn a_sequence_keeps_its_order_and_leaves_the_queue_when_it_ends() {
    let (world, a, b) = pair(6);
    b.mode.set(Mode::Hold);
    let env = world.env(a.key).expect("it runs");
    let (peers, tasks) = (a.peers(), TaskSet::default());
    let (joining, other) = (peers.sequence(ShardId(2)), peers.sequence(ShardId(2)));
    let ask = |of: &crate::Sequence, class, number| {
        let call = of.call(class, write(&env, number, MIB / 512));
        (number, follow(&env, &tasks, call))
    };
    let mut outcomes: Vec<_> = (1..=8).map(|n| ask(&joining, Class::Resync, n)).collect();
    // From here on the joiner is required. Its frames are writes, and still come behind its copies.
    outcomes.extend((9..=10).map(|n| ask(&joining, Class::Write, n)));
    let others: Vec<_> = (11..=13).map(|n| ask(&other, Class::Resync, n)).collect();
    world.run_for(Duration::from_secs(1));
    assert_eq!(b.seen.borrow().len(), 3, "4 MiB with headers is 3 requests of 1 MiB");
    let stats = peers.stats();
    assert!(stats.waiting_bytes > 10 * MIB && stats.waiting_bytes < 11 * MIB, "{stats:?}");

    let (reply, response) = b.held.borrow_mut().remove(0);
    reply.send(response);
    world.run_for(Duration::from_secs(1));
    joining.close();
    let _ = world.env(a.key);
    // The calls fail now; who waits for them learns it in the next turn.
    assert!(peers.stats().waiting_bytes < 4 * MIB, "at once: {:?}", peers.stats());
    assert_eq!(peers.stats().withdrawn, 6);
    let late = follow(&env, &tasks, joining.call(Class::Write, write(&env, 99, 8)));
    world.run_for(Duration::from_millis(1));
    assert_eq!(error(&late), Some(PeerError::Withdrawn));
    assert!(outcomes[..4].iter().all(|(_, outcome)| error(outcome).is_none()));
    for (number, outcome) in &outcomes[4..] {
        assert_eq!(error(outcome), Some(PeerError::Withdrawn), "{number}");
    }
    while !others.iter().all(|(number, outcome)| is_durable(outcome, *number)) {
        let held = std::mem::take(&mut *b.held.borrow_mut());
        held.into_iter().for_each(|(reply, response)| reply.send(response));
        let _ = world.env(b.key);
        world.run_for(Duration::from_millis(100));
    }
    let seen: Vec<u64> = b.seen.borrow().iter().map(|(_, lsn)| lsn.0).collect();
    assert_eq!(seen, [1, 2, 3, 4, 11, 12, 13]);
    assert_eq!(peers.stats().waiting_bytes, 0);
}

#[test]
fn a_sequence_that_changes_its_class_keeps_its_order() {
    let (world, a, b) = pair(7);
    b.mode.set(Mode::Late);
    let env = world.env(a.key).expect("it runs");
    let peers = a.peers();
    let of = peers.sequence(ShardId(2));
    for number in 1..=300 {
        let class = if (number / 20) % 2 == 0 { Class::Resync } else { Class::Write };
        drop(of.call(class, write(&env, number, [8, 500][(number % 2) as usize])));
    }
    assert!(world.run_until(MINUTE, || b.seen.borrow().len() == 300));
    let seen: Vec<u64> = b.seen.borrow().iter().map(|(_, lsn)| lsn.0).collect();
    assert!(seen.is_sorted(), "{seen:?}");
}

#[test]
fn what_waits_is_bounded_in_bytes_and_the_rest_is_refused() {
    let (world, a, b) = pair(8);
    b.mode.set(Mode::Hold);
    let env = world.env(a.key).expect("it runs");
    let (peers, tasks) = (a.peers(), TaskSet::default());
    let one = write(&env, 1, MIB / 512);
    let outcomes: Vec<_> =
        (0..150).map(|_| follow(&env, &tasks, peers.call(ShardId(2), one.clone()))).collect();
    world.run_for(Duration::from_millis(10));
    let refused = |outcome: &&Outcome| error(outcome) == Some(PeerError::Overloaded);
    let count = outcomes.iter().filter(refused).count();
    assert_eq!(count, 150 - 7 - 127, "half of 256 MiB may wait");
    assert!(peers.stats().waiting_bytes_peak <= PeerOptions::default().waiting_bytes_max / 2);
    world.kill(b.key);
    assert!(world.run_until(MINUTE, || !a.is_up(2)));
    assert_eq!(peers.stats().waiting_bytes, 0, "a link that is over keeps nothing");
}

#[test]
fn a_call_to_the_own_host_is_handled_before_it_returns() {
    let (world, a, _b) = pair(1);
    let env = world.env(a.key).expect("it runs");
    let tasks = TaskSet::default();
    a.mode.set(Mode::Late);
    let call = a.peers().call(ShardId(1), write(&env, 42, 8));
    let me = a.peers().me();
    assert_eq!(*a.seen.borrow(), [(me, Lsn(42))]);
    let outcome = follow(&env, &tasks, call);
    assert!(world.run_until(MINUTE, || is_durable(&outcome, 42)));
}

/// A link to host 2 made by hand: what came back until it was closed.
fn by_hand(seed: u64, frames: Vec<Vec<u8>>) -> (Peers, Vec<u8>, bool) {
    by_hand_to(seed, (Mode::AtOnce, PeerOptions::default()), frames)
}

fn by_hand_to(
    seed: u64,
    (mode, options): (Mode, PeerOptions),
    frames: Vec<Vec<u8>>,
) -> (Peers, Vec<u8>, bool) {
    let world = World::new(WorldOptions { seed, ..WorldOptions::default() });
    let (a, mut b) = (Node::new(&world, 1), Node::new(&world, 2));
    b.options = options;
    b.mode.set(mode);
    b.boot(&world, 1, &[]);
    let heard: Rc<RefCell<(Vec<u8>, bool)>> = Rc::default();
    let place = Rc::clone(&heard);
    world.run_for(Duration::from_millis(1));
    world.boot(a.key, |env| {
        Box::pin(async move {
            let link = env.dial(address(2)).await.expect("it listens");
            for frame in frames {
                let mut buf = env.buf(frame.len());
                buf.copy_from_slice(&frame);
                let _ = link.send(buf.freeze()).await;
            }
            listen(&env, &link, &place).await;
        })
    });
    world.run_for(Duration::from_secs(1));
    let (bytes, was_closed) = heard.take();
    (b.peers(), bytes, was_closed)
}

async fn listen(env: &Env, link: &Link, place: &RefCell<(Vec<u8>, bool)>) {
    while let Ok((buf, count @ 1..)) = link.recv(env.buf(4096), 0).await {
        place.borrow_mut().0.extend_from_slice(&buf[..count]);
    }
    place.borrow_mut().1 = true;
}

fn frame(message: &Message) -> Vec<u8> {
    frame_of(VERSION, message)
}

fn frame_of(version: u8, message: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    wire::encode(message, Some(version), 0, &mut out);
    out
}

fn hello(cluster: u64, host: u32, incarnation: u64) -> Vec<u8> {
    hello_of(Versions::SPOKEN, cluster, host, incarnation)
}

fn hello_of(versions: Versions, cluster: u64, host: u32, incarnation: u64) -> Vec<u8> {
    let me = OwnerId { shard: ShardId(host), incarnation: Incarnation(incarnation) };
    frame(&Message::Hello(Hello { cluster, me, versions }))
}

#[test]
fn nonsense_ends_the_link_and_is_counted() {
    let good = hello(CLUSTER, 1, 1);
    let (peers, bytes, was_closed) = by_hand(1, vec![good.clone(), frame(&Message::Ping)]);
    assert!(!was_closed);
    assert_eq!(peers.stats().malformed, 0);
    let header = bytes.first_chunk::<HEADER_LEN>().expect("an introduction");
    let length = Header::decode(header, None).expect("it is a frame").frame_len();
    assert!(bytes[length..].starts_with(&frame(&Message::Pong)), "the answer comes first");

    let mut damaged = frame(&Message::Ping);
    damaged[9] ^= 1;
    let response = frame(&Message::Response(Response::Done));
    let request = frame(&Message::Request(Request::Release));
    let cases = [
        vec![good.clone(), damaged],
        vec![good.clone(), vec![0xff; 100]],
        vec![good.clone(), good.clone()],
        vec![good.clone(), response],
        vec![request],
        vec![frame(&Message::Ping)],
    ];
    for (number, frames) in cases.into_iter().enumerate() {
        let (peers, _, was_closed) = by_hand(number as u64, frames);
        assert!(was_closed, "case {number}");
        assert_eq!(peers.stats().malformed, 1, "case {number}");
    }
}

#[test]
fn who_asks_more_at_a_time_than_a_link_allows_is_dropped() {
    let world = World::new(WorldOptions::default());
    let key = world.add_host("any", ip(1));
    world.boot(key, |_| Box::pin(async {}));
    let env = world.env(key).expect("it runs");
    let message = Message::Request(write(&env, 1, MIB / 512));
    let mut bytes = frame(&message);
    bytes.extend_from_slice(message.payload().expect("it has one"));
    for (count, is_dropped) in [(60, false), (70, true)] {
        let mut frames = vec![hello(CLUSTER, 1, 1)];
        frames.extend(std::iter::repeat_n(bytes.clone(), count));
        let (peers, _, was_closed) = by_hand_to(1, (Mode::Hold, PeerOptions::default()), frames);
        assert_eq!((was_closed, peers.stats().overrun > 0), (is_dropped, is_dropped), "{count}");
    }
}

#[test]
fn strangers_are_turned_away() {
    for (number, hello) in [hello(CLUSTER + 1, 1, 1), hello(CLUSTER, 2, 1)].into_iter().enumerate()
    {
        let (peers, bytes, was_closed) = by_hand(number as u64, vec![hello]);
        assert!(was_closed && bytes.is_empty(), "case {number}");
        assert_eq!((peers.stats().strangers, peers.stats().links), (1, 0), "case {number}");
    }
    // An earlier run of a host whose later run is known.
    let (world, a, b) = pair(9);
    world.kill(a.key);
    a.boot(&world, 5, &[2]);
    assert!(world.run_until(MINUTE, || a.is_up(2)));
    world.kill(a.key);
    a.boot(&world, 4, &[2]);
    world.run_for(Duration::from_secs(5));
    assert!(!a.is_up(2));
    assert!(b.peers().stats().strangers > 0);
    assert_eq!(b.peers().incarnation(ShardId(1)), Some(Incarnation(5)));
}

#[test]
fn a_host_without_its_handler_says_so() {
    let world = World::new(WorldOptions::default());
    let key = world.add_host("h1", ip(1));
    let outcome = Outcome::default();
    let place = Rc::clone(&outcome);
    world.boot(key, |env| {
        Box::pin(async move {
            let me = PeerId { shard: ShardId(1), incarnation: Incarnation(1) };
            let peers = Peers::new(&env, me, CLUSTER, Rc::new(NotReady));
            let result = peers.call(ShardId(1), Request::Release).await;
            *place.borrow_mut() = Some((result, env.now()));
        })
    });
    world.run_for(Duration::from_millis(1));
    assert!(matches!(&*outcome.borrow(), Some((Ok(Response::Refused { .. }), _))));
}
