// SPDX-License-Identifier: Apache-2.0
//! One writing host at a time: which writes an owner admits, and when the epoch comes into the
//! record (rules 54 and 55).

use crate::cluster::{Cluster, OBJECT, record_on};
use crate::oracle::Oracle;
use base::WriterEpoch;
use object::{Mutations, ObjectError, WriteRequest};
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

const OWNER: usize = 0;
const REPLICA: usize = 1;
/// Has no component.
const CLIENT: usize = 2;
const WAIT: Duration = Duration::from_secs(30);
const BLOCK: usize = 7;

/// What comes of something that goes on while the test does.
type Later<T> = Rc<RefCell<Option<T>>>;

struct Story(Cluster);

impl Story {
    /// Mirrored on two hosts; the first one owns it; the third one knows the way.
    fn new(seed: u64) -> Self {
        let cluster = Cluster::new(seed, Mutations::default());
        cluster.create_as(record_on(&[1, 2]));
        cluster.objects(OWNER).unwrap().set_attached(OBJECT, true);
        let story = Self(cluster);
        assert_eq!(story.write(OWNER, 0, BLOCK, 1), Ok(()));
        assert_eq!(story.write(CLIENT, 0, BLOCK, 2), Ok(()), "any host may write");
        assert_eq!(story.0.owner(), Some(OWNER));
        story
    }

    /// Begins something on a host.
    fn begin<T: 'static>(&self, at: usize, work: impl Future<Output = T> + 'static) -> Later<T> {
        let later: Later<T> = Rc::default();
        let place = Rc::clone(&later);
        let env = self.0.world.env(self.0.hosts[at].key).unwrap();
        let task = env.spawn("test", async move { *place.borrow_mut() = Some(work.await) });
        std::mem::forget(task);
        later
    }

    /// Waits for its end.
    fn end<T>(&self, later: &Later<T>) -> T {
        assert!(self.0.world.run_until(WAIT, || later.borrow().is_some()), "it ends");
        later.borrow_mut().take().unwrap()
    }

    /// Takes a write on a host in an epoch, without sending it.
    fn take(&self, at: usize, epoch: u32) -> WriteRequest {
        let (objects, epoch) = (self.0.objects(at).unwrap(), WriterEpoch(epoch));
        self.0.on(at, WAIT, async move { objects.begin_write(OBJECT, epoch).await }).unwrap()
    }

    /// Sends a write that was taken, as often as that takes.
    fn send(
        &self,
        at: usize,
        request: WriteRequest,
        block: usize,
        value: u64,
    ) -> Later<Result<(), ObjectError>> {
        let objects = self.0.objects(at).unwrap();
        let env = self.0.world.env(self.0.hosts[at].key).unwrap();
        let (range, bytes) = (Oracle::range(block), Oracle::content(block, value));
        self.begin(at, async move {
            let mut buf = env.buf(bytes.len());
            buf.copy_from_slice(&bytes);
            let payload = buf.freeze();
            let crcs = wire::crcs_of(range, &payload);
            loop {
                let (kind, crcs, payload) = (wire::WriteKind::Data, crcs.clone(), payload.clone());
                match objects.write(OBJECT, &request, range, kind, crcs, payload).await {
                    Err(ObjectError::NotOwner | ObjectError::Inaccessible) => {}
                    done => return done,
                }
                let _ = objects.acquire(OBJECT).await;
                env.sleep(Duration::from_millis(5)).await;
            }
        })
    }

    fn write(&self, at: usize, epoch: u32, block: usize, value: u64) -> Result<(), ObjectError> {
        let request = self.take(at, epoch);
        self.end(&self.send(at, request, block, value))
    }

    fn bring_in(&self, at: usize, epoch: u32) -> Later<Result<(), ObjectError>> {
        let objects = self.0.objects(at).unwrap();
        self.begin(at, async move { objects.bring_in(OBJECT, WriterEpoch(epoch)).await })
    }

    fn epoch(&self) -> u32 {
        self.0.record().writer_epoch.0
    }
}

