// SPDX-License-Identifier: Apache-2.0
//! The log: headers of commits and summaries of segments.

use crate::bytes::{RawTag, counter, layout, prefix, prefix_mut, prefix_of, prefix_of_mut};
use crate::{COMPONENT_SECTORS_MAX, FormatError, PAGE_SIZE};
use base::{BLOCK_SECTORS, CHUNK_SECTORS, Incarnation, Lsn, RequestId, SectorRange, crc32c_append};
use std::mem::offset_of;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const COMMIT_MAGIC: [u8; 4] = *b"GBCH";
const SUMMARY_MAGIC: [u8; 4] = *b"GBSS";
/// Bytes of the largest commit header: 250 entries of one block, with room.
pub const COMMIT_HEADER_MAX: usize = 32 << 10;

/// What an entry does to its sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Data; the payload is in the commit.
    Data,
    /// Data, whole blocks. They stood on capacity before the commit was written: each in its place
    /// of a device chunk that this entry owns (store rule 15).
    Direct {
        /// The chunk of the component's device.
        chunk: u32,
    },
    /// They read as zeros.
    Zero,
    /// They read as zeros, and their space may be given back.
    Discard,
    /// Nothing: the component has the effect of the entry's request from here on.
    Done,
    /// Nothing: it does not have it any more.
    Undone,
}

impl EntryKind {
    /// Whether it says something about a request alone, nothing about sectors.
    #[must_use]
    pub fn is_mark(self) -> bool {
        matches!(self, Self::Done | Self::Undone)
    }

    /// Whether it brings data, wherever that stands.
    #[must_use]
    pub fn is_data(self) -> bool {
        matches!(self, Self::Data | Self::Direct { .. })
    }
}

/// One entry. A data entry covers whole blocks, or a part of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Component serial.
    pub serial: u32,
    /// What it does.
    pub kind: EntryKind,
    /// Written again at the log's head with its old lsn, so that an old segment can be freed.
    pub is_moved: bool,
    /// A copy, for this component alone: what it brings has lower lsns elsewhere.
    pub is_copy: bool,
    /// Sectors of the component, within one chunk.
    pub range: SectorRange,
    /// Its lsn.
    pub lsn: Lsn,
    /// Where its payload is, in sectors: from the commit's start in a header, from the segment's
    /// start in a summary. Without payload: where its commit is.
    pub payload: u32,
    /// The client's request that it carries out (rule 46); a mark always has one.
    pub id: Option<RequestId>,
}

impl LogEntry {
    /// How many checksums it has.
    #[must_use]
    pub fn crc_count(&self) -> usize {
        let blocks = self.range.blocks();
        match self.kind.is_data() {
            true => usize::try_from(blocks.end - blocks.start).unwrap_or(usize::MAX),
            false => 0,
        }
    }
}

/// K of a component, as known when the commit was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownCommit {
    /// Component serial.
    pub serial: u32,
    /// K.
    pub lsn: Lsn,
}

/// A commit's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Rises by one from commit to commit, for ever.
    pub sequence: u64,
    /// Which opening of the device wrote it (store rule 1).
    pub incarnation: Incarnation,
    /// Absolute segment number: laps included.
    pub segment: u64,
    /// Where it stands in its segment, bytes.
    pub position: u32,
    /// Bytes of header and payload together.
    pub length: u32,
    /// Checksum of the header before it.
    pub previous: u32,
    /// Segments from this number on were needed when it was written.
    pub oldest: u64,
    /// Ks that changed.
    pub known: Vec<KnownCommit>,
    /// Entries in commit order.
    pub entries: Vec<LogEntry>,
    /// Checksums of the data entries, in their order.
    pub crcs: Vec<u32>,
}

/// What a closed segment held, in its last bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Absolute segment number.
    pub segment: u64,
    /// Of the last commit.
    pub incarnation: Incarnation,
    /// Sequence of the last commit.
    pub last_sequence: u64,
    /// Commits in the segment.
    pub commits: u32,
    /// `previous` of the first commit.
    pub previous: u32,
    /// Checksum of the last commit's header.
    pub last: u32,
    /// Bytes of the segment that are used.
    pub used: u32,
    /// As in the last commit.
    pub oldest: u64,
    /// Highest K of each component that the segment names.
    pub known: Vec<KnownCommit>,
    /// All entries.
    pub entries: Vec<LogEntry>,
    /// All checksums.
    pub crcs: Vec<u32>,
}

/// The fixed part of a commit's header and of a summary: known Ks, entries and checksums follow.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHead {
    tag: RawTag,
    device: U64,
    incarnation: U64,
    sequence: U64,
    segment: U64,
    oldest: U64,
    /// In a summary the bytes of the segment that are used.
    position: U32,
    /// 0 in a summary.
    length: U32,
    previous: U32,
    /// 0 in a commit.
    last: U32,
    /// 1 in a commit.
    commits: U32,
    known: U32,
    entries: U32,
    crcs: U32,
    zeros: [u8; 12],
    crc: U32,
}

