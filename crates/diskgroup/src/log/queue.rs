// SPDX-License-Identifier: Apache-2.0
//! What is on its way into the log: appends with their tickets, and entries that are moved.

use crate::log::Log;
use crate::log::build::{Build, Position, Sealed, to_usize};
use crate::log::index::LogPlace;
use base::{Instant, Lsn, RequestId, SectorRange};
use env::{Env, Slice};
use format::{EntryKind, KnownCommit, LogEntry};
use std::task::Waker;
use wire::{Crcs, Marks};

/// An append that waits for room in a commit; the payload is retained, not copied.
pub(crate) struct Deferred {
    pub(crate) serial: u32,
    pub(crate) kind: EntryKind,
    pub(crate) is_copy: bool,
    pub(crate) range: SectorRange,
    pub(crate) lsn: Lsn,
    pub(crate) crcs: Crcs,
    pub(crate) payload: Slice,
    pub(crate) marks: Marks,
    pub(crate) ticket: u64,
}

/// What must still be true when a moved entry is written again.
pub(crate) enum Still {
    /// This place is the newest of the block.
    Live(u64, LogPlace),
    /// This place cleared the chunk.
    Cleared(u64, LogPlace),
    /// The pieces up to the lsn are exactly these.
    Pieces(u64, Vec<LogPlace>),
    /// It is above K.
    Open,
}

/// An entry on its way to the log's head, out of a segment that is to be freed.
pub(crate) struct Move {
    pub(crate) serial: u32,
    pub(crate) kind: EntryKind,
    pub(crate) is_copy: bool,
    pub(crate) range: SectorRange,
    pub(crate) lsn: Lsn,
    pub(crate) crcs: Vec<u32>,
    pub(crate) payload: Vec<u8>,
    /// Whose effect it is, where nothing but this says so (rule 46).
    pub(crate) id: Option<RequestId>,
    pub(crate) still: Still,
}

impl Move {
    /// Of an entry as it is, without data.
    pub(crate) fn of(entry: &LogEntry, still: Still) -> Self {
        Self {
            serial: entry.serial,
            kind: entry.kind,
            is_copy: entry.is_copy,
            range: entry.range,
            lsn: entry.lsn,
            crcs: Vec::new(),
            payload: Vec::new(),
            id: None,
            still,
        }
    }
}

impl Log {
    /// An append comes in: its ticket, by which it is told that it is durable.
    pub(crate) fn take_ticket(&mut self, now: Instant) -> u64 {
        self.last_append = now;
        self.ticket_last += 1;
        self.waiters.push_back(None);
        self.ticket_last
    }

    /// Whether the append with this ticket is durable. Where it is not, `waker` is told when it is.
    pub(crate) fn poll_ticket(&mut self, ticket: u64, waker: &Waker) -> bool {
        let Some(behind) = ticket.checked_sub(self.ticket_done + 1) else { return true };
        if let Some(place) = self.waiters.get_mut(to_usize(behind))
            && !place.as_ref().is_some_and(|known| known.will_wake(waker))
        {
            *place = Some(waker.clone());
        }
        false
    }

    /// Takes all waiters of tickets up to `ticket`, in order.
    pub(crate) fn take_waiters(&mut self, ticket: u64) -> Vec<Waker> {
        let mut wakers = Vec::new();
        while self.ticket_done < ticket {
            self.ticket_done += 1;
            wakers.extend(self.waiters.pop_front().flatten());
        }
        wakers
    }

    /// Takes all waiters; their tickets are not done.
    pub(crate) fn take_all_waiters(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.waiters).into_iter().flatten().collect()
    }

    /// Appends that somebody may be waiting for.
    pub(crate) fn waiters(&self) -> u64 {
        self.waiters.len() as u64
    }

    /// Entries go to the log's head.
    pub(crate) fn move_to_head(&mut self, moves: Vec<Move>) {
        self.moves.extend(moves);
    }

    /// Whether entries wait for that.
    pub(crate) fn has_moves(&self) -> bool {
        !self.moves.is_empty() || self.stalled.is_some()
    }

    /// The next of them, if the commit takes it. A commit of moves goes no further than the open
    /// segment has room, so that none is wasted: what is moved out of one segment must fit into the
    /// spare ones.
    pub(crate) fn next_moved(&mut self, build: &Build) -> Option<Move> {
        let next = self.moves.front()?;
        let blocks = next.range.blocks();
        let room = (self.usable() - u64::from(self.offset)) as usize;
        let length = build.length();
        let is_over = length + next.payload.len().next_multiple_of(4096) + 4096 > room;
        let is_full = is_over && !build.is_empty() && length <= room;
        let fits = build.fits(next.payload.len(), (blocks.end - blocks.start) as usize, 0);
        if fits && !is_full { self.moves.pop_front() } else { None }
    }

    /// A commit of moves finds no room; whether it never will.
    pub(crate) fn stall(&mut self, build: Build) -> bool {
        self.stalled = Some(build);
        !self.is_next_read()
    }

    /// Finishes a commit that goes to the end of the open segment: the byte of the device.
    pub(crate) fn seal(
        &mut self,
        env: &Env,
        build: Build,
        known: Vec<KnownCommit>,
    ) -> (u64, Sealed) {
        let at = Position {
            device: self.device,
            incarnation: self.incarnation,
            sequence: self.sequence,
            segment: self.head,
            position: self.offset,
            previous: self.previous,
            oldest: self.tail,
            mutations: self.mutations,
        };
        for new in &known {
            match self.open.known.iter_mut().find(|known| known.serial == new.serial) {
                Some(known) => known.lsn = known.lsn.max(new.lsn),
                None => self.open.known.push(*new),
            }
        }
        let sealed = build.seal(env, at, known);
        if self.open.commits == 0 {
            self.open.previous = self.previous;
        }
        self.open.commits += 1;
        let base = self.offset / 512;
        self.open.crcs.extend_from_slice(&sealed.crcs);
        self.open.entries.extend(
            sealed.entries[..sealed.logged]
                .iter()
                .map(|entry| LogEntry { payload: entry.payload + base, ..*entry }),
        );
        let offset = self.segment_start(self.head) + u64::from(self.offset);
        self.offset += u32::try_from(sealed.bytes.len()).unwrap_or(u32::MAX);
        self.sequence += 1;
        self.previous = sealed.header_crc;
        (offset, sealed)
    }
}
