// SPDX-License-Identifier: Apache-2.0
//! The components of this host, as owners see them: fenced, written, read, listed.
//!
//! A replica knows its data, its term, its seat and nothing about its state: whether it is active
//! is for the record to say (trap 6, rule 37). [`Replicas::handle`] does everything that depends on
//! order in its synchronous part, so requests take effect in the order in which they arrive; only
//! answers come later.

mod appends;
mod conversation;
mod create;
mod limits;
mod refusal;
#[cfg(test)]
mod tests;
mod vouch;

use self::appends::{UnderWay, failure, free_chunks};
use self::conversation::{Conversation, Replica, ReplicaMap};
use self::create::Admission;
use crate::disks::Disks;
use crate::grants::Grants;
use crate::options::ObjectOptions;
use base::{ComponentId, Lsn, Quirk, Seat, SectorRange, Session, Term, Version};
use diskgroup::{
    Append, AppendKind, ComponentInfo, ComponentMeta, DiskGroup, GroupError, ReadData,
};
use env::{Either, Env, TaskSet};
use peer::{PeerError, PeerId, Peers, Reply};
use std::cell::RefCell;
use std::rc::Rc;
use wire::{CopyHealth, Failure, Fenced, Refusal, Request, Response, Target, WriteKind};

/// All components of this host.
pub(crate) struct Replicas {
    env: Env,
    peers: Peers,
    disks: Disks,
    grants: Grants,
    options: ObjectOptions,
    kept: ReplicaMap,
    /// Components that this host may be about to give up. While one is in this set, this host does
    /// not vouch for it: no other host gives up its copy because of this one ([`vouch`]).
    giving_up: RefCell<base::Set<ComponentId>>,
    tasks: TaskSet,
}

/// A frame of the current session: the group that holds the component, and what stands.
struct Checked {
    group: DiskGroup,
    replica: Rc<Replica>,
    now: Conversation,
}

/// What a Fence says.
struct FenceRequest {
    /// Who sent it: the owner itself, or the owner before, who hands the object over to it.
    from: PeerId,
    target: Target,
    version: Version,
    owner: PeerId,
    create: Option<u64>,
    /// What the record descends from.
    claims: Vec<directory::Claim>,
}

impl Replicas {
    /// The components on `disks`. A caller that hands a Fence to it must, in the same step, stop
    /// the owner that this host is of the object (rule 52c).
    pub(crate) fn new(
        env: &Env,
        me: PeerId,
        peers: &Peers,
        disks: Disks,
        options: &ObjectOptions,
    ) -> Rc<Self> {
        Rc::new(Self {
            env: env.clone(),
            peers: peers.clone(),
            disks,
            grants: Grants::new(env, me, options),
            options: options.clone(),
            kept: ReplicaMap::default(),
            giving_up: RefCell::default(),
            tasks: TaskSet::default(),
        })
    }

    /// The answer about a component that no open group holds. While a group of this host is closed
    /// the component may be on it. Then it is neither given up nor made anew: it might exist twice
    /// when the group opens.
    fn not_here(&self) -> Refusal {
        match self.disks.is_any_closed() {
            false => Refusal::UnknownComponent,
            true => Refusal::GroupClosed,
        }
    }

    /// The group of these components goes out of service: their sessions end, and owners learn of
    /// it by their grants. What is known of failed appends is kept (rule 14): an owner that did not
    /// hear of one must not believe that it is durable.
    pub(crate) fn forget(&self, components: &[ComponentId]) {
        for replica in components.iter().filter_map(|component| self.kept.get(*component)) {
            replica.conversation.set(None);
            replica.active.set(None);
        }
        self.grants.group_closes();
    }

    /// Takes note of what the record says of a component of this host: its seat, if it is active.
    /// An active component with a seat that it knows has everything. Where it had lost its write
    /// buffer, what it lost has come back.
    pub(crate) fn note_state(&self, component: ComponentId, active: Option<Seat>) {
        let Some(group) = self.disks.holding(component) else { return };
        self.kept.of(component).active.set(active);
        let info = group.component(component);
        let is_active = active.is_some() && info.as_ref().map(|info| info.meta.seat) == active;
        group.set_active(component, is_active);
        if let Some(seat) = active.filter(|_| is_active && info.is_some_and(|info| info.partial)) {
            let group = group.clone();
            self.tasks.spawn(&self.env, "whole again", async move {
                // A group that is fenced says so itself; the next start looks again.
                drop(group.is_whole_at(component, seat).await);
            });
        }
    }

