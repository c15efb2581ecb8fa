// SPDX-License-Identifier: Apache-2.0
//! Fencing a component and opening a session with it (rules 14, 19, 24, 25, 31).

use crate::owner::leg::{FencedAt, Frame, LegState};
use crate::owner::road::Road;
use crate::owner::state::Owner;
use base::{ClientTable, ComponentId, Lsn, RequestId, Seat, SectorRange, ShardId, Term};
use env::Either;
use peer::PeerError;
use std::rc::Rc;
use std::time::Duration;
use wire::{CopyHealth, Failure, Fenced, Refusal, Request, Response, Target};

/// What a component said about itself in its Fence answer.
#[derive(Clone, Debug)]
pub(crate) struct Fence {
    pub(crate) session: base::Session,
    /// Highest lsn that is durable on it.
    pub(crate) durable: Lsn,
    /// K as it was told.
    pub(crate) commit: Lsn,
    /// W: everything up to it is on its capacity devices.
    pub(crate) destaged: Lsn,
    /// Ranges with an lsn above its K.
    pub(crate) tail: Vec<(SectorRange, Lsn)>,
    /// Requests whose effect it has (rule 46).
    pub(crate) clients: ClientTable,
    /// Those of them in the tail, and what they wrote.
    pub(crate) open: Vec<(SectorRange, Lsn, RequestId)>,
    /// What it admits to have lost: everything above this (rule 19).
    pub(crate) kept: Option<Lsn>,
    /// Which grants cover it.
    pub(crate) fenced: FencedAt,
}

/// How a Fence was answered.
#[derive(Clone, Debug)]
pub(crate) enum FenceAnswer {
    /// The session stands as soon as the owner says so.
    Fenced(Fence),
    /// Somebody else owns the object, at this term (rules 8, 20).
    HigherTerm(Term),
    /// The directory went back in time (rule 25).
    FromTheFuture,
    /// The host answers, but not yet with yes: a grant must run out first (rule 52b), or the host
    /// is not ready. To be asked again after so long.
    Wait(Duration),
    /// The host does not know the component (any more).
    Unknown,
    /// The host does not find the component, but a disk group or a capacity device there is out of
    /// service. The component may be on it.
    Closed,
    /// Its disk group failed a write of this term and is well again: only a later term or seat is
    /// taken (rule 14).
    Outdated,
    /// There is no link to its host.
    Unreachable,
    /// No answer, or none that makes sense.
    Silent,
}

impl Owner {
    /// Sends one Fence to `component` for a new session and looks at the answer. Changes no leg.
    /// Bounded by `limit`. `create` makes the component where it does not exist.
    pub(crate) async fn fence(
        self: &Rc<Self>,
        component: ComponentId,
        seat: Seat,
        create: bool,
        limit: Duration,
    ) -> FenceAnswer {
        let session = self.new_session();
        let (shard, version, claims) = {
            let state = self.state.borrow();
            let record = crate::record::component(&state.record, component);
            let Some(record) = record else { return FenceAnswer::Unknown };
            (record.shard, state.record.version, crate::record::claims(&state.record))
        };
        let me = self.context.me;
        let target = Target { object: self.id, component, term: self.term, seat, session };
        let owner = wire::OwnerId { shard: me.shard, incarnation: me.incarnation };
        let create = create.then_some(self.sectors);
        let at = self.now();
        let request = Request::Fence { target, version, owner, create, claims };
        let Some(answer) = self.answer_to_fence(shard, target, request, limit).await else {
            tracing::debug!(object = %self.id, %component, "a fence is not answered in time");
            return FenceAnswer::Silent;
        };
        match answer {
            Ok(Response::Fenced(fenced)) if fenced.version > version => {
                tracing::error!(
                    object = %self.id, %component, record = version.0, seen = fenced.version.0,
                    seat = fenced.seat.0,
                    "a replica has seen a newer record than the directory holds"
                );
                FenceAnswer::FromTheFuture
            }
            Ok(Response::Fenced(fenced)) if fenced.seat != seat => {
                FenceAnswer::Silent // rule 9
            }
            Ok(Response::Fenced(fenced)) if !self.is_possible(&fenced) => {
                tracing::warn!(object = %self.id, %component, ?fenced, "a fence answered nonsense");
                FenceAnswer::Silent
            }
            Ok(Response::Fenced(fenced)) => {
                self.state.borrow_mut().groups.insert(component, fenced.group);
                let incarnation = self.context.incarnation(shard);
                FenceAnswer::Fenced(Fence {
                    session,
                    durable: fenced.durable,
                    commit: fenced.commit,
                    destaged: fenced.destaged,
                    kept: kept(fenced.health, fenced.destaged),
                    fenced: FencedAt { at, incarnation, grant_epoch: fenced.grant_epoch },
                    tail: fenced.tail,
                    clients: fenced.clients,
                    open: fenced.open,
                })
            }
            Ok(Response::Refused { reason }) => self.refused(component, &reason),
            Ok(Response::Failed { reason: Failure::Io }) => FenceAnswer::Outdated,
            Err(PeerError::Unreachable) => FenceAnswer::Unreachable,
            other => {
                tracing::debug!(object = %self.id, %component, ?other, "no answer to a fence");
                FenceAnswer::Silent
            }
        }
    }

