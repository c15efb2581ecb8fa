// SPDX-License-Identifier: Apache-2.0
//! Structures on devices. Each input is decoded as it is, and once more with magic, version,
//! device and checksum made right: behind a checksum nothing else is ever reached.

use crate::base_types::{marked, request};
use base::{
    ComponentId, GroupId, Incarnation, Lsn, ObjectId, Seat, SectorRange, ShardId, Term, Version,
    VolumeId, crc32c, crc32c_append,
};
use format::*;
use fuzz::{Source, bounded};
use std::fmt::Debug;

/// The device that the golden file is of.
const DEVICE: u64 = 77;

fuzz::targets! {
    superblock: 40_000, golden(0..2), superblock_of;
    row: 40_000, golden(2..3), row_of;
    commit: 40_000, golden(3..4), commit_of;
    summary: 40_000, golden(4..5), summary_of;
    journal: 40_000, golden(5..6), journal_of;
    map_page: 20_000, golden(6..7), map_page_of;
    crc_page: 20_000, golden(7..8), crc_page_of;
    hybrid_superblock: 40_000, hybrid(0..1), hybrid_superblock_of;
    line_header: 40_000, hybrid(1..2), line_header_of;
}

fn golden(pages: std::ops::Range<usize>) -> Vec<Vec<u8>> {
    let all = include_bytes!("../../../format/fixtures/version-3.bin");
    pages.map(|page| all[page * PAGE_SIZE..(page + 1) * PAGE_SIZE].to_vec()).collect()
}

fn hybrid(pages: std::ops::Range<usize>) -> Vec<Vec<u8>> {
    let all = include_bytes!("../../../format/fixtures/version-3-slots.bin");
    pages.map(|page| all[page * PAGE_SIZE..(page + 1) * PAGE_SIZE].to_vec()).collect()
}

/// One page with the right head and seal.
pub(crate) fn sealed(input: &[u8], magic: &[u8; 4], device: Option<u64>) -> Vec<u8> {
    let mut page = input.to_vec();
    page.resize(PAGE_SIZE, 0);
    head(&mut page, magic, device);
    let crc = crc32c(&page[..PAGE_SIZE - 4]);
    page[PAGE_SIZE - 4..].copy_from_slice(&crc.to_le_bytes());
    page
}

fn head(bytes: &mut [u8], magic: &[u8; 4], device: Option<u64>) {
    bytes[..4].copy_from_slice(magic);
    bytes[4..6].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    if let Some(device) = device {
        bytes[8..16].copy_from_slice(&device.to_le_bytes());
    }
}

fn number(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 4].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A commit or summary with the right head; with the right checksum where its counts fit.
pub(crate) fn sealed_log(input: &[u8], magic: &[u8; 4], device: u64) -> Vec<u8> {
    let mut bytes = input.to_vec();
    bytes.resize(input.len().next_multiple_of(PAGE_SIZE).max(PAGE_SIZE), 0);
    head(&mut bytes, magic, Some(device));
    let parts = 16 * number(&bytes, 68) + 40 * number(&bytes, 72) + 4 * number(&bytes, 76);
    let size = (96 + parts).next_multiple_of(PAGE_SIZE as u64);
    if size <= bytes.len() as u64 {
        let crc = crc32c_append(&[&bytes[..92], &bytes[96..size as usize]]);
        bytes[92..96].copy_from_slice(&crc.to_le_bytes());
    }
    bytes
}

/// As [`sealed_log`], for a record of the journal.
pub(crate) fn sealed_record(input: &[u8], device: u64) -> Vec<u8> {
    let mut bytes = input.to_vec();
    bytes.resize(input.len().next_multiple_of(PAGE_SIZE).max(PAGE_SIZE), 0);
    head(&mut bytes, b"GBJR", Some(device));
    let size = (48 + 24 * number(&bytes, 24)).next_multiple_of(PAGE_SIZE as u64);
    if size <= bytes.len() as u64 {
        let crc = crc32c_append(&[&bytes[..32], &bytes[36..size as usize]]);
        bytes[32..36].copy_from_slice(&crc.to_le_bytes());
    }
    bytes
}

/// A number as they rise by one: readers refuse those near the end.
fn counter(from: &mut Source<'_>) -> u64 {
    from.edge() % (1 << 62)
}