    /// As [`Replicas::handle`], for whoever waits here for the answer.
    pub(crate) fn ask(
        self: &Rc<Self>,
        from: PeerId,
        request: Request,
    ) -> impl Future<Output = Result<Response, PeerError>> + use<> {
        let asked = match request {
            Request::Read { target, range } => Either::First(self.read(from, &target, range)),
            other => {
                let (reply, call) = Reply::pair();
                self.handle(from, other, reply);
                Either::Second(call)
            }
        };
        async move {
            match asked {
                Either::First(reading) => Ok(reading.await),
                Either::Second(call) => call.await,
            }
        }
    }

    /// Carries out one request; those that are not for replicas are answered `NotReady`.
    pub(crate) fn handle(self: &Rc<Self>, from: PeerId, request: Request, reply: Reply) {
        match request {
            Request::Write { .. } => self.write(from, request, reply),
            Request::Read { target, range } => {
                let answer = self.read(from, &target, range);
                self.tasks.spawn(&self.env, "read", async move { reply.send(answer.await) });
            }
            Request::CommitInfo { target, commit } => match self.check(from, &target) {
                Ok(Checked { group, .. }) => {
                    group.advance_commit(target.component, commit);
                    let free_chunks = free_chunks(&group, target.component);
                    reply.send(Response::Durable { lsn: commit, free_chunks });
                }
                Err(reason) => {
                    self.hear_without_session(from, &target, commit);
                    reply.send(Response::Refused { reason });
                }
            },
            Request::SetClients { target, clients } => match self.check(from, &target) {
                Ok(Checked { group, .. }) => {
                    let done = group.set_clients(target.component, clients);
                    self.tasks.spawn(&self.env, "set clients", async move {
                        reply.send(match done.await {
                            Ok(()) => Response::Done,
                            Err(error) => Response::Failed { reason: failure(&error) },
                        });
                    });
                }
                Err(reason) => reply.send(Response::Refused { reason }),
            },
            Request::Fence { target, version, owner, create, claims } => {
                let owner = PeerId { shard: owner.shard, incarnation: owner.incarnation };
                let claims = claims.iter().map(refusal::claim).collect();
                self.fence(FenceRequest { from, target, version, owner, create, claims }, reply);
            }
            Request::ListChanged { target, since, cursor } => match self.check(from, &target) {
                Ok(Checked { group, .. }) => {
                    let changed = group.changed_since(target.component, since, cursor);
                    let ranges = limits::ranges(changed.ranges, self.options.limits.list_entries);
                    let (held, next) = (changed.held, changed.next);
                    reply.send(Response::Changed { ranges, held, next });
                }
                Err(reason) => reply.send(Response::Refused { reason }),
            },
            Request::Renew { sent } => {
                reply.send(self.grants.renew(from, sent, self.env.now()));
            }
            Request::Release => {
                self.grants.release(from, self.env.now());
                reply.send(Response::Done);
            }
            Request::CreateComponent { object, component, sectors } => {
                self.create_new(object, component, sectors, reply);
            }
            Request::ReserveSpace { component, chunks } => self.reserve(component, chunks, reply),
            Request::DeleteComponent { component, .. } => self.delete(component, reply),
            Request::Vouch { holding } => reply.send(self.vouch(&holding)),
            Request::HandOver { .. }
            | Request::ClientOpen { .. }
            | Request::ClientRead { .. }
            | Request::ClientWrite { .. }
            | Request::ClientExtents { .. }
            | Request::Repair { .. }
            | Request::Members { .. } => {
                reply.send(Response::Refused { reason: Refusal::NotReady });
            }
        }
    }

    /// K, from the owner that fenced the component last, without a session: what it says is true
    /// (rule 6), and room in the log may depend on it. Its next Fence may wait for appends that
    /// wait for room, which only what is at or below K makes.
    fn hear_without_session(&self, from: PeerId, target: &Target, commit: Lsn) {
        let Some(group) = self.disks.holding(target.component) else { return };
        let Some(info) = group.component(target.component) else { return };
        let last = self.standing(target.component, &info.meta);
        let is_its = (last.term, last.owner) == (target.term, from);
        if is_its && info.object == target.object {
            base::hit(base::Probe::CommitWithoutSession);
            group.advance_commit(target.component, commit);
        }
    }

