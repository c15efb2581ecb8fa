// SPDX-License-Identifier: Apache-2.0
//! One client's connection: requests in, answers and the events of its watches out.

use super::DirectoryServer;
use crate::frames::{FrameReader, ReadError, join};
use crate::protocol::{Answer, DirectoryRequest, encode_answer, split_events, split_listing};
use crate::types::{DirectoryError, check_key};
use base::{Instant, LateFrame, Map};
use env::{Link, Notify, TaskSet, select};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// Bytes of answers that wait for a slow client. It has room for the largest listing twice. Beyond
/// it the connection is dropped.
const OUTBOX_BYTES_MAX: usize = 128 << 20;
/// Bytes of answers in one send.
const SEND_BYTES_MAX: usize = 1 << 20;
/// Watches of one connection; a host has a handful.
const WATCHES_MAX: usize = 64;
/// Late answers under way on one connection, in simulation.
const LATE_MAX: usize = 1024;

/// What both directions of the connection share.
pub struct ServerConnection {
    server: Rc<DirectoryServer>,
    link: Link,
    outbox: Outbox,
    watches: RefCell<Map<u64, Watched>>,
    late: TaskSet,
    /// The revision up to which the watches were told, and until when they are told no more.
    told: Cell<u64>,
    quiet_until: Cell<Option<Instant>>,
}

#[derive(Clone, Default)]
struct Outbox(Rc<OutboxInner>);

#[derive(Default)]
struct OutboxInner {
    frames: RefCell<VecDeque<Vec<u8>>>,
    bytes: Cell<usize>,
    filled: Notify,
}

struct Watched {
    prefix: String,
    /// The client was told everything up to this revision. `None` before the first reset.
    told: Option<u64>,
}

/// The connection must be closed.
struct Broken;

impl Outbox {
    fn push(&self, number: u64, answer: &Answer) {
        let frame = encode_answer(number, answer);
        self.0.bytes.set(self.0.bytes.get() + frame.len());
        self.0.frames.borrow_mut().push_back(frame);
        self.0.filled.notify();
    }

    fn take(&self) -> Vec<Vec<u8>> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        let mut frames = self.0.frames.borrow_mut();
        while bytes < SEND_BYTES_MAX {
            let Some(frame) = frames.pop_front() else { break };
            bytes += frame.len();
            taken.push(frame);
        }
        self.0.bytes.set(self.0.bytes.get() - bytes);
        taken
    }
}

impl ServerConnection {
    pub fn new(server: Rc<DirectoryServer>, link: Link) -> Self {
        Self {
            server,
            link,
            outbox: Outbox::default(),
            watches: RefCell::default(),
            late: TaskSet::default(),
            told: Cell::new(0),
            quiet_until: Cell::new(None),
        }
    }

    /// Serves the client until one of the two directions ends.
    pub async fn run(self) {
        select(self.receive(), self.send()).await;
        self.link.close();
    }

    async fn receive(&self) {
        let mut frames = FrameReader::new(&self.server.env, self.link.clone());
        loop {
            match frames.next(|header, body| header.decode_request(body)).await {
                Ok((number, request)) => {
                    if self.handle(number, request).is_err() {
                        return;
                    }
                }
                Err(ReadError::Frame { .. }) => {
                    self.server.malformed.set(self.server.malformed.get() + 1);
                    return;
                }
                Err(ReadError::Link { .. } | ReadError::End) => return,
            }
        }
    }

    fn handle(&self, number: u64, request: DirectoryRequest) -> Result<(), Broken> {
        let (server, faults) = (&self.server, &self.server.faults);
        if server.chance(faults.drop_before_ppm) {
            return Err(Broken);
        }
        match request {
            DirectoryRequest::Watch { prefix } => self.watch(number, prefix)?,
            DirectoryRequest::Unwatch { watch } => drop(self.watches.borrow_mut().remove(&watch)),
            DirectoryRequest::List { prefix } => {
                if let Err(error) = check_key(&prefix) {
                    self.outbox.push(number, &Answer::Failed(error));
                } else {
                    let listing = server.store.borrow().list(&prefix);
                    for part in split_listing(listing, server.part_bytes) {
                        self.outbox.push(number, &part);
                    }
                }
            }
            request => {
                let answer = server.carry_out(request).ok_or(Broken)?;
                if server.chance(faults.drop_after_ppm) {
                    return Err(Broken);
                }
                self.answer(number, answer);
            }
        }
        if self.outbox.0.bytes.get() > OUTBOX_BYTES_MAX { Err(Broken) } else { Ok(()) }
    }

