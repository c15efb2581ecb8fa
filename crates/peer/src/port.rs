// SPDX-License-Identifier: Apache-2.0
//! One end of one link: frames out in batches, frames in from bulk receives.

use crate::stats::PeerCounters;
use crate::stream::Stream;
use base::{Instant, ShardId};
use env::{Buf, Env, Notify, Slice};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;
use wire::{HEADER_LEN, Header, Message, WireError};

/// Bytes gathered into one send, about; more waits for the next one.
const BATCH_BYTES: usize = 256 << 10;
/// Payloads of this size and more are sent from where they are instead of being copied.
const OWN_SEND_MIN: usize = 64 << 10;
/// Receive buffer of an idle link, bytes.
const RECEIVE_MIN: usize = 4 << 10;
/// Receive buffer of a busy link, bytes; a larger frame gets a buffer of its own.
const RECEIVE_MAX: usize = 256 << 10;

/// Bytes that may wait to be sent on one link. All shares together are far below this. So the queue
/// gets so long only when the other end goes on asking and takes no answers. The link ends then.
const QUEUE_BYTES_MAX: u64 = 128 << 20;
/// Bytes that a frame counts in addition to its payload.
const FRAME_COST: u64 = 256;
/// A link on which nothing but pings was sent for so long is at rest.
const IN_USE_FOR: Duration = Duration::from_secs(10);

/// Why reading ended.
#[derive(Debug)]
pub(crate) enum PortFault {
    /// Closed or reset, here or there.
    Gone,
    /// Bytes that are no frame.
    Malformed(WireError),
    /// A frame that has no place here.
    Unexpected,
    /// An introduction of a host that does not belong here.
    Stranger,
    /// An introduction of a host that speaks no version which this one speaks.
    Incompatible,
    /// More asked at a time than the shares of a link allow.
    Overrun,
}

/// One end of a link. The task that runs the link cleans up after it: see `link.rs`.
pub(crate) struct Port {
    env: Env,
    stream: Stream,
    counters: Rc<PeerCounters>,
    /// Of all frames but introductions, once the two ends have agreed on one.
    version: Cell<Option<u8>>,
    queue: RefCell<VecDeque<(u64, Message)>>,
    queued: Cell<u64>,
    writer: Cell<Option<Waker>>,
    sent_at: Cell<Instant>,
    heard_at: Cell<Instant>,
    /// When a frame passed last that was no ping and no pong.
    used_at: Cell<Instant>,
    /// When the link came into use after it had been at rest.
    in_use_since: Cell<Instant>,
    is_dead: Cell<bool>,
    ended: Notify,
}

impl Port {
    pub(crate) fn new(env: &Env, stream: Stream, counters: &Rc<PeerCounters>) -> Self {
        let now = env.now();
        Self {
            env: env.clone(),
            stream,
            counters: Rc::clone(counters),
            version: Cell::new(None),
            queue: RefCell::default(),
            queued: Cell::new(0),
            writer: Cell::new(None),
            sent_at: Cell::new(now),
            heard_at: Cell::new(now),
            used_at: Cell::new(now),
            in_use_since: Cell::new(now),
            is_dead: Cell::new(false),
            ended: Notify::default(),
        }
    }

    /// The ends of the link have agreed on a version, for as long as it lives.
    pub(crate) fn agree(&self, version: u8) {
        let before = self.version.replace(Some(version));
        assert!(before.is_none(), "a link has one version for its life");
    }

    /// The version that was agreed on. Before that nothing but an introduction may be sent.
    pub(crate) fn version(&self) -> Option<u8> {
        self.version.get()
    }

    /// Puts a frame behind those that wait. A queue beyond [`QUEUE_BYTES_MAX`] ends the link.
    /// Nothing happens where the link is dead.
    pub(crate) fn post(&self, id: u64, message: Message) {
        if self.is_dead.get() {
            return;
        }
        if !is_sign_of_life(&message) {
            self.use_now();
        }
        let queued = self.queued.get() + bytes_of(&message);
        if queued > QUEUE_BYTES_MAX {
            self.counters.overrun.add(1);
            tracing::warn!(queued, "link dropped: the other end takes nothing");
            return self.die();
        }
        self.queued.set(queued);
        self.queue.borrow_mut().push_back((id, message));
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }

