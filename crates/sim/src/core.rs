// SPDX-License-Identifier: Apache-2.0
//! The world's state and its queue of events. Nothing here runs a host's tasks: they borrow this
//! state, so [`crate::World`] runs them while it holds no borrow.

use crate::disk::SimDisk;
use crate::ends::{EndRef, LinkPair, Path};
use crate::host::{SimHost, SimProcess};
use crate::options::{WorldOptions, WorldStats};
use crate::page::Page;
use crate::under_way::{DeviceCall, Dial, DiskOp, LateCall, LateKind};
use base::{Instant, Quirk, Rng};
use devicemodel::DeviceModel;
use env::{Completion, Done, Hardware, IoError, Token};
use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

/// A process that parks more often than this at one point in time is in a livelock: the world
/// panics. Up to 4096 polls lie between two parks. While time stands still, nothing completes but
/// the flush of an idle magnetic disk, so only a burst of polls needs more than two parks.
const PARKS_MAX: u32 = 2000;

thread_local! {
    /// The time of the world that ran last on this thread, nanoseconds.
    static LATEST: Cell<u64> = const { Cell::new(0) };
}

/// The time of the world that ran last on this thread, for the log, nanoseconds.
#[must_use]
pub fn time_of_log() -> u64 {
    LATEST.get()
}

/// [`Quirk::LinkDropped`] happens at most so many times in a million chances.
const LINK_DROPPED_PPM_MAX: u64 = 10_000;

/// What an event does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EventKind {
    /// The earliest timer of a host is due.
    Timer { host: u32 },
    /// A paused host goes on.
    Wake { host: u32 },
    /// A completion arrives whose result is known already.
    Soon { slot: u32 },
    /// A device carries out an operation, which then completes.
    Disk { slot: u32, serial: u64 },
    /// A part of an operation takes effect, before the operation ends.
    Part { slot: u32, serial: u64, part: u8 },
    /// The first segment on the wire towards this end arrives.
    Deliver { to: EndRef },
    /// A reset arrives at this end.
    Reset { to: EndRef },
    /// A dial reaches the machine that it goes to.
    Dial { slot: u32 },
    /// The answer to a dial reaches the caller.
    Linked { slot: u32 },
    /// A late call ends.
    Call { slot: u32, serial: u64 },
    /// A device that follows a model may be done with something.
    Modelled { disk: u32 },
    /// A host goes down, as one of its own tasks asked.
    Down { host: u32, is_crash: bool },
}

impl EventKind {
    fn number(&self) -> u64 {
        match *self {
            Self::Timer { host } => 1 | u64::from(host) << 8,
            Self::Wake { host } => 2 | u64::from(host) << 8,
            Self::Soon { slot } => 3 | u64::from(slot) << 8,
            Self::Disk { slot, .. } => 4 | u64::from(slot) << 8,
            Self::Deliver { to } => 5 | to.number() << 8,
            Self::Reset { to } => 6 | to.number() << 8,
            Self::Dial { slot } => 7 | u64::from(slot) << 8,
            Self::Linked { slot } => 8 | u64::from(slot) << 8,
            Self::Call { slot, .. } => 11 | u64::from(slot) << 8,
            Self::Modelled { disk } => 12 | u64::from(disk) << 8,
            Self::Part { slot, .. } => 13 | u64::from(slot) << 8,
            Self::Down { host, is_crash } => (9 + u64::from(is_crash)) | u64::from(host) << 8,
        }
    }
}

pub(crate) struct Event {
    pub(crate) at: u64,
    seq: u64,
    pub(crate) kind: EventKind,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Event {}
impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Event {
    /// The earliest event is the greatest, because `BinaryHeap` gives the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.seq).cmp(&(self.at, self.seq))
    }
}

/// Independent streams of random numbers: a draw from one does not change the others.
pub(crate) struct RandomStreams {
    pub(crate) disk: Rng,
    pub(crate) net: Rng,
    pub(crate) fault: Rng,
    pub(crate) boot: Rng,
    /// For the small delays of the kernel.
    pub(crate) delay: Rng,
    pub(crate) quirk: Rng,
    /// For frames that are late by their kind.
    pub(crate) frame: Rng,
    /// For the freedom of devices.
    pub(crate) loose: Rng,
}

