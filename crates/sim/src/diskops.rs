// SPDX-License-Identifier: Apache-2.0
//! SimDisk operations from submission to completion.

use crate::core::{Core, EventKind};
use crate::disk::{Body, Silent, SimDisk, tear};
use crate::loose::LooseOp;
use crate::modelled::Modelled;
use crate::options::{DiskFreedom, DiskModel, Latency};
use crate::store::{Layer, StoredPiece};
use crate::under_way::{DeviceCall, DiskOp, DiskWork};
use base::crc32c;
use env::{Buf, Completion, DiskId, DiskInfo, Done, Durability, IoError, Op, OpenDisk, Token};

/// The kernel's EIO.
pub(crate) const EIO: IoError = IoError::Device { errno: 5 };

impl Core {
    pub(crate) fn try_open(&mut self, process: u32, options: OpenDisk) -> Result<Done, IoError> {
        let host = self.processes[process as usize].host;
        let known = self.disk_names.get(&(host, options.path.clone())).copied();
        let (index, is_new) = match (known, options.create) {
            (Some(index), _) => (index, false),
            (None, None) => return Err(IoError::NotFound),
            (None, Some(size)) => {
                let used: u64 =
                    self.disks.iter().filter(|d| d.host == host && d.is_file).map(|d| d.size).sum();
                let limit = self.options.disk.disk_space.unwrap_or(u64::MAX);
                if used.saturating_add(size) > limit {
                    return Err(IoError::NoSpace);
                }
                (self.add_disk(host, &options.path, size, true), true)
            }
        };
        let disk = self.disk_mut(index);
        if disk.faults.is_unlinked {
            return Err(IoError::NotFound);
        }
        if disk.owner.is_some() {
            return Err(IoError::Busy);
        }
        disk.owner = Some(process);
        let (is_file, is_sparse) = (disk.is_file, disk.is_sparse);
        let info = DiskInfo { size: disk.size, is_file, is_sparse, is_new };
        let opened = &mut self.processes[process as usize].disks;
        opened.push(Some(index));
        Ok(Done::Disk(DiskId(opened.len() as u32 - 1), info))
    }

    pub(crate) fn add_disk(&mut self, host: u32, path: &str, size: u64, is_file: bool) -> u32 {
        let index = self.disks.len() as u32;
        let mut disk = SimDisk::new(host, path, size, is_file, &self.options.disk);
        let model = self.models.get(&(host, path.to_owned()));
        disk.modelled = model.map(|model| Modelled::new(*model, size));
        self.disks.push(disk);
        let before = self.disk_names.insert((host, path.to_owned()), index);
        assert!(before.is_none(), "two disks at {path}");
        index
    }

    pub(crate) fn disk_mut(&mut self, index: u32) -> &mut SimDisk {
        &mut self.disks[index as usize]
    }

    /// Starts a read, write, flush or discard: draws how long it takes.
    pub(crate) fn disk_submit(&mut self, process: u32, token: Token, id: DiskId, op: Op) {
        let index = self.processes[process as usize].disks.get(id.0 as usize).copied().flatten();
        let Some(index) = index else {
            let buf = match op {
                Op::Read { into, .. } => Some(into),
                _ => None,
            };
            self.soon(process, Completion { token, result: Err(IoError::Closed), buf });
            return;
        };
        let (now, model) = (self.now, &self.options.disk);
        let disk = &mut self.disks[index as usize];
        let freedom = match disk.modelled {
            None => model.freedom,
            Some(_) => DiskFreedom::default(),
        };
        let (latency, bytes, work) = begin(disk, model, op);
        let device_op = work.device_op();
        let mut at = match disk.modelled {
            None => {
                let service = latency.draw(bytes, &mut self.rng.disk);
                disk.occupy(now, service, model, &mut self.rng.disk)
            }
            Some(_) => now + 1, // a discard; the model says when all else ends
        };
        disk.in_flight += 1;
        if matches!(work, DiskWork::Discard { .. }) {
            let (host, path) = (disk.host, disk.path.clone());
            at = at.saturating_add(self.lateness(host, &path, DeviceCall::Discard));
        }
        if matches!(work, DiskWork::Discard { .. } | DiskWork::Flush { .. }) {
            at = at.saturating_add(freedom.lateness(&mut self.rng.loose));
        }
        let is_loose = freedom.is_loose && !matches!(work, DiskWork::Flush { .. });
        let loose = is_loose.then(|| LooseOp::draw(work.bytes(), &mut self.rng.loose));
        let parts = loose.as_ref().map_or(0, LooseOp::count);
        let serial = self.serial();
        let slot = self.disk_ops_free.pop().unwrap_or_else(|| {
            self.disk_ops.push(None);
            self.disk_ops.len() as u32 - 1
        });
        let op = DiskOp { process, token, disk: index, serial, work, loose };
        self.disk_ops[slot as usize] = Some(op);
        for part in 0..parts {
            let moment = self.rng.loose.between(now, at);
            self.push(moment, EventKind::Part { slot, serial, part });
        }
        match (&mut self.disk_mut(index).modelled, device_op) {
            (Some(modelled), Some(op)) => {
                modelled.submit(now, slot, op);
                self.plan_look(index, now);
            }
            _ => self.push(at, EventKind::Disk { slot, serial }),
        }
    }

