// SPDX-License-Identifier: Apache-2.0
//! What the client remembers between the task of its connection and its callers. No I/O here.

use super::{CALLS_MAX, ClientOptions, LISTING_BYTES_MAX, WATCH_EVENTS_MAX};
use crate::protocol::{Answer, DirectoryRequest, encode_request};
use crate::types::{DirectoryError, Listing, WatchEvent};
use base::Map;
use env::Notify;
use env::channel::{OneReceiver, OneSender, oneshot};
use std::collections::VecDeque;
use std::future::Future;

/// What a caller gets.
pub type AnswerSender = Result<Answer, DirectoryError>;

/// Something that the directory must not say; the connection is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerViolation;

pub struct ClientState {
    options: ClientOptions,
    is_connected: bool,
    number_last: u64,
    calls: Map<u64, Call>,
    watches: Map<u64, Watched>,
    /// Frames in the order of sending; emptied and filled again with each connection.
    queue: VecDeque<Frame>,
}

struct Call {
    /// The encoded request. `None` once it was sent.
    frame: Option<Vec<u8>>,
    is_change: bool,
    reply: OneSender<AnswerSender>,
    parts: Parts,
}

struct Watched {
    prefix: String,
    events: VecDeque<WatchEvent>,
    parts: Parts,
    /// The reader was too slow: nothing more is kept until it has caught up.
    is_overflown: bool,
    /// A reset came on this connection.
    is_started: bool,
    changed: Notify,
}

enum Frame {
    Call(u64),
    Ready(Vec<u8>),
}

/// A listing of which not all parts have come.
#[derive(Default)]
struct Parts {
    listing: Listing,
    bytes: usize,
}

impl Parts {
    fn add(&mut self, part: Listing) -> Result<(), ServerViolation> {
        let size = |(key, entry): &(String, crate::Entry)| key.len() + entry.value.len();
        self.bytes += part.entries.iter().map(size).sum::<usize>();
        if self.bytes > LISTING_BYTES_MAX {
            return Err(ServerViolation);
        }
        self.listing.revision = part.revision;
        self.listing.entries.extend(part.entries);
        Ok(())
    }

    fn take(&mut self) -> Listing {
        std::mem::take(self).listing
    }
}

impl ClientState {
    pub fn new(options: ClientOptions) -> Self {
        assert!(options.watch_events <= WATCH_EVENTS_MAX, "more events than a watch may keep");
        Self {
            options,
            is_connected: false,
            number_last: 0,
            calls: Map::new(),
            watches: Map::new(),
            queue: VecDeque::new(),
        }
    }

    pub fn is_connected(&self) -> bool {
        self.is_connected
    }

    fn number(&mut self) -> u64 {
        self.number_last += 1;
        self.number_last
    }

    pub fn call_add(
        &mut self,
        request: &DirectoryRequest,
        is_change: bool,
    ) -> Result<(u64, OneReceiver<AnswerSender>), DirectoryError> {
        if self.calls.len() >= CALLS_MAX {
            return Err(DirectoryError::Unavailable);
        }
        let number = self.number();
        let (reply, receiver) = oneshot();
        let frame = Some(encode_request(number, request));
        self.calls.insert(number, Call { frame, is_change, reply, parts: Parts::default() });
        if self.is_connected {
            self.queue.push_back(Frame::Call(number));
        }
        Ok((number, receiver))
    }

    /// Removes a call whose caller waits no longer, and returns what the caller must assume.
    pub fn call_give_up(&mut self, number: u64) -> DirectoryError {
        match self.calls.remove(&number) {
            Some(call) => call.error(),
            None => DirectoryError::Unknown,
        }
    }

    pub fn call_remove(&mut self, number: u64) {
        self.calls.remove(&number);
    }

    pub fn watch_add(&mut self, prefix: String) -> u64 {
        let id = self.number();
        let watched = Watched {
            prefix,
            events: VecDeque::new(),
            parts: Parts::default(),
            is_overflown: false,
            is_started: false,
            changed: Notify::default(),
        };
        if self.is_connected {
            self.queue.push_back(watched.frame(id));
        }
        self.watches.insert(id, watched);
        id
    }

    pub fn watch_remove(&mut self, id: u64) {
        if self.watches.remove(&id).is_some() && self.is_connected {
            let number = self.number();
            let frame = encode_request(number, &DirectoryRequest::Unwatch { watch: id });
            self.queue.push_back(Frame::Ready(frame));
        }
    }

    pub fn watch_take(&mut self, id: u64) -> Option<WatchEvent> {
        self.watches.get_mut(&id)?.events.pop_front()
    }

