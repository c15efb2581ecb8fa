// SPDX-License-Identifier: Apache-2.0
//! The world as tests see it: machines, their lives and deaths, and the loop that turns them.

use crate::core::{Core, Kind};
use crate::driver::SimDriver;
use crate::ends::Path;
use crate::host::{Clock, Handle, Host, HostKey, Process, Shuffled};
use crate::options::{WorldOptions, WorldStats, nanos};
use base::{Instant, Rng};
use env::Env;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

/// A cluster in one thread. Cheap to clone; the last clone stops every process.
///
/// Tasks may hold a clone to orchestrate faults, but a clone inside a task keeps the world alive.
#[derive(Clone)]
pub struct World(pub(crate) Rc<Inner>);

pub(crate) struct Inner {
    pub(crate) core: RefCell<Core>,
    turning: Cell<Option<u32>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let core = self.core.get_mut();
        let handles: Vec<_> = core.hosts.iter_mut().filter_map(|h| h.handle.take()).collect();
        if std::thread::panicking() {
            let (seed, now) = (core.options.seed, core.now);
            eprintln!("simulated world: seed {seed}, {now} ns after its beginning");
            std::mem::forget(handles); // their destructors could panic again
            return;
        }
        for handle in handles {
            handle.env.stop();
        }
    }
}

impl World {
    /// An empty world at time zero.
    #[must_use]
    pub fn new(options: WorldOptions) -> Self {
        Self(Rc::new(Inner { core: RefCell::new(Core::new(options)), turning: Cell::new(None) }))
    }

