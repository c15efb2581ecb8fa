// SPDX-License-Identifier: Apache-2.0
//! All links of one shard.

use crate::answers::AnswerQueue;
use crate::calls::{Call, Calls};
use crate::lanes::{Class, LaneRow, class_of};
use crate::link::{Inbound, Outbound, accepted, dial_for_ever};
use crate::port::{Port, PortFault};
use crate::reply::{Handler, Reply};
use crate::stats::{PeerCounters, PeerStats};
use crate::stream::{LinkGate, LinkSecurity};
use crate::{PeerError, PeerId};
use base::{Incarnation, Instant, LateFrame, Map, Quirk, ShardId};
use env::{Address, Env, IoError, Notify, TaskSet};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;
use wire::{Hello, Request, Versions};

/// Accepted links at one time; further callers are turned away. Two for each of 512 hosts.
const INBOUND_MAX: usize = 1024;
/// Most writes that [`PeersInner::take_in`] has wait to be taken in late, in simulation.
const LATE_MAX: usize = 8;
/// Links at rest are pinged less often than twice a second from 50 other hosts on.
const PING_SPACING: Duration = Duration::from_millis(5);
/// Hosts that [`Peers::incompatible`] and [`Peers::unproven`] name at most: enough to see what is
/// wrong.
pub(crate) const NAMED_MAX: usize = 64;
/// Pause after a failed accept (out of descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// What links may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerOptions {
    /// Bytes of requests that may wait for one link. Each class of requests has a part of it.
    pub waiting_bytes_max: u64,
    /// Time between two pings on links that nobody uses, on average over all of them. Each is
    /// pinged twice a second at most.
    pub ping_spacing: Duration,
    /// The versions of frames that this host speaks: those of its build. Only tests change it. A
    /// version beyond those of the build has the layouts of its newest one.
    pub versions: Versions,
}

impl Default for PeerOptions {
    fn default() -> Self {
        Self {
            waiting_bytes_max: 256 << 20,
            ping_spacing: PING_SPACING,
            versions: Versions::SPOKEN,
        }
    }
}

/// The links of one shard to all other hosts. Cheap to clone; lives until its shard stops or
/// [`Peers::stop`].
#[derive(Clone)]
pub struct Peers(pub(crate) Rc<PeersInner>);

pub(crate) struct PeersInner {
    pub(crate) env: Env,
    pub(crate) me: PeerId,
    pub(crate) cluster: u64,
    pub(crate) handler: RefCell<Rc<dyn Handler>>,
    pub(crate) changes: Notify,
    pub(crate) counters: Rc<PeerCounters>,
    pub(crate) options: PeerOptions,
    pub(crate) gate: LinkGate,
    pub(crate) remotes: RefCell<Map<ShardId, Rc<Remote>>>,
    pub(crate) ports: RefCell<Vec<Weak<Port>>>,
    local: Rc<Calls>,
    tasks: TaskSet,
    inbound: TaskSet,
    /// Writes that are taken in late on purpose, in simulation (see [`PeersInner::take_in`]).
    late: TaskSet,
    /// Requests and answers that are held back by their kind, in simulation ([`LateFrame`]).
    held: TaskSet,
}

/// Another host.
pub(crate) struct Remote {
    pub(crate) shard: ShardId,
    pub(crate) address: RefCell<Option<Address>>,
    /// The link that we dialled, once introduced.
    pub(crate) out: RefCell<Option<Rc<Outbound>>>,
    /// The link that it dialled, once introduced.
    pub(crate) inbound: RefCell<Option<Rc<Inbound>>>,
    /// Wakes the dialler: the host may be there, so it is dialled at once.
    pub(crate) kick: Notify,
    newest: Cell<Option<Incarnation>>,
    /// Its last run with which no version is shared, and what that one speaks.
    pub(crate) refused: Cell<Option<(Incarnation, Versions)>>,
    /// Why it did not prove itself when it was dialled last.
    pub(crate) unproven: RefCell<Option<String>>,
    pub(crate) has_dialler: Cell<bool>,
    /// Whether it was taken out of the cluster.
    is_revoked: Cell<bool>,
}

impl Remote {
    /// Notes why it did not prove itself, and logs it where that is news: it is dialled twice a
    /// second.
    pub(crate) fn note_unproven(&self, why: String) {
        let is_news = self.unproven.borrow().as_ref() != Some(&why);
        if is_news {
            tracing::warn!("no link to host {}: {why}", self.shard);
            *self.unproven.borrow_mut() = Some(why);
        }
    }