    /// Starts a watch again that dropped events, and returns its new number. The new number lets
    /// the client ignore what still comes under the old one. `None` where no event was dropped.
    pub fn watch_restart_if_overflown(&mut self, id: u64) -> Option<u64> {
        let watched = self.watches.get(&id).filter(|watched| watched.is_overflown)?;
        let prefix = watched.prefix.clone();
        self.watch_remove(id);
        Some(self.watch_add(prefix))
    }

    /// Resolves when [`Self::watch_take`] may have something.
    pub fn watch_wait(&self, id: u64) -> impl Future<Output = ()> + use<> {
        match self.watches.get(&id) {
            Some(watched) => watched.changed.wait(),
            None => unreachable!("a watch is known until it is dropped"),
        }
    }

    /// A new connection is there. Every watch is asked for again on it, and every call that was
    /// not sent yet is sent on it.
    pub fn connected(&mut self) {
        self.is_connected = true;
        self.queue.clear();
        for (id, watched) in &mut self.watches {
            watched.parts = Parts::default();
            watched.is_started = false;
            self.queue.push_back(watched.frame(*id));
        }
        let unsent = self.calls.iter().filter(|(_, call)| call.frame.is_some());
        self.queue.extend(unsent.map(|(number, _)| Frame::Call(*number)));
    }

    /// The connection is gone. Calls that were sent on it fail; a call that was not sent yet waits
    /// for the next connection.
    pub fn disconnected(&mut self) {
        self.is_connected = false;
        let numbers: Vec<u64> =
            self.calls.iter().filter(|(_, c)| c.frame.is_none()).map(|(n, _)| *n).collect();
        for number in numbers {
            if let Some(call) = self.calls.remove(&number) {
                let error = call.error();
                call.reply.send(Err(error));
            }
        }
    }

    /// Frames to send now, at most about `bytes_max` bytes; they count as sent.
    pub fn take_outgoing(&mut self, bytes_max: usize) -> Vec<Vec<u8>> {
        let (mut frames, mut bytes) = (Vec::new(), 0);
        while bytes < bytes_max {
            let frame = match self.queue.pop_front() {
                None => break,
                Some(Frame::Ready(frame)) => Some(frame),
                Some(Frame::Call(number)) => {
                    self.calls.get_mut(&number).and_then(|call| call.frame.take())
                }
            };
            if let Some(frame) = frame {
                bytes += frame.len();
                frames.push(frame);
            }
        }
        frames
    }

    /// Asks for a sign of life.
    pub fn ping(&mut self) {
        let number = self.number();
        self.queue.push_back(Frame::Ready(encode_request(number, &DirectoryRequest::Ping)));
    }

    /// Hands an answer to the call or watch of this number. Where neither is known, the caller gave
    /// it up, and the answer is ignored.
    pub fn answered(&mut self, number: u64, answer: Answer) -> Result<(), ServerViolation> {
        if let Some(watched) = self.watches.get_mut(&number) {
            return watched.answered(answer, self.options.watch_events);
        }
        let Some(call) = self.calls.get_mut(&number) else { return Ok(()) };
        if call.frame.is_some() {
            return Err(ServerViolation); // answers what was not asked yet
        }
        let answer = match answer {
            Answer::Events(_) => return Err(ServerViolation),
            Answer::Part { listing, has_more } => {
                call.parts.add(listing)?;
                if has_more {
                    return Ok(());
                }
                Answer::Part { listing: call.parts.take(), has_more: false }
            }
            answer => answer,
        };
        if let Some(call) = self.calls.remove(&number) {
            call.reply.send(Ok(answer));
        }
        Ok(())
    }
}

impl Call {
    fn error(&self) -> DirectoryError {
        let is_sent = self.frame.is_none();
        if is_sent && self.is_change {
            DirectoryError::Unknown
        } else {
            DirectoryError::Unavailable
        }
    }
}

impl Watched {
    fn frame(&self, id: u64) -> Frame {
        Frame::Ready(encode_request(id, &DirectoryRequest::Watch { prefix: self.prefix.clone() }))
    }

    fn answered(&mut self, answer: Answer, most: usize) -> Result<(), ServerViolation> {
        match answer {
            Answer::Part { listing, has_more } => {
                self.parts.add(listing)?;
                if !has_more {
                    let listing = self.parts.take();
                    self.is_started = true;
                    // A reset makes everything before it worthless, an overflow included.
                    self.is_overflown = false;
                    self.events.clear();
                    self.events.push_back(WatchEvent::Reset(listing));
                }
            }
            Answer::Events(events) => {
                if !self.is_started {
                    return Err(ServerViolation);
                }
                if self.events.len() + events.len() > most {
                    base::hit(base::Probe::WatchOverflown);
                    self.is_overflown = true;
                }
                if !self.is_overflown {
                    self.events.extend(events);
                }
            }
            _ => return Err(ServerViolation),
        }
        self.changed.notify();
        Ok(())
    }
}
