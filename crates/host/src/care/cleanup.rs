// SPDX-License-Identifier: Apache-2.0
//! Looks at every component of this host: is it in a record (rule 40)?
//!
//! A component whose object was deleted, by the word of a record, is deleted here too. This also
//! reaches a host that was down when the object was deleted.
//!
//! What this host's copy of the directory accounts for is not asked for: a host with thousands of
//! components asks for a few of them. Where there is no answer, what is known of a component stays
//! as it is, and the round goes on: else a directory that now and then does not answer would never
//! see one end.
//!
//! A component that no record accounts for is kept: a directory that was restored from a backup
//! does not know what is younger than the backup. The host tells the directory of such a component
//! once it no longer changes. So every host can show it and make its volume again (`adopt`).
//!
//! Two kinds of kept components go without an operator. One that never held anything, because no
//! owner ever took it (the rest of a creation that failed), goes after the quarantine. One that is
//! in the way of writes gives up its space where another host has all of it (`relief`).

use crate::care::tombstones::Tombstones;
use crate::care::{describe, relief};
use crate::cluster::membership;
use crate::cluster::view::View;
use crate::storage::Storage;
use base::{ComponentId, Instant, Lsn, Map, ObjectId, Set};
use directory::{
    Directory, Entry, Missing, ORPHAN_PREFIX, ObjectRecord, OrphanRecord, Transaction, orphan_key,
};
use diskgroup::{ComponentInfo, Description, DiskGroup};
use env::Env;
use object::Objects;
use peer::PeerId;
use std::time::Duration;
use tracing::{error, info, warn};

/// Time between rounds.
const ROUND: Duration = Duration::from_secs(30);
/// Time between rounds while what is held still changes.
const ROUND_UNSETTLED: Duration = Duration::from_secs(5);
/// How often devices are looked at between rounds, so that a full device does not wait for the next
/// round.
const LOOK: Duration = Duration::from_secs(1);
/// How long a component without a record may be waiting for its creator's transaction. The creator
/// gives up long before (the directory bounds its calls to seconds), and a host that restarts makes
/// the transaction fail, because it compares the lease keys of all hosts that made a component.
const CREATION_PENDING: Duration = Duration::from_secs(120);

/// See the module.
pub(crate) struct Cleanup {
    pub(crate) env: Env,
    pub(crate) directory: Directory,
    pub(crate) cluster: u64,
    pub(crate) me: PeerId,
    pub(crate) storage: Storage,
    pub(crate) objects: Objects,
    pub(crate) view: View,
    /// How long a component that no record accounts for is surely kept.
    pub(crate) keep: Duration,
}

/// What earlier rounds saw.
#[derive(Default)]
struct Seen {
    since: Map<ComponentId, Instant>,
    held: Map<ComponentId, OrphanRecord>,
    /// What could not be given up, until it is tried again.
    resting: relief::Resting,
}

impl Cleanup {
    /// Runs for ever.
    pub(crate) async fn run(self) {
        let mut seen = Seen::default();
        loop {
            let is_settled = self.round(&mut seen).await.unwrap_or(false);
            let until = self.env.now() + if is_settled { ROUND } else { ROUND_UNSETTLED };
            while self.env.now() < until {
                self.env.sleep(LOOK).await;
                if self.relieve(&mut seen.resting).await {
                    break; // the directory is told what is left
                }
            }
        }
    }

    /// Looks at every component once. Returns whether what is held is the same as in the round
    /// before. `None`: the directory does not answer, or has not this cluster's record. Then
    /// nothing is looked at, because its records say nothing about this cluster's components.
    async fn round(&self, seen: &mut Seen) -> Option<bool> {
        // The tombstones are read before the records. Where a tombstone names an object whose
        // record is found missing after that, nobody makes the record again before this host has
        // taken itself out of the tombstone.
        let tombstones = Tombstones::read(&self.directory).await.ok()?;
        if membership::is_cluster(&self.directory, self.cluster).await != Some(true) {
            return None;
        }
        let host = self.directory.get(&directory::host_key(self.me.shard)).await.ok()?;
        if host.is_none_or(|entry| entry.value != self.storage.record().encode()) {
            self.storage.publish(); // a directory that was lost and begun anew, or set back
        }
        let deleted = tombstones.objects_for(self.me.shard);
        let components = self.storage.components();
        seen.since.retain(|id, _| components.contains_key(id));
        let mut held: Map<ComponentId, OrphanRecord> = Map::new();
        let mut is_answered = true;
        for (component, info) in components {
            let Some(group) = self.storage.holding(component) else { continue };
            let about = group.description(component);
            let known = ComponentBook { component, info: &info, about: about.as_ref() };
            let Ok(why) = self.missing(&known).await else {
                is_answered = false;
                if let Some(before) = seen.held.get(&component) {
                    held.insert(component, before.clone());
                }
                continue;
            };
            let Some(why) = why else {
                seen.since.remove(&component);
                if info.orphaned.is_some() {
                    info!(%component, object = %info.object, "accounted for again");
                    mark(&group, component, None, false).await;
                }
                continue;
            };
            let since = *seen.since.entry(component).or_insert(self.env.now());
            if self.is_kept(&group, component, &info, why, since, &deleted).await {
                held.insert(component, self.record(&group, component, &info, why));
            }
        }
        let who = (self.me.shard, self.view.removed());
        let is_early = self.view.mutations().settle_early();
        tombstones.settle(&self.directory, who, (&self.storage, &self.objects), is_early).await;
        let is_settled = is_answered && held == seen.held;
        self.publish(&held, &seen.held, &deleted).await?;
        seen.held = held;
        Some(is_settled)
    }

