// SPDX-License-Identifier: Apache-2.0
//! Keeps for each component what its volume's record asks for.
//!
//! A creation, or a change of the reserve, asks for the space itself and fails without it. What
//! this adds: a component that was made anew, or was away during a change, keeps what its volume
//! was given; and what a change that failed half-way had it keep is given back.

use crate::cluster::view::View;
use crate::storage::Storage;
use base::{ComponentId, Map, ObjectId};
use directory::Directory;
use diskgroup::{DiskGroup, Reserve};
use env::Env;
use std::time::Duration;
use tracing::{info, warn};

/// Time between rounds.
const ROUND: Duration = Duration::from_secs(10);
/// Rounds in a row in which a component keeps more than the record says, before that is given back:
/// components keep more before the record says so, and a change takes half a minute at most.
const GIVE_BACK_AFTER: u32 = 6;

/// Runs for ever.
pub(crate) async fn run(env: Env, directory: Directory, view: View, storage: Storage) {
    let mut keeper = Keeper::default();
    loop {
        env.sleep(ROUND).await;
        let wanted = wanted(&view);
        // Without the directory what is known may be what was before a change.
        keeper.begin(directory.is_connected());
        for group in storage.groups() {
            for id in group.components() {
                keeper.keep(&group, id, &wanted).await;
            }
        }
    }
}

/// The reserve of each object, percent.
fn wanted(view: &View) -> Map<ObjectId, u8> {
    let mut wanted = Map::new();
    view.for_each_volume(|volume| {
        wanted.extend(volume.objects.iter().map(|object| (*object, volume.reserve_percent)));
    });
    wanted
}

/// Which components kept too much in the last rounds.
#[derive(Default)]
struct Keeper {
    before: Map<ComponentId, u32>,
    now: Map<ComponentId, u32>,
}

impl Keeper {
    fn begin(&mut self, is_current: bool) {
        self.before = std::mem::take(&mut self.now);
        if !is_current {
            self.before.clear();
        }
    }

    async fn keep(&mut self, group: &DiskGroup, id: ComponentId, wanted: &Map<ObjectId, u8>) {
        let Some(component) = group.component(id) else { return };
        // One that no volume names is of a creation under way, or goes soon.
        let Some(percent) = wanted.get(&component.object) else { return };
        let chunks = object::reserve_chunks(component.sectors, *percent);
        if component.reserve == chunks {
            return;
        }
        if component.reserve > chunks {
            let rounds = self.before.get(&id).copied().unwrap_or(0) + 1;
            if rounds < GIVE_BACK_AFTER {
                self.now.insert(id, rounds);
                return;
            }
        }
        // Where it is more than there is, others get nothing more until it is there.
        match group.reserve_space(id, chunks, Reserve::Anyway).await {
            Ok(()) => info!(component = %id, chunks, "space is kept for a component"),
            Err(error) => warn!(component = %id, %error, "no space is kept for a component"),
        }
    }
}
