// SPDX-License-Identifier: Apache-2.0
//! Injects single faults into the simulated world.

use crate::campaign::SeedRun;
use crate::fault::Fault;
use sim::{DeviceCall, DiskFault, HostKey};
use std::time::Duration;

/// Longest pause of a process, longer than every lease.
const PAUSE_MAX_MS: u64 = 20_000;
/// Longest of the many short pauses of a process that gets too little CPU.
const STUTTER_MAX_MS: u64 = 80;
/// How far a wall clock may be set, seconds: ten years.
const WALL_JUMP_MAX: u64 = 10 * 365 * 86_400;

impl SeedRun {
    pub(crate) fn key(&self, index: usize) -> HostKey {
        self.cluster.machines[index].key
    }

    /// Ends all faults of a host's devices.
    pub(crate) fn clear_disks(&self, index: usize) {
        for device in self.cluster.devices() {
            self.disk_fault(index, &device, DiskFault::Clear);
        }
    }

    pub(crate) fn disk_fault(&self, host: usize, device: &str, fault: DiskFault) {
        if self.cluster.world.has_disk(self.key(host), device) {
            self.cluster.world.disk_error(self.key(host), device, fault);
        }
    }

    /// Injects a fault at a random host.
    pub(crate) fn inject(&mut self, fault: Fault) {
        let index = self.any_host();
        self.inject_at(fault, index);
        if matches!(fault, Fault::Crash | Fault::Kill) {
            self.take_mate_down(index, fault == Fault::Crash);
        }
    }

    pub(crate) fn inject_at(&mut self, fault: Fault, index: usize) {
        self.faults.add(fault);
        let hosts = self.cluster.machines.len();
        let other = (index + 1 + self.rng.below(hosts as u64 - 1) as usize) % hosts;
        let (key, other, world) = (self.key(index), self.key(other), self.cluster.world.clone());
        match fault {
            Fault::Crash | Fault::Kill => self.take_down(index, fault == Fault::Crash),
            Fault::CrashAll => (0..hosts).for_each(|index| self.take_down(index, true)),
            Fault::CrashRack => {
                let rack = self.plan.rack_of(index);
                for index in 0..hosts {
                    if self.plan.rack_of(index) == rack {
                        self.take_down(index, true);
                    }
                }
            }
            Fault::Boot => self.boot_what_is_down(false),
            Fault::Partition => world.partition(key, other, true),
            Fault::OneWay => world.cut_one_way(key, other, true),
            Fault::Isolate => self.isolate(index),
            Fault::Reset => world.reset_links(key, other),
            Fault::HalfReset => world.half_reset_links(key, other),
            Fault::Clog => {
                let delay = Duration::from_micros(self.rng.below(1_500_000));
                world.clog(key, other, delay);
            }
            Fault::Heal => world.heal_all(),
            Fault::Pause if world.is_up(key) => {
                let pause = Duration::from_millis(1 + self.rng.below(PAUSE_MAX_MS));
                world.pause(key, pause);
            }
            Fault::Stutter if world.is_up(key) => {
                for _ in 0..20 {
                    let pause = Duration::from_millis(1 + self.rng.below(STUTTER_MAX_MS));
                    world.pause(key, pause);
                    world.run_for(pause + Duration::from_millis(self.rng.below(STUTTER_MAX_MS)));
                }
            }
            Fault::DirectoryAway if world.is_up(self.cluster.directory) => {
                world.kill(self.cluster.directory);
            }
            Fault::DirectoryCut => {
                (0..hosts).for_each(|index| self.cut_directory(index, true));
            }
            Fault::WallJump => {
                let far = self.rng.below(2 * WALL_JUMP_MAX) as i64 - WALL_JUMP_MAX as i64;
                world.wall_jump(key, far);
            }
            Fault::SlowDisk => self.slow_disk(index),
            // A device that is frozen for long counts as failed, and its group stops.
            Fault::FreezeDisk => self.failing_disk(index, DiskFault::Freeze(true)),
            Fault::FailReads => self.failing_disk(index, DiskFault::FailReads),
            Fault::FailWrites => self.failing_disk(index, DiskFault::FailWrites),
            Fault::FailFlushes => self.failing_disk(index, DiskFault::FailFlush),
            Fault::Reopen => self.reopen(index),
            Fault::DeviceAway => self.device_away(index),
            Fault::HungCalls => self.hung_calls(index),
            Fault::MoveCopy => self.move_copy(index),
            Fault::Pause | Fault::Stutter | Fault::DirectoryAway | Fault::Calm => {}
            _ => unreachable!("{fault:?} is a story's own"),
        }
    }

