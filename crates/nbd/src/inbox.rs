// SPDX-License-Identifier: Apache-2.0
//! What a client sends: received in large pieces, with payload handed out as parts of the receive
//! buffer.

use crate::options::{PAYLOAD_LARGE, RECEIVE_MAX, RECEIVE_MIN, WATCH_SIZE};
use env::{Buf, Env, IoError, Link, Slice};
use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::rc::Rc;

/// The receive buffer: ours alone, or shared with payload that was handed out.
enum Memory {
    Own(Buf),
    Shared(Slice),
}

/// What newcomers to an export may see of the reader of an older connection: whether it waits for
/// its socket, and what it has received.
#[derive(Default)]
pub(crate) struct Pulse {
    /// A receive is under way.
    pub(crate) is_waiting: Cell<bool>,
    /// Receives that have ended, with bytes or without.
    pub(crate) received: Cell<u64>,
    /// Bytes received.
    pub(crate) bytes: Cell<u64>,
}

/// A receive that is kept when the future that waits for it is dropped. Dropping the receive would
/// lose the bytes that it brings.
type Watch = Pin<Box<dyn Future<Output = Result<(Buf, usize), IoError>>>>;

/// The receiving side of one link.
pub(crate) struct Inbox {
    env: Env,
    link: Link,
    memory: Option<Memory>,
    start: usize,
    end: usize,
    /// Size of the next buffer, bytes. It follows how much the last receive brought.
    size: usize,
    pulse: Rc<Pulse>,
    /// The receive that [`Inbox::until_left`] began, into memory of its own.
    watch: Option<Watch>,
}

impl Inbox {
    pub(crate) fn new(env: &Env, link: &Link) -> Self {
        let (env, link) = (env.clone(), link.clone());
        Self {
            env,
            link,
            memory: None,
            start: 0,
            end: 0,
            size: RECEIVE_MIN,
            pulse: Rc::default(),
            watch: None,
        }
    }

    /// The pulse of this connection's reader.
    pub(crate) fn pulse(&self) -> Rc<Pulse> {
        Rc::clone(&self.pulse)
    }

    /// Resolves when the client has closed its side. Bytes that arrive before that are kept. For a
    /// connection that waits for older connections, not for its own client. May be dropped at any
    /// moment.
    pub(crate) async fn until_left(&mut self) -> IoError {
        // A client that sends this much ahead is not gone. What it sends further waits in its
        // socket.
        while self.len() < RECEIVE_MIN {
            if let Err(error) = self.watched().await {
                return error;
            }
        }
        pending().await
    }

    /// Waits for one receive into a buffer of its own, then puts its bytes behind those that are
    /// held. Goes on with a receive that an earlier call began.
    async fn watched(&mut self) -> Result<(), IoError> {
        let (env, link) = (&self.env, &self.link);
        let watch = self.watch.get_or_insert_with(|| Box::pin(link.recv(env.buf(WATCH_SIZE), 0)));
        let received = poll_fn(|cx| watch.as_mut().poll(cx)).await;
        self.watch = None;
        let (buf, count) = self.count(received)?;
        let held = self.len();
        let mut memory = self.memory_for(held + count);
        memory.set_len(memory.capacity());
        memory[held..held + count].copy_from_slice(&buf[..count]);
        self.memory = Some(Memory::Own(memory));
        self.end = held + count;
        Ok(())
    }

    /// Receives once into `buf[at..]`. The pulse says so meanwhile.
    async fn receive(&self, buf: Buf, at: usize) -> Result<(Buf, usize), IoError> {
        self.pulse.is_waiting.set(true);
        let received = self.link.recv(buf, at).await;
        self.pulse.is_waiting.set(false);
        self.count(received)
    }

    /// Counts a receive that has ended. One without bytes is the end of the stream.
    fn count(&self, received: Result<(Buf, usize), IoError>) -> Result<(Buf, usize), IoError> {
        self.pulse.received.set(self.pulse.received.get() + 1);
        match received? {
            (_, 0) => Err(IoError::Closed),
            (buf, count) => {
                self.pulse.bytes.set(self.pulse.bytes.get() + count as u64);
                Ok((buf, count))
            }
        }
    }

