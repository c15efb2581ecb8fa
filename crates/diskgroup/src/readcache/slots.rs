// SPDX-License-Identifier: Apache-2.0
//! What each slot of the read cache holds: the decisions, without I/O.
//!
//! A slot holds a piece of a chunk of a capacity device, and never knows a block otherwise than the
//! chunk map and the checksum pages have it: it changes in the step in which they do. Whoever reads
//! or writes a slot's data holds it meanwhile; a slot that is held is not given away.
//!
//! What headers on the device say is known as well: of most slots it is what they hold. Where a
//! slot was given to another piece since, the old one is remembered until the header is rewritten.

mod stored;

pub(crate) use stored::LineKeys;

use super::owners::{OwnerSlots, Owners};
use super::policy::{FirstQueue, Policy, Stays, bucket, mix};
use crate::memory::widened;
use crate::mutations::Mutations;
use base::{FixedMap, Map};
use format::{PIECE_BLOCKS, PIECES, SlotHeader};
use std::collections::VecDeque;

/// Slots that were given to another piece than their header says, at most: what would be one more
/// is only read until headers were written. A few batches of them; 128 KiB of memory.
const STALE_MAX: usize = 4096;
/// In a small cache it is this part of the slots, but never less than a line's.
const STALE_SHARE: usize = 8;

/// A chunk of a capacity device, by the number of the device in the group.
pub(crate) fn key_of(device: usize, chunk: u32) -> u64 {
    (device as u64) << 32 | u64::from(chunk)
}

/// Device and chunk of a chunk's key.
pub(crate) fn chunk_of(key: u64) -> (usize, u32) {
    ((key >> 32) as usize, key as u32)
}

/// A piece, by the key of its chunk.
pub(crate) fn piece_of(key: u64, piece: usize) -> u64 {
    key << 4 | piece as u64
}

/// The chunk of a piece's key.
pub(crate) fn whole_of(piece: u64) -> u64 {
    piece >> 4
}

/// The piece of a block, and its place there.
pub(crate) fn split(block: usize) -> (usize, usize) {
    (block / PIECE_BLOCKS, block % PIECE_BLOCKS)
}

/// Where a slot's header stands: its line, and its place there.
fn line_of(slot: u32) -> (u32, usize) {
    (slot / PIECES as u32, slot as usize % PIECES)
}

/// One slot: 80 bytes.
pub(crate) struct CacheSlot {
    crcs: [u32; PIECE_BLOCKS],
    chunk: u32,
    /// One more than the next slot of its bucket, or of those that are free; 0 is none.
    next: u32,
    pub(crate) known: u16,
    /// Of the known ones: those that are data, and in the slot.
    pub(crate) data: u16,
    /// Blocks that were read.
    read: u16,
    /// The device above, the piece of the chunk below.
    place: u8,
    flags: u8,
}

/// The slot is some piece's.
const HELD: u8 = 1;
/// The header on the device names the piece that the slot holds.
const STORED: u8 = 2;

impl CacheSlot {
    const EMPTY: Self = Self {
        crcs: [0; PIECE_BLOCKS],
        chunk: 0,
        next: 0,
        known: 0,
        data: 0,
        read: 0,
        place: 0,
        flags: 0,
    };

    fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The piece that it holds; of a free slot it means nothing.
    pub(crate) fn key(&self) -> u64 {
        piece_of(u64::from(self.place >> 4) << 32 | u64::from(self.chunk), self.piece())
    }

    fn piece(&self) -> usize {
        usize::from(self.place & 15)
    }

    /// What a known block holds: its checksum, or nothing.
    pub(crate) fn get(&self, block: usize) -> Option<Option<u32>> {
        (self.known >> block & 1 == 1)
            .then(|| (self.data >> block & 1 == 1).then(|| self.crcs[block]))
    }

    fn set(&mut self, block: usize, crc: Option<u32>) {
        let bit = 1 << block;
        self.known |= bit;
        match crc {
            Some(crc) => (self.data, self.crcs[block]) = (self.data | bit, crc),
            None => self.data &= !bit,
        }
    }

    fn forget(&mut self, block: usize) {
        let bit = 1 << block;
        self.known &= !bit;
        self.data &= !bit;
    }
}