layout!(RawHead, 96:
    tag 0, device 8, incarnation 16, sequence 24, segment 32, oldest 40, position 48, length 52,
    previous 56, last 60, commits 64, known 68, entries 72, crcs 76, zeros 80, crc 92);
const HEAD: usize = size_of::<RawHead>();
const CRC: usize = offset_of!(RawHead, crc);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawKnown {
    serial: U32,
    zero: U32,
    lsn: U64,
}

layout!(RawKnown, 16: serial 0, zero 4, lsn 8);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawEntry {
    serial: U32,
    kind: u8,
    flags: u8,
    count: U16,
    start: U32,
    /// The device chunk of a direct write; else 0.
    chunk: U32,
    lsn: U64,
    payload: U32,
    /// The request as [`RequestId::pack`] makes it; both zero where there is none.
    id_low: U32,
    id_high: U64,
}

layout!(RawEntry, 40:
    serial 0, kind 4, flags 5, count 6, start 8, chunk 12, lsn 16, payload 24, id_low 28,
    id_high 32);

const MOVED: u8 = 1;
const COPY: u8 = 2;

fn size_of_parts(known: usize, entries: usize, crcs: usize) -> usize {
    let parts = known * size_of::<RawKnown>() + entries * size_of::<RawEntry>() + crcs * 4;
    (HEAD + parts).next_multiple_of(PAGE_SIZE)
}

fn count_of<T>(parts: &[T]) -> U32 {
    u32::try_from(parts.len()).unwrap_or(u32::MAX).into()
}

/// The checksum of a header or summary, over all but the field that it stands in.
fn crc_of(header: &[u8]) -> u32 {
    crc32c_append(&[&header[..CRC], &header[HEAD..]])
}

/// Fills `out`; returns the checksum, which `head` does not have yet.
fn encode(
    head: RawHead,
    known: &[KnownCommit],
    entries: &[LogEntry],
    crcs: &[u32],
    out: &mut [u8],
) -> u32 {
    let (to_head, rest) = prefix_mut(out);
    *to_head = head;
    let (to_known, rest) = prefix_of_mut(rest, known.len());
    for (raw, known) in to_known.iter_mut().zip(known) {
        let (serial, lsn) = (known.serial.into(), known.lsn.0.into());
        *raw = RawKnown { serial, zero: U32::ZERO, lsn };
    }
    let (to_entries, rest) = prefix_of_mut::<RawEntry>(rest, entries.len());
    for (raw, entry) in to_entries.iter_mut().zip(entries) {
        *raw = entry.into();
    }
    let (to_crcs, rest) = prefix_of_mut::<U32>(rest, crcs.len());
    for (raw, crc) in to_crcs.iter_mut().zip(crcs) {
        *raw = (*crc).into();
    }
    rest.fill(0);
    let crc = crc_of(out);
    prefix_mut::<RawHead>(out).0.crc = crc.into();
    crc
}

struct Decoded<'a> {
    head: &'a RawHead,
    incarnation: Incarnation,
    sequence: u64,
    segment: u64,
    oldest: u64,
    known: Vec<KnownCommit>,
    entries: Vec<LogEntry>,
    crcs: Vec<u32>,
    size: usize,
}

fn decode(magic: [u8; 4], device: u64, bytes: &[u8]) -> Result<Decoded<'_>, FormatError> {
    RawTag::check(bytes, magic)?;
    let (head, _) = prefix::<RawHead>(bytes)?;
    if head.device.get() != device {
        return Err(FormatError::Magic);
    }
    let incarnation = Incarnation(counter(head.incarnation, "incarnation")?);
    let sequence = counter(head.sequence, "sequence")?;
    let segment = counter(head.segment, "segment")?;
    let oldest = counter(head.oldest, "oldest")?;
    let counts = [head.known, head.entries, head.crcs].map(|n| usize::try_from(n.get()).ok());
    let [Some(known_count), Some(entry_count), Some(crc_count)] = counts else {
        return Err(FormatError::Length);
    };
    if known_count.max(entry_count).max(crc_count) > bytes.len() {
        return Err(FormatError::Length);
    }
    let size = size_of_parts(known_count, entry_count, crc_count);
    let all = bytes.get(..size).ok_or(FormatError::Length)?;
    if crc_of(all) != head.crc.get() {
        return Err(FormatError::Checksum);
    }
    let (known, rest) = prefix_of::<RawKnown>(&all[HEAD..], known_count)?;
    let known = known.iter().map(KnownCommit::from).collect();
    let (raw_entries, rest) = prefix_of::<RawEntry>(rest, entry_count)?;
    let mut entries = Vec::with_capacity(entry_count);
    let mut crcs_wanted = 0;
    for raw in raw_entries {
        let entry = raw.decode()?;
        crcs_wanted += entry.crc_count();
        entries.push(entry);
    }
    if crcs_wanted != crc_count {
        return Err(FormatError::Field { name: "checksum count" });
    }
    let (crcs, _) = prefix_of::<U32>(rest, crc_count)?;
    let crcs = crcs.iter().map(|crc| crc.get()).collect();
    Ok(Decoded { head, incarnation, sequence, segment, oldest, known, entries, crcs, size })
}

