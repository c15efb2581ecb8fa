// SPDX-License-Identifier: Apache-2.0
//! A check of everything that a group keeps in memory against itself; for tests and campaigns.
//!
//! Every chunk of a device has exactly one place: allocated, free, or freed and waiting for its
//! discard. Destage takes chunks out of the last two for a while (`Audit::in_transit`); right after
//! opening and at rest there are none, and a chunk that stays away is a leak. Reads nothing from
//! the devices, so that what it says after an opening is what recovery made of them.

use crate::keys::{chunk_key, chunk_of_block, serial_of};
use crate::log::Log;
use crate::log::index::LogPlace;
use crate::log::ring::SegmentInfo;
use crate::state::DiskGroup;
use crate::state::{CapacityDevice, GroupState};
use crate::store::capacity::CapacityState;
use crate::store::space::Space;
use base::{CHUNK_SIZE, Map, Set};
use format::{CapacityLayout, NO_COMPONENT};
use std::ops::Range;
use thiserror::Error;

/// Bytes of an item of the journal.
const ITEM_SIZE: u64 = 24;

/// What an audit counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Chunks of all devices.
    pub chunks: u64,
    /// Those that belong to a component.
    pub allocated: u64,
    /// Those that are free, also where their discard is yet to come.
    pub free: u64,
    /// Those that destage has in hand or that are being discarded: none after opening and at rest.
    pub in_transit: u64,
    /// Those that direct writes have filled and that the log names: they are in no map.
    pub staged: u64,
    /// Set aside for chunks that only the log holds.
    pub reserved: u64,
    /// Kept for the reserves of components beyond what these have taken.
    pub promised: u64,
    /// Blocks in the index.
    pub indexed: u64,
    /// Segments that are needed.
    pub segments: u64,
    /// Appends that are not durable yet.
    pub pending: u64,
    /// Reads that hold a segment.
    pub pins: u64,
}

