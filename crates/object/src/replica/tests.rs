// SPDX-License-Identifier: Apache-2.0
//! Components as owners A and C see them; the replica's host is B, its devices are simulated.

use super::Replicas;
use crate::mutations::Mutations;
use crate::options::ObjectOptions;
use base::{
    ComponentId, GroupId, Incarnation, Instant, Lsn, ObjectId, Seat, SectorRange, Session, ShardId,
    Term, Version,
};
use diskgroup::{CreateSizes, DiskGroup, GroupOptions, GroupSpec};
use env::{Env, TaskSet};
use peer::{NotReady, PeerError, PeerId, Peers, Reply};
use sim::{DiskFault, HostKey, World, WorldOptions};
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;
use wire::{Failure, Refusal, Request, Response, Target, WriteKind, crcs_of, verify};

const A: PeerId = PeerId { shard: ShardId(1), incarnation: Incarnation(7) };
const B: ShardId = ShardId(2);
const C: PeerId = PeerId { shard: ShardId(3), incarnation: Incarnation(5) };
const OBJECT: ObjectId = ObjectId(0x77);
const COMPONENT: ComponentId = ComponentId(0x88);
const SECTORS: u64 = 4 * 2048;
const CACHE: &str = "cache";
const CAPACITY: &str = "capacity";
/// Longer than any grant: what an earlier run may have granted has run out.
const GRANT: Duration = Duration::from_secs(7);
const SOON: Duration = Duration::from_secs(5);

type Outcome = Rc<RefCell<Option<Result<Response, PeerError>>>>;

struct Bench {
    world: World,
    host: HostKey,
    replicas: Rc<RefCell<Option<Rc<Replicas>>>>,
    incarnation: Cell<u64>,
    options: ObjectOptions,
    tasks: TaskSet,
}

impl Bench {
    /// Host B in its first run, with a component, `GRANT` after its start.
    fn new(seed: u64) -> Self {
        Self::broken(seed, Mutations::default())
    }

