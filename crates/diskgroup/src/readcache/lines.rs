// SPDX-License-Identifier: Apache-2.0
//! What each line of the read cache holds: the decisions, without I/O.
//!
//! A line holds blocks of one chunk of a capacity device, and never knows a block otherwise than
//! the chunk map and the checksum pages have it: it changes in the step in which they do. Whoever
//! reads or writes a line's data holds it meanwhile; a line that is held is not given away.

use super::fifo::Fifo;
use crate::index::FixedMap;
use base::CHUNK_BLOCKS;
use format::{ChunkEntry, LineHeader};
use std::collections::VecDeque;

const BLOCKS: usize = CHUNK_BLOCKS as usize;
/// The key of a line that holds nothing; no group has so many devices.
const NO_KEY: u64 = u64::MAX;

/// One bit per block of a chunk.
pub(crate) type Bits = [u64; BLOCKS / 64];

pub(crate) fn has(bits: &Bits, block: usize) -> bool {
    bits[block / 64] >> (block % 64) & 1 == 1
}

pub(crate) fn put(bits: &mut Bits, block: usize, is_set: bool) {
    let bit = 1 << (block % 64);
    match is_set {
        true => bits[block / 64] |= bit,
        false => bits[block / 64] &= !bit,
    }
}

/// A chunk of a capacity device, by the number of the device in the group.
pub(crate) fn key_of(device: usize, chunk: u32) -> u64 {
    (device as u64) << 32 | u64::from(chunk)
}

/// What is known of a chunk's blocks.
pub(crate) struct Body {
    pub(crate) known: Bits,
    /// Of the known ones: those that are data, and in the line.
    pub(crate) data: Bits,
    pub(crate) crcs: [u32; BLOCKS],
    /// Blocks that were read: a second time counts as a use, so that a scan is none.
    seen: Bits,
}

impl Body {
    fn new() -> Box<Self> {
        Box::new(Self { known: [0; 4], data: [0; 4], crcs: [0; BLOCKS], seen: [0; 4] })
    }

    /// What a known block holds: its checksum, or nothing.
    pub(crate) fn get(&self, block: usize) -> Option<Option<u32>> {
        has(&self.known, block).then(|| has(&self.data, block).then(|| self.crcs[block]))
    }

    fn set(&mut self, block: usize, crc: Option<u32>) {
        put(&mut self.known, block, true);
        put(&mut self.data, block, crc.is_some());
        self.crcs[block] = crc.unwrap_or(0);
    }

    fn forget(&mut self, block: usize) {
        put(&mut self.known, block, false);
        put(&mut self.data, block, false);
    }
}

/// Which chunk, in which state, the header on the device says that a line holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) key: u64,
    pub(crate) entry: ChunkEntry,
}

struct Line {
    key: u64,
    /// Reads and writes of its data that are under way.
    pins: u32,
    /// Of those, fills.
    fills: u32,
    /// The chunk changed while a fill was under way: what that writes is old.
    is_spoiled: bool,
    /// Destage holds it.
    is_updating: bool,
    is_dirty: bool,
    body: Option<Box<Body>>,
    stored: Option<Claim>,
}

/// A chunk of which somebody has to know whether it changes.
struct Watch {
    watchers: u32,
    changes: u64,
}

/// How often a watched chunk had changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seen(u64);

/// See the module.
pub(crate) struct Lines {
    lines: Vec<Line>,
    at: FixedMap<u32>,
    fifo: Fifo,
    /// Lines that hold nothing, and whose header on the device is known.
    free: Vec<u32>,
    /// Lines by the chunk that their header on the device names.
    claimed: FixedMap<Vec<u32>>,
    /// Lines whose header is to be written, each once.
    dirty: VecDeque<u32>,
    watched: FixedMap<Watch>,
    /// Lines that destage holds, and what it wrote to them.
    updating: Vec<u32>,
    staged: FixedMap<Vec<(u8, u32)>>,
    /// See [`crate::Mutations::fill_over_changes`].
    pub(crate) ignores_changes: bool,
    /// Chunks of a journal record under way of whose lines no header may be written.
    frozen: Vec<u64>,
}

