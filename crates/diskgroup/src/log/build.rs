// SPDX-License-Identifier: Apache-2.0
//! A commit under composition: entries, and their payload copied once into aligned memory.

use crate::mutations::Mutations;
use base::{BLOCK_SECTORS, CHUNK_SECTORS, Mark, SECTOR_SIZE, SectorRange};
use env::{Buf, Env, Slice};
use format::{COMMIT_HEADER_MAX, Commit, EntryKind, KnownCommit, LogEntry};

/// Blocks of the index that one commit may need: far below the index's limit, which is 4,096 at
/// least, so that a commit never waits for more room than there will ever be.
const INDEX_NEED_MAX: usize = 1024;
/// Components whose K one header carries; more wait for the next.
pub(crate) const KNOWN_MAX: usize = 64;

/// What bounds one commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitLimits {
    /// Bytes of payload.
    pub(crate) payload: usize,
    /// Bytes of header.
    pub(crate) header: usize,
}

impl CommitLimits {
    /// For segments with `usable` bytes. A chunk fits one commit unless segments are tiny.
    pub(crate) fn new(usable: usize) -> Self {
        let header = COMMIT_HEADER_MAX.min((usable / 4).next_multiple_of(4096));
        let payload = (usable - header).min((1 << 20) + 4096) / 4096 * 4096;
        Self { payload, header }
    }

    /// Whether an append with so many marks fits a commit of its own, whatever its range.
    pub(crate) fn takes(&self, marks: usize) -> bool {
        let entries = 3 + marks;
        Commit::header_size(entries.min(KNOWN_MAX), entries, 256) <= self.header
    }
}

/// Data still to be logged.
pub(crate) struct Part<'a> {
    pub(crate) serial: u32,
    pub(crate) kind: EntryKind,
    pub(crate) is_moved: bool,
    pub(crate) is_copy: bool,
    pub(crate) range: SectorRange,
    pub(crate) lsn: base::Lsn,
    pub(crate) crcs: &'a [u32],
    pub(crate) payload: &'a [u8],
    pub(crate) marks: &'a [Mark],
}

/// See the module.
pub(crate) struct Build {
    limits: CommitLimits,
    buf: Option<Buf>,
    /// Bytes of whole blocks in the buffer, behind the room for the header.
    blocks: usize,
    /// Parts of blocks; they follow the blocks.
    fractions: Vec<u8>,
    /// Bytes of direct writes. They are not in the commit, and take room in it and in its segment
    /// as if they were: what destage has to do for a segment has its bound by that.
    pub(crate) direct: u64,
    entries: Vec<LogEntry>,
    crcs: Vec<u32>,
    /// Blocks of the index that it needs at most.
    pub(crate) index_need: usize,
    /// The appends in it.
    pub(crate) tickets: Vec<u64>,
}

/// A finished commit.
pub(crate) struct Sealed {
    pub(crate) bytes: Slice,
    pub(crate) entries: Vec<LogEntry>,
    /// So many of them are in the header: all, unless a rule is broken on purpose.
    pub(crate) logged: usize,
    pub(crate) crcs: Vec<u32>,
    pub(crate) header_crc: u32,
    pub(crate) tickets: Vec<u64>,
    /// Bytes of direct writes that it records.
    pub(crate) direct: u64,
    /// The oldest segment that its header calls needed.
    pub(crate) oldest: u64,
}

/// Where a commit goes.
pub(crate) struct Position {
    pub(crate) device: u64,
    pub(crate) incarnation: base::Incarnation,
    pub(crate) sequence: u64,
    pub(crate) segment: u64,
    pub(crate) position: u32,
    pub(crate) previous: u32,
    pub(crate) oldest: u64,
    pub(crate) mutations: Mutations,
}