/// What does not fit together.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Inconsistency {
    /// one chunk has two places
    #[error("chunk {chunk} of device {device} is in two places")]
    ChunkTwice {
        /// Which device.
        device: usize,
        /// Which chunk.
        chunk: u32,
    },
    /// the map gives a chunk to a component that does not have it
    #[error("chunk {chunk} of device {device} belongs to {serial}, which does not know it")]
    ChunkUnknown {
        /// Which device.
        device: usize,
        /// Which chunk.
        chunk: u32,
        /// Serial that the map says.
        serial: u32,
    },
    /// components know chunks that the map does not give them
    #[error("components know {known} chunks, maps say {mapped}")]
    ChunksKnown {
        /// As components know.
        known: u64,
        /// As maps say.
        mapped: u64,
    },
    /// chunks are lost: neither of a component nor free nor on their way
    #[error("device {device} has {chunks} chunks, and knows where {known} are")]
    ChunksLost {
        /// Which device.
        device: usize,
        /// All.
        chunks: u64,
        /// Those that are somewhere.
        known: u64,
    },
    /// the books of a device do not give what the maps say, or do not add up to its size
    #[error("the books of device {device}, {size} bytes, are wrong: {space:?}")]
    Books {
        /// Which device.
        device: usize,
        /// Its size.
        size: u64,
        /// Its books.
        space: Space,
    },
    /// a component counts more or fewer chunks than it has
    #[error("component {serial} has {found} chunks and counts {counted}")]
    Held {
        /// Serial.
        serial: u32,
        /// Found.
        found: u64,
        /// As counted.
        counted: u64,
    },
    /// more or fewer chunks are promised than components have in reserve
    #[error("device {device} promises {promised} chunks, components wait for {wanted}")]
    Promised {
        /// Which device.
        device: usize,
        /// Counted by the device.
        promised: u64,
        /// Of all components.
        wanted: u64,
    },
    /// more or fewer chunks are set aside than the log needs
    #[error("device {device} sets {reserved} chunks aside, the log needs {needed}")]
    Reserved {
        /// Which device.
        device: usize,
        /// Counted by the device.
        reserved: u64,
        /// Chunks of the log that say so.
        needed: u64,
    },
    /// an entry of the index points to where nothing is
    #[error("block {key:#x} is said to be at sector {sector} of the log: no live segment")]
    Dangling {
        /// Block key.
        key: u64,
        /// Where it points.
        sector: u32,
    },
    /// a chunk's count of blocks in the index is wrong
    #[error("chunk {key:#x} has {found} blocks in the index and counts {counted}")]
    Live {
        /// Chunk key.
        key: u64,
        /// In the index.
        found: u64,
        /// As counted.
        counted: u64,
    },
    /// side records of the index are lost or used twice
    #[error("{used} blocks in parts, {stored} side records, {listed} on the list of unused ones")]
    Parts {
        /// Entries that name one.
        used: usize,
        /// That exist.
        stored: usize,
        /// Unused ones.
        listed: usize,
    },
    /// more or fewer chunks are staged than a device counts
    #[error("device {device} counts {counted} staged chunks, {staged} are known")]
    Staged {
        /// Which device.
        device: usize,
        /// Known.
        staged: u64,
        /// As counted.
        counted: u64,
    },
    /// a block in the index is of a direct write, and no chunk is staged for it
    #[error("block {key:#x} is said to be staged, and no chunk is")]
    Unstaged {
        /// Block key.
        key: u64,
    },
    /// segments from tail to head and what is known about them differ
    #[error("{known} segments are known from {tail} to {head}")]
    Segments {
        /// Oldest.
        tail: u64,
        /// Open.
        head: u64,
        /// Known.
        known: usize,
    },
    /// a journal is beyond its bounds, or behind pages that hold later records
    #[error("the journal of device {device} is at {position}, record {sequence}")]
    Journal {
        /// Which device.
        device: usize,
        /// Bytes.
        position: u64,
        /// The next record.
        sequence: u64,
    },
    /// more changes of checksum pages are pending than the journal has, or of pages that are not
    #[error("device {device} has {changes} pending changes, the journal is at {position}")]
    Pending {
        /// Which device.
        device: usize,
        /// Of checksums.
        changes: u32,
        /// Bytes.
        position: u64,
    },
    /// a component and the table's row differ
    #[error("component {serial} is not what row {place} of device {device} says")]
    Row {
        /// Serial.
        serial: u32,
        /// Which device.
        device: usize,
        /// Which row.
        place: u32,
    },
    /// W, K and the highest lsn of a component contradict one another
    #[error("component {serial}: W {destaged:#x}, K {commit:#x}, highest {durable:#x}")]
    Marks {
        /// Serial.
        serial: u32,
        /// W.
        destaged: u64,
        /// K.
        commit: u64,
        /// Highest durable.
        durable: u64,
    },
    /// appends that wait and those that are counted differ
    #[error("{waiting} appends wait, {counted} are under way")]
    Waiting {
        /// Wakers.
        waiting: u64,
        /// Tickets.
        counted: u64,
    },
    /// keys, queues and free lines of the read cache do not fit together
    #[error("the line table of the read cache contradicts itself")]
    LineTable,
    /// the parts of a hybrid group's cache device do not add up to its size
    #[error("the parts of the cache device are not its {size} bytes")]
    CacheBooks {
        /// Its size.
        size: u64,
    },
    /// a line is not of a chunk of a component, or knows something else than that
    #[error("read cache line {line} is not what chunk {chunk} of device {device} is")]
    Line {
        /// Which line.
        line: u32,
        /// Which device.
        device: usize,
        /// Which chunk.
        chunk: u32,
    },
    /// chunks count appends that are not there
    #[error("nothing is under way, and chunk {key:#x} counts {queued} entries")]
    Queued {
        /// Chunk key.
        key: u64,
        /// As counted.
        queued: u64,
    },
}

/// A segment of the log, for who plants damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSegment {
    /// Its absolute number.
    pub number: u64,
    /// The cache device's id, which is in all headers.
    pub device: u64,
    /// Its first byte on the cache device.
    pub start: u64,
    /// Bytes of it that commits take.
    pub used: u32,
    /// Where its summary is on the cache device.
    pub summary: Range<u64>,
}

