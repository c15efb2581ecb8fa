// SPDX-License-Identifier: Apache-2.0
//! Has every component say on disk what it is a part of, as the newest records say: what `adopt`
//! makes records of when the directory lost them.
//!
//! What a component says never goes back: a record that is older than what stands there comes from
//! a directory that was restored from a backup of before.

use crate::cluster::view::View;
use crate::storage::Storage;
use base::{ComponentId, Incarnation, Lsn, Map, ObjectId, Set, Term, Version, VolumeId};
use directory::{
    About, ComponentRecord, ComponentState, Directory, OBJECT_PREFIX, ObjectRecord, VolumeRecord,
};
use diskgroup::{ComponentInfo, Description, DiskGroup, Sibling, Worth};
use env::Env;
use std::time::Duration;
use tracing::warn;

/// Least time between two rounds.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest time between two rounds: a group may have come, or a write may have failed.
const ROUND: Duration = Duration::from_secs(10);

/// Runs for ever.
pub(crate) async fn run(env: Env, view: View, storage: Storage, me: Incarnation) {
    let mut described = None;
    loop {
        let (changed, turn) = (view.changed().wait(), view.turn());
        let now = env.now();
        if described.is_none_or(|(at, since)| at != turn || now.since(since) >= ROUND) {
            let groups = storage.groups();
            let volumes = volumes_of(&view, &groups);
            for group in groups {
                describe_all(&view, &volumes, &group, me).await;
            }
            described = Some((turn, now));
        }
        env.sleep(PAUSE).await;
        env::select(changed, env.sleep(ROUND)).await;
    }
}

/// Before a host takes part: marks components whose records are older than what the components know
/// (rule 25), so that no claim is believed that raises such a record. Waits for the directory.
pub(crate) async fn check_history(env: &Env, directory: &Directory, groups: &[DiskGroup]) {
    let records: Map<ObjectId, ObjectRecord> = loop {
        match directory.list(OBJECT_PREFIX).await {
            Ok(listing) => {
                let entries = listing.entries.into_iter();
                let decoded = entries.filter_map(|(_, e)| ObjectRecord::decode(&e.value).ok());
                break decoded.map(|record| (record.id, record)).collect();
            }
            Err(error) => warn!(%error, "the directory does not answer; waiting for it"),
        }
        env.sleep(PAUSE).await;
    };
    for group in groups {
        for id in group.components() {
            let Some(info) = group.component(id) else { continue };
            let Some(record) = records.get(&info.object) else { continue };
            if info.went_back || !known(group, id, &info).is_after(record) {
                continue;
            }
            let since = info.orphaned.unwrap_or(env.wall().0 / 1_000_000_000);
            if let Err(error) = group.set_orphaned(id, Some(since), true).await {
                warn!(component = %id, %error, "it is not noted that the directory went back");
            }
        }
    }
}

/// Before a host takes part: its disks say in which run this is, so that a directory that goes back
/// in time does not give the number again, however short the run was (rule 46).
pub(crate) async fn note_run(groups: &[DiskGroup], me: Incarnation) {
    for group in groups {
        let is_described = |id: &ComponentId| group.description(*id).is_some();
        let Some(id) = group.components().into_iter().find(is_described) else { continue };
        if let Err(error) = group.note_run(id, me).await {
            warn!(component = %id, %error, "the run's number is not noted; tried again");
        }
    }
}

/// The volumes that components of these groups are of.
fn volumes_of(view: &View, groups: &[DiskGroup]) -> Map<VolumeId, VolumeRecord> {
    let components = groups.iter().flat_map(|group| {
        group.components().into_iter().filter_map(|id| Some(group.component(id)?.object))
    });
    let mine: Set<VolumeId> = components.filter_map(|id| Some(view.object(id)?.volume)).collect();
    let volumes = view.volumes_where(|volume| mine.contains(&volume.id)).into_iter();
    volumes.map(|volume| (volume.id, volume)).collect()
}

fn known(group: &DiskGroup, id: ComponentId, info: &ComponentInfo) -> object::Known {
    object::Known::new(info, group.description(id).as_ref())
}