impl From<&RawKnown> for KnownCommit {
    fn from(raw: &RawKnown) -> Self {
        Self { serial: raw.serial.get(), lsn: Lsn(raw.lsn.get()) }
    }
}

impl From<&LogEntry> for RawEntry {
    fn from(entry: &LogEntry) -> Self {
        let moved = if entry.is_moved { MOVED } else { 0 };
        let copy = if entry.is_copy { COPY } else { 0 };
        let (id_low, id_high) = entry.id.map_or((0, 0), RequestId::pack);
        let chunk = match entry.kind {
            EntryKind::Direct { chunk } => chunk,
            _ => 0,
        };
        Self {
            serial: entry.serial.into(),
            kind: match entry.kind {
                EntryKind::Data => 0,
                EntryKind::Zero => 1,
                EntryKind::Discard => 2,
                EntryKind::Done => 3,
                EntryKind::Undone => 4,
                EntryKind::Direct { .. } => 5,
            },
            flags: moved | copy,
            count: u16::try_from(entry.range.count).unwrap_or(u16::MAX).into(),
            start: u32::try_from(entry.range.start).unwrap_or(u32::MAX).into(),
            chunk: chunk.into(),
            lsn: entry.lsn.0.into(),
            payload: entry.payload.into(),
            id_low: id_low.into(),
            id_high: id_high.into(),
        }
    }
}

impl RawEntry {
    fn decode(&self) -> Result<LogEntry, FormatError> {
        let kind = match self.kind {
            0 => EntryKind::Data,
            1 => EntryKind::Zero,
            2 => EntryKind::Discard,
            3 => EntryKind::Done,
            4 => EntryKind::Undone,
            5 => EntryKind::Direct { chunk: self.chunk.get() },
            _ => return Err(FormatError::Field { name: "entry kind" }),
        };
        if self.flags & !(MOVED | COPY) != 0 {
            return Err(FormatError::Field { name: "entry flags" });
        }
        let is_direct = matches!(kind, EntryKind::Direct { .. });
        if !is_direct && self.chunk.get() != 0 {
            return Err(FormatError::Field { name: "range" });
        }
        let range = self.decode_range()?;
        let is_whole = |sectors: u64| sectors.is_multiple_of(BLOCK_SECTORS);
        if is_direct && !(is_whole(range.start) && is_whole(range.count)) {
            return Err(FormatError::Field { name: "blocks of a direct write" });
        }
        let id = match (self.id_low.get(), self.id_high.get()) {
            (0, 0) if !kind.is_mark() => None,
            (low, high) => {
                let id = RequestId::unpack(low, high);
                Some(id.ok_or(FormatError::Field { name: "request" })?)
            }
        };
        Ok(LogEntry {
            serial: self.serial.get(),
            kind,
            is_moved: self.flags & MOVED != 0,
            is_copy: self.flags & COPY != 0,
            range,
            lsn: Lsn(self.lsn.get()),
            payload: self.payload.get(),
            id,
        })
    }

    /// Whole blocks or a part of one, all within one chunk.
    fn decode_range(&self) -> Result<SectorRange, FormatError> {
        let (start, count) = (u64::from(self.start.get()), u64::from(self.count.get()));
        let out = FormatError::Field { name: "range" };
        let range = SectorRange::checked(start, count).ok_or(out)?;
        let in_chunk = start % CHUNK_SECTORS + count <= CHUNK_SECTORS;
        if count == 0 || !in_chunk || start >= COMPONENT_SECTORS_MAX {
            return Err(out);
        }
        let whole = start.is_multiple_of(BLOCK_SECTORS) && count.is_multiple_of(BLOCK_SECTORS);
        let blocks = range.blocks();
        if !whole && blocks.end - blocks.start != 1 {
            return Err(FormatError::Field { name: "fraction" });
        }
        Ok(range)
    }
}

impl Commit {
    /// Bytes of a header with so many parts.
    #[must_use]
    pub fn header_size(known: usize, entries: usize, crcs: usize) -> usize {
        size_of_parts(known, entries, crcs)
    }