    /// Whether a frame of `from` belongs to the current session (rules 8, 9).
    fn check(&self, from: PeerId, target: &Target) -> Result<Checked, Refusal> {
        let group = self.disks.holding(target.component).ok_or(self.not_here())?;
        let replica = self.kept.get(target.component);
        let now = replica.as_ref().and_then(|replica| replica.conversation.get());
        let (Some(replica), Some(now)) = (replica, now) else {
            // Nobody was fenced in this run; the term on disk still counts (rule 24).
            let info = group.component(target.component).ok_or(Refusal::UnknownComponent)?;
            let is_old = target.term < info.meta.term;
            return Err(if is_old {
                Refusal::HigherTerm(info.meta.term)
            } else {
                Refusal::Session
            });
        };
        if target.term != now.term && !self.options.mutations.no_term_check() {
            base::hit(base::Probe::FrameOutdated);
            return Err(if target.term < now.term {
                Refusal::HigherTerm(now.term) // rule 8
            } else {
                Refusal::Session // a higher term is accepted by Fence only
            });
        }
        let is_other =
            target.seat != now.seat || target.session != now.session || from != now.owner;
        let is_lenient = self.options.mutations.no_seat_check()
            || (self.options.mutations.no_term_check() && target.term != now.term);
        if (is_other && !is_lenient) || now.is_fencing {
            base::hit(base::Probe::FrameOfOther);
            return Err(Refusal::Session); // rule 9
        }
        Ok(Checked { group, replica, now })
    }

    fn write(self: &Rc<Self>, from: PeerId, request: Request, reply: Reply) {
        let Request::Write {
            target,
            lsn,
            prev,
            commit,
            range,
            kind,
            is_copy,
            marks,
            crcs,
            payload,
        } = request
        else {
            unreachable!("called for a write");
        };
        let Checked { group, replica, now } = match self.check(from, &target) {
            Ok(checked) => checked,
            Err(reason) => return reply.send(Response::Refused { reason }),
        };
        let is_current = target.session == now.session && target.seat == now.seat;
        if is_current && (prev != now.accepted || lsn <= prev) {
            let durable = group.component(target.component).map_or(Lsn::ZERO, |i| i.durable);
            return reply.send(Response::Refused { reason: Refusal::OutOfOrder { durable } });
        }
        let sectors = group.component(target.component).map_or(0, |info| info.sectors);
        if range.end() > sectors || lsn.term() != target.term {
            return reply.send(Response::Failed { reason: Failure::Io });
        }
        if kind == WriteKind::Data && !wire::verify(range, &crcs, &payload) {
            return reply.send(Response::Failed { reason: Failure::BadCrc { range } });
        }
        replica.accept(lsn);
        group.advance_commit(target.component, commit);
        let kind = append_kind(kind);
        let (component, term) = (target.component, target.term);
        let (crcs, marks) = (&crcs, &marks);
        let append = Append { component, lsn, term, range, kind, crcs, payload, marks };
        let appended = group.append_as(append, is_copy);
        if self.options.mutations.answer_when_received() {
            let free_chunks = free_chunks(&group, component);
            reply.send(Response::Durable { lsn, free_chunks });
            return drop(appended);
        }
        let seat = target.seat;
        let since = self.env.now();
        let append = UnderWay { appended, group, component, lsn, term, seat, reply, since };
        if replica.appends.begin(append) {
            let appends = appends::answer(self.env.clone(), Rc::clone(&replica.appends));
            self.tasks.spawn(&self.env, "appends", appends);
        }
    }

    /// Reads from a component of this host; what is read is decided at this call.
    fn read(
        &self,
        from: PeerId,
        target: &Target,
        range: SectorRange,
    ) -> impl Future<Output = Response> + use<> {
        let reading = self.begin_read(from, target, range);
        async move {
            match reading {
                Err(response) => response,
                Ok(reading) => match reading.await {
                    Ok(data) => Response::Data { crcs: data.crcs, payload: data.payload },
                    Err(error) => Response::Failed { reason: failure(&error) },
                },
            }
        }
    }

