// SPDX-License-Identifier: Apache-2.0
//! What happens when a commit is durable, and again for each commit that recovery finds.

use crate::log::build::{Sealed, is_fraction};
use crate::log::index::{IndexPiece, LogPlace};
use crate::log::ring::SegmentInfo;
use crate::state::GroupState;
use crate::store::chunks::{block_key, chunk_key};
use crate::store::components::{Component, Tail};
use base::{BLOCK_SECTORS, CHUNK_BLOCKS, CHUNK_SECTORS, Mark, SectorRange};
use format::{EntryKind, LogEntry};

impl GroupState {
    /// A commit is durable: into the index in commit order (store rule 4), then wake in order.
    pub(crate) fn complete(&mut self, segment: u64, offset: u64, sealed: &Sealed, is_move: bool) {
        self.index_commit(segment, offset, sealed, is_move);
        let back = segment - self.log.tail;
        let used = u32::try_from(offset - self.log.segment_start(segment)).unwrap_or(u32::MAX);
        let info = &mut self.log.infos[back as usize];
        info.used = info.used.max(used + sealed.bytes.len() as u32);
        info.since.get_or_insert(self.log.last_append);
        self.counters.commits += 1;
        let blocks = i64::try_from(sealed.bytes.len() / 4096).unwrap_or(0);
        let fill = self.fill();
        if !is_move {
            self.pace.appended(blocks, fill);
            self.counters.appends += sealed.appends;
            self.destage.moved_in_row = 0;
        }
        self.log.is_moving = false;
        self.log.is_writing = false;
    }

    /// Puts a commit's entries into the index. Those that were moved were never queued.
    pub(super) fn index_commit(
        &mut self,
        segment: u64,
        offset: u64,
        sealed: &Sealed,
        is_move: bool,
    ) {
        let base = self.log.sector(segment, offset - self.log.segment_start(segment));
        let mut crcs = sealed.crcs.as_slice();
        for entry in &sealed.entries {
            let (mine, rest) = crcs.split_at(entry.crc_count());
            crcs = rest;
            self.apply(segment, entry, mine, base + entry.payload);
            if !is_move {
                self.unqueue(entry);
            }
        }
    }

    fn unqueue(&mut self, entry: &LogEntry) {
        if entry.is_moved || entry.kind.is_mark() {
            return;
        }
        let Some(component) = self.store.components.get(entry.serial) else { return };
        let device = component.device;
        let key = chunk_key(entry.serial, entry.range.start / CHUNK_SECTORS);
        let over = self.store.chunks.over_mut(key);
        // One append is up to three entries; each counts.
        over.queued = over.queued.saturating_sub(1);
        self.settle(key, device);
    }

    /// Drops an overlay that nothing needs, and its reservation.
    pub(crate) fn settle(&mut self, key: u64, device: usize) {
        if self.store.chunks.settle(key) && !self.mutations.leak_reserved() {
            self.store.capacity[device].reserved -= 1;
            self.let_go((key >> 32) as u32);
        }
    }

