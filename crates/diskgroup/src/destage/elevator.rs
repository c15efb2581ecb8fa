// SPDX-License-Identifier: Apache-2.0
//! Destage of hybrid groups. A magnetic device is fastest when it writes in the order of its
//! addresses, and the more blocks are sorted together, the shorter the ways between them.
//!
//! The *window* is the oldest closed segments of the log, read into memory, as many as fit the
//! bounds below. The *sweep* goes over the addresses of the devices from the lowest to the highest,
//! again and again, and writes blocks of all segments in the window as it passes them. A segment
//! joins the window wherever the sweep is, and has been written when the sweep is there again. So
//! segments end one by one and not all at once, and room in the log is freed evenly.
//!
//! 1. One step of the sweep takes about as many blocks as one segment has, from the whole window.
//! 2. The blocks that the log holds whole, at or below K, are written with neighbours merged, and
//!    journaled (store rules 7 to 9). The log forgets them. Meanwhile the next segment is read.
//! 3. A segment over which the sweep has gone once is destaged like a segment of any other group,
//!    in its turn. Only parts of blocks, discards and what is above K are left of it by then.
//!
//! Why may step 2 write a block before an older segment is done? It takes a block only if nothing
//! older of that block is live, and no discard of its chunk is in the log. Each step looks at that
//! anew. What step 3 cannot write moves to the log's head, for which the room of one segment is
//! kept. W rises only when a segment is freed. What step 2 wrote early is above W until then, and
//! nobody is told that it is on capacity.

use super::apply::write_batch;
use super::batch::DestageBatch;
use super::segment::{Segment, Spot, read_back};
use super::whole::destage_segment;
use crate::keys::{block_key, chunk_key};
use crate::log::build::to_usize;
use crate::log::index::LogView;
use crate::pace::BufferPart;
use crate::state::{GroupInner, GroupState};
use crate::types::GroupError;
use base::{CHUNK_BLOCKS, CHUNK_SECTORS};
use env::{Slice, join};
use format::EntryKind;
use std::collections::VecDeque;
use std::rc::Rc;

/// The most bytes of the window's segments in memory.
const BYTES_MAX: usize = 32 << 20;
/// In a small ring the window has at most one in so many of its segments.
const RING_PART: u64 = 4;
/// The sweep goes over all devices at once. Its position is a fraction of each device in units of
/// 2^-32; the low bits, so many, are the block within a chunk.
const CHUNK_BITS: u32 = 8;
/// Set in the position of a chunk that has no place on capacity yet: the sweep comes to it last.
const FRESH: u64 = 1 << 63;

/// Segments that were read back: in a hybrid group those of the sweep, elsewhere the next one.
#[derive(Default)]
pub(super) struct Window {
    /// In the order of the log.
    pub(super) segments: VecDeque<Segment>,
    /// Where the sweep is: always at the first block of a chunk.
    cursor: u64,
}

/// One step of the sweep.
pub(super) async fn sweep(inner: &Rc<GroupInner>, window: &mut Window) -> Result<(), GroupError> {
    let oldest = inner.state.borrow().log.tail;
    if window.segments.front().is_none_or(|segment| segment.number != oldest) {
        let segment = read_back(inner, oldest).await?;
        *window = Window { cursor: window.cursor, ..Window::default() };
        window.take_on(inner, segment);
    }
    let batch = window.plan(inner);
    let next = window.next(inner, &inner.state.borrow());
    let read = async {
        match next {
            // If reading fails here, the segment's own turn meets the error.
            Some(next) => read_back(inner, next).await.ok(),
            None => None,
        }
    };
    let (written, read) = join(write_together(inner, &window.segments, batch), read).await;
    for source in written? {
        window.segments[source].written += 1;
    }
    if let Some(segment) = read {
        base::hit(base::Probe::DestageGathered);
        inner.state.borrow_mut().counters.gathered += 1;
        window.take_on(inner, segment);
    }
    while let Some(segment) = window.segments.pop_front_if(|segment| segment.spots.is_empty()) {
        destage_segment(inner, segment).await?;
    }
    Ok(())
}

impl Window {
    fn take_on(&mut self, inner: &GroupInner, mut segment: Segment) {
        let state = inner.state.borrow();
        for (number, found) in segment.found.iter().enumerate() {
            let entry = &found.entry;
            if entry.kind != EntryKind::Data {
                continue;
            }
            let Some(component) = state.store.components.get(entry.serial) else { continue };
            let key = chunk_key(entry.serial, entry.range.start / CHUNK_SECTORS);
            let chunks = u64::from(inner.devices[component.device].layout.chunks).max(1);
            let chunk = match state.store.base(key) {
                Some(chunk) => ((u64::from(chunk) << 32) / chunks) << CHUNK_BITS,
                None => FRESH | key << CHUNK_BITS,
            };
            segment.spots.extend(entry.range.blocks().map(|block| Spot {
                at: chunk | (block % CHUNK_BLOCKS),
                found: number,
                block,
            }));
        }
        segment.spots_all = segment.spots.len() as u64;
        drop(state);
        self.segments.push_back(segment);
    }

