// SPDX-License-Identifier: Apache-2.0
//! One connection in the transmission phase: the reader, the writer, and what they share.

use crate::admission::ExportAsker;
use crate::exports::Sharing;
use crate::inbox::{Inbox, Pulse};
use crate::numbers::command;
use crate::options::{BYTES_MAX, REQUESTS_MAX, ServerOptions};
use crate::outbox::{Batch, Outbox};
use crate::proto::{self, Errno, RequestHeader};
use crate::request::{Agreed, DeviceCommand, check};
use crate::worker::{Job, Workers};
use env::{Env, IoError, Link, Notify, TaskSet};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use volume::{Device, VolumeError};
use zerocopy::IntoBytes;

/// A Unix socket is empty if a receive on it brings nothing for this long. The kernel needs one
/// turn, simulated links need some 50 us. The time is short, so that even a busy client has such a
/// moment soon.
const EMPTY_AFTER: Duration = Duration::from_micros(100);
/// More bytes than a Unix socket and our receive buffer hold together. Once the reader has received
/// so many, it has taken everything that lay in the socket before. This decides for clients that
/// always have more under way than the server reads.
const SOCKET_BYTES_MAX: u64 = 1 << 20;

/// How long a client that has left may take to receive the answers to its last requests.
const LAST_REPLIES_MAX: Duration = Duration::from_secs(2);

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionEnd {
    /// The client left, orderly or not, or we closed the connection.
    Left,
    /// The stream was no NBD.
    Malformed,
}

/// One connection of one export.
pub(crate) struct Session<D> {
    pub(crate) env: Env,
    pub(crate) device: D,
    pub(crate) agreed: Agreed,
    link: Link,
    is_tcp: bool,
    /// The name that the client gave itself.
    client: Option<String>,
    pulse: Rc<Pulse>,
    pub(crate) outbox: RefCell<Outbox>,
    /// A reply was queued.
    pub(crate) queued: Notify,
    /// Room was given back, or the connection is closed.
    room: Notify,
    requests: Cell<usize>,
    bytes: Cell<u64>,
    /// Requests that the device has not finished. Each is counted under the `parity` at which it
    /// was taken. A drain changes the parity, and so can wait for the older requests alone.
    in_flight: [Cell<usize>; 2],
    parity: Cell<usize>,
    /// One of `in_flight` fell to zero.
    finished: Notify,
    is_closed: Cell<bool>,
    /// Nothing more comes from the client.
    has_left: Cell<bool>,
    /// Wakes newcomers to the export when the client has left or the connection is closed.
    left: Notify,
}

/// What a newcomer has to do with an older connection (rule 47).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precedence {
    /// The newcomer waits until the requests of the older one are finished. Both go on.
    Beside,
    /// The older one is closed. The newcomer waits until its requests are finished.
    Replaces,
    /// The newcomer is refused while the older one lives.
    Refused,
}

impl<D: Device> Session<D> {
    pub(crate) fn new(
        env: &Env,
        caller: &ExportAsker<'_>,
        (pulse, left): (Rc<Pulse>, Notify),
        device: D,
        agreed: Agreed,
    ) -> Self {
        Self {
            env: env.clone(),
            device,
            agreed,
            link: caller.link.clone(),
            is_tcp: caller.is_tcp,
            client: caller.client.map(str::to_owned),
            pulse,
            outbox: RefCell::default(),
            queued: Notify::default(),
            room: Notify::default(),
            requests: Cell::new(0),
            bytes: Cell::new(0),
            in_flight: Default::default(),
            parity: Cell::new(0),
            finished: Notify::default(),
            is_closed: Cell::new(false),
            has_left: Cell::new(false),
            left,
        }
    }

    /// What `newcomer` has to do with this connection.
    pub(crate) fn precedence(&self, newcomer: &ExportAsker<'_>, sharing: Sharing) -> Precedence {
        if self.has_left.get() || self.is_closed.get() {
            return Precedence::Beside;
        }
        let is_same = match (&self.client, newcomer.client) {
            (Some(old), Some(new)) => Some(old == new),
            _ => None,
        };
        match (sharing, is_same) {
            // A Unix connection is read until it is empty. So a newcomer may be the second path of
            // a client as well as its second life.
            (Sharing::Shared, _) if !self.is_tcp => Precedence::Beside,
            (Sharing::Shared, Some(false)) => Precedence::Beside,
            (_, Some(true)) => Precedence::Replaces,
            (Sharing::Shared, None) | (Sharing::Exclusive, _) => Precedence::Refused,
        }
    }

