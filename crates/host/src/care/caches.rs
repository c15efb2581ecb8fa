// SPDX-License-Identifier: Apache-2.0
//! Keeps read cache of this host's hybrid disk groups for volumes that ask for it
//! (docs/operations/read-cache.md).
//!
//! The copies of an object whose hosts are up share what is asked for it, since each of its regions
//! is read from one of them. Disk groups forget what they keep when they are closed: all of them
//! are told anew in each round.

use crate::cluster::view::View;
use crate::storage::Storage;
use base::{ComponentId, Map, ObjectId, SECTOR_SIZE, ShardId};
use directory::{ComponentRecord, ComponentState, ObjectRecord};
use diskgroup::DiskGroup;
use env::Env;
use std::time::Duration;

/// Time between rounds.
const ROUND: Duration = Duration::from_secs(10);

/// Runs for ever.
pub(crate) async fn run(env: Env, view: View, storage: Storage) {
    loop {
        env.sleep(ROUND).await;
        let wanted = wanted(&view);
        for group in storage.groups() {
            let shares =
                if wanted.is_empty() { Vec::new() } else { shares(&view, &group, &wanted) };
            group.keep_cached(&shares);
        }
    }
}

/// The objects for which cache is kept, and for which part of them, percent.
fn wanted(view: &View) -> Map<ObjectId, u8> {
    let mut wanted = Map::new();
    view.for_each_volume(|volume| {
        if volume.cache_percent > 0 && volume.trashed.is_none() {
            wanted.extend(volume.objects.iter().map(|object| (*object, volume.cache_percent)));
        }
    });
    wanted
}

/// What each component of a group is to keep, bytes.
fn shares(view: &View, group: &DiskGroup, wanted: &Map<ObjectId, u8>) -> Vec<(ComponentId, u64)> {
    let share = |id: ComponentId| {
        let object = group.component(id)?.object;
        let percent = wanted.get(&object)?;
        let is_up = |shard| view.alive(shard).is_some();
        Some((id, share(&view.object(object)?, id, *percent, is_up)?))
    };
    group.components().into_iter().filter_map(share).collect()
}

/// What one component of an object is to keep; `None` where it is not read.
fn share(
    object: &ObjectRecord,
    id: ComponentId,
    percent: u8,
    is_up: impl Fn(ShardId) -> bool,
) -> Option<u64> {
    let is_active = |one: &&ComponentRecord| one.state == ComponentState::Active;
    let read = object.components.iter().filter(is_active);
    let read: Vec<_> = read.filter(|one| one.id == id || is_up(one.shard)).collect();
    let is_read = read.iter().any(|one| one.id == id);
    let copies = u64::try_from(read.len()).ok().filter(|_| is_read)?;
    Some(base::percent_of(object.sectors * SECTOR_SIZE, percent).div_ceil(copies))
}