    /// Puts an entry into the index: at durability, and again at recovery. `at` is its payload's
    /// sector in the log, or its commit's where it has none.
    pub(crate) fn apply(&mut self, segment: u64, entry: &LogEntry, crcs: &[u32], at: u32) {
        let Some(component) = self.store.components.get_mut(entry.serial) else { return };
        // A folded entry is a whole block. If the component ends within its last block, a fold of
        // that block reaches beyond the end, so the bound is rounded up.
        let sectors = component.row.sectors;
        if entry.range.end() > sectors.next_multiple_of(BLOCK_SECTORS) {
            return;
        }
        component.row.durable = component.row.durable.max(entry.lsn);
        let info = &mut self.log.infos[(segment - self.log.tail) as usize];
        note_mark(component, (segment, info), entry, self.is_recovering);
        if entry.lsn > component.row.commit && (!entry.is_moved || self.is_recovering) {
            let range = entry.range.intersect(SectorRange::new(0, sectors));
            let id = entry.id.filter(|_| entry.kind != EntryKind::Undone);
            component.tail.push_back(Tail { range, lsn: entry.lsn, id });
        }
        if entry.kind.is_mark() {
            return;
        }
        let device = component.device;
        if component.lowest.note(segment, entry.lsn.0, entry.is_copy) {
            info.serials.push(entry.serial);
        }
        let chunk = entry.range.start / CHUNK_SECTORS;
        let key = chunk_key(entry.serial, chunk);
        let lsn = entry.lsn.0;
        let is_data = entry.kind == EntryKind::Data;
        self.note_discard(is_data, segment);
        let over = self.store.chunks.over_mut(key);
        over.lsn = over.lsn.max(lsn);
        let cleared = over.cleared.map_or(0, |(_, lsn)| lsn);
        if cleared > lsn && !self.mutations.ignore_lsn() {
            return;
        }
        if !is_data && entry.range.count == CHUNK_SECTORS {
            over.cleared = Some((LogPlace::zero(at), lsn));
            if over.live > 0 {
                for block in chunk * CHUNK_BLOCKS..(chunk + 1) * CHUNK_BLOCKS {
                    if self.log.index.clear(block_key(entry.serial, block), lsn) {
                        over.live -= 1;
                    }
                }
            }
            return;
        }
        for (number, block) in entry.range.blocks().enumerate() {
            let place = match is_data {
                true => LogPlace::data(at + number as u32 * BLOCK_SECTORS as u32),
                false => LogPlace::zero(at),
            };
            let mut piece = IndexPiece {
                start: 0,
                count: 8,
                place,
                crc: crcs.get(number).copied().unwrap_or(0),
                lsn,
            };
            if is_fraction(entry.range) {
                piece.start = (entry.range.start % BLOCK_SECTORS) as u8;
                piece.count = entry.range.count as u8;
            }
            if self.log.index.put(block_key(entry.serial, block), piece) {
                over.live += 1;
            }
        }
        if is_data && self.is_recovering {
            self.reserve(key, device);
        }
    }

    /// Sets a device chunk aside for a chunk that will need one; whether there was one.
    pub(crate) fn reserve(&mut self, key: u64, device: usize) -> bool {
        let is_there = self.store.chunks.base(key).is_some()
            || self.store.chunks.over(key).is_some_and(|o| o.is_reserved);
        if is_there {
            return true;
        }
        let serial = (key >> 32) as u32;
        let promised = self.store.components.get(serial).map_or(0, Component::promised);
        let has_room = self.store.capacity[device].available_to(promised) > 0;
        if has_room || self.is_recovering {
            self.store.chunks.over_mut(key).is_reserved = true;
            self.store.capacity[device].reserved += 1;
            self.hold(serial);
        }
        has_room || self.is_recovering
    }
}

/// Takes what an entry says about a request into the client table of its component (rule 46). Moved
/// entries are left out: the request was noted at the entry's former place, and may have been
/// undone since.
fn note_mark(
    component: &mut Component,
    (segment, info): (u64, &mut SegmentInfo),
    entry: &LogEntry,
    is_recovering: bool,
) {
    let Some(id) = entry.id.filter(|_| !entry.is_moved) else { return };
    // What the row said when it was read may be newer than the entry (see `set_clients`).
    if !is_recovering || entry.lsn > component.marks_kept {
        component.row.clients.apply(match entry.kind {
            EntryKind::Undone => Mark::Undone(id),
            _ => Mark::Done(id),
        });
    }
    match component.marked_at.filter(|(of, _)| *of == segment) {
        Some((_, at)) => info.marked[at].1 = info.marked[at].1.max(entry.lsn),
        None => {
            component.marked_at = Some((segment, info.marked.len()));
            info.marked.push((entry.serial, entry.lsn));
        }
    }
}
