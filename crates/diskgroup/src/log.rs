// SPDX-License-Identifier: Apache-2.0
//! The log's state: the ring of segments and the queue in front of it.

use crate::build::{Build, CommitLimits, Position, Sealed};
use crate::index::LogPlace;
use crate::mutations::Mutations;
use crate::pace::Admission;
use crate::state::GroupState;
use base::{Incarnation, Instant, Lsn, Mark, Quirk, RequestId, SectorRange};
use env::Slice;
use format::{CacheLayout, Entry, EntryKind, KnownCommit, Summary};
use std::collections::VecDeque;
use std::task::Waker;

/// An append that waits for room in a commit; the payload is retained, not copied.
pub(crate) struct Deferred {
    pub(crate) serial: u32,
    pub(crate) kind: EntryKind,
    pub(crate) is_copy: bool,
    pub(crate) range: SectorRange,
    pub(crate) lsn: Lsn,
    pub(crate) crcs: Vec<u32>,
    pub(crate) payload: Slice,
    pub(crate) marks: Vec<Mark>,
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

/// A segment that is needed.
#[derive(Default)]
pub(crate) struct SegmentInfo {
    /// Bytes in use.
    pub(crate) used: u32,
    /// When the first of them came.
    pub(crate) since: Option<Instant>,
    /// Components that it holds entries of; what of them matters is in [`crate::lowest`].
    pub(crate) serials: Vec<u32>,
    /// Highest lsn of each component in it with which something was said about requests.
    pub(crate) marked: Vec<(u32, Lsn)>,
    /// It holds entries of a component that nobody knows and that a device may need which is out
    /// ([`crate::out`]): it stays, and all behind it.
    pub(crate) is_held: bool,
}

/// What the summary of the open segment will say.
#[derive(Default)]
pub(crate) struct OpenSegment {
    pub(crate) entries: Vec<Entry>,
    pub(crate) crcs: Vec<u32>,
    pub(crate) known: Vec<KnownCommit>,
    pub(crate) commits: u32,
    pub(crate) previous: u32,
}

/// See the module.
pub(crate) struct Log {
    pub(crate) device: u64,
    pub(crate) layout: CacheLayout,
    pub(crate) incarnation: Incarnation,
    /// Absolute number of the open segment.
    pub(crate) head: u64,
    /// Bytes of it that are used or being written.
    pub(crate) offset: u32,
    /// Oldest segment that is needed.
    pub(crate) tail: u64,
    /// The next commit's.
    pub(crate) sequence: u64,
    pub(crate) previous: u32,
    pub(crate) open: OpenSegment,
    /// One per segment from `tail` to `head`.
    pub(crate) infos: VecDeque<SegmentInfo>,
    /// Reads of each physical segment that are under way (store rule 11).
    pub(crate) pins: Vec<u32>,
    pub(crate) mutations: Mutations,
    pub(crate) limits: CommitLimits,
    pub(crate) build: Build,
    pub(crate) deferred: VecDeque<Deferred>,
    pub(crate) moves: VecDeque<Move>,
    pub(crate) is_writing: bool,
    pub(crate) ticket_last: u64,
    pub(crate) ticket_done: u64,
    /// One per ticket that is not done.
    pub(crate) waiters: VecDeque<Option<Waker>>,
}

/// What the log's task does next.
pub(crate) enum LogStep {
    /// Nothing to write, or no room.
    Idle,
    /// The pace lets nothing be written before that time.
    Wait(Instant),
    /// Moved entries were all outdated; look again.
    Again,
    /// There is no room for moved entries, and never will be.
    DeadEnd,
    /// This commit, at this byte of the device, after this summary.
    Write {
        offset: u64,
        segment: u64,
        sealed: Box<Sealed>,
        summary: Option<(u64, Slice)>,
        is_move: bool,
    },
}

impl Log {
    /// Segments that stay free. A segment is opened only while its own place in the ring, and the
    /// place behind it, are free. So each header in it names an `oldest` that lies behind what the
    /// ring overwrites next. Recovery relies on this: all segments from `oldest` on are whole, even
    /// if the first write to the next place was torn.
    const SPARE: u64 = 1;
    /// Further segments that only moved entries may open: what is moved out of one segment, packed
    /// anew, may need a little more than one.
    const RESERVE: u64 = 2;

