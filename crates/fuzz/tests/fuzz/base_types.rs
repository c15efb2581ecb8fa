// SPDX-License-Identifier: Apache-2.0
//! Sizes as people write them, requests' numbers, and the client table.

use base::{
    CLIENT_TABLE_MAX, ClientTable, Incarnation, Mark, RequestId, SectorRange, ShardId, format_size,
    parse_size,
};
use fuzz::{Source, bounded};

fuzz::targets! {
    size: 200_000, ["1.5T", "512KiB", "18446744073709551615B", "0"].map(Vec::from).into(), size_of;
    client_table: 100_000, vec![marked(&[1; 400]).encode()], client_table_of;
    sector_range: 100_000, Vec::new(), sector_range_of;
}

fn size_of(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let parsed = bounded(text.len(), || parse_size(&text));
    if let Err(error) = &parsed {
        crate::operators::one_line(error);
    }
    if let Ok(bytes) = parsed {
        assert!(text.starts_with(|first: char| first.is_ascii_digit()), "{text}");
        let written = format_size(bytes);
        if !written.contains('.') {
            assert_eq!(parse_size(&written), Ok(bytes), "{text} as {written}");
        }
    }
    let bytes = Source::new(input).edge();
    let written = format_size(bytes);
    assert!(written.contains('.') || parse_size(&written) == Ok(bytes), "{written}");
}

/// A request within its bounds.
pub(crate) fn request(from: &mut Source<'_>) -> RequestId {
    let (client, run) = (1 + from.below(9) as u32, from.below(1 << 24));
    let (slot, count) = (from.below(128) as u8, 1 + from.below((1 << 40) - 1));
    RequestId::new(ShardId(client), Incarnation(run), slot, count).expect("within its bounds")
}

/// A table after some marks.
pub(crate) fn marked(input: &[u8]) -> ClientTable {
    let mut from = Source::new(input);
    let mut table = ClientTable::default();
    while !from.is_empty() {
        let is_done = !from.u8().is_multiple_of(4);
        let id = request(&mut from);
        table.apply(if is_done { Mark::Done(id) } else { Mark::Undone(id) });
    }
    table
}

fn client_table_of(input: &[u8]) {
    if let Some(mut table) = bounded(input.len(), || ClientTable::decode(input)) {
        assert_eq!(table.encode(), input, "one encoding for each table");
        // It goes on to work: its own count of bytes is right.
        let id = request(&mut Source::new(input));
        table.apply(Mark::Done(id));
        assert!(table.has(id) || table.encode().is_empty(), "what was done is known");
        assert!(table.encode().len() <= CLIENT_TABLE_MAX, "it outgrows its page");
    }
    let table = marked(input);
    let bytes = table.encode();
    assert!(bytes.len() <= CLIENT_TABLE_MAX, "{} bytes", bytes.len());
    assert_eq!(ClientTable::decode(&bytes), Some(table));
    let mut from = Source::new(input);
    let (low, high) = (from.u32(), from.u64());
    if let Some(id) = RequestId::unpack(low, high) {
        assert_eq!(id.pack(), (low, high));
    }
}

fn sector_range_of(input: &[u8]) {
    let mut from = Source::new(input);
    let mut range = || SectorRange::checked(from.edge(), from.edge());
    let (Some(one), Some(other)) = (range(), range()) else { return };
    let both = one.intersect(other);
    assert_eq!(both.is_empty(), !one.overlaps(other) || one.is_empty() || other.is_empty());
    assert!(both.is_empty() || one.contains(both) && other.contains(both));
    assert_eq!(one.blocks().is_empty(), one.is_empty());
    let first: u64 = one.split_at_multiples(2048).take(100).map(|piece| piece.count).sum();
    assert!(first <= one.count);
}
