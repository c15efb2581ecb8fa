// SPDX-License-Identifier: Apache-2.0
//! What happens when a commit is durable, and again for each commit that recovery finds.

use crate::keys::chunk_key;
use crate::log::build::{Sealed, to_usize};
use crate::log::ring::SegmentInfo;
use crate::state::GroupState;
use crate::store::components::{Component, Tail};
use base::{BLOCK_SECTORS, CHUNK_SECTORS, Mark, SectorRange};
use format::{EntryKind, LogEntry};

impl GroupState {
    /// A commit is durable: into the index in commit order (store rule 4), then wake in order.
    pub(crate) fn complete(&mut self, segment: u64, offset: u64, sealed: &Sealed, is_move: bool) {
        self.index_commit(segment, offset, sealed, is_move);
        self.log.completed(segment, offset, sealed.bytes.len());
        self.counters.requests.commits += 1;
        let blocks =
            i64::try_from((sealed.bytes.len() + to_usize(sealed.direct)) / 4096).unwrap_or(0);
        let fill = self.fill();
        if !is_move {
            self.pace.appended(blocks, fill);
            self.counters.appends += u64::try_from(sealed.tickets.len()).unwrap_or(0);
            self.destage.moved_in_row = 0;
        }
        self.let_staged_go(sealed.oldest);
    }

    /// A header is durable that calls no segment before `oldest` needed: chunks that only those
    /// name are nobody's (store rule 18).
    pub(crate) fn let_staged_go(&mut self, oldest: u64) {
        while let Some((segment, keys)) = self.log.next_left(oldest) {
            for key in keys {
                self.store.staged_has_left(key, segment);
            }
        }
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
        // One append is up to three entries; each counts.
        self.log.unqueue(key);
        self.settle(key, device);
    }

    /// Where the log holds nothing of a chunk any more, nothing is set aside for it.
    pub(crate) fn settle(&mut self, key: u64, device: usize) {
        if self.log.settle(key) {
            self.store.end_aside(key, device);
        }
    }

    /// Puts an entry into the index: at durability, and again at recovery. `at` is its payload's
    /// sector in the log, or its commit's where it has none.
    pub(crate) fn apply(&mut self, segment: u64, entry: &LogEntry, crcs: &[u32], at: u32) {
        if let EntryKind::Direct { .. } = entry.kind {
            let key = chunk_key(entry.serial, entry.range.start / CHUNK_SECTORS);
            let is_new = !entry.is_moved && !self.store.is_recovering;
            if self.store.staged_is_named(key, segment, is_new) {
                self.log.segment_mut(segment).staged.push(key);
            }
        }
        let Some(component) = self.store.components.get_mut(entry.serial) else { return };
        // A folded entry is a whole block. If the component ends within its last block, a fold of
        // that block reaches beyond the end, so the bound is rounded up.
        let sectors = component.row.sectors;
        if entry.range.end() > sectors.next_multiple_of(BLOCK_SECTORS) {
            return;
        }
        component.row.durable = component.row.durable.max(entry.lsn);
        let info = self.log.segment_mut(segment);
        note_mark(component, (segment, info), entry, self.store.is_recovering);
        if entry.lsn > component.row.commit && (!entry.is_moved || self.store.is_recovering) {
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
        let is_data = entry.kind.is_data();
        if !is_data {
            self.log.note_discard(segment);
        }
        if self.log.take_in(entry, crcs, at) && is_data && self.store.is_recovering {
            let key = chunk_key(entry.serial, entry.range.start / CHUNK_SECTORS);
            self.store.set_aside(key, device);
        }
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