    fn answer(&self, number: u64, answer: Answer) {
        let (server, faults) = (&self.server, &self.server.faults);
        let held = server.env.delay_of(LateFrame::DirectoryAnswer);
        let delay = match server.chance(faults.late_ppm) && self.late.len() < LATE_MAX {
            true => held.max(server.up_to(faults.late_max)),
            false if held.is_zero() || self.late.len() >= LATE_MAX => {
                return self.outbox.push(number, &answer);
            }
            false => held,
        };
        let (outbox, sleep) = (self.outbox.clone(), server.env.sleep(delay));
        self.late.spawn(&server.env, "late answer", async move {
            sleep.await;
            outbox.push(number, &answer);
        });
    }

    fn watch(&self, number: u64, prefix: String) -> Result<(), Broken> {
        let mut watches = self.watches.borrow_mut();
        let is_refused = watches.len() >= WATCHES_MAX || watches.contains_key(&number);
        if is_refused || check_key(&prefix).is_err() {
            drop(watches);
            self.outbox.push(number, &Answer::Failed(DirectoryError::Malformed));
            return Err(Broken);
        }
        watches.insert(number, Watched { prefix, told: None });
        drop(watches);
        self.outbox.0.filled.notify();
        Ok(())
    }

    async fn send(&self) {
        loop {
            let filled = self.outbox.0.filled.wait();
            let changed = self.server.changed.wait();
            let quiet_until = self.quiet_until();
            if self.outbox.0.frames.borrow().is_empty() && quiet_until.is_none() {
                // Only when the outbox is empty: a slow client's events wait in the history, not in
                // its outbox.
                self.tell_watches();
            }
            let frames = self.outbox.take();
            if frames.is_empty() {
                let news = select(filled, changed);
                match quiet_until {
                    None => drop(news.await),
                    Some(until) => drop(select(news, self.server.env.sleep_until(until)).await),
                }
            } else if self.link.send(join(&self.server.env, &frames).freeze()).await.is_err() {
                return;
            }
        }
    }

    /// Until when changes wait before the watches are told of them; `None`: they are told now. In
    /// simulation they may be late ([`LateFrame::WatchEvents`]). Later changes wait with them, so
    /// that their order stays.
    fn quiet_until(&self) -> Option<Instant> {
        let (now, revision) = (self.server.env.now(), self.server.store.borrow().revision());
        match self.quiet_until.get() {
            Some(until) if now < until => return Some(until),
            Some(_) => {}
            None if self.told.get() == revision => {}
            None => {
                let delay = self.server.env.delay_of(LateFrame::WatchEvents);
                if !delay.is_zero() {
                    self.quiet_until.set(Some(now + delay));
                    return Some(now + delay);
                }
            }
        }
        self.quiet_until.set(None);
        self.told.set(revision);
        None
    }

    fn tell_watches(&self) {
        let (store, part_bytes) = (self.server.store.borrow(), self.server.part_bytes);
        for (number, watched) in self.watches.borrow_mut().iter_mut() {
            let changes = watched.told.and_then(|told| store.changes_since(&watched.prefix, told));
            base::hit_if(changes.is_none() && watched.told.is_some(), base::Probe::WatchReset);
            let answers = match changes {
                Some(events) => split_events(events, part_bytes),
                None => split_listing(store.list(&watched.prefix), part_bytes),
            };
            base::hit_if(answers.len() > 1, base::Probe::DirectoryPart);
            watched.told = Some(store.revision());
            for answer in answers {
                self.outbox.push(*number, &answer);
            }
        }
    }
}
