// SPDX-License-Identifier: Apache-2.0
//! The tasks that run requests on the device. There are as many as were ever needed at once, at
//! most [`REQUESTS_MAX`]. They are used again and again, so that a request allocates no task.

use crate::numbers::{STATE_HOLE_ZERO, command};
use crate::options::{EXTENTS_MAX, REQUESTS_MAX};
use crate::proto::{self, RequestHeader};
use crate::request::DeviceCommand;
use crate::session::{Session, errno_of};
use base::Instant;
use env::{Slice, TaskSet, WriteStage};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use volume::{Device, Extent, Pieces, VolumeError};
use zerocopy::IntoBytes;

/// One request to run. It was checked, its payload is here, and the session counts it as in flight
/// under `parity`.
pub(crate) struct Job {
    pub(crate) header: RequestHeader,
    pub(crate) command: DeviceCommand,
    pub(crate) payload: Option<Slice>,
    pub(crate) room: u64,
    pub(crate) parity: usize,
    /// When it came.
    pub(crate) since: Instant,
}

/// What the reply to a job carries.
enum Outcome {
    Done,
    Data(Pieces),
    Extents(Vec<Extent>),
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// The waker of each worker, by its number. Set while the worker is idle.
    idle: Vec<Option<Waker>>,
    /// Numbers of idle workers, the last one to become idle on top (its memory is warm).
    stack: Vec<usize>,
}

/// The workers of one connection. All of them stop when this is dropped.
pub(crate) struct Workers<D> {
    session: Rc<Session<D>>,
    queue: Rc<RefCell<Queue>>,
    tasks: TaskSet,
}

impl<D: Device> Workers<D> {
    pub(crate) fn new(session: &Rc<Session<D>>) -> Self {
        Self { session: Rc::clone(session), queue: Rc::default(), tasks: TaskSet::default() }
    }

    /// Hands a job to an idle worker, or to a new one. Never waits: the connection's room bounds
    /// how many jobs there are.
    pub(crate) fn start(&self, job: Job) {
        let mut queue = self.queue.borrow_mut();
        queue.jobs.push_back(job);
        let waker = queue.stack.pop().and_then(|number| queue.idle[number].take());
        let number = queue.idle.len();
        if waker.is_none() && number < REQUESTS_MAX {
            queue.idle.push(None);
            drop(queue);
            let (session, queue) = (Rc::clone(&self.session), Rc::clone(&self.queue));
            self.tasks.spawn(&self.session.env, "nbd worker", work(session, queue, number));
            return;
        }
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The next job, for worker `number`. Nothing bounds the wait: an idle worker waits until its
/// connection ends.
async fn next(queue: &RefCell<Queue>, number: usize) -> Job {
    poll_fn(|cx| {
        let mut queue = queue.borrow_mut();
        let is_listed = queue.idle[number].is_some();
        if let Some(job) = queue.jobs.pop_front() {
            if is_listed {
                queue.idle[number] = None;
                queue.stack.retain(|other| *other != number);
            }
            return Poll::Ready(job);
        }
        queue.idle[number] = Some(cx.waker().clone());
        if !is_listed {
            queue.stack.push(number);
        }
        Poll::Pending
    })
    .await
}

async fn work<D: Device>(session: Rc<Session<D>>, queue: Rc<RefCell<Queue>>, number: usize) {
    loop {
        let mut job = next(&queue, number).await;
        let payload = job.payload.take();
        let outcome = run(&session.device, &job, payload).await;
        session.finish(job.parity);
        answer(&session, &job, outcome);
        if let DeviceCommand::Write = job.command {
            session.env.passed(WriteStage::Request, job.since);
        }
    }
}

async fn run<D: Device>(
    device: &D,
    job: &Job,
    payload: Option<Slice>,
) -> Result<Outcome, VolumeError> {
    let (offset, bytes) = (job.header.offset, u64::from(job.header.length));
    match job.command {
        DeviceCommand::Read => device.read(offset, bytes).await.map(Outcome::Data),
        DeviceCommand::Write => {
            let Some(payload) = payload else { unreachable!("a write has a payload") };
            device.write(offset, payload).await.map(|()| Outcome::Done)
        }
        DeviceCommand::Flush => device.flush().await.map(|()| Outcome::Done),
        DeviceCommand::Discard => device.discard(offset, bytes).await.map(|()| Outcome::Done),
        DeviceCommand::WriteZeroes => {
            device.write_zeroes(offset, bytes).await.map(|()| Outcome::Done)
        }
        DeviceCommand::Nothing => Ok(Outcome::Done),
        DeviceCommand::BlockStatus { is_one } => {
            let mut extents = device.extents(offset, bytes).await?;
            extents.truncate(if is_one { 1 } else { EXTENTS_MAX });
            Ok(Outcome::Extents(extents))
        }
    }
}

fn answer<D: Device>(session: &Session<D>, job: &Job, outcome: Result<Outcome, VolumeError>) {
    let cookie = job.header.cookie;
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return session.reply_error(&job.header, job.room, errno_of(error)),
    };
    let (env, is_structured) = (&session.env, session.agreed.is_structured);
    let mut outbox = session.outbox.borrow_mut();
    match outcome {
        Outcome::Done if is_structured && job.header.command == command::READ => {
            outbox.push(env, proto::none_chunk(cookie).as_bytes());
        }
        Outcome::Done => outbox.push(env, proto::simple_reply(cookie, 0).as_bytes()),
        Outcome::Data(pieces) => {
            assert_eq!(pieces.bytes(), u64::from(job.header.length), "a read of another length");
            if is_structured {
                let head = proto::data_chunk(cookie, job.header.offset, job.header.length);
                outbox.push(env, head.as_bytes());
            } else {
                outbox.push(env, proto::simple_reply(cookie, 0).as_bytes());
            }
            for piece in pieces.iter() {
                outbox.push_payload(env, piece);
            }
        }
        Outcome::Extents(extents) => {
            assert!(!extents.is_empty(), "a device that knows no extent");
            let count = u32::try_from(extents.len()).unwrap_or(u32::MAX);
            outbox.push(env, proto::status_chunk(cookie, count).as_bytes());
            for extent in extents {
                let bytes = u32::try_from(extent.bytes).unwrap_or(u32::MAX);
                let state = if extent.is_allocated { 0 } else { STATE_HOLE_ZERO };
                outbox.push(env, proto::status(bytes, state).as_bytes());
            }
        }
    }
    outbox.end_reply(job.room);
    drop(outbox);
    session.queued.notify();
}
