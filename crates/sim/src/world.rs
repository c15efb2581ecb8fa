// SPDX-License-Identifier: Apache-2.0
//! The world as tests see it: its hosts, how they start and end, and the loop that lets them run.

use crate::around::{self, Around, Surrounded};
use crate::core::{Core, EventKind};
use crate::driver::SimDriver;
use crate::ends::Path;
use crate::host::{Clock, Handle, HostKey, Shuffled, SimHost, SimProcess};
use crate::modelled::Modelled;
use crate::options::{WorldOptions, WorldStats, nanos};
use base::{Instant, Rng};
use devicemodel::DeviceModel;
use env::{Driver, Env};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

/// A cluster in one thread. Cheap to clone. When the last clone is dropped, every process stops.
///
/// Tasks may hold a clone to cause faults. Such a clone keeps the world alive.
#[derive(Clone)]
pub struct World(pub(crate) Rc<WorldInner>);

pub(crate) struct WorldInner {
    pub(crate) core: RefCell<Core>,
    turning: Cell<Option<u32>>,
    around: RefCell<Option<Rc<dyn Around>>>,
}

impl Drop for WorldInner {
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
        Self(Rc::new(WorldInner {
            core: RefCell::new(Core::new(options)),
            turning: Cell::new(None),
            around: RefCell::default(),
        }))
    }

    /// Turns of hosts, and calls of processes that are booted from now on, run within `around`.
    /// Nothing else changes, nor does the digest.
    pub fn run_within(&self, around: Rc<dyn Around>) {
        *self.0.around.borrow_mut() = Some(around);
    }

    /// The seed that decides everything.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.0.core.borrow().options.seed
    }

    /// The time of the world, which begins at zero. Hosts have clocks of their own.
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant(self.0.core.borrow().now)
    }

    /// Adds a machine, which is off at first. Others reach it by TCP at `ip`, which must be unique
    /// in this world. Unix addresses are local to a host. The host's disks outlive crashes.
    #[must_use]
    pub fn add_host(&self, name: &str, ip: IpAddr) -> HostKey {
        let mut core = self.0.core.borrow_mut();
        assert!(core.hosts.iter().all(|host| host.ip != ip), "two hosts at {ip}");
        let key = core.hosts.len() as u32;
        let now = core.now;
        core.hosts.push(SimHost {
            name: name.to_owned(),
            ip,
            is_powered: false,
            process: None,
            handle: None,
            clock: Clock::new(now, 0),
            wall_offset: 0,
            paused_until: 0,
            disturbed_at: now,
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

    /// Gives a host a block device of `size` bytes, all zeros. Nothing may stand at `path` yet.
    pub fn add_disk(&self, host: HostKey, path: &str, size: u64) {
        let _ = self.0.core.borrow_mut().add_disk(host.0, path, size, false);
    }

    /// Reads, writes and flushes of this device end exactly when such a device would end them, with
    /// no draw: of the device that is there, or of the file that will be created by this path.
    /// Discards cost nothing. [`crate::DiskFault::Slow`] does nothing to it; all other faults do.
    ///
    /// # Panics
    /// Operations are under way on the device.
    pub fn behave_as(&self, host: HostKey, path: &str, model: DeviceModel) {
        let mut core = self.0.core.borrow_mut();
        core.models.insert((host.0, path.to_owned()), model);
        if let Some(index) = core.disk_names.get(&(host.0, path.to_owned())).copied() {
            let disk = core.disk_mut(index);
            assert_eq!(disk.in_flight, 0, "{path} is busy");
            disk.modelled = Some(Modelled::new(model, disk.size));
        }
    }

    /// Starts a process on a host that has none, and turns the machine on if it is off. The process
    /// has a [`SimDriver`] and an [`Env`] of its own, and `main` is its first task. It lives on
    /// when `main` ends ([`World::is_finished`]).
    pub fn boot(&self, host: HostKey, main: impl FnOnce(Env) -> Pin<Box<dyn Future<Output = ()>>>) {
        let (process, schedule) = {
            let mut core = self.0.core.borrow_mut();
            let process = core.processes.len() as u32;
            core.processes.push(SimProcess::new(host.0));
            let schedule = Rng::new(core.rng.boot.next_u64());
            core.power_on(host.0, process);
            (process, schedule)
        };
        let driver = Box::new(SimDriver::new(Rc::downgrade(&self.0), host.0, process));
        let driver: Box<dyn Driver> = match self.around() {
            None => driver,
            Some(around) => Box::new(Surrounded::new(driver, around)),
        };
        let env = Env::new(driver, Box::new(Shuffled(schedule)));
        let main = Some(env.spawn("main", main(env.clone())));
        let mut core = self.0.core.borrow_mut();
        core.hosts[host.index()].handle = Some(Handle { env, main });
        core.mark_runnable(host.0);
    }

    /// The host loses power. Its process is gone at once. Each unflushed write is kept, lost or
    /// torn. The peers of its links see a reset after a while, or nothing more. If the power is off
    /// already, nothing happens.
    pub fn crash(&self, host: HostKey) {
        self.take_down(host.0, true);
    }

    /// The process is gone (kill -9), the machine lives on. Writes that completed stay. Each write
    /// under way lands whole, in part, or not. Links are reset.
    pub fn kill(&self, host: HostKey) {
        self.take_down(host.0, false);
    }

    fn take_down(&self, host: u32, is_crash: bool) {
        if self.0.turning.get() == Some(host) {
            // A task of this host asked for it. The host goes down after this turn.
            let mut core = self.0.core.borrow_mut();
            let now = core.now;
            return core.push(now, EventKind::Down { host, is_crash });
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

    /// Whether a process runs on the host.
    #[must_use]
    pub fn is_up(&self, host: HostKey) -> bool {
        self.0.core.borrow().hosts[host.index()].process.is_some()
    }

    /// Whether a process runs on the host and its `main` has ended.
    #[must_use]
    pub fn is_finished(&self, host: HostKey) -> bool {
        let core = self.0.core.borrow();
        let handle = &core.hosts[host.index()].handle;
        handle.as_ref().and_then(|h| h.main.as_ref()).is_some_and(env::Task::is_finished)
    }

    /// The handle of the process that runs on the host. Tasks that are spawned through it begin
    /// when the world runs next.
    #[must_use]
    pub fn env(&self, host: HostKey) -> Option<Env> {
        let mut core = self.0.core.borrow_mut();
        let env = core.hosts[host.index()].handle.as_ref().map(|handle| handle.env.clone())?;
        core.mark_runnable(host.0);
        Some(env)
    }

    /// Runs the world for the time `d`.
    pub fn run_for(&self, d: Duration) {
        let _ = self.run_until(d, || false);
    }

    /// Runs the world until `pred` holds, for at most `max`. `pred` is asked at the start and after
    /// every event. Returns whether it held.
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
                Some(EventKind::Down { host, is_crash }) => self.take_down(host, is_crash),
                Some(kind) => self.0.core.borrow_mut().apply(kind),
                None => break,
            }
        }
        self.0.core.borrow_mut().move_to(limit);
        false
    }

    fn around(&self) -> Option<Rc<dyn Around>> {
        self.0.around.borrow().clone()
    }

    /// Lets every host run that has something to do, until none has.
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
            let deadline = match self.around() {
                None => env.turn(),
                Some(by) => around::run(|turn| by.turn(HostKey(host), turn), || env.turn()),
            };
            self.0.turning.set(None);
            let mut core = self.0.core.borrow_mut();
            core.stats.turns += 1;
            core.set_timer(host, deadline);
        }
    }

    /// A hash over what happened: all events, and the data that was sent and written. It is equal
    /// for equal seeds and equal calls.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.0.core.borrow().digest()
    }

    /// Counts of what happened so far.
    #[must_use]
    pub fn stats(&self) -> WorldStats {
        self.0.core.borrow().stats
    }
}