    /// Ends the link now: nothing is sent or taken in any more.
    pub(crate) fn die(&self) {
        if self.is_dead.replace(true) {
            return;
        }
        self.stream.close();
        let queue = std::mem::take(&mut *self.queue.borrow_mut());
        self.queued.set(0);
        drop(queue);
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
        self.ended.notify();
    }

    /// Whether the other end may say that it is `shard`.
    pub(crate) fn is_of(&self, shard: ShardId) -> bool {
        self.stream.is_of(shard)
    }

    /// Whether nobody else reads what passes.
    pub(crate) fn is_secure(&self) -> bool {
        self.stream.is_secure()
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.is_dead.get()
    }

    /// Resolves when the link is dead.
    pub(crate) async fn ended(&self) {
        let ended = self.ended.wait();
        if !self.is_dead.get() {
            ended.await;
        }
    }

    pub(crate) fn heard_at(&self) -> Instant {
        self.heard_at.get()
    }

    /// Whether a frame passed lately that was no ping.
    pub(crate) fn is_in_use(&self) -> bool {
        self.env.now().since(self.used_at.get()) < IN_USE_FOR
    }

    /// The link is used at this moment.
    pub(crate) fn use_now(&self) {
        let now = self.env.now();
        if !self.is_in_use() {
            self.in_use_since.set(now);
        }
        self.used_at.set(now);
    }

    /// Since when it is silent although it was to be heard: not for all the time that it was at
    /// rest, when it was pinged less often.
    pub(crate) fn silent_since(&self) -> Instant {
        self.heard_at.get().max(self.in_use_since.get())
    }

    pub(crate) fn set_heard_at(&self, at: Instant) {
        self.heard_at.set(at);
    }

