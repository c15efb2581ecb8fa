// SPDX-License-Identifier: Apache-2.0
//! An owner and all that it knows, and its way through life: it serves, loses and gets legs, ends.

use super::chunk_locks::{ChunkGuard, ChunkLocks};
use super::leg::{Flow, Leg, LegRole, LegState, Unacked, Way};
use super::window::{LEGS_MAX, Window};
use crate::away::Due;
use crate::context::Context;
use crate::dirty::DirtySet;
use crate::options::ObjectOptions;
use crate::rate::CopyRate;
use crate::record;
use crate::status::{ComponentStatus, CopyProgress, ObjectError};
use base::{
    ClientTable, ComponentId, GroupId, Instant, Lsn, Map, ObjectId, SectorRange, Session, ShardId,
    Term, WriterEpoch,
};
use directory::ObjectRecord;
use env::channel::{OneSender, Oneshots};
use env::{Env, Notify, Permit, Semaphore, TaskSet};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use wire::Request;

/// An object may have this part of the room for writes.
const OBJECT_PART: u64 = 4;

/// Where in its life an owner is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Fencing and reconciling: no client I/O (rule 29).
    TakingOver,
    /// Serving.
    Serving,
    /// Draining for a hand-over: no new I/O (rule 53).
    HandingOver,
    /// Over; the reason is for the log.
    Stopped,
}

/// A client write in flight: its lock is held until it completes, whoever still waits for it.
pub(crate) struct Ticket {
    pub(super) _guard: Option<ChunkGuard>,
    pub(super) _room: Option<WriteRoom>,
    pub(super) done: Option<OneSender<Result<(), ObjectError>>>,
}

/// What a client write takes of the room for writes: of its object's part, and of the host's.
pub(crate) struct WriteRoom {
    pub(super) _object: Permit,
    pub(super) _host: Permit,
}

/// A component on its way back.
pub(crate) struct Resync {
    /// What is left to copy.
    pub(crate) dirty: DirtySet,
    /// Copies sent and not answered.
    pub(crate) copies: usize,
    /// Their bytes.
    pub(crate) copies_bytes: u64,
    /// How fast it goes.
    pub(crate) rate: CopyRate,
}

pub(crate) struct OwnerState {
    pub(crate) phase: Phase,
    /// As last read from the directory, or as learned by a won CAS.
    pub(crate) record: ObjectRecord,
    pub(crate) revision: u64,
    /// What an unresolved CAS proposes: obeyed too (rules 3, 11, 16).
    pub(crate) pending: Option<ObjectRecord>,
    pub(crate) window: Window<Ticket>,
    /// K of the fence round: what counts until the take-over is over (rules 6, 17).
    pub(crate) fence_commit: Lsn,
    pub(crate) legs: Vec<Leg>,
    pub(crate) resyncs: Map<ComponentId, Resync>,
    /// The disk groups that components are on, as their hosts said last.
    pub(crate) groups: Map<ComponentId, GroupId>,
    /// Requests that were carried out or are in the window (rule 46).
    pub(crate) clients: ClientTable,
    pub(super) session: u32,
    /// A component that ran out of space when others did not: the source of the next take-over.
    pub(crate) prefer: Option<ComponentId>,
    /// A component known to be full before its first answer: it takes nothing that allocates.
    pub(crate) full: Option<ComponentId>,
    /// What the record's epoch is to become. Where it is above that, no write is admitted (rule
    /// 55).
    pub(super) next_epoch: WriterEpoch,
}

