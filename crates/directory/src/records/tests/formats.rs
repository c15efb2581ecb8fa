// SPDX-License-Identifier: Apache-2.0
//! Records of programs that come after this one.

use super::affinity::{KEEPING_JSON, KEPT_JSON};
use super::cache::{CACHED_JSON, CACHING_JSON};
use super::levels::{ALIVE_LEVEL_JSON, LEVEL_JSON};
use super::writers::WRITTEN_JSON;
use super::*;
use crate::records::settings::tests::SETTINGS;

/// The good record in a format that nobody knows is refused for it, and not for its fields.
fn assert_named<T>(good: &str, decode: impl Fn(&[u8]) -> Result<T, RecordError>) {
    let (format, rest) = good.split_once(',').expect("a format before the fields");
    assert!(format.starts_with("{\"format\":"), "{good}");
    let later = format!("{{\"format\":99,{rest}");
    let found = decode(later.as_bytes()).err();
    assert!(matches!(found, Some(RecordError::Format { found: 99 })), "{later}: {found:?}");
}

#[test]
fn a_record_of_a_format_that_nobody_knows_is_refused_by_its_number() {
    for object in [OBJECT_JSON, CLAIMED_JSON, REPLACED_JSON, WRITTEN_JSON] {
        assert_named(object, ObjectRecord::decode);
    }
    for volume in [VOLUME_JSON, RESERVED_JSON, EXCLUSIVE_JSON, FOLLOWING_JSON, LIMITED_JSON] {
        assert_named(volume, VolumeRecord::decode);
    }
    for volume in [GROWN_JSON, TRASHED_JSON] {
        assert_named(volume, VolumeRecord::decode);
    }
    for volume in [
        volumes::STRIPED_JSON,
        volumes::LABELLED_JSON,
        volumes::WRITTEN_JSON,
        KEPT_JSON,
        CACHED_JSON,
    ] {
        assert_named(volume, VolumeRecord::decode);
    }
    for policy in [volumes::STRIPED_POLICY_JSON, KEEPING_JSON, CACHING_JSON] {
        assert_named(policy, PolicyRecord::decode);
    }
    for policy in [POLICY_JSON, LIMITED_POLICY_JSON] {
        assert_named(policy, PolicyRecord::decode);
    }
    for host in [HOST_JSON, SHARD_JSON] {
        assert_named(host, ShardRecord::decode);
    }
    for settings in SETTINGS {
        assert_named(settings, SettingsRecord::decode);
    }
    for alive in [ALIVE_JSON, ALIVE_LEVEL_JSON] {
        assert_named(alive, AliveRecord::decode);
    }
    for cluster in [CLUSTER_JSON, HYBRID_JSON, LEVEL_JSON] {
        assert_named(cluster, ClusterRecord::decode);
    }
    assert_named(DELETED_JSON, DeletedRecord::decode);
    assert_named(DOMAINS_JSON, DomainsRecord::decode);
    assert_named(MAINTENANCE_JSON, MaintenanceRecord::decode);
}