    /// When something was sent last. `None` where something waits to be sent.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        self.queue.borrow().is_empty().then(|| self.sent_at.get())
    }

    /// Sends what is posted, one batch at a time, until the link is dead. What is posted while a
    /// batch is under way goes into the next.
    pub(crate) async fn write(&self) {
        let mut batch = Batch::default();
        loop {
            poll_fn(|cx| {
                if self.is_dead.get() || !self.queue.borrow().is_empty() {
                    return Poll::Ready(());
                }
                self.writer.set(Some(cx.waker().clone()));
                Poll::Pending
            })
            .await;
            if self.is_dead.get() {
                return;
            }
            let (small, large) = self.gather(&mut batch);
            self.sent_at.set(self.env.now());
            self.counters.sends.add(1);
            let mut sent = self.stream.send(small).await;
            if let (Ok(()), Some(large)) = (&sent, large) {
                sent = self.stream.send(large).await;
            }
            if sent.is_err() {
                return self.die();
            }
        }
    }

    /// Takes about [`BATCH_BYTES`] of frames from the queue. The first slice holds the frames with
    /// their small payloads. The second is a payload of [`OWN_SEND_MIN`] bytes or more: it is sent
    /// right behind the first slice, so no frame is taken after it.
    fn gather(&self, batch: &mut Batch) -> (Slice, Option<Slice>) {
        let mut large = None;
        let mut total = 0;
        while total < BATCH_BYTES && large.is_none() {
            let next = self.queue.borrow_mut().pop_front();
            let Some((id, message)) = next else { break };
            self.queued.set(self.queued.get() - bytes_of(&message));
            let start = batch.frames.len();
            wire::encode(&message, self.version.get(), id, &mut batch.frames);
            self.counters.frames_sent.add(1);
            total += batch.frames.len() - start;
            match message.payload() {
                Some(payload) if payload.len() >= OWN_SEND_MIN => large = Some(payload.clone()),
                Some(payload) => {
                    total += payload.len();
                    batch.payloads.push((batch.frames.len(), payload.clone()));
                }
                None => {}
            }
        }
        let mut buf = self.env.buf(total);
        buf.set_len(0);
        let mut done = 0;
        for (end, payload) in batch.payloads.drain(..) {
            buf.push(&batch.frames[done..end]);
            buf.push(&payload);
            done = end;
        }
        buf.push(&batch.frames[done..]);
        batch.frames.clear();
        batch.frames.shrink_to(BATCH_BYTES);
        (buf.freeze(), large)
    }

    /// Receives frames and hands each to `take` in order, until the link ends, `take` finds a
    /// fault, or the link is dead.
    pub(crate) async fn read(
        &self,
        mut take: impl FnMut(u64, Message) -> Result<(), PortFault>,
    ) -> PortFault {
        let mut size = RECEIVE_MIN;
        let mut buf = self.env.buf(size);
        let mut filled = 0;
        loop {
            let Ok((received, count)) = self.stream.recv(buf, filled).await else {
                return PortFault::Gone;
            };
            if count == 0 || self.is_dead.get() {
                return PortFault::Gone;
            }
            self.heard_at.set(self.env.now());
            self.counters.bytes_received.add(count as u64);
            filled += count;
            size = next_size(size, count, filled == received.len());
            match self.split(received, filled, size, &mut take) {
                Ok(next) => (buf, filled) = next,
                Err(fault) => return fault,
            }
        }
    }

    /// Hands out the whole frames at the front of `buf[..filled]`; returns a buffer of about `size`
    /// bytes with the rest at its front, and room for all of the frame that began.
    fn split(
        &self,
        buf: Buf,
        filled: usize,
        size: usize,
        take: &mut impl FnMut(u64, Message) -> Result<(), PortFault>,
    ) -> Result<(Buf, usize), PortFault> {
        let (mut wanted, mut header) = self.look(&buf[..filled])?;
        if wanted > filled {
            // Nothing is whole yet. A long frame goes on in the same buffer, so that it is not
            // copied again and again.
            if buf.len() >= wanted {
                return Ok((buf, filled));
            }
            return Ok((self.move_on(&buf[..filled], size.max(wanted)), filled));
        }
        let bytes = buf.freeze();
        let mut at = 0;
        while let Some(whole) = header.filter(|_| at + wanted <= filled) {
            let body = at + HEADER_LEN..at + HEADER_LEN + whole.body_len();
            let payload = bytes.slice(body.end..at + wanted);
            let message =
                wire::decode(&whole, &bytes[body], payload).map_err(PortFault::Malformed)?;
            self.counters.frames_received.add(1);
            if !is_sign_of_life(&message) {
                self.use_now();
            }
            take(whole.id(), message)?;
            if self.is_dead.get() {
                return Err(PortFault::Gone);
            }
            at += wanted;
            (wanted, header) = self.look(&bytes[at..filled])?;
        }
        let rest = filled - at;
        if rest == 0 && bytes.len() == size {
            // Where nobody kept a payload, the buffer is used again.
            if let Ok(buf) = bytes.try_unfreeze() {
                return Ok((buf, 0));
            }
            return Ok((self.env.buf(size), 0));
        }
        Ok((self.move_on(&bytes[at..filled], size.max(wanted)), rest))
    }

    /// The length of the first frame in `bytes`, as far as it is known, and its header if that is
    /// there.
    fn look(&self, bytes: &[u8]) -> Result<(usize, Option<Header>), PortFault> {
        match bytes.first_chunk::<HEADER_LEN>() {
            None => Ok((HEADER_LEN, None)),
            Some(header) => {
                let header = Header::decode(header, self.version.get());
                let header = header.map_err(PortFault::Malformed)?;
                Ok((header.frame_len(), Some(header)))
            }
        }
    }

    fn move_on(&self, rest: &[u8], size: usize) -> Buf {
        let mut buf = self.env.buf(size);
        let capacity = buf.capacity();
        buf.set_len(capacity);
        buf[..rest.len()].copy_from_slice(rest);
        buf
    }
}

/// Frames that are being gathered. Kept from batch to batch, so that the memory is used again.
#[derive(Default)]
struct Batch {
    /// Headers and bodies.
    frames: Vec<u8>,
    /// Payloads, each with the place in `frames` behind which it belongs.
    payloads: Vec<(usize, Slice)>,
}

fn is_sign_of_life(message: &Message) -> bool {
    matches!(message, Message::Ping | Message::Pong)
}

fn bytes_of(message: &Message) -> u64 {
    FRAME_COST + message.payload().map_or(0, |payload| payload.len() as u64)
}

/// The size of the next receive buffer. Busy links get larger ones. The buffer of a quiet link
/// shrinks with each ping, down to [`RECEIVE_MIN`].
fn next_size(size: usize, count: usize, was_full: bool) -> usize {
    if was_full {
        (size * 4).min(RECEIVE_MAX)
    } else if count < size / 4 {
        (size / 2).max(RECEIVE_MIN)
    } else {
        size
    }
}
