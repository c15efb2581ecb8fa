// SPDX-License-Identifier: Apache-2.0
//! The two kinds of links: those we dialled, on which we ask, and those we accepted, on which we
//! answer.

use crate::answers::AnswerQueue;
use crate::calls::{Call, Calls, Toll};
use crate::lanes::{Class, Cost, LanePlace, LaneRow, Lanes, class_of};
use crate::peers::{PeersInner, Remote};
use crate::port::{Port, PortFault};
use crate::reply::Reply;
use crate::stats::PeerCounters;
use crate::stream::Stream;
use crate::{PeerError, PeerId};
use base::{Instant, LateFrame, Quirk};
use env::{Either, Env, Link, select};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use wire::{Hello, Message, OwnerId, Request, Response};

/// Bytes of requests and their answers that one host may have under way on one link. The [`Lanes`]
/// of an honest host stay below it, also with the small requests that never wait for a share. The
/// link of a host that exceeds it ends.
const INBOUND_BYTES_MAX: u64 = 64 << 20;
/// The first pause between two attempts to dial. It doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// The longest pause between two attempts to dial.
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// An attempt to dial that takes longer is given up.
const DIAL_WAIT: Duration = Duration::from_secs(1);
/// A link that lived this long is dialled again at once when it ends. Other links are dialled after
/// a pause, so that two hosts that cannot agree do not spin.
const PROVEN: Duration = Duration::from_secs(1);

/// A link that we dialled.
pub(crate) struct Outbound {
    pub(crate) port: Rc<Port>,
    /// Who is at the other end, once introduced.
    pub(crate) peer: Cell<Option<PeerId>>,
    calls: Rc<Calls>,
    lanes: RefCell<Lanes>,
    counters: Rc<PeerCounters>,
}

impl Outbound {
    /// Sends a request, or puts it behind those that wait for room.
    pub(crate) fn call(&self, class: Class, row: Option<&Rc<LaneRow>>, request: Request) -> Call {
        match self.start(class, row, request, None) {
            Ok(id) => Call::under(Rc::clone(&self.calls), id),
            Err(error) => Call::known(Err(error)),
        }
    }

    /// The same; the answer goes into `queue`, under `number`.
    pub(crate) fn send(
        &self,
        class: Class,
        row: Option<&Rc<LaneRow>>,
        request: Request,
        (queue, number): (&Rc<AnswerQueue>, u64),
    ) {
        if let Err(error) = self.start(class, row, request, Some((queue, number))) {
            queue.push(number, Err(error));
        }
    }

    fn start(
        &self,
        class: Class,
        row: Option<&Rc<LaneRow>>,
        request: Request,
        queue: Option<(&Rc<AnswerQueue>, u64)>,
    ) -> Result<u64, PeerError> {
        let id = self.calls.open(queue).ok_or(PeerError::Overloaded)?;
        // Grants and K must not wait for writes. A replica whose log stands still answers no
        // writes. If a Renew waited for those answers, the owner would lose its grant. If K waited,
        // the replica would never learn the K that it waits for. Urgent requests keep their order
        // among themselves.
        let is_urgent = matches!(
            request,
            Request::Renew { .. } | Request::Release | Request::CommitInfo { .. }
        );
        let cost = Cost::of(&request);
        let message = Message::Request(request);
        if is_urgent {
            self.port.post(id, message);
            return Ok(id);
        }
        let mut lanes = self.lanes.borrow_mut();
        match lanes.admit(class, row, cost) {
            Some(LanePlace { lane, is_now: true }) => {
                lanes.depart(lane, cost);
                self.calls.depart(id, Toll { lane, window: cost.window });
                self.port.post(id, message);
            }
            Some(LanePlace { lane, is_now: false }) => {
                lanes.wait(lane, id, cost, message, row);
                self.counters.waiting.rise(cost.held);
            }
            None => {
                self.calls.cancel(id);
                return Err(PeerError::Overloaded);
            }
        }
        Ok(id)
    }

    /// Takes back the requests of `row` that still wait. Their calls fail.
    pub(crate) fn withdraw(&self, row: &Rc<LaneRow>) {
        let ids = {
            let mut lanes = self.lanes.borrow_mut();
            let before = lanes.held();
            let ids = lanes.withdraw(row);
            self.counters.waiting.fall(before - lanes.held());
            ids
        };
        for id in ids {
            self.counters.withdrawn.add(1);
            let _ = self.calls.finish(id, Err(PeerError::Withdrawn));
        }
    }

    fn answered(&self, id: u64, response: Response) -> Result<(), PortFault> {
        let toll = self.calls.finish(id, Ok(response)).ok_or(PortFault::Unexpected)?;
        let Toll { lane, window } = toll;
        let mut lanes = self.lanes.borrow_mut();
        lanes.arrive(lane, window);
        while let Some(next) = lanes.next(lane) {
            self.counters.waiting.fall(next.cost.held);
            self.calls.depart(next.id, Toll { lane, window: next.cost.window });
            self.port.post(next.id, next.message);
        }
        Ok(())
    }