/// The owner of one object in one term.
pub(crate) struct Owner {
    pub(crate) context: Rc<Context>,
    pub(crate) id: ObjectId,
    pub(crate) term: Term,
    pub(crate) sectors: u64,
    pub(crate) lock: ChunkLocks,
    /// Legs, phase, record or resyncs changed; not told for single writes.
    pub(crate) changed: Notify,
    /// The window became empty, or a leg caught up: for those who wait for that.
    pub(crate) drained: Notify,
    /// Bytes of client writes under way: one object that stands still does not take all of them.
    pub(crate) write_room: Semaphore,
    /// Whose turn it is among the client writes that a joining component is to take.
    pub(crate) join_turn: Semaphore,
    /// One CAS at a time.
    pub(super) config: Semaphore,
    pub(crate) state: RefCell<OwnerState>,
    /// Returns of components that are not active.
    pub(crate) due: RefCell<Map<ComponentId, Due>>,
    pub(super) tasks: TaskSet,
    /// Answers to client writes under way.
    pub(super) answers: Oneshots<Result<(), ObjectError>>,
    /// Frames that are about to be sent: the memory of it is used again.
    pub(super) outgoing: RefCell<Vec<(Way, Request)>>,
    pub(crate) busy_at: Cell<Instant>,
    /// Reads that wait for a grant.
    pub(crate) reads_waiting: Cell<usize>,
}

impl Owner {
    /// The owner at `record.term`, not serving yet; `revision` is that of the record.
    pub(crate) fn new(context: &Rc<Context>, record: ObjectRecord, revision: u64) -> Rc<Self> {
        let first = Lsn::new(record.term, 0);
        let state = OwnerState {
            phase: Phase::TakingOver,
            revision,
            pending: None,
            window: Window::new(first, first),
            fence_commit: Lsn::ZERO,
            legs: Vec::new(),
            resyncs: Map::new(),
            groups: Map::new(),
            clients: ClientTable::default(),
            session: 0,
            prefer: None,
            full: None,
            next_epoch: record.writer_epoch,
            record,
        };
        Rc::new(Self {
            context: Rc::clone(context),
            id: state.record.id,
            term: state.record.term,
            sectors: state.record.sectors,
            lock: ChunkLocks::default(),
            changed: Notify::default(),
            drained: Notify::default(),
            write_room: Semaphore::new(context.options.write_bytes / OBJECT_PART),
            join_turn: Semaphore::new(1),
            config: Semaphore::new(1),
            state: RefCell::new(state),
            due: RefCell::default(),
            tasks: TaskSet::default(),
            answers: Oneshots::default(),
            outgoing: RefCell::default(),
            busy_at: Cell::new(Instant::default()),
            reads_waiting: Cell::default(),
        })
    }

    pub(crate) fn env(&self) -> &Env {
        &self.context.env
    }

    pub(crate) fn options(&self) -> &ObjectOptions {
        &self.context.options
    }

    pub(crate) fn now(&self) -> Instant {
        self.context.env.now()
    }

    /// Starts a task that ends with this owner.
    pub(crate) fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + 'static) {
        if self.phase() != Phase::Stopped {
            self.tasks.spawn(self.env(), name, task);
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.state.borrow().phase
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.phase() == Phase::Stopped
    }

    /// Refuses I/O unless this owner serves.
    pub(crate) fn check_serving(&self) -> Result<(), ObjectError> {
        match self.phase() {
            Phase::Serving => Ok(()),
            Phase::TakingOver | Phase::HandingOver | Phase::Stopped => Err(ObjectError::NotOwner),
        }
    }

    /// A range that lies in the object and in one chunk; anything else is a caller's bug or a
    /// forged frame.
    pub(crate) fn check_range(&self, range: SectorRange) -> Result<(), ObjectError> {
        let chunk = base::CHUNK_SECTORS;
        let fits = !range.is_empty() && range.end() <= self.sectors;
        if fits && range.start / chunk == (range.end() - 1) / chunk {
            Ok(())
        } else {
            Err(ObjectError::Io)
        }
    }

