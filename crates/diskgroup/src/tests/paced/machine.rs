// SPDX-License-Identifier: Apache-2.0
//! A machine in virtual time with flash and one magnetic disk: nothing fails, everything takes as
//! long as it does.
//!
//! The magnetic disk is the one of `gabion up --magnetic-capacity`: one head; of the oldest 32
//! requests it takes the one that it reaches first, seek and turn together; 150 MB/s; a flush waits
//! for all before it. Blocks of zeros take no memory.

use base::{Instant, Map, WallTime};
use env::{Completion, DiskId, DiskInfo, Done, Driver, IoError, Op, Token};
use std::collections::{BTreeMap, VecDeque};

const SECOND_NS: u64 = 1_000_000_000;
const TURN_NS: u64 = 60 * SECOND_NS / 7200;
const BYTES_PER_SECOND: u64 = 150_000_000;
const TRACK_BYTES: u64 = BYTES_PER_SECOND / 120;
const SETTLE_NS: u64 = 1_000_000;
const STROKE_NS: f64 = 5_300_000.0;
const CHOICE_MAX: usize = 32;
const PASSED_MAX: u32 = 64;
/// Of the flash device: an access, and a byte of any.
const FLASH_NS: u64 = 300_000;
const FLASH_BYTES_PER_SECOND: u64 = 800_000_000;
const BLOCK: u64 = 4096;

struct Request {
    /// `None`: a flush.
    what: Option<(u64, u64)>,
    end: Completion,
}

/// What a device does with time.
enum Kind {
    Flash { free: u64 },
    Magnetic(Magnetic),
}

#[derive(Default)]
struct Magnetic {
    size: u64,
    head: u64,
    passed: u32,
    queue: VecDeque<Request>,
    /// When it ends, and where the head is then.
    serving: Option<(u64, u64, Request)>,
}

struct Device {
    path: String,
    size: u64,
    kind: Kind,
    blocks: Map<u64, Box<[u8; 4096]>>,
}

/// See the module; disks whose paths begin with "capacity" are magnetic.
#[derive(Default)]
pub(super) struct Machine {
    now: u64,
    serial: u64,
    devices: Vec<Device>,
    /// Ends of what flash does, by time.
    due: BTreeMap<(u64, u64), Completion>,
}

impl Magnetic {
    fn reach_ns(&self, now: u64, offset: u64) -> u64 {
        if offset == self.head {
            return 0;
        }
        let far = self.head.abs_diff(offset) as f64 / self.size as f64;
        let is_same = offset / TRACK_BYTES == self.head / TRACK_BYTES;
        let seek = if is_same { 0 } else { SETTLE_NS + (STROKE_NS * far.sqrt()) as u64 };
        let angle = offset % TRACK_BYTES * TURN_NS / TRACK_BYTES;
        seek + (angle + TURN_NS - (now + seek) % TURN_NS) % TURN_NS
    }

    /// Begins with the next request, if the head is free; flushes that have nothing to wait for
    /// end at once.
    fn serve(&mut self, now: u64, done: &mut Vec<Completion>) {
        if self.serving.is_some() {
            return;
        }
        while self.queue.front().is_some_and(|request| request.what.is_none()) {
            done.extend(self.queue.pop_front().map(|request| request.end));
        }
        let most = if self.passed < PASSED_MAX { CHOICE_MAX } else { 1 };
        let waiting = self.queue.iter().enumerate();
        let transfers = waiting.filter_map(|(at, request)| Some((at, request.what?))).take(most);
        let reached = transfers.map(|(at, what)| (self.reach_ns(now, what.0), at, what));
        let Some((reach, at, (offset, bytes))) = reached.min() else { return };
        let request = self.queue.remove(at).expect("it was there");
        self.passed = if at == 0 { 0 } else { self.passed + 1 };
        let end = now + reach + bytes * SECOND_NS / BYTES_PER_SECOND;
        self.serving = Some((end, offset + bytes, request));
    }

    fn end(&mut self, now: u64, done: &mut Vec<Completion>) {
        // A flush behind what is served still waits for it.
        while let Some((_, head, request)) = self.serving.take_if(|serving| serving.0 <= now) {
            self.head = head;
            done.push(request.end);
            self.serve(now, done);
        }
        self.serve(now, done);
    }
}