    /// Serves until the client leaves or the connection is closed. Then waits until the requests
    /// that were taken are finished, which the time-out of the device bounds. A client that has
    /// left gets a little time to take the last replies.
    pub(crate) async fn serve(self: &Rc<Self>, inbox: &mut Inbox) -> SessionEnd {
        let tasks = TaskSet::default();
        let writer = Rc::clone(self);
        tasks.spawn(&self.env, "nbd writer", async move { writer.write_replies().await });
        let workers = Workers::new(self);
        let end = self.read_requests(inbox, &workers).await;
        self.has_left.set(true);
        self.left.notify();
        if end == SessionEnd::Left {
            for parity in [0, 1] {
                self.until_finished(parity).await;
            }
            // If the client takes no replies any more, nothing is lost: it has left.
            let _ = self.env.timeout(LAST_REPLIES_MAX, self.until_answered()).await;
        }
        self.close();
        for parity in [0, 1] {
            self.until_finished(parity).await;
        }
        end
    }

    async fn read_requests(&self, inbox: &mut Inbox, workers: &Workers<D>) -> SessionEnd {
        while !self.is_closed.get() {
            let Ok(bytes) = inbox.take().await else { return SessionEnd::Left };
            let Some(header) = RequestHeader::decode(&bytes) else { return SessionEnd::Malformed };
            if header.command == command::DISC {
                return SessionEnd::Left;
            }
            if self.take_request(inbox, &header, workers).await.is_err() {
                self.close(); // cut off within a request: nobody is there any more
                return SessionEnd::Left;
            }
        }
        SessionEnd::Left
    }

    async fn take_request(
        &self,
        inbox: &mut Inbox,
        header: &RequestHeader,
        workers: &Workers<D>,
    ) -> Result<(), IoError> {
        let has_payload = header.command == command::WRITE;
        let checked = check(header, self.agreed);
        let room = match checked {
            Ok(DeviceCommand::Read | DeviceCommand::Write) => u64::from(header.length),
            _ => 0,
        };
        self.take_room(room).await?;
        let command = match checked {
            Ok(command) => command,
            Err(errno) => {
                if has_payload {
                    inbox.skip(u64::from(header.length)).await?;
                }
                self.reply_error(header, room, errno);
                return Ok(());
            }
        };
        let payload = match command {
            DeviceCommand::Write => {
                let len = usize::try_from(header.length).unwrap_or(usize::MAX);
                Some(inbox.take_slice(len).await?)
            }
            _ => None,
        };
        if self.is_closed.get() {
            return Err(IoError::Closed);
        }
        let parity = self.parity.get();
        self.in_flight[parity].set(self.in_flight[parity].get() + 1);
        let since = self.env.now();
        workers.start(Job { header: *header, command, payload, room, parity, since });
        Ok(())
    }

    /// Waits until the connection has room for one more request of `bytes`.
    async fn take_room(&self, bytes: u64) -> Result<(), IoError> {
        loop {
            let room = self.room.wait();
            if self.is_closed.get() {
                return Err(IoError::Closed);
            }
            let fits = self.bytes.get() + bytes <= BYTES_MAX;
            if self.requests.get() < REQUESTS_MAX && fits {
                self.requests.set(self.requests.get() + 1);
                self.bytes.set(self.bytes.get() + bytes);
                return Ok(());
            }
            room.await;
        }
    }

    fn give_room(&self, batch: &Batch) {
        self.requests.set(self.requests.get() - batch.requests);
        self.bytes.set(self.bytes.get() - batch.bytes);
        self.room.notify();
    }

    async fn write_replies(&self) {
        loop {
            let queued = self.queued.wait();
            let batch = self.outbox.borrow_mut().take();
            let Some(mut batch) = batch else {
                queued.await;
                continue;
            };
            while let Some(part) = batch.parts.pop_front() {
                if self.link.send(part).await.is_err() {
                    return self.close();
                }
            }
            self.give_room(&batch);
        }
    }