    /// From TakingOver to Serving (rule 29): the first I/O may come.
    /// `returns` looks after the components that are not active, until the owner ends.
    pub(crate) fn serve(self: &Rc<Self>, returns: impl Future<Output = ()> + 'static) {
        {
            let mut state = self.state.borrow_mut();
            assert!(state.phase == Phase::TakingOver, "served twice, or after the end");
            state.phase = Phase::Serving;
        }
        self.changed.notify();
        let owner = Rc::clone(self);
        self.spawn("commit info", async move { owner.tell_commit().await });
        self.spawn("returns", returns);
        let owner = Rc::clone(self);
        self.spawn("disk groups of components", async move { owner.tell_groups().await });
        let owner = Rc::clone(self);
        self.spawn("removed components", async move { owner.delete_removed().await });
    }

    /// Ends this owner (rule 20): nothing is answered any more, neither done nor failed; those who
    /// wait learn that the object moved. Idempotent.
    pub(crate) fn step_down(&self, why: &'static str) {
        let (tickets, legs) = {
            let mut state = self.state.borrow_mut();
            if state.phase == Phase::Stopped {
                return;
            }
            state.phase = Phase::Stopped;
            state.resyncs.clear();
            (state.window.drain(), std::mem::take(&mut state.legs))
        };
        tracing::info!(object = %self.id, term = self.term.0, why, "owner steps down");
        if !tickets.is_empty() {
            base::hit(base::Probe::SteppedDownBusy);
        }
        for leg in &legs {
            self.release_lease(leg.shard);
        }
        drop(legs);
        drop(tickets);
        self.changed.notify();
        self.drained.notify();
        self.tasks.clear();
    }

    /// K: what left := K and frames carry (rules 6, 17).
    pub(crate) fn commit(&self) -> Lsn {
        self.state.borrow().commit()
    }

    /// A session number never used in this term before.
    pub(crate) fn new_session(&self) -> Session {
        let mut state = self.state.borrow_mut();
        state.session += 1;
        Session(state.session)
    }

    /// Adds the leg of `component`, broken: its keeper (or the take-over) fences it.
    pub(crate) fn add_leg(&self, component: ComponentId, role: LegRole) {
        let now = self.now();
        let shard = {
            let mut state = self.state.borrow_mut();
            let Some(record) = record::component(&state.record, component) else {
                unreachable!("a leg to a component that is not in the record")
            };
            let (shard, seat) = (record.shard, record.seat);
            assert!(state.legs.iter().all(|leg| leg.component != component), "two legs to one");
            let free_chunks = if state.full == Some(component) { 0 } else { u32::MAX };
            let used = state.legs.iter().fold(0, |mask, leg| mask | leg.bit);
            let bit = !used & used.wrapping_add(1);
            assert!(bit != 0, "more legs than LEGS_MAX = {LEGS_MAX}");
            // The bit may have been another leg's: nothing of that one counts for this one.
            state.window.forget(bit);
            state.legs.push(Leg {
                component,
                shard,
                seat,
                session: Session(0),
                bit,
                link: LegState::Broken(now),
                role,
                flow: Flow::Deferred(now),
                road: None,
                is_leaving: false,
                last_sent: Lsn::ZERO,
                acked: Lsn::ZERO,
                unacked: Unacked::default(),
                free_chunks,
                progress_at: now,
                fenced: None,
                told: Lsn::ZERO,
            });
            shard
        };
        if shard != self.context.me.shard {
            self.context.leases.need(shard);
        }
    }

    /// The leg is given up: its frames are forgotten, and what waited for it alone completes. For
    /// an active one only after its CAS was learned (rule 15).
    pub(crate) fn remove_leg(&self, component: ComponentId) {
        let leg = {
            let mut state = self.state.borrow_mut();
            let Some(at) = state.legs.iter().position(|leg| leg.component == component) else {
                return;
            };
            state.legs.remove(at)
        };
        self.release_lease(leg.shard);
        drop(leg);
        self.changed.notify();
        self.drained.notify();
        self.settle();
    }

    fn release_lease(&self, shard: ShardId) {
        if shard != self.context.me.shard {
            self.context.leases.release(shard);
        }
    }