    fn broken(seed: u64, mutations: Mutations) -> Self {
        let world = World::new(WorldOptions { seed, ..WorldOptions::default() });
        let host = world.add_host("b", IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)));
        let (replicas, tasks) = (Rc::default(), TaskSet::default());
        let lease_ttl = GRANT - Duration::from_secs(1);
        let options = ObjectOptions { lease_ttl, mutations, ..ObjectOptions::default() };
        let bench = Self { world, host, replicas, incarnation: Cell::new(0), options, tasks };
        bench.boot();
        let request = create(COMPONENT);
        assert!(matches!(bench.ask(A, request), Response::Created { group: GroupId(9) }));
        bench.world.run_for(GRANT);
        bench
    }

    fn boot(&self) {
        self.incarnation.set(self.incarnation.get() + 1);
        let is_first = self.incarnation.get() == 1;
        let me = PeerId { shard: B, incarnation: Incarnation(self.incarnation.get()) };
        let (place, options) = (Rc::clone(&self.replicas), self.options.clone());
        *place.borrow_mut() = None;
        self.world.boot(self.host, |env| {
            Box::pin(async move {
                let group = group(&env, is_first).await;
                let peers = Peers::new(&env, me, 1, Rc::new(NotReady));
                let disks = crate::disks::Disks::new(vec![group], 0);
                let replicas = Replicas::new(&env, me, &peers, disks, &options);
                *place.borrow_mut() = Some(replicas);
            })
        });
        let is_up = || self.replicas.borrow().is_some();
        assert!(self.world.run_until(Duration::from_secs(60), is_up), "the group opens");
    }

    fn crash(&self) {
        *self.replicas.borrow_mut() = None;
        self.world.crash(self.host);
    }

    /// A request arrives now.
    fn send(&self, from: PeerId, request: Request) -> Outcome {
        let replicas = self.replicas.borrow().clone().expect("B runs");
        let env = self.world.env(self.host).expect("B runs");
        self.world.run_for(Duration::ZERO); // a turn, so that B knows what time it is
        let (reply, call) = Reply::pair();
        replicas.handle(from, request, reply);
        let outcome = Outcome::default();
        let place = Rc::clone(&outcome);
        self.tasks.spawn(&env, "call", async move {
            let result = call.await;
            *place.borrow_mut() = Some(result);
        });
        let _ = self.world.env(self.host); // it has something to do
        outcome
    }

    fn answer(&self, outcome: &Outcome) -> Response {
        assert!(self.world.run_until(SOON, || outcome.borrow().is_some()), "an answer comes");
        outcome.borrow_mut().take().expect("it is there").expect("it is an answer")
    }

    fn ask(&self, from: PeerId, request: Request) -> Response {
        self.answer(&self.send(from, request))
    }

    /// A fence that must succeed: the durable lsn.
    fn fenced(&self, owner: PeerId, target: Target) -> Lsn {
        match self.ask(owner, fence(owner, target)) {
            Response::Fenced(fenced) => fenced.durable,
            other => panic!("a fence was answered with {other:?}"),
        }
    }

    fn write(&self, owner: PeerId, target: Target, counter: u64, prev: Lsn) -> Response {
        self.ask(owner, self.request(target, counter, prev))
    }

    fn request(&self, target: Target, counter: u64, prev: Lsn) -> Request {
        let env = self.world.env(self.host).expect("B runs");
        let range = SectorRange::new(8 * counter, 8);
        let mut buf = env.buf(4096);
        buf.fill(counter as u8);
        let payload = buf.freeze();
        Request::Write {
            target,
            lsn: Lsn::new(target.term, counter),
            prev,
            commit: Lsn::ZERO,
            range,
            kind: WriteKind::Data,
            is_copy: false,
            marks: wire::Marks::NONE,
            crcs: crcs_of(range, &payload),
            payload,
        }
    }
}

async fn group(env: &Env, is_first: bool) -> DiskGroup {
    let spec = GroupSpec { cache: CACHE.to_owned(), capacity: vec![CAPACITY.to_owned()] };
    if is_first {
        let sizes = CreateSizes { cache: 256 << 20, capacity: 1 << 30 };
        let made = DiskGroup::format(env, &spec, Some(sizes), false, GroupId(9)).await;
        assert!(made.is_ok(), "{made:?}");
    }
    match DiskGroup::open(env, &spec, GroupOptions::default()).await {
        Ok(group) => group,
        Err(error) => panic!("the group does not open: {error}"),
    }
}

fn create(component: ComponentId) -> Request {
    Request::CreateComponent { object: OBJECT, component, sectors: SECTORS }
}

fn target(term: u32, seat: u32, session: u32) -> Target {
    let (object, component) = (OBJECT, COMPONENT);
    let (term, seat, session) = (Term(term), Seat(seat), Session(session));
    Target { object, component, term, seat, session }
}

fn fence(owner: PeerId, target: Target) -> Request {
    let owner = wire::OwnerId { shard: owner.shard, incarnation: owner.incarnation };
    let (version, claims) = (Version(1), wire::Claims::NONE);
    Request::Fence { target, version, owner, create: None, claims }
}

fn refusal(response: Response) -> Refusal {
    match response {
        Response::Refused { reason } => reason,
        other => panic!("not refused but {other:?}"),
    }
}

fn is_durable(response: &Response, term: u32, counter: u64) -> bool {
    matches!(response, Response::Durable { lsn, .. } if *lsn == Lsn::new(Term(term), counter))
}