/// Cuts a range at whole blocks: head fraction, blocks, tail fraction.
fn cut(range: SectorRange) -> [SectorRange; 3] {
    let (start, end) = (range.start, range.end());
    let first = start.next_multiple_of(BLOCK_SECTORS).min(end);
    let last = (end / BLOCK_SECTORS * BLOCK_SECTORS).max(first);
    [
        SectorRange::new(start, first - start),
        SectorRange::new(first, last - first),
        SectorRange::new(last, end - last),
    ]
}

/// Entries that an append of this range makes.
pub(crate) fn parts(range: SectorRange) -> u16 {
    cut(range).iter().map(|part| u16::from(!part.is_empty())).sum()
}

impl Build {
    pub(crate) fn new(limits: CommitLimits) -> Self {
        Self {
            limits,
            buf: None,
            blocks: 0,
            fractions: Vec::new(),
            direct: 0,
            entries: Vec::new(),
            crcs: Vec::new(),
            index_need: 0,
            tickets: Vec::new(),
        }
    }

    /// The one after it. It will be about as long, so its lists have room for as much at once.
    pub(crate) fn next(&self) -> Self {
        let entries = Vec::with_capacity(self.entries.len());
        let crcs = Vec::with_capacity(self.crcs.len());
        Self { entries, crcs, ..Self::new(self.limits) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether an append of `bytes` payload over `blocks` blocks with `marks` still fits.
    pub(crate) fn fits(&self, bytes: usize, blocks: usize, marks: usize) -> bool {
        if self.index_need + blocks > INDEX_NEED_MAX {
            return false;
        }
        let header = Commit::header_size(
            (self.entries.len() + 3 + marks).min(KNOWN_MAX),
            self.entries.len() + 3 + marks,
            self.crcs.len() + blocks,
        );
        header <= self.limits.header
            && self.blocks + self.fractions.len() + to_usize(self.direct) + bytes
                <= self.limits.payload - 4096
    }

    /// Bytes of the commit at most.
    pub(crate) fn length(&self) -> usize {
        let known = self.entries.len().min(KNOWN_MAX);
        Commit::header_size(known, self.entries.len(), self.crcs.len())
            + self.blocks
            + self.fractions.len().next_multiple_of(4096)
    }

    /// Copies an append in. It must fit.
    pub(crate) fn add(&mut self, env: &Env, part: &Part<'_>) {
        let blocks = part.range.blocks();
        let is_data = part.kind.is_data();
        // A whole chunk without data is one mark, not blocks in the index.
        if is_data || part.range.count != CHUNK_SECTORS {
            self.index_need += usize::try_from(blocks.end - blocks.start).unwrap_or(usize::MAX);
        }
        let (mut bytes, mut crcs) = (part.payload, part.crcs);
        // One request, nearly always: it is named by the entry itself.
        let (id, marks) = match part.marks {
            [Mark::Done(id)] => (Some(*id), [].as_slice()),
            marks => (None, marks),
        };
        for range in cut(part.range) {
            if range.is_empty() {
                continue;
            }
            let mut entry = LogEntry {
                serial: part.serial,
                kind: part.kind,
                is_moved: part.is_moved,
                is_copy: part.is_copy,
                range,
                lsn: part.lsn,
                payload: 0,
                id,
            };
            if is_data {
                let (checks, rest) = crcs.split_at(entry.crc_count());
                crcs = rest;
                self.crcs.extend_from_slice(checks);
            }
            if part.kind == EntryKind::Data {
                let (mine, rest) = bytes.split_at(to_usize(range.bytes()));
                bytes = rest;
                entry.payload = self.copy(env, range, mine);
            } else if is_data {
                self.direct += range.bytes();
            }
            self.entries.push(entry);
        }
        let range = cut(part.range).into_iter().find(|range| !range.is_empty());
        self.entries.extend(marks.iter().map(|mark| {
            let (kind, id) = match mark {
                Mark::Done(id) => (EntryKind::Done, *id),
                Mark::Undone(id) => (EntryKind::Undone, *id),
            };
            LogEntry {
                serial: part.serial,
                kind,
                is_moved: false,
                is_copy: false,
                range: range.unwrap_or(part.range),
                lsn: part.lsn,
                payload: 0,
                id: Some(id),
            }
        }));
    }

    /// Where the payload begins, in sectors from the first block or, for a fraction, from the first
    /// fraction; [`Build::seal`] makes positions of it.
    fn copy(&mut self, env: &Env, range: SectorRange, bytes: &[u8]) -> u32 {
        if is_fraction(range) {
            let at = self.fractions.len();
            self.fractions.extend_from_slice(bytes);
            return sectors(at);
        }
        let limits = self.limits;
        let buf = self.buf.get_or_insert_with(|| env.buf(limits.header + limits.payload));
        let at = limits.header + self.blocks;
        buf[at..at + bytes.len()].copy_from_slice(bytes);
        self.blocks += bytes.len();
        sectors(at - limits.header)
    }

    /// Finishes it: whole blocks first, 4 KiB aligned on the device, then fractions, then zeros.
    pub(crate) fn seal(self, env: &Env, at: Position, known: Vec<KnownCommit>) -> Sealed {
        let Self { limits, buf, blocks, fractions, direct, mut entries, crcs, tickets, .. } = self;
        let mut dropped = Vec::new();
        if at.mutations.discard_unlogged() {
            dropped.extend(entries.extract_if(.., |entry| entry.kind == EntryKind::Discard));
        }
        let header = Commit::header_size(known.len(), entries.len(), crcs.len());
        assert!(header <= limits.header, "a header beyond its room");
        let mut buf = buf.unwrap_or_else(|| env.buf(limits.header + limits.payload));
        let end = limits.header + blocks + fractions.len().next_multiple_of(4096);
        buf[limits.header + blocks..][..fractions.len()].copy_from_slice(&fractions);
        buf[limits.header + blocks + fractions.len()..end].fill(0);
        for entry in entries.iter_mut().filter(|entry| entry.kind == EntryKind::Data) {
            let before = if is_fraction(entry.range) { header + blocks } else { header };
            entry.payload += sectors(before);
        }
        let start = limits.header - header;
        let length = u32::try_from(end - start).unwrap_or(u32::MAX);
        let commit = Commit {
            sequence: at.sequence,
            incarnation: at.incarnation,
            segment: at.segment,
            position: at.position,
            length,
            previous: at.previous,
            oldest: at.oldest,
            known,
            entries,
            crcs,
        };
        let header_crc = commit.encode(at.device, &mut buf[start..limits.header]);
        let bytes = buf.freeze().slice(start..end);
        let (mut entries, crcs) = (commit.entries, commit.crcs);
        let logged = entries.len();
        entries.append(&mut dropped);
        let oldest = at.oldest;
        Sealed { bytes, entries, logged, crcs, header_crc, tickets, direct, oldest }
    }

    /// Serials of its entries whose K a header should carry, without repetition.
    pub(crate) fn serials(&self) -> Vec<u32> {
        let mut serials: Vec<u32> = Vec::new();
        for entry in &self.entries {
            if serials.len() < KNOWN_MAX && serials.last() != Some(&entry.serial) {
                serials.push(entry.serial);
            }
        }
        serials.sort_unstable();
        serials.dedup();
        serials
    }
}

/// Whether a range is not whole aligned blocks. That of an entry is a part of one block then.
pub(crate) fn is_fraction(range: SectorRange) -> bool {
    !range.start.is_multiple_of(BLOCK_SECTORS) || !range.count.is_multiple_of(BLOCK_SECTORS)
}

fn sectors(bytes: usize) -> u32 {
    u32::try_from(bytes / SECTOR_SIZE as usize).unwrap_or(u32::MAX)
}

/// A length in memory.
pub(crate) fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or_else(|_| unreachable!("lengths in memory fit 64 bits"))
}
