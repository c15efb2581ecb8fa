// SPDX-License-Identifier: Apache-2.0
//! Records of volumes that were grown, that are striped, that are deleted and can be brought back,
//! that have labels, or that one host writes.

use super::*;

pub(super) const STRIPED_JSON: &str = include_str!("../../../fixtures/volume-8.json");
pub(super) const LABELLED_JSON: &str = include_str!("../../../fixtures/volume-9.json");
pub(super) const WRITTEN_JSON: &str = include_str!("../../../fixtures/volume-10.json");
pub(super) const STRIPED_POLICY_JSON: &str = include_str!("../../../fixtures/policy-3.json");

/// Two stripe sets of three objects, deleted as it is.
fn striped_volume() -> VolumeRecord {
    let runs = vec![ObjectRun { sets: 2, sectors: 12_288, width: 3 }];
    let objects = (1..=6).map(ObjectId).collect();
    let size_bytes = 2 * 12_288 * SECTOR_SIZE;
    VolumeRecord { stripe_width: 3, size_bytes, runs, objects, ..trashed_volume() }
}

fn labelled_volume() -> VolumeRecord {
    VolumeRecord {
        labels: labels([("env", "prod"), ("example.org/tier", "")]),
        ..reserved_volume()
    }
}

fn labels<const N: usize>(pairs: [(&str, &str); N]) -> Labels {
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

fn striped_policy() -> PolicyRecord {
    PolicyRecord { stripe_width: 4, ..limited_policy() }
}

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
    let even = grown(half, [ObjectRun::of_object(more.sectors)], &[more]);
    assert_eq!((even.size_bytes, even.runs.len()), (8 << 20, 0));
    assert_eq!(VolumeRecord::decode(&even.encode()).unwrap(), even);
}

#[test]
fn stripes_belong_to_format_8_of_a_volume_and_format_3_of_a_policy() {
    assert_eq!(VolumeRecord::decode(STRIPED_JSON.as_bytes()).unwrap(), striped_volume());
    assert_eq!(striped_volume().encode(), STRIPED_JSON.trim_end().as_bytes());
    assert_eq!(PolicyRecord::decode(STRIPED_POLICY_JSON.as_bytes()).unwrap(), striped_policy());
    assert_eq!(striped_policy().encode(), STRIPED_POLICY_JSON.trim_end().as_bytes());
    let narrow = VolumeRecord { stripe_width: 1, ..striped_volume() };
    let to_be = VolumeRecord { stripe_width: 12, ..grown_volume() };
    for other in [narrow, to_be, VolumeRecord { stripe_width: 2, ..volume() }] {
        assert_eq!(VolumeRecord::decode(&other.encode()).unwrap(), other);
    }
    let (thin, forced) = (PolicyRecord { stripe_width: 2, ..policy() }, policy());
    for other in [thin, PolicyRecord { force: true, ..forced }] {
        assert_eq!(PolicyRecord::decode(&other.encode()).unwrap(), other);
    }
    let unsaid = "\"stripe_width\":4,\"force\":false";
    assert_refused(STRIPED_POLICY_JSON, PolicyRecord::decode, "\"stripe_width\":4", unsaid);
    let edits = [
        ("\"format\":8", "\"format\":7"),
        ("\"format\":8", "\"format\":6"),
        ("\"stripe_width\":3", "\"stripe_width\":1"),
        ("\"stripe_width\":3", "\"stripe_width\":0"),
        ("\"stripe_width\":3", "\"stripe_width\":13"),
        ("[2,12288,3]", "[2,12288,2]"),
        ("[2,12288,3]", "[2,12288,13]"),
        ("[2,12288,3]", "[2,12288,0]"),
        ("[2,12288,3]", "[6,4096,1]"), // said without stripes
        ("[2,12288,3]", "[1,12288,3],[1,12288,3]"),
        ("[2,12288,3]", "[1,20480,3],[1,4096,3]"), // its last object would be empty
        ("[2,12288,3]", "[1,12287,3],[1,12289,3]"), // the second set begins within a block
        ("\"sets\":[[2,12288,3]]", "\"runs\":[[2,12288]]"),
    ];
    for (from, to) in edits {
        assert_refused(STRIPED_JSON, VolumeRecord::decode, from, to);
    }
    for width in ["0", "1", "13"] {
        let width = format!("\"stripe_width\":{width}");
        assert_refused(STRIPED_POLICY_JSON, PolicyRecord::decode, "\"stripe_width\":4", &width);
    }
    for format in ["\"format\":1", "\"format\":2"] {
        assert_refused(STRIPED_POLICY_JSON, PolicyRecord::decode, "\"format\":3", format);
    }
    let more = [5_u64, 6].map(|id| ObjectRecord { id: ObjectId(id), sectors: 2048, ..object() });
    let run = ObjectRun { sets: 1, sectors: 4096, width: 2 };
    let next = grown(grown_volume_of_blocks(), [run], &more);
    assert_eq!(next.layout().runs().last(), Some(run));
    assert_eq!(VolumeRecord::decode(&next.encode()).unwrap(), next);
}