    pub(crate) fn awaits_answers(&self) -> bool {
        self.calls.is_any_open()
    }

    /// The link is over: every call fails.
    fn end(&self) {
        let waiting = {
            let mut lanes = self.lanes.borrow_mut();
            self.counters.waiting.fall(lanes.held());
            lanes.clear()
        };
        drop(waiting);
        self.calls.fail_all(PeerError::Reset);
    }
}

/// A link that we accepted.
pub(crate) struct Inbound {
    pub(crate) port: Rc<Port>,
    pub(crate) peer: Cell<Option<PeerId>>,
    /// Whether the host that dialled was told that no version is shared.
    is_refused: Cell<bool>,
    counters: Rc<PeerCounters>,
    /// Bytes of requests and their answers under way.
    asked: Cell<u64>,
    /// Until when a late renewal holds up what comes behind it, in simulation.
    held_until: Cell<Instant>,
}

impl Inbound {
    /// A request has come. Returns the bytes that it takes until its answer.
    fn take_in(&self, request: &Request) -> Result<u64, PortFault> {
        let bytes = Cost::of(request).window;
        let asked = self.asked.get() + bytes;
        if asked > INBOUND_BYTES_MAX {
            return Err(PortFault::Overrun);
        }
        self.asked.set(asked);
        Ok(bytes)
    }

    /// When a request that has come is handled; `None`: now. In simulation a renewal may be late
    /// alone ([`LateFrame::Renewal`]). The link keeps its order: what comes behind the renewal in
    /// its lane waits with it.
    fn due(&self, env: &Env, request: &Request) -> Option<Instant> {
        if class_of(request) != Class::Control {
            return None;
        }
        let is_renewal = matches!(request, Request::Renew { .. });
        let delay = if is_renewal { env.delay_of(LateFrame::Renewal) } else { Duration::ZERO };
        let (now, held_until) = (env.now(), self.held_until.get());
        if delay.is_zero() && held_until <= now {
            return None;
        }
        let due = held_until.max(now + delay);
        self.held_until.set(due + Duration::from_nanos(1));
        Some(due)
    }

    pub(crate) fn answer(&self, id: u64, bytes: u64, response: Response) {
        self.asked.set(self.asked.get() - bytes);
        self.port.post(id, Message::Response(response));
    }

    pub(crate) fn forget(&self, bytes: u64) {
        self.asked.set(self.asked.get() - bytes);
        self.counters.unanswered.add(1);
    }
}

fn hello(inner: &PeersInner) -> Message {
    let me = OwnerId { shard: inner.me.shard, incarnation: inner.me.incarnation };
    Message::Hello(Hello { cluster: inner.cluster, me, versions: inner.options.versions })
}

/// Runs a link until it ends: a task for the writer, the reader here.
async fn run(env: &Env, port: &Rc<Port>, read: impl Future<Output = PortFault>) -> PortFault {
    let writer = Rc::clone(port);
    let _writer = env.spawn("peer-write", async move { writer.write().await });
    let fault = match select(read, port.ended()).await {
        Either::First(fault) => fault,
        Either::Second(()) => PortFault::Gone,
    };
    port.die();
    fault
}

/// Dials `remote` for ever.
pub(crate) async fn dial_for_ever(inner: Rc<PeersInner>, remote: Rc<Remote>) {
    let mut pause = PAUSE_MIN;
    loop {
        let kicked = remote.kick.wait();
        let address = remote.address.borrow().clone();
        let Some(address) = address else {
            remote.has_dialler.set(false);
            return;
        };
        let attempt = inner.env.timeout(DIAL_WAIT, inner.env.dial(address));
        if let Ok(Ok(link)) = attempt.await {
            let up_at = dialled(&inner, &remote, link).await;
            if up_at.is_some_and(|at| inner.env.now().since(at) >= PROVEN) {
                pause = PAUSE_MIN;
                continue;
            }
        }
        let jitter = Duration::from_micros(inner.env.random() % 5000);
        match select(inner.env.sleep(pause + jitter), kicked).await {
            Either::First(()) => pause = (pause * 2).min(PAUSE_MAX),
            Either::Second(()) => pause = PAUSE_MIN,
        }
    }
}