#[test]
fn an_owner_admits_the_writes_of_its_records_epoch_alone() {
    let story = Story::new(1);
    let taken = story.take(CLIENT, 0);
    assert_eq!(story.end(&story.bring_in(OWNER, 3)), Ok(()));
    assert_eq!(story.epoch(), 3);
    for at in [OWNER, CLIENT] {
        assert_eq!(story.write(at, 0, BLOCK, 3), Err(ObjectError::NotWriter), "of epoch 0");
    }
    assert_eq!(story.write(CLIENT, 3, BLOCK, 4), Ok(()));
    assert_eq!(story.write(OWNER, 0, BLOCK, 5), Err(ObjectError::NotWriter), "not the writer");
    // It was taken before: what its host is by now does not matter.
    assert_eq!(story.end(&story.send(CLIENT, taken, BLOCK, 6)), Err(ObjectError::NotWriter));
    assert_eq!(story.write(CLIENT, 4, BLOCK, 7), Err(ObjectError::NotWriter), "not there yet");
    // An epoch that is over does not come back.
    assert_eq!(story.end(&story.bring_in(OWNER, 2)), Ok(()));
    assert_eq!(story.epoch(), 3);
}

#[test]
fn the_epoch_outlives_its_owner() {
    let story = Story::new(2);
    assert_eq!(story.end(&story.bring_in(OWNER, 1)), Ok(()));
    story.0.crash(OWNER);
    assert_eq!(story.write(CLIENT, 0, BLOCK, 3), Err(ObjectError::NotWriter), "of epoch 0");
    assert_eq!(story.write(REPLICA, 1, BLOCK, 4), Ok(()));
    assert_eq!(story.epoch(), 1);
}

#[test]
fn what_was_admitted_ends_before_the_record_says_so() {
    let story = Story::new(3);
    // The replica does not answer, so the write is under way for as long as it is not marked.
    story.0.world.partition(story.0.hosts[OWNER].key, story.0.hosts[REPLICA].key, true);
    let request = story.take(OWNER, 0);
    let admitted = story.send(OWNER, request, BLOCK, 3);
    story.0.run(0.1);
    let brought = story.bring_in(OWNER, 1);
    story.0.run(0.5);
    assert!(admitted.borrow().is_none() && brought.borrow().is_none(), "both wait");
    assert_eq!(story.epoch(), 0);
    assert_eq!(story.write(OWNER, 0, BLOCK + 1, 4), Err(ObjectError::NotWriter), "no more");
    assert_eq!(story.end(&admitted), Ok(()), "without the replica");
    assert_eq!(story.end(&brought), Ok(()));
    assert_eq!(story.epoch(), 1);
}

#[test]
fn a_write_that_waits_for_its_range_meanwhile_is_refused() {
    let story = Story::new(4);
    story.0.world.partition(story.0.hosts[OWNER].key, story.0.hosts[REPLICA].key, true);
    let (first, second) = (story.take(OWNER, 0), story.take(OWNER, 0));
    let admitted = story.send(OWNER, first, BLOCK, 3);
    let waiting = story.send(OWNER, second, BLOCK, 4);
    story.0.run(0.1);
    let brought = story.bring_in(OWNER, 1);
    assert_eq!(story.end(&admitted), Ok(()));
    assert_eq!(story.end(&waiting), Err(ObjectError::NotWriter));
    assert_eq!(story.end(&brought), Ok(()));
}

#[test]
fn whoever_comes_first_brings_the_epoch_into_a_record_without_an_owner() {
    let cluster = Cluster::new(5, Mutations::default());
    cluster.create_as(record_on(&[1, 2]));
    let story = Story(cluster);
    assert_eq!(story.end(&story.bring_in(CLIENT, 1)), Ok(()));
    assert_eq!((story.epoch(), story.0.record().owner), (1, None));
    assert_eq!(story.write(OWNER, 0, BLOCK, 1), Err(ObjectError::NotWriter), "of epoch 0");
    assert_eq!(story.write(OWNER, 1, BLOCK, 1), Ok(()));
    // Now it has an owner, who alone may.
    assert_eq!(story.end(&story.bring_in(CLIENT, 2)), Err(ObjectError::NotOwner));
    assert_eq!(story.epoch(), 1);
}
