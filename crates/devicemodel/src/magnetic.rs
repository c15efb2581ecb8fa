// SPDX-License-Identifier: Apache-2.0
//! How long a magnetic disk of 7200 rpm takes for what it is asked: pure arithmetic.
//!
//! - **One head**, one request at a time. Of the oldest 32 that wait (the depth of NCQ) it takes
//!   the one that it can reach first, turn of the platter included, as such disks do; one that was
//!   passed over 64 times goes first.
//! - **Reaching** costs nothing where the last request ended. Elsewhere it costs a seek, which
//!   grows with the square root of the distance, and the wait until the platter has turned: 8 ms
//!   together for single requests all over the device, less with several to choose from.
//! - **Moving** costs the time that 150 MB/s take; reads and writes alike, cached or durable.
//! - **A flush** waits for everything that was submitted before it and costs nothing itself: the
//!   disk has no volatile cache, and a write is on the platter when it completes.
//!
//! Simplifications: the model has no cache, no zones, no bad sectors, and its platter is exact, so
//! that the wait needs no random numbers. The head moves over all of the device, however small the
//! file is.

use crate::op::DeviceOp;
use base::Instant;
use std::collections::VecDeque;
use std::time::Duration;

const SECOND_NS: u64 = 1_000_000_000;
/// Nanoseconds of a turn at 7200 rpm.
const TURN_NS: u64 = 60 * SECOND_NS / 7200;
/// Bytes per second under the head.
const BYTES_PER_SECOND: u64 = 150_000_000;
/// Bytes that pass the head in a turn; within them there is no seek.
const TRACK_BYTES: u64 = BYTES_PER_SECOND / (7200 / 60);
/// The shortest seek.
const SETTLE_NS: u64 = 1_000_000;
/// What a seek over the whole device takes beside that. Over a distance drawn at random it takes
/// 8/15 of it, so that seek and half a turn make 8 ms.
const STROKE_NS: u64 = 5_300_000;
/// Requests that the head chooses from; the rest waits behind them.
const CHOICE_MAX: usize = 32;
/// Times that the oldest request lets others go first.
const PASSED_MAX: u32 = 64;

struct Request {
    name: u64,
    serial: u64,
    submitted: Instant,
    op: DeviceOp,
}

struct Serving {
    name: u64,
    serial: u64,
    end: Instant,
    head: u64,
}

/// One disk. Time is what its callers say, and never goes back.
pub(crate) struct Magnetic {
    size: u64,
    /// The byte after the last one that passed the head.
    head: u64,
    /// Since when the head is free, where it is.
    free: Instant,
    /// In the order of submission.
    queue: VecDeque<Request>,
    serving: Option<Serving>,
    serial: u64,
    /// Times that the oldest transfer was passed over.
    passed: u32,
}

impl Magnetic {
    /// A disk of so many bytes at rest.
    pub(crate) fn new(size: u64) -> Self {
        Self {
            size: size.max(1),
            head: 0,
            free: Instant::default(),
            queue: VecDeque::new(),
            serving: None,
            serial: 0,
            passed: 0,
        }
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.serving.is_none() && self.queue.is_empty()
    }

    /// Takes a request in.
    pub(crate) fn submit(&mut self, now: Instant, name: u64, op: DeviceOp) {
        debug_assert!(self.queue.back().is_none_or(|last| last.submitted <= now), "time went back");
        self.serial += 1;
        self.queue.push_back(Request { name, serial: self.serial, submitted: now, op });
    }

    /// The next request that has ended by `now`, and when; to be called until there is none.
    pub(crate) fn end(&mut self, now: Instant) -> Option<(u64, Instant)> {
        if let Some(flush) = self.take_flush() {
            return Some((flush.name, flush.submitted.max(self.free)));
        }
        if self.serving.is_none() {
            self.serve();
        }
        let ended = self.serving.take_if(|serving| serving.end <= now)?;
        self.head = ended.head;
        self.free = ended.end;
        Some((ended.name, ended.end))
    }

    /// When the request that is served now ends; exact after [`Magnetic::end`] found none.
    pub(crate) fn next_end(&self) -> Option<Instant> {
        self.serving.as_ref().map(|serving| serving.end)
    }

    /// A flush that has nothing left to wait for.
    fn take_flush(&mut self) -> Option<Request> {
        let serving = self.serving.as_ref().map(|serving| serving.serial);
        let is_over = |request: &Request| {
            request.op == DeviceOp::Flush && serving.is_none_or(|it| it > request.serial)
        };
        if self.queue.front().is_some_and(is_over) { self.queue.pop_front() } else { None }
    }

    /// Begins the request that the head reaches first of those that wait when it gets free.
    fn serve(&mut self) {
        let Some(oldest) = self.queue.front() else { return };
        let begin = self.free.max(oldest.submitted);
        let transfer = |request: &Request| match request.op {
            DeviceOp::Transfer { offset, bytes } => Some((offset, bytes)),
            DeviceOp::Flush => None,
        };
        let waiting = self.queue.iter().enumerate();
        let waiting = waiting.take_while(|(_, request)| request.submitted <= begin);
        let transfers = waiting.filter_map(|(at, request)| Some((at, transfer(request)?)));
        let reached = transfers.take(if self.passed < PASSED_MAX { CHOICE_MAX } else { 1 });
        let reached = reached.map(|(at, what)| (self.reach_ns(begin, what.0), at, what));
        let Some((reach_ns, at, (offset, bytes))) = reached.min() else { return };
        let Some(request) = self.queue.remove(at) else { return };
        self.passed = if at == 0 { 0 } else { self.passed + 1 };
        let service = Duration::from_nanos(reach_ns + transfer_ns(bytes));
        self.serving = Some(Serving {
            name: request.name,
            serial: request.serial,
            end: begin + service,
            head: offset + bytes,
        });
    }

    /// Nanoseconds until the byte is under the head.
    fn reach_ns(&self, begin: Instant, offset: u64) -> u64 {
        if offset == self.head {
            return 0;
        }
        let is_same_track = offset / TRACK_BYTES == self.head / TRACK_BYTES;
        let seek = if is_same_track { 0 } else { seek_ns(self.head.abs_diff(offset), self.size) };
        let turned = (begin.0 + seek) % TURN_NS;
        seek + (angle_ns(offset) + TURN_NS - turned) % TURN_NS
    }
}

/// Where on its track a byte lies, as the part of a turn.
fn angle_ns(offset: u64) -> u64 {
    offset % TRACK_BYTES * TURN_NS / TRACK_BYTES
}

fn seek_ns(distance: u64, size: u64) -> u64 {
    let square = u128::from(STROKE_NS * STROKE_NS) * u128::from(distance.min(size));
    let root = (square / u128::from(size)).isqrt();
    SETTLE_NS + u64::try_from(root).unwrap_or(STROKE_NS)
}

fn transfer_ns(bytes: u64) -> u64 {
    let ns = u128::from(bytes) * u128::from(SECOND_NS) / u128::from(BYTES_PER_SECOND);
    u64::try_from(ns).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
