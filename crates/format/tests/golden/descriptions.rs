// SPDX-License-Identifier: Apache-2.0
//! What components say of themselves, in the rows of the table.

use super::*;

fn description() -> Description {
    let sibling = |n: u32, worth| Sibling {
        id: ComponentId(u64::from(n) * 100),
        shard: ShardId(n),
        group: GroupId(0xABCD_0000 + u64::from(n)),
        seat: Seat(n),
        worth,
    };
    Description {
        volume: VolumeId(0x1F),
        name: "db-1".to_owned(),
        size_bytes: 300 << 30,
        ftt: 1,
        reserve_percent: 20,
        index: 1,
        objects: 2,
        column: 0,
        width: 1,
        version: Version(12),
        term: Term(4),
        part: None,
        incarnation: Incarnation(8),
        siblings: vec![sibling(1, Worth::Active), sibling(2, Worth::Resyncing)],
    }
}

#[test]
fn a_description_stands_behind_the_clients_where_rows_had_zeros_before() {
    let mut page = vec![0xEE; PAGE_SIZE];
    let description = Some(Box::new(description()));
    let described = ComponentRow { orphaned: Some(0x0102_0304), description, ..row() };
    described.encode(77, 4, &mut page);
    let without = &include_bytes!("../../fixtures/version-3.bin")[2 * PAGE_SIZE..3 * PAGE_SIZE];
    let at = 120 + row().clients.encode().len();
    assert_eq!(page[..at], without[..at]);
    assert!(without[at..4092].iter().all(|byte| *byte == 0), "older programs wrote zeros");
    let fixture = include_bytes!("../../fixtures/description-1.bin");
    assert_eq!(page[at..at + fixture.len()], fixture[..]);
    assert!(page[at + fixture.len()..4092].iter().all(|byte| *byte == 0));
    assert_eq!(ComponentRow::decode(77, 4, &page), Ok(described));
}

#[test]
fn a_description_says_how_far_the_record_had_come_while_the_component_counted() {
    let part = Some((Version(0x0A0B), Term(3)));
    let newer = Description { version: Version(0x0C0D), part, ..description() };
    let described = ComponentRow { description: Some(Box::new(newer.clone())), ..row() };
    let mut page = vec![0xEE; PAGE_SIZE];
    described.encode(77, 4, &mut page);
    let at = 120 + row().clients.encode().len();
    let fixture = include_bytes!("../../fixtures/description-2.bin");
    assert_eq!(page[at..at + fixture.len()], fixture[..]);
    assert_eq!(ComponentRow::decode(77, 4, &page), Ok(described));
    // It is older than the record that the rest is of.
    let newer = Description { part: Some((newer.version, newer.term)), ..newer };
    ComponentRow { description: Some(Box::new(newer)), ..row() }.encode(77, 4, &mut page);
    assert!(ComponentRow::decode(77, 4, &page).is_err());
}

#[test]
fn a_description_says_where_in_its_stripe_set_the_object_is() {
    let at = 120 + row().clients.encode().len();
    let striped = Description { column: 1, width: 2, ..description() };
    let newer = Description {
        version: Version(0x0C0D),
        part: Some((Version(0x0A0B), Term(3))),
        ..striped.clone()
    };
    let fixtures = [
        (striped, &include_bytes!("../../fixtures/description-3.bin")[..]),
        (newer, &include_bytes!("../../fixtures/description-4.bin")[..]),
    ];
    for (description, fixture) in fixtures {
        let described = ComponentRow { description: Some(Box::new(description)), ..row() };
        let mut page = vec![0xEE; PAGE_SIZE];
        described.encode(77, 4, &mut page);
        assert_eq!(page[at..at + fixture.len()], fixture[..]);
        assert_eq!(ComponentRow::decode(77, 4, &page), Ok(described));
        // A set of one object is not said, and no object is outside of its set.
        for (offset, byte) in [(1, 1), (1, 0), (2, 3)] {
            let mut bad = page.clone();
            bad[at + fixture.len() - offset] = byte;
            let crc = base::crc32c(&bad[..4092]).to_le_bytes();
            bad[4092..].copy_from_slice(&crc);
            assert!(ComponentRow::decode(77, 4, &bad).is_err(), "{offset} from the end: {byte}");
        }
    }
}

#[test]
fn the_longest_description_fits_beside_the_most_clients() {
    let mut clients = ClientTable::default();
    for n in 1..2000 {
        let id = RequestId::new(ShardId(n), Incarnation(8), 1, 1).expect("small numbers");
        clients.apply(Mark::Done(id));
    }
    assert!(clients.encode().len() > base::CLIENT_TABLE_MAX - 64, "as good as full");
    let sibling = description().siblings[0];
    let full = Description {
        name: "n".repeat(64),
        siblings: vec![sibling; 8],
        part: Some((Version(1), Term(1))),
        width: 12,
        ..description()
    };
    let row = ComponentRow { clients, description: Some(Box::new(full)), ..row() };
    let mut page = vec![0; PAGE_SIZE];
    row.encode(77, 4, &mut page);
    assert_eq!(ComponentRow::decode(77, 4, &page), Ok(row));
}

#[test]
fn a_description_of_another_layout_is_refused() {
    let at = 120 + row().clients.encode().len() + 10;
    let mut page = vec![0; PAGE_SIZE];
    let described = ComponentRow { description: Some(Box::new(description())), ..row() };
    for (offset, byte) in
        [(0, 2), (0, 3), (0, 5), (1, 65), (1, 3), (20, 2), (44, 9), (44, 1), (44 + 5 + 24, 4)]
    {
        described.encode(77, 4, &mut page);
        page[at + offset] = byte;
        let crc = base::crc32c(&page[..4092]).to_le_bytes();
        page[4092..].copy_from_slice(&crc);
        assert!(ComponentRow::decode(77, 4, &page).is_err(), "byte {offset} of a description");
    }
}
