// SPDX-License-Identifier: Apache-2.0
//! The appends of one component that are under way, and their answers.
//!
//! A group makes appends of a component durable in the order of its calls (rule 4). So one task for
//! each component waits for the oldest, answers it, and looks at the next.

use base::{ComponentId, Instant, Lsn, Seat, Term};
use diskgroup::{Appending, DiskGroup, GroupError};
use env::{Env, Notify, WriteStage};
use peer::Reply;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use wire::{Failure, Response};

/// One append, and who is to be told.
pub(super) struct UnderWay {
    pub(super) appended: Appending,
    pub(super) group: DiskGroup,
    pub(super) component: ComponentId,
    pub(super) lsn: Lsn,
    pub(super) term: Term,
    pub(super) seat: Seat,
    pub(super) reply: Reply,
    /// When its frame came.
    pub(super) since: Instant,
}

/// See the module.
#[derive(Default)]
pub(super) struct Appends {
    /// Oldest first, without the one that the task waits for.
    queue: RefCell<VecDeque<UnderWay>>,
    /// Of the queue, and the one that the task waits for.
    count: Cell<usize>,
    /// Something came into the queue, or no more will.
    begun: Notify,
    /// One was answered.
    landed: Notify,
    has_task: Cell<bool>,
    is_over: Cell<bool>,
    /// The last term and seat in which one failed.
    failed: Cell<Option<(Term, Seat, Failure)>>,
}

impl Appends {
    /// One more is under way. Returns whether [`answer`] has to be started.
    #[must_use]
    pub(super) fn begin(&self, append: UnderWay) -> bool {
        self.count.set(self.count.get() + 1);
        self.queue.borrow_mut().push_back(append);
        self.begun.notify();
        !self.has_task.replace(true)
    }

    /// The component is gone: the task ends once all that is under way is answered.
    pub(super) fn end(&self) {
        self.is_over.set(true);
        self.begun.notify();
    }

    pub(super) fn is_any(&self) -> bool {
        self.count.get() > 0
    }

    /// How the last one that failed did, and in which term and seat.
    pub(super) fn failed(&self) -> Option<(Term, Seat, Failure)> {
        self.failed.get()
    }

    /// Waits until none is under way.
    pub(super) async fn drain(&self) {
        loop {
            let landed = self.landed.wait();
            if !self.is_any() {
                return;
            }
            landed.await;
        }
    }

    /// The oldest, as soon as there is one; `None` when none will come any more.
    async fn next(&self) -> Option<UnderWay> {
        loop {
            let begun = self.begun.wait();
            let next = self.queue.borrow_mut().pop_front();
            if next.is_some() || self.is_over.get() {
                return next;
            }
            begun.await;
        }
    }
}

/// Answers the appends of one component, each when it is durable or failed.
pub(super) async fn answer(env: Env, appends: Rc<Appends>) {
    while let Some(append) = appends.next().await {
        let UnderWay { appended, group, component, lsn, term, seat, reply, since } = append;
        let response = match appended.await {
            Ok(()) => {
                env.passed(WriteStage::Append, since);
                let free_chunks = free_chunks(&group, component);
                Response::Durable { lsn, free_chunks }
            }
            Err(error) => {
                let reason = failure(&error);
                appends.failed.set(Some((term, seat, reason)));
                Response::Failed { reason }
            }
        };
        appends.count.set(appends.count.get() - 1);
        appends.landed.notify();
        reply.send(response);
    }
}

/// What the owner is told with each answer (rule 2).
pub(super) fn free_chunks(group: &DiskGroup, component: ComponentId) -> u32 {
    u32::try_from(group.free_chunks_of(component)).unwrap_or(u32::MAX)
}

/// What an owner is told of a group's error.
pub(super) fn failure(error: &GroupError) -> Failure {
    match error {
        GroupError::Full { .. } => Failure::Full,
        GroupError::BadCrc { range } => Failure::BadCrc { range: *range },
        _ => Failure::Device,
    }
}