#[test]
fn a_later_term_ends_everything_of_the_earlier_one() {
    let bench = Bench::new(1);
    let (old, new) = (target(3, 0, 1), target(4, 0, 1));
    let durable = bench.fenced(A, old);
    assert!(is_durable(&bench.write(A, old, 1, durable), 3, 1));
    let durable = bench.fenced(C, new);
    assert_eq!(durable, Lsn::new(Term(3), 1));

    let higher = Refusal::HigherTerm(Term(4));
    let range = SectorRange::new(8, 8);
    let stale = [
        bench.request(old, 2, durable),
        Request::Read { target: old, range },
        Request::CommitInfo { target: old, commit: durable },
        Request::ListChanged { target: old, since: Lsn::ZERO, cursor: 0 },
        fence(A, target(3, 0, 9)),
        fence(A, target(4, 0, 9)), // another owner at the same term
    ];
    for request in stale {
        let text = format!("{request:?}");
        assert_eq!(refusal(bench.ask(A, request)), higher, "rule 8: {text}");
    }
    let future = bench.request(target(5, 0, 1), 2, durable);
    assert_eq!(refusal(bench.ask(C, future)), Refusal::Session, "only by Fence");
    assert!(is_durable(&bench.write(C, new, 2, durable), 4, 2));
}

#[test]
fn frames_belong_to_one_session_seat_and_owner() {
    let bench = Bench::new(2);
    let first = target(3, 0, 1);
    let durable = bench.fenced(A, first);
    let lsn = |counter| Lsn::new(Term(3), counter);
    let gap = bench.write(A, first, 2, lsn(1));
    assert_eq!(refusal(gap), Refusal::OutOfOrder { durable }, "one was lost between");
    assert!(is_durable(&bench.write(A, first, 1, durable), 3, 1));
    let again = bench.write(A, first, 1, durable);
    assert_eq!(refusal(again), Refusal::OutOfOrder { durable: lsn(1) });
    let stranger = bench.write(C, first, 2, lsn(1));
    assert_eq!(refusal(stranger), Refusal::Session, "not the owner's");

    // Rule 14: a new session at the same term; the old one's frames are dropped (rule 9).
    let second = target(3, 0, 2);
    assert_eq!(bench.fenced(A, second), lsn(1));
    assert_eq!(refusal(bench.write(A, first, 2, lsn(1))), Refusal::Session);
    assert_eq!(refusal(bench.ask(A, fence(A, first))), Refusal::Session, "a late fence");
    assert!(is_durable(&bench.write(A, second, 2, lsn(1)), 3, 2));

    // Rule 31: the next seat.
    let third = target(3, 1, 3);
    bench.fenced(A, third);
    assert_eq!(refusal(bench.write(A, second, 3, lsn(2))), Refusal::Session);
    let earlier = bench.ask(A, fence(A, target(3, 0, 4)));
    assert_eq!(refusal(earlier), Refusal::Seat(Seat(1)));
    assert!(is_durable(&bench.write(A, third, 3, lsn(2)), 3, 3));
}

#[test]
fn a_later_term_with_an_earlier_seat_is_of_another_history() {
    let bench = Bench::new(3);
    bench.fenced(A, target(3, 2, 1));
    let earlier = bench.ask(A, fence(A, target(4, 1, 2)));
    let version = Version(1);
    assert_eq!(refusal(earlier), Refusal::OtherHistory { version }, "rule 25");
    // A record made anew may not know of the last seat: it is asked for a higher one.
    let Request::Fence { target, owner, create, claims, .. } = fence(A, target(4, 1, 3)) else {
        unreachable!("it is a Fence")
    };
    let version = Version(1 + crate::history::ADOPTION_LEAP);
    let anew = bench.ask(A, Request::Fence { target, version, owner, create, claims });
    assert_eq!(refusal(anew), Refusal::Seat(Seat(2)));
}

