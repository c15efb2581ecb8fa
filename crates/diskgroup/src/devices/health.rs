// SPDX-License-Identifier: Apache-2.0
//! How the devices of an open group answer: looked at every second, judged every ten.

use super::guard::{LATE, LOOK_EVERY, answers, is_stuck};
use crate::latency::{DeviceHealth, DeviceLatency, Judge, Sample, WindowContext};
use crate::state::{DiskGroup, GroupInner};
use crate::types::GroupError;
use base::ComponentId;
use env::{Disk, MEASURED, Task};
use std::rc::Rc;
use std::time::Duration;

/// Looks of a window.
const WINDOW_LOOKS: u32 = 10;
/// Operations without which a window goes on.
const OPERATIONS_MIN: u32 = 8;
/// Bytes that are read of a slow device at each look, so that it is noticed when it is well again.
const PROBE: u64 = 4096;

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
        let Some(device) = state.store.components.by_id(id).map(|component| component.device)
        else {
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
