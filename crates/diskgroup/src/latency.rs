// SPDX-License-Identifier: Apache-2.0
//! Whether a device answers as it should: told from how it answered before, how others of its group
//! answer, and what its kind may show.
//!
//! ```text
//!           six windows in a row above          an I/O unanswered for `stuck_after`
//!      ok ------------------------------> slow ------------------------------------> stuck
//!       ^                                   |                                          ^
//!       '-----------------------------------'            the same from ok -------------'
//!        twelve in a row well below
//! ```
//!
//! A slow device is told of, and reads go elsewhere where they can; nothing else changes. A stuck
//! one stops its group by name, as one that fails does, and whoever waits for it gets an error: its
//! operations cannot be recalled, and its lock lasts as long as they do. Not guaranteed: that a
//! device that gets slower within hours, bit by bit, is noticed before it is far beyond its kind.

mod judge;
#[cfg(test)]
mod tests;

use self::judge::{Judge, Norm, Sample, WindowContext};
use crate::devices::device_error;
use crate::group::DiskGroup;
use crate::state::GroupInner;
use crate::types::GroupError;
use base::ComponentId;
use env::{Disk, Env, IoError, MEASURED, Task};
use std::rc::Rc;
use std::time::Duration;

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A look that comes so much too late says that the host stood still, or has too little CPU: what
/// it would say of devices would be about the host.
const LATE: Duration = Duration::from_millis(250);
/// Looks of a window.
const WINDOW_LOOKS: u32 = 10;
/// Operations without which a window goes on.
const OPERATIONS_MIN: u32 = 8;
/// Windows after which what was measured of another device says nothing of now.
const FRESH_WINDOWS: u32 = 6;
/// Bytes that are read of a slow device at each look, so that it is noticed when it is well again.
const PROBE: u64 = 4096;

/// How a device answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceHealth {
    /// As it should.
    #[default]
    Ok,
    /// Much later than it did, than others of its group do, and than its kind may.
    Slow,
    /// Not at all: the group stopped because of it.
    Stuck,
}

impl DeviceHealth {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Slow => "slow",
            Self::Stuck => "stuck",
        }
    }
}

/// How a device answers operations of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassLatency {
    /// Operations of the last window.
    pub operations: u32,
    /// What half of them took at most, right to an eighth.
    pub median: Duration,
    /// The longest.
    pub max: Duration,
    /// The median in an hour of windows that were as they should; `None`: less than a minute of
    /// them.
    pub usual: Option<Duration>,
    /// Whether the device is slow in this class.
    pub is_slow: bool,
}

/// How a device answers, since its group was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceLatency {
    /// In a word.
    pub health: DeviceHealth,
    /// Operations that it has not answered.
    pub in_flight: u32,
    /// What the oldest of them has waited, to a second.
    pub oldest: Option<Duration>,
    /// Reads.
    pub reads: ClassLatency,
    /// Writes into the device's cache.
    pub writes: ClassLatency,
    /// Durable writes and flushes.
    pub durable: ClassLatency,
}

/// What is known of one device.
pub(crate) struct Watched {
    judges: [Judge; MEASURED.len()],
    health: DeviceHealth,
    /// The group stopped because of it, and of nothing else before.
    has_stopped: bool,
}

impl Watched {
    /// A device with platters, or one without.
    fn new(is_magnetic: bool) -> Self {
        let norms = if is_magnetic { Norm::MAGNETIC } else { Norm::FLASH };
        let judges = norms.map(Judge::new);
        Self { judges, health: DeviceHealth::Ok, has_stopped: false }
    }

    /// The cache device and the capacity devices of a group.
    pub(crate) fn of_group(is_hybrid: bool, capacity: usize) -> Vec<Self> {
        let capacity = (0..capacity).map(|_| Self::new(is_hybrid));
        std::iter::once(Self::new(false)).chain(capacity).collect()
    }
}

impl GroupInner {
    /// The devices that are in, by their places: 0 is the cache device, capacity devices follow.
    pub(crate) fn all_disks(&self) -> impl Iterator<Item = (usize, &Disk)> {
        let capacity = self.devices.iter().enumerate().filter(|(_, device)| !device.is_out());
        let capacity = capacity.map(|(at, device)| (at + 1, device.disk()));
        std::iter::once((0, &self.cache)).chain(capacity)
    }

