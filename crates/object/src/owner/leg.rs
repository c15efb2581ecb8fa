// SPDX-License-Identifier: Apache-2.0
//! One component as its owner sees it: the conversation, and what it has not answered yet.
//!
//! Frames go to a leg in rising lsn order, whatever they are (writes, copies, repairs), so `prev`
//! is simply the lsn sent before. A frame is kept until its answer, for the next session (rule 14).

use super::road::Road;
use super::window::Mask;
use base::{
    ComponentId, Incarnation, Instant, Lsn, ObjectId, Seat, SectorRange, Session, ShardId, Term,
};
use env::Slice;
use env::channel::OneSender;
use peer::Class;
use std::collections::VecDeque;
use wire::{Crcs, Marks, Request, Target, WriteKind};

/// A leg with fewer free chunks than this takes no writes that may allocate: what was promised to
/// writes in flight, and the store's own needs, come out of it (rule 2, trap 14).
pub const FREE_CHUNKS_RESERVE: u32 = 16;

/// What a frame counts beside its payload, bytes.
pub(crate) const FRAME_BYTES: u64 = 512;

/// Whether frames can be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LegState {
    /// A session stands.
    Live,
    /// No session since then: its keeper works on a new one.
    Broken(Instant),
}

/// What the component is worth to the owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LegRole {
    /// Active in the record or in an unresolved CAS: required (rule 3).
    Active,
    /// Being resynced: gets what its [`Flow`] lets it have; writes may complete without it (rule
    /// 32).
    Joining,
    /// Resynced, its CAS is about to be sent or unresolved: required (rule 35).
    Required,
}

/// How a joining leg takes part in new writes (rule 32).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flow {
    /// It gets none since then: their ranges are dirty, and come with the copies.
    Deferred(Instant),
    /// It gets those that touch a block that is not dirty, and they wait for its answer.
    Live,
}

/// The way that a leg's frames take, and the share of a link that they have.
pub(crate) type Way = (Road, Class);

/// How a frame on its way to one leg ended, for whoever waits for that leg alone (a copy).
pub(crate) type FrameDone = OneSender<()>;

/// The grants that cover a component: those of the host's run that fenced it, at the same epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FencedAt {
    /// When the Fence was sent: a grant asked for later tells whether the epoch is still the same.
    pub(crate) at: Instant,
    pub(crate) incarnation: Option<Incarnation>,
    pub(crate) grant_epoch: u64,
}

/// One write or copy.
pub(crate) struct Frame {
    pub(crate) lsn: Lsn,
    pub(crate) range: SectorRange,
    pub(crate) kind: WriteKind,
    pub(crate) is_copy: bool,
    pub(crate) marks: Marks,
    pub(crate) crcs: Crcs,
    pub(crate) payload: Slice,
    pub(crate) since: Instant,
    pub(crate) waiter: Option<FrameDone>,
}

/// Frames without an answer, by rising lsn.
#[derive(Default)]
pub(crate) struct Unacked {
    frames: VecDeque<Frame>,
    /// Bytes of those that are no copies: what clients wait for.
    live: u64,
}

impl Unacked {
    pub(crate) fn push(&mut self, frame: Frame) {
        self.live += frame.live_bytes();
        self.frames.push_back(frame);
    }

    pub(crate) fn front(&self) -> Option<&Frame> {
        self.frames.front()
    }

    pub(crate) fn pop_front(&mut self) -> Option<Frame> {
        let frame = self.frames.pop_front()?;
        self.live -= frame.live_bytes();
        Some(frame)
    }

