// SPDX-License-Identifier: Apache-2.0
//! Rotten blocks of a closed segment, as destage meets them.
//!
//! **A header.** Destage needs nothing of it that is not in memory. The index knows each live block
//! of the segment: its place, its checksum and its lsn. Clears are kept with their chunks, and
//! requests above K in the tails of their components. The segment is destaged by these.
//!
//! **Data.** Rotten data goes to capacity with the checksum that it should have. From then on the
//! block is bad there, like any other bad block: it is read from another copy and written again.
//!
//! **Data that has to move.** Rotten data must not be moved to the log's head. The next recovery
//! would take a commit whose payload does not match its checksums for a torn one, and drop
//! whatever else was moved in it. So the block is made bad on capacity instead. All of it becomes
//! bad, even if the log held only a part. If the data is above K, its segment waits for K, for a
//! while. The group is fenced if K does not rise in time, if a discard that is still in the log
//! hides the block, if the log holds another part of the block, or if no chunk is free.
//!
//! Why another part is too much: it may be older than the rotten part. It can stand later in the
//! log all the same, because it was moved there, or it is in the same segment and about to be
//! moved. A part is moved whole, with the sectors that the rotten part had overwritten. A recovery
//! that finds it alone would take those sectors for the newest.

use super::batch::{DestageBatch, Found};
use super::wait::wait;
use crate::keys::{block_key, chunk_key, chunk_of_block};
use crate::log::build::to_usize;
use crate::log::index::{IndexPiece, LogPlace, LogView};
use crate::log::queue::{Move, Still};
use crate::standing::WaitsFor;
use crate::state::{GroupInner, GroupState};
use crate::types::GroupError;
use base::{
    BLOCK_SECTORS, BLOCK_SIZE, CHUNK_BLOCKS, CHUNK_SECTORS, Instant, Lsn, SECTOR_SIZE, SectorRange,
    crc32c,
};
use format::{EntryKind, FormatError, LogEntry};
use std::ops::Range;
use std::time::Duration;

/// How long a segment that holds rotten data above K waits for K. K of an active component rises
/// within a second. K of a component that is away may stay, and appends need the room.
const K_WAIT: Duration = Duration::from_secs(5);
/// Of a segment whose headers are not known, one request above K may go ahead for each of so many
/// bytes of a segment. A mark has 40 bytes, so the marks fill at most half a segment.
const OPEN_BYTES: u64 = 80;

/// Chunks, and blocks of chunks that the log holds, that are looked at between two rests.
const LOOKS: u64 = 768;

/// A live entry, where it stands, and the checksum of its data.
type Alive = (LogPlace, LogEntry, Option<u32>);

/// What is live in a segment by what is in memory, in the order of its places.
///
/// This looks at all chunks of each component that has entries in the segment, in turns of bounded
/// length. Nothing is missed between two turns: a closed segment gets no new entries. An entry may
/// be superseded before it is written. That is found out as for any other segment (store rule 7).
pub(super) async fn known(inner: &GroupInner, segment: u64) -> Option<(Vec<Found>, Vec<LogEntry>)> {
    let (serials, first, end) = {
        let state = inner.state.borrow();
        let info = state.log.segment(segment);
        let sector = |bytes| state.log.sector(segment, bytes);
        (info.serials.clone(), sector(0), sector(state.log.usable()))
    };
    let mut all: Vec<Alive> = Vec::new();
    for serial in serials {
        let mut chunk = 0;
        loop {
            let mut looks = 0;
            {
                let state = inner.state.borrow();
                // It may be deleted by now.
                let sectors = state.store.components.get(serial).map_or(0, |c| c.row.sectors);
                while looks < LOOKS && chunk < sectors.div_ceil(CHUNK_SECTORS) {
                    looks += state.alive_in_chunk((serial, chunk), first..end, &mut all);
                    chunk += 1;
                }
            }
            if looks == 0 {
                break;
            }
            inner.env.spend_steps(looks).await;
        }
    }
    all.sort_by_key(|(place, entry, _)| (place.sector(), entry.serial, entry.range.start));
    let found = all.into_iter().map(|(place, entry, crc)| {
        let at = u64::from(place.sector() - first) * SECTOR_SIZE;
        Found { entry, at, crcs: wire::Crcs::new(crc.as_slice()) }
    });
    let found = found.collect();
    let named = inner.state.borrow().all_open();
    named.map(|named| (found, named))
}

impl GroupState {
    /// What of a chunk is live at `places` of the log; how many looks that took.
    fn alive_in_chunk(
        &self,
        (serial, chunk): (u32, u64),
        places: Range<u32>,
        all: &mut Vec<Alive>,
    ) -> u64 {
        let Some(over) = self.log.over(chunk_key(serial, chunk)) else { return 1 };
        let is_mine = |place: LogPlace| places.contains(&place.sector());
        let staged = self.store.staged(chunk_key(serial, chunk)).map(|staged| staged.chunk);
        if let Some((place, lsn)) = over.cleared.filter(|(place, _)| is_mine(*place)) {
            let range = SectorRange::new(chunk * CHUNK_SECTORS, CHUNK_SECTORS);
            all.push((place, self.entry(serial, EntryKind::Discard, range, Lsn(lsn)), None));
        }
        if over.live == 0 {
            return 1;
        }
        for block in chunk * CHUNK_BLOCKS..(chunk + 1) * CHUNK_BLOCKS {
            let mut add = |piece: &IndexPiece| {
                if !is_mine(piece.place) {
                    return;
                }
                let start = block * BLOCK_SECTORS + u64::from(piece.start);
                let range = SectorRange::new(start, u64::from(piece.count));
                let (kind, crc) = match staged {
                    _ if piece.place.is_zero() => (EntryKind::Zero, None),
                    Some(chunk) if piece.place.is_direct() => {
                        (EntryKind::Direct { chunk }, Some(piece.crc))
                    }
                    _ => (EntryKind::Data, Some(piece.crc)),
                };
                all.push((piece.place, self.entry(serial, kind, range, Lsn(piece.lsn)), crc));
            };
            match self.log.index.get(block_key(serial, block)) {
                None => {}
                Some(LogView::Whole(piece)) => add(&piece),
                Some(LogView::Parts(parts)) => parts.pieces.iter().for_each(add),
            }
        }
        CHUNK_BLOCKS
    }