    fn end_links(&self) {
        let out = self.out.borrow().clone();
        let inbound = self.inbound.borrow().clone();
        if let Some(out) = out {
            out.port.die();
        }
        if let Some(inbound) = inbound {
            inbound.port.die();
        }
    }
}

impl PeersInner {
    pub(crate) fn remote(&self, shard: ShardId) -> Rc<Remote> {
        let mut remotes = self.remotes.borrow_mut();
        let remote = remotes.entry(shard).or_insert_with(|| {
            Rc::new(Remote {
                shard,
                address: RefCell::default(),
                out: RefCell::default(),
                inbound: RefCell::default(),
                kick: Notify::default(),
                newest: Cell::new(None),
                refused: Cell::new(None),
                unproven: RefCell::default(),
                has_dialler: Cell::new(false),
                is_revoked: Cell::new(false),
            })
        });
        Rc::clone(remote)
    }

    pub(crate) fn known(&self, shard: ShardId) -> Option<Rc<Remote>> {
        self.remotes.borrow().get(&shard).map(Rc::clone)
    }

    /// The link to `host` on which requests can be sent now.
    pub(crate) fn live(&self, shard: ShardId) -> Option<Rc<Outbound>> {
        let out = self.known(shard)?.out.borrow().clone();
        out.filter(|out| !out.port.is_dead())
    }

    pub(crate) fn watch(&self, port: &Rc<Port>) {
        self.ports.borrow_mut().push(Rc::downgrade(port));
    }

    /// Checks an introduction. `None` where the other end does not belong here. If it is a later
    /// run of its host than was known, the links to earlier runs end.
    pub(crate) fn introduce(&self, hello: &Hello, dialled: Option<ShardId>) -> Option<PeerId> {
        let peer = PeerId { shard: hello.me.shard, incarnation: hello.me.incarnation };
        let is_expected = dialled.is_none_or(|shard| shard == peer.shard);
        if hello.cluster != self.cluster || !is_expected || peer.shard == self.me.shard {
            return None;
        }
        let remote = self.remote(peer.shard);
        if remote.is_revoked.get() {
            return None;
        }
        match remote.newest.get() {
            Some(newest) if peer.incarnation < newest => return None,
            Some(newest) if peer.incarnation == newest => return Some(peer),
            _ => remote.newest.set(Some(peer.incarnation)),
        }
        remote.end_links();
        self.changes.notify();
        Some(peer)
    }

    /// Hands a request of another host to the handler.
    ///
    /// In simulation [`Quirk::LateWrite`] has some writes handled late, as over a connection that
    /// only one end knows to be dead. Most of these are handled at once too.
    ///
    /// # Errors
    /// [`PortFault::Gone`], with that quirk only: the write is handled late alone, and the link
    /// ends.
    pub(crate) fn take_in(
        self: &Rc<Self>,
        from: PeerId,
        request: Request,
        reply: Reply,
    ) -> Result<(), PortFault> {
        let reply = self.answered_late(&request, reply);
        let handler = Rc::clone(&*self.handler.borrow());
        let is_write = matches!(request, Request::Write { .. } | Request::ClientWrite { .. });
        if !is_write || self.late.len() >= LATE_MAX || !self.env.quirk(Quirk::LateWrite) {
            handler.handle(from, request, reply);
            return Ok(());
        }
        let (inner, late) = (Rc::clone(self), request.clone());
        self.late.spawn(&self.env, "late write", async move {
            let most_ms = [1, 100, 2000, 20_000][(inner.env.random() % 4) as usize];
            inner.env.sleep(Duration::from_millis(inner.env.random() % most_ms)).await;
            let handler = Rc::clone(&*inner.handler.borrow());
            let (reply, call) = Reply::pair();
            handler.handle(from, late, reply);
            drop(call); // nobody waits for this answer
        });
        // A resync sends hundreds of writes, and begins anew when its link ends.
        if self.env.random().is_multiple_of(256) {
            return Err(PortFault::Gone);
        }
        handler.handle(from, request, reply);
        Ok(())
    }