/// Rule 25.
#[test]
fn a_component_whose_directory_went_back_takes_a_record_that_was_made_anew_and_no_other() {
    let bench = Bench::new(17);
    bench.fenced(A, target(3, 0, 1));
    let replicas = bench.replicas.borrow().clone().expect("B runs");
    let (marked, done) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let env = bench.world.env(bench.host).expect("B runs");
    let (is_marked, is_done) = (Rc::clone(&marked), Rc::clone(&done));
    bench.tasks.spawn(&env, "mark", async move {
        let group = replicas.disks.holding(COMPONENT).expect("it is here");
        is_marked.set(group.set_orphaned(COMPONENT, Some(1), true).await.is_ok());
        is_done.set(true);
    });
    assert!(bench.world.run_until(SOON, || done.get()) && marked.get());
    let with = |version: u64, session: u32| {
        let Request::Fence { target, owner, create, claims, .. } = fence(C, target(4, 0, session))
        else {
            unreachable!("it is a Fence")
        };
        let version = Version(version);
        bench.ask(C, Request::Fence { target, version, owner, create, claims })
    };
    let believed = with(2, 1);
    assert_eq!(refusal(believed), Refusal::OtherHistory { version: Version(1) });
    bench.world.run_for(GRANT);
    let anew = with(1 + crate::history::ADOPTION_LEAP, 2);
    assert!(matches!(anew, Response::Fenced(_)), "{anew:?}");
}

#[test]
fn a_fence_waits_for_what_is_in_flight_and_tells_of_it() {
    for seed in 0..10 {
        let bench = Bench::new(seed);
        let (old, new) = (target(3, 0, 1), target(4, 0, 1));
        let durable = bench.fenced(A, old);
        // The fence's own write goes to the other device: it waits for the log alone.
        bench.world.disk_error(bench.host, CACHE, DiskFault::Freeze(true));
        let lsn = |counter| Lsn::new(Term(3), counter);
        let writes = [
            bench.send(A, bench.request(old, 1, durable)),
            bench.send(A, bench.request(old, 2, lsn(1))),
        ];
        bench.world.run_for(Duration::from_millis(seed * 3));
        let fencing = bench.send(C, fence(C, new));
        let late = bench.ask(A, bench.request(old, 3, lsn(2)));
        assert_eq!(refusal(late), Refusal::HigherTerm(Term(4)), "from the fence's arrival on");
        let early = bench.ask(C, bench.request(new, 3, lsn(2)));
        assert_eq!(refusal(early), Refusal::Session, "not before its answer");
        bench.world.run_for(Duration::from_secs(1));
        assert!(fencing.borrow().is_none(), "rule 24: what is in flight is drained first");
        bench.world.disk_error(bench.host, CACHE, DiskFault::Freeze(false));
        let Response::Fenced(fenced) = bench.answer(&fencing) else {
            panic!("seed {seed}: fenced once the device goes on")
        };
        let (durable, tail) = (fenced.durable, fenced.tail);
        assert_eq!(durable, lsn(2));
        for counter in [1, 2] {
            let range = SectorRange::new(8 * counter, 8);
            let is_told = tail.iter().any(|(r, l)| r.contains(range) && *l >= lsn(counter));
            assert!(is_told, "seed {seed}: {range:?} is not in {tail:?}");
        }
        for (write, counter) in writes.iter().zip(1..) {
            assert!(is_durable(&bench.answer(write), 3, counter));
        }
    }
}

