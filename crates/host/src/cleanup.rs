// SPDX-License-Identifier: Apache-2.0
//! Deletes components that no record lists (rule 41) and whose deletion nobody witnessed: the host
//! was down, or the creation never came to its transaction.

use crate::membership;
use crate::storage::Storage;
use base::{ComponentId, Instant, Map, ObjectId};
use directory::{Directory, ObjectRecord};
use env::Env;
use std::time::Duration;
use tracing::{info, warn};

/// Time between rounds.
const ROUND: Duration = Duration::from_secs(30);
/// How long a component without a record may be waiting for its creator's transaction. The creator
/// gives up long before (the directory bounds its calls to seconds), and a host that restarts makes
/// the transaction fail, because it compares the lease keys of all hosts that made a component.
const CREATION_PENDING: Duration = Duration::from_secs(120);

/// Runs for ever.
pub(crate) async fn run(env: Env, directory: Directory, cluster: u64, storage: Storage) {
    let mut unlisted_since: Map<ComponentId, Instant> = Map::new();
    let started = env.now();
    loop {
        for (component, info) in storage.components() {
            let now = env.now();
            match is_listed(&directory, info.object, component).await {
                None => continue, // the directory is away: decide nothing
                Some(true) => {
                    unlisted_since.remove(&component);
                    continue;
                }
                Some(false) => {}
            }
            let since = *unlisted_since.entry(component).or_insert(now);
            // A component that was ever fenced belonged to a record: its creation is over.
            let was_used = info.meta.term.0 > 0;
            if !was_used && now.since(since.max(started)) < CREATION_PENDING {
                continue;
            }
            unlisted_since.remove(&component);
            // A directory that was lost and begun anew lists nothing.
            if membership::is_cluster(&directory, cluster).await != Some(true) {
                continue;
            }
            let Some(group) = storage.holding(component) else { continue };
            match group.delete_component(component).await {
                Ok(()) => info!(%component, object = %info.object, "deleted: in no record"),
                Err(error) => warn!(%component, %error, "could not delete"),
            }
        }
        env.sleep(ROUND).await;
    }
}

/// Whether the object's record lists the component, by a linearizable read; `None`: unknown.
async fn is_listed(
    directory: &Directory,
    object: ObjectId,
    component: ComponentId,
) -> Option<bool> {
    let entry = directory.get(&directory::object_key(object)).await.ok()?;
    let Some(entry) = entry else { return Some(false) };
    let record = ObjectRecord::decode(&entry.value).ok()?;
    Some(record.components.iter().any(|c| c.id == component))
}