    /// Why the directory does not account for a component; an error: it does not answer.
    async fn missing(&self, known: &ComponentBook<'_>) -> Result<Option<Missing>, ()> {
        let ComponentBook { info, .. } = known;
        let is_current = self.directory.is_connected() && self.view.is_complete();
        // One that is marked is to be accounted for by the directory itself.
        let record = self.view.object(info.object).filter(|_| is_current);
        let record = record.filter(|_| info.orphaned.is_none());
        if record.is_some_and(|record| known.missing_of(&record).is_none()) {
            return Ok(None);
        }
        let entry = self.directory.get(&directory::object_key(info.object)).await.map_err(drop)?;
        Ok(known.missing_in(entry.as_ref()))
    }

    /// Decides about a component that no record accounts for, and returns whether it is to be
    /// shown as held. One whose creation may still be under way stays and is not shown. One whose
    /// object was deleted, or that no record names, that never held anything and whose quarantine
    /// is over, is deleted.
    async fn is_kept(
        &self,
        group: &DiskGroup,
        component: ComponentId,
        info: &ComponentInfo,
        why: Missing,
        since: Instant,
        deleted: &Set<ObjectId>,
    ) -> bool {
        // A component that was ever fenced belonged to a record: its creation is over.
        let was_used = info.meta.term.0 > 0;
        let is_named = deleted.contains(&info.object) || self.view.mutations().delete_unnamed();
        let is_deleted = why == Missing::Object && is_named;
        // One that a record names is no rest of a creation, also where that record is not believed:
        // it is kept like any other.
        let is_unnamed = why.is_unnamed();
        let is_pending = is_unnamed && !was_used && self.env.now().since(since) < CREATION_PENDING;
        if !is_deleted && is_pending {
            return false;
        }
        let went_back = matches!(why, Missing::Version | Missing::History);
        if !is_deleted && (info.orphaned.is_none() || (went_back && !info.went_back)) {
            // It may have been deleted since the tombstones were read. Then the next round deletes
            // it here.
            if why == Missing::Object {
                let Ok(now) = Tombstones::read(&self.directory).await else { return false };
                if now.objects_for(self.me.shard).contains(&info.object) {
                    base::hit(base::Probe::DeletedWhileLooking);
                    return false;
                }
            }
            match is_unnamed && is_empty(info) {
                true => warn!(
                    %component, object = %info.object, ?why,
                    "no record accounts for it: it never held anything, and goes after a while"
                ),
                false => error!(
                    %component, object = %info.object, ?why,
                    "the directory does not account for it: kept, see 'gabion orphan list'"
                ),
            }
            let since = info.orphaned.unwrap_or_else(|| self.wall_seconds());
            mark(group, component, Some(since), went_back || info.went_back).await;
        }
        let age = self.wall_seconds().saturating_sub(info.orphaned.unwrap_or(u64::MAX));
        let is_over = is_unnamed && !is_pending && is_empty(info) && age >= self.keep.as_secs();
        if !is_deleted && !is_over {
            return true;
        }
        match group.delete_component(component).await {
            Ok(()) => info!(%component, object = %info.object, is_deleted, "deleted"),
            Err(error) => warn!(%component, %error, "could not delete"),
        }
        false
    }

    pub(crate) fn wall_seconds(&self) -> u64 {
        (self.env.wall().0 / 1_000_000_000).max(1)
    }

