// SPDX-License-Identifier: Apache-2.0
//! The bytes on devices are those of every release: each structure against its fixture, both ways.

use base::{
    ClientTable, ComponentId, GroupId, Incarnation, Lsn, Mark, ObjectId, RequestId, Seat,
    SectorRange, ShardId, Term, Version, VolumeId,
};
use format::*;

#[path = "golden/descriptions.rs"]
mod descriptions;

fn layout() -> CacheLayout {
    CacheLayout::plan(1 << 30, 4 << 20).expect("1 GiB has room")
}

fn superblocks() -> [Superblock; 2] {
    let mut capacity = [0; CAPACITY_DEVICES_MAX];
    capacity[0] = 0x1122_3344_5566_7788;
    let cache = DeviceKind::Cache {
        layout: layout(),
        read_cache: None,
        capacity,
        count: 1,
        given_up: 0,
        has_direct: false,
    };
    let layout = CapacityLayout::plan(10 << 30).expect("10 GiB have room");
    let store = DeviceKind::Capacity(CapacityLayout { halves_from: 0, ..layout });
    [cache, store].map(|kind| Superblock {
        device: 77,
        group: GroupId(5),
        sequence: 3,
        incarnation: Incarnation(9),
        size: 10 << 30,
        kind,
    })
}

fn request(count: u64) -> RequestId {
    RequestId::new(ShardId(2), Incarnation(8), 1, count).expect("small numbers")
}

fn row() -> ComponentRow {
    let meta = OwnerMeta {
        term: Term(4),
        owner_shard: ShardId(2),
        owner_incarnation: Incarnation(8),
        seat: Seat(1),
        version: Version(12),
    };
    let (id, object) = (ComponentId(100), ObjectId(200));
    let (destaged, commit, durable) = (Lsn(5), Lsn(6), Lsn(7));
    let (serial, is_deleted, sequence, sectors) = (3, false, 2, 4096);
    let mut clients = ClientTable::default();
    clients.apply(Mark::Done(request(3)));
    ComponentRow {
        serial,
        is_deleted,
        lost_at: Some(Seat(1)),
        sequence,
        id,
        object,
        sectors,
        meta,
        destaged,
        commit,
        durable,
        reserve: 0,
        clients,
        orphaned: None,
        description: None,
    }
}

fn entries() -> Vec<LogEntry> {
    let entry = |kind, start, count, payload| {
        let range = SectorRange::new(start, count);
        let id = (start != 0).then(|| request(start));
        let lsn = Lsn(1 << 40 | start);
        LogEntry {
            serial: 3,
            kind,
            is_moved: start == 0,
            is_copy: start != 0,
            range,
            lsn,
            payload,
            id,
        }
    };
    vec![
        entry(EntryKind::Data, 0, 16, 8),
        entry(EntryKind::Data, 26, 3, 24),
        entry(EntryKind::Zero, 64, 8, 0),
        entry(EntryKind::Discard, 2048, 2048, 0),
        entry(EntryKind::Done, 64, 8, 0),
        entry(EntryKind::Undone, 64, 8, 0),
    ]
}

fn commit() -> Commit {
    Commit {
        sequence: 41,
        incarnation: Incarnation(9),
        segment: 300,
        position: 8192,
        length: 4 * 4096,
        previous: 0xABCD_EF01,
        oldest: 290,
        known: vec![KnownCommit { serial: 3, lsn: Lsn(44) }],
        entries: entries(),
        crcs: vec![1, 2, 3],
    }
}

fn summary() -> Summary {
    Summary {
        segment: 300,
        incarnation: Incarnation(9),
        last_sequence: 41,
        commits: 2,
        previous: 17,
        last: 18,
        used: 65536,
        oldest: 290,
        known: vec![KnownCommit { serial: 3, lsn: Lsn(44) }],
        entries: entries(),
        crcs: vec![1, 2, 3],
    }
}

fn record() -> JournalRecord {
    let lsn = Lsn(9);
    let items = vec![
        Item::Allocate { chunk: 5, serial: 3, index: 1, lsn },
        Item::Free { chunk: 6 },
        Item::Clear { chunk: 7, lsn },
        Item::Block { chunk: 5, block: 255, crc: 99, lsn },
        Item::Unset { chunk: 5, block: 0, lsn },
        Item::Watermark { serial: 3, lsn },
    ];
    JournalRecord { sequence: 12, previous: 13, items }
}