    /// The device with this place, if it is in.
    fn disk_at(&self, device: usize) -> Option<&Disk> {
        self.all_disks().find(|(at, _)| *at == device).map(|(_, disk)| disk)
    }

    /// Whether a capacity device, or the cache device, answers nothing any more.
    pub(crate) fn is_given_up(&self, device: usize) -> bool {
        let is_given_up = |disk: &Disk| disk.meter().is_given_up();
        is_given_up(&self.cache) || self.disk_at(device + 1).is_some_and(is_given_up)
    }

    /// How a device answers; 0 is the cache device.
    pub(crate) fn latency(&self, device: usize) -> DeviceLatency {
        let watched = self.latency.borrow();
        let Some((watched, disk)) = watched.get(device).zip(self.disk_at(device)) else {
            return DeviceLatency::default();
        };
        let [reads, writes, durable] = [0, 1, 2].map(|class| watched.judges[class].report());
        let waited = disk.meter().looks_waited();
        DeviceLatency {
            health: watched.health,
            in_flight: disk.meter().in_flight(),
            oldest: waited.map(|looks| LOOK_EVERY * looks.saturating_sub(1)),
            reads,
            writes,
            durable,
        }
    }

    /// A window is over: what each device answered in it is judged.
    fn judge(&self) {
        let now = self.env.now();
        let mut watched = self.latency.borrow_mut();
        for (at, disk) in self.all_disks() {
            let meter = disk.meter();
            let depth = meter.take_depth(now);
            for (class, of) in MEASURED.into_iter().enumerate() {
                if meter.measured(of) < OPERATIONS_MIN {
                    watched[at].judges[class].pass();
                    continue;
                }
                let peers = (1..watched.len()).filter(|other| at > 0 && *other != at);
                let peers = median(peers.filter_map(|other| watched[other].judges[class].fresh()));
                let sample = Sample::new(&meter.take(of));
                watched[at].judges[class].add(sample, WindowContext { depth, peers });
            }
            if watched[at].health != DeviceHealth::Stuck {
                let is_slow = watched[at].judges.iter().any(Judge::is_slow);
                if is_slow && watched[at].health == DeviceHealth::Ok {
                    base::hit(base::Probe::DeviceSlow);
                }
                watched[at].health = if is_slow { DeviceHealth::Slow } else { DeviceHealth::Ok };
            }
        }
    }

    /// The first device that has not answered for too long, and has not been found before.
    fn first_stuck(&self) -> Option<usize> {
        let most = self.options.stuck_after;
        let is_new = |disk: &Disk| !disk.meter().is_given_up() && is_stuck(disk, most);
        self.all_disks().find(|(_, disk)| is_new(disk)).map(|(at, _)| at)
    }

    fn give_up(&self, device: usize) {
        let Some(disk) = self.disk_at(device) else { return };
        let capacity = device.checked_sub(1).and_then(|at| self.devices.get(at));
        let path = capacity.map_or(&self.cache_path, |device| &device.path);
        if let Some(watched) = self.latency.borrow_mut().get_mut(device) {
            watched.health = DeviceHealth::Stuck;
            watched.has_stopped = self.check_open().is_ok();
        }
        base::hit(base::Probe::DeviceStuck);
        let seconds = self.options.stuck_after.as_secs();
        // If it answers after all, opening it is enough.
        let _ = self.fence_as(path, &format!("no answer to an I/O for {seconds} s"), true);
        disk.give_up();
    }

    /// A small read of a device that is slow.
    fn probe(&self, device: usize) -> Option<Task> {
        let is_slow = self.latency.borrow()[device].health == DeviceHealth::Slow;
        let disk = self.disk_at(device).filter(|_| is_slow)?;
        let page = self.env.random() % (disk.info().size / PROBE).max(1);
        let read = disk.read(page * PROBE, self.env.buf(usize::try_from(PROBE).ok()?));
        Some(self.env.spawn("probe a slow device", async move { drop(read.await) }))
    }
}

/// The middle one; of two in the middle the lower.
fn median(values: impl Iterator<Item = Duration>) -> Option<Duration> {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable();
    values.get(values.len().saturating_sub(1) / 2).copied()
}

/// Whether a device has left an I/O unanswered for so long.
fn is_stuck(disk: &Disk, most: Duration) -> bool {
    let most = most.as_nanos().div_ceil(LOOK_EVERY.as_nanos());
    let most = u32::try_from(most).unwrap_or(u32::MAX).min(env::LOOKS_MAX - 1);
    // An operation may have begun just before the first look that it has been through.
    disk.meter().looks_waited().is_some_and(|looks| looks > most)
}

