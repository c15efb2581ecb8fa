// SPDX-License-Identifier: Apache-2.0
//! Components that the directory does not account for: kept, not served, shown.
//!
//! A record that is missing says nothing about the data: the directory may have been lost, or
//! restored from a backup of before. Only a record that says so deletes (`tombstones`), or an
//! operator, or time where there is nothing to lose.

use base::{ComponentId, Map};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::rc::Rc;

/// Why the directory does not account for a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missing {
    /// There is no record of its object.
    Object,
    /// The record of its object does not list it.
    Component,
    /// The record of its object is older than what the component was told (rule 25).
    Version,
}

/// What this host found. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Quarantine(Rc<RefCell<Map<ComponentId, Missing>>>);

impl Quarantine {
    /// Takes note of a component; true where it is news.
    pub(crate) fn hold(&self, component: ComponentId, why: Missing) -> bool {
        self.0.borrow_mut().insert(component, why).is_none()
    }

    /// It is accounted for (again), or gone.
    pub(crate) fn release(&self, component: ComponentId) -> bool {
        self.0.borrow_mut().remove(&component).is_some()
    }

    /// Forgets what is not on any open group.
    pub(crate) fn retain(&self, is_there: impl Fn(ComponentId) -> bool) {
        self.0.borrow_mut().retain(|component, _| is_there(*component));
    }

    /// All of them, by id.
    pub(crate) fn all(&self) -> Vec<(ComponentId, Missing)> {
        self.0.borrow().iter().map(|(id, why)| (*id, *why)).collect()
    }

    /// Why one is held.
    pub(crate) fn why(&self, component: ComponentId) -> Option<Missing> {
        self.0.borrow().get(&component).copied()
    }
}