#[test]
fn a_restarted_replica_knows_its_term_and_what_it_acknowledged() {
    for seed in 0..10 {
        let bench = Bench::new(seed);
        let old = target(3, 0, 1);
        let mut prev = bench.fenced(A, old);
        for counter in 1..=5 {
            assert!(is_durable(&bench.write(A, old, counter, prev), 3, counter));
            prev = Lsn::new(Term(3), counter);
        }
        let new = target(4, 2, 1);
        assert_eq!(bench.fenced(C, new), prev);
        bench.crash();
        bench.boot();

        let higher = Refusal::HigherTerm(Term(4));
        assert_eq!(refusal(bench.ask(A, fence(A, target(3, 0, 9)))), higher);
        assert_eq!(refusal(bench.write(A, old, 6, prev)), higher, "rule 24");
        assert_eq!(refusal(bench.write(C, new, 1, prev)), Refusal::Session, "no session survives");
        let seat = refusal(bench.ask(C, fence(C, target(4, 1, 9))));
        assert_eq!(seat, Refusal::Seat(Seat(2)));
        let again = target(4, 2, 1);
        assert_eq!(bench.fenced(C, again), prev, "seed {seed}: acknowledged and kept");
        let range = SectorRange::new(40, 8);
        let Response::Data { crcs, payload } = bench.ask(C, Request::Read { target: again, range })
        else {
            panic!("seed {seed}: the data is there")
        };
        assert!(verify(range, &crcs, &payload));
        assert!(payload.iter().all(|byte| *byte == 5));
    }
}

fn renew(bench: &Bench, from: PeerId) -> u64 {
    match bench.ask(from, Request::Renew { sent: Instant(5) }) {
        Response::Granted { sent: Instant(5), ttl_ms: 6000, grant_epoch } => grant_epoch,
        other => panic!("a renewal was answered with {other:?}"),
    }
}

fn wait_of(response: Response) -> u64 {
    match refusal(response) {
        Refusal::GrantedToOther { wait_ms } => u64::from(wait_ms),
        other => panic!("refused with {other:?}"),
    }
}

#[test]
fn another_owner_waits_for_the_grant_of_the_first() {
    let bench = Bench::new(5);
    let (old, new) = (target(3, 0, 1), target(4, 0, 1));
    let durable = bench.fenced(A, old);
    let epoch = renew(&bench, A);
    bench.world.run_for(Duration::from_secs(2));
    let wait = wait_of(bench.ask(C, fence(C, new)));
    assert!((3900..=4001).contains(&wait), "{wait}");
    // Rule 52b: until then nothing has changed for the first.
    assert!(is_durable(&bench.write(A, old, 1, durable), 3, 1));
    assert_eq!(renew(&bench, A), epoch);
    let wait = wait_of(bench.ask(C, fence(C, new)));
    assert!(wait > 5900, "a renewal counts from its arrival: {wait}");
    bench.world.run_for(Duration::from_millis(wait + 10)); // B's clock may be slow
    assert_eq!(bench.fenced(C, new), Lsn::new(Term(3), 1));
    assert_ne!(renew(&bench, A), epoch, "A's grants say that it lost something here");
}

#[test]
fn consent_spares_the_wait() {
    let bench = Bench::new(6);
    bench.fenced(A, target(3, 0, 1));
    renew(&bench, A);
    assert!(wait_of(bench.ask(C, fence(C, target(4, 0, 1)))) > 5900);
    assert!(matches!(bench.ask(A, Request::Release), Response::Done));
    bench.fenced(C, target(4, 0, 1));

    // Rule 53: C itself, which has stopped, says that A is next.
    renew(&bench, C);
    assert!(wait_of(bench.ask(A, fence(A, target(5, 0, 1)))) > 5900);
    assert!(matches!(bench.ask(C, fence(A, target(5, 0, 0))), Response::Fenced(_)));
    bench.fenced(A, target(5, 0, 1));
}

