// SPDX-License-Identifier: Apache-2.0
//! What is on its way into the log: appends with their tickets, and entries that are moved.

use crate::log::Log;
use crate::log::build::{Build, Position, Sealed, to_usize};
use crate::log::index::LogPlace;
use base::{BLOCK_SECTORS, Instant, Lsn, RequestId, SectorRange};
use env::{Env, Slice};
use format::{EntryKind, KnownCommit, LogEntry};
use std::task::Waker;
use wire::{Crcs, Marks};

/// One append that somebody may wait for.
#[derive(Default)]
pub(crate) struct Waiter {
    is_done: bool,
    waker: Option<Waker>,
}

/// An append of a component with a direct write under way: that write, or one that came after it.
pub(crate) struct Behind {
    pub(crate) append: Deferred,
    /// Its data is durable, or goes with its commit.
    is_ready: bool,
}

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
    /// This place of a direct write is the newest of some of its blocks: these are written again.
    Direct(LogPlace),
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
    /// Bytes of data that it brings, in the log or on capacity.
    fn data(&self) -> usize {
        match self.kind {
            EntryKind::Direct { .. } => to_usize(self.range.bytes()),
            _ => self.payload.len(),
        }
    }

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
        self.waiters.push_back(Waiter::default());
        self.ticket_last
    }

    /// Whether the append with this ticket is durable. Where it is not, `waker` is told when it is.
    pub(crate) fn poll_ticket(&mut self, ticket: u64, waker: &Waker) -> bool {
        let Some(behind) = ticket.checked_sub(self.ticket_done + 1) else { return true };
        let Some(waiter) = self.waiters.get_mut(to_usize(behind)) else { return false };
        if !waiter.is_done && !waiter.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            waiter.waker = Some(waker.clone());
        }
        waiter.is_done
    }

    /// These appends are durable: who waits for them, in order. Others before them may not be: of
    /// other components, or while a rule is broken on purpose.
    pub(crate) fn take_waiters(&mut self, tickets: &[u64]) -> Vec<Waker> {
        let mut wakers = Vec::new();
        for ticket in tickets {
            let Some(behind) = ticket.checked_sub(self.ticket_done + 1) else { continue };
            if let Some(waiter) = self.waiters.get_mut(to_usize(behind)) {
                waiter.is_done = true;
                wakers.extend(waiter.waker.take());
            }
        }
        while self.waiters.pop_front_if(|waiter| waiter.is_done).is_some() {
            self.ticket_done += 1;
        }
        wakers
    }

    /// Takes all waiters; their tickets are not done.
    pub(crate) fn take_all_waiters(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.waiters).into_iter().filter_map(|waiter| waiter.waker).collect()
    }

    /// Whether an append of this component waits for a direct write before it.
    pub(crate) fn is_behind(&self, serial: u32) -> bool {
        self.behind.contains_key(&u64::from(serial))
    }

    /// An append waits behind the direct writes of its component, or is one whose data is on its
    /// way (store rule 16).
    pub(crate) fn put_behind(&mut self, append: Deferred) {
        let is_ready = !matches!(append.kind, EntryKind::Direct { .. });
        let queue = self.behind.entry(append.serial.into()).or_default();
        queue.push_back(Behind { append, is_ready });
    }

    /// The data of a direct write is durable. What may be recorded from now on, in order.
    pub(crate) fn take_ready(&mut self, serial: u32, ticket: u64) -> Vec<Deferred> {
        let Some(queue) = self.behind.get_mut(&u64::from(serial)) else { return Vec::new() };
        if let Some(write) = queue.iter_mut().find(|behind| behind.append.ticket == ticket) {
            write.is_ready = true;
        }
        let mut ready = Vec::new();
        while let Some(behind) = queue.pop_front_if(|behind| behind.is_ready) {
            ready.push(behind.append);
        }
        if queue.is_empty() {
            self.behind.remove(&u64::from(serial));
        }
        ready
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
        let taken = u64::from(self.offset) + self.open.direct;
        let room = to_usize(self.usable().saturating_sub(taken));
        let length = build.length() + to_usize(build.direct);
        let data = next.data();
        let is_over = length + data.next_multiple_of(4096) + 4096 > room;
        let is_full = is_over && !build.is_empty() && length <= room;
        let fits = build.fits(data, to_usize(blocks.end - blocks.start), 0);
        if fits && !is_full { self.moves.pop_front() } else { None }
    }

    /// Parts of a direct write go to the log's head in place of all of it, before what else does.
    pub(crate) fn move_parts(&mut self, moved: &Move, parts: &[SectorRange]) {
        for part in parts.iter().rev() {
            let from = to_usize((part.start - moved.range.start) / BLOCK_SECTORS);
            let crcs = moved.crcs[from..from + to_usize(part.count / BLOCK_SECTORS)].to_vec();
            let still = match moved.still {
                Still::Direct(place) => Still::Direct(place),
                _ => unreachable!("only direct writes are moved in parts"),
            };
            self.moves.push_front(Move {
                serial: moved.serial,
                kind: moved.kind,
                is_copy: moved.is_copy,
                range: *part,
                lsn: moved.lsn,
                crcs,
                payload: Vec::new(),
                id: moved.id,
                still,
            });
        }
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
        self.open.direct += sealed.direct;
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
