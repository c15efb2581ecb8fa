// SPDX-License-Identifier: Apache-2.0
//! One component as its owner sees it: the conversation, and what it has not answered yet.
//!
//! Frames go to a leg in rising lsn order, whatever they are (writes, copies, repairs), so `prev`
//! is simply the lsn sent before. A frame is kept until its answer, for the next session (rule 14).

use super::window::Mask;
use base::{
    ComponentId, HostId, Incarnation, Instant, Lsn, ObjectId, Seat, SectorRange, Session, Term,
};
use env::Slice;
use env::channel::OneSender;
use std::collections::VecDeque;
use wire::{Crcs, Marks, Request, Target, WriteKind};

/// A leg with fewer free chunks than this takes no writes that may allocate: what was promised to
/// writes in flight, and the store's own needs, come out of it (rule 2, trap 14).
pub(crate) const FREE_CHUNKS_RESERVE: u32 = 16;

/// Whether frames can be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Link {
    /// A session stands.
    Live,
    /// No session since then: its keeper works on a new one.
    Broken(Instant),
}

/// What the component is worth to the owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// Active in the record or in an unresolved CAS: required (rule 3).
    Active,
    /// Being resynced: gets every write; they may complete without it (rule 32).
    Joining,
    /// Resynced, its CAS is about to be sent or unresolved: required (rule 35).
    Required,
}

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

/// The conversation with one component.
pub(crate) struct Leg {
    pub(crate) component: ComponentId,
    pub(crate) host: HostId,
    pub(crate) seat: Seat,
    pub(crate) session: Session,
    pub(crate) bit: Mask,
    pub(crate) link: Link,
    pub(crate) role: Role,
    /// A joining leg whose answers come late: writes do not wait for it.
    pub(crate) is_lagging: bool,
    /// A CAS that takes it out of the active ones is under way.
    pub(crate) is_leaving: bool,
    /// The lsn sent before, in this session (`prev` of the next frame).
    pub(crate) last_sent: Lsn,
    /// Highest lsn that it answered; never falls (section 6).
    pub(crate) acked: Lsn,
    pub(crate) unacked: VecDeque<Frame>,
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

    /// Takes the frame `lsn` out: it was answered.
    pub(crate) fn take(&mut self, lsn: Lsn) -> Option<Frame> {
        if self.unacked.front().is_some_and(|frame| frame.lsn == lsn) {
            return self.unacked.pop_front();
        }
        let at = self.unacked.binary_search_by_key(&lsn, |frame| frame.lsn).ok()?;
        self.unacked.remove(at)
    }

    /// Since when the oldest frame waits without any answer in between.
    pub(crate) fn waiting_since(&self) -> Option<Instant> {
        self.unacked.front().map(|frame| frame.since.max(self.progress_at))
    }
}