#[test]
fn a_restarted_replica_takes_everybody_for_granted() {
    let bench = Bench::new(7);
    bench.fenced(A, target(3, 0, 1));
    bench.crash();
    bench.boot();
    let wait = wait_of(bench.ask(C, fence(C, target(4, 0, 1))));
    assert!((5000..=6001).contains(&wait), "rule 52b: one full grant time: {wait}");
    bench.fenced(A, target(3, 0, 1)); // the owner itself need not wait
    let later_run = PeerId { incarnation: Incarnation(8), ..A };
    bench.fenced(later_run, target(4, 0, 1)); // its host's devices are locked: the old run is over
    bench.world.run_for(Duration::from_millis(wait + 10));
    bench.fenced(C, target(5, 0, 1));
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let bench = Bench::new(8);
    let here = target(3, 0, 1);
    let durable = bench.fenced(A, here);
    let with = |change: fn(&mut Request)| {
        let mut request = bench.request(here, 1, durable);
        change(&mut request);
        bench.ask(A, request)
    };
    let bad_crc = with(|request| {
        let Request::Write { crcs, .. } = request else { return };
        *crcs = wire::Crcs::new(&[1]);
    });
    let range = SectorRange::new(8, 8);
    let reason = Failure::BadCrc { range };
    assert!(matches!(bad_crc, Response::Failed { reason: r } if r == reason));
    let behind = with(|request| {
        let Request::Write { range, .. } = request else { return };
        range.start = SECTORS - 4;
    });
    assert!(matches!(behind, Response::Failed { reason: Failure::Io }), "behind the end");
    let other_term = with(|request| {
        let Request::Write { lsn, .. } = request else { return };
        *lsn = Lsn::new(Term(4), 1);
    });
    assert!(matches!(other_term, Response::Failed { reason: Failure::Io }));
    let read = Request::Read { target: here, range: SectorRange::new(SECTORS, 8) };
    assert!(matches!(bench.ask(A, read), Response::Failed { reason: Failure::Io }));

    let nowhere = Target { component: ComponentId(1), ..here };
    let unknown = Refusal::UnknownComponent;
    assert_eq!(refusal(bench.ask(A, fence(A, nowhere))), unknown);
    assert_eq!(refusal(bench.ask(A, bench.request(nowhere, 1, durable))), unknown);
    let other_object = Target { object: ObjectId(1), ..target(3, 0, 2) };
    assert_eq!(refusal(bench.ask(A, fence(A, other_object))), unknown);

    assert!(is_durable(&bench.write(A, here, 1, durable), 3, 1), "the session stands");
    let Response::Changed { ranges, next: None, .. } =
        bench.ask(A, Request::ListChanged { target: here, since: durable, cursor: 0 })
    else {
        panic!("a short list")
    };
    assert!(ranges.iter().any(|changed| changed.contains(range)), "{ranges:?}");
}

#[test]
fn components_come_and_go_once() {
    let bench = Bench::new(9);
    let component = ComponentId(0x99);
    let here = Target { component, ..target(1, 0, 1) };
    let owner = wire::OwnerId { shard: A.shard, incarnation: A.incarnation };
    let (version, claims) = (Version(1), wire::Claims::NONE);
    let make = Request::Fence { target: here, version, owner, create: Some(SECTORS), claims };
    // Several at once, as when a request is sent again over a new link.
    let made =
        [bench.send(A, create(component)), bench.send(A, make), bench.send(A, create(component))];
    assert!(matches!(bench.answer(&made[0]), Response::Created { group: GroupId(9) }));
    assert!(matches!(bench.answer(&made[1]), Response::Fenced(_)));
    assert!(matches!(bench.answer(&made[2]), Response::Created { group: GroupId(9) }));
    let other = Request::CreateComponent { object: ObjectId(1), component, sectors: SECTORS };
    assert_eq!(refusal(bench.ask(A, other)), Refusal::UnknownComponent);
    assert!(is_durable(&bench.write(A, here, 1, Lsn::ZERO), 1, 1));
    for _ in 0..2 {
        let gone = Request::DeleteComponent { object: OBJECT, component };
        assert!(matches!(bench.ask(A, gone), Response::Done));
    }
    assert_eq!(refusal(bench.write(A, here, 2, Lsn::ZERO)), Refusal::UnknownComponent);
}