    pub(crate) fn usable(&self) -> u64 {
        self.layout.segment_size - self.layout.summary_size
    }

    /// First byte of a segment.
    pub(crate) fn segment_start(&self, segment: u64) -> u64 {
        let place = segment % u64::from(self.layout.segments);
        self.layout.start + place * self.layout.segment_size
    }

    /// Sectors from the first segment's start to a byte of a segment.
    pub(crate) fn sector(&self, segment: u64, bytes: u64) -> u32 {
        let place = segment % u64::from(self.layout.segments) * self.layout.segment_size + bytes;
        u32::try_from(place / 512).unwrap_or_else(|_| unreachable!("the log is below 512 GiB"))
    }

    /// The physical segment of a place.
    pub(crate) fn physical(&self, place: LogPlace) -> usize {
        (u64::from(place.sector()) * 512 / self.layout.segment_size) as usize
    }

    /// How many blocks may be folded while the oldest segment is destaged. A part is smaller than
    /// the whole block that a fold makes of it. Without this bound a segment full of parts could
    /// need more room at the log's head than there is, and wait for it for ever. Parts beyond the
    /// bound are moved as they are, for which there is room enough.
    pub(crate) fn folds_max(&self) -> usize {
        let free = u64::from(self.layout.segments).saturating_sub(self.head + 1 - self.tail);
        let room = free.saturating_sub(Self::SPARE) * self.usable();
        let as_it_is = self.usable() + self.usable() * 3 / 4;
        (room.saturating_sub(as_it_is) / (4096 + 64)) as usize
    }

    /// Bytes of the ring in use.
    pub(crate) fn used_bytes(&self) -> u64 {
        (self.head - self.tail) * self.layout.segment_size + u64::from(self.offset)
    }

    /// Thousandths of the ring in use, but for so many bytes.
    pub(crate) fn fill(&self, without: u64) -> i64 {
        let total = u64::from(self.layout.segments) * self.layout.segment_size;
        let used = self.used_bytes().saturating_sub(without);
        i64::try_from(used * 1000 / total).unwrap_or(1000)
    }

    fn may_open_next(&self, is_move: bool) -> bool {
        let reserve = Self::SPARE + if is_move { 0 } else { Self::RESERVE };
        let used = self.head + 1 - self.tail + 1;
        used + reserve <= u64::from(self.layout.segments) && !self.is_next_read()
    }

    /// Whether somebody reads what the next segment held before.
    fn is_next_read(&self) -> bool {
        let next = ((self.head + 1) % u64::from(self.layout.segments)) as usize;
        self.pins[next] > 0 && !self.mutations.skip_pins()
    }

    /// Closes the open segment and opens the next; the summary to write, if there is room for it.
    fn turn_over(&mut self, pool: &env::Pool) -> Option<(u64, Slice)> {
        base::hit(base::Probe::LogTurned);
        let open = std::mem::take(&mut self.open);
        let size = Summary::size_of(open.known.len(), open.entries.len(), open.crcs.len());
        let room = self.layout.summary_size;
        let summary = (size as u64 <= room && open.commits > 0).then(|| {
            let summary = Summary {
                segment: self.head,
                incarnation: self.incarnation,
                last_sequence: self.sequence - 1,
                commits: open.commits,
                previous: open.previous,
                last: self.previous,
                used: self.offset,
                oldest: self.tail,
                known: open.known,
                entries: open.entries,
                crcs: open.crcs,
            };
            let mut buf = pool.take(room as usize);
            summary.encode(self.device, &mut buf);
            (self.segment_start(self.head) + self.usable(), buf.freeze())
        });
        self.head += 1;
        self.offset = 0;
        self.infos.push_back(SegmentInfo::default());
        summary
    }

    /// Closes the open segment early so that it can drain; only while nothing is written.
    pub(crate) fn close_early(&mut self, pool: &env::Pool) -> Option<Option<(u64, Slice)>> {
        let is_quiet = !self.is_writing && self.build.is_empty() && self.moves.is_empty();
        (is_quiet && self.offset > 0 && self.may_open_next(false)).then(|| self.turn_over(pool))
    }
}

impl GroupState {
    /// Fills of ring and index, whichever is higher, without what destage has written of segments
    /// that are not free yet, thousandths.
    pub(crate) fn fill(&self) -> i64 {
        let indexed = usize::try_from(self.pace.indexed()).unwrap_or(usize::MAX);
        self.fill_without(self.pace.done(), indexed)
    }