impl Lines {
    /// All lines are unknown: nothing is free until [`Lines::install`] or [`Lines::pass`] said so.
    pub(crate) fn new(lines: u32) -> Self {
        let line = || Line {
            key: NO_KEY,
            pins: 0,
            fills: 0,
            is_spoiled: false,
            is_updating: false,
            is_dirty: false,
            body: None,
            stored: None,
        };
        Self {
            lines: (0..lines).map(|_| line()).collect(),
            at: FixedMap::default(),
            fifo: Fifo::new(lines),
            free: Vec::new(),
            claimed: FixedMap::default(),
            dirty: VecDeque::new(),
            watched: FixedMap::default(),
            updating: Vec::new(),
            staged: FixedMap::default(),
            ignores_changes: false,
            frozen: Vec::new(),
        }
    }

    /// Lines that hold something.
    pub(crate) fn used(&self) -> usize {
        self.at.len()
    }

    pub(crate) fn body(&self, key: u64) -> Option<(u32, &Body)> {
        let line = *self.at.get(&key)?;
        self.lines[line as usize].body.as_deref().map(|body| (line, body))
    }

    /// Blocks were read by somebody; whether any of them was read before is what counts.
    pub(crate) fn note_read(&mut self, line: u32, blocks: impl Iterator<Item = usize>) {
        let Some(body) = self.lines[line as usize].body.as_deref_mut() else { return };
        let mut is_again = false;
        for block in blocks {
            is_again |= has(&body.seen, block);
            put(&mut body.seen, block, true);
        }
        if is_again {
            self.fifo.touch(line);
        }
    }

    pub(crate) fn pin(&mut self, line: u32) {
        self.lines[line as usize].pins += 1;
    }

    pub(crate) fn unpin(&mut self, line: u32) {
        let of = &mut self.lines[line as usize];
        of.pins -= 1;
        if of.pins == 0 && of.key == NO_KEY {
            self.free.push(line);
        }
    }

    /// All pins.
    #[cfg(test)]
    pub(crate) fn pins(&self) -> u64 {
        self.lines.iter().map(|line| u64::from(line.pins)).sum()
    }

    /// A line for a chunk: its own, or one that is free or goes. None where all are held.
    fn admit(&mut self, key: u64) -> Option<u32> {
        if let Some(line) = self.at.get(&key) {
            return Some(*line);
        }
        let line = match self.free.pop() {
            Some(line) => line,
            None => {
                let lines = &self.lines;
                let is_pinned = |line: u32| lines[line as usize].pins > 0;
                let line = self.fifo.evict(is_pinned, |line| lines[line as usize].key)?;
                let old = &mut self.lines[line as usize];
                self.at.remove(&old.key);
                line
            }
        };
        let of = &mut self.lines[line as usize];
        of.key = key;
        of.body = Some(Body::new());
        self.at.insert(key, line);
        self.fifo.insert(line, key);
        Some(line)
    }

    /// The chunk is another, or nobody knows what of it: its line holds nothing any more.
    fn drop_key(&mut self, key: u64) {
        self.fifo.forget(key);
        let Some(line) = self.at.remove(&key) else { return };
        self.fifo.remove(line);
        let of = &mut self.lines[line as usize];
        (of.key, of.body) = (NO_KEY, None);
        if of.pins == 0 {
            self.free.push(line);
        }
    }

    /// From here on it is counted whether the chunk changes.
    pub(crate) fn watch(&mut self, key: u64) -> Seen {
        let watch = self.watched.entry(key).or_insert(Watch { watchers: 0, changes: 0 });
        watch.watchers += 1;
        Seen(watch.changes)
    }

    pub(crate) fn unwatch(&mut self, key: u64) {
        let Some(watch) = self.watched.get_mut(&key) else { return };
        watch.watchers -= 1;
        if watch.watchers == 0 {
            self.watched.remove(&key);
        }
    }

    fn has_changed(&self, key: u64, seen: Seen) -> bool {
        let is_other = |watch: &Watch| watch.changes != seen.0 && !self.ignores_changes;
        self.watched.get(&key).is_none_or(is_other)
    }

    /// A line for data that was read of a watched chunk, held until [`Lines::end_fill`]. None where
    /// the chunk has changed since, where something older is still being written to the line, or
    /// where all are held.
    pub(crate) fn begin_fill(&mut self, key: u64, seen: Seen) -> Option<u32> {
        let is_busy = |line: &u32| {
            let of = &self.lines[*line as usize];
            of.is_spoiled || of.is_updating
        };
        if self.has_changed(key, seen) || self.at.get(&key).is_some_and(is_busy) {
            return None;
        }
        let line = self.admit(key)?;
        let of = &mut self.lines[line as usize];
        of.pins += 1;
        of.fills += 1;
        Some(line)
    }

