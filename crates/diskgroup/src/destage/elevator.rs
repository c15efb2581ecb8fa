// SPDX-License-Identifier: Apache-2.0
//! Destage of hybrid groups: magnetic devices want their writes in the order of their addresses,
//! and the more are sorted together, the shorter the ways between them.
//!
//! 1. The oldest closed segments are read back, as many as fit the bounds below.
//! 2. Blocks that the log holds whole, at or below K, are written together, sorted, neighbours
//!    merged, and journaled (store rules 7 to 9), and the log forgets them.
//! 3. Each segment is destaged in its turn, as ever: what is left of it are parts of blocks,
//!    discards and what is above K; then it is free.
//!
//! Why 2 may go ahead of what is left of older segments: it takes only blocks of which nothing
//! older is live, and of whose chunk no discard is. What is left may have to be moved to the log's
//! head, for which one segment's worth of room is kept: that, and freeing, goes on one by one. W
//! rises when a segment is freed, so what 2 brought to capacity early is beyond W as far as anybody
//! is told.

use super::*;

/// Segments that are destaged together, at most, and bytes of them in memory.
const SEGMENTS_MAX: u64 = 8;
const BYTES_MAX: usize = 32 << 20;
/// In small rings so large a part of them.
const RING_PART: u64 = 4;
/// Destages the oldest segment and some that follow it.
pub(super) async fn destage_several(inner: &Rc<Inner>, oldest: Segment) -> Result<(), GroupError> {
    let mut bytes = oldest.bytes.len();
    let mut segments = vec![oldest];
    while let Some(next) = next_of(inner, &segments).filter(|_| bytes < BYTES_MAX) {
        // Where reading fails, its own turn tells.
        let Ok(segment) = read_back(inner, next).await else { break };
        bytes += segment.bytes.len();
        segments.push(segment);
    }
    if segments.len() > 1 {
        base::hit(base::Probe::DestageGathered);
        inner.state.borrow_mut().counters.gathered += segments.len() as u64;
        write_together(inner, &mut segments).await?;
    }
    for segment in segments {
        destage_segment(inner, segment).await?;
    }
    Ok(())
}

/// The segment behind those that were gathered, if it is closed and may be taken too.
fn next_of(inner: &Inner, segments: &[Segment]) -> Option<u64> {
    let state = inner.state.borrow();
    let ring = u64::from(state.log.layout.segments);
    let room = u64::try_from(state.pace.room(state.fill())).unwrap_or(0) * ring / 1000;
    // None of them is free before all are written, and appends go on meanwhile, up to 1.6 blocks
    // for each that is destaged ([`crate::pace`]). Without this they stood still for seconds where
    // a small ring was full.
    let room = room.checked_div(inner.options.elevator_room).unwrap_or(u64::MAX);
    let most = (ring / RING_PART).min(room).clamp(1, SEGMENTS_MAX);
    let next = segments.last()?.number + 1;
    let at = usize::try_from(next - state.log.tail).unwrap_or(usize::MAX);
    let is_held = state.log.infos.get(at).is_some_and(|info| info.is_held);
    (next < state.log.head && !is_held && (segments.len() as u64) < most).then_some(next)
}

/// Step 2.
async fn write_together(inner: &Rc<Inner>, segments: &mut [Segment]) -> Result<(), GroupError> {
    let mut batch = plan_whole(inner, segments);
    let mut written: Vec<BlockWrite> = Vec::new();
    {
        let sources: Vec<Slice> = segments.iter().map(|segment| segment.bytes.clone()).collect();
        for device in 0..inner.devices.len() {
            written.extend(write_batch(inner, device, &mut batch, &sources).await?);
        }
    }
    let mut state = inner.state.borrow_mut();
    state.counters.destaged_blocks += written.len() as u64;
    for write in written {
        segments[write.source].written += 1;
        state.forget_block(write.key, write.place);
    }
    Ok(())
}

/// Blocks that depend on nothing else that is in the log.
fn plan_whole(inner: &Inner, segments: &[Segment]) -> Batch {
    let mut state = inner.state.borrow_mut();
    let devices = inner.devices.len();
    let mut batch = Batch::default();
    batch.writes.resize_with(devices, Vec::new);
    batch.items.resize_with(devices, Vec::new);
    for (source, segment) in segments.iter().enumerate() {
        batch.source = source;
        for found in segment.found.iter().filter(|found| found.entry.kind == EntryKind::Data) {
            let entry = &found.entry;
            let Some(component) = state.components.get(entry.serial) else { continue };
            let (device, commit) = (component.device, component.row.commit);
            let key = chunk_key(entry.serial, entry.range.start / CHUNK_SECTORS);
            let is_cleared = state.chunks.over(key).is_some_and(|over| over.cleared.is_some());
            if entry.lsn > commit || is_cleared {
                continue;
            }
            for block in entry.range.blocks() {
                let key = block_key(entry.serial, block);
                let place = found.place(&state, segment.number, block);
                let is_whole = matches!(state.index.get(key), Some(View::Whole(_)));
                if is_whole && state.index.is_live(key, place) {
                    state.plan_block(found, device, block, place, &segment.bytes, &mut batch);
                }
            }
        }
    }
    drop(state);
    // Where no chunk is free, the block stays in the log until its segment's turn.
    batch.moves.clear();
    for writes in &mut batch.writes {
        writes.sort_unstable_by_key(|write| (write.chunk, write.block));
    }
    batch
}