#[test]
fn labels_belong_to_format_9_of_a_volume() {
    assert_eq!(VolumeRecord::decode(LABELLED_JSON.as_bytes()).unwrap(), labelled_volume());
    assert_eq!(labelled_volume().encode(), LABELLED_JSON.trim_end().as_bytes());
    for older in [
        volume(),
        reserved_volume(),
        exclusive_volume(),
        following_volume(),
        limited_volume(),
        grown_volume(),
        trashed_volume(),
        striped_volume(),
    ] {
        let before = older.encode();
        assert!(VolumeRecord::decode(&before).unwrap().labels.is_empty());
        let other = VolumeRecord { labels: labelled_volume().labels, ..older };
        assert_eq!(VolumeRecord::decode(&other.encode()).unwrap(), other);
        let without = VolumeRecord { labels: Labels::new(), ..other };
        assert_eq!(without.encode(), before, "as older programs read it");
    }
    let said = "\"labels\":[[\"env\",\"prod\"],[\"example.org/tier\",\"\"]]";
    let (long, longest) = ("k".repeat(64), "v".repeat(63));
    let edits = [
        ("\"format\":9", "\"format\":8"),
        ("\"format\":9", "\"format\":2"),
        (said, "\"labels\":[]"),
        (said, "\"labels\":{\"env\":\"prod\"}"),
        (said, "\"labels\":[[\"env\"]]"),
        (said, "\"labels\":[[\"env\",\"a\"],[\"env\",\"b\"]]"),
        (said, "\"labels\":[[\"tier\",\"a\"],[\"env\",\"b\"]]"),
        ("example.org/tier", "example.org/"),
        ("\"env\"", "\"\""),
        ("\"env\"", "\"e v\""),
        ("\"env\"", &format!("\"{long}\"")),
        ("prod", "p=d"),
        ("prod", &long),
        (&format!("{said},"), ""),
    ];
    for (from, to) in edits {
        assert_refused(LABELLED_JSON, VolumeRecord::decode, from, to);
    }
    let many = |count| (10..10 + count).map(|n| (format!("k{n}"), longest.clone())).collect();
    let full = VolumeRecord { labels: many(LABELS_MAX), ..volume() };
    assert_eq!(VolumeRecord::decode(&full.encode()).unwrap(), full);
    let one = |n| format!("[\"k{n}\",\"{longest}\"]");
    let more = format!("{},{}", one(25), one(26));
    assert_refused(
        &String::from_utf8(full.encode()).unwrap(),
        VolumeRecord::decode,
        &one(25),
        &more,
    );
}

pub(super) fn written_volume() -> VolumeRecord {
    let writer = Some(OwnerRecord { shard: ShardId(2), incarnation: Incarnation(0x1A) });
    let writing = Writing { writers: Writers::One, epoch: WriterEpoch(7), writer };
    VolumeRecord { writing, ..labelled_volume() }
}

#[test]
fn who_may_write_belongs_to_format_10_of_a_volume() {
    assert_eq!(VolumeRecord::decode(WRITTEN_JSON.as_bytes()).unwrap(), written_volume());
    assert_eq!(written_volume().encode(), WRITTEN_JSON.trim_end().as_bytes());
    let any = Writing { writers: Writers::Any, epoch: WriterEpoch(8), writer: None };
    for other in [volume(), striped_volume(), grown_volume(), limited_volume(), trashed_volume()] {
        for writing in [any, Writing::of_new(Writers::One), written_volume().writing] {
            let written = VolumeRecord { writing, ..other.clone() };
            assert_eq!(VolumeRecord::decode(&written.encode()).unwrap(), written);
        }
    }
    let writer = ",\"writer\":{\"host\":2,\"incarnation\":\"1a\"}";
    let edits = [
        ("\"format\":10", "\"format\":9"),
        ("\"format\":10", "\"format\":8"),
        ("\"writers\":\"one\",", ""),
        ("\"writers\":\"one\"", "\"writers\":\"some\""),
        ("\"writers\":\"one\"", "\"writers\":\"any\""), // of which none is the writer
        ("\"writer_epoch\":7,", ""),
        ("\"writer_epoch\":7", "\"writer_epoch\":0"),
        ("\"writer_epoch\":7", "\"writer_epoch\":4294967296"),
        ("\"host\":2", "\"host\":0"),
    ];
    for (from, to) in edits {
        assert_refused(WRITTEN_JSON, VolumeRecord::decode, from, to);
    }
    let said = format!("\"writers\":\"one\",\"writer_epoch\":7{writer},");
    assert_refused(WRITTEN_JSON, VolumeRecord::decode, &said, "");
}

