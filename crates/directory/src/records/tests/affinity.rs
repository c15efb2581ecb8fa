// SPDX-License-Identifier: Apache-2.0
//! Records of volumes that are kept on one host, and of policies that say so.

use super::volumes::written_volume;
use super::*;

pub(super) const KEPT_JSON: &str = include_str!("../../../fixtures/volume-11.json");
pub(super) const KEEPING_JSON: &str = include_str!("../../../fixtures/policy-4.json");

fn kept_volume() -> VolumeRecord {
    VolumeRecord { ftt: 0, kept_on: Some("host1".to_owned()), ..written_volume() }
}

fn keeping_policy() -> PolicyRecord {
    PolicyRecord { ftt: 0, affinity: Affinity::Host, ..policy() }
}

#[test]
fn the_host_that_a_volume_is_kept_on_belongs_to_format_11() {
    assert_eq!(VolumeRecord::decode(KEPT_JSON.as_bytes()).unwrap(), kept_volume());
    assert_eq!(kept_volume().encode(), KEPT_JSON.trim_end().as_bytes());
    for older in [volume(), grown_volume(), limited_volume(), trashed_volume(), written_volume()] {
        let older = VolumeRecord { ftt: 0, ..older };
        let kept = VolumeRecord { kept_on: kept_volume().kept_on, ..older.clone() };
        assert_eq!(VolumeRecord::decode(&kept.encode()).unwrap(), kept);
        let free = VolumeRecord { kept_on: None, ..kept };
        assert_eq!(free.encode(), older.encode(), "as older programs read it");
    }
    let edits = [
        ("\"format\":11", "\"format\":10"),
        ("\"format\":11", "\"format\":1"),
        ("\"kept_on\":\"host1\",", ""),
        ("\"kept_on\":\"host1\"", "\"kept_on\":\"\""),
        ("\"kept_on\":\"host1\"", "\"kept_on\":\"host 1\""),
        ("\"ftt\":0", "\"ftt\":1"),
        ("\"writers\":\"one\",", ""),
        ("\"writer_epoch\":7", "\"writer_epoch\":0"),
    ];
    for (from, to) in edits {
        assert_refused(KEPT_JSON, VolumeRecord::decode, from, to);
    }
}

#[test]
fn the_affinity_of_a_policy_belongs_to_format_4() {
    assert_eq!(PolicyRecord::decode(KEEPING_JSON.as_bytes()).unwrap(), keeping_policy());
    assert_eq!(keeping_policy().encode(), KEEPING_JSON.trim_end().as_bytes());
    let limits = limited_policy().limits;
    for other in [policy(), limited_policy(), PolicyRecord { stripe_width: 4, limits, ..policy() }]
    {
        for force in [false, true] {
            let keeping = PolicyRecord { ftt: 0, affinity: Affinity::Host, force, ..other.clone() };
            assert_eq!(PolicyRecord::decode(&keeping.encode()).unwrap(), keeping);
        }
    }
    let affinity = "\"affinity\":\"host\"";
    let edits = [
        ("\"format\":4", "\"format\":3"),
        ("\"format\":4", "\"format\":1"),
        (affinity, "\"affinity\":\"none\""),
        (affinity, "\"affinity\":\"rack\""),
        (affinity, "\"affinity\":\"host\",\"stripe_width\":1"),
        (affinity, "\"affinity\":\"host\",\"force\":false"),
        ("\"affinity\":\"host\",", ""),
        ("\"ftt\":0", "\"ftt\":1"),
    ];
    for (from, to) in edits {
        assert_refused(KEEPING_JSON, PolicyRecord::decode, from, to);
    }
}
