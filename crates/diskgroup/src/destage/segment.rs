// SPDX-License-Identifier: Apache-2.0
//! Reading a segment back and finding its entries.

use super::batch::{Found, READ_BACK};
use super::known::known;
use crate::keys::{block_key, chunk_key};
use crate::log::build::to_usize;
use crate::log::index::LogPlace;
use crate::pace::BufferPart;
use crate::read::salvage::{Salvaged, is_bad_place, salvage};
use crate::state::{GroupInner, GroupState};
use crate::types::{GroupError, device_error};
use base::{BLOCK_SECTORS, CHUNK_SECTORS, SECTOR_SIZE};
use env::Buf;
use env::Slice;
use format::{Commit, EntryKind, FormatError, LogEntry};

/// A block of a segment over which the sweep has not gone.
pub(super) struct Spot {
    /// Its place in the order of the sweep: that of its chunk when the segment was read.
    pub(super) at: u64,
    /// Index of the entry in the segment.
    pub(super) found: usize,
    pub(super) block: u64,
}

/// A closed segment in memory.
pub(super) struct Segment {
    /// Its absolute number.
    pub(super) number: u64,
    pub(super) bytes: Slice,
    pub(super) found: Vec<Found>,
    /// Entries above K that name a client's request (rule 46).
    pub(super) named: Vec<LogEntry>,
    /// Blocks of the segment that the sweep wrote.
    pub(super) written: i64,
    /// The spots that the sweep of a hybrid group has not come to yet.
    pub(super) spots: Vec<Spot>,
    /// How many spots there were at first, and how many of them the sweep has dealt with.
    pub(super) spots_all: u64,
    pub(super) dealt: u64,
}

impl Segment {
    /// The part of `all` that stands for so many spots.
    pub(super) fn part(&self, all: u64, spots: u64) -> u64 {
        all * spots / self.spots_all.max(1)
    }

    /// What is left of it for its own turn. `size`: bytes that the segment takes in the ring.
    pub(super) fn rest(&self, size: u64) -> BufferPart {
        let data: u64 = self.found.iter().map(|found| found.crcs.len() as u64).sum();
        BufferPart {
            bytes: size - self.part(size, self.dealt),
            data: data.saturating_sub(self.dealt),
        }
    }
}

/// Reads the segment behind the oldest one while the oldest is destaged, so that destage never
/// stands still for a read (docs/store.md). Returns nothing if the segment is not closed yet, or if
/// destage is in no hurry. Nor does it if reading fails: the segment's own turn meets the error.
pub(super) async fn read_ahead(inner: &GroupInner, segment: u64) -> Option<Segment> {
    let is_wanted = {
        let state = inner.state.borrow();
        segment < state.log.head && state.pace.is_steady(state.fill())
    };
    if is_wanted { read_back(inner, segment).await.ok() } else { None }
}

/// Reads a closed segment and finds its entries.
pub(super) async fn read_back(inner: &GroupInner, segment: u64) -> Result<Segment, GroupError> {
    let (start, used) = {
        let state = inner.state.borrow();
        let info = state.log.segment(segment);
        (state.log.segment_start(segment), u64::from(info.used))
    };
    let bytes = read_used(inner, start, used).await?.freeze();
    let (found, named) = match parse(inner, segment, &bytes) {
        Ok(found) => found,
        Err(error) => {
            let found = known(inner, segment).await;
            base::hit(base::Probe::DestageUnheaded);
            inner.state.borrow_mut().counters.rotten += 1;
            found.ok_or(error)?
        }
    };
    let (spots, spots_all, dealt) = (Vec::new(), 0, 0);
    Ok(Segment { number: segment, bytes, found, named, written: 0, spots, spots_all, dealt })
}

/// The bytes of a segment that are in use; those that the device does not give are zeros.
async fn read_used(inner: &GroupInner, start: u64, used: u64) -> Result<Buf, GroupError> {
    let mut bytes = inner.env.buf(to_usize(used));
    let mut got = 0;
    while got < used {
        let end = used.min(got + READ_BACK);
        inner.count(|requests| requests.log_read += 1);
        bytes.set_len(to_usize(end));
        bytes = match inner.cache.read_at(start + got, bytes, to_usize(got)).await {
            Ok(bytes) => bytes,
            Err(error) if is_bad_place(&error) => {
                let Salvaged { bytes, unreadable, .. } =
                    salvage(inner, start, to_usize(used)).await?;
                inner.state.borrow_mut().counters.rotten += unreadable.len() as u64;
                return Ok(bytes);
            }
            Err(error) => return Err(device_error(&inner.cache_path)(error)),
        };
        got = end;
    }
    Ok(bytes)
}

fn parse(
    inner: &GroupInner,
    segment: u64,
    bytes: &[u8],
) -> Result<(Vec<Found>, Vec<LogEntry>), GroupError> {
    let state = inner.state.borrow();
    let device = state.log.device;
    let (mut found, mut named, mut at) = (Vec::new(), Vec::new(), 0);
    while at < bytes.len() {
        let decoded = Commit::decode(device, &bytes[at..]).and_then(|(commit, _, _)| {
            let fits = commit.segment == segment && commit.position as usize == at;
            let ends = at + commit.length as usize <= bytes.len();
            let field = FormatError::Field { name: "position" };
            if fits && ends { Ok(commit) } else { Err(field) }
        });
        let commit = decoded.map_err(|source| inner.damaged_segment(segment, source))?;
        let mut crcs = commit.crcs.as_slice();
        for entry in commit.entries {
            // K only rises: hardly any is left of these when the segment is freed.
            if entry.id.is_some() && entry.kind != EntryKind::Undone && is_open(&state, &entry) {
                named.push(entry);
            }
            if entry.kind.is_mark() {
                continue;
            }
            let (mine, rest) = crcs.split_at(entry.crc_count());
            crcs = rest;
            let payload = at as u64 + u64::from(entry.payload) * SECTOR_SIZE;
            found.push(Found { entry, at: payload, crcs: wire::Crcs::new(mine) });
        }
        at += commit.length as usize;
    }
    Ok((found, named))
}

/// Whether an entry is above K.
pub(super) fn is_open(state: &GroupState, entry: &LogEntry) -> bool {
    state.store.components.get(entry.serial).is_some_and(|c| c.row.commit < entry.lsn)
}

impl Found {
    pub(super) fn is_clear(&self) -> bool {
        !self.entry.kind.is_data() && self.entry.range.count == CHUNK_SECTORS
    }

    /// Where a block of the entry is in the log.
    pub(super) fn place(&self, state: &GroupState, segment: u64, block: u64) -> LogPlace {
        let first = state.log.sector(segment, self.at);
        match self.entry.kind {
            EntryKind::Data => {
                let number = block - self.entry.range.start / BLOCK_SECTORS;
                LogPlace::data(first + (number * BLOCK_SECTORS) as u32)
            }
            EntryKind::Direct { .. } => LogPlace::direct(first),
            _ => LogPlace::zero(first),
        }
    }

    /// Whether any of it is still the newest.
    pub(super) fn is_live(&self, state: &GroupState, segment: u64) -> bool {
        let serial = self.entry.serial;
        if self.is_clear() {
            let key = chunk_key(serial, self.entry.range.start / CHUNK_SECTORS);
            let place = LogPlace::zero(state.log.sector(segment, self.at));
            let cleared = state.log.cleared(key);
            return cleared.is_some_and(|(at, _)| at == place);
        }
        self.entry.range.blocks().any(|block| {
            state.log.index.is_live(block_key(serial, block), self.place(state, segment, block))
        })
    }
}
