// SPDX-License-Identifier: Apache-2.0
//! Which key holds which record. Identities are hexadecimal without leading zeros, as they are
//! displayed everywhere else.

use base::{ComponentId, ObjectId, ShardId, VolumeId};

/// Bytes of the longest name of a cluster, host, volume or policy.
pub const NAME_BYTES_MAX: usize = 64;

/// Every key of a cluster starts with this.
pub const PREFIX: &str = "/gabion/";
/// Keys of [`super::ShardRecord`]s.
pub const HOST_PREFIX: &str = "/gabion/host/";
/// Keys of [`super::AliveRecord`]s.
pub const ALIVE_PREFIX: &str = "/gabion/alive/";
/// Keys of [`super::VolumeRecord`]s.
pub const VOLUME_PREFIX: &str = "/gabion/volume/";
/// Keys of [`super::ObjectRecord`]s.
pub const OBJECT_PREFIX: &str = "/gabion/object/";

/// Keys of [`super::DeletedRecord`]s.
pub const DELETED_PREFIX: &str = "/gabion/deleted/";
/// Keys of [`super::RemovedShardRecord`]s.
pub const REMOVED_PREFIX: &str = "/gabion/removed/";
/// Keys of [`super::PolicyRecord`]s.
pub const POLICY_PREFIX: &str = "/gabion/policy/";
/// Keys of [`super::OrphanRecord`]s.
pub const ORPHAN_PREFIX: &str = "/gabion/orphan/";

/// What a name is not that [`is_name`] refuses.
pub(super) const NAME_RULE: &str =
    "is not 1 to 64 letters, digits, '.', '_' or '-', a letter or digit first";

/// Whether `name` may name a cluster, host, volume or policy: 1 to [`NAME_BYTES_MAX`] letters,
/// digits, `.`, `_` and `-` of ASCII, the first a letter or digit.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    name.len() <= NAME_BYTES_MAX
        && name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
        && name.bytes().all(is_inner)
}

/// The key of the [`super::ClusterRecord`].
#[must_use]
pub fn cluster_key() -> String {
    format!("{PREFIX}cluster")
}

/// The key of the [`super::SettingsRecord`].
#[must_use]
pub fn settings_key() -> String {
    format!("{PREFIX}settings")
}

/// The key of the [`super::MaintenanceRecord`].
#[must_use]
pub fn maintenance_key() -> String {
    format!("{PREFIX}maintenance")
}

/// The key of the [`super::DomainsRecord`].
#[must_use]
pub fn domains_key() -> String {
    format!("{PREFIX}domains")
}

/// The key of a host's [`super::ShardRecord`].
#[must_use]
pub fn host_key(shard: ShardId) -> String {
    format!("{HOST_PREFIX}{shard}")
}

/// The key of the [`super::RemovedShardRecord`] of a host.
#[must_use]
pub fn removed_key(shard: ShardId) -> String {
    format!("{REMOVED_PREFIX}{shard}")
}

/// The key of a host's [`super::AliveRecord`].
#[must_use]
pub fn alive_key(shard: ShardId) -> String {
    format!("{ALIVE_PREFIX}{shard}")
}

/// The key of the [`super::VolumeRecord`] of the volume `name`, which must be a name.
#[must_use]
pub fn volume_key(name: &str) -> String {
    assert!(is_name(name), "a volume's name is checked before its key is made");
    format!("{VOLUME_PREFIX}{name}")
}

/// The name of a volume that is deleted and can be brought back. No command takes such a name for a
/// volume: it has a capital letter.
#[must_use]
pub fn trash_name(volume: VolumeId) -> String {
    format!("Deleted_{volume}")
}

/// The key of the [`super::PolicyRecord`] of the policy `name`, which must be a name.
#[must_use]
pub fn policy_key(name: &str) -> String {
    assert!(is_name(name), "a policy's name is checked before its key is made");
    format!("{POLICY_PREFIX}{name}")
}

/// The key of an object's [`super::ObjectRecord`].
#[must_use]
pub fn object_key(object: ObjectId) -> String {
    format!("{OBJECT_PREFIX}{object}")
}

/// The key of a deleted volume's [`super::DeletedRecord`].
#[must_use]
pub fn deleted_key(volume: VolumeId) -> String {
    format!("{DELETED_PREFIX}{volume}")
}

/// The key of the [`super::OrphanRecord`] of a component.
#[must_use]
pub fn orphan_key(component: ComponentId) -> String {
    format!("{ORPHAN_PREFIX}{component}")
}

/// The component of a key that [`orphan_key`] made.
#[must_use]
pub fn parse_orphan_key(key: &str) -> Option<ComponentId> {
    parse_hex(key.strip_prefix(ORPHAN_PREFIX)?).map(ComponentId)
}

/// The host of a key that [`host_key`] made.
#[must_use]
pub fn parse_host_key(key: &str) -> Option<ShardId> {
    parse_host(key, HOST_PREFIX)
}

/// The host of a key that [`alive_key`] made.
#[must_use]
pub fn parse_alive_key(key: &str) -> Option<ShardId> {
    parse_host(key, ALIVE_PREFIX)
}

/// The host of a key that [`removed_key`] made.
#[must_use]
pub fn parse_removed_key(key: &str) -> Option<ShardId> {
    parse_host(key, REMOVED_PREFIX)
}

fn parse_host(key: &str, prefix: &str) -> Option<ShardId> {
    let id = parse_hex(key.strip_prefix(prefix)?)?;
    u32::try_from(id).ok().map(ShardId)
}

/// The object of a key that [`object_key`] made.
#[must_use]
pub fn parse_object_key(key: &str) -> Option<ObjectId> {
    parse_hex(key.strip_prefix(OBJECT_PREFIX)?).map(ObjectId)
}

/// The volume's name of a key that [`volume_key`] made.
#[must_use]
pub fn parse_volume_key(key: &str) -> Option<&str> {
    key.strip_prefix(VOLUME_PREFIX).filter(|name| is_name(name))
}

/// The policy's name of a key that [`policy_key`] made.
#[must_use]
pub fn parse_policy_key(key: &str) -> Option<&str> {
    key.strip_prefix(POLICY_PREFIX).filter(|name| is_name(name))
}

/// The number whose canonical text this is: lower case, no leading zeros, no sign.
pub(super) fn parse_hex(text: &str) -> Option<u64> {
    let is_digit = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    let is_canonical = text == "0" || !text.starts_with('0') && text.bytes().all(is_digit);
    is_canonical.then(|| u64::from_str_radix(text, 16).ok()).flatten()
}