    /// The data of `blocks` is in the line, or not if `is_done` is unset. Whether they are known
    /// now.
    pub(crate) fn end_fill(
        &mut self,
        (line, key, seen): (u32, u64, Seen),
        blocks: impl Iterator<Item = (usize, Option<u32>)>,
        is_done: bool,
    ) -> bool {
        let is_same = self.at.get(&key) == Some(&line) && !self.has_changed(key, seen);
        let of = &mut self.lines[line as usize];
        of.fills -= 1;
        of.is_spoiled &= of.fills > 0;
        let is_known = is_done && is_same;
        if is_known && let Some(body) = of.body.as_deref_mut() {
            blocks.for_each(|(block, crc)| body.set(block, crc));
            self.soil(line);
        }
        self.unpin(line);
        is_known
    }

    /// Destage is about to write a block of a chunk: the line to write it to as well, held until
    /// [`Lines::end_updates`]. None where there is none, or where a fill might write over it.
    pub(crate) fn begin_update(&mut self, key: u64) -> Option<u32> {
        let line = *self.at.get(&key)?;
        let of = &mut self.lines[line as usize];
        if of.fills > 0 {
            return None;
        }
        if !std::mem::replace(&mut of.is_updating, true) {
            of.pins += 1;
            self.updating.push(line);
        }
        Some(line)
    }

    /// Destage has written a block to a line.
    pub(crate) fn stage(&mut self, line: u32, block: u8, crc: u32) {
        self.staged.entry(u64::from(line)).or_default().push((block, crc));
    }

    /// A batch of destage has ended.
    pub(crate) fn end_updates(&mut self) {
        for line in std::mem::take(&mut self.updating) {
            self.staged.remove(&u64::from(line));
            self.lines[line as usize].is_updating = false;
            self.unpin(line);
        }
    }

    /// The chunk has another map entry, or other checksums: who looked before looks again.
    fn changed(&mut self, key: u64) {
        if let Some(watch) = self.watched.get_mut(&key) {
            watch.changes += 1;
        }
        if let Some(line) = self.at.get(&key).copied() {
            let of = &mut self.lines[line as usize];
            of.is_spoiled = of.fills > 0;
            self.soil(line);
        }
    }

    /// A block of the chunk has a new checksum from now on.
    pub(crate) fn set_block(&mut self, key: u64, block: u8, crc: u32) {
        self.changed(key);
        let Some(line) = self.at.get(&key) else { return };
        let staged = self.staged.get(&u64::from(*line));
        // The last write of a block counts: an earlier one may be of what was superseded.
        let last = staged.and_then(|all| all.iter().rev().find(|(at, _)| *at == block));
        let is_there = last.is_some_and(|(_, written)| *written == crc);
        let Some(body) = self.lines[*line as usize].body.as_deref_mut() else { return };
        match is_there {
            true => body.set(usize::from(block), Some(crc)),
            false => body.forget(usize::from(block)),
        }
    }

    /// A block of the chunk reads as zeros from now on.
    pub(crate) fn unset_block(&mut self, key: u64, block: u8) {
        self.changed(key);
        let Some(line) = self.at.get(&key) else { return };
        if let Some(body) = self.lines[*line as usize].body.as_deref_mut() {
            body.set(usize::from(block), None);
        }
    }

    /// The chunk was cleared, freed or given to somebody.
    pub(crate) fn replace_chunk(&mut self, key: u64) {
        self.changed(key);
        self.drop_key(key);
    }

    /// The line does not hold what it should. Whether that is so: destage may have written to it
    /// since it was looked at, and then nothing is wrong.
    pub(crate) fn drop_block(&mut self, key: u64, block: usize, crc: u32) -> bool {
        let Some(line) = self.at.get(&key).copied() else { return false };
        let of = &mut self.lines[line as usize];
        let Some(body) = of.body.as_deref_mut().filter(|_| !of.is_updating) else { return false };
        let is_bad = body.get(block) == Some(Some(crc));
        if is_bad {
            body.forget(block);
            self.soil(line);
        }
        is_bad
    }