async fn describe_all(
    view: &View,
    volumes: &Map<VolumeId, VolumeRecord>,
    group: &DiskGroup,
    me: Incarnation,
) {
    // One component at least says in which run of the host this was: a run that a directory which
    // went back in time gives again must not be taken for a new one.
    let mut says_run = group.described_in() >= me;
    for id in group.components() {
        let Some(info) = group.component(id) else { continue };
        let Some(object) = view.object(info.object) else { continue };
        let Some(volume) = volumes.get(&object.volume) else { continue };
        if !object.components.iter().any(|component| component.id == id) {
            continue;
        }
        let old = group.description(id);
        let known = known(group, id, &info);
        // A component that never served and says nothing has no other word than that of the record,
        // which may come from a backup: without it, it could not be adopted with that.
        let is_silent = old.is_none() && info.meta.term.0 == 0;
        if object.is_doubted && !is_silent || known.is_after(&object) {
            continue;
        }
        let Some(new) = description(volume, &object, me) else { continue };
        let new = Description { part: known.part_beside(&object), ..new };
        let is_same = old
            .as_ref()
            .is_some_and(|old| *old == Description { incarnation: old.incarnation, ..new.clone() });
        if is_same && says_run {
            continue;
        }
        match group.describe(id, new).await {
            Ok(()) => says_run = true,
            Err(error) => warn!(component = %id, %error, "not described; tried again"),
        }
    }
}

/// What a component of `object` says; `None` where the volume does not name the object.
fn description(
    volume: &VolumeRecord,
    object: &ObjectRecord,
    me: Incarnation,
) -> Option<Description> {
    let index = volume.objects.iter().position(|id| *id == object.id)?;
    let (column, width) = volume.layout().column_of(index)?;
    Some(Description {
        volume: volume.id,
        // One that is deleted can be made again under the name that it had.
        name: volume.trashed.as_ref().map_or(&volume.name, |trashed| &trashed.name).clone(),
        size_bytes: volume.size_bytes,
        ftt: volume.ftt,
        reserve_percent: volume.reserve_percent,
        index: u16::try_from(index).ok()?,
        objects: u16::try_from(volume.objects.len()).ok()?,
        column,
        width,
        version: object.version,
        term: object.term,
        part: None,
        incarnation: me,
        siblings: object.components.iter().map(sibling).collect(),
    })
}

/// What is known of a component that never came to say what it is a part of, where a record names
/// it, though one of before: without it nobody could adopt the component. The siblings that such a
/// record names are those that can have gone on without it, or whose successors can. What others of
/// the object say of themselves is newer, whatever the record's version.
pub(crate) fn about_by_records(view: &View, id: ComponentId, object: ObjectId) -> Option<About> {
    let object = view.object(object)?;
    let is_listed = object.components.iter().any(|component| component.id == id);
    let volumes = view.volumes_where(|volume| volume.id == object.volume);
    let said = description(volumes.first().filter(|_| is_listed)?, &object, Incarnation(0))?;
    about(&Description { version: Version(0), term: Term(0), ..said })
}

/// As the directory is told it; `None` where no record can hold it.
pub(crate) fn about(said: &Description) -> Option<About> {
    let component = |sibling: &Sibling| ComponentRecord {
        id: sibling.id,
        shard: sibling.shard,
        group: sibling.group,
        state: match sibling.worth {
            Worth::Active => ComponentState::Active,
            Worth::Absent => ComponentState::Absent,
            Worth::Degraded => ComponentState::Degraded,
            Worth::Resyncing => ComponentState::Resyncing,
        },
        seat: sibling.seat,
        left: Lsn::ZERO,
        replaces: None,
    };
    let about = About {
        volume: said.volume,
        name: said.name.clone(),
        size_bytes: said.size_bytes,
        ftt: said.ftt,
        reserve_percent: said.reserve_percent,
        index: said.index,
        objects: said.objects,
        column: said.column,
        width: said.width,
        version: said.version,
        term: said.term,
        siblings: said.siblings.iter().map(component).collect(),
    };
    about.check().is_ok().then_some(about)
}

fn sibling(component: &ComponentRecord) -> Sibling {
    Sibling {
        id: component.id,
        shard: component.shard,
        group: component.group,
        seat: component.seat,
        worth: match component.state {
            ComponentState::Active => Worth::Active,
            ComponentState::Absent => Worth::Absent,
            ComponentState::Degraded => Worth::Degraded,
            ComponentState::Resyncing => Worth::Resyncing,
        },
    }
}
