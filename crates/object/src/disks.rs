// SPDX-License-Identifier: Apache-2.0
//! The disk groups of this host, which come and go while it runs.

use base::{ComponentId, GroupId};
use diskgroup::DiskGroup;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The disk groups of a host. Cheap to clone; all clones see the same.
#[derive(Clone, Default)]
pub struct Disks(Rc<DisksInner>);

#[derive(Default)]
struct DisksInner {
    open: RefCell<Vec<DiskGroup>>,
    /// Groups that are out of service: what is on them is not lost.
    closed: Cell<usize>,
}

impl Disks {
    /// Groups that are open, and how many are not.
    #[must_use]
    pub fn new(open: Vec<DiskGroup>, closed: usize) -> Self {
        Self(Rc::new(DisksInner { open: RefCell::new(open), closed: Cell::new(closed) }))
    }

    /// The open groups.
    #[must_use]
    pub fn open(&self) -> Vec<DiskGroup> {
        self.0.open.borrow().clone()
    }

    /// Whether a group is out of service, or one of its capacity devices is: a component that
    /// nobody knows here may be there.
    #[must_use]
    pub fn is_any_closed(&self) -> bool {
        self.0.closed.get() > 0 || self.0.open.borrow().iter().any(DiskGroup::is_any_out)
    }

    /// The open group that holds `component`.
    #[must_use]
    pub fn holding(&self, component: ComponentId) -> Option<DiskGroup> {
        let open = self.0.open.borrow();
        open.iter().find(|group| group.component(component).is_some()).cloned()
    }

    /// Whether reads of a component of this host are better sent to another one.
    pub(crate) fn is_slow(&self, component: ComponentId) -> bool {
        self.0.open.borrow().iter().any(|group| group.is_slow(component))
    }

    /// One more group that is out of service.
    pub(crate) fn add_closed(&self) {
        self.0.closed.set(self.0.closed.get() + 1);
    }

    /// A group that is out of service is none of this host's any more.
    pub(crate) fn remove_closed(&self) {
        let closed = self.0.closed.get();
        assert!(closed > 0, "a closed group is removed that was never counted");
        self.0.closed.set(closed - 1);
    }

    /// A group that was out of service is open.
    pub(crate) fn add_open(&self, group: DiskGroup) {
        self.remove_closed();
        self.0.open.borrow_mut().push(group);
    }

    /// A group goes out of service; `None` where it is none of the open ones.
    pub(crate) fn take(&self, id: GroupId) -> Option<DiskGroup> {
        let mut open = self.0.open.borrow_mut();
        let at = open.iter().position(|group| group.id() == id)?;
        self.add_closed();
        Some(open.remove(at))
    }
}
