// SPDX-License-Identifier: Apache-2.0
//! What the operating system says of this host's devices.
//!
//! Asking may take as long as a device likes: it is a call of a lane like opening. So what is shown
//! is what was known last, and asked again beside it. Who wants to see it waits a moment; who
//! refuses a device by it waits longer; nobody waits for ever.

use base::{Instant, Map};
use env::{Env, Hardware, Notify, Task};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// Between two questions about a path: another device may stand there.
const ASK_EVERY: Duration = Duration::from_secs(10);
/// Longest wait of whoever looks at it.
pub(crate) const LOOK_MAX: Duration = Duration::from_millis(100);
/// Longest wait of whoever needs the answer; a device that does not say what it is fits.
pub(crate) const NEED_MAX: Duration = Duration::from_secs(2);
/// Paths that are remembered: more than a host has devices.
const PATHS_MAX: usize = 256;

/// What a file is made to behave as, whatever it is.
#[must_use]
pub fn hardware_by_tuning(path: &str, magnetic: &[String]) -> Option<Hardware> {
    let model = Some("behaves as 7200 rpm".to_owned());
    let is_magnetic = magnetic.iter().any(|file| file == path);
    is_magnetic.then_some(Hardware { is_rotational: Some(true), model })
}

/// See the module. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Devices(Rc<DevicesInner>);

struct DevicesInner {
    env: Env,
    magnetic: Vec<String>,
    known: RefCell<Map<String, Rc<Asked>>>,
}

struct Asked {
    at: Instant,
    /// As it was said last.
    answer: RefCell<Hardware>,
    is_over: Cell<bool>,
    over: Notify,
    task: RefCell<Option<Task>>,
}

impl Asked {
    async fn wait(&self) {
        loop {
            let over = self.over.wait();
            if self.is_over.get() {
                return;
            }
            over.await;
        }
    }
}

impl Devices {
    /// Files named in `magnetic` are what they behave as.
    pub(crate) fn new(env: &Env, magnetic: &[String]) -> Self {
        let (env, magnetic) = (env.clone(), magnetic.to_vec());
        Self(Rc::new(DevicesInner { env, magnetic, known: RefCell::default() }))
    }

    /// What is known now; it is asked for beside it where that is old. Never waits.
    pub(crate) fn of(&self, path: &str) -> Hardware {
        let by_tuning = hardware_by_tuning(path, &self.0.magnetic);
        by_tuning.unwrap_or_else(|| self.asked(path).answer.borrow().clone())
    }

    /// Asks for all of these, and waits for the answers for so long at most.
    pub(crate) async fn wait_for(&self, paths: impl Iterator<Item = &String>, most: Duration) {
        let asks: Vec<Rc<Asked>> = paths.map(|path| self.asked(path)).collect();
        let all = async {
            for asked in &asks {
                asked.wait().await;
            }
        };
        // What has not answered by then is shown as it was.
        let _ = self.0.env.timeout(most, all).await;
    }

    fn asked(&self, path: &str) -> Rc<Asked> {
        let env = &self.0.env;
        let now = env.now();
        let mut known = self.0.known.borrow_mut();
        let before = match known.get(path) {
            Some(old) if !old.is_over.get() || now.since(old.at) < ASK_EVERY => {
                return Rc::clone(old);
            }
            Some(old) => old.answer.borrow().clone(),
            None => Hardware::default(),
        };
        if known.len() >= PATHS_MAX {
            known.clear();
        }
        let asked = Rc::new(Asked {
            at: now,
            answer: RefCell::new(before),
            is_over: Cell::new(false),
            over: Notify::default(),
            task: RefCell::default(),
        });
        let (inner, wanted, place) = (env.clone(), path.to_owned(), Rc::downgrade(&asked));
        let task = env.spawn("ask for a device", async move {
            let answer = inner.hardware(&wanted).await;
            let Some(place) = place.upgrade() else { return };
            if let Ok(hardware) = answer {
                *place.answer.borrow_mut() = hardware;
            }
            place.is_over.set(true);
            place.over.notify();
        });
        *asked.task.borrow_mut() = Some(task);
        known.insert(path.to_owned(), Rc::clone(&asked));
        asked
    }
}
