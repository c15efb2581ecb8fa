// SPDX-License-Identifier: Apache-2.0

use super::*;

const PAGE: u64 = PAGE_BYTES;
/// No device ends before it: what is refused there is refused for another reason.
const ENDLESS: u64 = u64::MAX;

#[test]
fn a_log_is_refused_for_each_thing_that_is_wrong_with_its_layout() {
    let (start, segment_size, segments) = (LABELS_END, 1 << 20, SEGMENTS_MIN);
    let small = CacheLayout { start, segment_size, summary_size: PAGE, segments };
    let large = CacheLayout { segment_size: 64 << 20, segments: 8192, ..small };
    let tight = CacheLayout { summary_size: segment_size - 3 * PAGE, ..small };
    for right in [small, large, tight] {
        assert!(right.is_sound(right.end()), "{right:?}");
        assert!(!right.is_sound(right.end() - 1), "beyond the device: {right:?}");
    }
    for wrong in [
        CacheLayout { start: start + 512, ..small },
        CacheLayout { segment_size: segment_size + 512, ..small },
        CacheLayout { summary_size: PAGE + 512, ..small },
        CacheLayout { start: start - PAGE, ..small }, // over the labels
        CacheLayout { summary_size: 0, ..small },
        CacheLayout { summary_size: segment_size - 2 * PAGE, ..small },
        CacheLayout { summary_size: segment_size + PAGE, ..small },
        CacheLayout { segment_size: (64 << 20) + PAGE, ..small },
        CacheLayout { segments: SEGMENTS_MIN - 1, ..small },
        CacheLayout { segments: 8193, ..large }, // beyond what a position can say
    ] {
        assert!(!wrong.is_sound(ENDLESS), "{wrong:?}");
    }
}

/// Two pages of the chunk map, and so many bytes free before the next thing each.
fn capacity(gap: u64) -> CapacityLayout {
    let (table_start, journal_size, chunks) = (LABELS_END, 64 * PAGE, MAP + 1);
    let journal_start = table_start + 4 * PAGE + gap;
    let map_start = journal_start + journal_size + gap;
    let crc_start = map_start + 4 * PAGE + gap;
    let chunk_start = crc_start + u64::from(chunks.div_ceil(CRC)) * 2 * PAGE + gap;
    CapacityLayout {
        table_start,
        rows: 2,
        journal_start,
        journal_size,
        halves_from: 1,
        map_start,
        crc_start,
        chunk_start,
        chunks,
    }
}

#[test]
fn a_capacity_device_is_refused_for_each_thing_that_is_wrong_with_its_layout() {
    let (full, loose) = (capacity(0), capacity(PAGE));
    for right in [full, loose] {
        let end = right.chunk_start + u64::from(right.chunks) * base::CHUNK_SIZE;
        assert!(right.is_sound(end), "{right:?}");
        assert!(!right.is_sound(end - 1), "beyond the device: {right:?}");
    }
    for wrong in [
        CapacityLayout { table_start: LABELS_END + 512, ..loose },
        CapacityLayout { journal_start: loose.journal_start + 512, ..loose },
        CapacityLayout { journal_size: loose.journal_size + 512, ..loose },
        CapacityLayout { map_start: loose.map_start + 512, ..loose },
        CapacityLayout { crc_start: loose.crc_start + 512, ..loose },
        CapacityLayout { chunk_start: loose.chunk_start + 512, ..loose },
        CapacityLayout { table_start: LABELS_END - PAGE, ..full }, // over the labels
        CapacityLayout { rows: 0, ..full },
        CapacityLayout { chunks: 0, ..full },
        CapacityLayout { journal_size: 63 * PAGE, ..full },
        // Each over what is before it.
        CapacityLayout { journal_start: full.journal_start - PAGE, ..full },
        CapacityLayout { map_start: full.map_start - PAGE, ..full },
        CapacityLayout { crc_start: full.crc_start - PAGE, ..full },
        CapacityLayout { chunk_start: full.chunk_start - PAGE, ..full },
        CapacityLayout { chunk_start: ENDLESS - (PAGE - 1), ..full },
    ] {
        assert!(!wrong.is_sound(ENDLESS), "{wrong:?}");
    }
}

#[test]
fn a_group_has_one_to_sixteen_capacity_devices() {
    let layout = CacheLayout::plan(1 << 30, 4 << 20).expect("1 GiB has room");
    let most = u32::try_from(CAPACITY_DEVICES_MAX).expect("a small number");
    for (count, is_right) in [(0, false), (1, true), (most, true), (most + 1, false)] {
        let kind = DeviceKind::Cache {
            layout,
            read_cache: None,
            capacity: [1; CAPACITY_DEVICES_MAX],
            count,
            given_up: 0,
            has_direct: false,
        };
        let superblock = Superblock {
            device: 1,
            group: GroupId(2),
            sequence: 3,
            incarnation: Incarnation(4),
            size: 1 << 30,
            kind,
        };
        let mut page = vec![0; PAGE_SIZE];
        superblock.encode(&mut page);
        let wrong = Err(FormatError::Field { name: "capacity devices" });
        assert_eq!(Superblock::decode(&page), if is_right { Ok(superblock) } else { wrong });
    }
}

#[test]
fn a_half_of_a_journal_is_half_of_its_pages_rounded_down() {
    for pages in [64, 65] {
        let layout = CapacityLayout { journal_size: pages * PAGE, ..capacity(PAGE) };
        let (start, half) = (layout.journal_start, 32 * PAGE);
        assert_eq!(layout.half_size(), half);
        assert_eq!(layout.journal_areas(), [(start, half), (start + half, half)]);
        let whole = CapacityLayout { halves_from: 0, ..layout };
        assert_eq!(whole.journal_areas(), [(start, pages * PAGE)]);
    }
}