impl Device {
    fn write(&mut self, offset: u64, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            let place = offset + at as u64;
            let within = (place % BLOCK) as usize;
            let length = (BLOCK as usize - within).min(bytes.len() - at);
            let part = &bytes[at..at + length];
            let is_zero = part.iter().all(|byte| *byte == 0);
            if is_zero && length == BLOCK as usize {
                self.blocks.remove(&(place / BLOCK));
            } else {
                let block = self.blocks.entry(place / BLOCK).or_insert_with(|| Box::new([0; 4096]));
                block[within..within + length].copy_from_slice(part);
            }
            at += length;
        }
    }

    fn read(&self, offset: u64, into: &mut [u8]) {
        let mut at = 0;
        while at < into.len() {
            let place = offset + at as u64;
            let within = (place % BLOCK) as usize;
            let length = (BLOCK as usize - within).min(into.len() - at);
            match self.blocks.get(&(place / BLOCK)) {
                Some(block) => {
                    into[at..at + length].copy_from_slice(&block[within..within + length])
                }
                None => into[at..at + length].fill(0),
            }
            at += length;
        }
    }
}

impl Machine {
    fn open(&mut self, path: String, create: Option<u64>) -> Result<Done, IoError> {
        let known = self.devices.iter().position(|device| device.path == path);
        let (at, is_new) = match (known, create) {
            (Some(at), _) => (at, false),
            (None, None) => return Err(IoError::NotFound),
            (None, Some(size)) => {
                let kind = match path.starts_with("capacity") {
                    true => Kind::Magnetic(Magnetic { size, ..Magnetic::default() }),
                    false => Kind::Flash { free: 0 },
                };
                self.devices.push(Device { path, size, kind, blocks: Map::new() });
                (self.devices.len() - 1, true)
            }
        };
        let size = self.devices[at].size;
        let info = DiskInfo { size, is_file: true, is_sparse: false, is_new };
        Ok(Done::Disk(DiskId(at as u32), info))
    }

    fn transfer(&mut self, disk: DiskId, what: Option<(u64, u64)>, end: Completion) {
        self.serial += 1;
        let serial = self.serial;
        match &mut self.devices[disk.0 as usize].kind {
            Kind::Magnetic(disk) => disk.queue.push_back(Request { what, end }),
            Kind::Flash { free } => {
                let bytes = what.map_or(0, |(_, bytes)| bytes);
                *free = self.now.max(*free) + bytes * SECOND_NS / FLASH_BYTES_PER_SECOND;
                self.due.insert((*free + FLASH_NS, serial), end);
            }
        }
    }

    fn harvest(&mut self, done: &mut Vec<Completion>) {
        let now = self.now;
        for device in &mut self.devices {
            if let Kind::Magnetic(disk) = &mut device.kind {
                disk.end(now, done);
            }
        }
        while let Some(first) = self.due.first_entry().filter(|first| first.key().0 <= now) {
            done.push(first.remove());
        }
    }

    fn next_end(&self) -> Option<u64> {
        let magnetic = self.devices.iter().filter_map(|device| match &device.kind {
            Kind::Magnetic(disk) => disk.serving.as_ref().map(|serving| serving.0),
            Kind::Flash { .. } => None,
        });
        magnetic.chain(self.due.keys().next().map(|(at, _)| *at)).min()
    }
}

impl Driver for Machine {
    fn now(&self) -> Instant {
        Instant(self.now)
    }

    fn wall(&self) -> WallTime {
        WallTime(self.now)
    }

    fn entropy(&mut self) -> u64 {
        7
    }

    fn submit(&mut self, token: Token, op: Op) {
        let unit = Completion { token, result: Ok(Done::Unit), buf: None };
        match op {
            Op::OpenDisk(open) => {
                let result = self.open(open.path, open.create);
                self.serial += 1;
                self.due.insert((self.now, self.serial), Completion { result, ..unit });
            }
            Op::Read { disk, offset, mut into, at } => {
                self.devices[disk.0 as usize].read(offset, &mut into[at..]);
                let bytes = (into.len() - at) as u64;
                self.transfer(disk, Some((offset, bytes)), Completion { buf: Some(into), ..unit });
            }
            Op::Write { disk, offset, from, .. } => {
                self.devices[disk.0 as usize].write(offset, &from);
                self.transfer(disk, Some((offset, from.len() as u64)), unit);
            }
            Op::Flush { disk } => self.transfer(disk, None, unit),
            Op::LookAtDisk { disk, .. } => {
                let size = self.devices[disk.0 as usize].size;
                self.serial += 1;
                let end = Completion { result: Ok(Done::Size(size)), ..unit };
                self.due.insert((self.now, self.serial), end);
            }
            Op::Discard { .. } | Op::CloseDisk { .. } => {
                self.serial += 1;
                self.due.insert((self.now, self.serial), unit);
            }
            other => unreachable!("not of a disk: {other:?}"),
        }
    }

    fn cancel(&mut self, _token: Token) {}

    fn park(&mut self, until: Option<Instant>, done: &mut Vec<Completion>) {
        loop {
            self.harvest(done);
            let until = until.map(|until| until.0);
            if !done.is_empty() || until.is_some_and(|until| until <= self.now) {
                return;
            }
            let next = self.next_end().into_iter().chain(until).min();
            self.now = next.expect("nothing is under way and nobody waits for a time");
        }
    }
}