    /// Closes a random group of a host for a while.
    fn reopen(&mut self, index: usize) {
        let group = self.rng.below(u64::from(self.plan.groups)) as u32;
        let scale = self.rng.below(15);
        let pause = Duration::from_millis(self.rng.below(1 << scale));
        self.cluster.reopen(index, group, pause);
    }

    /// The path of a random capacity device. All hosts have the same paths.
    pub(crate) fn any_capacity(&mut self) -> String {
        let devices = self.cluster.devices().into_iter();
        let mut devices: Vec<_> = devices.filter(|name| name.starts_with("capacity")).collect();
        devices.swap_remove(self.rng.below(devices.len() as u64) as usize)
    }

    /// Takes a random capacity device of a host away for a while.
    fn device_away(&mut self, index: usize) {
        let device = self.any_capacity();
        // If it is the only one of its group, the group stops. An operator must open it again.
        self.has_failed_devices[index] |= self.plan.devices == 1;
        self.disk_fault(index, &device, DiskFault::Unlink);
        let scale = self.rng.below(16);
        let pause = Duration::from_millis(self.rng.below(1 << scale));
        self.cluster.put_back(index, &device, pause);
    }

    /// Makes some calls on a random device of a host take long, until the device is healed.
    fn hung_calls(&mut self, index: usize) {
        // A device that hangs for long stops its group. An operator must open it again.
        self.has_failed_devices[index] = true;
        let device = self.any_device();
        for call in DeviceCall::ALL {
            let scale = self.rng.below(17);
            let time = Duration::from_millis(self.rng.below(1 << scale));
            if self.rng.below(2) == 0 {
                self.cluster.world.call_takes(self.key(index), &device, call, time);
            }
        }
        if self.rng.below(2) == 0 {
            self.reopen(index);
        }
    }

    pub(crate) fn cut(&self, a: usize, b: usize, is_cut: bool) {
        self.cluster.world.partition(self.key(a), self.key(b), is_cut);
    }

    pub(crate) fn cut_directory(&self, index: usize, is_cut: bool) {
        self.cluster.world.partition(self.key(index), self.cluster.directory, is_cut);
    }

    pub(crate) fn isolate(&self, index: usize) {
        for other in (0..self.cluster.machines.len()).filter(|other| *other != index) {
            self.cut(index, other, true);
        }
        self.cut_directory(index, true);
    }

    /// The path of a random device. All hosts have the same paths.
    pub(crate) fn any_device(&mut self) -> String {
        let mut devices = self.cluster.devices();
        devices.swap_remove(self.rng.below(devices.len() as u64) as usize)
    }

    fn some_disk(&mut self, index: usize, fault: DiskFault) {
        let device = self.any_device();
        self.disk_fault(index, &device, fault);
    }

    fn slow_disk(&mut self, index: usize) {
        let times = 1 << self.rng.below(9);
        self.some_disk(index, DiskFault::Slow(times));
    }

    fn failing_disk(&mut self, index: usize, fault: DiskFault) {
        self.has_failed_devices[index] = true;
        self.some_disk(index, fault);
    }

    /// Ends a host that is up: by power loss if `is_crash`, else by the end of its process.
    /// In half of the cases the other host on a host's machine goes down too.
    fn take_mate_down(&mut self, index: usize, is_crash: bool) {
        let mate = self.plan.mate_of(index);
        if let Some(mate) = mate.filter(|_| self.rng.below(2) == 0) {
            base::hit(base::Probe::MachineDown);
            self.take_down(mate, is_crash);
        }
    }

    pub(crate) fn take_down(&mut self, index: usize, is_crash: bool) {
        if self.cluster.world.is_up(self.key(index)) {
            self.cluster.take_down(index, is_crash);
        }
    }

    pub(crate) fn boot_what_is_down(&mut self, all: bool) {
        for index in 0..self.cluster.machines.len() {
            let is_up = self.cluster.world.is_up(self.key(index));
            if !is_up && (all || self.rng.below(3) > 0) {
                self.boot(index);
            }
        }
        if !self.cluster.world.is_up(self.cluster.directory) {
            self.cluster.boot_directory();
        }
    }
}