    fn plan_look(&mut self, index: u32, at: u64) {
        let modelled = self.disk_mut(index).modelled.as_mut();
        if modelled.is_some_and(|modelled| modelled.plan_look(at)) {
            self.push(at, EventKind::Modelled { disk: index });
        }
    }

    /// Ends what the model of a device has ended. The look at the time of a submission comes after
    /// the turn that submitted, so that the model chooses from all that the turn asked for.
    pub(crate) fn modelled_event(&mut self, index: u32) {
        let now = self.now;
        let Some(modelled) = &mut self.disk_mut(index).modelled else { return };
        let (ended, next) = modelled.look(now);
        if let Some(next) = next {
            self.plan_look(index, next);
        }
        for slot in ended {
            let op = self.disk_ops[slot as usize].as_ref();
            if let Some(serial) = op.map(|op| op.serial) {
                self.disk_event(slot, serial);
            }
        }
    }

    pub(crate) fn disk_event(&mut self, slot: u32, serial: u64) {
        let entry = &mut self.disk_ops[slot as usize];
        let Some(op) = entry.take_if(|op| op.serial == serial) else { return };
        let disk = &mut self.disks[op.disk as usize];
        if disk.faults.is_frozen {
            disk.held.push((slot, serial));
            *entry = Some(op);
            return;
        }
        self.disk_ops_free.push(slot);
        disk.leave();
        let (process, token) = (op.process, op.token);
        let (result, buf) = self.perform(op);
        self.complete(process, Completion { token, result: result.map(|()| Done::Unit), buf });
    }

    fn perform(&mut self, op: DiskOp) -> (Result<(), IoError>, Option<Buf>) {
        if op.loose.is_some() {
            return self.perform_loose(op);
        }
        let disk = &mut self.disks[op.disk as usize];
        let failed = Err(EIO);
        match op.work {
            DiskWork::Read { offset, mut into, at } => {
                self.stats.reads += 1;
                if disk.faults.fail_reads || disk.is_bad(offset, (into.len() - at) as u64) {
                    return (failed, Some(into));
                }
                disk.store.read(Layer::Current, offset, &mut into[at..]);
                (Ok(()), Some(into))
            }
            DiskWork::Write { offset, from, durability } => {
                let offset = match disk.faults.take_silent(offset) {
                    Some(Silent::Lost) => return (Ok(()), None),
                    Some(Silent::Elsewhere(other)) => other,
                    None => offset,
                };
                let pieces = StoredPiece::cut(offset, &from, &self.zeros);
                let mark = u64::from(crc32c(&from)) << 32 | u64::from(op.disk);
                let len = from.len() as u64;
                if disk.faults.fail_writes {
                    // What a failed write leaves is unspecified: nothing, a part, or all of it.
                    let part = match self.rng.fault.below(4) {
                        0 => Some(pieces),
                        1 => tear(&pieces, &mut self.rng.fault),
                        _ => None,
                    };
                    if let Some(part) = part {
                        disk.commit_cached(Body::Data(part), true);
                    }
                    return (failed, None);
                }
                disk.heal(offset, len);
                if durability == Durability::Durable && !disk.faults.lies {
                    disk.commit_durable(&pieces);
                } else {
                    disk.commit_cached(Body::Data(pieces), false);
                }
                self.wrote(offset, len, mark);
                (Ok(()), None)
            }
            DiskWork::Flush { cover } => {
                self.stats.flushes += 1;
                if disk.faults.fail_flush {
                    disk.fail_flush(cover);
                    return (failed, None);
                }
                if !disk.faults.lies {
                    disk.commit_flush(cover);
                }
                (Ok(()), None)
            }
            DiskWork::Discard { offset, bytes } => {
                if disk.faults.fail_writes {
                    return (failed, None);
                }
                // The device may ignore it.
                if self.rng.disk.below(4) > 0 {
                    disk.commit_cached(Body::Zero { offset, bytes }, false);
                }
                (Ok(()), None)
            }
        }
    }

    /// Counts a write that succeeded.
    pub(crate) fn wrote(&mut self, offset: u64, len: u64, mark: u64) {
        self.stats.writes += 1;
        self.stats.bytes_written += len;
        self.mix(offset);
        self.mix(mark);
    }