    /// With that.
    pub(crate) fn fill_of_segments(&self) -> i64 {
        self.fill_without(0, 0)
    }

    fn fill_without(&self, done: u64, indexed: usize) -> i64 {
        let index = self.index.len().saturating_sub(indexed) * 1000 / self.index.limit().max(1);
        self.log.fill(done).max(i64::try_from(index).unwrap_or(1000))
    }

    /// Copies deferred appends into the commit under composition, in order.
    pub(crate) fn refill(&mut self, env: &env::Env) {
        while let Some(next) = self.log.deferred.front() {
            let blocks = next.range.blocks();
            let data = next.kind == EntryKind::Data;
            let bytes = if data { next.payload.len() } else { 0 };
            let blocks = (blocks.end - blocks.start) as usize;
            if !self.takes(env.now(), bytes, blocks, next.marks.len()) {
                assert!(!self.log.build.is_empty(), "an append that fits no commit");
                return;
            }
            let Some(next) = self.log.deferred.pop_front() else { return };
            self.add_to_build(
                env,
                &crate::build::Part {
                    serial: next.serial,
                    kind: next.kind,
                    is_moved: false,
                    is_copy: next.is_copy,
                    range: next.range,
                    lsn: next.lsn,
                    crcs: &next.crcs,
                    payload: &next.payload,
                    marks: &next.marks,
                },
                next.ticket,
            );
        }
    }

    pub(crate) fn add_to_build(
        &mut self,
        env: &env::Env,
        part: &crate::build::Part<'_>,
        ticket: u64,
    ) {
        self.log.build.add(env, part);
        self.log.build.ticket = ticket;
        self.log.build.appends += 1;
    }

    /// Decides what to write and takes it out of the queue.
    pub(crate) fn next_step(&mut self, env: &env::Env) -> LogStep {
        if self.fenced.is_some() || self.log.is_writing {
            return LogStep::Idle;
        }
        let is_move = !self.log.moves.is_empty() || self.stalled_moves.is_some();
        let build = if is_move {
            self.build_moves(env)
        } else {
            if self.log.build.is_empty() {
                return LogStep::Idle;
            }
            // An empty index can make no more room.
            let has_room = self.index.len() == 0
                || self.index.len() + self.log.build.index_need <= self.index.limit();
            let admission = self.pace.admission(env.now(), self.fill());
            if !has_room || admission != Admission::Now {
                base::hit(base::Probe::LogPressed);
            }
            match admission {
                Admission::Now if has_room => None,
                Admission::At(at) if has_room => return LogStep::Wait(at),
                _ => {
                    self.is_pressed = true;
                    return LogStep::Idle;
                }
            }
        };
        if is_move && build.is_none() {
            return LogStep::Again;
        }
        let length = build.as_ref().unwrap_or(&self.log.build).length() as u64;
        let is_early = !is_move
            && self.log.offset > 0
            && self.log.may_open_next(false)
            && env.quirk(Quirk::LogTurnsEarly);
        let fits = !is_early && u64::from(self.log.offset) + length <= self.log.usable();
        if !fits && !self.log.may_open_next(is_move) {
            self.is_pressed = true;
            if let Some(build) = build {
                self.stalled_moves = Some(build);
                if !self.log.is_next_read() {
                    return LogStep::DeadEnd;
                }
            }
            return LogStep::Idle;
        }
        let summary = if fits { None } else { self.log.turn_over(env.pool()) };
        let build = build
            .unwrap_or_else(|| std::mem::replace(&mut self.log.build, Build::new(self.log.limits)));
        let (offset, sealed) = self.seal(env, build);
        if !is_move {
            self.pace.charge(env.now(), sealed.crcs.len() as u64, self.fill());
            self.refill(env);
        }
        let (segment, sealed) = (self.log.head, Box::new(sealed));
        self.log.is_writing = true;
        self.is_moving = is_move;
        LogStep::Write { offset, segment, sealed, summary, is_move }
    }

