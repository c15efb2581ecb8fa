// SPDX-License-Identifier: Apache-2.0
//! Writes: lock, lsn, all required legs in parallel, answer when all have it (rules 1-7).

use super::leg::{FRAME_BYTES, Frame, LegRole, LegState};
use super::road::Road;
use super::state::{Owner, Phase, Ticket, WriteRoom};
use super::window::Mask;
use crate::status::ObjectError;
use crate::status::ReadData;
use base::{
    ClientTable, ComponentId, Lsn, Mark, RequestId, SectorRange, Session, Set, WriterEpoch,
};
use env::channel::{OneReceiver, oneshot};
use env::{LockMode, Slice, WriteStage};
use peer::PeerError;
use std::rc::Rc;
use wire::{Crcs, Failure, Marks, Refusal, Response, WriteKind};

/// What is written, without where.
pub(crate) struct WriteContent {
    pub(crate) kind: WriteKind,
    pub(crate) is_copy: bool,
    /// What it says about requests (rule 46).
    pub(crate) marks: Marks,
    pub(crate) crcs: Crcs,
    pub(crate) payload: Slice,
}

impl Owner {
    /// One client write, within one chunk. Dropping the future does not take it back: once sent it
    /// goes on, and its range stays locked until it ends. It was taken in `epoch`. `number` is
    /// asked for the write's number once the owner serves, with the requests that it knows.
    pub(crate) async fn write(
        self: &Rc<Self>,
        (epoch, number): (WriterEpoch, impl FnOnce(&ClientTable) -> Option<RequestId>),
        range: SectorRange,
        kind: WriteKind,
        crcs: Crcs,
        payload: Slice,
    ) -> Result<(), ObjectError> {
        self.check_range(range)?;
        if kind == WriteKind::Data && !wire::verify(range, &crcs, &payload) {
            // Wrong before it came here: refused at the door, or no replica would ever take it.
            return Err(ObjectError::Io);
        }
        let since = self.now();
        let room = self.write_room(payload.len()).await;
        let guard = self.lock.lock(range, LockMode::Exclusive).await; // rule 1
        self.wait_for_turn(range).await;
        self.check_serving()?;
        // Rule 46: an earlier attempt of it was carried out, or nobody waits for it any more. One
        // that is still under way holds the range until it is complete.
        let id = number(&self.state.borrow().clients);
        let is_done = id.is_some_and(|id| self.state.borrow().clients.has(id));
        if is_done && !self.options().mutations.write_again() {
            base::hit(base::Probe::RequestKnown);
            if self.lock.is_wanted(range) {
                base::hit(base::Probe::ResentBeforeRival);
            }
            return Ok(());
        }
        if kind == WriteKind::Data && self.has_full_leg() {
            self.check_space(range).await?;
            self.check_serving()?;
        }
        self.admit(epoch)?;
        self.busy_at.set(self.now());
        let (done, answer) = self.answers.make();
        let marks = id.map(Mark::Done).into_iter().collect();
        let content = WriteContent { kind, is_copy: false, marks, crcs, payload };
        let ticket = Ticket::new(Some(guard), Some(done)).with_room(room);
        self.env().passed(WriteStage::Turn, since);
        self.submit(range, content, None, ticket);
        // No answer: the owner stepped down, the write may survive or not (rule 20).
        answer.recv().await.unwrap_or(Err(ObjectError::NotOwner))
    }

    /// Room for a write of so many bytes: of the object's part first, so that whoever waits there
    /// holds nothing of the host's.
    async fn write_room(&self, payload: usize) -> WriteRoom {
        let bytes = FRAME_BYTES + payload as u64;
        let object = self.write_room.acquire(bytes).await;
        WriteRoom { _object: object, _host: self.context.write_room.acquire(bytes).await }
    }

    /// Holds a write back that has to go to a joining component, while that component has as many
    /// client writes to answer as its copies leave room for. First come, first served. The wait is
    /// bounded: a joiner that gives no answer for a while gets no new writes until it answers.
    async fn wait_for_turn(&self, range: SectorRange) {
        if !self.state.borrow().goes_to_joiner(range) {
            return;
        }
        let _turn = self.join_turn.acquire(1).await;
        while self.state.borrow().is_pacing(range, self.options()) {
            base::hit(base::Probe::ResyncPaced);
            env::select(self.drained.wait(), self.changed.wait()).await;
        }
    }

