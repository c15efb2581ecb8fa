// SPDX-License-Identifier: Apache-2.0
//! A write whose answer is lost, and which is sent again after another client's write to the same
//! sectors: it has its effect once (rule 46; the storm campaign's seed 258).

use crate::cluster::{Cluster, OBJECT, record_on};
use crate::oracle::Oracle;
use base::WriterEpoch;
use env::Env;
use object::{Mutations, Objects};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

const OWNER: usize = 0;
const OTHER: usize = 1;
/// Has no component.
const CLIENT: usize = 2;
const BLOCK: usize = 7;

/// Writes `value` until that is acknowledged.
async fn write(env: Env, objects: Objects, value: u64) {
    let (range, bytes) = (Oracle::range(BLOCK), Oracle::content(BLOCK, value));
    let mut buf = env.buf(bytes.len());
    buf.copy_from_slice(&bytes);
    let payload = buf.freeze();
    let crcs = wire::crcs_of(range, &payload);
    let request = objects.begin_write(OBJECT, WriterEpoch::ANY).await;
    loop {
        let (kind, crcs, payload) = (wire::WriteKind::Data, crcs.clone(), payload.clone());
        if objects.write(OBJECT, &request, range, kind, crcs, payload).await.is_ok() {
            return;
        }
        let _ = objects.acquire(OBJECT).await;
        env.sleep(Duration::from_millis(5)).await;
    }
}

struct Story {
    cluster: Cluster,
    is_answered: Rc<Cell<bool>>,
}

impl Story {
    /// Mirrored on two hosts; the first one owns it; write 1 is acknowledged.
    fn new(seed: u64, mutations: Mutations) -> Self {
        let cluster = Cluster::new(seed, mutations);
        cluster.create_as(record_on(&[1, 2]));
        cluster.objects(OWNER).unwrap().set_attached(OBJECT, true);
        let story = Self { cluster, is_answered: Rc::default() };
        story.put(OWNER, 1);
        assert_eq!(story.get(CLIENT), 1, "the client knows the way to the owner");
        assert_eq!(story.cluster.owner(), Some(OWNER));
        story
    }

    fn put(&self, at: usize, value: u64) {
        let env = self.cluster.world.env(self.cluster.hosts[at].key).unwrap();
        let objects = self.cluster.objects(at).unwrap();
        let done = self.cluster.on(at, Duration::from_secs(60), write(env, objects, value));
        assert!(done.is_some(), "write {value} is acknowledged");
    }

    fn get(&self, at: usize) -> u64 {
        let objects = self.cluster.objects(at).unwrap();
        let env = self.cluster.world.env(self.cluster.hosts[at].key).unwrap();
        let found = self.cluster.on(at, Duration::from_secs(60), async move {
            loop {
                if let Ok(data) = objects.read(OBJECT, Oracle::range(BLOCK)).await {
                    return data.payload.to_vec();
                }
                let _ = objects.acquire(OBJECT).await;
                env.sleep(Duration::from_millis(5)).await;
            }
        });
        let found = found.expect("read in time");
        (0..10).find(|value| Oracle::content(BLOCK, *value) == found).expect("one of the writes")
    }

    /// The client writes 2. Its request arrives, no answer does; then it is cut off.
    fn client_writes_unanswered(&self) {
        let (world, hosts) = (&self.cluster.world, &self.cluster.hosts);
        world.cut_one_way(hosts[OWNER].key, hosts[CLIENT].key, true);
        let env = world.env(hosts[CLIENT].key).unwrap();
        let objects = self.cluster.objects(CLIENT).unwrap();
        let is_answered = Rc::clone(&self.is_answered);
        std::mem::forget(env.spawn("client", {
            let env = env.clone();
            async move {
                write(env, objects, 2).await;
                is_answered.set(true);
            }
        }));
        self.cluster.run(0.1);
        self.cluster.isolate(CLIENT, true, true);
    }

    /// The client comes back and sends its write again; what is there then.
    fn after_the_client_is_back(&self, at: usize) -> u64 {
        self.cluster.run(4.0); // the link breaks: the answer is lost, not late
        assert!(!self.is_answered.get());
        self.cluster.isolate(CLIENT, true, false);
        self.cluster.world.heal_all();
        let answered = || self.is_answered.get();
        assert!(self.cluster.world.run_until(Duration::from_secs(60), answered), "it is answered");
        self.get(at)
    }

    /// Every host starts again, and the one at `at` gets the number `run`.
    fn restart_all(&self, at: usize, run: u64) {
        (0..=CLIENT).for_each(|host| self.cluster.crash(host));
        self.cluster.count_runs_from(at, run);
        (0..=CLIENT).for_each(|host| self.cluster.boot(host));
        let up = || (0..=CLIENT).all(|host| self.cluster.objects(host).is_some());
        assert!(self.cluster.world.run_until(Duration::from_secs(20), up), "they are back");
    }