fn pages() -> (MapPage, CrcPage) {
    let mut map = MapPage { sequence: 4, applied: 5, ..MapPage::empty(2) };
    map.chunks[251] = ChunkEntry { serial: 3, index: 1, lsn: Lsn(9) };
    let mut crc = CrcPage { sequence: 4, applied: 5, ..CrcPage::empty(2) };
    crc.set(2, 255, Some(0xFFFF_0000));
    crc.set(0, 64, Some(7));
    (map, crc)
}

fn all() -> Vec<u8> {
    let mut out = Vec::new();
    let mut add = |size: usize, fill: &dyn Fn(&mut [u8])| {
        let mut page = vec![0xEE; size];
        fill(&mut page);
        out.extend_from_slice(&page);
    };
    for superblock in superblocks() {
        add(PAGE_SIZE, &|page| superblock.encode(page));
    }
    add(PAGE_SIZE, &|page| row().encode(77, 4, page));
    add(PAGE_SIZE, &|page| assert!(commit().encode(77, page) != 0));
    add(PAGE_SIZE, &|page| summary().encode(77, page));
    add(PAGE_SIZE, &|page| assert!(record().encode(77, page) != 0));
    add(PAGE_SIZE, &|page| pages().0.encode(77, page));
    add(PAGE_SIZE, &|page| pages().1.encode(77, page));
    add(PAGE_SIZE, &|page| JournalHead { record: 12 }.encode(77, page));
    out
}

#[test]
fn encoding_gives_the_fixture() {
    let fixture = include_bytes!("../fixtures/version-3.bin");
    let is = all();
    let differs = is.iter().zip(fixture).position(|(a, b)| a != b);
    assert_eq!((differs, is.len()), (None, fixture.len()), "a format changed without its version");
}

#[test]
fn decoding_the_fixture_gives_the_values() {
    let fixture = include_bytes!("../fixtures/version-3.bin");
    let page = |n: usize| &fixture[n * PAGE_SIZE..(n + 1) * PAGE_SIZE];
    let [cache, store] = superblocks();
    assert_eq!(Superblock::decode(page(0)), Ok(cache));
    assert_eq!(Superblock::decode(page(1)), Ok(store));
    assert_eq!(ComponentRow::decode(77, 4, page(2)), Ok(row()));
    assert_eq!(Commit::decode(77, page(3)).map(|found| found.0), Ok(commit()));
    assert_eq!(Summary::decode(77, page(4)), Ok(summary()));
    assert_eq!(JournalRecord::decode(77, page(5)).map(|found| found.0), Ok(record()));
    assert_eq!(MapPage::decode(77, 2, page(6)), Ok(pages().0));
    assert_eq!(CrcPage::decode(77, 2, page(7)), Ok(pages().1));
    assert_eq!(JournalHead::decode(77, page(8)), Ok(JournalHead { record: 12 }));
    assert_eq!(CrcPage::decode(78, 2, page(7)), Err(FormatError::Magic), "of another device");
}

#[test]
fn a_journal_in_halves_is_a_kind_of_its_own() {
    let one_area = &include_bytes!("../fixtures/version-3.bin")[PAGE_SIZE..2 * PAGE_SIZE];
    let [_, mut store] = superblocks();
    if let DeviceKind::Capacity(layout) = &mut store.kind {
        layout.halves_from = 0xA1B2_C3D4;
    }
    let mut page = vec![0xEE; PAGE_SIZE];
    store.encode(&mut page);
    assert_eq!((&one_area[6..8], &page[6..8]), (&[2, 0][..], &[10, 0][..]));
    assert_eq!((&page[..6], &page[8..104]), (&one_area[..6], &one_area[8..104]));
    assert_eq!(page[104..112], [0xD4, 0xC3, 0xB2, 0xA1, 0, 0, 0, 0]);
    assert!(one_area[104..4092].iter().chain(&page[112..4092]).all(|byte| *byte == 0));
    assert_eq!(Superblock::decode(&page), Ok(store));
    assert!(Superblock::is_before_halves(one_area) && !Superblock::is_before_halves(&page));
    // Halves that begin nowhere.
    page[104..112].fill(0);
    let crc = base::crc32c(&page[..4092]).to_le_bytes();
    page[4092..].copy_from_slice(&crc);
    let refused = Err(FormatError::Field { name: "capacity layout" });
    assert_eq!(Superblock::decode(&page), refused);
}

#[test]
fn a_reserve_stands_where_a_row_had_zero_before_there_were_reserves() {
    let mut page = vec![0xEE; PAGE_SIZE];
    let reserved = ComponentRow { reserve: 0xA1B2_C3D4, ..row() };
    reserved.encode(77, 4, &mut page);
    let without = &include_bytes!("../fixtures/version-3.bin")[2 * PAGE_SIZE..3 * PAGE_SIZE];
    assert_eq!(&page[116..120], [0xD4, 0xC3, 0xB2, 0xA1]);
    assert_eq!(&without[116..120], [0; 4]);
    assert_eq!((&page[..116], &page[120..4092]), (&without[..116], &without[120..4092]));
    assert_eq!(ComponentRow::decode(77, 4, &page), Ok(reserved));
}