    /// Sends a Fence, and tells K while it is not answered. `None`: no answer in time.
    async fn answer_to_fence(
        &self,
        shard: ShardId,
        target: Target,
        request: Request,
        limit: Duration,
    ) -> Option<Result<Response, PeerError>> {
        let answered = self.env().timeout(limit, self.context.peers.call(shard, request));
        match env::select(answered, self.tell_while_fencing(shard, target)).await {
            Either::First(answer) => answer.ok(),
            Either::Second(never) => match never {},
        }
    }

    /// Whether an answer can be true: nobody but this owner gives lsns of its term, so none is
    /// above the last one given, and nothing was written behind the object's end. What is in the
    /// answer goes into frames and into the record.
    fn is_possible(&self, fenced: &Fenced) -> bool {
        let given = self.state.borrow().window.given();
        let all = SectorRange::new(0, self.sectors);
        let ranges = fenced.tail.iter().map(|(range, lsn)| (*range, *lsn));
        let ranges = ranges.chain(fenced.open.iter().map(|(range, lsn, _)| (*range, *lsn)));
        [fenced.durable, fenced.commit, fenced.destaged].iter().all(|lsn| *lsn <= given)
            && ranges.into_iter().all(|(range, lsn)| lsn <= given && all.contains(range))
    }

    fn refused(&self, component: ComponentId, reason: &Refusal) -> FenceAnswer {
        match reason {
            Refusal::HigherTerm(term) if *term > self.term => FenceAnswer::HigherTerm(*term),
            Refusal::HigherTerm(term) if *term == self.term => {
                tracing::error!(
                    object = %self.id, %component, term = term.0,
                    "a replica knows another owner of the term that the directory has just given"
                );
                FenceAnswer::FromTheFuture
            }
            Refusal::OtherHistory { version } => {
                tracing::error!(
                    object = %self.id, %component, seen = version.0,
                    "a replica has seen a record that the directory's does not descend from"
                );
                FenceAnswer::FromTheFuture
            }
            Refusal::UnknownComponent => FenceAnswer::Unknown,
            Refusal::GroupClosed => FenceAnswer::Closed,
            Refusal::GrantedToOther { wait_ms } => {
                FenceAnswer::Wait(Duration::from_millis(u64::from(*wait_ms)))
            }
            Refusal::NotReady => FenceAnswer::Wait(Duration::from_millis(100)),
            other => {
                tracing::warn!(object = %self.id, %component, ?other, "a fence was refused");
                FenceAnswer::Silent
            }
        }
    }

    /// Opens the session of a successful Fence: what it has durable counts as answered, the rest
    /// is sent again in order (rule 14; applying twice is harmless). Returns false where the leg
    /// is gone or already has a session.
    pub(crate) fn open_session(self: &Rc<Self>, component: ComponentId, fence: &Fence) -> bool {
        let now = self.now();
        let (road, class, answered, resend) = {
            let mut guard = self.state.borrow_mut();
            let state = &mut *guard;
            let commit = state.commit();
            let Some(leg) = state.legs.iter_mut().find(|leg| leg.component == component) else {
                return false;
            };
            if leg.link == LegState::Live {
                return false;
            }
            leg.link = LegState::Live;
            leg.end_session();
            let road = Road::new(&self.context, leg.shard);
            leg.road = Some(road.clone());
            leg.session = fence.session;
            leg.last_sent = fence.durable; // the first `prev` of a session
            leg.fenced = Some(fence.fenced);
            leg.progress_at = now;
            leg.told = fence.commit;
            let mut answered = Vec::new();
            let forgets = self.options().mutations.forget_unanswered();
            let is_there = |frame: &Frame| forgets || frame.lsn <= fence.durable;
            while leg.unacked.front().is_some_and(is_there) {
                let Some(frame) = leg.unacked.pop_front() else { break };
                leg.acked = leg.acked.max(frame.lsn);
                state.window.answer(frame.lsn, leg.bit);
                answered.extend(frame.waiter);
            }
            let frames = std::mem::take(&mut leg.unacked);
            let class = leg.class();
            let request =
                |frame: &Frame| (frame.lsn, leg.request(self.id, self.term, commit, frame));
            let resend: Vec<_> = frames.iter().map(request).collect();
            leg.unacked = frames;
            leg.unacked.wait_since(now);
            (road, class, answered, resend)
        };
        let answers = Rc::clone(self).take_answers(component, fence.session, road.clone());
        self.spawn("answers", answers);
        for waiter in answered {
            waiter.send(());
        }
        for (lsn, request) in resend {
            base::hit(base::Probe::SessionResent);
            road.send(class, lsn, request);
        }
        self.changed.notify();
        self.drained.notify();
        self.settle();
        true
    }
}

/// Rule 19: a claim to be worse than the record says is believed at once.
fn kept(health: CopyHealth, destaged: Lsn) -> Option<Lsn> {
    match health {
        CopyHealth::Good => None,
        CopyHealth::Partial => Some(destaged),
        CopyHealth::Lost => Some(Lsn::ZERO),
    }
}