    fn restart(&self, at: usize) {
        self.cluster.crash(at);
        self.cluster.boot(at);
        let up = || self.cluster.objects(at).is_some();
        assert!(self.cluster.world.run_until(Duration::from_secs(20), up), "it is back");
    }
}

fn again() -> Mutations {
    Mutations { write_again: true, ..Mutations::default() }
}

#[test]
fn sent_again_to_the_same_owner() {
    let ends_with = |mutations| {
        let story = Story::new(1, mutations);
        story.client_writes_unanswered();
        assert_eq!(story.get(OWNER), 2);
        story.put(OWNER, 3);
        story.after_the_client_is_back(OWNER)
    };
    assert_eq!(ends_with(Mutations::default()), 3);
    assert_eq!(ends_with(again()), 2, "the story would notice");
}

#[test]
fn sent_again_to_the_next_owner() {
    let ends_with = |mutations| {
        let story = Story::new(2, mutations);
        story.client_writes_unanswered();
        story.cluster.kill(OWNER);
        story.put(OTHER, 3);
        story.after_the_client_is_back(OTHER)
    };
    assert_eq!(ends_with(Mutations::default()), 3);
    assert_eq!(ends_with(again()), 2, "the story would notice");
}

#[test]
fn sent_again_after_all_replicas_lost_power() {
    let ends_with = |mutations| {
        let story = Story::new(3, mutations);
        story.client_writes_unanswered();
        story.put(OWNER, 3);
        story.cluster.crash(OWNER);
        story.restart(OTHER);
        story.restart(OWNER);
        assert_eq!(story.get(OTHER), 3);
        story.after_the_client_is_back(OTHER)
    };
    assert_eq!(ends_with(Mutations::default()), 3);
    assert_eq!(ends_with(again()), 2, "the story would notice");
}

#[test]
fn what_reconciliation_took_back_is_written_again() {
    let ends_with = |mutations| {
        let story = Story::new(4, mutations);
        let key = |at: usize| story.cluster.hosts[at].key;
        story.cluster.world.partition(key(OWNER), key(OTHER), true);
        story.client_writes_unanswered();
        // It is on the owner's component alone. The other host takes over, while that component
        // can be reached, and makes its own the source: write 2 is taken back.
        story.cluster.crash(OWNER);
        story.cluster.world.partition(key(OWNER), key(OTHER), false);
        story.cluster.world.partition(key(OWNER), story.cluster.directory, true);
        story.cluster.boot(OWNER);
        story.cluster.objects(OTHER).unwrap().set_attached(OBJECT, true);
        assert_eq!(story.get(OTHER), 1, "taken back");
        story.cluster.world.partition(key(OWNER), story.cluster.directory, false);
        assert_eq!(story.cluster.owner(), Some(OTHER));
        story.cluster.settle(60.0);
        story.cluster.kill(OTHER);
        assert_eq!(story.get(OWNER), 1);
        story.after_the_client_is_back(OWNER)
    };
    assert_eq!(ends_with(Mutations::default()), 2);
    let unmarked = Mutations { unmarked_copies: true, ..Mutations::default() };
    assert_eq!(ends_with(unmarked), 1, "the story would notice");
}

#[test]
fn a_returned_component_knows_what_its_copies_brought() {
    let ends_with = |mutations| {
        let story = Story::new(5, mutations);
        story.cluster.kill(OTHER);
        story.put(OWNER, 1);
        story.client_writes_unanswered();
        assert_eq!(story.get(OWNER), 2);
        story.restart(OTHER);
        story.cluster.settle(60.0);
        story.put(OWNER, 3);
        story.cluster.kill(OWNER);
        assert_eq!(story.get(OTHER), 3);
        story.after_the_client_is_back(OTHER)
    };
    assert_eq!(ends_with(Mutations::default()), 3);
    let forget = Mutations { forget_clients: true, ..Mutations::default() };
    assert_eq!(ends_with(forget), 2, "the story would notice");
}

/// The directory forgot runs of a host, whose next run gets a number that had been given: the same
/// one, or one before it. What that run writes is no old write.
#[test]
fn a_run_with_the_number_of_an_earlier_one_writes_anew() {
    let ends_with = |seed, mutations, at, (run, again)| {
        let story = Story::new(seed, mutations);
        story.restart_all(at, run);
        story.put(at, 2);
        story.put(at, 3);
        story.restart_all(at, again);
        [4, 5].map(|value| {
            story.put(at, value);
            story.get(OTHER)
        })
    };
    for (seed, at, runs) in
        [(6, CLIENT, (5, 5)), (7, CLIENT, (5, 4)), (8, OWNER, (5, 5)), (9, OWNER, (5, 4))]
    {
        assert_eq!(ends_with(seed, Mutations::default(), at, runs), [4, 5], "{at}, {runs:?}");
        let blind = Mutations { number_as_before: true, ..Mutations::default() };
        assert_eq!(ends_with(seed, blind, at, runs), [3, 3], "the story would notice");
    }
}