fn segment(log: &Log, number: u64, info: &SegmentInfo) -> LogSegment {
    let start = log.segment_start(number);
    let summary = start + log.usable()..start + log.layout.segment_size;
    LogSegment { number, device: log.device, start, used: info.used, summary }
}

impl DiskGroup {
    /// Where the newest commit of the log or the newest record of a device's journal is: in the
    /// open segment, or in 64 KiB. Damage there looks like what power loss leaves.
    #[must_use]
    pub fn newest_writes(&self, path: &str) -> Range<u64> {
        let inner = self.shared();
        let state = inner.state.borrow();
        let device = inner.devices.iter().position(|device| device.path == path);
        match device {
            Some(at) => {
                let (layout, journal) =
                    (&inner.devices[at].layout, &state.store.capacity[at].journal);
                let start = layout.journal_start + journal.half * layout.half_size();
                let end = start + journal.position;
                end.saturating_sub(64 << 10).max(start)..end
            }
            None => {
                let start = state.log.segment_start(state.log.head);
                start..start + u64::from(state.log.offset)
            }
        }
    }

    /// Closed segments of the log behind which something is durable, oldest first: damage in them
    /// is in the middle of the log, whatever happens next.
    #[must_use]
    pub fn closed_segments(&self) -> Vec<LogSegment> {
        let state = self.shared().state.borrow();
        let log = &state.log;
        let has_newer = log.segments().next_back().is_some_and(|open| open.used > 0);
        let end = if has_newer { log.head } else { log.head.saturating_sub(1).max(log.tail) };
        let closed = (log.tail..end).zip(log.segments());
        closed.map(|(number, info)| segment(log, number, info)).collect()
    }

    /// The open segment, as far as it is durable.
    #[must_use]
    pub fn open_segment(&self) -> Option<LogSegment> {
        let log = &self.shared().state.borrow().log;
        log.segments().next_back().map(|info| segment(log, log.head, info))
    }

    /// Checks everything in memory against itself. Costs time by the size of map and index.
    ///
    /// # Errors
    /// The first [`Inconsistency`].
    pub fn audit(&self) -> Result<Audit, Inconsistency> {
        let state = self.shared().state.borrow();
        let mut audit = Audit::default();
        state.audit_log(&mut audit)?;
        for (device, capacity) in state.store.capacity.iter().enumerate() {
            let handle = &self.shared().devices[device];
            let allocated = state.audit_chunks(device, capacity, &mut audit)?;
            if handle.is_out() {
                continue; // nothing is known of it, so nothing is counted
            }
            audit_books(device, capacity, handle, allocated)?;
            audit_journal(device, capacity, &handle.layout)?;
        }
        let known = state.store.chunks.bases().count() as u64;
        if known != audit.allocated {
            return Err(Inconsistency::ChunksKnown { known, mapped: audit.allocated });
        }
        state.audit_index(&mut audit)?;
        state.audit_overlays(&mut audit)?;
        state.audit_components()?;
        state.audit_held(&mut audit)?;
        state.audit_cache(&state.log.layout, self.shared().cache.info().size)?;
        Ok(audit)
    }
}

/// What a person is told of the space is what the map says, and leaves no byte out.
fn audit_books(
    device: usize,
    capacity: &CapacityState,
    handle: &CapacityDevice,
    allocated: u64,
) -> Result<(), Inconsistency> {
    let size = handle.disk().info().size;
    let space = capacity.space(&handle.layout, size);
    let is_right = space.total_bytes() == size
        && space.chunk_bytes() == u64::from(handle.layout.chunks) * CHUNK_SIZE
        && space.allocated_bytes == allocated * CHUNK_SIZE;
    if is_right { Ok(()) } else { Err(Inconsistency::Books { device, size, space }) }
}

