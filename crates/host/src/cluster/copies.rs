// SPDX-License-Identifier: Apache-2.0
//! Whether anything would be lost with a host's disks.

use crate::cluster::register::RegisterError;
use base::{Set, ShardId, Term};
use directory::{
    ALIVE_PREFIX, ComponentState, Directory, DirectoryError, OBJECT_PREFIX, ObjectRecord,
    VOLUME_PREFIX, VolumeRecord, alive_key,
};
use env::{Address, Env};
use std::time::Duration;

/// Longest wait for the directory.
const WAIT: Duration = Duration::from_secs(5);

/// Names of the volumes of which a part has no whole copy but on `host` and on hosts that are down:
/// what those have is not known.
///
/// # Errors
/// [`RegisterError::Directory`], [`RegisterError::Malformed`].
pub async fn only_copies(
    env: &Env,
    directory: Address,
    shard: ShardId,
) -> Result<Vec<String>, RegisterError> {
    let directory = Directory::connect(env, directory);
    let list = async |prefix: &'static str| {
        let listed = env.timeout(WAIT, directory.list(prefix)).await;
        listed.unwrap_or(Err(DirectoryError::Unavailable))
    };
    let alive: Set<String> =
        list(ALIVE_PREFIX).await?.entries.into_iter().map(|(key, _)| key).collect();
    let mut alone = Set::new();
    for (key, entry) in list(OBJECT_PREFIX).await?.entries {
        let record = ObjectRecord::decode(&entry.value);
        let record = record.map_err(|_| RegisterError::Malformed(key.clone()))?;
        let is_elsewhere = record.components.iter().any(|c| {
            c.state == ComponentState::Active
                && c.shard != shard
                && alive.contains(&alive_key(c.shard))
        });
        // What nobody ever owned was never written.
        let is_here = record.components.iter().any(|c| c.shard == shard) && record.term > Term(0);
        if is_here && !is_elsewhere {
            alone.insert(record.id);
        }
    }
    let mut names = Vec::new();
    for (key, entry) in list(VOLUME_PREFIX).await?.entries {
        let record = VolumeRecord::decode(&entry.value);
        let record = record.map_err(|_| RegisterError::Malformed(key.clone()))?;
        if record.objects.iter().any(|id| alone.contains(id)) {
            names.push(record.name);
        }
    }
    Ok(names)
}
