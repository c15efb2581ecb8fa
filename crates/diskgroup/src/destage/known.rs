// SPDX-License-Identifier: Apache-2.0
//! Rotten blocks of a closed segment, as destage meets them.
//!
//! **A header.** Nothing of it is needed that is not in memory: the index knows of every block that
//! is live in the segment where it stands, its checksum and its lsn; clears stand with their
//! chunks, and requests above K in the components' tails. So the segment is destaged by those.
//!
//! **Data.** It goes to capacity with the checksum that it should have, and is bad there from then
//! on: read from another copy, and written again. What has to be moved to the log's head must not
//! take that way, for a commit whose payload does not match its checksums is a torn one for the
//! next recovery, and what was moved along with it would be dropped. So the block becomes bad on
//! capacity at once, all of it, also where the log held a part. What is above K waits for K, and
//! its segment with it, for a while. Where that does not help, or a discard that is still in the
//! log hides the block, or no chunk is free, destage ends.

use super::*;

/// How long a segment waits for K that holds rotten data above it: an active component's K rises
/// within a second; that of one that is away may stay, and appends need the room.
const K_WAIT: Duration = Duration::from_secs(5);
/// Requests above K that may go ahead of a segment whose headers are not known: their marks, of 40
/// bytes, fill half of one. One for each of so many bytes of a segment.
const OPEN_BYTES: u64 = 80;

/// What is live in a segment by what is in memory, in the order of its places.
pub(super) fn known(inner: &Inner, segment: u64) -> Option<(Vec<Found>, Vec<Entry>)> {
    let state = inner.state.borrow();
    let first = state.log.sector(segment, 0);
    let end = state.log.sector(segment, state.log.usable());
    let is_mine = |place: Place| (first..end).contains(&place.sector());
    let mut all: Vec<(Place, Entry, Vec<u32>)> = Vec::new();
    for (key, places) in state.index.entries() {
        if !places.all.into_iter().any(is_mine) {
            continue;
        }
        let (serial, block) = ((key >> 40) as u32, key & ((1 << 40) - 1));
        let pieces = match state.index.get(key) {
            None => continue,
            Some(View::Whole(piece)) => vec![piece],
            Some(View::Parts(parts)) => parts.pieces.clone(),
        };
        for piece in pieces.into_iter().filter(|piece| is_mine(piece.place)) {
            let start = block * BLOCK_SECTORS + u64::from(piece.start);
            let range = SectorRange::new(start, u64::from(piece.count));
            let (kind, crcs) = match piece.place.is_zero() {
                true => (EntryKind::Zero, Vec::new()),
                false => (EntryKind::Data, vec![piece.crc]),
            };
            all.push((piece.place, state.entry(serial, kind, range, Lsn(piece.lsn)), crcs));
        }
    }
    for (key, over) in state.chunks.overlays() {
        let Some((place, lsn)) = over.cleared.filter(|(place, _)| is_mine(*place)) else {
            continue;
        };
        let start = (key & u64::from(u32::MAX)) * CHUNK_SECTORS;
        let range = SectorRange::new(start, CHUNK_SECTORS);
        let entry = state.entry((key >> 32) as u32, EntryKind::Discard, range, Lsn(lsn));
        all.push((place, entry, Vec::new()));
    }
    all.sort_by_key(|(place, entry, _)| (place.sector(), entry.serial, entry.range.start));
    let found = all.into_iter().map(|(place, entry, crcs)| {
        let at = u64::from(place.sector() - first) * SECTOR_SIZE;
        Found { entry, at, crcs: wire::Crcs::new(&crcs) }
    });
    let found = found.collect();
    state.all_open().map(|named| (found, named))
}

impl State {
    /// An entry as it would be written again.
    fn entry(&self, serial: u32, kind: EntryKind, range: SectorRange, lsn: Lsn) -> Entry {
        // Any of them may be one.
        let is_copy = self.has_copies(serial, 0);
        Entry { serial, kind, is_moved: false, is_copy, range, lsn, payload: 0, id: None }
    }

    /// Requests above K, in whatever segment they are; `None` where they are too many.
    fn all_open(&self) -> Option<Vec<Entry>> {
        let mut open = Vec::new();
        for serial in self.components.serials() {
            let Some(component) = self.components.get(serial) else { continue };
            let named = component.tail.iter().filter(|tail| tail.id.is_some());
            open.extend(named.map(|tail| {
                let entry = self.entry(serial, EntryKind::Done, tail.range, tail.lsn);
                Entry { id: tail.id, ..entry }
            }));
        }
        (open.len() as u64 <= self.log.usable() / OPEN_BYTES).then_some(open)
    }
}

/// Takes what rotted out of what is to be moved, and makes its blocks bad on capacity; those that
/// are above K stay as they are: whether there are any.
///
/// # Errors
/// [`GroupError::Corrupt`]: that may not be, or not now.
pub(super) fn condemn(
    inner: &Inner,
    segment: u64,
    bytes: &[u8],
    batch: &mut Batch,
) -> Result<bool, GroupError> {
    let refused = || rotten(inner, segment);
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
        let Some(component) = state.components.get(moved.serial) else { continue };
        let (device, commit) = (component.device, component.row.commit);
        if moved.lsn > commit {
            has_open = true;
            continue;
        }
        if state.is_cleared_elsewhere(moved.serial, block, segment) {
            return Err(refused());
        }
        if batch.writes[device].iter().any(|write| write.key == key) {
            continue; // the next round's
        }
        base::hit(base::Probe::DestageCondemned);
        state.counters.rotten += 1;
        // Whatever stands there, with a checksum that it does not have.
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

/// What destage can do nothing about.
fn rotten(inner: &Inner, segment: u64) -> GroupError {
    GroupError::Corrupt {
        device: inner.cache_path.clone(),
        structure: crate::types::Structure::Segment(segment),
        source: format::FormatError::Checksum,
    }
}

/// Waits until K may have risen, all in all as long as [`K_WAIT`].
///
/// # Errors
/// [`GroupError::Corrupt`]: it did not.
pub(super) async fn wait_for_k(
    inner: &Inner,
    segment: u64,
    until: &mut Option<Instant>,
) -> Result<(), GroupError> {
    let now = inner.env.now();
    let until = *until.get_or_insert(now + K_WAIT);
    if now >= until {
        return Err(rotten(inner, segment));
    }
    let kick = inner.destage_kick.wait();
    inner.check_open()?;
    inner.state.borrow_mut().is_waiting_for_commit = true;
    wait(inner, kick, Some(until)).await;
    inner.state.borrow_mut().is_waiting_for_commit = false;
    Ok(())
}