    /// Composes a commit of those moved entries that are still needed. No other commit is in flight
    /// here, so the index knows everything that is durable. What supersedes a moved entry later is
    /// written behind it in the log, and cannot be destaged and forgotten before it.
    fn build_moves(&mut self, env: &env::Env) -> Option<Build> {
        if let Some(stalled) = self.stalled_moves.take() {
            return Some(stalled);
        }
        let mut build = Build::new(self.log.limits);
        while let Some(next) = self.log.moves.front() {
            let blocks = next.range.blocks();
            let marks = next.id.map(Mark::Done);
            if !build.fits(next.payload.len(), (blocks.end - blocks.start) as usize, 0) {
                break;
            }
            // A commit of moves goes no further than the open segment has room, so that none is
            // wasted: what is moved out of one segment must fit into the spare ones.
            let room = (self.log.usable() - u64::from(self.log.offset)) as usize;
            let length = build.length();
            let is_over = length + next.payload.len().next_multiple_of(4096) + 4096 > room;
            if is_over && !build.is_empty() && length <= room {
                break;
            }
            let Some(next) = self.log.moves.pop_front() else { break };
            if !self.is_still(&next) && !self.mutations.move_unchecked() {
                continue;
            }
            build.add(
                env,
                &crate::build::Part {
                    serial: next.serial,
                    kind: next.kind,
                    is_moved: true,
                    is_copy: next.is_copy,
                    range: next.range,
                    lsn: next.lsn,
                    crcs: &next.crcs,
                    payload: &next.payload,
                    marks: marks.as_slice(),
                },
            );
            base::hit(base::Probe::LogMoved);
            self.counters.moved_entries += 1;
        }
        (!build.is_empty()).then_some(build)
    }

    fn is_still(&self, moved: &Move) -> bool {
        if self.components.get(moved.serial).is_none() {
            return false;
        }
        match &moved.still {
            Still::Live(key, place) => self.index.is_live(*key, *place),
            Still::Cleared(key, place) => {
                let cleared = self.chunks.over(*key).and_then(|over| over.cleared);
                cleared.is_some_and(|(at, _)| at == *place)
            }
            Still::Pieces(key, places) => match self.index.get(*key) {
                Some(crate::index::View::Parts(parts)) => {
                    let old = parts.pieces.iter().filter(|piece| piece.lsn <= moved.lsn.0);
                    old.map(|piece| piece.place).eq(places.iter().copied())
                }
                _ => false,
            },
            Still::Open => {
                self.components.get(moved.serial).is_some_and(|c| c.row.commit < moved.lsn)
            }
        }
    }

    fn seal(&mut self, env: &env::Env, build: Build) -> (u64, Sealed) {
        let mut known = Vec::new();
        for serial in build.serials() {
            if let Some(component) = self.components.get_mut(serial)
                && component.row.commit > component.commit_logged
            {
                component.commit_logged = component.row.commit;
                known.push(KnownCommit { serial, lsn: component.row.commit });
            }
        }
        let log = &mut self.log;
        let at = Position {
            device: log.device,
            incarnation: log.incarnation,
            sequence: log.sequence,
            segment: log.head,
            position: log.offset,
            previous: log.previous,
            oldest: log.tail,
            mutations: self.mutations,
        };
        for new in &known {
            match log.open.known.iter_mut().find(|known| known.serial == new.serial) {
                Some(known) => known.lsn = known.lsn.max(new.lsn),
                None => log.open.known.push(*new),
            }
        }
        let sealed = build.seal(env, at, known);
        if log.open.commits == 0 {
            log.open.previous = log.previous;
        }
        log.open.commits += 1;
        let base = log.offset / 512;
        log.open.crcs.extend_from_slice(&sealed.crcs);
        log.open.entries.extend(
            sealed.entries[..sealed.logged]
                .iter()
                .map(|entry| Entry { payload: entry.payload + base, ..*entry }),
        );
        let offset = log.segment_start(log.head) + u64::from(log.offset);
        log.offset += u32::try_from(sealed.bytes.len()).unwrap_or(u32::MAX);
        log.sequence += 1;
        log.previous = sealed.header_crc;
        (offset, sealed)
    }
}
