// SPDX-License-Identifier: Apache-2.0
//! Groups that a running host is about to open again.

use std::cell::RefCell;
use std::rc::Rc;

/// A group that is about to be opened again, until dropped.
pub(super) struct Reopening(Rc<RefCell<Vec<String>>>, String);

impl Reopening {
    pub(super) fn new(all: &Rc<RefCell<Vec<String>>>, cache: &str) -> Self {
        all.borrow_mut().push(cache.to_owned());
        Self(Rc::clone(all), cache.to_owned())
    }
}

impl Drop for Reopening {
    fn drop(&mut self) {
        let mut all = self.0.borrow_mut();
        let mine = all.iter().position(|cache| *cache == self.1);
        mine.map(|at| all.swap_remove(at));
    }
}