    /// An entry as it would be written again.
    fn entry(&self, serial: u32, kind: EntryKind, range: SectorRange, lsn: Lsn) -> LogEntry {
        // Memory does not tell which entries are copies. If the log holds any copy for the
        // component, each entry counts as one.
        let is_copy = self.store.has_copies(serial, self.log.tail);
        LogEntry { serial, kind, is_moved: false, is_copy, range, lsn, payload: 0, id: None }
    }

    /// Requests above K, in whatever segment they are; `None` where they are too many.
    fn all_open(&self) -> Option<Vec<LogEntry>> {
        let mut open = Vec::new();
        for serial in self.store.components.serials() {
            let Some(component) = self.store.components.get(serial) else { continue };
            let named = component.tail.iter().filter(|tail| tail.id.is_some());
            open.extend(named.map(|tail| {
                let entry = self.entry(serial, EntryKind::Done, tail.range, tail.lsn);
                LogEntry { id: tail.id, ..entry }
            }));
        }
        (open.len() as u64 <= self.log.usable() / OPEN_BYTES).then_some(open)
    }
}

/// Takes rotten data out of the batch's moves and plans writes that make its blocks bad on
/// capacity. Rotten data above K is left alone: returns whether there is any.
///
/// # Errors
/// [`GroupError::Corrupt`]: a block cannot be made bad on capacity, or not now. Either the entry is
/// no plain block of the log, or a discard still hides it, or the log holds another part of the
/// block, or no chunk is free.
pub(super) fn condemn(
    inner: &GroupInner,
    segment: u64,
    bytes: &[u8],
    batch: &mut DestageBatch,
) -> Result<bool, GroupError> {
    let refused = || inner.damaged_segment(segment, FormatError::Checksum);
    let is_rotten = |moved: &mut Move| {
        moved.kind == EntryKind::Data && moved.crcs.first() != Some(&crc32c(&moved.payload))
    };
    let rotten: Vec<Move> = batch.moves.extract_if(.., is_rotten).collect();
    if rotten.is_empty() {
        return Ok(false);
    }
    let mut state = inner.state.borrow_mut();
    let start = state.log.sector(segment, 0);
    let (moves, mut has_open) = (batch.moves.len(), false);
    for moved in rotten {
        let Still::Live(key, place) = moved.still else { return Err(refused()) };
        let block = moved.range.start / BLOCK_SECTORS;
        let Some(component) = state.store.components.get(moved.serial) else { continue };
        let (device, commit) = (component.device, component.row.commit);
        if moved.lsn > commit {
            has_open = true;
            continue;
        }
        if state.log.is_cleared_elsewhere(chunk_of_block(key), segment) {
            return Err(refused());
        }
        if state.log.has_other_pieces(key, place) {
            return Err(refused());
        }
        if batch.writes[device].iter().any(|write| write.key == key) {
            continue; // the next round's
        }
        base::hit(base::Probe::DestageCondemned);
        state.counters.rotten += 1;
        // The bytes do not matter. The checksum is the inverse of theirs, so it never matches.
        let at = u64::from(place.sector() - start) * SECTOR_SIZE / BLOCK_SIZE * BLOCK_SIZE;
        let from = to_usize(at);
        let crc = !crc32c(&bytes[from..from + to_usize(BLOCK_SIZE)]);
        let range = SectorRange::new(block * BLOCK_SECTORS, BLOCK_SECTORS);
        let entry = state.entry(moved.serial, EntryKind::Data, range, moved.lsn);
        let found = Found { entry, at, crcs: wire::Crcs::new(&[crc]) };
        state.plan_block(&found, device, block, place, bytes, batch);
        if batch.moves.len() > moves {
            return Err(refused());
        }
    }
    for writes in &mut batch.writes {
        writes.sort_unstable_by_key(|write| (write.chunk, write.block));
    }
    Ok(has_open)
}

/// Waits until K may have risen, all in all as long as [`K_WAIT`].
///
/// # Errors
/// [`GroupError::Corrupt`]: it did not.
pub(super) async fn wait_for_k(
    inner: &GroupInner,
    segment: u64,
    until: &mut Option<Instant>,
) -> Result<(), GroupError> {
    let now = inner.env.now();
    let until = *until.get_or_insert(now + K_WAIT);
    if now >= until {
        return Err(inner.damaged_segment(segment, FormatError::Checksum));
    }
    let kick = inner.destage_kick.wait();
    inner.check_open()?;
    wait(inner, kick, WaitsFor::Commit, Some(until)).await;
    Ok(())
}
