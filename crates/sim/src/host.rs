// SPDX-License-Identifier: Apache-2.0
//! Machines and the processes on them.

use crate::ends::EndRef;
use base::Instant;
use env::{Address, Completion, Env, Schedule, Task, Token};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// Names one machine (host) of a world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostKey(pub(crate) u32);

impl HostKey {
    /// The host's number, counted from 0 in the order of [`crate::World::add_host`].
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A host's clock, which may run faster or slower than the world's.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    base_world: u64,
    base_host: u64,
    ppm: i64,
}

const MILLION: i64 = 1_000_000;

impl Clock {
    pub(crate) fn new(world: u64, host: u64) -> Self {
        Self { base_world: world, base_host: host, ppm: 0 }
    }

    fn rate(self) -> u128 {
        u128::from((MILLION + self.ppm).unsigned_abs())
    }

    pub(crate) fn read(self, world: u64) -> Instant {
        let passed = world - self.base_world;
        if self.ppm == 0 {
            return Instant(self.base_host + passed);
        }
        let scaled = u128::from(passed) * self.rate() / 1_000_000;
        Instant(self.base_host + u64::try_from(scaled).unwrap_or(u64::MAX / 4))
    }

    /// The first world time at which this clock shows `at` or later; at most `u64::MAX`.
    pub(crate) fn when(self, at: Instant) -> u64 {
        let wanted = at.0.saturating_sub(self.base_host);
        if self.ppm == 0 {
            return self.base_world.saturating_add(wanted);
        }
        let passed = (u128::from(wanted) * 1_000_000).div_ceil(self.rate());
        self.base_world.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    pub(crate) fn drift(&mut self, world: u64, ppm: i64) {
        assert!(ppm > -MILLION / 2 && ppm < MILLION, "a clock drift of {ppm} ppm is not modelled");
        *self = Self { base_world: world, base_host: self.read(world).0, ppm };
    }
}

/// The running process of a host, as the world holds it.
pub(crate) struct Handle {
    pub(crate) env: Env,
    pub(crate) main: Option<Task>,
}

pub(crate) struct SimHost {
    pub(crate) name: String,
    pub(crate) ip: IpAddr,
    /// Off before the first boot, and between a crash and the next boot.
    pub(crate) is_powered: bool,
    pub(crate) process: Option<u32>,
    pub(crate) handle: Option<Handle>,
    pub(crate) clock: Clock,
    /// Nanoseconds by which somebody has set the wall clock.
    pub(crate) wall_offset: i64,
    pub(crate) paused_until: u64,
    /// When its process last began, ended or was paused, or something was done to a device of it.
    pub(crate) disturbed_at: u64,
    /// When the host's earliest timer event in the queue is due.
    pub(crate) wake_at: Option<u64>,
    pub(crate) is_runnable: bool,
    pub(crate) port_next: u16,
}

/// What an operation that can be cancelled waits for.
#[derive(Clone, Copy)]
pub(crate) enum Waiting {
    Recv(EndRef),
    Accept(u32),
    Dial(u32),
}

pub(crate) struct SimListener {
    pub(crate) address: Address,
    pub(crate) is_open: bool,
    pub(crate) backlog: VecDeque<EndRef>,
    pub(crate) accepts: VecDeque<Token>,
}

/// Everything that ends with a process.
pub(crate) struct SimProcess {
    pub(crate) host: u32,
    pub(crate) is_live: bool,
    pub(crate) queue: Vec<Completion>,
    /// The process's end of each link, by `LinkId`; `None`: closed.
    pub(crate) links: Vec<Option<EndRef>>,
    /// The world's number of each disk, by `DiskId`; `None`: closed.
    pub(crate) disks: Vec<Option<u32>>,
    /// By `ListenerId`.
    pub(crate) listeners: Vec<SimListener>,
    pub(crate) waiting: BTreeMap<Token, Waiting>,
    /// When the process parked last, and how often at that very time: the guard against livelocks.
    pub(crate) parked_at: u64,
    pub(crate) parks: u32,
}

impl SimProcess {
    pub(crate) fn new(host: u32) -> Self {
        Self {
            host,
            is_live: true,
            queue: Vec::new(),
            links: Vec::new(),
            disks: Vec::new(),
            listeners: Vec::new(),
            waiting: BTreeMap::new(),
            parked_at: 0,
            parks: 0,
        }
    }
}

/// Runs any of the ready tasks next, each with the same probability.
pub(crate) struct Shuffled(pub(crate) base::Rng);

impl Schedule for Shuffled {
    fn pick(&mut self, ready: usize) -> usize {
        self.0.below(ready as u64) as usize
    }
}