    /// As [`Self::take_in`], at `due` and only if the link lives then: once a request of a new link
    /// has arrived, none of an earlier link does. Room for requests bounds how many are held.
    pub(crate) fn take_in_at(
        self: &Rc<Self>,
        due: Instant,
        inbound: &Rc<Inbound>,
        from: PeerId,
        request: Request,
        reply: Reply,
    ) {
        let (inner, inbound) = (Rc::clone(self), Rc::clone(inbound));
        self.held.spawn(&self.env, "held request", async move {
            inner.env.sleep_until(due).await;
            if inbound.port.is_dead() {
                return drop(reply);
            }
            if inner.take_in(from, request, reply).is_err() {
                inbound.port.die();
            }
        });
    }

    /// The reply for a request whose answer may be late by its kind ([`LateFrame::Grant`]). What is
    /// answered is decided in time all the same.
    fn answered_late(self: &Rc<Self>, request: &Request, reply: Reply) -> Reply {
        if !matches!(request, Request::Renew { .. }) {
            return reply;
        }
        let delay = self.env.delay_of(LateFrame::Grant);
        if delay.is_zero() {
            return reply;
        }
        let (mine, call) = Reply::pair();
        let env = self.env.clone();
        self.held.spawn(&self.env, "late grant", async move {
            let answer = call.await;
            env.sleep(delay).await;
            match answer {
                Ok(answer) => reply.send(answer),
                Err(_) => drop(reply),
            }
        });
        mine
    }

    /// A link ended: counts why.
    pub(crate) fn ended(&self, shard: ShardId, fault: &PortFault) {
        match fault {
            PortFault::Gone => tracing::debug!(%shard, "link ended"),
            PortFault::Stranger => {
                self.counters.strangers.add(1);
                tracing::warn!(%shard, "link dropped: not the host that belongs there");
            }
            PortFault::Incompatible => tracing::debug!(%shard, "link refused"),
            PortFault::Malformed(error) => {
                self.counters.malformed.add(1);
                tracing::warn!(%shard, %error, "link dropped: malformed frame");
            }
            PortFault::Unexpected => {
                self.counters.malformed.add(1);
                tracing::warn!(%shard, "link dropped: frame out of place");
            }
            PortFault::Overrun => {
                self.counters.overrun.add(1);
                tracing::warn!(%shard, "link dropped: more asked at a time than allowed");
            }
        }
    }