/// Reads and writes of a slot's data that are under way.
#[derive(Default)]
struct Busy {
    pins: u32,
    /// A fill holds it, perhaps with what the piece was before.
    is_filling: bool,
    /// Destage holds it.
    is_updating: bool,
}

/// A chunk of which somebody has to know whether it changes.
struct Watch {
    watchers: u32,
    changes: u64,
}

/// How often a watched chunk had changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ChangeCount(u64);

/// See the module.
pub(crate) struct Slots {
    /// So many as are known by now.
    slots: Vec<CacheSlot>,
    /// One more than the first slot of each bucket; 0 is none.
    heads: Vec<u32>,
    /// One more than the first of the slots that hold nothing.
    free: u32,
    used: usize,
    policy: Policy,
    owners: Owners,
    busy: FixedMap<Busy>,
    /// Slots whose header on the device names another piece, and which.
    stale: Map<u32, u64>,
    stale_most: usize,
    /// Lines whose header is to be written, each once, and how it is with each line.
    dirty: VecDeque<u32>,
    is_dirty: Vec<Dirt>,
    /// The chunk whose lines were queued last, as long as that is so.
    soiled: Option<u64>,
    watched: FixedMap<Watch>,
    /// Slots that destage holds, and what it wrote to them.
    updating: Vec<u32>,
    staged: FixedMap<Vec<(u8, u32)>>,
    pub(crate) mutations: Mutations,
    /// Chunks of a journal record under way of which no header may be written.
    frozen: base::Set<u64>,
}

/// How it is with a line's header.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dirt {
    Clean,
    /// It is queued.
    Dirty,
    /// It is queued, but was written meanwhile.
    Written,
}

impl Slots {
    /// Slots of so many lines, of which none is known: each comes with [`Slots::install`].
    pub(crate) fn new(lines: u32) -> Self {
        let count = lines as usize * PIECES;
        Self {
            slots: Vec::with_capacity(count),
            heads: vec![0; count],
            free: 0,
            used: 0,
            policy: Policy::new(count as u32),
            owners: Owners::new(count),
            busy: FixedMap::default(),
            stale: Map::new(),
            stale_most: (count / STALE_SHARE).clamp(PIECES, STALE_MAX),
            dirty: VecDeque::with_capacity(lines as usize),
            is_dirty: vec![Dirt::Clean; lines as usize],
            soiled: None,
            watched: FixedMap::default(),
            updating: Vec::new(),
            staged: FixedMap::default(),
            mutations: Mutations::default(),
            frozen: base::Set::new(),
        }
    }

    /// Slots that are some piece's.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Bytes of memory that it takes, but for what is under way.
    pub(super) fn memory(&self) -> usize {
        let tables = self.slots.capacity() * size_of::<CacheSlot>() + self.heads.capacity() * 4;
        let dirty = self.dirty.capacity() * 4 + self.is_dirty.capacity();
        // A map's nodes are half full at least.
        let whose = self.policy.memory() + self.owners.memory();
        tables + dirty + whose + self.stale_most * 2 * size_of::<(u32, u64)>()
    }

    fn bucket(&self, key: u64) -> usize {
        bucket(mix(key), self.heads.len())
    }

    /// The slot of a piece.
    pub(crate) fn find(&self, key: u64) -> Option<u32> {
        let mut at = self.heads[self.bucket(key)];
        while at > 0 {
            let slot = &self.slots[at as usize - 1];
            if slot.key() == key {
                return Some(at - 1);
            }
            at = slot.next;
        }
        None
    }

    pub(crate) fn slot(&self, slot: u32) -> &CacheSlot {
        &self.slots[slot as usize]
    }

    /// The slots of a chunk's pieces, as far as they have any.
    pub(super) fn of_chunk(&self, key: u64) -> impl Iterator<Item = u32> {
        (0..PIECES).filter_map(move |piece| self.find(piece_of(key, piece)))
    }

    /// Whether more of a chunk's pieces have slots than not.
    pub(crate) fn has_most_of(&self, key: u64) -> bool {
        self.of_chunk(key).count() > PIECES / 2
    }

