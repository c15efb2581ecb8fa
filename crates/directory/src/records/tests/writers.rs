// SPDX-License-Identifier: Apache-2.0
//! The epoch of a volume's writer in the records of its objects.

use super::*;

pub(super) const WRITTEN_JSON: &str = include_str!("../../../fixtures/object-4.json");

/// An object with all that one can have, of a volume that one host writes to at a time.
fn written() -> ObjectRecord {
    ObjectRecord { writer_epoch: WriterEpoch(7), ..replaced() }
}

#[test]
fn an_epoch_of_the_writer_belongs_to_format_4_of_an_object() {
    assert_eq!(String::from_utf8(written().encode()).unwrap(), WRITTEN_JSON.trim_end());
    assert_eq!(ObjectRecord::decode(WRITTEN_JSON.as_bytes()).unwrap(), written());
    let edits = [("\"format\":4", "\"format\":3"), ("\"writer_epoch\":7", "\"writer_epoch\":0")];
    for (from, to) in edits {
        assert_refused(WRITTEN_JSON, ObjectRecord::decode, from, to);
    }
    let plain = ObjectRecord { writer_epoch: WriterEpoch(1), ..object() };
    assert_eq!(ObjectRecord::decode(&plain.encode()).unwrap(), plain, "alone");
}