    async fn accept(self: Rc<Self>, listener: env::Listener) {
        loop {
            match listener.accept().await {
                Ok(link) if self.inbound.len() < INBOUND_MAX => {
                    self.inbound.spawn(&self.env, "peer-in", accepted(Rc::clone(&self), link));
                }
                Ok(link) => link.close(),
                Err(error) => {
                    tracing::warn!(%error, "accepting a peer failed");
                    self.env.sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

impl Peers {
    /// The links of `me` in `cluster`; `handler` answers what comes in ([`crate::NotReady`] until
    /// the real one is there).
    #[must_use]
    pub fn new(env: &Env, me: PeerId, cluster: u64, handler: Rc<dyn Handler>) -> Self {
        let (options, security) = (PeerOptions::default(), LinkSecurity::default());
        Self::with_options(env, me, cluster, handler, (options, security))
    }

    /// As [`Peers::new`], with other limits, and with links that may be encrypted.
    #[must_use]
    pub fn with_options(
        env: &Env,
        me: PeerId,
        cluster: u64,
        handler: Rc<dyn Handler>,
        (options, security): (PeerOptions, LinkSecurity),
    ) -> Self {
        let counters = Rc::<PeerCounters>::default();
        let gate = LinkGate {
            env: env.clone(),
            identity: security.identity,
            is_encrypted: Cell::new(security.is_encrypted),
            counters: Rc::clone(&counters),
        };
        let inner = Rc::new(PeersInner {
            env: env.clone(),
            me,
            cluster,
            handler: RefCell::new(handler),
            changes: Notify::default(),
            counters,
            options,
            gate,
            remotes: RefCell::default(),
            ports: RefCell::default(),
            local: Rc::default(),
            tasks: TaskSet::default(),
            inbound: TaskSet::default(),
            late: TaskSet::default(),
            held: TaskSet::default(),
        });
        inner.tasks.spawn(env, "peer-pings", Rc::clone(&inner).look_after());
        Self(inner)
    }

    /// Who we are.
    #[must_use]
    pub fn me(&self) -> PeerId {
        self.0.me
    }

    /// Replaces the handler. If the handler belongs to something that holds these `Peers`, it
    /// should refer to that weakly, or neither is ever freed.
    pub fn set_handler(&self, handler: Rc<dyn Handler>) {
        let old = self.0.handler.replace(handler);
        drop(old);
    }

    /// Listens for other hosts; returns where it really listens.
    ///
    /// # Errors
    /// As [`Env::listen`].
    pub async fn listen(&self, address: Address) -> Result<Address, IoError> {
        let listener = self.0.env.listen(address).await?;
        let address = listener.address().clone();
        self.0.tasks.spawn(&self.0.env, "peer-accept", Rc::clone(&self.0).accept(listener));
        Ok(address)
    }

    /// Says where `host` listens. It is dialled from now on, for ever. If it was dialled at another
    /// address before, the next attempt goes to the new one. One that was revoked is a member again
    /// (a directory may go back to what it was). Nothing happens for the own host.
    pub fn set_address(&self, shard: ShardId, address: Address) {
        if shard == self.0.me.shard {
            return;
        }
        let remote = self.0.remote(shard);
        remote.is_revoked.set(false);
        *remote.address.borrow_mut() = Some(address);
        remote.kick.notify();
        if !remote.has_dialler.replace(true) {
            let dialler = dial_for_ever(Rc::clone(&self.0), remote);
            self.0.tasks.spawn(&self.0.env, "peer-dial", dialler);
        }
    }

    /// `shard` was taken out of the cluster. Whatever it proves, it is a stranger from now on: its
    /// links end, none is taken from it, and it is not dialled again.
    pub fn revoke(&self, shard: ShardId) {
        let remote = self.0.remote(shard);
        remote.is_revoked.set(true);
        *remote.address.borrow_mut() = None;
        remote.refused.set(None);
        remote.unproven.take();
        remote.end_links();
        remote.kick.notify();
    }

    /// Says whether links are to be encrypted from now on. Those that are otherwise end, and are
    /// dialled anew.
    pub fn encrypt(&self, is_encrypted: bool) {
        if self.0.gate.is_encrypted.replace(is_encrypted) == is_encrypted {
            return;
        }
        let ports: Vec<_> = self.0.ports.borrow().iter().filter_map(Weak::upgrade).collect();
        for port in ports.iter().filter(|port| port.is_secure() != is_encrypted) {
            port.die();
        }
    }

    /// Whether this shard can encrypt links.
    #[must_use]
    pub fn has_identity(&self) -> bool {
        self.0.gate.identity.is_some()
    }

    /// Has `shard` prove itself, on a link that is made for that alone.
    ///
    /// # Errors
    /// Why it does not, for people.
    pub async fn prove(&self, shard: ShardId) -> Result<(), String> {
        let remote = self.0.known(shard).ok_or("it is no host of the cluster")?;
        let address = remote.address.borrow().clone().ok_or("it is no host of the cluster")?;
        self.0.gate.prove(address, shard).await
    }

    /// Hosts that did not prove themselves when they were dialled last, and why; 64 at most.
    #[must_use]
    pub fn unproven(&self) -> Vec<(ShardId, String)> {
        let remotes = self.0.remotes.borrow();
        let unproven = remotes.values().filter_map(|remote| {
            let why = remote.unproven.borrow().clone()?;
            Some((remote.shard, why))
        });
        unproven.take(NAMED_MAX).collect()
    }

    /// Asks `host`. When this returns, the request is on its way or waits for its share of the
    /// link. A call to the own host is handled before this returns. Dropping the future leaves the
    /// request under way.
    ///
    /// Over one link, calls of one [`Class`] arrive in the order of the calls. Grants and K do not
    /// wait for a share: they may overtake calls that do. Once a request of a new link has arrived,
    /// none of an earlier link does any more.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn call(&self, shard: ShardId, request: Request) -> Call {
        self.call_as(shard, class_of(&request), None, request)
    }

    /// Requests to another host that keep their order whatever their classes, until it is closed.
    #[must_use]
    pub fn sequence(&self, shard: ShardId) -> Sequence {
        let (peers, row) = (self.clone(), Rc::default());
        Sequence(Rc::new(Ordered { peers, shard, row, is_closed: Cell::new(false) }))
    }

    fn call_as(
        &self,
        shard: ShardId,
        class: Class,
        row: Option<&Rc<LaneRow>>,
        request: Request,
    ) -> Call {
        if shard == self.0.me.shard {
            return self.call_self(request);
        }
        match self.0.live(shard) {
            Some(out) => out.call(class, row, request),
            None => Call::known(Err(PeerError::Unreachable)),
        }
    }

    fn call_self(&self, request: Request) -> Call {
        let Some(id) = self.0.local.open(None) else {
            return Call::known(Err(PeerError::Overloaded));
        };
        let handler = Rc::clone(&*self.0.handler.borrow());
        handler.handle(self.0.me, request, Reply::here(&self.0.local, id));
        Call::under(Rc::clone(&self.0.local), id)
    }

    /// Whether requests can be sent to `host` now. Always for the own host.
    #[must_use]
    pub fn is_up(&self, shard: ShardId) -> bool {
        if shard == self.0.me.shard {
            return true;
        }
        self.0.live(shard).is_some()
    }

    /// The newest run of `host` that introduced itself since this shard began.
    #[must_use]
    pub fn incarnation(&self, shard: ShardId) -> Option<Incarnation> {
        if shard == self.0.me.shard {
            return Some(self.0.me.incarnation);
        }
        self.0.known(shard).and_then(|remote| remote.newest.get())
    }

    /// Wakes when a link came or went, or a newer run of a host was seen.
    #[must_use]
    pub fn changes(&self) -> Notify {
        self.0.changes.clone()
    }

    /// How long nothing was heard from `host`, on any live link. [`Duration::MAX`] where there is
    /// no link, zero for the own host.
    #[must_use]
    pub fn silent_for(&self, shard: ShardId) -> Duration {
        if shard == self.0.me.shard {
            return Duration::ZERO;
        }
        let Some(remote) = self.0.known(shard) else { return Duration::MAX };
        let out = remote.out.borrow().as_ref().map(|out| out.port.heard_at());
        let inbound = remote.inbound.borrow().as_ref().map(|inbound| inbound.port.heard_at());
        let heard: Option<Instant> = out.max(inbound);
        heard.map_or(Duration::MAX, |at| self.0.env.now().since(at))
    }

    /// How often a host is heard at least, as long as it answers: after so long a link that nobody
    /// uses is pinged. It grows with the cluster.
    #[must_use]
    pub fn heard_every(&self) -> Duration {
        self.0.rest()
    }

    /// The counters as they are now.
    #[must_use]
    pub fn stats(&self) -> PeerStats {
        self.0.counters.read()
    }

    /// Ends every link and refuses new ones. Calls under way never end.
    pub fn stop(&self) {
        self.0.tasks.clear();
        self.0.inbound.clear();
        self.0.late.clear();
        self.0.held.clear();
        self.set_handler(Rc::new(crate::NotReady));
    }
}

/// Requests to one host that keep their order among themselves, whatever their classes: the frames
/// of one session. Cheap to clone.
#[derive(Clone)]
pub struct Sequence(Rc<Ordered>);

struct Ordered {
    peers: Peers,
    shard: ShardId,
    row: Rc<LaneRow>,
    is_closed: Cell<bool>,
}

impl Sequence {
    /// Asks as [`Peers::call`] does, with the share of `class`.
    ///
    /// # Errors
    /// [`PeerError`]; [`PeerError::Withdrawn`] once the sequence is closed.
    pub fn call(&self, class: Class, request: Request) -> Call {
        let Ordered { peers, shard, row, is_closed } = &*self.0;
        if is_closed.get() {
            return Call::known(Err(PeerError::Withdrawn));
        }
        peers.call_as(*shard, class, Some(row), request)
    }

    /// Asks as [`Sequence::call`] does; the answer, or the error, goes into `queue` under `number`.
    pub fn send(&self, class: Class, request: Request, queue: &Rc<AnswerQueue>, number: u64) {
        let Ordered { peers, shard, row, is_closed } = &*self.0;
        let out = peers.0.live(*shard);
        match (out, is_closed.get()) {
            (_, true) => queue.push(number, Err(PeerError::Withdrawn)),
            (None, false) => queue.push(number, Err(PeerError::Unreachable)),
            (Some(out), false) => out.send(class, Some(row), request, (queue, number)),
        }
    }

    /// Closes the sequence, when nobody wants the answers any more. Requests that still wait are
    /// never sent: their calls fail as [`PeerError::Withdrawn`]. Those that were sent stay under
    /// way.
    pub fn close(&self) {
        let Ordered { peers, shard, row, is_closed } = &*self.0;
        if is_closed.replace(true) {
            return;
        }
        let out = peers.0.known(*shard).and_then(|remote| remote.out.borrow().clone());
        if let Some(out) = out {
            out.withdraw(row);
        }
    }
}