    /// Client writes that wait for their turn at a joining component.
    pub(crate) fn writes_waiting(&self) -> u64 {
        self.join_turn.in_use() + self.join_turn.waiting()
    }

    /// Gives the next lsn and sends to every leg in `only` (all where `None`), in the same turn.
    pub(crate) fn submit(
        self: &Rc<Self>,
        range: SectorRange,
        content: WriteContent,
        only: Option<Mask>,
        ticket: Ticket,
    ) -> Lsn {
        let now = self.now();
        let (lsn, mut outgoing) = {
            let mut guard = self.state.borrow_mut();
            let state = &mut *guard;
            assert!(state.phase != Phase::Stopped, "a write after the end");
            let commit = state.commit();
            let legs = state.share_out(range, only, self.options());
            let lsn = state.window.push(range, legs, ticket);
            content.marks.iter().for_each(|mark| state.clients.apply(*mark));
            let mut outgoing = self.outgoing.take();
            for leg in state.legs.iter_mut().filter(|leg| leg.bit & legs.sent != 0) {
                let frame = content.frame(lsn, range, now);
                if let Some(way) = leg.way() {
                    let request = leg.request(self.id, self.term, commit, &frame);
                    outgoing.push((way, request));
                }
                leg.unacked.push(frame);
            }
            (lsn, outgoing)
        };
        for ((road, class), request) in outgoing.drain(..) {
            road.send(class, lsn, request);
        }
        self.outgoing.replace(outgoing);
        lsn
    }

    /// A copy to `component` alone with a fresh lsn, which K does not wait for: the component is
    /// not active (rule 34). `None` where it has no session any more. Resolves when the copy is
    /// durable there, with nothing when the leg was given up.
    pub(crate) fn submit_copy(
        self: &Rc<Self>,
        component: ComponentId,
        range: SectorRange,
        content: &WriteContent,
    ) -> Option<OneReceiver<()>> {
        let now = self.now();
        let (done, answer) = oneshot();
        let ((road, class), lsn, request) = {
            let mut guard = self.state.borrow_mut();
            let state = &mut *guard;
            let commit = state.commit();
            let at = state.legs.iter().position(|leg| leg.component == component)?;
            let (leg, window) = (&mut state.legs[at], &mut state.window);
            let way = leg.way()?;
            assert!(
                leg.role != LegRole::Active,
                "an active component is written through the window"
            );
            let lsn = window.give();
            let mut frame = content.frame(lsn, range, now);
            let request = leg.request(self.id, self.term, commit, &frame);
            frame.waiter = Some(done);
            leg.unacked.push(frame);
            (way, lsn, request)
        };
        road.send(class, lsn, request);
        Some(answer)
    }

    /// Takes in the answers to the frames of one session, until it is over.
    pub(super) async fn take_answers(
        self: Rc<Self>,
        component: ComponentId,
        session: Session,
        road: Road,
    ) {
        while let Some((lsn, answer)) = road.answer().await {
            self.answered(component, session, lsn, answer);
        }
    }

    fn answered(
        self: &Rc<Self>,
        component: ComponentId,
        session: Session,
        lsn: Lsn,
        answer: Result<Response, PeerError>,
    ) {
        match answer {
            Ok(Response::Durable { lsn: upto, free_chunks }) if upto >= lsn => {
                self.durable(component, session, lsn, free_chunks);
            }
            other => self.frame_failed(component, session, lsn, other),
        }
    }

    /// One frame is durable on one leg. Exactly this frame: a later one says nothing about an
    /// earlier one that failed.
    fn durable(&self, component: ComponentId, session: Session, lsn: Lsn, free_chunks: u32) {
        let now = self.now();
        let any = self.options().mutations.answer_before_all();
        let (waiter, completed, is_drained) = {
            let mut guard = self.state.borrow_mut();
            let state = &mut *guard;
            let needed = state.needed(self.options());
            let Some(leg) = state.legs.iter_mut().find(|leg| leg.component == component) else {
                return;
            };
            if leg.session != session || leg.link != LegState::Live {
                return; // rule 9
            }
            leg.free_chunks = free_chunks;
            leg.progress_at = now;
            let Some(frame) = leg.unacked.take(lsn) else { return };
            let is_here = leg.shard == self.context.me.shard;
            leg.acked = leg.acked.max(lsn);
            // Its copies go on, and whoever waits for a turn.
            let is_joining = leg.role != LegRole::Active;
            state.window.answer(lsn, leg.bit);
            let needed = if any { 0 } else { needed };
            let completed = state.window.settle_one(lsn, needed);
            if let Some(completed) = &completed {
                state.note_missing(completed.range, completed.missing, self.options());
            }
            if !frame.is_copy {
                let stage = if is_here { WriteStage::CopyHere } else { WriteStage::CopyThere };
                self.env().passed(stage, frame.since);
            }
            (frame.waiter, completed, state.window.live() == 0 || is_joining)
        };
        if let Some(waiter) = waiter {
            waiter.send(());
        }
        if let Some(completed) = completed {
            completed.load.finish(Ok(()));
        }
        if is_drained {
            self.drained.notify();
        }
    }

