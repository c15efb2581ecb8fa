// SPDX-License-Identifier: Apache-2.0
//! Tells the code of hosts from the simulator's own, for tests that measure one of the two.

use crate::host::HostKey;
use base::{Instant, LateFrame, Quirk, WallTime};
use env::{Completion, Driver, Op, Token};
use std::rc::Rc;
use std::time::Duration;

/// What a test does before and after parts of a run ([`crate::World::run_within`]).
///
/// All code of a host runs in [`Around::turn`], and all of the simulator that it calls runs in
/// [`Around::call`] within it. What the world does between turns is in neither.
pub trait Around {
    /// A turn of a host's process: runs `turn`, once.
    fn turn(&self, host: HostKey, turn: &mut dyn FnMut());
    /// A call of a process to its driver: runs `call`, once. Some calls are made outside of a turn.
    fn call(&self, call: &mut dyn FnMut());
}

/// A driver whose calls run in [`Around::call`].
pub(crate) struct Surrounded {
    driver: Box<dyn Driver>,
    around: Rc<dyn Around>,
}

/// Runs `work` by `around`, which calls what it is given.
pub(crate) fn run<T>(around: impl FnOnce(&mut dyn FnMut()), work: impl FnOnce() -> T) -> T {
    let (mut work, mut result) = (Some(work), None);
    around(&mut || result = work.take().map(|work| work()));
    match result {
        Some(result) => result,
        None => unreachable!("what is surrounded runs once"),
    }
}

impl Surrounded {
    pub(crate) fn new(driver: Box<dyn Driver>, around: Rc<dyn Around>) -> Self {
        Self { driver, around }
    }

    fn ask<T>(&self, work: impl FnOnce(&dyn Driver) -> T) -> T {
        run(|call| self.around.call(call), || work(&*self.driver))
    }

    fn tell<T>(&mut self, work: impl FnOnce(&mut dyn Driver) -> T) -> T {
        let Self { driver, around } = self;
        run(|call| around.call(call), || work(&mut **driver))
    }
}

impl Driver for Surrounded {
    fn now(&self) -> Instant {
        self.ask(|driver| driver.now())
    }

    fn coarse(&self) -> Instant {
        self.ask(|driver| driver.coarse())
    }

    fn wall(&self) -> WallTime {
        self.ask(|driver| driver.wall())
    }

    fn entropy(&mut self) -> u64 {
        self.tell(|driver| driver.entropy())
    }

    fn quirk(&mut self, quirk: Quirk) -> bool {
        self.tell(|driver| driver.quirk(quirk))
    }

    fn delay_of(&mut self, frame: LateFrame) -> Duration {
        self.tell(|driver| driver.delay_of(frame))
    }

    fn submit(&mut self, token: Token, op: Op) {
        self.tell(|driver| driver.submit(token, op));
    }

    fn cancel(&mut self, token: Token) {
        self.tell(|driver| driver.cancel(token));
    }

    fn park(&mut self, until: Option<Instant>, done: &mut Vec<Completion>) {
        self.tell(|driver| driver.park(until, done));
    }
}
