// SPDX-License-Identifier: Apache-2.0
//! What a host keeps in memory of one of its components, beside what its disk group keeps.

use base::{ComponentId, Lsn, Map, Seat, Session, Term};
use env::{Notify, Semaphore};
use peer::PeerId;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use wire::Failure;

/// The conversation with one owner that a Fence began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Conversation {
    pub(super) term: Term,
    pub(super) seat: Seat,
    pub(super) session: Session,
    pub(super) owner: PeerId,
    /// The last lsn that was accepted: the `prev` that the next frame has to name (rule 4).
    pub(super) accepted: Lsn,
    /// The Fence is not answered yet. Until it is, no frame is accepted.
    pub(super) is_fencing: bool,
}

/// One component of this host in this run.
pub(super) struct Replica {
    /// `None` until the first Fence of this run.
    pub(super) conversation: Cell<Option<Conversation>>,
    /// One change at a time of the component's durable term; its creation is one, too.
    pub(super) turn: Semaphore,
    /// The seat with which the record calls the component active, if it does.
    pub(super) active: Cell<Option<Seat>>,
    pub(super) appends: Appends,
}

/// The appends of one component that are under way.
#[derive(Default)]
pub(super) struct Appends {
    count: Cell<u32>,
    landed: Notify,
    /// The last term and seat in which one failed.
    failed: Cell<Option<(Term, Seat, Failure)>>,
}

/// What is kept of all components of this host.
#[derive(Default)]
pub(super) struct ReplicaMap(RefCell<Map<ComponentId, Rc<Replica>>>);

impl Replica {
    fn new() -> Self {
        Self {
            conversation: Cell::new(None),
            turn: Semaphore::new(1),
            active: Cell::new(None),
            appends: Appends::default(),
        }
    }

    /// The frame `lsn` of the current conversation is accepted.
    pub(super) fn accept(&self, lsn: Lsn) {
        if let Some(now) = self.conversation.get() {
            let accepted = now.accepted.max(lsn);
            self.conversation.set(Some(Conversation { accepted, ..now }));
        }
    }
}

impl Appends {
    pub(super) fn begin(&self) {
        self.count.set(self.count.get() + 1);
    }

    /// One has ended; `failed` says how, where it did not become durable.
    pub(super) fn end(&self, failed: Option<(Term, Seat, Failure)>) {
        if failed.is_some() {
            self.failed.set(failed);
        }
        self.count.set(self.count.get() - 1);
        self.landed.notify();
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
}

impl ReplicaMap {
    /// What is kept of `component`; begins to keep it.
    pub(super) fn of(&self, component: ComponentId) -> Rc<Replica> {
        let mut all = self.0.borrow_mut();
        Rc::clone(all.entry(component).or_insert_with(|| Rc::new(Replica::new())))
    }

    /// What is kept of `component`, if anything.
    pub(super) fn get(&self, component: ComponentId) -> Option<Rc<Replica>> {
        self.0.borrow().get(&component).map(Rc::clone)
    }

    /// The conversation about `component` that stands.
    pub(super) fn conversation(&self, component: ComponentId) -> Option<Conversation> {
        self.0.borrow().get(&component)?.conversation.get()
    }

    /// The component is deleted. Whoever still works for its conversation finds that it is over.
    pub(super) fn remove(&self, component: ComponentId) {
        if let Some(replica) = self.0.borrow_mut().remove(&component) {
            replica.conversation.set(None);
        }
    }
}
