// SPDX-License-Identifier: Apache-2.0
//! Keeps for each component what its volume's record asks for.
//!
//! A creation asks for the space itself and fails without it. What this adds: a component that was
//! made anew, on devices that replaced others, has the reserve again that its volume was given.

use crate::storage::Storage;
use crate::view::View;
use base::{ComponentId, Map, ObjectId};
use diskgroup::{DiskGroup, Reserve};
use env::Env;
use std::time::Duration;
use tracing::{info, warn};

/// Time between rounds.
const ROUND: Duration = Duration::from_secs(10);

/// Runs for ever.
pub(crate) async fn run(env: Env, view: View, storage: Storage) {
    loop {
        env.sleep(ROUND).await;
        let wanted = wanted(&view);
        if wanted.is_empty() {
            continue;
        }
        for group in storage.groups() {
            for id in group.components() {
                keep(&group, id, &wanted).await;
            }
        }
    }
}

/// The reserve of each object whose volume has one, percent.
fn wanted(view: &View) -> Map<ObjectId, u8> {
    let mut wanted = Map::new();
    for volume in view.volumes().into_iter().filter(|volume| volume.reserve_percent > 0) {
        for object in volume.objects {
            wanted.insert(object, volume.reserve_percent);
        }
    }
    wanted
}

async fn keep(group: &DiskGroup, id: ComponentId, wanted: &Map<ObjectId, u8>) {
    let Some(component) = group.component(id) else { return };
    let Some(percent) = wanted.get(&component.object) else { return };
    let chunks = object::reserve_chunks(component.sectors, *percent);
    if component.reserve == chunks {
        return;
    }
    // Where it is more than there is, others get nothing more until it is there.
    match group.reserve_space(id, chunks, Reserve::Anyway).await {
        Ok(()) => info!(component = %id, chunks, "space is kept for a component"),
        Err(error) => warn!(component = %id, %error, "no space is kept for a component"),
    }
}