    fn begin_read(
        &self,
        from: PeerId,
        target: &Target,
        range: SectorRange,
    ) -> Result<impl Future<Output = Result<ReadData, GroupError>> + use<>, Response> {
        let refused = |reason| Response::Refused { reason };
        let Checked { group, .. } = self.check(from, target).map_err(refused)?;
        let info = group.component(target.component);
        let info = info.ok_or(Response::Refused { reason: Refusal::UnknownComponent })?;
        if range.is_empty() || range.end() > info.sectors {
            return Err(Response::Failed { reason: Failure::Io });
        }
        Ok(group.read(target.component, range))
    }

    fn fence(self: &Rc<Self>, request: FenceRequest, reply: Reply) {
        let (component, object) = (request.target.component, request.target.object);
        let known = self.disks.holding(component).and_then(|group| group.component(component));
        match (known, request.create) {
            (Some(info), _) if info.object != object => {
                reply.send(Response::Refused { reason: Refusal::UnknownComponent });
            }
            (Some(info), _) => self.fence_known(&info, request, reply),
            (None, Some(sectors)) if !self.disks.is_any_closed() => {
                let replicas = Rc::clone(self);
                self.tasks.spawn(&self.env, "create component", async move {
                    match replicas.create(object, component, sectors, Admission::Again).await {
                        Err(response) => reply.send(response),
                        Ok(info) => replicas.fence_known(&info, request, reply),
                    }
                });
            }
            (None, _) => reply.send(Response::Refused { reason: self.not_here() }),
        }
    }

    /// The step in which one owner ends and another begins: everything in it happens at once.
    fn fence_known(self: &Rc<Self>, info: &ComponentInfo, request: FenceRequest, reply: Reply) {
        let target = request.target;
        let old = self.standing(target.component, &info.meta);
        if let Some(reason) = self.why_not(info, &old, &request) {
            return reply.send(Response::Refused { reason });
        }
        let is_other = old.term > Term(0) && old.owner.shard != request.owner.shard;
        // Rules 52b, 53: the old owner itself says that somebody else owns the object now: it has
        // stopped, nobody has to wait for its grant, and its other objects keep theirs.
        let is_given = request.from == old.owner;
        if is_other && !is_given {
            let newest = self.peers.incarnation(old.owner.shard);
            let wait = self.grants.wait(old.owner, newest, self.env.now());
            if !wait.is_zero() {
                base::hit(base::Probe::FenceWaited);
                let (component, from) = (target.component, request.from);
                tracing::debug!(
                    %component, ?target.term, ?from, ?old, "a fence waits for the old owner's grant"
                );
                // Nothing has changed: the old owner goes on (rule 52b). The taker asks again.
                let wait_ms = u32::try_from(wait.as_millis() + 1).unwrap_or(u32::MAX);
                let reason = Refusal::GrantedToOther { wait_ms };
                return reply.send(Response::Refused { reason });
            }
            self.grants.raise_epoch(old.owner.shard);
        }
        let conversation = Conversation {
            term: target.term,
            seat: target.seat,
            session: target.session,
            owner: request.owner,
            accepted: Lsn::ZERO,
            is_fencing: true,
        };
        if target.seat > info.meta.seat
            && let Some(group) = self.disks.holding(target.component)
        {
            group.set_active(target.component, false); // it comes back from an absence
        }
        self.kept.of(target.component).conversation.set(Some(conversation));
        let replicas = Rc::clone(self);
        self.tasks.spawn(&self.env, "fence", async move {
            reply.send(replicas.settle(conversation, request).await);
        });
    }

    /// What is in force for a component: the session of this run, or what its disk says.
    fn standing(&self, component: ComponentId, meta: &ComponentMeta) -> Conversation {
        self.kept.conversation(component).unwrap_or(Conversation {
            term: meta.term,
            seat: meta.seat,
            session: Session(0),
            owner: PeerId { shard: meta.owner_shard, incarnation: meta.owner_incarnation },
            accepted: Lsn::ZERO,
            is_fencing: false,
        })
    }

