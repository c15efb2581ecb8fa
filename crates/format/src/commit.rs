// SPDX-License-Identifier: Apache-2.0
//! The log: headers of commits and summaries of segments.

use crate::bytes::{Reader, Writer};
use crate::{COMPONENT_SECTORS_MAX, FormatError, PAGE_SIZE};
use base::{BLOCK_SECTORS, CHUNK_SECTORS, Incarnation, Lsn, RequestId, SectorRange, crc32c_append};

const COMMIT_MAGIC: u32 = u32::from_le_bytes(*b"GBCH");
const SUMMARY_MAGIC: u32 = u32::from_le_bytes(*b"GBSS");
const HEAD: usize = 96;
const CRC_AT: usize = 92;
const KNOWN: usize = 16;
const ENTRY: usize = 40;
/// Bytes of the largest commit header: 250 entries of one block, with room.
pub const COMMIT_HEADER_MAX: usize = 32 << 10;

/// What an entry does to its sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Data; the payload is in the commit.
    Data,
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
}

/// One entry. A data entry covers whole blocks, or a part of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
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

impl Entry {
    /// How many checksums it has.
    #[must_use]
    pub fn crc_count(&self) -> usize {
        let blocks = self.range.blocks();
        match self.kind {
            EntryKind::Data => usize::try_from(blocks.end - blocks.start).unwrap_or(usize::MAX),
            _ => 0,
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
    pub entries: Vec<Entry>,
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
    pub entries: Vec<Entry>,
    /// All checksums.
    pub crcs: Vec<u32>,
}

fn size_of(known: usize, entries: usize, crcs: usize) -> usize {
    (HEAD + known * KNOWN + entries * ENTRY + crcs * 4).next_multiple_of(PAGE_SIZE)
}

/// The fixed part of both structures.
struct Head {
    magic: u32,
    incarnation: Incarnation,
    sequence: u64,
    segment: u64,
    position: u32,
    length: u32,
    previous: u32,
    last: u32,
    oldest: u64,
    commits: u32,
}

fn encode(
    head: &Head,
    device: u64,
    known: &[KnownCommit],
    entries: &[Entry],
    crcs: &[u32],
    out: &mut [u8],
) -> u32 {
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let mut to = Writer::new(out);
    to.u32(head.magic);
    to.u16(crate::FORMAT_VERSION);
    to.u16(0);
    to.u64(device);
    to.u64(head.incarnation.0);
    to.u64(head.sequence);
    to.u64(head.segment);
    to.u64(head.oldest);
    to.u32(head.position);
    to.u32(head.length);
    to.u32(head.previous);
    to.u32(head.last);
    to.u32(head.commits);
    to.u32(count(known.len()));
    to.u32(count(entries.len()));
    to.u32(count(crcs.len()));
    to.bytes(&[0; HEAD - 80]);
    assert!(to.at() == HEAD, "the fixed part has a fixed length");
    for known in known {
        to.u32(known.serial);
        to.u32(0);
        to.u64(known.lsn.0);
    }
    for entry in entries {
        to.u32(entry.serial);
        to.u8(match entry.kind {
            EntryKind::Data => 0,
            EntryKind::Zero => 1,
            EntryKind::Discard => 2,
            EntryKind::Done => 3,
            EntryKind::Undone => 4,
        });
        to.u8(u8::from(entry.is_moved) | u8::from(entry.is_copy) << 1);
        to.u16(u16::try_from(entry.range.count).unwrap_or(u16::MAX));
        to.u64(entry.range.start);
        to.u64(entry.lsn.0);
        to.u32(entry.payload);
        let (low, high) = entry.id.map_or((0, 0), RequestId::pack);
        to.u32(low);
        to.u64(high);
    }
    crcs.iter().for_each(|crc| to.u32(*crc));
    to.pad();
    let crc = crc32c_append(&[&out[..CRC_AT], &out[HEAD..]]);
    out[CRC_AT..HEAD].copy_from_slice(&crc.to_le_bytes());
    crc
}

struct Decoded {
    head: Head,
    known: Vec<KnownCommit>,
    entries: Vec<Entry>,
    crcs: Vec<u32>,
    size: usize,
    crc: u32,
}

fn decode(magic: u32, device: u64, bytes: &[u8]) -> Result<Decoded, FormatError> {
    let mut from = Reader::new(bytes);
    from.magic(magic)?;
    let _ = from.u16()?;
    if from.u64()? != device {
        return Err(FormatError::Magic);
    }
    let incarnation = Incarnation(from.counter("incarnation")?);
    let sequence = from.counter("sequence")?;
    let (segment, oldest) = (from.counter("segment")?, from.counter("oldest")?);
    let (position, length, previous) = (from.u32()?, from.u32()?, from.u32()?);
    let (last, commits) = (from.u32()?, from.u32()?);
    let (known_count, entry_count, crc_count) = (from.u32()?, from.u32()?, from.u32()?);
    let _ = from.bytes(CRC_AT - 80)?;
    let crc = from.u32()?;
    let counts = [known_count, entry_count, crc_count].map(|n| usize::try_from(n).ok());
    let [Some(known_count), Some(entry_count), Some(crc_count)] = counts else {
        return Err(FormatError::Length);
    };
    if known_count.max(entry_count).max(crc_count) > bytes.len() {
        return Err(FormatError::Length);
    }
    let size = size_of(known_count, entry_count, crc_count);
    let all = bytes.get(..size).ok_or(FormatError::Length)?;
    if crc32c_append(&[&all[..CRC_AT], &all[HEAD..]]) != crc {
        return Err(FormatError::Checksum);
    }
    let mut from = Reader::new(&all[HEAD..]);
    let mut known = Vec::with_capacity(known_count);
    for _ in 0..known_count {
        let (serial, _, lsn) = (from.u32()?, from.u32()?, Lsn(from.u64()?));
        known.push(KnownCommit { serial, lsn });
    }
    let mut entries = Vec::with_capacity(entry_count);
    let mut crcs_wanted = 0;
    for _ in 0..entry_count {
        let entry = decode_entry(&mut from)?;
        crcs_wanted += entry.crc_count();
        entries.push(entry);
    }
    if crcs_wanted != crc_count {
        return Err(FormatError::Field { name: "checksum count" });
    }
    let crcs = (0..crc_count).map(|_| from.u32()).collect::<Result<_, _>>()?;
    let head = Head {
        magic,
        incarnation,
        sequence,
        segment,
        position,
        length,
        previous,
        last,
        oldest,
        commits,
    };
    Ok(Decoded { head, known, entries, crcs, size, crc })
}

fn decode_entry(from: &mut Reader<'_>) -> Result<Entry, FormatError> {
    let serial = from.u32()?;
    let kind = match from.u8()? {
        0 => EntryKind::Data,
        1 => EntryKind::Zero,
        2 => EntryKind::Discard,
        3 => EntryKind::Done,
        4 => EntryKind::Undone,
        _ => return Err(FormatError::Field { name: "entry kind" }),
    };
    let flags = from.u8()?;
    if flags > 3 {
        return Err(FormatError::Field { name: "entry flags" });
    }
    let (is_moved, is_copy) = (flags & 1 != 0, flags & 2 != 0);
    let (count, start) = (u64::from(from.u16()?), from.u64()?);
    let (lsn, payload) = (Lsn(from.u64()?), from.u32()?);
    let id = match (from.u32()?, from.u64()?) {
        (0, 0) if !kind.is_mark() => None,
        (low, high) => {
            let id = RequestId::unpack(low, high);
            Some(id.ok_or(FormatError::Field { name: "request" })?)
        }
    };
    let range = SectorRange::checked(start, count).ok_or(FormatError::Field { name: "range" })?;
    let in_chunk = start % CHUNK_SECTORS + count <= CHUNK_SECTORS;
    let whole = start.is_multiple_of(BLOCK_SECTORS) && count.is_multiple_of(BLOCK_SECTORS);
    let blocks = range.blocks();
    if count == 0 || !in_chunk || start >= COMPONENT_SECTORS_MAX {
        return Err(FormatError::Field { name: "range" });
    }
    if !whole && blocks.end - blocks.start != 1 {
        return Err(FormatError::Field { name: "fraction" });
    }
    Ok(Entry { serial, kind, is_moved, is_copy, range, lsn, payload, id })
}

impl Commit {
    /// Bytes of a header with so many parts.
    #[must_use]
    pub fn header_size(known: usize, entries: usize, crcs: usize) -> usize {
        size_of(known, entries, crcs)
    }

    /// Fills `out`, exactly [`Commit::header_size`] bytes; returns the header's checksum.
    pub fn encode(&self, device: u64, out: &mut [u8]) -> u32 {
        let size = size_of(self.known.len(), self.entries.len(), self.crcs.len());
        assert!(out.len() == size, "a header of another length");
        let head = Head {
            magic: COMMIT_MAGIC,
            incarnation: self.incarnation,
            sequence: self.sequence,
            segment: self.segment,
            position: self.position,
            length: self.length,
            previous: self.previous,
            last: 0,
            oldest: self.oldest,
            commits: 1,
        };
        encode(&head, device, &self.known, &self.entries, &self.crcs, out)
    }

    /// Reads the header at the start of `from`: itself, its bytes, its checksum. Payload positions
    /// are checked to lie within the commit behind the header.
    ///
    /// # Errors
    /// [`FormatError`]: the log ends here, or damage.
    pub fn decode(device: u64, from: &[u8]) -> Result<(Self, usize, u32), FormatError> {
        let Decoded { head, known, entries, crcs, size, crc } = decode(COMMIT_MAGIC, device, from)?;
        let length = usize::try_from(head.length).unwrap_or(usize::MAX);
        if length < size || !length.is_multiple_of(PAGE_SIZE) {
            return Err(FormatError::Field { name: "length" });
        }
        for entry in &entries {
            let start = u64::from(entry.payload) * 512;
            let is_inside =
                start >= size as u64 && start + entry.range.bytes() <= u64::from(head.length);
            let is_right = match entry.kind {
                EntryKind::Data => is_inside,
                _ => entry.payload == 0,
            };
            if !is_right {
                return Err(FormatError::Field { name: "payload position" });
            }
        }
        let commit = Self {
            sequence: head.sequence,
            incarnation: head.incarnation,
            segment: head.segment,
            position: head.position,
            length: head.length,
            previous: head.previous,
            oldest: head.oldest,
            known,
            entries,
            crcs,
        };
        Ok((commit, size, crc))
    }
}

/// Whether a commit header of `device` may start here: cheap, before a full decode.
#[must_use]
pub fn looks_like_commit(device: u64, from: &[u8]) -> bool {
    from.get(..16).is_some_and(|head| {
        head[..4] == COMMIT_MAGIC.to_le_bytes() && head[8..16] == device.to_le_bytes()
    })
}

impl Summary {
    /// Bytes of a summary with so many parts.
    #[must_use]
    pub fn size_of(known: usize, entries: usize, crcs: usize) -> usize {
        size_of(known, entries, crcs)
    }

    /// Fills the start of `out`, the rest with zeros. Panics where it does not fit.
    pub fn encode(&self, device: u64, out: &mut [u8]) {
        let size = size_of(self.known.len(), self.entries.len(), self.crcs.len());
        let (body, rest) = out.split_at_mut(size);
        rest.fill(0);
        let head = Head {
            magic: SUMMARY_MAGIC,
            incarnation: self.incarnation,
            sequence: self.last_sequence,
            segment: self.segment,
            position: self.used,
            length: 0,
            previous: self.previous,
            last: self.last,
            oldest: self.oldest,
            commits: self.commits,
        };
        let _ = encode(&head, device, &self.known, &self.entries, &self.crcs, body);
    }

    /// Reads a summary.
    ///
    /// # Errors
    /// [`FormatError`]: the segment must be scanned.
    pub fn decode(device: u64, from: &[u8]) -> Result<Self, FormatError> {
        let Decoded { head, known, entries, crcs, .. } = decode(SUMMARY_MAGIC, device, from)?;
        if head.position == 0 || !head.position.is_multiple_of(PAGE_SIZE as u32) {
            return Err(FormatError::Field { name: "bytes in use" });
        }
        for entry in &entries {
            let bytes = if entry.kind == EntryKind::Data { entry.range.bytes() } else { 0 };
            if u64::from(entry.payload) * 512 + bytes > u64::from(head.position) {
                return Err(FormatError::Field { name: "payload position" });
            }
        }
        Ok(Self {
            segment: head.segment,
            incarnation: head.incarnation,
            last_sequence: head.sequence,
            commits: head.commits,
            previous: head.previous,
            last: head.last,
            used: head.position,
            oldest: head.oldest,
            known,
            entries,
            crcs,
        })
    }
}