pub(crate) struct Core {
    pub(crate) options: WorldOptions,
    pub(crate) now: u64,
    seq: u64,
    pub(crate) events: BinaryHeap<Event>,
    pub(crate) rng: RandomStreams,
    /// Which quirks can happen in this world, by their number.
    armed: Vec<bool>,
    pub(crate) hosts: Vec<SimHost>,
    pub(crate) runnable: Vec<u32>,
    pub(crate) processes: Vec<SimProcess>,
    soon: Vec<Option<(u32, Completion)>>,
    soon_free: Vec<u32>,
    pub(crate) disks: Vec<SimDisk>,
    pub(crate) disk_names: BTreeMap<(u32, String), u32>,
    /// By host and path: devices that follow a model.
    pub(crate) models: BTreeMap<(u32, String), DeviceModel>,
    /// A page of zeros, for all that disks hold of those.
    pub(crate) zeros: Page,
    pub(crate) disk_ops: Vec<Option<DiskOp>>,
    pub(crate) disk_ops_free: Vec<u32>,
    /// By how many nanoseconds a call takes longer, by host, path and kind of call.
    pub(crate) late: BTreeMap<(u32, String, DeviceCall), u64>,
    /// Kinds of frames that are late.
    pub(crate) late_frames: Vec<LateKind>,
    /// What is known of hardware, by host and path.
    pub(crate) hardware: BTreeMap<(u32, String), Hardware>,
    pub(crate) calls: Vec<Option<LateCall>>,
    pub(crate) links: Vec<LinkPair>,
    pub(crate) links_free: Vec<u32>,
    pub(crate) dials: Vec<Option<Dial>>,
    pub(crate) dials_free: Vec<u32>,
    /// The way from one host to another: `paths[from][to]`.
    pub(crate) paths: Vec<Vec<Path>>,
    digest: u64,
    pub(crate) stats: WorldStats,
}

impl Core {
    pub(crate) fn new(options: WorldOptions) -> Self {
        let stream = |salt| Rng::stream(options.seed, salt);
        let mut rng = RandomStreams {
            disk: stream(1),
            net: stream(2),
            fault: stream(3),
            boot: stream(4),
            delay: stream(5),
            quirk: stream(6),
            frame: stream(17),
            loose: stream(1019),
        };
        let armed_ppm = options.quirks.armed_ppm;
        let armed = Quirk::ALL.iter().map(|_| rng.quirk.chance_ppm(armed_ppm)).collect();
        Self {
            options,
            armed,
            now: 0,
            seq: 0,
            events: BinaryHeap::new(),
            rng,
            hosts: Vec::new(),
            runnable: Vec::new(),
            processes: Vec::new(),
            soon: Vec::new(),
            soon_free: Vec::new(),
            disks: Vec::new(),
            disk_names: BTreeMap::new(),
            models: BTreeMap::new(),
            zeros: Page::zeros(),
            disk_ops: Vec::new(),
            disk_ops_free: Vec::new(),
            late: BTreeMap::new(),
            late_frames: Vec::new(),
            hardware: BTreeMap::new(),
            calls: Vec::new(),
            links: Vec::new(),
            links_free: Vec::new(),
            dials: Vec::new(),
            dials_free: Vec::new(),
            paths: Vec::new(),
            digest: 0,
            stats: WorldStats::default(),
        }
    }

    pub(crate) fn push(&mut self, at: u64, kind: EventKind) {
        self.seq += 1;
        self.events.push(Event { at: at.max(self.now), seq: self.seq, kind });
    }

    /// Draws whether a quirk happens now.
    pub(crate) fn quirk(&mut self, quirk: Quirk) -> bool {
        // A link is asked twice a second. One that lasts for seconds only lets no resync end: the
        // next attempt copies all of it again.
        let most = if quirk == Quirk::LinkDropped { LINK_DROPPED_PPM_MAX } else { u64::MAX };
        let fire_ppm = self.options.quirks.fire_ppm.min(most);
        self.armed[quirk as usize] && self.rng.quirk.chance_ppm(fire_ppm)
    }