#[test]
fn a_row_without_sectors_or_with_more_than_a_component_has_is_refused() {
    let mut page = vec![0; PAGE_SIZE];
    let most = COMPONENT_SECTORS_MAX;
    for (sectors, is_right) in [(0, false), (1, true), (most, true), (most + 1, false)] {
        ComponentRow { sectors, ..row() }.encode(77, 4, &mut page);
        let found = ComponentRow::decode(77, 4, &page).map(|found| found.sectors);
        let wrong = Err(FormatError::Field { name: "sectors" });
        assert_eq!(found, if is_right { Ok(sectors) } else { wrong });
    }
}

#[test]
fn devices_of_an_older_version_are_refused_by_its_number() {
    let first = include_bytes!("../fixtures/version-1.bin");
    let second = include_bytes!("../fixtures/version-2.bin");
    let decode = |fixture: &[u8]| Superblock::decode(&fixture[..PAGE_SIZE]);
    assert_eq!(decode(first), Err(FormatError::Version { found: 1 }));
    assert_eq!(decode(second), Err(FormatError::Version { found: 2 }));
}

#[test]
fn no_damage_is_taken_for_a_value() {
    let fixture = all();
    for at in 0..fixture.len() {
        let number = at / PAGE_SIZE;
        let mut page = fixture[number * PAGE_SIZE..(number + 1) * PAGE_SIZE].to_vec();
        page[at % PAGE_SIZE] ^= 1 << (at % 8);
        let is_error = match number {
            0 | 1 => Superblock::decode(&page).is_err(),
            2 => ComponentRow::decode(77, 4, &page).is_err(),
            3 => Commit::decode(77, &page).is_err(),
            4 => Summary::decode(77, &page).is_err(),
            5 => JournalRecord::decode(77, &page).is_err(),
            6 => MapPage::decode(77, 2, &page).is_err(),
            7 => CrcPage::decode(77, 2, &page).is_err(),
            _ => JournalHead::decode(77, &page).is_err(),
        };
        assert!(is_error, "byte {} of page {number}", at % PAGE_SIZE);
    }
}

fn hybrid_superblock() -> Superblock {
    let planned = ReadCacheLayout::plan(10 << 30, 4 << 20, 70).expect("10 GiB have room");
    let [cache, _] = superblocks();
    let DeviceKind::Cache { capacity, count, .. } = cache.kind else { panic!("a cache device") };
    let (layout, read_cache) = (planned.0, Some(planned.1));
    let kind =
        DeviceKind::Cache { layout, read_cache, capacity, count, given_up: 0, has_direct: false };
    Superblock { kind, ..cache }
}

/// The same, of three capacity devices of which some are given up.
fn without(mut found: Superblock, bits: u16) -> Superblock {
    if let DeviceKind::Cache { capacity, count, given_up, .. } = &mut found.kind {
        (capacity[1], capacity[2]) = (3, 5);
        (*count, *given_up) = (3, bits);
    }
    found
}

fn direct_commit() -> Commit {
    let entry = |chunk, start, count, lsn| LogEntry {
        serial: 3,
        kind: EntryKind::Direct { chunk },
        is_moved: count == 8,
        is_copy: count == 8,
        range: SectorRange::new(start, count),
        lsn: Lsn((1_u64 << 40) | lsn),
        payload: 0,
        id: None,
    };
    Commit {
        length: 4096,
        entries: vec![entry(0x0102_0304, 4160, 512, 7), entry(0xFFFF_FFFE, 2040, 8, 6)],
        crcs: (0x1000..0x1041).collect(),
        ..commit()
    }
}

