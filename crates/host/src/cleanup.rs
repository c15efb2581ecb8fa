// SPDX-License-Identifier: Apache-2.0
//! Looks at every component of this host: is it in a record (rule 40)? What a record says is
//! deleted is deleted, also where nobody witnessed it because the host was down. What no record
//! accounts for is kept: a directory that was restored from a backup does not know what is younger.
//!
//! What goes by itself after the quarantine is what never held anything: a component that no owner
//! ever took, the rest of a creation that failed.

use crate::membership;
use crate::quarantine::{Missing, Quarantine};
use crate::storage::Storage;
use crate::tombstones::Tombstones;
use base::{ComponentId, HostId, Instant, Lsn, Map, ObjectId, Set};
use directory::{Directory, ObjectRecord};
use diskgroup::ComponentInfo;
use env::Env;
use std::time::Duration;
use tracing::{error, info, warn};

/// Time between rounds.
const ROUND: Duration = Duration::from_secs(30);
/// How long a component without a record may be waiting for its creator's transaction. The creator
/// gives up long before (the directory bounds its calls to seconds), and a host that restarts makes
/// the transaction fail, because it compares the lease keys of all hosts that made a component.
const CREATION_PENDING: Duration = Duration::from_secs(120);

/// See the module.
pub(crate) struct Cleanup {
    pub(crate) env: Env,
    pub(crate) directory: Directory,
    pub(crate) cluster: u64,
    pub(crate) me: HostId,
    pub(crate) storage: Storage,
    pub(crate) quarantine: Quarantine,
    /// How long a component that no record accounts for is surely kept.
    pub(crate) keep: Duration,
}

impl Cleanup {
    /// Runs for ever.
    pub(crate) async fn run(self) {
        let mut since: Map<ComponentId, Instant> = Map::new();
        loop {
            self.round(&mut since).await;
            self.env.sleep(ROUND).await;
        }
    }

    /// Looks at everything once; at nothing while the directory is away.
    async fn round(&self, since: &mut Map<ComponentId, Instant>) {
        // In this order: what a tombstone names, and whose record is gone later, nobody makes again
        // before this host has taken itself out of the tombstone.
        let Ok(tombstones) = Tombstones::read(&self.directory).await else { return };
        let deleted = tombstones.objects_for(self.me);
        let components = self.storage.components();
        since.retain(|id, _| components.contains_key(id));
        self.quarantine.retain(|id| components.contains_key(&id));
        for (component, info) in components {
            let Ok(why) = missing(&self.directory, component, &info).await else { return };
            let Some(why) = why else {
                since.remove(&component);
                if self.quarantine.release(component) {
                    info!(%component, object = %info.object, "accounted for again");
                }
                continue;
            };
            let since = *since.entry(component).or_insert(self.env.now());
            self.decide(component, &info, why, since, &deleted).await;
        }
        if membership::is_cluster(&self.directory, self.cluster).await == Some(true) {
            tombstones.settle(&self.directory, self.me, &self.storage).await;
        }
    }

    async fn decide(
        &self,
        component: ComponentId,
        info: &ComponentInfo,
        why: Missing,
        since: Instant,
        deleted: &Set<ObjectId>,
    ) {
        let age = self.env.now().since(since);
        // A component that was ever fenced belonged to a record: its creation is over.
        let was_used = info.meta.term.0 > 0;
        let is_deleted = why == Missing::Object && deleted.contains(&info.object);
        if !is_deleted {
            if !was_used && age < CREATION_PENDING {
                return;
            }
            if self.quarantine.hold(component, why) {
                error!(
                    %component, object = %info.object, ?why,
                    "the directory does not account for it: kept, see 'gabion orphan list'"
                );
            }
            if !is_empty(info) || age < self.keep {
                return;
            }
        }
        // The records of another cluster, or of one begun anew, say nothing about this one.
        if membership::is_cluster(&self.directory, self.cluster).await != Some(true) {
            return;
        }
        let Some(group) = self.storage.holding(component) else { return };
        match group.delete_component(component).await {
            Ok(()) => {
                self.quarantine.release(component);
                info!(%component, object = %info.object, is_deleted, "deleted");
            }
            Err(error) => warn!(%component, %error, "could not delete"),
        }
    }
}

/// Whether no owner ever took it, so that it never had anything to hold.
fn is_empty(info: &ComponentInfo) -> bool {
    info.meta.term.0 == 0 && info.durable == Lsn::ZERO && info.held == 0
}

/// Why the directory does not account for a component, by a linearizable read; an error: unknown,
/// because the directory is away or the record cannot be read.
async fn missing(
    directory: &Directory,
    component: ComponentId,
    info: &ComponentInfo,
) -> Result<Option<Missing>, ()> {
    let entry = directory.get(&directory::object_key(info.object)).await.map_err(drop)?;
    let Some(entry) = entry else { return Ok(Some(Missing::Object)) };
    let Ok(record) = ObjectRecord::decode(&entry.value) else { return Ok(None) };
    Ok(match () {
        () if record.version < info.meta.version => Some(Missing::Version),
        () if record.components.iter().any(|c| c.id == component) => None,
        () => Some(Missing::Component),
    })
}
