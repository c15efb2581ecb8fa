// SPDX-License-Identifier: Apache-2.0
//! The ring of segments: where they are, which are needed, which is written next.

use crate::log::Log;
use crate::log::build::to_usize;
use crate::log::index::LogPlace;
use base::{Instant, Lsn};
use env::Slice;
use format::{KnownCommit, LogEntry, Summary};

/// A segment that is needed.
#[derive(Default)]
pub(crate) struct SegmentInfo {
    /// Bytes in use.
    pub(crate) used: u32,
    /// When the first of them came.
    pub(crate) since: Option<Instant>,
    /// Components that it holds entries of; what of them matters is in [`crate::log::lowest`].
    pub(crate) serials: Vec<u32>,
    /// Chunks of components of which it has an entry that names a staged chunk.
    pub(crate) staged: Vec<u64>,
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
    /// Bytes of the direct writes in it.
    pub(crate) direct: u64,
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

    /// What is known of a segment that is needed.
    pub(crate) fn segment(&self, number: u64) -> &SegmentInfo {
        &self.infos[to_usize(number - self.tail)]
    }

    pub(crate) fn segment_mut(&mut self, number: u64) -> &mut SegmentInfo {
        &mut self.infos[to_usize(number - self.tail)]
    }

    /// What is known of all segments that are needed, the oldest first.
    pub(crate) fn segments(&self) -> impl DoubleEndedIterator<Item = &SegmentInfo> {
        self.infos.iter()
    }

    pub(crate) fn segments_mut(&mut self) -> impl Iterator<Item = &mut SegmentInfo> {
        self.infos.iter_mut()
    }

    /// Opening found segments from `oldest` to `open`; nothing is known of them yet.
    pub(crate) fn restore(&mut self, oldest: u64, open: u64) {
        (self.tail, self.head) = (oldest, open);
        self.infos.resize_with(to_usize(open - oldest) + 1, SegmentInfo::default);
    }

    /// Appends go on behind this commit, of which opening says the sequence and the checksum.
    pub(crate) fn go_on_behind(&mut self, sequence: u64, checksum: u32) {
        (self.sequence, self.previous) = (sequence + 1, checksum);
    }

    /// They go on in the open segment, of which so many bytes are used.
    pub(crate) fn reopen(&mut self, used: u32, open: OpenSegment) {
        (self.offset, self.open) = (used, open);
    }

    /// A commit of so many bytes is durable there, and none is in flight.
    pub(crate) fn completed(&mut self, segment: u64, offset: u64, bytes: usize) {
        let start = u32::try_from(offset - self.segment_start(segment)).unwrap_or(u32::MAX);
        let since = self.last_append;
        let info = self.segment_mut(segment);
        info.used = info.used.max(start + bytes as u32);
        info.since.get_or_insert(since);
        (self.is_moving, self.is_writing) = (false, false);
    }

    /// The oldest segment may be written again: the components that it held entries of.
    pub(crate) fn free_oldest(&mut self, segment: u64) -> Vec<u32> {
        assert!(self.tail == segment, "segments are freed in order");
        self.tail = segment + 1;
        let info = self.infos.pop_front().unwrap_or_default();
        if !info.staged.is_empty() {
            self.leaving.push_back((segment, info.staged));
        }
        info.serials
    }

    /// A header that calls segments from `oldest` on needed is durable. No recovery reads an
    /// earlier one any more: the chunks of components that the next of those named as staged.
    pub(crate) fn next_left(&mut self, oldest: u64) -> Option<(u64, Vec<u64>)> {
        self.leaving.pop_front_if(|(segment, _)| *segment < oldest)
    }

    /// Whether a commit fits the open segment, direct writes counted as if they were in it.
    pub(crate) fn has_room(&self, length: u64, direct: u64) -> bool {
        let data = self.open.direct + direct;
        u64::from(self.offset) + length + data <= self.usable()
    }

    /// Somebody reads what a physical segment holds: it is not written meanwhile (store rule 11).
    pub(crate) fn pin(&mut self, physical: usize) {
        self.pins[physical] += 1;
    }

    pub(crate) fn unpin(&mut self, physical: usize) {
        self.pins[physical] -= 1;
    }

    /// Reads that hold segments, all in all.
    pub(crate) fn pinned(&self) -> u64 {
        self.pins.iter().map(|pins| u64::from(*pins)).sum()
    }

    /// A segment holds a discard or zeros.
    pub(crate) fn note_discard(&mut self, segment: u64) {
        self.last_discard = self.last_discard.max(Some(segment));
    }

    /// Whether one that is needed does.
    pub(crate) fn has_discards(&self) -> bool {
        self.last_discard.is_some_and(|segment| segment >= self.tail)
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

    /// Closes the open segment early so that it can drain; only while nothing is written.
    pub(crate) fn close_early(&mut self, pool: &env::Pool) -> Option<Option<(u64, Slice)>> {
        if self.build.is_empty() { self.close_for_room(pool) } else { None }
    }

    /// Closes the open segment because what waits finds no room before this one is destaged; only
    /// while nothing is written.
    pub(crate) fn close_for_room(&mut self, pool: &env::Pool) -> Option<Option<(u64, Slice)>> {
        let is_quiet = !self.is_writing && self.moves.is_empty();
        (is_quiet && self.offset > 0 && self.may_open_next(false)).then(|| self.turn_over(pool))
    }
}
