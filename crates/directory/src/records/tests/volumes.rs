// SPDX-License-Identifier: Apache-2.0
//! Records of volumes that were grown, and of those that are deleted and can be brought back.

use super::*;

#[test]
fn how_large_objects_are_belongs_to_format_6_of_a_volume() {
    assert_eq!(VolumeRecord::decode(GROWN_JSON.as_bytes()).unwrap(), grown_volume());
    for other in [limited_volume(), exclusive_volume(), following_volume()] {
        let grown = VolumeRecord {
            runs: grown_volume().runs,
            objects: grown_volume().objects,
            size_bytes: grown_volume().size_bytes,
            ..other
        };
        assert_eq!(VolumeRecord::decode(&grown.encode()).unwrap(), grown);
    }
    let edits = [
        ("\"format\":6", "\"format\":5"),
        ("\"format\":6", "\"format\":1"),
        ("\"format\":6", "\"format\":7"),
        ("[1,4096]", "[1,4097]"), // the next object begins within a block
        ("[1,4096]", "[1,4104]"), // another size
        ("[1,4096]", "[0,4096]"),
        ("[1,4096]", "[2,4096]"),
        ("[1,4096]", "[1,0]"),
        ("[2,534773760]", "[1,534773760],[1,534773760]"), // could be shorter
        ("[2,534773760]", "[2,534773761]"),
        ("\"runs\":[[2,534773760],[1,4096],[1,1001]]", "\"runs\":[]"),
        ("\"3\",\"4\"", "\"3\""),
    ];
    for (from, to) in edits {
        assert_refused(GROWN_JSON, VolumeRecord::decode, from, to);
    }
    // One that is cut evenly after it grew says nothing.
    let half = VolumeRecord { size_bytes: 4 << 20, objects: vec![ObjectId(1)], ..volume() };
    let more = ObjectRecord { id: ObjectId(2), sectors: (4 << 20) / SECTOR_SIZE, ..object() };
    let even = half.with_objects(&[more]);
    assert_eq!((even.size_bytes, even.runs.len()), (8 << 20, 0));
    assert_eq!(VolumeRecord::decode(&even.encode()).unwrap(), even);
}

#[test]
fn a_deleted_volume_has_a_name_of_its_own() {
    assert_eq!(VolumeRecord::decode(TRASHED_JSON.as_bytes()).unwrap(), trashed_volume());
    let grown = VolumeRecord {
        name: trash_name(VolumeId(0x1F)),
        trashed: trashed_volume().trashed,
        ..grown_volume()
    };
    assert_eq!(VolumeRecord::decode(&grown.encode()).unwrap(), grown);
    let edits = [
        ("\"format\":7", "\"format\":6"),
        ("\"format\":7", "\"format\":2"),
        ("Deleted_1f", "Deleted_2f"),
        ("Deleted_1f", "db-1"),
        ("\"name\":\"db-1\"", "\"name\":\"\""),
        ("\"since\"", "\"until\""),
        ("\"deleted\":{\"name\":\"db-1\",\"since\":1790000000},", ""),
    ];
    for (from, to) in edits {
        assert_refused(TRASHED_JSON, VolumeRecord::decode, from, to);
    }
    let named_so = VolumeRecord { name: trash_name(VolumeId(0x1F)), ..volume() };
    assert!(named_so.check().is_err(), "a volume in use");
}