#[test]
fn each_switch_breaks_its_rule() {
    let (old, new) = (target(3, 0, 1), target(4, 0, 1));
    let bench = Bench::broken(10, Mutations { no_term_check: true, ..Mutations::default() });
    let durable = bench.fenced(A, old);
    bench.fenced(C, new);
    assert!(is_durable(&bench.write(A, old, 1, durable), 3, 1), "rule 8 is off");

    let bench = Bench::broken(11, Mutations { no_seat_check: true, ..Mutations::default() });
    let durable = bench.fenced(A, old);
    bench.fenced(A, target(3, 0, 2));
    assert!(is_durable(&bench.write(A, old, 1, durable), 3, 1), "rule 9 is off");

    let bench = Bench::broken(12, Mutations { term_not_durable: true, ..Mutations::default() });
    bench.fenced(C, new);
    bench.crash();
    bench.boot();
    bench.fenced(A, old); // rule 24 is off

    let switch = Mutations { fence_ignores_grants: true, ..Mutations::default() };
    let bench = Bench::broken(13, switch);
    bench.fenced(A, old);
    renew(&bench, A);
    bench.fenced(C, new); // rule 52b is off
}

#[test]
fn after_a_failed_write_its_owner_gets_no_new_session() {
    let bench = Bench::new(14);
    let here = target(3, 0, 1);
    let durable = bench.fenced(A, here);
    for device in [CACHE, CAPACITY] {
        bench.world.disk_error(bench.host, device, DiskFault::FailWrites);
    }
    let failed = bench.write(A, here, 1, durable);
    assert!(matches!(failed, Response::Failed { reason: Failure::Device }), "{failed:?}");
    for device in [CACHE, CAPACITY] {
        bench.world.disk_error(bench.host, device, DiskFault::Clear);
    }
    let again = bench.ask(A, fence(A, target(3, 0, 2)));
    assert!(matches!(again, Response::Failed { reason: Failure::Device }), "{again:?}");
}

/// Its owner heard of neither, or of one only: the session is over all the same.
#[test]
fn a_group_that_was_out_of_service_knows_no_session() {
    let bench = Bench::new(15);
    let (before, after) = (target(3, 0, 1), target(3, 0, 2));
    let durable = bench.fenced(A, before);
    assert!(is_durable(&bench.write(A, before, 1, durable), 3, 1));
    let replicas = bench.replicas.borrow().clone().expect("B runs");
    let group = replicas.disks.take(GroupId(9)).expect("it is open");
    replicas.forget(&[COMPONENT]);
    let durable = Lsn::new(Term(3), 1);
    assert_eq!(refusal(bench.write(A, before, 2, durable)), Refusal::GroupClosed);
    replicas.disks.add_open(group);
    assert_eq!(refusal(bench.write(A, before, 2, durable)), Refusal::Session);
    assert_eq!(bench.fenced(A, after), durable);
    assert!(is_durable(&bench.write(A, after, 2, durable), 3, 2));
}

/// Rule 6: what is above K fills the log, and a Fence may wait for room in it.
#[test]
fn k_is_heard_without_a_session_from_the_owner_that_fenced_last() {
    let bench = Bench::new(16);
    let here = target(3, 0, 1);
    let durable = bench.fenced(A, here);
    assert!(is_durable(&bench.write(A, here, 1, durable), 3, 1));
    let commit = || {
        let replicas = bench.replicas.borrow().clone().expect("B runs");
        let group = replicas.disks.holding(COMPONENT).expect("it is here");
        group.component(COMPONENT).expect("it is here").commit
    };
    let k = Lsn::new(Term(3), 1);
    let say = |from: PeerId, target: Target| {
        let said = bench.ask(from, Request::CommitInfo { target, commit: k });
        assert!(matches!(said, Response::Refused { .. }), "{said:?}");
    };
    say(C, target(3, 0, 9));
    say(A, target(2, 0, 9));
    say(A, Target { object: ObjectId(1), ..target(3, 0, 9) });
    assert_eq!(commit(), Lsn::ZERO, "another owner, term or object");
    say(A, target(3, 1, 9));
    assert_eq!(commit(), k);
}