    fn link(&mut self, slot: u32, key: u64) {
        let bucket = self.bucket(key);
        let (device, chunk) = chunk_of(whole_of(key));
        let of = &mut self.slots[slot as usize];
        assert!(!of.is(HELD), "a slot is one piece's");
        (of.known, of.data, of.read, of.flags) = (0, 0, 0, HELD);
        (of.chunk, of.place) = (chunk, (device as u8) << 4 | key as u8 & 15);
        of.next = std::mem::replace(&mut self.heads[bucket], slot + 1);
        self.used += 1;
    }

    /// Takes a slot from its piece. What its header says is remembered.
    fn unlink(&mut self, slot: u32) {
        let key = self.slots[slot as usize].key();
        let bucket = self.bucket(key);
        let next = self.slots[slot as usize].next;
        let mut at = self.heads[bucket];
        if at == slot + 1 {
            self.heads[bucket] = next;
        } else {
            while self.slots[at as usize - 1].next != slot + 1 {
                at = self.slots[at as usize - 1].next;
            }
            self.slots[at as usize - 1].next = next;
        }
        let of = &mut self.slots[slot as usize];
        if of.is(STORED) && !self.mutations.forget_given_slots() {
            self.stale.insert(slot, key);
        }
        (of.known, of.data, of.flags, of.next) = (0, 0, 0, 0);
        self.owners.take(slot);
        self.used -= 1;
    }

    fn add_free(&mut self, slot: u32) {
        self.slots[slot as usize].next = self.free;
        self.free = slot + 1;
    }

    /// Blocks of a slot were read by somebody. It counts as one more use if any was read before,
    /// or if none is near to one that was: so that a scan never counts, however small its reads.
    pub(crate) fn note_read(&mut self, slot: u32, blocks: u16) {
        let of = &mut self.slots[slot as usize];
        let (before, near) = (of.read, of.read << 1 | of.read << 2 | of.read >> 1 | of.read >> 2);
        of.read |= blocks;
        if before != 0 && (blocks & before != 0 || blocks & near == 0) {
            self.policy.touch(slot);
        }
    }

    pub(crate) fn pin(&mut self, slot: u32) {
        self.busy.entry(u64::from(slot)).or_default().pins += 1;
    }

    pub(crate) fn unpin(&mut self, slot: u32) {
        let Some(busy) = self.busy.get_mut(&u64::from(slot)) else { return };
        busy.pins -= 1;
        if busy.pins == 0 {
            self.busy.remove(&u64::from(slot));
            if !self.slots[slot as usize].is(HELD) {
                self.add_free(slot);
            }
        }
    }

    /// All pins.
    #[cfg(test)]
    pub(crate) fn pins(&self) -> u64 {
        (0..self.slots.len() as u64)
            .filter_map(|slot| self.busy.get(&slot))
            .map(|busy| u64::from(busy.pins))
            .sum()
    }

    /// A slot for a piece of a component: its own, or one that is free or goes. None where it is
    /// not worth another's, where all are held or kept, and where too many headers name what went.
    fn admit(&mut self, key: u64, serial: u32) -> Option<u32> {
        if let Some(slot) = self.find(key) {
            self.owners.give(slot, serial);
            return Some(slot);
        }
        let (slot, place) = match self.free {
            0 => {
                if self.stale.len() >= self.stale_most {
                    return None;
                }
                let place = match self.policy.place(key) {
                    None if self.owners.lacks(serial) => FirstQueue::Small,
                    place => place?,
                };
                let (slots, busy, owners) = (&self.slots, &self.busy, &self.owners);
                let stays = |slot: u32| {
                    let is_kept = owners.is_kept_from(slot, serial);
                    base::hit_if(is_kept, base::Probe::SlotKept);
                    let is_pinned = busy.contains_key(&u64::from(slot));
                    let pinned = is_pinned.then_some(Stays::Pinned);
                    pinned.or(is_kept.then_some(Stays::Kept))
                };
                let slot = self.policy.evict(stays, |slot| slots[slot as usize].key())?;
                self.unlink(slot);
                (slot, place)
            }
            free => {
                self.free = self.slots[free as usize - 1].next;
                (free - 1, FirstQueue::Main)
            }
        };
        self.link(slot, key);
        self.owners.give(slot, serial);
        self.policy.insert(slot, place);
        Some(slot)
    }

    /// The chunk is another, or nobody knows what of it: what the slot holds is nothing any more.
    /// While its header still names the piece it stays the piece's.
    fn drop_piece(&mut self, slot: u32) {
        let of = &mut self.slots[slot as usize];
        (of.known, of.data, of.read) = (0, 0, 0);
        if !of.is(STORED) {
            self.release(slot);
        }
    }