    fn bytes(&self) -> &[u8] {
        match &self.memory {
            None => &[],
            Some(Memory::Own(buf)) => &buf[self.start..self.end],
            Some(Memory::Shared(slice)) => &slice[self.start..self.end],
        }
    }

    /// Bytes received and not yet taken.
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    /// Receives once, into a buffer that has room for `wanted` bytes, those already held included.
    ///
    /// # Errors
    /// The link's error; [`IoError::Closed`] at the end of the stream.
    async fn fill(&mut self, wanted: usize) -> Result<(), IoError> {
        if self.watch.is_some() {
            self.pulse.is_waiting.set(true);
            let watched = self.watched().await;
            self.pulse.is_waiting.set(false);
            return watched;
        }
        let mut buf = self.memory_for(wanted);
        let held = self.len();
        buf.set_len(buf.capacity());
        let (buf, count) = self.receive(buf, held).await?;
        self.memory = Some(Memory::Own(buf));
        self.end = held + count;
        self.size = (count * 2).next_power_of_two().clamp(RECEIVE_MIN, RECEIVE_MAX);
        Ok(())
    }

    /// A buffer that begins with the bytes that are held and has room for `wanted` bytes in all, or
    /// more.
    fn memory_for(&mut self, wanted: usize) -> Buf {
        let size = self.size.max(wanted + RECEIVE_MIN / 2);
        let range = self.start..self.end;
        self.end -= self.start;
        self.start = 0;
        match self.memory.take() {
            Some(Memory::Own(mut buf)) if (size..=size * 4).contains(&buf.len()) => {
                buf.copy_within(range, 0);
                buf
            }
            Some(Memory::Own(old)) => self.moved(size, &old[range]),
            Some(Memory::Shared(old)) => self.moved(size, &old[range]),
            None => self.env.buf(size),
        }
    }

    fn moved(&self, size: usize, held: &[u8]) -> Buf {
        let mut buf = self.env.buf(size);
        buf[..held.len()].copy_from_slice(held);
        buf
    }

    /// Waits until `N` bytes are there and takes them.
    ///
    /// # Errors
    /// The link's error; [`IoError::Closed`] at the end of the stream.
    pub(crate) async fn take<const N: usize>(&mut self) -> Result<[u8; N], IoError> {
        while self.len() < N {
            self.fill(N).await?;
        }
        let mut taken = [0; N];
        taken.copy_from_slice(&self.bytes()[..N]);
        self.start += N;
        Ok(taken)
    }

    /// Takes `len` bytes as a slice, normally a part of the receive buffer. A large payload that is
    /// not all there gets memory of its own, into which the rest is received directly.
    ///
    /// # Errors
    /// The link's error; [`IoError::Closed`] at the end of the stream.
    pub(crate) async fn take_slice(&mut self, len: usize) -> Result<Slice, IoError> {
        while self.watch.is_some() && self.len() < len {
            self.fill(len).await?;
        }
        if self.len() < len && len >= PAYLOAD_LARGE {
            return self.take_direct(len).await;
        }
        while self.len() < len {
            self.fill(len).await?;
        }
        let slice = match self.memory.take() {
            None => return Ok(self.env.buf(0).freeze()),
            Some(Memory::Own(buf)) => buf.freeze(),
            Some(Memory::Shared(slice)) => slice,
        };
        let taken = slice.slice(self.start..self.start + len);
        self.start += len;
        self.memory = Some(Memory::Shared(slice));
        Ok(taken)
    }

    async fn take_direct(&mut self, len: usize) -> Result<Slice, IoError> {
        let mut buf = self.env.buf(len);
        let mut at = self.len();
        buf[..at].copy_from_slice(self.bytes());
        self.start = self.end;
        while at < len {
            let count;
            (buf, count) = self.receive(buf, at).await?;
            at += count;
        }
        self.size = RECEIVE_MAX;
        Ok(buf.freeze())
    }

    /// Takes `len` bytes and drops them.
    ///
    /// # Errors
    /// The link's error; [`IoError::Closed`] at the end of the stream.
    pub(crate) async fn skip(&mut self, mut len: u64) -> Result<(), IoError> {
        loop {
            let now = self.len().min(usize::try_from(len).unwrap_or(usize::MAX));
            self.start += now;
            len -= now as u64;
            if len == 0 {
                return Ok(());
            }
            self.fill(1).await?;
        }
    }
}