    /// Lets all discards of a device end within 50 us.
    pub(crate) fn discards_end_now(&mut self, host: u32, path: &str) {
        for slot in 0..self.disk_ops.len() {
            let Some(op) = &self.disk_ops[slot] else { continue };
            let (serial, disk) = (op.serial, &self.disks[op.disk as usize]);
            if matches!(op.work, DiskWork::Discard { .. }) && disk.host == host && disk.path == path
            {
                let at = self.now + 1 + self.rng.fault.below(50_000);
                self.push(at, EventKind::Disk { slot: slot as u32, serial });
            }
        }
    }

    /// Removes all operations under way on a disk, without completions. Returns the writes and
    /// discards among them.
    fn take_unfinished(&mut self, index: u32) -> Vec<(Body, Durability)> {
        let mut writes = Vec::new();
        for slot in 0..self.disk_ops.len() {
            let Some(op) = self.disk_ops[slot].take_if(|op| op.disk == index) else { continue };
            self.disk_ops_free.push(slot as u32);
            if op.loose.is_some() {
                writes.extend(op.unfinished(&self.zeros));
                continue;
            }
            match op.work {
                DiskWork::Write { offset, from, durability } => {
                    writes.push((
                        Body::Data(StoredPiece::cut(offset, &from, &self.zeros)),
                        durability,
                    ));
                }
                DiskWork::Discard { offset, bytes } => {
                    writes.push((Body::Zero { offset, bytes }, Durability::Cached));
                }
                DiskWork::Read { .. } | DiskWork::Flush { .. } => {}
            }
        }
        writes
    }

    /// The devices of a host lose power.
    pub(crate) fn crash_disks(&mut self, host: u32) {
        for index in 0..self.disks.len() as u32 {
            if self.disks[index as usize].host != host {
                continue;
            }
            let unfinished =
                self.take_unfinished(index).into_iter().map(|(body, _)| body).collect();
            let (model, rng) = (&self.options.crash, &mut self.rng.fault);
            self.disks[index as usize].crash(unfinished, model, rng, &mut self.stats);
        }
    }

    /// A process is gone, its devices live on. Each write under way lands whole, in part, or not.
    pub(crate) fn release_disks(&mut self, process: u32) {
        for index in 0..self.disks.len() as u32 {
            if self.disks[index as usize].owner != Some(process) {
                continue;
            }
            for (body, durability) in self.take_unfinished(index) {
                let disk = &mut self.disks[index as usize];
                let rng = &mut self.rng.fault;
                let body = match (rng.below(4), body) {
                    (0, _) => continue,
                    (1, Body::Data(pieces)) => match tear(&pieces, rng) {
                        Some(part) => Body::Data(part),
                        None => continue,
                    },
                    (_, body) => body,
                };
                match (body, durability) {
                    (Body::Data(pieces), Durability::Durable) => disk.commit_durable(&pieces),
                    (body, _) => disk.commit_cached(body, false),
                }
            }
            self.disk_mut(index).answer_all();
            self.disk_mut(index).seize();
        }
    }
}

/// What an operation does, how long such a one takes, and for how many bytes.
fn begin(disk: &SimDisk, model: &DiskModel, op: Op) -> (Latency, u64, DiskWork) {
    match op {
        Op::Read { offset, into, at, .. } => {
            let bytes = (into.len() - at) as u64;
            check(disk, offset, bytes);
            (model.read, bytes, DiskWork::Read { offset, into, at })
        }
        Op::Write { offset, from, durability, .. } => {
            check(disk, offset, from.len() as u64);
            assert!(from.offset().is_multiple_of(512), "a device write from unaligned memory");
            let latency = match durability {
                Durability::Cached => model.write_cached,
                Durability::Durable => model.write_durable,
            };
            (latency, from.len() as u64, DiskWork::Write { offset, from, durability })
        }
        Op::Flush { .. } => {
            (model.flush, disk.dirty_bytes(), DiskWork::Flush { cover: disk.flush_cover() })
        }
        Op::Discard { offset, bytes, .. } => {
            check(disk, offset, bytes);
            (model.write_cached, 4096, DiskWork::Discard { offset, bytes })
        }
        other => unreachable!("not a disk operation: {other:?}"),
    }
}

/// Checks what the contract of [`Op`] demands of callers. A violation is a bug of the caller.
fn check(disk: &SimDisk, offset: u64, bytes: u64) {
    let path = &disk.path;
    assert!(offset.is_multiple_of(512), "unaligned device offset {offset} on {path}");
    assert!(bytes.is_multiple_of(512), "unaligned device length {bytes} on {path}");
    assert!(bytes > 0, "empty device I/O on {path}");
    assert!(
        offset.checked_add(bytes).is_some_and(|end| end <= disk.size),
        "device I/O beyond the end of {path}: {offset}+{bytes} of {}",
        disk.size
    );
}
