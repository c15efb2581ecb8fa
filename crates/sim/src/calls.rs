// SPDX-License-Identifier: Apache-2.0
//! Calls that may be made to take long: opening, making, looking at and closing a device, and
//! discards.
//!
//! A late call does its work at its end. So a device that is being closed is in use until then, and
//! a device that is being opened is free until then.

use crate::core::{Core, EventKind};
use crate::host::HostKey;
use crate::options::nanos;
use crate::under_way::{DeviceCall, LateCall, What};
use crate::world::World;
use env::{DiskId, Done, Hardware, IoError, OpenDisk, Token};
use std::time::Duration;

impl Core {
    /// How much longer such a call takes, nanoseconds.
    pub(crate) fn lateness(&self, host: u32, path: &str, call: DeviceCall) -> u64 {
        if self.late.is_empty() {
            return 0;
        }
        self.late.get(&(host, path.to_owned(), call)).copied().unwrap_or(0)
    }

    fn begin_late(&mut self, process: u32, path: &str, by: u64, what: What) {
        let host = self.processes[process as usize].host;
        let serial = self.serial();
        let slot = self.calls.iter().position(Option::is_none).unwrap_or_else(|| {
            self.calls.push(None);
            self.calls.len() - 1
        });
        let path = path.to_owned();
        self.calls[slot] = Some(LateCall { host, process, serial, path, what });
        let at = self.now.saturating_add(by);
        self.push(at, EventKind::Call { slot: slot as u32, serial });
    }

    /// Opens a device; the answer comes a little later.
    pub(crate) fn open_disk(&mut self, process: u32, token: Token, options: OpenDisk) {
        let host = self.processes[process as usize].host;
        let is_there = self.disk_names.contains_key(&(host, options.path.clone()));
        let call = if is_there || options.create.is_none() {
            DeviceCall::Open
        } else {
            DeviceCall::Create
        };
        match self.lateness(host, &options.path, call) {
            0 => {
                let result = self.try_open(process, options);
                self.answer(process, token, result);
            }
            by => {
                let path = options.path.clone();
                self.begin_late(process, &path, by, What::Open(token, options));
            }
        }
    }

    pub(crate) fn look_at_disk(&mut self, process: u32, token: Token, disk: DiskId, path: &str) {
        let host = self.processes[process as usize].host;
        match self.lateness(host, path, DeviceCall::Look) {
            0 => {
                let result = self.try_look(process, disk, path);
                self.answer(process, token, result);
            }
            by => self.begin_late(process, path, by, What::Look(token, disk)),
        }
    }

    fn hardware_at(&self, process: u32, path: &str) -> Result<Done, IoError> {
        let host = self.processes[process as usize].host;
        let known = self.hardware.get(&(host, path.to_owned())).cloned();
        Ok(Done::Hardware(known.unwrap_or_default()))
    }

    /// Answers with what [`World::set_hardware`] said of this path, or that nothing is known.
    pub(crate) fn ask_hardware(&mut self, process: u32, token: Token, path: &str) {
        let host = self.processes[process as usize].host;
        match self.lateness(host, path, DeviceCall::Look) {
            0 => {
                let known = self.hardware_at(process, path);
                self.answer(process, token, known);
            }
            by => self.begin_late(process, path, by, What::Hardware(token)),
        }
    }

    /// Closes a device: no operation begins on it any more. The device is free when its last
    /// operation and this call have ended.
    pub(crate) fn close_disk(&mut self, process: u32, token: Token, disk: DiskId) {
        let slot = self.processes[process as usize].disks.get_mut(disk.0 as usize);
        if let Some(index) = slot.and_then(Option::take) {
            let disk = &mut self.disks[index as usize];
            let (host, path) = (disk.host, disk.path.clone());
            disk.is_closing = true;
            disk.in_flight += 1;
            match self.lateness(host, &path, DeviceCall::Close) {
                0 => self.disk_mut(index).leave(),
                by => self.begin_late(process, &path, by, What::Close(index)),
            }
        }
        self.answer(process, token, Ok(Done::Unit));
    }

    pub(crate) fn call_event(&mut self, slot: u32, serial: u64) {
        let entry = &mut self.calls[slot as usize];
        let Some(call) = entry.take_if(|call| call.serial == serial) else { return };
        // A call ends with its process, and whatever the process opened is closed.
        if !self.processes[call.process as usize].is_live {
            return;
        }
        self.stats.late_calls += 1;
        match call.what {
            What::Open(token, options) => {
                let result = self.try_open(call.process, options);
                self.answer(call.process, token, result);
            }
            What::Look(token, disk) => {
                let result = self.try_look(call.process, disk, &call.path);
                self.answer(call.process, token, result);
            }
            What::Hardware(token) => {
                let known = self.hardware_at(call.process, &call.path);
                self.answer(call.process, token, known);
            }
            What::Close(index) => self.disk_mut(index).leave(),
        }
    }

    /// Lets all late calls on a device end within 50 us.
    fn ends_now(&mut self, host: u32, path: &str) {
        for slot in 0..self.calls.len() {
            let Some(call) = &self.calls[slot] else { continue };
            if call.host == host && call.path == path {
                let serial = call.serial;
                let at = self.now + 1 + self.rng.fault.below(50_000);
                self.push(at, EventKind::Call { slot: slot as u32, serial });
            }
        }
        self.discards_end_now(host, path);
    }

    /// Takes back all lateness of calls on a device. Calls under way end soon.
    pub(crate) fn clear_calls(&mut self, host: u32, path: &str) {
        let before = self.late.len();
        self.late.retain(|(of, at, _), _| *of != host || at != path);
        if self.late.len() < before {
            self.disturb(host);
            self.ends_now(host, path);
        }
    }

    fn try_look(&self, process: u32, disk: DiskId, path: &str) -> Result<Done, IoError> {
        let opened = self.processes[process as usize].disks.get(disk.0 as usize).copied().flatten();
        match opened.map(|index| &self.disks[index as usize]) {
            None => Err(IoError::Closed),
            Some(disk) => {
                let there = self.disk_names.get(&(disk.host, path.to_owned())).copied();
                let is_there = there == opened && !disk.faults.is_unlinked;
                if is_there { Ok(Done::Size(disk.size)) } else { Err(IoError::NotFound) }
            }
        }
    }
}

impl World {
    /// From now on such a call takes longer by `time`, on this path of this host. This lasts until
    /// [`World::calls_are_well`] or [`crate::DiskFault::Clear`]. Both also end calls under way.
    pub fn call_takes(&self, host: HostKey, path: &str, call: DeviceCall, time: Duration) {
        let mut core = self.0.core.borrow_mut();
        core.late.insert((host.0, path.to_owned(), call), nanos(time));
        core.disturb(host.0);
    }

    /// Sets what is known of the hardware at a path of this host.
    pub fn set_hardware(&self, host: HostKey, path: &str, hardware: Hardware) {
        self.0.core.borrow_mut().hardware.insert((host.0, path.to_owned()), hardware);
    }

    /// Undoes [`World::call_takes`] for this path of this host. Calls that hang end.
    pub fn calls_are_well(&self, host: HostKey, path: &str) {
        self.0.core.borrow_mut().clear_calls(host.0, path);
    }
}