    fn frame_failed(
        self: &Rc<Self>,
        component: ComponentId,
        session: Session,
        lsn: Lsn,
        answer: Result<Response, PeerError>,
    ) {
        let role = {
            let state = self.state.borrow();
            let leg = state.leg(component);
            let current = leg.filter(|leg| leg.session == session && leg.link == LegState::Live);
            current.map(|leg| leg.role)
        };
        let Some(role) = role else { return }; // rule 9
        match answer {
            Ok(Response::Refused { reason: Refusal::HigherTerm(term) }) if term > self.term => {
                self.step_down("a replica refuses this term"); // rule 20
            }
            Ok(Response::Moved { term, .. }) if term > self.term => {
                self.step_down("a replica knows another owner");
            }
            Ok(Response::Failed { reason: Failure::Full }) if role == LegRole::Active => {
                // Rule 7, second half: the replicas differ now. The way out that is always right
                // is a take-over by myself, which makes the tails equal; the full component is its
                // source, so that nothing has to be allocated.
                let mut state = self.state.borrow_mut();
                state.prefer = Some(component);
                state.full = Some(component);
                drop(state);
                self.step_down("a replica ran out of space after the lsn was given");
            }
            Ok(Response::Failed { reason: Failure::Device | Failure::Io }) => {
                self.break_leg(component, session, "device failure");
                let owner = Rc::clone(self);
                self.spawn("degrade", async move { owner.degrade(component).await });
            }
            other => {
                tracing::debug!(object = %self.id, %component, %lsn, ?other, "a frame failed");
                self.break_leg(component, session, "frame failed");
            }
        }
    }

    /// The session is over; frames stay for the next one, which the leg's keeper works on.
    pub(crate) fn break_leg(&self, component: ComponentId, session: Session, why: &'static str) {
        {
            let now = self.now();
            let mut state = self.state.borrow_mut();
            let Some(leg) = state.leg_mut(component) else { return };
            if leg.session != session || leg.link != LegState::Live {
                return;
            }
            leg.link = LegState::Broken(now);
            leg.end_session();
        }
        tracing::debug!(object = %self.id, %component, why, "session ended");
        self.changed.notify();
        self.drained.notify();
        self.settle();
    }

    /// Ends the sessions of all these components.
    pub(crate) fn break_legs(&self, components: &Set<ComponentId>, why: &'static str) {
        let sessions: Vec<_> = {
            let state = self.state.borrow();
            let gone = state.legs.iter().filter(|leg| components.contains(&leg.component));
            gone.map(|leg| (leg.component, leg.session)).collect()
        };
        for (component, session) in sessions {
            self.break_leg(component, session, why);
        }
    }
}

impl WriteContent {
    /// A copy of what was read. Zeros need no space at the target.
    pub(crate) fn copy_of(data: ReadData) -> Self {
        let is_zero = data.payload.iter().all(|byte| *byte == 0);
        if is_zero {
            let payload = data.payload.slice(0..0);
            let (kind, crcs) = (WriteKind::Zero, Crcs::NONE);
            return Self { kind, is_copy: true, marks: Marks::NONE, crcs, payload };
        }
        let ReadData { crcs, payload } = data;
        Self { kind: WriteKind::Data, is_copy: true, marks: Marks::NONE, crcs, payload }
    }

    fn frame(&self, lsn: Lsn, range: SectorRange, since: base::Instant) -> Frame {
        Frame {
            lsn,
            range,
            kind: self.kind,
            is_copy: self.is_copy,
            marks: self.marks.clone(),
            crcs: self.crcs.clone(),
            payload: self.payload.clone(),
            since,
            waiter: None,
        }
    }
}