/// Does `work` on devices that no group looks after yet: one that leaves an I/O unanswered for so
/// long is given up, so that the work ends with an error.
pub(crate) async fn guarded<T>(
    env: &Env,
    disks: &[&Disk],
    most: Duration,
    work: impl Future<Output = T>,
) -> T {
    let look = async {
        loop {
            let due = env.now() + LOOK_EVERY;
            env.sleep_until(due).await;
            let now = env.now();
            let is_late = now.since(due) > LATE;
            for disk in disks.iter().filter(|disk| !disk.meter().is_given_up()) {
                if is_late {
                    disk.meter().restart(now);
                    continue;
                }
                disk.meter().look();
                if is_stuck(disk, most) {
                    base::hit(base::Probe::DeviceStuck);
                    disk.give_up();
                }
            }
        }
    };
    match env::select(work, look).await {
        env::Either::First(result) => result,
        env::Either::Second(never) => never,
    }
}

/// Looks at all devices until the group is over.
pub(crate) async fn watch(inner: Rc<GroupInner>) {
    let mut looks = 0;
    let mut probes: Vec<Option<Task>> = (0..=inner.devices.len()).map(|_| None).collect();
    loop {
        let due = inner.env.now() + LOOK_EVERY;
        inner.env.sleep_until(due).await;
        let now = inner.env.now();
        if inner.state.borrow().is_closed {
            return;
        }
        if now.since(due) > LATE {
            looks = 0;
            inner.all_disks().for_each(|(_, disk)| disk.meter().restart(now));
            continue;
        }
        inner.all_disks().for_each(|(_, disk)| disk.meter().look());
        if let Some(device) = inner.first_stuck() {
            inner.give_up(device);
        }
        looks += 1;
        if looks == WINDOW_LOOKS {
            looks = 0;
            inner.judge();
        }
        for (device, probe) in probes.iter_mut().enumerate() {
            if probe.as_ref().is_none_or(Task::is_finished) {
                *probe = inner.probe(device);
            }
        }
    }
}

/// As [`guarded`], with one device. What stands twice is read from its second place where the first
/// does not answer, so the work may end well on a device that was given up: nothing can be done
/// with that one any more.
pub(crate) async fn guarded_by<T>(
    env: &Env,
    (path, disk): (&str, &Disk),
    most: Duration,
    work: impl Future<Output = Result<T, GroupError>>,
) -> Result<T, GroupError> {
    let done = guarded(env, &[disk], most, work).await?;
    answers(path, disk).map(|()| done)
}

/// Refuses a device that was given up.
fn answers(path: &str, disk: &Disk) -> Result<(), GroupError> {
    match disk.meter().is_given_up() {
        true => Err(device_error(path)(IoError::NoAnswer)),
        false => Ok(()),
    }
}

impl GroupInner {
    /// Refuses where a device that is in was given up while the group was opened.
    pub(crate) fn check_answers(&self) -> Result<(), GroupError> {
        let path =
            |at: usize| at.checked_sub(1).map_or(&self.cache_path, |at| &self.devices[at].path);
        self.all_disks().try_for_each(|(at, disk)| answers(path(at), disk))
    }
}

impl DiskGroup {
    /// Whether reads of a component are better sent elsewhere: its device, or the cache device,
    /// answers late.
    #[must_use]
    pub fn is_slow(&self, id: ComponentId) -> bool {
        let inner = self.shared();
        let watched = inner.latency.borrow();
        if watched.iter().all(|watched| watched.health == DeviceHealth::Ok) {
            return false;
        }
        let state = inner.state.borrow();
        let Some(device) = state.components.by_id(id).map(|component| component.device) else {
            return false;
        };
        [0, device + 1].into_iter().any(|at| watched[at].health != DeviceHealth::Ok)
    }

    /// Whether the group stopped because a device did not answer, no device had failed before, and
    /// every device has answered since.
    #[must_use]
    pub fn has_answered(&self) -> bool {
        let inner = self.shared();
        let has_stopped = inner.latency.borrow().iter().any(|watched| watched.has_stopped);
        has_stopped && inner.all_disks().all(|(_, disk)| disk.meter().in_flight() == 0)
    }
}