#[test]
fn direct_writes_are_what_the_page_says() {
    let fixture: &[u8] = include_bytes!("../fixtures/version-3-direct.bin");
    let (first, labels) = fixture.split_at(PAGE_SIZE);
    let mut page = vec![0xEE; PAGE_SIZE];
    let crc = direct_commit().encode(77, &mut page);
    assert!(page == first, "the entry changed without its version");
    assert_eq!(Commit::decode(77, first), Ok((direct_commit(), PAGE_SIZE, crc)));
    let cache = Superblock { kind: superblocks()[0].kind.with_direct(), ..superblocks()[0] };
    let all = [cache, without(cache, 0b101)];
    for ((label, right), kind) in labels.chunks(PAGE_SIZE).zip(all).zip([8, 9]) {
        right.encode(&mut page);
        assert!(page == label, "the superblock changed without its version");
        assert_eq!((label[6], Superblock::decode(label)), (kind, Ok(right)));
        assert!(!Superblock::is_before_direct(label));
    }
    superblocks()[0].encode(&mut page);
    assert!(Superblock::is_before_direct(&page));
    // Parts of blocks are never direct, and other entries name no device chunk.
    let commit = |change: fn(&mut LogEntry)| {
        let mut wrong = direct_commit();
        change(&mut wrong.entries[1]);
        let mut page = vec![0; PAGE_SIZE];
        let _ = wrong.encode(77, &mut page);
        Commit::decode(77, &page).map(|(commit, _, _)| commit)
    };
    assert!(commit(|entry| entry.range.count = 7).is_err());
    assert!(commit(|entry| entry.range.start += 1).is_err());
    assert!(commit(|entry| entry.payload = 8).is_err());
    // There is a checksum for each block, and none behind them.
    let fewer = commit(|entry| (entry.range.start, entry.range.count) = (2032, 16));
    assert_eq!(fewer, Err(FormatError::Field { name: "checksum count" }));
}

#[test]
fn devices_that_were_given_up_make_a_kind_that_older_builds_refuse() {
    for (all, kind) in [(superblocks()[0], 4), (hybrid_superblock(), 7)] {
        let page = |found: Superblock| {
            let mut page = vec![0xEE; PAGE_SIZE];
            found.encode(&mut page);
            page
        };
        let (before, mut after) = (page(without(all, 0)), page(without(all, 0b101)));
        assert_eq!(Superblock::decode(&after), Ok(without(all, 0b101)));
        assert_eq!((&after[6..8], &after[232..234]), (&[kind, 0][..], &[0b101, 0][..]));
        // Nothing else is another than without them.
        after[6..8].copy_from_slice(&before[6..8]);
        after[232..234].fill(0);
        assert!(after[..PAGE_SIZE - 4] == before[..PAGE_SIZE - 4]);
        for wrong in [0b111, 0b1000, 0x8000] {
            let found = Superblock::decode(&page(without(all, wrong)));
            assert_eq!(found, Err(FormatError::Field { name: "given up devices" }), "{wrong:b}");
        }
    }
}

fn line() -> LineHeader {
    let mut line = LineHeader::empty(6);
    let entry = ChunkEntry { serial: 3, index: 1, lsn: Lsn(9) };
    let mut slot = SlotHeader { capacity: 0x1122_3344_5566_7788, chunk: 41, ..Default::default() };
    (slot.piece, slot.entry) = (15, entry);
    (slot.known, slot.data) = (0b1000_0000_1000_0001, 0b1000_0000_0000_0001);
    (slot.crcs[0], slot.crcs[15]) = (0xA1B2_C3D4, 7);
    line.slots[0] = Some(slot);
    line.slots[15] = Some(SlotHeader { piece: 2, known: 0, data: 0, ..slot });
    line
}

#[test]
fn a_hybrid_group_has_a_kind_of_its_own() {
    let fixture = include_bytes!("../fixtures/version-3-slots.bin");
    let (mut superblock, mut header) = (vec![0xEE; PAGE_SIZE], vec![0xEE; PAGE_SIZE]);
    hybrid_superblock().encode(&mut superblock);
    line().encode(77, &mut header);
    assert_eq!(superblock[6..8], [6, 0], "a build without slots refuses it");
    assert!(superblock == fixture[..PAGE_SIZE], "the superblock changed without its version");
    assert!(header == fixture[PAGE_SIZE..], "the line header changed without its version");
    assert_eq!(Superblock::decode(&superblock), Ok(hybrid_superblock()));
    assert_eq!(LineHeader::decode(77, 6, &header), Ok(line()));
    assert_eq!(LineHeader::decode(78, 6, &header), Err(FormatError::Magic), "of another device");
    assert!(LineHeader::decode(77, 7, &header).is_err(), "of another line");
    for at in 0..PAGE_SIZE {
        for (page, is_line) in [(&superblock, false), (&header, true)] {
            let mut page = page.clone();
            page[at] ^= 1 << (at % 8);
            let is_error = match is_line {
                true => LineHeader::decode(77, 6, &page).is_err(),
                false => Superblock::decode(&page).is_err(),
            };
            assert!(is_error, "byte {at}");
        }
    }
}