/// Lives through one link; returns when it became usable.
async fn dialled(inner: &Rc<PeersInner>, remote: &Rc<Remote>, link: Link) -> Option<Instant> {
    let stream = match Stream::dialled(&inner.gate, remote.shard, link).await {
        Ok(stream) => stream,
        Err(why) => {
            remote.note_unproven(why);
            return None;
        }
    };
    remote.unproven.take();
    let port = Rc::new(Port::new(&inner.env, stream, &inner.counters));
    inner.watch(&port);
    let out = Rc::new(Outbound {
        port: Rc::clone(&port),
        peer: Cell::new(None),
        calls: Rc::default(),
        lanes: RefCell::new(Lanes::new(inner.options.waiting_bytes_max)),
        counters: Rc::clone(&inner.counters),
    });
    let up_at = Cell::new(None);
    port.post(0, hello(inner));
    let read = port.read(|id, message| match message {
        Message::Hello(hello) if up_at.get().is_none() => {
            assert!(port.is_of(remote.shard), "who was dialled has proved itself");
            let peer = inner.introduce(&hello, Some(remote.shard)).ok_or(PortFault::Stranger)?;
            port.agree(inner.agree(peer, hello.versions)?);
            up_at.set(Some(inner.env.now()));
            out.peer.set(Some(peer));
            *remote.out.borrow_mut() = Some(Rc::clone(&out));
            inner.counters.links.add(1);
            inner.changes.notify();
            Ok(())
        }
        Message::Response(response) if up_at.get().is_some() => out.answered(id, response),
        Message::Ping if inner.env.quirk(Quirk::LinkDropped) => Err(PortFault::Gone),
        Message::Ping if up_at.get().is_some() => {
            port.post(0, Message::Pong);
            Ok(())
        }
        Message::Pong if up_at.get().is_some() => Ok(()),
        _ => Err(PortFault::Unexpected),
    });
    let fault = run(&inner.env, &port, read).await;
    inner.ended(remote.shard, &fault);
    let was_mine = {
        let mut current = remote.out.borrow_mut();
        let is_mine = current.as_ref().is_some_and(|current| Rc::ptr_eq(current, &out));
        if is_mine { current.take() } else { None }
    };
    out.end();
    if was_mine.is_some() {
        inner.changes.notify();
    }
    up_at.get()
}

/// Lives through one accepted link.
pub(crate) async fn accepted(inner: Rc<PeersInner>, link: Link) {
    let Some(stream) = Stream::accepted(&inner.gate, link).await else { return };
    let port = Rc::new(Port::new(&inner.env, stream, &inner.counters));
    inner.watch(&port);
    let inbound = Rc::new(Inbound {
        port: Rc::clone(&port),
        peer: Cell::new(None),
        is_refused: Cell::new(false),
        counters: Rc::clone(&inner.counters),
        asked: Cell::new(0),
        held_until: Cell::new(inner.env.now()),
    });
    let read = port.read(|id, message| match (message, inbound.peer.get()) {
        (Message::Hello(hello), None) if !inbound.is_refused.get() => {
            greet(&inner, &inbound, &hello)
        }
        (Message::Request(request), Some(peer)) => {
            let bytes = inbound.take_in(&request)?;
            let reply = Reply::there(&inbound, id, bytes);
            match inbound.due(&inner.env, &request) {
                None => inner.take_in(peer, request, reply),
                Some(due) => {
                    inner.take_in_at(due, &inbound, peer, request, reply);
                    Ok(())
                }
            }
        }
        (Message::Ping, Some(_)) => {
            port.post(0, Message::Pong);
            Ok(())
        }
        (Message::Pong, Some(_)) => Ok(()),
        _ => Err(PortFault::Unexpected),
    });
    let fault = run(&inner.env, &port, read).await;
    let Some(peer) = inbound.peer.get() else {
        return inner.ended(base::ShardId(0), &fault);
    };
    inner.ended(peer.shard, &fault);
    let remote = inner.remote(peer.shard);
    let mut current = remote.inbound.borrow_mut();
    if current.as_ref().is_some_and(|current| Rc::ptr_eq(current, &inbound)) {
        current.take();
    }
}

/// Takes in the introduction of the host that dialled, and answers with ours. A second link from
/// the same host replaces the first. The first link dies here, so that none of its requests can be
/// handled behind one of the new link.
///
/// Where no version is shared, the host that dialled learns that from our introduction, and ends
/// the link. Nothing but an introduction can be said on it. If it stays, its silence ends it.
fn greet(inner: &Rc<PeersInner>, inbound: &Rc<Inbound>, theirs: &Hello) -> Result<(), PortFault> {
    // Before anything is believed: a host that says it is another one must not end its links.
    if !inbound.port.is_of(theirs.me.shard) {
        return Err(PortFault::Stranger);
    }
    let peer = inner.introduce(theirs, None).ok_or(PortFault::Stranger)?;
    let Ok(version) = inner.agree(peer, theirs.versions) else {
        inbound.is_refused.set(true);
        inbound.port.post(0, hello(inner));
        return Ok(());
    };
    inbound.port.agree(version);
    inbound.peer.set(Some(peer));
    let remote = inner.remote(peer.shard);
    let old = remote.inbound.borrow_mut().replace(Rc::clone(inbound));
    if let Some(old) = old {
        old.port.die();
    }
    inbound.port.post(0, hello(inner));
    inner.counters.links.add(1);
    remote.kick.notify();
    Ok(())
}