fn audit_journal(
    device: usize,
    capacity: &CapacityState,
    layout: &CapacityLayout,
) -> Result<(), Inconsistency> {
    let journal = &capacity.journal;
    let pages = capacity.pages.iter().map(|cached| cached.page.applied);
    let applied = capacity.map_meta.iter().map(|meta| meta.applied).chain(pages).max();
    if journal.position > layout.half_size() || applied.is_some_and(|a| a >= journal.sequence) {
        let (position, sequence) = (journal.position, journal.sequence);
        return Err(Inconsistency::Journal { device, position, sequence });
    }
    // What is pending is in the journal, and of pages that there are.
    let ([closed, open], position) = (capacity.pending.changes(), journal.position);
    let last = capacity.pending.numbers().last().map_or(0, |number| u64::from(*number));
    let most = if journal.has_closed { layout.journal_size } else { 0 };
    let is_much = u64::from(open) * ITEM_SIZE > position || u64::from(closed) * ITEM_SIZE > most;
    if is_much || last >= layout.crc_pages().max(1) {
        return Err(Inconsistency::Pending { device, changes: closed + open, position });
    }
    Ok(())
}

impl GroupState {
    fn audit_log(&self, audit: &mut Audit) -> Result<(), Inconsistency> {
        let log = &self.log;
        let (tail, head, known) = (log.tail, log.head, log.segments().count());
        let segments = head + 1 - tail;
        if known as u64 != segments || segments > u64::from(log.layout.segments) {
            return Err(Inconsistency::Segments { tail, head, known });
        }
        let counted = log.ticket_last - log.ticket_done;
        let waiting = log.waiters();
        if waiting != counted && self.fenced.is_none() {
            return Err(Inconsistency::Waiting { waiting, counted });
        }
        audit.segments = segments;
        audit.pending = counted;
        audit.pins = log.pinned();
        Ok(())
    }

    fn audit_chunks(
        &self,
        device: usize,
        capacity: &CapacityState,
        audit: &mut Audit,
    ) -> Result<u64, Inconsistency> {
        let mut seen: Set<u32> = Set::new();
        for chunk in capacity.listed() {
            if !seen.insert(chunk) {
                return Err(Inconsistency::ChunkTwice { device, chunk });
            }
        }
        let (free, mut allocated) = (seen.len() as u64, 0);
        let staged = self.audit_owned(device, capacity, &mut seen)?;
        for (chunk, entry) in (0_u32..).zip(&capacity.map) {
            if entry.serial == NO_COMPONENT {
                continue;
            }
            allocated += 1;
            if !seen.insert(chunk) {
                return Err(Inconsistency::ChunkTwice { device, chunk });
            }
            let owner = self.store.components.get(entry.serial).filter(|c| c.device == device);
            let base = self.store.base(chunk_key(entry.serial, u64::from(entry.index)));
            let is_known = owner.is_some() || self.store.deleted_from(entry.serial).is_some();
            if !is_known || base != Some(chunk) {
                let serial = entry.serial;
                return Err(Inconsistency::ChunkUnknown { device, chunk, serial });
            }
        }
        let in_transit = capacity.in_transit();
        let known = allocated + free + in_transit + staged;
        let chunks = capacity.map.len() as u64;
        if chunks != known {
            return Err(Inconsistency::ChunksLost { device, chunks, known });
        }
        audit.chunks += chunks;
        audit.allocated += allocated;
        audit.free += free;
        audit.in_transit += in_transit;
        audit.staged += staged;
        Ok(allocated)
    }

    fn audit_held(&self, audit: &mut Audit) -> Result<(), Inconsistency> {
        let mut held: Map<u32, u64> = Map::new();
        for key in self.store.chunks.bases().chain(self.store.chunks.asides()) {
            *held.entry(serial_of(key)).or_default() += 1;
        }
        let mut wanted = vec![0; self.store.capacity.len()];
        for serial in self.store.components.serials() {
            let Some(component) = self.store.components.get(serial) else { continue };
            let (found, counted) =
                (held.get(&serial).copied().unwrap_or(0), u64::from(component.held));
            if found != counted {
                return Err(Inconsistency::Held { serial, found, counted });
            }
            wanted[component.device] += component.promised();
        }
        for (device, (capacity, wanted)) in self.store.capacity.iter().zip(wanted).enumerate() {
            let promised = capacity.promised;
            if promised != wanted {
                return Err(Inconsistency::Promised { device, promised, wanted });
            }
            audit.promised += promised;
        }
        Ok(())
    }

