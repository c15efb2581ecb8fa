// SPDX-License-Identifier: Apache-2.0
//! What a host keeps in memory of one of its components, beside what its disk group keeps.

use super::appends::Appends;
use base::{ComponentId, Lsn, Map, Seat, Session, Term};
use env::Semaphore;
use peer::PeerId;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

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
    pub(super) appends: Rc<Appends>,
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
            appends: Rc::default(),
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
            replica.appends.end();
        }
    }
}