#[test]
fn a_read_cache_of_whole_chunks_is_taken_over_empty() {
    let fixture = include_bytes!("../fixtures/version-3-hybrid.bin");
    let (superblock, header) = fixture.split_at(PAGE_SIZE);
    assert_eq!(superblock[6..8], [3, 0]);
    assert!(Superblock::is_before_slots(superblock));
    let later = include_bytes!("../fixtures/version-3-slots.bin");
    assert!(!Superblock::is_before_slots(later) && !Superblock::is_before_slots(&[0; 4]));
    assert_eq!(Superblock::decode(superblock), Ok(hybrid_superblock()));
    assert_eq!(LineHeader::decode(77, 6, header), Err(FormatError::Magic));
}

#[test]
fn a_read_cache_that_lies_over_something_else_is_refused() {
    let right = hybrid_superblock();
    let changed = |change: &dyn Fn(&mut ReadCacheLayout)| {
        let mut found = right;
        if let DeviceKind::Cache { read_cache: Some(layout), .. } = &mut found.kind {
            change(layout);
        }
        let mut page = vec![0; PAGE_SIZE];
        found.encode(&mut page);
        Superblock::decode(&page)
    };
    assert_eq!(changed(&|_| {}), Ok(right));
    let wrong = Err(FormatError::Field { name: "read cache layout" });
    assert_eq!(changed(&|layout| layout.headers_start -= 4096), wrong, "over the log");
    assert_eq!(changed(&|layout| layout.headers_start += 512), wrong);
    assert_eq!(changed(&|layout| layout.data_start -= 1 << 26), wrong, "over the headers");
    assert_eq!(changed(&|layout| layout.data_start += 4096), wrong);
    assert_eq!(changed(&|layout| layout.data_start = u64::MAX << 20), wrong);
    assert_eq!(changed(&|layout| layout.lines += 16), wrong, "beyond the device");
    assert_eq!(changed(&|layout| layout.lines = u32::MAX), wrong);
    assert_eq!(changed(&|layout| layout.lines = 0), wrong);
    assert_eq!(changed(&|layout| layout.percent = 0), wrong);
    assert_eq!(changed(&|layout| layout.percent = 91), wrong);
}

#[test]
fn the_parts_of_a_hybrid_cache_device_are_its_size() {
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let mut planned = 0;
    for _ in 0..200_000 {
        let bits = 22 + next(24);
        let size = (1 << bits) + next(1 << bits);
        let segment = 65536 << next(7);
        let percent = next(256) as u8;
        let Some((log, cache)) = ReadCacheLayout::plan(size, segment, percent) else { continue };
        planned += 1;
        assert!((1..=READ_CACHE_PERCENT_MAX).contains(&percent));
        assert!(log.segments >= 6 && cache.lines >= 1 && cache.percent == percent);
        let headers = u64::from(cache.lines) * PAGE_SIZE as u64;
        let lines = u64::from(cache.lines) * base::CHUNK_SIZE;
        let before = cache.headers_start.checked_sub(log.end()).expect("headers over the log");
        let gap = cache.data_start.checked_sub(cache.headers_start + headers).expect("lines");
        let unused = size.checked_sub(cache.end()).expect("beyond the device");
        let ring = u64::from(log.segments) * log.segment_size;
        assert_eq!(log.start + ring + before + headers + gap + lines + unused, size);
        let usable = u128::from(size - log.start);
        assert!(u128::from(headers + lines) * 100 <= usable * u128::from(percent), "{size}");
        // Less than a part of the alignment and of a segment on either side is lost.
        let is_capped =
            cache.lines == LINES_MAX || log.end() + segment > 1 << 39 || log.segments == 6;
        assert!(is_capped || unused < segment + (2 << 20) + 8192, "{size} {unused}");
        assert!(gap < base::CHUNK_SIZE);
    }
    assert!(planned > 40_000, "{planned}");
}

#[test]
fn what_is_kept_says_what_it_is() {
    let header =
        KeptHeader { generation: 9, taken: 1_795_000_000, length: 70_001, crc: 0xA1B2_C3D4 };
    let mut page = vec![0xEE; PAGE_SIZE];
    header.encode(&mut page);
    assert!(page == include_bytes!("../fixtures/kept-1.bin"), "it changed without its version");
    assert_eq!(KeptHeader::decode(&page), Ok(header));
    assert_eq!(KeptHeader::decode(&[0; PAGE_SIZE]), Err(FormatError::Magic), "nothing is kept");
    for at in 0..PAGE_SIZE {
        let mut page = page.clone();
        page[at] ^= 1 << (at % 8);
        assert!(KeptHeader::decode(&page).is_err(), "byte {at}");
        assert!(KeptHeader::decode(&page[..at]).is_err(), "{at} bytes");
    }
}
