// SPDX-License-Identifier: Apache-2.0
//! Records of volumes for which read cache is kept, and of policies that say so.

use super::volumes::written_volume;
use super::*;

pub(super) const CACHED_JSON: &str = include_str!("../../../fixtures/volume-12.json");
pub(super) const CACHING_JSON: &str = include_str!("../../../fixtures/policy-5.json");

fn cached_volume() -> VolumeRecord {
    let kept_on = Some("host1".to_owned());
    VolumeRecord { ftt: 0, kept_on, cache_percent: 20, ..written_volume() }
}

fn caching_policy() -> PolicyRecord {
    PolicyRecord { ftt: 0, affinity: Affinity::Host, cache_percent: 20, ..policy() }
}

#[test]
fn read_cache_of_a_volume_belongs_to_format_12() {
    assert_eq!(VolumeRecord::decode(CACHED_JSON.as_bytes()).unwrap(), cached_volume());
    assert_eq!(cached_volume().encode(), CACHED_JSON.trim_end().as_bytes());
    let near = VolumeRecord { cache_percent: 0, ..cached_volume() };
    let olders = [volume(), grown_volume(), limited_volume(), trashed_volume(), written_volume()];
    for older in olders.into_iter().chain([near]) {
        let cached = VolumeRecord { cache_percent: 100, ..older.clone() };
        assert_eq!(VolumeRecord::decode(&cached.encode()).unwrap(), cached);
        let without = VolumeRecord { cache_percent: 0, ..cached };
        assert_eq!(without.encode(), older.encode(), "as older programs read it");
    }
    let percent = "\"cache_percent\":20";
    let edits = [
        ("\"format\":12", "\"format\":11"),
        ("\"format\":12", "\"format\":1"),
        (",\"cache_percent\":20", ""),
        (percent, "\"cache_percent\":0"),
        (percent, "\"cache_percent\":101"),
        (percent, "\"cache_percent\":-1"),
        ("\"kept_on\":\"host1\"", "\"kept_on\":\"\""),
        ("\"ftt\":0", "\"ftt\":1"),
    ];
    for (from, to) in edits {
        assert_refused(CACHED_JSON, VolumeRecord::decode, from, to);
    }
}

#[test]
fn read_cache_of_a_policy_belongs_to_format_5() {
    assert_eq!(PolicyRecord::decode(CACHING_JSON.as_bytes()).unwrap(), caching_policy());
    assert_eq!(caching_policy().encode(), CACHING_JSON.trim_end().as_bytes());
    let limits = limited_policy().limits;
    for other in [policy(), limited_policy(), PolicyRecord { stripe_width: 4, limits, ..policy() }]
    {
        for force in [false, true] {
            let caching = PolicyRecord { cache_percent: 1, force, ..other.clone() };
            assert_eq!(PolicyRecord::decode(&caching.encode()).unwrap(), caching);
        }
    }
    let percent = "\"cache_percent\":20";
    let edits = [
        ("\"format\":5", "\"format\":4"),
        ("\"format\":5", "\"format\":1"),
        (percent, "\"cache_percent\":0"),
        (percent, "\"cache_percent\":101"),
        (percent, "\"cache_percent\":20,\"stripe_width\":1"),
        (percent, "\"cache_percent\":20,\"force\":false"),
        (",\"cache_percent\":20", ""),
        ("\"affinity\":\"host\"", "\"affinity\":\"none\""),
        ("\"ftt\":0", "\"ftt\":1"),
    ];
    for (from, to) in edits {
        assert_refused(CACHING_JSON, PolicyRecord::decode, from, to);
    }
}