    fn soil(&mut self, line: u32) {
        let of = &mut self.lines[line as usize];
        if !std::mem::replace(&mut of.is_dirty, true) {
            self.dirty.push_back(line);
        }
    }

    /// The next line whose header is to be written, and what it holds. Those of frozen chunks stay.
    pub(crate) fn take_dirty(&mut self) -> Option<(u32, u64, &Body)> {
        for _ in 0..self.dirty.len() {
            let line = self.dirty.pop_front()?;
            let of = &mut self.lines[line as usize];
            if of.key != NO_KEY && self.frozen.contains(&of.key) {
                self.dirty.push_back(line);
                continue;
            }
            of.is_dirty = false;
            if of.key != NO_KEY {
                let of = &self.lines[line as usize];
                return of.body.as_deref().map(|body| (line, of.key, body));
            }
        }
        None
    }

    /// The header on the device says this of the line, and nothing else can be read there.
    pub(crate) fn set_stored(&mut self, line: u32, claim: Option<Claim>) {
        let old = std::mem::replace(&mut self.lines[line as usize].stored, claim);
        if let Some(old) = old
            && let Some(lines) = self.claimed.get_mut(&old.key)
        {
            lines.retain(|other| *other != line);
            if lines.is_empty() {
                self.claimed.remove(&old.key);
            }
        }
        if let Some(claim) = claim {
            self.claimed.entry(claim.key).or_default().push(line);
        }
    }

    /// Lines whose header on the device would be believed once a chunk has this map entry. A claim
    /// of a higher lsn would be believed some day.
    pub(crate) fn believed(&self, key: u64, entry: ChunkEntry) -> Vec<u32> {
        let lines = self.claimed.get(&key).map_or(&[][..], Vec::as_slice);
        let is_like = |line: &&u32| {
            self.lines[**line as usize].stored.is_some_and(|claim| {
                (claim.entry.serial, claim.entry.index) == (entry.serial, entry.index)
                    && claim.entry.lsn >= entry.lsn
            })
        };
        lines.iter().filter(is_like).copied().collect()
    }

    /// No headers of these chunks' lines until [`Lines::thaw`].
    pub(crate) fn freeze(&mut self, keys: Vec<u64>) {
        self.frozen = keys;
    }

    pub(crate) fn thaw(&mut self) {
        self.frozen.clear();
    }

    /// At opening: the line holds what its header says.
    pub(crate) fn install(&mut self, header: &LineHeader, key: u64) {
        let line = header.line;
        if self.at.contains_key(&key) {
            return self.pass(line);
        }
        let of = &mut self.lines[line as usize];
        assert!(of.key == NO_KEY, "a line is known once");
        let mut body = Body::new();
        (body.known, body.data, body.crcs) = (header.known, header.data, header.crcs);
        (of.key, of.body) = (key, Some(body));
        self.at.insert(key, line);
        self.fifo.insert_old(line);
    }

    /// At opening: the line holds nothing.
    pub(crate) fn pass(&mut self, line: u32) {
        assert!(self.lines[line as usize].key == NO_KEY, "a line is known once");
        self.free.push(line);
    }

    /// What every line holds, for an audit.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, u64, &Body)> {
        (0..)
            .zip(&self.lines)
            .filter_map(|(number, line)| line.body.as_deref().map(|body| (number, line.key, body)))
    }

    /// Whether keys, queues and free lines fit together.
    pub(crate) fn is_consistent(&self) -> bool {
        let held = self.lines.iter().filter(|line| line.key != NO_KEY).count();
        let leads = (0..).zip(&self.lines).all(|(number, line)| {
            let is_found = self.at.get(&line.key) == Some(&number);
            (line.key == NO_KEY || is_found) && line.body.is_some() == (line.key != NO_KEY)
        });
        let free = self.free.iter().all(|line| self.lines[*line as usize].key == NO_KEY);
        let claims = (0..).zip(&self.lines).all(|(number, line)| {
            line.stored.is_none_or(|claim| {
                self.claimed.get(&claim.key).is_some_and(|lines| lines.contains(&number))
            })
        });
        let sums = held == self.at.len() && held == self.fifo.len();
        leads && free && claims && sums && held + self.free.len() <= self.lines.len()
    }
}