/// Decodes `bytes`; what is there encodes to something that means the same.
fn again<T: PartialEq + Debug>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, FormatError>,
    encode: impl Fn(&T) -> Vec<u8>,
) -> Option<T> {
    let value = bounded(bytes.len(), || decode(bytes)).ok()?;
    let encoded = encode(&value);
    let second = decode(&encoded);
    assert_eq!(second.as_ref(), Ok(&value), "another value after encoding");
    Some(value)
}

fn page(fill: impl FnOnce(&mut [u8])) -> Vec<u8> {
    // What stood there before must not matter.
    let mut page = vec![0xEE; PAGE_SIZE];
    fill(&mut page);
    page
}

fn superblock_of(input: &[u8]) {
    let encode = |found: &Superblock| page(|page| found.encode(page));
    let _ = again(input, Superblock::decode, encode);
    let found = again(&sealed(input, b"GBSB", None), Superblock::decode, encode);
    // Whoever opens a device computes with these numbers.
    match found.map(|found| (found.size, found.kind)) {
        Some((size, DeviceKind::Cache { layout, read_cache, count, given_up, .. })) => {
            assert!(u32::from(given_up) < (1 << count) - 1, "all are given up, or others");
            let usable = layout.segment_size.checked_sub(layout.summary_size);
            assert!(usable.is_some_and(|usable| usable > 2 * PAGE_SIZE as u64), "{layout:?}");
            let end = layout.start + layout.segment_size * u64::from(layout.segments);
            assert!(end <= size && count as usize <= CAPACITY_DEVICES_MAX);
            assert!(layout.start > SUPERBLOCK_SLOTS[1], "segments over the superblock");
            assert!(read_cache.is_none_or(|cache| is_inside(&cache, end, size)), "{read_cache:?}");
        }
        Some((size, DeviceKind::Capacity(layout))) => {
            let end = layout.chunk_start + base::CHUNK_SIZE * u64::from(layout.chunks);
            assert!(end <= size && layout.crc_pages() > 0 && layout.map_pages() > 0);
            assert!(layout.table_start > SUPERBLOCK_SLOTS[1], "rows over the superblock");
        }
        None => {}
    }
    let mut from = Source::new(input);
    let size = from.edge();
    let segment_size = 4096 * (16 + from.below(2048));
    let planned = match from.flag() {
        true => CacheLayout::plan(size, segment_size).map(|layout| DeviceKind::Cache {
            layout,
            read_cache: None,
            capacity: [from.u64(); CAPACITY_DEVICES_MAX],
            count: 1 + from.below(16) as u32,
            given_up: 0,
            has_direct: from.flag(),
        }),
        false => CapacityLayout::plan(size).map(DeviceKind::Capacity),
    };
    let Some(kind) = planned else { return };
    let (device, group, sequence) = (from.u64(), GroupId(from.u64()), counter(&mut from));
    let incarnation = Incarnation(counter(&mut from));
    let made = Superblock { device, group, sequence, incarnation, size, kind };
    assert_eq!(Superblock::decode(&encode(&made)), Ok(made));
}

/// Whether a read cache lies between the log's end and the device's, its parts in order.
fn is_inside(cache: &ReadCacheLayout, log_end: u64, size: u64) -> bool {
    let headers_end = cache.header_at(cache.lines);
    log_end <= cache.headers_start && headers_end <= cache.data_start && cache.end() <= size
}

fn hybrid_superblock_of(input: &[u8]) {
    superblock_of(input);
    let mut from = Source::new(input);
    let (size, segment_size) = (from.edge(), 4096 * (16 + from.below(2048)));
    let planned = ReadCacheLayout::plan(size, segment_size, from.u8());
    let Some((layout, cache)) = planned else { return };
    assert!(is_inside(&cache, layout.end(), size), "{cache:?}");
    let (capacity, count) = ([from.u64(); CAPACITY_DEVICES_MAX], 1 + from.below(16) as u32);
    let given_up = u16::from(count > 1 && from.flag());
    let read_cache = Some(cache);
    let has_direct = false;
    let kind = DeviceKind::Cache { layout, read_cache, capacity, count, given_up, has_direct };
    let (device, group, sequence) = (from.u64(), GroupId(from.u64()), counter(&mut from));
    let incarnation = Incarnation(counter(&mut from));
    let made = Superblock { device, group, sequence, incarnation, size, kind };
    assert_eq!(Superblock::decode(&page(|page| made.encode(page))), Ok(made));
}

