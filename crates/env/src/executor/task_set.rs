// SPDX-License-Identifier: Apache-2.0
//! Tasks that stop together.

use super::{Env, Task};
use std::cell::{Cell, RefCell};
use std::future::Future;

/// The tasks of one owner. All stop when it is dropped. Tasks that ended are swept out now and
/// then, as new ones are started.
#[derive(Default)]
pub struct TaskSet {
    tasks: RefCell<Vec<Task>>,
    sweep_at: Cell<usize>,
}

impl TaskSet {
    /// Starts a task in this set.
    pub fn spawn(&self, env: &Env, name: &'static str, future: impl Future<Output = ()> + 'static) {
        let task = env.spawn(name, future);
        let mut tasks = self.tasks.borrow_mut();
        tasks.push(task);
        if tasks.len() > self.sweep_at.get() {
            tasks.retain(|task| !task.is_finished());
            self.sweep_at.set(tasks.len() * 2 + 16);
        }
    }

    /// How many tasks have not ended.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tasks.borrow().iter().filter(|task| !task.is_finished()).count()
    }

    /// Whether every task has ended.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Stops all tasks of this set.
    pub fn clear(&self) {
        let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
        drop(tasks);
    }
}
