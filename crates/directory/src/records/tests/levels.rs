// SPDX-License-Identifier: Apache-2.0
//! Levels of releases, in the records that have one.

use super::*;

pub(super) const LEVEL_JSON: &str = include_str!("../../../fixtures/cluster-3.json");
pub(super) const ALIVE_LEVEL_JSON: &str = include_str!("../../../fixtures/alive-2.json");

#[test]
fn levels_above_the_first_have_formats_of_their_own() {
    let of = |number| Level::new(number).expect("not zero");
    let (incarnation, free_bytes) = (Incarnation(0x10), 4096);
    let alive = AliveRecord { incarnation, free_bytes, level: Level::LABELS };
    let (name, kind) = ("lab".to_owned(), ClusterKind::Hybrid);
    let cluster = ClusterRecord { id: 0xC1, name, kind, level: of(7) };
    for (written, fixture) in [(alive.encode(), ALIVE_LEVEL_JSON), (cluster.encode(), LEVEL_JSON)] {
        assert_eq!(String::from_utf8(written).unwrap(), fixture.trim_end());
    }
    assert_eq!(AliveRecord::decode(ALIVE_LEVEL_JSON.as_bytes()).unwrap(), alive);
    let read = ClusterRecord::decode(LEVEL_JSON.as_bytes()).unwrap();
    assert_eq!(read, cluster, "also one of a later release");
    let flash = ClusterRecord { kind: ClusterKind::AllFlash, ..cluster };
    assert_eq!(ClusterRecord::decode(&flash.encode()).unwrap(), flash);
    for level in ["0", "1", "-1"] {
        let to = format!("\"level\":{level}");
        assert_refused(LEVEL_JSON, ClusterRecord::decode, "\"level\":7", &to);
        assert_refused(ALIVE_LEVEL_JSON, AliveRecord::decode, "\"level\":2", &to);
    }
    assert_refused(LEVEL_JSON, ClusterRecord::decode, ",\"level\":7", "");
    assert_refused(LEVEL_JSON, ClusterRecord::decode, "\"format\":3", "\"format\":2");
    assert_refused(LEVEL_JSON, ClusterRecord::decode, "\"hybrid\"", "\"all-flash\"");
    assert_refused(ALIVE_LEVEL_JSON, AliveRecord::decode, "\"format\":2", "\"format\":1");
    assert_refused(ALIVE_LEVEL_JSON, AliveRecord::decode, ",\"level\":2", "");
}