    pub(crate) fn record(
        &self,
        group: &DiskGroup,
        id: ComponentId,
        info: &ComponentInfo,
        missing: Missing,
    ) -> OrphanRecord {
        OrphanRecord {
            id,
            object: info.object,
            sectors: info.sectors,
            shard: self.me.shard,
            incarnation: self.me.incarnation,
            group: group.id(),
            missing,
            since: info.orphaned.unwrap_or_else(|| self.wall_seconds()),
            used_bytes: u64::from(info.held) * base::CHUNK_SIZE,
            term: info.meta.term,
            seat: info.meta.seat,
            version: info.meta.version,
            durable: info.durable,
            is_damaged: info.damaged || info.partial,
            given_up: None,
            about: match group.description(id) {
                Some(said) => describe::about(&said),
                None => describe::about_by_records(&self.view, id, info.object),
            },
        }
    }

    /// Makes the directory list the components that are held and did not change since the last
    /// round. One that somebody still writes to is not ready to be made a volume again, and is not
    /// listed.
    async fn publish(
        &self,
        held: &Map<ComponentId, OrphanRecord>,
        before: &Map<ComponentId, OrphanRecord>,
        deleted: &Set<ObjectId>,
    ) -> Option<()> {
        let entries = self.directory.list(ORPHAN_PREFIX).await.ok()?.entries.into_iter();
        let told = entries.filter_map(|(key, entry)| {
            let record = OrphanRecord::decode(&entry.value).ok()?;
            (record.shard == self.me.shard).then_some((key, record))
        });
        let mut told: Map<String, OrphanRecord> = told.collect();
        let mut changes = Vec::new();
        for (id, record) in held.iter().filter(|(id, record)| before.get(id) == Some(record)) {
            let key = orphan_key(*id);
            if told.remove(&key).as_ref() != Some(record) {
                changes.push(Transaction::new().put(key, record.encode()));
            }
        }
        for (key, record) in told {
            let was_given_up = record.given_up.is_some() && !held.contains_key(&record.id);
            if !(was_given_up && self.is_missed(&record, deleted).await?) {
                changes.push(Transaction::new().delete(key));
            }
        }
        for change in changes {
            self.directory.transact(change).await.ok()?;
        }
        Some(())
    }

    /// Whether the directory must still remember a component that was given up. It must while the
    /// object, unless it was deleted, has no record or a doubted one: whoever makes that record
    /// again has to know that nobody went on with this component.
    async fn is_missed(&self, gone: &OrphanRecord, deleted: &Set<ObjectId>) -> Option<bool> {
        if deleted.contains(&gone.object) || self.storage.holding(gone.id).is_some() {
            return Some(false);
        }
        let entry = self.directory.get(&directory::object_key(gone.object)).await.ok()?;
        let record = entry.map(|entry| ObjectRecord::decode(&entry.value));
        Some(record.is_none_or(|record| record.is_ok_and(|record| record.is_doubted)))
    }
}

/// Whether no owner ever took it, so that it never had anything to hold.
pub(crate) fn is_empty(info: &ComponentInfo) -> bool {
    info.meta.term.0 == 0 && info.durable == Lsn::ZERO && info.held == 0
}

async fn mark(group: &DiskGroup, component: ComponentId, since: Option<u64>, went_back: bool) {
    if let Err(error) = group.set_orphaned(component, since, went_back).await {
        warn!(%component, %error, "it is not noted since when no record accounts for it");
    }
}

/// What a component knows of its record.
pub(crate) struct ComponentBook<'a> {
    pub(crate) component: ComponentId,
    pub(crate) info: &'a ComponentInfo,
    pub(crate) about: Option<&'a Description>,
}

impl ComponentBook<'_> {
    /// Why `entry`, the record of the component's object, does not account for the component;
    /// `None`: it does. A record that cannot be decoded accounts for every component of its object.
    pub(crate) fn missing_in(&self, entry: Option<&Entry>) -> Option<Missing> {
        let Some(entry) = entry else { return Some(Missing::Object) };
        let Ok(record) = ObjectRecord::decode(&entry.value) else { return None };
        self.missing_of(&record)
    }

    /// Why the record of the component's object does not account for it; `None`: it does.
    fn missing_of(&self, record: &ObjectRecord) -> Option<Missing> {
        let known = object::Known::new(self.info, self.about);
        let is_older = record.is_doubted || known.is_after(record);
        match () {
            () if known.is_of_other(record) => Some(Missing::History),
            () if is_older => Some(Missing::Version),
            () if record.components.iter().any(|c| c.id == self.component) => None,
            // Its owner has it deleted (rule 40).
            () if record.removed.iter().any(|removed| removed.id == self.component) => None,
            () => Some(Missing::Component),
        }
    }
}