    /// A number that no other call got.
    pub(crate) fn serial(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    pub(crate) fn mix(&mut self, value: u64) {
        self.digest = (self.digest.rotate_left(5) ^ value).wrapping_mul(0x517C_C1B7_2722_0A95);
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) fn host_now(&self, host: u32) -> Instant {
        self.hosts[host as usize].clock.read(self.now)
    }

    pub(crate) fn mark_runnable(&mut self, host: u32) {
        let state = &mut self.hosts[host as usize];
        if !state.is_runnable {
            state.is_runnable = true;
            self.runnable.push(host);
        }
    }

    /// Delivers a completion now. For use while an event is applied.
    pub(crate) fn complete(&mut self, process: u32, completion: Completion) {
        let state = &mut self.processes[process as usize];
        if !state.is_live {
            return;
        }
        let host = state.host;
        state.queue.push(completion);
        self.mark_runnable(host);
    }

    /// Delivers a completion after a small delay. For what is decided while a host runs.
    pub(crate) fn soon(&mut self, process: u32, completion: Completion) {
        let slot = self.soon_free.pop().unwrap_or_else(|| {
            self.soon.push(None);
            self.soon.len() as u32 - 1
        });
        self.soon[slot as usize] = Some((process, completion));
        let at = self.now + 300 + self.rng.delay.below(2000);
        self.push(at, EventKind::Soon { slot });
    }

    pub(crate) fn answer(&mut self, process: u32, token: Token, result: Result<Done, IoError>) {
        self.soon(process, Completion { token, result, buf: None });
    }

    /// Moves everything that has completed for `process` to `done`.
    pub(crate) fn harvest(&mut self, process: u32, done: &mut Vec<Completion>) {
        let (now, seed) = (self.now, self.options.seed);
        let state = &mut self.processes[process as usize];
        if state.parked_at != now {
            (state.parked_at, state.parks) = (now, 0);
        }
        state.parks += 1;
        let name = &self.hosts[state.host as usize].name;
        assert!(
            state.parks < PARKS_MAX,
            "livelock: host {name} never comes to rest at {now} ns (seed {seed})"
        );
        match done.is_empty() {
            true => std::mem::swap(done, &mut state.queue),
            false => done.append(&mut state.queue),
        }
    }

    /// Moves the time. The log of this thread shows it ([`crate::time_of_log`]).
    pub(crate) fn move_to(&mut self, now: u64) {
        self.now = now;
        LATEST.set(now);
    }

    /// Takes the next event out and moves the time there; `None` if it comes after `limit`.
    pub(crate) fn pop(&mut self, limit: u64) -> Option<EventKind> {
        if self.events.peek()?.at > limit {
            return None;
        }
        let event = self.events.pop()?;
        self.move_to(event.at);
        self.stats.events += 1;
        self.mix(event.at);
        self.mix(event.kind.number());
        Some(event.kind)
    }

    /// Applies an event other than `Down`, which [`crate::World`] carries out.
    pub(crate) fn apply(&mut self, kind: EventKind) {
        match kind {
            EventKind::Timer { host } => {
                let state = &mut self.hosts[host as usize];
                if state.wake_at == Some(self.now) {
                    state.wake_at = None;
                    self.mark_runnable(host);
                }
            }
            EventKind::Wake { host } => self.mark_runnable(host),
            EventKind::Soon { slot } => {
                let entry = self.soon[slot as usize].take();
                self.soon_free.push(slot);
                if let Some((process, completion)) = entry {
                    self.complete(process, completion);
                }
            }
            EventKind::Disk { slot, serial } => self.disk_event(slot, serial),
            EventKind::Part { slot, serial, part } => self.part_event(slot, serial, part),
            EventKind::Modelled { disk } => self.modelled_event(disk),
            EventKind::Call { slot, serial } => self.call_event(slot, serial),
            EventKind::Deliver { to } => self.deliver(to),
            EventKind::Reset { to } => self.reset_arrives(to),
            EventKind::Dial { slot } => self.dial_arrives(slot),
            EventKind::Linked { slot } => self.dial_answered(slot),
            EventKind::Down { .. } => unreachable!("the world takes a host down itself"),
        }
    }

    /// Queues the event for a host's next timer, after the host has run.
    pub(crate) fn set_timer(&mut self, host: u32, next: Option<Instant>) {
        let Some(next) = next else { return };
        let state = &mut self.hosts[host as usize];
        let at = state.clock.when(next);
        if at == u64::MAX || state.wake_at.is_some_and(|already| already <= at) {
            return;
        }
        state.wake_at = Some(at);
        self.push(at, EventKind::Timer { host });
    }
}