fn line_header_of(input: &[u8]) {
    let line = input.get(16).map_or(6, |byte| u32::from(*byte));
    let encode = |header: &LineHeader| page(|page| header.encode(DEVICE, page));
    let decode = |page: &[u8]| LineHeader::decode(DEVICE, line, page);
    let _ = again(input, decode, encode);
    if let Some(found) = again(&sealed(input, b"GBRS", Some(DEVICE)), decode, encode) {
        for slot in found.slots.iter().flatten() {
            assert!(slot.data & !slot.known == 0, "data that is not known");
            assert!(slot.capacity != 0 && slot.entry.serial != NO_COMPONENT);
            assert!(usize::from(slot.piece) < PIECES);
        }
    }
    let mut from = Source::new(input);
    let mut made = LineHeader::empty(line);
    for slot in &mut made.slots {
        let mut of = SlotHeader { capacity: from.u64() | 1, ..SlotHeader::default() };
        (of.chunk, of.piece) = (from.u32(), from.index(PIECES) as u8);
        of.entry = ChunkEntry { serial: 1 | from.u32(), index: from.u32(), lsn: Lsn(from.edge()) };
        for _ in 0..from.below(16) {
            let (block, is_data) = (from.index(PIECE_BLOCKS), from.flag());
            of.known |= 1 << block;
            of.data |= u16::from(is_data) << block;
            of.crcs[block] = from.u32();
        }
        *slot = from.flag().then_some(of);
    }
    assert_eq!(decode(&encode(&made)), Ok(made));
}

fn row_of(input: &[u8]) {
    let encode = |row: &ComponentRow| page(|page| row.encode(DEVICE, 0, page));
    let decode = |page: &[u8]| ComponentRow::decode(DEVICE, 0, page);
    let _ = again(input, decode, encode);
    let _ = again(&sealed(input, b"GBCT", Some(DEVICE)), decode, encode);
    let mut from = Source::new(input);
    let meta = OwnerMeta {
        term: Term(from.u32()),
        owner_shard: ShardId(from.u32()),
        owner_incarnation: Incarnation(from.edge()),
        seat: Seat(from.u32()),
        version: Version(from.edge()),
    };
    let is_deleted = from.flag();
    let row = ComponentRow {
        serial: 1 + from.below((1 << 24) - 1) as u32,
        is_deleted,
        lost_at: (!is_deleted && from.flag()).then(|| Seat(from.u32())),
        sequence: counter(&mut from),
        id: ComponentId(from.u64()),
        object: ObjectId(from.u64()),
        sectors: 1 + from.below(COMPONENT_SECTORS_MAX),
        meta,
        destaged: Lsn(from.edge()),
        commit: Lsn(from.edge()),
        durable: Lsn(from.edge()),
        reserve: from.u32(),
        orphaned: Some(from.edge()).filter(|since| *since > 0),
        description: from.flag().then(|| Box::new(description(&mut from))),
        clients: marked(from.rest()),
    };
    assert_eq!(decode(&encode(&row)), Ok(row));
}

fn description(from: &mut Source<'_>) -> Description {
    let worths = [Worth::Active, Worth::Absent, Worth::Degraded, Worth::Resyncing];
    let sibling = |from: &mut Source<'_>| Sibling {
        id: ComponentId(from.u64()),
        shard: ShardId(from.u32()),
        group: GroupId(from.u64()),
        seat: Seat(from.u32()),
        worth: worths[from.below(4) as usize],
    };
    let (version, term) = (Version(from.edge()), Term(from.u32()));
    let is_later = from.flag() && version > Version(0);
    let index = from.below(3) as u16;
    let column = from.below(u64::from(index) + 1) as u8;
    Description {
        volume: VolumeId(from.u64()),
        name: "v".repeat(from.below(65) as usize),
        size_bytes: from.u64(),
        ftt: from.below(4) as u8,
        reserve_percent: from.below(101) as u8,
        index,
        objects: 3 + from.below(1022) as u16,
        column,
        width: column + 1 + from.u8() % 12,
        version,
        term,
        part: is_later.then(|| (Version(from.below(version.0)), Term(from.u32()))),
        incarnation: Incarnation(from.edge()),
        siblings: (0..from.below(9)).map(|_| sibling(from)).collect(),
    }
}