    fn release(&mut self, slot: u32) {
        self.policy.remove(slot);
        self.unlink(slot);
        if !self.busy.contains_key(&u64::from(slot)) {
            self.add_free(slot);
        }
    }

    /// From here on it is counted whether the chunk changes.
    pub(crate) fn watch(&mut self, chunk: u64) -> ChangeCount {
        let watch = self.watched.entry(chunk).or_insert(Watch { watchers: 0, changes: 0 });
        watch.watchers += 1;
        ChangeCount(watch.changes)
    }

    pub(crate) fn unwatch(&mut self, chunk: u64) {
        let Some(watch) = self.watched.get_mut(&chunk) else { return };
        watch.watchers -= 1;
        if watch.watchers == 0 {
            self.watched.remove(&chunk);
        }
    }

    fn has_changed(&self, chunk: u64, seen: ChangeCount) -> bool {
        let is_other =
            |watch: &Watch| watch.changes != seen.0 && !self.mutations.fill_over_changes();
        self.watched.get(&chunk).is_none_or(is_other)
    }

    /// A slot for a piece that was read of a watched chunk of a component, held until
    /// [`Slots::end_fill`]. None where the chunk has changed since, where something is being
    /// written to the slot, as by another reader of the same, or where no slot is to be had.
    pub(crate) fn begin_fill(&mut self, key: u64, serial: u32, seen: ChangeCount) -> Option<u32> {
        let is_busy = |slot: u32| {
            let busy = self.busy.get(&u64::from(slot));
            busy.is_some_and(|busy| busy.is_filling || busy.is_updating)
        };
        if self.has_changed(whole_of(key), seen) || self.find(key).is_some_and(is_busy) {
            return None;
        }
        let slot = self.admit(key, serial)?;
        let busy = self.busy.entry(u64::from(slot)).or_default();
        busy.pins += 1;
        busy.is_filling = true;
        Some(slot)
    }

    /// The data of `blocks` of the piece is in the slot, or not if `is_done` is unset. Whether they
    /// are known now.
    pub(crate) fn end_fill(
        &mut self,
        (slot, key, seen): (u32, u64, ChangeCount),
        blocks: impl Iterator<Item = (usize, Option<u32>)>,
        is_done: bool,
    ) -> bool {
        let is_same = self.find(key) == Some(slot) && !self.has_changed(whole_of(key), seen);
        if let Some(busy) = self.busy.get_mut(&u64::from(slot)) {
            busy.is_filling = false;
        }
        let is_known = is_done && is_same;
        if is_known {
            let of = &mut self.slots[slot as usize];
            blocks.for_each(|(block, crc)| of.set(block, crc));
            self.soil(slot);
        }
        self.unpin(slot);
        is_known
    }

    /// Destage is about to write blocks of a piece: the slot to write them to as well, held until
    /// [`Slots::end_updates`]. None where there is none, or where a fill might write over it.
    pub(crate) fn begin_update(&mut self, key: u64) -> Option<u32> {
        let slot = self.find(key)?;
        let busy = self.busy.entry(u64::from(slot)).or_default();
        if busy.is_filling {
            return None;
        }
        if !std::mem::replace(&mut busy.is_updating, true) {
            busy.pins += 1;
            self.updating.push(slot);
        }
        Some(slot)
    }

    /// Destage has written a block of the piece to a slot.
    pub(crate) fn stage(&mut self, slot: u32, block: u8, crc: u32) {
        self.staged.entry(u64::from(slot)).or_default().push((block, crc));
    }

    /// A batch of destage has ended.
    pub(crate) fn end_updates(&mut self) {
        for slot in std::mem::take(&mut self.updating) {
            self.staged.remove(&u64::from(slot));
            if let Some(busy) = self.busy.get_mut(&u64::from(slot)) {
                busy.is_updating = false;
            }
            self.unpin(slot);
        }
    }

    /// The chunk has another map entry, or other checksums: who looked before looks again. Its
    /// headers are out of date.
    fn changed(&mut self, chunk: u64) {
        if let Some(watch) = self.watched.get_mut(&chunk) {
            watch.changes += 1;
        }
        if self.soiled != Some(chunk) {
            let slots: Vec<u32> = self.of_chunk(chunk).collect();
            slots.into_iter().for_each(|slot| self.soil(slot));
            self.soiled = Some(chunk);
        }
    }