    /// The device is done with a request that was counted under `parity`.
    pub(crate) fn finish(&self, parity: usize) {
        let left = self.in_flight[parity].get() - 1;
        self.in_flight[parity].set(left);
        if left == 0 {
            self.finished.notify();
        }
    }

    /// Waits until every reply is sent, or the connection is closed.
    async fn until_answered(&self) {
        loop {
            let room = self.room.wait();
            if self.is_closed.get() || self.requests.get() == 0 {
                return;
            }
            room.await;
        }
    }

    /// Waits until the device has finished all requests that are counted under `parity`.
    async fn until_finished(&self, parity: usize) {
        loop {
            let finished = self.finished.wait();
            if self.in_flight[parity].get() == 0 {
                return;
            }
            finished.await;
        }
    }

    /// Closes the link. No more requests are taken; those that were taken are finished.
    pub(crate) fn close(&self) {
        if !self.is_closed.replace(true) {
            self.link.close();
            self.room.notify();
            self.left.notify();
        }
    }

    /// Prepares for a newer connection (rule 47). Resolves when the device has finished every
    /// request that was taken from this connection; from a Unix socket, everything that lay in it
    /// is taken first. One caller at a time: the gate of the export sees to that.
    pub(crate) async fn drain(&self, options: ServerOptions, precedence: Precedence) {
        // Reads the socket until it is empty, unless the connection has ended or is over TCP. What
        // the client of an ended connection had sent was taken, or is lost. A TCP connection is
        // closed below, or belongs to another client, whose requests are not ordered with those of
        // the newcomer.
        if !self.has_left.get() && !self.is_tcp {
            self.read_empty(options.drain_grace).await;
        }
        if precedence == Precedence::Replaces {
            self.close();
        }
        // An earlier drain that was dropped may have left requests under the other parity.
        let parity = self.parity.get();
        self.until_finished(1 - parity).await;
        self.parity.set(1 - parity);
        self.until_finished(parity).await;
    }

    /// Waits until the reader has taken what lay in its socket, or the connection has ended. Closes
    /// the connection if for `grace` nothing but a client that takes no replies keeps the reader
    /// from reading.
    async fn read_empty(&self, grace: Duration) {
        let mut stuck_since = None;
        let enough = self.pulse.bytes.get() + SOCKET_BYTES_MAX;
        while !self.is_closed.get() && !self.has_left.get() {
            let before = (self.pulse.is_waiting.get(), self.pulse.received.get());
            self.env.sleep(EMPTY_AFTER).await;
            let after = (self.pulse.is_waiting.get(), self.pulse.received.get());
            // The same receive was under way before and after.
            if (before == after && after.0) || self.pulse.bytes.get() >= enough {
                return;
            }
            let in_flight = self.in_flight[0].get() + self.in_flight[1].get();
            if before != after || in_flight > 0 {
                stuck_since = None;
                continue;
            }
            let since = *stuck_since.get_or_insert(self.env.now());
            if self.env.now() >= since + grace {
                self.close();
            }
        }
    }

    /// Queues an error reply. The `room` of the request is given back once the reply is sent.
    pub(crate) fn reply_error(&self, header: &RequestHeader, room: u64, errno: Errno) {
        let is_chunk = matches!(header.command, command::READ | command::BLOCK_STATUS);
        let (cookie, error) = (header.cookie, errno.number());
        let mut outbox = self.outbox.borrow_mut();
        if self.agreed.is_structured && is_chunk {
            outbox.push(&self.env, proto::error_chunk(cookie, error).as_bytes());
        } else {
            outbox.push(&self.env, proto::simple_reply(cookie, error).as_bytes());
        }
        outbox.end_reply(room);
        drop(outbox);
        self.queued.notify();
    }
}

/// The error number of a failed I/O.
pub(crate) fn errno_of(error: VolumeError) -> Errno {
    match error {
        VolumeError::TimedOut | VolumeError::Io => Errno::Io,
        VolumeError::Full => Errno::NoSpace,
        VolumeError::NotWriter => Errno::NotPermitted,
        VolumeError::Deleted => Errno::ShuttingDown,
        VolumeError::Unaligned { .. } | VolumeError::OutOfRange { .. } => Errno::Invalid,
    }
}