/// An entry whose payload, if any, is at a sector that the caller knows.
fn entry(from: &mut Source<'_>, payload: u32) -> LogEntry {
    let kinds = [
        EntryKind::Data,
        EntryKind::Zero,
        EntryKind::Discard,
        EntryKind::Done,
        EntryKind::Undone,
        EntryKind::Direct { chunk: from.u32() },
    ];
    let kind = kinds[from.index(6)];
    let chunk = from.below(COMPONENT_SECTORS_MAX / 2048) * 2048;
    let is_direct = matches!(kind, EntryKind::Direct { .. });
    let range = match from.flag() || is_direct {
        true => {
            let first = from.below(256);
            SectorRange::new(chunk + first * 8, 8 * (1 + from.below(256 - first)))
        }
        false => {
            let first = from.below(8);
            SectorRange::new(chunk + from.below(256) * 8 + first, 1 + from.below(8 - first))
        }
    };
    let id = (kind.is_mark() || from.flag()).then(|| request(from));
    let payload = if kind == EntryKind::Data { payload } else { 0 };
    let (serial, is_moved, lsn) = (from.u32(), from.flag(), Lsn(from.edge()));
    LogEntry { serial, kind, is_moved, is_copy: from.flag(), range, lsn, payload, id }
}

fn commit_of(input: &[u8]) {
    let encode = |commit: &Commit| {
        let counts = (commit.known.len(), commit.entries.len(), commit.crcs.len());
        let mut out = vec![0xEE; Commit::header_size(counts.0, counts.1, counts.2)];
        let _ = commit.encode(DEVICE, &mut out);
        out
    };
    let decode = |bytes: &[u8]| Commit::decode(DEVICE, bytes).map(|(commit, _, _)| commit);
    let _ = again(input, decode, encode);
    let bytes = sealed_log(input, b"GBCH", DEVICE);
    assert!(looks_like_commit(DEVICE, &bytes));
    if let Some(commit) = again(&bytes, decode, encode) {
        let sectors = u64::from(commit.length) / 512;
        let is_inside = |entry: &LogEntry| u64::from(entry.payload) + entry.range.count <= sectors;
        let data = || commit.entries.iter().filter(|entry| entry.kind == EntryKind::Data);
        assert!(data().all(is_inside), "payload beyond its commit");
        let counts = commit.entries.iter().map(LogEntry::crc_count);
        assert_eq!(counts.sum::<usize>(), commit.crcs.len());
    }
    let mut from = Source::new(input);
    let known = (0..from.below(20)).map(|_| known(&mut from)).collect();
    let count = from.below(30);
    let payload = 64 * 8; // behind every header of so many entries
    let entries: Vec<LogEntry> = (0..count).map(|_| entry(&mut from, payload)).collect();
    let crcs = entries.iter().map(LogEntry::crc_count).sum::<usize>();
    let made = Commit {
        sequence: counter(&mut from),
        incarnation: Incarnation(counter(&mut from)),
        segment: counter(&mut from),
        position: from.u32(),
        length: (64 + 256 + from.below(9) as u32) * 4096,
        previous: from.u32(),
        oldest: counter(&mut from),
        known,
        crcs: (0..crcs).map(|_| from.u32()).collect(),
        entries,
    };
    assert_eq!(decode(&encode(&made)), Ok(made));
}

fn known(from: &mut Source<'_>) -> KnownCommit {
    KnownCommit { serial: from.u32(), lsn: Lsn(from.edge()) }
}