    /// Takes the frame `lsn` out.
    pub(crate) fn take(&mut self, lsn: Lsn) -> Option<Frame> {
        if self.front().is_some_and(|frame| frame.lsn == lsn) {
            return self.pop_front();
        }
        let at = self.frames.binary_search_by_key(&lsn, |frame| frame.lsn).ok()?;
        let frame = self.frames.remove(at)?;
        self.live -= frame.live_bytes();
        Some(frame)
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.live
    }

    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> u64 {
        self.frames.iter().map(|frame| FRAME_BYTES + frame.payload.len() as u64).sum()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Frame> {
        self.frames.iter()
    }

    /// All of them wait since `now`.
    pub(crate) fn wait_since(&mut self, now: Instant) {
        self.frames.iter_mut().for_each(|frame| frame.since = now);
    }
}

impl Frame {
    fn live_bytes(&self) -> u64 {
        if self.is_copy { 0 } else { FRAME_BYTES + self.payload.len() as u64 }
    }
}

/// The conversation with one component.
pub(crate) struct Leg {
    pub(crate) component: ComponentId,
    pub(crate) shard: ShardId,
    pub(crate) seat: Seat,
    pub(crate) session: Session,
    pub(crate) bit: Mask,
    pub(crate) link: LegState,
    pub(crate) role: LegRole,
    /// Counts while it joins.
    pub(crate) flow: Flow,
    /// The way of its session's frames.
    pub(crate) road: Option<Road>,
    /// A CAS that takes it out of the active ones is under way.
    pub(crate) is_leaving: bool,
    /// The lsn sent before, in this session (`prev` of the next frame).
    pub(crate) last_sent: Lsn,
    /// Highest lsn that it answered as durable (rule 4); never falls.
    pub(crate) acked: Lsn,
    pub(crate) unacked: Unacked,
    /// Chunks that it could take at its last answer (rule 2).
    pub(crate) free_chunks: u32,
    pub(crate) progress_at: Instant,
    /// When and where it was last fenced: only a grant that matches covers it (rules 21, 52a).
    pub(crate) fenced: Option<FencedAt>,
    /// K as told by the last frame.
    pub(crate) told: Lsn,
}

impl Leg {
    pub(crate) fn target(&self, object: ObjectId, term: Term) -> Target {
        let (component, seat, session) = (self.component, self.seat, self.session);
        Target { object, component, term, seat, session }
    }

    /// Whether a joining leg takes part in new writes.
    pub(crate) fn takes_part(&self) -> bool {
        self.link == LegState::Live && self.flow == Flow::Live
    }

    /// Whether new writes may go to this leg again: it gets none, and has answered something since
    /// they stopped going to it.
    pub(crate) fn may_take_part(&self) -> bool {
        matches!(self.flow, Flow::Deferred(since) if self.progress_at >= since)
    }

    /// Whether it takes no writes that may allocate.
    pub(crate) fn is_full(&self) -> bool {
        self.free_chunks < FREE_CHUNKS_RESERVE
    }

    /// The request that carries `frame` next in this session.
    pub(crate) fn request(
        &mut self,
        object: ObjectId,
        term: Term,
        commit: Lsn,
        frame: &Frame,
    ) -> Request {
        assert!(frame.lsn > self.last_sent, "frames of a leg go out in lsn order");
        let prev = std::mem::replace(&mut self.last_sent, frame.lsn);
        self.told = self.told.max(commit);
        Request::Write {
            target: self.target(object, term),
            lsn: frame.lsn,
            prev,
            commit,
            range: frame.range,
            kind: frame.kind,
            is_copy: frame.is_copy,
            marks: frame.marks.clone(),
            crcs: frame.crcs.clone(),
            payload: frame.payload.clone(),
        }
    }

    /// How its frames go; `None` where no session stands.
    pub(crate) fn way(&self) -> Option<Way> {
        let road = self.road.clone().filter(|_| self.link == LegState::Live)?;
        Some((road, self.class()))
    }

    /// The share of its link that its frames have.
    pub(crate) fn class(&self) -> Class {
        match self.role {
            LegRole::Joining => Class::Resync,
            LegRole::Active | LegRole::Required => Class::Write,
        }
    }

    /// The session is over: what was not sent so far never is.
    pub(crate) fn end_session(&mut self) {
        if let Some(road) = self.road.take() {
            road.close();
        }
    }

    /// Since when the oldest frame waits without any answer in between.
    pub(crate) fn waiting_since(&self) -> Option<Instant> {
        self.unacked.front().map(|frame| frame.since.max(self.progress_at))
    }
}

impl Drop for Leg {
    fn drop(&mut self) {
        self.end_session();
    }
}