    /// Drains, makes term and seat durable, and reports (rule 24, in this order).
    async fn settle(&self, mine: Conversation, request: FenceRequest) -> Response {
        let component = request.target.component;
        let gone = || Response::Refused { reason: self.not_here() };
        let is_consent = mine.session == Session(0);
        let overtaken = if is_consent { Refusal::NotReady } else { Refusal::Session };
        let replica = self.kept.of(component);
        let _turn = replica.turn.acquire(1).await;
        self.env.linger(Quirk::FenceLingers).await;
        let Some(group) = self.disks.holding(component) else { return gone() };
        if !self.options.mutations.fence_without_drain() {
            if replica.appends.is_any() {
                base::hit(base::Probe::FenceDrained);
            }
            group.drain(component).await;
            replica.appends.drain().await;
        }
        let Some(before) = group.component(component) else { return gone() };
        if replica.conversation.get() != Some(mine) {
            return Response::Refused { reason: overtaken }; // a later Fence came
        }
        if let Some(reason) = failed_before(&group, &replica, &mine) {
            return Response::Failed { reason };
        }
        let meta = ComponentMeta {
            term: mine.term.max(before.meta.term),
            owner_shard: mine.owner.shard,
            owner_incarnation: mine.owner.incarnation,
            seat: mine.seat.max(before.meta.seat),
            version: request.version.max(before.meta.version),
        };
        let must_write = meta != before.meta && !self.options.mutations.term_not_durable();
        if must_write && let Err(error) = group.set_meta(component, meta).await {
            return Response::Failed { reason: failure(&error) };
        }
        if request.create.is_some() {
            group.begin_anew(component); // nothing is promised of it: all is copied again
        }
        let Some(info) = group.component(component) else { return gone() };
        if replica.active.get() == Some(info.meta.seat) {
            group.set_active(component, true);
        }
        if replica.conversation.get() != Some(mine) {
            return Response::Refused { reason: overtaken };
        }
        let begun = Conversation { accepted: info.durable, is_fencing: false, ..mine };
        replica.conversation.set(Some(begun));
        Response::Fenced(Box::new(Fenced {
            seat: mine.seat,
            version: meta.version,
            durable: info.durable,
            commit: info.commit,
            destaged: info.destaged,
            grant_epoch: self.grants.epoch(mine.owner.shard),
            group: group.id(),
            tail: limits::tail(group.tail(component), self.options.limits.list_entries),
            clients: group.clients(component),
            open: limits::open(group.open_requests(component)),
            health: health(&info, self.options.mutations.hide_loss()),
        }))
    }

    fn delete(self: &Rc<Self>, component: ComponentId, reply: Reply) {
        let replica = self.kept.of(component);
        replica.conversation.set(None);
        replica.appends.end();
        let replicas = Rc::clone(self);
        self.tasks.spawn(&self.env, "delete component", async move {
            // A Fence that came before may be making it.
            let turn = replica.turn.acquire(1).await;
            let deleted = match replicas.disks.holding(component) {
                Some(group) => group.delete_component(component).await,
                None if replicas.disks.is_any_closed() => {
                    let reason = replicas.not_here();
                    return reply.send(Response::Refused { reason });
                }
                None => Ok(()),
            };
            drop(turn);
            replicas.kept.remove(component);
            reply.send(match deleted {
                Ok(()) => Response::Done,
                Err(error) => Response::Failed { reason: failure(&error) },
            });
        });
    }
}

/// Whether an append failed in this term and seat. Then the highest durable lsn says nothing of
/// those below it, and the owner must not take it for their answer (rule 14). So the owner is told
/// no durable lsn, and marks the component absent or degraded (rules 7, 14). In a later term or
/// seat nobody waits for that write any more. An owner that has no other copy has to hear that the
/// group works again ([`Failure::Io`]).
fn failed_before(group: &DiskGroup, replica: &Replica, mine: &Conversation) -> Option<Failure> {
    let (term, seat, reason) = replica.appends.failed()?;
    let is_well = reason == Failure::Device && group.failure().is_none();
    let reason = if is_well { Failure::Io } else { reason };
    ((term, seat) == (mine.term, mine.seat)).then_some(reason)
}

fn append_kind(kind: WriteKind) -> AppendKind {
    match kind {
        WriteKind::Data => AppendKind::Data,
        WriteKind::Zero => AppendKind::Zero,
        WriteKind::Discard => AppendKind::Discard,
    }
}

fn health(info: &ComponentInfo, hides_loss: bool) -> CopyHealth {
    match (info.damaged, info.partial && !hides_loss) {
        (true, _) => CopyHealth::Lost,
        (false, true) => CopyHealth::Partial,
        (false, false) => CopyHealth::Good,
    }
}
