// SPDX-License-Identifier: Apache-2.0
//! What goes wrong: processes and machines that go down, networks that are cut, disks with faults,
//! clocks that drift.

use crate::core::{Core, EventKind};
use crate::disk::{Faults, Silent};
use crate::ends::EndRef;
use crate::host::{Clock, HostKey};
use crate::options::{DiskFreedom, nanos};
use crate::store::Layer;
use crate::world::World;
use std::time::Duration;

/// A fault of one device. Faults add up until `Clear`. Only one write to be lost or misdirected is
/// waited for at a time: a later such fault replaces the earlier one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskFault {
    /// Writes and discards end with an error. What they leave is unspecified.
    FailWrites,
    /// Flushes end with an error. A crash may lose what they should have made durable, even if a
    /// later flush succeeds.
    FailFlush,
    /// Flushes and durable writes report success, but their data is in the cache only. Nothing can
    /// be promised on top of such a device.
    LieAboutFlush,
    /// Reads end with an error.
    FailReads,
    /// Reads that touch this range (bytes) fail until it is written again.
    BadRange {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// The path leads to the device no more. A process that has it open goes on as before; nobody
    /// can open it again.
    Unlink,
    /// The next write reports success, but nothing is written.
    LoseNextWrite,
    /// The next write reports success, but its bytes are written elsewhere.
    MisdirectNextWrite {
        /// Where they are written: bytes, a multiple of 512. The write must fit there.
        offset: u64,
    },
    /// As `LoseNextWrite`, for the next write that begins in this range (bytes).
    LoseNextWriteIn {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// As `MisdirectNextWrite`, for the next write that begins in this range (bytes).
    MisdirectNextWriteIn {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
        /// Where its bytes are written: bytes, a multiple of 512. The write must fit there.
        to: u64,
    },
    /// Operations that are submitted from now on take this many times as long.
    Slow(u64),
    /// `true`: no operation ends. `false`: those that were held end soon.
    Freeze(bool),
    /// Ends all faults, and [`World::call_takes`] for this device. Calls that hang end.
    Clear,
}

impl Core {
    /// Turns `host` on, if it is off, for a process that is about to start.
    pub(crate) fn power_on(&mut self, host: u32, process: u32) {
        let uptime = 1_000_000_000 * (10 + self.rng.boot.below(1000));
        let now = self.now;
        let state = &mut self.hosts[host as usize];
        assert!(state.process.is_none(), "host {} is up already", state.name);
        state.process = Some(process);
        state.disturbed_at = now;
        if !state.is_powered {
            state.is_powered = true;
            state.clock = Clock::new(now, uptime);
            self.resume_links(|_, to| to == host);
        }
    }

    /// Ends the process of `host`, if there is one. In a crash the machine goes off too.
    pub(crate) fn process_ends(&mut self, host: u32, is_crash: bool) {
        self.mix(u64::from(host) << 1 | u64::from(is_crash));
        self.disturb(host);
        let state = &mut self.hosts[host as usize];
        let process = state.process.take();
        state.wake_at = None;
        state.paused_until = 0;
        if is_crash {
            state.is_powered = false;
            self.stats.crashes += 1;
        } else {
            self.stats.kills += u64::from(process.is_some());
        }
        if let Some(process) = process {
            self.release_links(process, is_crash);
            if !is_crash {
                self.release_disks(process);
            }
            let state = &mut self.processes[process as usize];
            state.is_live = false;
            state.queue.clear();
            state.links.clear();
            state.disks.clear();
            state.listeners.clear();
            state.waiting.clear();
        }
        if is_crash {
            self.crash_disks(host);
        }
    }

    fn release_links(&mut self, process: u32, is_crash: bool) {
        for link in 0..self.links.len() as u32 {
            let pair = &self.links[link as usize];
            let generation = pair.generation;
            for side in 0..2 {
                let mine = EndRef { link, generation, side };
                let Some(end) = self.end(mine) else { continue };
                if end.process != process || end.is_gone {
                    continue;
                }
                self.kill_end(mine);
                if self.end(mine).is_none() {
                    continue;
                }
                if !is_crash {
                    self.send_reset(mine.other(), 0);
                    continue;
                }
                self.lose_tail(mine.other());
                if self.rng.net.chance_ppm(self.options.crash.reset_ppm) {
                    let most = nanos(self.options.crash.reset_delay);
                    let delay = self.rng.net.below(most + 1);
                    self.send_reset(mine.other(), delay);
                }
            }
        }
    }

    fn resume_links(&mut self, which: impl Fn(u32, u32) -> bool) {
        for link in 0..self.links.len() as u32 {
            let generation = self.links[link as usize].generation;
            for side in 0..2 {
                let to = EndRef { link, generation, side };
                let ends = &self.links[link as usize].ends;
                let hosts = (ends[1 - side as usize].host, ends[side as usize].host);
                if which(hosts.0, hosts.1) && self.can_reach(hosts.0, hosts.1) {
                    self.resume(to);
                }
                if which(hosts.0, hosts.1) || which(hosts.1, hosts.0) {
                    self.probe(to);
                }
            }
        }
    }

    fn cut(&mut self, from: u32, to: u32, is_cut: bool) {
        let path = &mut self.paths[from as usize][to as usize];
        if path.is_cut != is_cut {
            path.is_cut = is_cut;
            self.disturb_path(from, to);
            if !is_cut {
                self.resume_links(|a, b| (a, b) == (from, to));
            }
        }
    }

    fn disk_index(&self, host: HostKey, path: &str) -> usize {
        match self.disk_names.get(&(host.0, path.to_owned())) {
            Some(index) => *index as usize,
            None => panic!("host {} has no disk {path}", self.hosts[host.index()].name),
        }
    }
}

impl World {
    /// Cuts or heals both directions between two hosts. While they are cut, nothing arrives and
    /// dials hang. After the heal, what was held arrives late, or its link is reset.
    pub fn partition(&self, a: HostKey, b: HostKey, cut: bool) {
        self.cut_one_way(a, b, cut);
        self.cut_one_way(b, a, cut);
    }

    /// Cuts or heals the direction from `from` to `to`.
    pub fn cut_one_way(&self, from: HostKey, to: HostKey, cut: bool) {
        self.0.core.borrow_mut().cut(from.0, to.0, cut);
    }

    /// Breaks every link between two hosts. Both ends see a reset at once.
    pub fn reset_links(&self, a: HostKey, b: HostKey) {
        let mut core = self.0.core.borrow_mut();
        core.disturb_path(a.0, b.0);
        for link in 0..core.links.len() as u32 {
            let pair = &core.links[link as usize];
            let (hosts, generation) = ((pair.ends[0].host, pair.ends[1].host), pair.generation);
            if hosts == (a.0, b.0) || hosts == (b.0, a.0) {
                core.reset_end(EndRef { link, generation, side: 0 });
                core.reset_end(EndRef { link, generation, side: 1 });
            }
        }
    }

    /// Resets one end of every link between two hosts; chance decides which end. The other end
    /// still takes the link for open, also beside a new link that follows.
    pub fn half_reset_links(&self, a: HostKey, b: HostKey) {
        let mut core = self.0.core.borrow_mut();
        core.disturb_path(a.0, b.0);
        for link in 0..core.links.len() as u32 {
            let pair = &core.links[link as usize];
            let (hosts, generation) = ((pair.ends[0].host, pair.ends[1].host), pair.generation);
            if hosts == (a.0, b.0) || hosts == (b.0, a.0) {
                let side = core.rng.net.below(2) as u8;
                core.reset_end(EndRef { link, generation, side });
            }
        }
    }

    /// Ends every cut and every clog, and frames are late no more. Disk faults stay.
    pub fn heal_all(&self) {
        let mut core = self.0.core.borrow_mut();
        core.late_frames.clear();
        for from in 0..core.hosts.len() {
            for to in 0..core.hosts.len() {
                let is_clogged = std::mem::take(&mut core.paths[from][to].clog) > 0;
                let (from, to) = (from as u32, to as u32);
                if is_clogged {
                    core.disturb_path(from, to);
                }
                core.cut(from, to, false);
            }
        }
    }

    /// From the next request on all devices use so much of the freedom that their contract leaves
    /// them.
    pub fn set_freedom(&self, freedom: DiskFreedom) {
        self.0.core.borrow_mut().options.disk.freedom = freedom;
    }

    /// Everything between two hosts takes longer by `extra_delay`, in both directions. Zero ends
    /// this.
    pub fn clog(&self, a: HostKey, b: HostKey, extra_delay: Duration) {
        let mut core = self.0.core.borrow_mut();
        let extra = nanos(extra_delay);
        core.paths[a.index()][b.index()].clog = extra;
        core.paths[b.index()][a.index()].clog = extra;
        core.disturb_path(a.0, b.0);
    }

    /// Sets a fault on a device. Panics if the host has no such device.
    pub fn disk_error(&self, host: HostKey, path: &str, fault: DiskFault) {
        let mut core = self.0.core.borrow_mut();
        let index = core.disk_index(host, path);
        core.disturb(host.0);
        let disk = &mut core.disks[index];
        match fault {
            DiskFault::FailWrites => disk.faults.fail_writes = true,
            DiskFault::FailFlush => disk.faults.fail_flush = true,
            DiskFault::LieAboutFlush => disk.faults.lies = true,
            DiskFault::FailReads => disk.faults.fail_reads = true,
            DiskFault::BadRange { offset, len } => disk.bad.push((offset, offset + len)),
            DiskFault::LoseNextWrite => {
                (disk.faults.silent, disk.faults.silent_in) = (Some(Silent::Lost), None);
            }
            DiskFault::MisdirectNextWrite { offset } => {
                disk.faults.silent = Some(Silent::Elsewhere(offset));
                disk.faults.silent_in = None;
            }
            DiskFault::LoseNextWriteIn { offset, len } => {
                disk.faults.silent = Some(Silent::Lost);
                disk.faults.silent_in = Some((offset, offset + len));
            }
            DiskFault::MisdirectNextWriteIn { offset, len, to } => {
                disk.faults.silent = Some(Silent::Elsewhere(to));
                disk.faults.silent_in = Some((offset, offset + len));
            }
            DiskFault::Unlink => disk.faults.is_unlinked = true,
            DiskFault::Slow(times) => disk.faults.slow = times,
            DiskFault::Freeze(is_frozen) => disk.faults.is_frozen = is_frozen,
            DiskFault::Clear => {
                disk.faults = Faults::default();
                disk.bad.clear();
                core.clear_calls(host.0, path);
            }
        }
        let disk = &mut core.disks[index];
        if !disk.faults.is_frozen {
            let held = std::mem::take(&mut disk.held);
            for (slot, serial) in held {
                let at = core.now + 1 + core.rng.disk.below(50_000);
                core.push(at, EventKind::Disk { slot, serial });
            }
        }
    }

    /// Bit rot: flips at least one bit of each byte in the range. Offset and length are bytes.
    pub fn flip_bits(&self, host: HostKey, path: &str, offset: u64, len: usize) {
        let mut core = self.0.core.borrow_mut();
        let index = core.disk_index(host, path);
        let core = &mut *core;
        let mut masks = vec![0_u8; len];
        for mask in &mut masks {
            *mask = core.rng.fault.between(1, 255) as u8;
        }
        core.disks[index].store.poke(offset, len, |at, byte| *byte ^= masks[at]);
    }

    /// Bit rot by chance. The range is `pages` pages of 4,096 bytes from `offset` on. One bit flips
    /// in each of them with this probability. Returns the pages that were hit, as bytes from the
    /// start of the device.
    pub fn rot(
        &self,
        host: HostKey,
        path: &str,
        offset: u64,
        pages: u64,
        chance_ppm: u64,
    ) -> Vec<u64> {
        let mut core = self.0.core.borrow_mut();
        let index = core.disk_index(host, path);
        let core = &mut *core;
        let mut hit = Vec::new();
        for at in (0..pages).map(|page| offset + page * 4096) {
            if core.rng.fault.chance_ppm(chance_ppm) {
                let (byte, bit) = (core.rng.fault.below(4096), core.rng.fault.below(8));
                core.disks[index].store.poke(at + byte, 1, |_, value| *value ^= 1 << bit);
                hit.push(at);
            }
        }
        hit
    }

    /// Whether a write that is to be lost or misdirected is still waited for.
    #[must_use]
    pub fn is_silent_fault_due(&self, host: HostKey, path: &str) -> bool {
        let core = self.0.core.borrow();
        core.disks[core.disk_index(host, path)].faults.silent.is_some()
    }

    /// Gives a host a new block device. Its content is what surely survives a crash of another one.
    pub fn copy_disk(&self, from: HostKey, path: &str, to: HostKey, as_path: &str) {
        let mut core = self.0.core.borrow_mut();
        let index = core.disk_index(from, path);
        let (size, content) = (core.disks[index].size, core.disks[index].survivor());
        let copy = core.add_disk(to.0, as_path, size, false);
        core.disks[copy as usize].go_on_from(content);
    }

    /// Whether there is a device or file of this path, also one that [`DiskFault::Unlink`] hides.
    #[must_use]
    pub fn has_disk(&self, host: HostKey, path: &str) -> bool {
        self.0.core.borrow().disk_names.contains_key(&(host.0, path.to_owned()))
    }

    /// Whoever opens this file from now on is told that it is sparse.
    pub fn make_sparse(&self, host: HostKey, path: &str) {
        let mut core = self.0.core.borrow_mut();
        let index = core.disk_index(host, path);
        core.disks[index].is_sparse = true;
    }

    /// The numbers of the 4 KiB pages of a device that hold something: damage there is noticed.
    #[must_use]
    pub fn written(&self, host: HostKey, path: &str) -> Vec<u64> {
        let core = self.0.core.borrow();
        core.disks[core.disk_index(host, path)].store.written()
    }

    /// The size of a device, bytes.
    #[must_use]
    pub fn disk_size(&self, host: HostKey, path: &str) -> u64 {
        let core = self.0.core.borrow();
        core.disks[core.disk_index(host, path)].size
    }

    /// What reads of a device would see, for checkers. Offset and length need no alignment.
    #[must_use]
    pub fn read_raw(&self, host: HostKey, path: &str, offset: u64, len: usize) -> Vec<u8> {
        self.read_layer(host, path, offset, len, Layer::Current)
    }

    /// What surely survives a crash of a device, for checkers. Offset and length need no alignment.
    #[must_use]
    pub fn read_stable(&self, host: HostKey, path: &str, offset: u64, len: usize) -> Vec<u8> {
        self.read_layer(host, path, offset, len, Layer::Stable)
    }

    fn read_layer(
        &self,
        host: HostKey,
        path: &str,
        offset: u64,
        len: usize,
        layer: Layer,
    ) -> Vec<u8> {
        let core = self.0.core.borrow();
        let mut into = vec![0; len];
        core.disks[core.disk_index(host, path)].store.read(layer, offset, &mut into);
        into
    }

    /// Replaces bytes of a device, as damage does: in its cache and on its media.
    pub fn write_raw(&self, host: HostKey, path: &str, offset: u64, bytes: &[u8]) {
        let mut core = self.0.core.borrow_mut();
        let index = core.disk_index(host, path);
        let store = &mut core.disks[index].store;
        store.poke(offset, bytes.len(), |at, byte| *byte = bytes[at]);
    }

    /// From now on the host's clock gains this many parts in a million, or loses them if negative.
    /// It is exact again at the boot after a crash.
    pub fn clock_drift(&self, host: HostKey, ppm: i64) {
        let mut core = self.0.core.borrow_mut();
        let now = core.now;
        let state = &mut core.hosts[host.index()];
        state.clock.drift(now, ppm);
        state.wake_at = None;
        core.mark_runnable(host.0); // its timers are due at other times now
    }

    /// Somebody sets the host's wall clock forward or back. Its monotonic clock does not change.
    pub fn wall_jump(&self, host: HostKey, seconds: i64) {
        let mut core = self.0.core.borrow_mut();
        let offset = &mut core.hosts[host.index()].wall_offset;
        *offset = offset.saturating_add(seconds.saturating_mul(1_000_000_000));
    }

    /// Stops the host's process for `d`, like SIGSTOP. Meanwhile its tasks do not run, its
    /// completions queue up, and its clock goes on.
    pub fn pause(&self, host: HostKey, d: Duration) {
        let mut core = self.0.core.borrow_mut();
        let until = core.now + nanos(d);
        core.disturb(host.0);
        let state = &mut core.hosts[host.index()];
        state.paused_until = state.paused_until.max(until);
        core.push(until, EventKind::Wake { host: host.0 });
    }
}
