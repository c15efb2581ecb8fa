// SPDX-License-Identifier: Apache-2.0
//! The log's state: the ring of segments and the queue in front of it.

use crate::log::Log;
use crate::log::index::LogPlace;
use base::{Instant, Lsn, Mark, RequestId, SectorRange};
use env::Slice;
use format::{EntryKind, KnownCommit, LogEntry, Summary};
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

/// A segment that is needed.
#[derive(Default)]
pub(crate) struct SegmentInfo {
    /// Bytes in use.
    pub(crate) used: u32,
    /// When the first of them came.
    pub(crate) since: Option<Instant>,
    /// Components that it holds entries of; what of them matters is in [`crate::log::lowest`].
    pub(crate) serials: Vec<u32>,
    /// Highest lsn of each component in it with which something was said about requests.
    pub(crate) marked: Vec<(u32, Lsn)>,
    /// It holds entries of a component that nobody knows and that a device may need which is out
    /// ([`crate::devices::out`]): it stays, and all behind it.
    pub(crate) is_held: bool,
}

/// What the summary of the open segment will say.
#[derive(Default)]
pub(crate) struct OpenSegment {
    pub(crate) entries: Vec<LogEntry>,
    pub(crate) crcs: Vec<u32>,
    pub(crate) known: Vec<KnownCommit>,
    pub(crate) commits: u32,
    pub(crate) previous: u32,
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

    /// Whether a place is in a segment of the ring.
    pub(crate) fn is_in_segment(&self, place: LogPlace, segment: u64) -> bool {
        self.physical(place) as u64 == segment % u64::from(self.layout.segments)
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

    pub(crate) fn may_open_next(&self, is_move: bool) -> bool {
        let reserve = Self::SPARE + if is_move { 0 } else { Self::RESERVE };
        let used = self.head + 1 - self.tail + 1;
        used + reserve <= u64::from(self.layout.segments) && !self.is_next_read()
    }

    /// Whether somebody reads what the next segment held before.
    pub(crate) fn is_next_read(&self) -> bool {
        let next = ((self.head + 1) % u64::from(self.layout.segments)) as usize;
        self.pins[next] > 0 && !self.mutations.skip_pins()
    }

    /// Closes the open segment and opens the next; the summary to write, if there is room for it.
    pub(crate) fn turn_over(&mut self, pool: &env::Pool) -> Option<(u64, Slice)> {
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

    /// Takes all waiters of tickets up to `ticket`, in order.
    pub(crate) fn take_waiters(&mut self, ticket: u64) -> Vec<Waker> {
        let mut wakers = Vec::new();
        while self.ticket_done < ticket {
            self.ticket_done += 1;
            wakers.extend(self.waiters.pop_front().flatten());
        }
        wakers
    }

    /// Closes the open segment early so that it can drain; only while nothing is written.
    pub(crate) fn close_early(&mut self, pool: &env::Pool) -> Option<Option<(u64, Slice)>> {
        let is_quiet = !self.is_writing && self.build.is_empty() && self.moves.is_empty();
        (is_quiet && self.offset > 0 && self.may_open_next(false)).then(|| self.turn_over(pool))
    }
}