    /// Fills `out`, exactly [`Commit::header_size`] bytes; returns the header's checksum.
    pub fn encode(&self, device: u64, out: &mut [u8]) -> u32 {
        let size = size_of_parts(self.known.len(), self.entries.len(), self.crcs.len());
        assert!(out.len() == size, "a header of another length");
        let head = RawHead {
            tag: RawTag::new(COMMIT_MAGIC, 0),
            device: device.into(),
            incarnation: self.incarnation.0.into(),
            sequence: self.sequence.into(),
            segment: self.segment.into(),
            oldest: self.oldest.into(),
            position: self.position.into(),
            length: self.length.into(),
            previous: self.previous.into(),
            last: U32::ZERO,
            commits: 1.into(),
            known: count_of(&self.known),
            entries: count_of(&self.entries),
            crcs: count_of(&self.crcs),
            zeros: [0; 12],
            crc: U32::ZERO,
        };
        encode(head, &self.known, &self.entries, &self.crcs, out)
    }

    /// Reads the header at the start of `from`: itself, its bytes, its checksum. Payload positions
    /// are checked to lie within the commit behind the header.
    ///
    /// # Errors
    /// [`FormatError`]: the log ends here, or damage.
    pub fn decode(device: u64, from: &[u8]) -> Result<(Self, usize, u32), FormatError> {
        let Decoded { head, incarnation, sequence, segment, oldest, known, entries, crcs, size } =
            decode(COMMIT_MAGIC, device, from)?;
        let length = head.length.get();
        let bytes = usize::try_from(length).unwrap_or(usize::MAX);
        if bytes < size || !bytes.is_multiple_of(PAGE_SIZE) {
            return Err(FormatError::Field { name: "length" });
        }
        for entry in &entries {
            let start = u64::from(entry.payload) * 512;
            let is_inside =
                start >= size as u64 && start + entry.range.bytes() <= u64::from(length);
            let is_right = match entry.kind {
                EntryKind::Data => is_inside,
                _ => entry.payload == 0,
            };
            if !is_right {
                return Err(FormatError::Field { name: "payload position" });
            }
        }
        let commit = Self {
            sequence,
            incarnation,
            segment,
            position: head.position.get(),
            length,
            previous: head.previous.get(),
            oldest,
            known,
            entries,
            crcs,
        };
        Ok((commit, size, head.crc.get()))
    }
}

/// Whether a commit header of `device` may start here: cheap, before a full decode.
#[must_use]
pub fn looks_like_commit(device: u64, from: &[u8]) -> bool {
    prefix::<RawHead>(from)
        .is_ok_and(|(head, _)| head.tag.magic == COMMIT_MAGIC && head.device.get() == device)
}

impl Summary {
    /// Bytes of a summary with so many parts.
    #[must_use]
    pub fn size_of(known: usize, entries: usize, crcs: usize) -> usize {
        size_of_parts(known, entries, crcs)
    }

    /// Fills the start of `out`, the rest with zeros. Panics where it does not fit.
    pub fn encode(&self, device: u64, out: &mut [u8]) {
        let size = size_of_parts(self.known.len(), self.entries.len(), self.crcs.len());
        let (body, rest) = out.split_at_mut(size);
        rest.fill(0);
        let head = RawHead {
            tag: RawTag::new(SUMMARY_MAGIC, 0),
            device: device.into(),
            incarnation: self.incarnation.0.into(),
            sequence: self.last_sequence.into(),
            segment: self.segment.into(),
            oldest: self.oldest.into(),
            position: self.used.into(),
            length: U32::ZERO,
            previous: self.previous.into(),
            last: self.last.into(),
            commits: self.commits.into(),
            known: count_of(&self.known),
            entries: count_of(&self.entries),
            crcs: count_of(&self.crcs),
            zeros: [0; 12],
            crc: U32::ZERO,
        };
        let _ = encode(head, &self.known, &self.entries, &self.crcs, body);
    }

    /// Reads a summary.
    ///
    /// # Errors
    /// [`FormatError`]: the segment must be scanned.
    pub fn decode(device: u64, from: &[u8]) -> Result<Self, FormatError> {
        let Decoded { head, incarnation, sequence, segment, oldest, known, entries, crcs, .. } =
            decode(SUMMARY_MAGIC, device, from)?;
        let used = head.position.get();
        if used == 0 || !used.is_multiple_of(PAGE_SIZE as u32) {
            return Err(FormatError::Field { name: "bytes in use" });
        }
        for entry in &entries {
            let bytes = if entry.kind == EntryKind::Data { entry.range.bytes() } else { 0 };
            if u64::from(entry.payload) * 512 + bytes > u64::from(used) {
                return Err(FormatError::Field { name: "payload position" });
            }
        }
        Ok(Self {
            segment,
            incarnation,
            last_sequence: sequence,
            commits: head.commits.get(),
            previous: head.previous.get(),
            last: head.last.get(),
            used,
            oldest,
            known,
            entries,
            crcs,
        })
    }
}