    /// The segment behind the window, if it is closed and there is room for it.
    fn next(&self, inner: &GroupInner, state: &GroupState) -> Option<u64> {
        let next = self.segments.back()?.number + 1;
        let staying = self.segments.iter().filter(|segment| !segment.spots.is_empty());
        let (count, bytes) = staying.fold((0, 0), |(n, sum), s| (n + 1, sum + s.bytes.len()));
        let has_room = bytes < BYTES_MAX && count < window_max(inner, state);
        (next < state.log.head && has_room && !state.log.segment(next).is_held).then_some(next)
    }

    /// Takes the next step's spots and plans what can be written of them.
    fn plan(&mut self, inner: &GroupInner) -> DestageBatch {
        let mut state = inner.state.borrow_mut();
        let mut batch = DestageBatch::new(inner);
        let most = match self.next(inner, &state) {
            Some(_) => window_max(inner, &state).min(to_usize(state.log.head - state.log.tail)),
            None => 1,
        };
        let last = self.step_end(most);
        let (size, mut part) = (state.log.layout.segment_size, BufferPart::default());
        for (source, segment) in self.segments.iter_mut().enumerate() {
            batch.source = source;
            let cursor = self.cursor;
            let is_passed = |spot: &mut Spot| spot.at.wrapping_sub(cursor) <= last;
            let passed: Vec<Spot> = segment.spots.extract_if(.., is_passed).collect();
            let before = segment.dealt;
            for spot in passed {
                segment.dealt += u64::from(state.plan_spot(segment, &spot, &mut batch));
            }
            part.bytes += segment.part(size, segment.dealt) - segment.part(size, before);
            part.data += segment.dealt - before;
        }
        self.cursor = self.cursor.wrapping_add(last).wrapping_add(1);
        // If no chunk is free, the block stays in the log until its segment's turn.
        batch.moves.clear();
        for writes in &mut batch.writes {
            writes.sort_unstable_by_key(|write| (write.chunk, write.block));
        }
        state.pace.begin(inner.env.now(), part, batch.blocks());
        batch
    }

    /// How far the next step goes. With a window of so many segments it takes as many spots as one
    /// segment has. While the window fills, steps are shorter, so that segments join it at
    /// different places.
    fn step_end(&self, window: usize) -> u64 {
        let all: u64 = self.segments.iter().map(|segment| segment.spots_all).sum();
        let most = to_usize(all / self.segments.len().max(window).max(1) as u64);
        let spots = self.segments.iter().flat_map(|segment| &segment.spots);
        let mut ahead: Vec<u64> = spots.map(|spot| spot.at.wrapping_sub(self.cursor)).collect();
        if most >= ahead.len() {
            return u64::MAX;
        }
        // To the end of the chunk: a fresh one is written in one piece.
        *ahead.select_nth_unstable(most).1 | ((1 << CHUNK_BITS) - 1)
    }
}

/// How many segments the window may have now. About half of the window is written but not free
/// yet, and one segment more just before the oldest is freed. A small ring needs that room for
/// appends. What is written is not counted in the fill here, so that the result does not swing with
/// what the window itself does.
fn window_max(inner: &GroupInner, state: &GroupState) -> usize {
    let ring = u64::from(state.log.layout.segments);
    let most = to_usize(ring / RING_PART).clamp(1, inner.options.limits.sweep_segments);
    let kept = inner.options.elevator_room * 1000;
    let room = (state.pace.room(state.fill()) * ring).saturating_sub(kept);
    if kept == 0 { most } else { most.min(to_usize(room * 2 / 1000) + 1) }
}

/// Step 2.
async fn write_together(
    inner: &Rc<GroupInner>,
    segments: &VecDeque<Segment>,
    mut batch: DestageBatch,
) -> Result<Vec<usize>, GroupError> {
    let sources: Vec<Slice> = segments.iter().map(|segment| segment.bytes.clone()).collect();
    let written = write_batch(inner, &mut batch, &sources).await?;
    let mut state = inner.state.borrow_mut();
    state.counters.destaged_blocks += written.len() as u64;
    for write in &written {
        state.forget_block(write.key, write.place);
    }
    state.pace.forgotten();
    Ok(written.iter().map(|write| write.source).collect())
}

impl GroupState {
    /// Plans the write of a block if it depends on nothing else in the log. Returns false where the
    /// block is left to its segment's own turn.
    fn plan_spot(&mut self, segment: &Segment, spot: &Spot, batch: &mut DestageBatch) -> bool {
        let found = &segment.found[spot.found];
        let entry = &found.entry;
        let Some(component) = self.store.components.get(entry.serial) else { return true };
        let (device, commit) = (component.device, component.row.commit);
        let key = block_key(entry.serial, spot.block);
        let place = found.place(self, segment.number, spot.block);
        if !self.log.index.is_live(key, place) {
            return true;
        }
        let chunk = chunk_key(entry.serial, entry.range.start / CHUNK_SECTORS);
        let is_cleared = self.log.over(chunk).is_some_and(|over| over.cleared.is_some());
        let is_whole = matches!(self.log.index.get(key), Some(LogView::Whole(_)));
        if !is_whole || is_cleared || entry.lsn > commit {
            return false;
        }
        self.plan_block(found, device, spot.block, place, &segment.bytes, batch);
        true
    }
}