    /// Whether a place lies in what a needed segment uses.
    fn is_in_log(&self, place: LogPlace) -> bool {
        let log = &self.log;
        let segments = u64::from(log.layout.segments);
        let at = u64::from(place.sector()) * 512;
        let (physical, within) = (at / log.layout.segment_size, at % log.layout.segment_size);
        let number = log.tail + (physical + segments - log.tail % segments) % segments;
        let used = match number == log.head {
            true => Some(log.offset),
            false => log.segments().nth((number - log.tail) as usize).map(|info| info.used),
        };
        used.is_some_and(|used| within < u64::from(used))
    }

    fn audit_index(&self, audit: &mut Audit) -> Result<(), Inconsistency> {
        let mut live: Map<u64, u64> = Map::new();
        let mut in_parts = 0;
        for (key, places) in self.log.index.entries() {
            *live.entry(chunk_of_block(key)).or_default() += 1;
            audit.indexed += 1;
            in_parts += usize::from(places.is_parts);
            // Until a deleted component's chunks are given back nobody looks where its blocks were.
            let is_deleted = self.store.deleted_from(serial_of(chunk_of_block(key))).is_some();
            let is_gone = |place: &&LogPlace| !is_deleted && !self.is_in_log(**place);
            if let Some(place) = places.all.iter().find(is_gone) {
                return Err(Inconsistency::Dangling { key, sector: place.sector() });
            }
        }
        self.audit_staged()?;
        let (stored, listed) = self.log.index.side_records();
        if in_parts + listed != stored {
            return Err(Inconsistency::Parts { used: in_parts, stored, listed });
        }
        for (key, over) in self.log.overlays() {
            let found = live.remove(&key).unwrap_or(0);
            if self.store.deleted_from(serial_of(key)).is_some() {
                continue;
            }
            if found != u64::from(over.live) {
                return Err(Inconsistency::Live { key, found, counted: u64::from(over.live) });
            }
        }
        match live.into_iter().next() {
            // Of a component that is being deleted: they go with its chunks.
            Some((key, found)) if self.store.deleted_from(serial_of(key)).is_none() => {
                Err(Inconsistency::Live { key, found, counted: 0 })
            }
            _ => Ok(()),
        }
    }

    fn audit_overlays(&self, audit: &mut Audit) -> Result<(), Inconsistency> {
        let mut needed = vec![0_u64; self.store.capacity.len()];
        for key in self.store.chunks.asides().filter(|key| self.log.over(*key).is_some()) {
            let known = self.store.components.get(serial_of(key)).map(|c| c.device);
            if let Some(device) = known.or_else(|| self.store.deleted_from(serial_of(key))) {
                needed[device] += 1;
            }
        }
        for (key, over) in self.log.overlays() {
            if self.store.components.get(serial_of(key)).is_none() {
                continue;
            }
            if let Some((place, _)) = over.cleared
                && !self.is_in_log(place)
            {
                return Err(Inconsistency::Dangling { key, sector: place.sector() });
            }
            if audit.pending == 0 && over.queued > 0 {
                return Err(Inconsistency::Queued { key, queued: u64::from(over.queued) });
            }
        }
        for (device, needed) in needed.into_iter().enumerate() {
            let reserved = u64::from(self.store.capacity[device].reserved);
            if reserved != needed {
                return Err(Inconsistency::Reserved { device, reserved, needed });
            }
            audit.reserved += reserved;
        }
        Ok(())
    }

    fn audit_components(&self) -> Result<(), Inconsistency> {
        for serial in self.store.components.serials() {
            let Some(component) = self.store.components.get(serial) else { continue };
            let (row, device, place) = (&component.row, component.device, component.place);
            let known = self.store.capacity.get(device).and_then(|c| c.rows.get(place as usize));
            let is_right = row.serial == serial
                && serial < self.store.serial_next
                && self.store.components.serial(row.id) == Some(serial)
                && known.is_some_and(|known| known.serial == serial);
            if !is_right {
                return Err(Inconsistency::Row { serial, device, place });
            }
            let (destaged, commit, durable) = (row.destaged.0, row.commit.0, row.durable.0);
            if destaged > durable || destaged > commit || component.destaged_logged.0 > destaged {
                return Err(Inconsistency::Marks { serial, destaged, commit, durable });
            }
        }
        Ok(())
    }
}