    /// The seed that decides everything.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.0.core.borrow().options.seed
    }

    /// World time, from zero. Hosts have clocks of their own.
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant(self.0.core.borrow().now)
    }

    /// A machine that is off. Its disks outlive crashes; `ip` is where others reach it by TCP,
    /// unique in this world. Unix addresses are local to a host.
    #[must_use]
    pub fn add_host(&self, name: &str, ip: IpAddr) -> HostKey {
        let mut core = self.0.core.borrow_mut();
        assert!(core.hosts.iter().all(|host| host.ip != ip), "two hosts at {ip}");
        let key = core.hosts.len() as u32;
        let now = core.now;
        core.hosts.push(Host {
            name: name.to_owned(),
            ip,
            is_powered: false,
            process: None,
            handle: None,
            clock: Clock::new(now, 0),
            wall_offset: 0,
            paused_until: 0,
            wake_at: None,
            is_runnable: false,
            port_next: 0,
        });
        for row in &mut core.paths {
            row.push(Path::default());
        }
        core.paths.push(vec![Path::default(); key as usize + 1]);
        HostKey(key)
    }

    /// Gives a host a block device of `size` bytes (content zero), as if it had always been there.
    pub fn add_disk(&self, host: HostKey, path: &str, size: u64) {
        let _ = self.0.core.borrow_mut().add_disk(host.0, path, size, false);
    }

    /// Starts a process on a host that has none: a new [`SimDriver`] and [`Env`], and `main` as its
    /// first task. The process lives on when `main` ends ([`World::is_finished`]).
    pub fn boot(&self, host: HostKey, main: impl FnOnce(Env) -> Pin<Box<dyn Future<Output = ()>>>) {
        let (process, schedule) = {
            let mut core = self.0.core.borrow_mut();
            let process = core.processes.len() as u32;
            core.processes.push(Process::new(host.0));
            let schedule = Rng::new(core.rng.boot.next_u64());
            core.power_on(host.0, process);
            (process, schedule)
        };
        let driver = SimDriver::new(Rc::downgrade(&self.0), host.0, process);
        let env = Env::new(Box::new(driver), Box::new(Shuffled(schedule)));
        let main = Some(env.spawn("main", main(env.clone())));
        let mut core = self.0.core.borrow_mut();
        core.hosts[host.index()].handle = Some(Handle { env, main });
        core.mark_runnable(host.0);
    }

    /// Power loss: the process is gone at once; each unflushed write is kept, lost or torn; links
    /// are reset at their peers after a while or go silent. Nothing happens where the power is off.
    pub fn crash(&self, host: HostKey) {
        self.take_down(host.0, true);
    }

    /// The process is gone (kill -9), the machine lives on: what writes completed stays, those
    /// under way each land, tear or not; links are reset.
    pub fn kill(&self, host: HostKey) {
        self.take_down(host.0, false);
    }

    fn take_down(&self, host: u32, is_crash: bool) {
        if self.0.turning.get() == Some(host) {
            // A host that ends itself does so after this turn.
            let mut core = self.0.core.borrow_mut();
            let now = core.now;
            return core.push(now, Kind::Down { host, is_crash });
        }
        let handle = self.0.core.borrow_mut().hosts[host as usize].handle.take();
        {
            let mut core = self.0.core.borrow_mut();
            if !core.hosts[host as usize].is_powered {
                return;
            }
            core.process_ends(host, is_crash);
        }
        if let Some(mut handle) = handle {
            handle.env.stop();
            drop(handle.main.take());
        }
    }

    /// Whether a process runs there.
    #[must_use]
    pub fn is_up(&self, host: HostKey) -> bool {
        self.0.core.borrow().hosts[host.index()].process.is_some()
    }

    /// Whether the host's `main` came to its end in the life that it has.
    #[must_use]
    pub fn is_finished(&self, host: HostKey) -> bool {
        let core = self.0.core.borrow();
        let handle = &core.hosts[host.index()].handle;
        handle.as_ref().and_then(|h| h.main.as_ref()).is_some_and(env::Task::is_finished)
    }

    /// The running process's handle. Whoever spawns through it from outside lets the world run
    /// afterwards.
    #[must_use]
    pub fn env(&self, host: HostKey) -> Option<Env> {
        let mut core = self.0.core.borrow_mut();
        let env = core.hosts[host.index()].handle.as_ref().map(|handle| handle.env.clone())?;
        core.mark_runnable(host.0);
        Some(env)
    }

    /// Lets `d` pass.
    pub fn run_for(&self, d: Duration) {
        let _ = self.run_until(d, || false);
    }

    /// Runs until `pred` holds (asked before and after every event), at most for `max`; whether it
    /// held.
    pub fn run_until(&self, max: Duration, mut pred: impl FnMut() -> bool) -> bool {
        assert!(self.0.turning.get().is_none(), "the world cannot be run from inside a task");
        let limit = self.now().0.saturating_add(nanos(max));
        loop {
            self.settle();
            if pred() {
                return true;
            }
            let next = self.0.core.borrow_mut().pop(limit);
            match next {
                Some(Kind::Down { host, is_crash }) => self.take_down(host, is_crash),
                Some(kind) => self.0.core.borrow_mut().apply(kind),
                None => break,
            }
        }
        self.0.core.borrow_mut().now = limit;
        false
    }

    /// Turns every host that has something to do.
    fn settle(&self) {
        loop {
            let next = {
                let mut core = self.0.core.borrow_mut();
                let Some(host) = core.runnable.pop() else { return };
                let now = core.now;
                let state = &mut core.hosts[host as usize];
                state.is_runnable = false;
                if state.paused_until > now {
                    continue;
                }
                let env = state.handle.as_ref().map(|handle| handle.env.clone());
                env.map(|env| (host, env))
            };
            let Some((host, env)) = next else { continue };
            self.0.turning.set(Some(host));
            let deadline = env.turn();
            self.0.turning.set(None);
            let mut core = self.0.core.borrow_mut();
            core.stats.turns += 1;
            core.set_timer(host, deadline);
        }
    }

    /// A hash over everything that happened: equal for equal seeds and equal calls.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.0.core.borrow().digest()
    }

    /// What happened so far.
    #[must_use]
    pub fn stats(&self) -> WorldStats {
        self.0.core.borrow().stats
    }
}
