// SPDX-License-Identifier: Apache-2.0
//! The two ends of a link, what travels between them, and the paths between hosts.

use env::{Buf, Slice, Token};
use std::collections::VecDeque;

/// The way from one host to another.
#[derive(Clone, Copy, Default)]
pub(crate) struct Path {
    pub(crate) is_cut: bool,
    /// Nanoseconds by which everything on this way takes longer.
    pub(crate) clog: u64,
    /// When it was last cut, joined, clogged or unclogged, or links on it were reset.
    pub(crate) disturbed_at: u64,
}

/// Names one end of one link. Links reuse places in a table; the generation tells them apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EndRef {
    pub(crate) link: u32,
    pub(crate) generation: u32,
    pub(crate) side: u8,
}

impl EndRef {
    pub(crate) fn other(self) -> Self {
        Self { side: 1 - self.side, ..self }
    }

    pub(crate) fn number(self) -> u64 {
        u64::from(self.link) << 1 | u64::from(self.side)
    }
}

pub(crate) enum Payload {
    /// A part of what was sent. It shares the sender's memory: payload is copied once, when it is
    /// received.
    Data(Slice),
    /// The peer has closed: this is the end of the stream.
    Fin,
}

pub(crate) struct Segment {
    pub(crate) at: u64,
    pub(crate) payload: Payload,
}

pub(crate) struct Recv {
    pub(crate) token: Token,
    pub(crate) into: Buf,
    pub(crate) at: usize,
}

pub(crate) struct Send {
    pub(crate) token: Token,
    pub(crate) from: Slice,
    pub(crate) at: usize,
}

/// One end of a link: what its owner asked for, and what travels towards it.
pub(crate) struct LinkEnd {
    pub(crate) host: u32,
    pub(crate) process: u32,
    /// Closed by its owner, or the owner is dead.
    pub(crate) is_gone: bool,
    pub(crate) is_reset: bool,
    pub(crate) recv: Option<Recv>,
    pub(crate) send: Option<Send>,
    pub(crate) arrived: VecDeque<Slice>,
    /// How many bytes of the first entry of `arrived` the owner has received already.
    pub(crate) arrived_at: usize,
    pub(crate) arrived_bytes: usize,
    pub(crate) is_ended: bool,
    pub(crate) wire: VecDeque<Segment>,
    /// Whether a `Deliver` event for the first segment of `wire` is in the queue.
    pub(crate) is_scheduled: bool,
    /// Bytes that are on the wire, or have arrived and were not received.
    pub(crate) unread: usize,
    /// When the wire has room for the next segment, and when the last one arrives. World time.
    pub(crate) busy_until: u64,
    pub(crate) last_at: u64,
}

impl LinkEnd {
    pub(crate) fn new(host: u32, process: u32) -> Self {
        Self {
            host,
            process,
            is_gone: false,
            is_reset: false,
            recv: None,
            send: None,
            arrived: VecDeque::new(),
            arrived_at: 0,
            arrived_bytes: 0,
            is_ended: false,
            wire: VecDeque::new(),
            is_scheduled: false,
            unread: 0,
            busy_until: 0,
            last_at: 0,
        }
    }

    /// Forgets what the owner asked for, and what has arrived. The wire stays as it is: when a
    /// segment arrives, the sender learns that nobody is here.
    pub(crate) fn forget(&mut self) {
        (self.recv, self.send) = (None, None);
        self.forget_arrived();
    }

    pub(crate) fn forget_arrived(&mut self) {
        self.arrived.clear();
        (self.arrived_at, self.arrived_bytes) = (0, 0);
    }

    /// Moves bytes that have arrived into `place`, until it is full.
    pub(crate) fn take(&mut self, place: &mut [u8]) {
        let mut filled = 0;
        while filled < place.len() {
            let Some(first) = self.arrived.front() else {
                unreachable!("fewer bytes than counted")
            };
            let count = (first.len() - self.arrived_at).min(place.len() - filled);
            place[filled..filled + count]
                .copy_from_slice(&first[self.arrived_at..self.arrived_at + count]);
            filled += count;
            self.arrived_at += count;
            if self.arrived_at == first.len() {
                self.arrived.pop_front();
                self.arrived_at = 0;
            }
        }
        self.arrived_bytes -= filled;
        self.unread -= filled;
    }
}

/// A place for a link: its two ends, and how often the place was reused.
pub(crate) struct LinkPair {
    pub(crate) generation: u32,
    pub(crate) is_live: bool,
    pub(crate) ends: [LinkEnd; 2],
}