    /// A block of the chunk has a new checksum from now on.
    pub(super) fn set_block(&mut self, chunk: u64, block: u8, crc: u32) {
        self.changed(chunk);
        let (piece, block) = split(usize::from(block));
        let Some(slot) = self.find(piece_of(chunk, piece)) else { return };
        let staged = self.staged.get(&u64::from(slot));
        // The last write of a block counts: an earlier one may be of what was superseded.
        let last =
            staged.and_then(|all| all.iter().rev().find(|(at, _)| usize::from(*at) == block));
        let is_there = last.is_some_and(|(_, written)| *written == crc);
        let of = &mut self.slots[slot as usize];
        match is_there {
            true => of.set(block, Some(crc)),
            false => of.forget(block),
        }
    }

    /// A block of the chunk reads as zeros from now on.
    pub(super) fn unset_block(&mut self, chunk: u64, block: u8) {
        self.changed(chunk);
        let (piece, block) = split(usize::from(block));
        let Some(slot) = self.find(piece_of(chunk, piece)) else { return };
        self.slots[slot as usize].set(block, None);
    }

    /// The chunk was cleared, freed or given to somebody.
    pub(crate) fn replace_chunk(&mut self, chunk: u64) {
        self.changed(chunk);
        let slots: Vec<u32> = self.of_chunk(chunk).collect();
        for slot in slots {
            self.drop_piece(slot);
        }
    }

    /// The slot does not hold what it should. Whether that is so: destage may have written to it
    /// since it was looked at, and then nothing is wrong.
    pub(crate) fn drop_block(&mut self, chunk: u64, block: usize, crc: u32) -> bool {
        let (piece, block) = split(block);
        let Some(slot) = self.find(piece_of(chunk, piece)) else { return false };
        let is_updating = self.busy.get(&u64::from(slot)).is_some_and(|busy| busy.is_updating);
        let of = &mut self.slots[slot as usize];
        let is_bad = !is_updating && of.get(block) == Some(Some(crc));
        if is_bad {
            of.forget(block);
            self.soil(slot);
        }
        is_bad
    }

    /// From now on these components keep so many slots, others none.
    pub(crate) fn keep(&mut self, wanted: &[(u32, u64)]) {
        self.owners.keep(wanted, widened(self.heads.len()));
    }

    /// Slots that components asked to keep, and those that they keep.
    pub(crate) fn kept(&self) -> (u64, u64) {
        self.owners.sums()
    }

    /// Slots of a component.
    pub(crate) fn of_component(&self, serial: u32) -> OwnerSlots {
        self.owners.of(serial)
    }

    /// What every slot holds that knows something, for an audit.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, &CacheSlot)> {
        (0..).zip(&self.slots).filter(|(_, slot)| slot.is(HELD) && slot.known != 0)
    }

    /// Whether keys, queues, free slots and what is known of headers fit together.
    pub(crate) fn is_consistent(&self) -> bool {
        let held = self.slots.iter().filter(|slot| slot.is(HELD)).count();
        let leads = (0..).zip(&self.slots).all(|(number, slot)| {
            let is_found = self.find(slot.key()) == Some(number);
            let is_sound = slot.data & !slot.known == 0;
            is_sound && if slot.is(HELD) { is_found } else { slot.flags == 0 && slot.known == 0 }
        });
        let (mut free, mut at) = (0, self.free);
        while at > 0 && free <= self.slots.len() {
            let slot = &self.slots[at as usize - 1];
            if slot.is(HELD) || self.busy.contains_key(&u64::from(at - 1)) {
                return false;
            }
            free += 1;
            at = slot.next;
        }
        let gone = (0..self.slots.len() as u64)
            .filter(|slot| self.busy.contains_key(slot) && !self.slots[*slot as usize].is(HELD));
        let stale = self.stale.keys().all(|slot| !self.slots[*slot as usize].is(STORED));
        let sums = held == self.used && held == self.policy.len();
        let owners = self.owners.is_consistent(|slot| self.slots[slot].is(HELD));
        leads && stale && sums && owners && held + free + gone.count() == self.slots.len()
    }
}