    /// Completes every write that no leg is needed for any more (rule 5).
    pub(crate) fn settle(&self) {
        let done = {
            let mut state = self.state.borrow_mut();
            let needed = state.needed(self.options());
            let any = self.options().mutations.answer_before_all();
            let done = state.window.settle(needed, any);
            for completed in &done {
                state.note_missing(completed.range, completed.missing, self.options());
            }
            done
        };
        if done.is_empty() {
            return;
        }
        for completed in done {
            completed.load.finish(Ok(()));
        }
        if self.state.borrow().window.live() == 0 {
            self.drained.notify();
        }
    }

    /// Waits until no client write is under way: all have ended, or the owner has.
    pub(crate) async fn drain(&self) {
        loop {
            let drained = self.drained.wait();
            if self.state.borrow().window.live() == 0 {
                return;
            }
            drained.await;
        }
    }

    /// What an operator sees of this owner's components.
    pub(crate) fn component_status(&self) -> Vec<ComponentStatus> {
        let state = self.state.borrow();
        let of = |component: &directory::ComponentRecord| {
            let resync = state.resyncs.get(&component.id);
            ComponentStatus {
                id: component.id,
                shard: component.shard,
                state: component.state,
                replaces: component.replaces,
                resync_bytes_left: resync.map_or(0, |resync| resync.dirty.bytes()),
                writes_waiting: resync.map_or(0, |_| self.writes_waiting()),
                progress: resync.map(|resync| CopyProgress {
                    copied: resync.rate.copied(),
                    per_second: resync.rate.per_second(self.now()),
                    since: self.now().since(resync.rate.begun()),
                }),
                away: self.away(component),
            }
        };
        state.record.components.iter().map(of).collect()
    }
}

impl OwnerState {
    /// K (rule 6): during a take-over that of the fence round, never an lsn of this term (17).
    pub(crate) fn commit(&self) -> Lsn {
        if self.phase == Phase::TakingOver { self.fence_commit } else { self.window.commit() }
    }

    pub(crate) fn leg(&self, component: ComponentId) -> Option<&Leg> {
        self.legs.iter().find(|leg| leg.component == component)
    }

    pub(crate) fn leg_mut(&mut self, component: ComponentId) -> Option<&mut Leg> {
        self.legs.iter_mut().find(|leg| leg.component == component)
    }

    /// Rule 11: active in the record and in the unresolved CAS.
    pub(crate) fn is_readable(&self, component: ComponentId) -> bool {
        let pending = self.pending.as_ref();
        record::is_active(&self.record, component)
            && pending.is_none_or(|pending| record::is_active(pending, component))
    }

    /// Rule 52a: active in the record or in the unresolved CAS.
    pub(crate) fn counts_for_lease(&self, component: ComponentId) -> bool {
        let pending = self.pending.as_ref();
        record::is_active(&self.record, component)
            || pending.is_some_and(|pending| record::is_active(pending, component))
    }

    /// How many components of other hosts count for the lease.
    pub(crate) fn remote_for_lease(&self, me: ShardId) -> usize {
        let components = self.record.components.iter();
        components.filter(|c| c.shard != me && self.counts_for_lease(c.id)).count()
    }
}

impl Ticket {
    /// `done` is told when the write completes; `guard` is held until then.
    pub(crate) fn new(
        guard: Option<ChunkGuard>,
        done: Option<OneSender<Result<(), ObjectError>>>,
    ) -> Self {
        Self { _guard: guard, _room: None, done }
    }

    /// It keeps its room until then, too.
    pub(crate) fn with_room(self, room: WriteRoom) -> Self {
        Self { _room: Some(room), ..self }
    }

    pub(crate) fn finish(self, result: Result<(), ObjectError>) {
        // The answer first, the lock behind it: whoever waited for the lock runs later anyway.
        if let Some(done) = self.done {
            done.send(result);
        }
    }
}