fn summary_of(input: &[u8]) {
    let encode = |summary: &Summary| {
        let counts = (summary.known.len(), summary.entries.len(), summary.crcs.len());
        let mut out = vec![0xEE; Summary::size_of(counts.0, counts.1, counts.2) + PAGE_SIZE];
        summary.encode(DEVICE, &mut out);
        out
    };
    let decode = |bytes: &[u8]| Summary::decode(DEVICE, bytes);
    let _ = again(input, decode, encode);
    let _ = again(&sealed_log(input, b"GBSS", DEVICE), decode, encode);
    let mut from = Source::new(input);
    let known = (0..from.below(20)).map(|_| known(&mut from)).collect();
    let entries: Vec<LogEntry> = (0..from.below(30)).map(|_| entry(&mut from, 8)).collect();
    let crcs = entries.iter().map(LogEntry::crc_count).sum::<usize>();
    let made = Summary {
        segment: counter(&mut from),
        incarnation: Incarnation(counter(&mut from)),
        last_sequence: counter(&mut from),
        commits: from.u32(),
        previous: from.u32(),
        last: from.u32(),
        used: (512 + u32::from(from.u16())) * 4096,
        oldest: counter(&mut from),
        known,
        crcs: (0..crcs).map(|_| from.u32()).collect(),
        entries,
    };
    assert_eq!(decode(&encode(&made)), Ok(made));
}

fn item(from: &mut Source<'_>) -> Item {
    let (chunk, serial, lsn) = (from.u32(), from.u32(), Lsn(from.edge()));
    let (block, crc, index) = (from.u8(), from.u32(), from.u32());
    match from.u8() % 6 {
        0 => Item::Allocate { chunk, serial, index, lsn },
        1 => Item::Free { chunk },
        2 => Item::Clear { chunk, lsn },
        3 => Item::Block { chunk, block, crc, lsn },
        4 => Item::Unset { chunk, block, lsn },
        _ => Item::Watermark { serial, lsn },
    }
}

fn journal_of(input: &[u8]) {
    let encode = |record: &JournalRecord| {
        let mut out = vec![0xEE; JournalRecord::size_of(record.items.len())];
        let _ = record.encode(DEVICE, &mut out);
        out
    };
    let decode = |bytes: &[u8]| JournalRecord::decode(DEVICE, bytes).map(|(record, _, _)| record);
    let _ = again(input, decode, encode);
    let _ = again(&sealed_record(input, DEVICE), decode, encode);
    let mut from = Source::new(input);
    let (sequence, previous) = (counter(&mut from), from.u32());
    let items = (0..from.below(400)).map(|_| item(&mut from)).collect();
    let made = JournalRecord { sequence, previous, items };
    assert_eq!(decode(&encode(&made)), Ok(made));
}

fn map_page_of(input: &[u8]) {
    let number = input.get(32).map_or(2, |byte| u32::from(*byte));
    let encode = |map: &MapPage| page(|page| map.encode(DEVICE, page));
    let decode = |page: &[u8]| MapPage::decode(DEVICE, number, page);
    let _ = again(input, decode, encode);
    let _ = again(&sealed(input, b"GBMP", Some(DEVICE)), decode, encode);
    let mut from = Source::new(input);
    let mut made = MapPage {
        sequence: counter(&mut from),
        applied: counter(&mut from),
        ..MapPage::empty(number)
    };
    for chunk in &mut made.chunks {
        *chunk = ChunkEntry { serial: from.u32(), index: from.u32(), lsn: Lsn(from.u64()) };
    }
    assert_eq!(decode(&encode(&made)), Ok(made));
}

fn crc_page_of(input: &[u8]) {
    let number = input.get(32).map_or(2, |byte| u32::from(*byte));
    let encode = |crc: &CrcPage| page(|page| crc.encode(DEVICE, page));
    let decode = |page: &[u8]| CrcPage::decode(DEVICE, number, page);
    let _ = again(input, decode, encode);
    let _ = again(&sealed(input, b"GBCP", Some(DEVICE)), decode, encode);
    let mut from = Source::new(input);
    let mut made = CrcPage {
        sequence: counter(&mut from),
        applied: counter(&mut from),
        ..CrcPage::empty(number)
    };
    for _ in 0..from.below(64) {
        let (chunk, block) = (from.index(CRC_PAGE_CHUNKS), from.index(256));
        let crc = from.flag().then(|| from.u32());
        made.set(chunk, block, crc);
        assert_eq!(made.get(chunk, block), crc);
    }
    assert_eq!(decode(&encode(&made)), Ok(made));
}