#[test]
fn an_epoch_has_one_writer_at_most() {
    let run = |host, run| OwnerRecord { shard: ShardId(host), incarnation: Incarnation(run) };
    let (a, b) = (run(1, 5), run(2, 9));
    let new = Writing::of_new(Writers::One);
    assert_eq!((new.epoch_of(a), new.epoch_of(b)), (None, None), "nobody has written");
    let of_a = new.with_writer(a).unwrap();
    assert_eq!(of_a.epoch, new.epoch, "nobody wrote in it");
    assert_eq!((of_a.epoch_of(a), of_a.epoch_of(run(1, 6))), (Some(new.epoch), None));
    let of_b = of_a.with_writer(b).unwrap();
    let given_back = of_b.in_next(None).unwrap();
    let again = given_back.with_writer(a).unwrap();
    let any = again.changed_to(Writers::Any).unwrap();
    assert_eq!(any.epoch_of(a), any.epoch_of(b));
    let one = any.changed_to(Writers::One).unwrap();
    let epochs = [of_a, of_b, again, any, one].map(|writing| writing.epoch);
    assert!(epochs.windows(2).all(|two| two[0] < two[1]), "{epochs:?}");
    let back = of_a.put_back(WriterEpoch::ANY);
    assert!(back.epoch > one.epoch && back.writer.is_none());
    assert!(of_a.put_back(back.epoch).epoch > back.epoch, "once more");
    assert!(Writing::default().put_back(any.epoch).epoch > any.epoch, "there was none then");
    assert_eq!(Writing::default().put_back(WriterEpoch::ANY), Writing::default());
    assert_eq!(Writing::made_anew(WriterEpoch::ANY), Some(Writing::default()));
    assert!(Writing::made_anew(of_b.epoch).unwrap().epoch > of_b.epoch);
    assert_eq!(Writing { epoch: WriterEpoch(u32::MAX), ..of_a }.with_writer(b), None);
}

fn grown_volume_of_blocks() -> VolumeRecord {
    let even = VolumeRecord { size_bytes: 2 * OBJECT_SECTORS_MAX * SECTOR_SIZE, ..volume() };
    let more = ObjectRecord { id: ObjectId(3), sectors: 4096, ..object() };
    grown(even, [ObjectRun::of_object(4096)], &[more])
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

#[test]
fn a_volume_with_more_objects_than_it_needs_is_cut_into_equal_ones() {
    let large = OBJECT_SECTORS_MAX * SECTOR_SIZE;
    assert_eq!(object_sectors(large, 1), Some(OBJECT_SECTORS_MAX));
    assert_eq!(object_sectors(large + 512, 1), None, "they do not cover it");
    assert_eq!(object_sectors(large + 512, 2), Some(OBJECT_SECTORS_MAX), "the largest ones");
    assert_eq!(object_sectors(512, 0), None);
    let chunk = CHUNK_SECTORS * SECTOR_SIZE;
    assert_eq!(object_sectors(5 * chunk, 3), Some(2 * CHUNK_SECTORS), "two, two and one");
    assert_eq!(object_sectors(5 * chunk - 512, 3), Some(2 * CHUNK_SECTORS));
    assert_eq!(object_sectors(5 * chunk, 4), None, "three of two chunks are enough");
    assert_eq!(object_sectors(chunk, 2), None, "no object is smaller than a chunk");
    // Whatever whole number of chunks an object is asked to have, the count alone tells a size that
    // covers the volume with as many objects, none of them empty.
    for sectors in (1..40 * CHUNK_SECTORS).step_by(777) {
        for chunks in 1..45 {
            let count = sectors.div_ceil(chunks * CHUNK_SECTORS);
            let each = object_sectors(sectors * SECTOR_SIZE, count).expect("a size");
            assert_eq!(sectors.div_ceil(each), count, "{sectors} by {chunks} chunks");
            assert!(each.is_multiple_of(CHUNK_SECTORS));
        }
    }
}
