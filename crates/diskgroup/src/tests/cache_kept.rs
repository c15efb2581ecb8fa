// SPDX-License-Identifier: Apache-2.0
//! Read cache that is kept for a component.

use super::readcache::{fill_up, fresh, open, to_capacity, warm};
use super::scenarios::{Host, ONE};
use super::*;
use std::cell::Cell;

/// Reads one block of each piece of `ONE`; how many of them were hits.
async fn hits_of_one(env: &Env, group: &DiskGroup) -> u64 {
    let before = group.status().read_cache.hits;
    for piece in 0..SECTORS / 128 {
        // Not in order: that would be a stream.
        let _ = warm(env, group, piece * 17 % (SECTORS / 128) * 16).await;
    }
    group.status().read_cache.hits - before
}

/// Writes the first block of each of these places of a component, sectors: the first one gets the
/// value 1, and so on.
pub(super) async fn write_blocks(
    env: &Env,
    group: &DiskGroup,
    component: ComponentId,
    places: impl Iterator<Item = u64>,
) {
    for (lsn, sector) in (1..).zip(places) {
        let range = SectorRange::new(sector, 8);
        let (lsn, data) = (Lsn::new(Term(1), lsn), payload(env, range, lsn as u32));
        let crcs = &wire::crcs_of(range, &data);
        let (term, kind, payload) = (Term(1), AppendKind::Data, data);
        let block = Append { component, lsn, term, range, kind, crcs, payload, marks: &[] };
        group.append(block).await.expect("a write");
        group.advance_commit(component, lsn);
    }
}

/// How many of the pieces of `ONE` are still cached after another component has read four times
/// what the cache has, through a restart, if so many bytes are kept for it.
fn left_beside_another(kept: u64) -> u64 {
    const OTHER: ComponentId = ComponentId(2);
    const CHUNKS: u64 = 15;
    let left = Rc::new(Cell::new(0));
    let place = Rc::clone(&left);
    Host::new(6).run(move |env| async move {
        let group = fresh(&env).await;
        let sectors = CHUNKS * base::CHUNK_SECTORS;
        group.create_component(OTHER, ObjectId(9), sectors).await.expect("a component");
        group.set_active(OTHER, true);
        fill_up(&env, &group, 0..SECTORS / 8, 1).await;
        write_blocks(&env, &group, OTHER, (0..CHUNKS * 16).map(|piece| piece * 128)).await;
        to_capacity(&env, &group).await;
        let _ = hits_of_one(&env, &group).await;
        group.close().await;
        drop(group);
        let group = open(&env).await;
        while !group.status().read_cache.is_loaded {
            env.sleep(Duration::from_millis(1)).await;
        }
        group.keep_cached(&[(ONE, kept)]);
        let share = group.cached(ONE).expect("it is hybrid");
        let pieces = SECTORS / 128;
        assert_eq!((share.held_bytes, share.kept_bytes), (pieces << 16, kept), "by its headers");
        for _ in 0..CHUNKS * 16 * 4 {
            let range = SectorRange::new(env.random() % (CHUNKS * 16) * 128, 1);
            let _ = group.read(OTHER, range).await.expect("a read");
            env.sleep(Duration::from_millis(20)).await;
        }
        let slots = group.status().read_cache.slots;
        assert!(slots < CHUNKS * 16, "{slots} slots hold all");
        place.set(hits_of_one(&env, &group).await);
        group.close().await;
    });
    left.get()
}

#[test]
fn what_a_component_keeps_of_the_cache_stays_there_whatever_another_one_reads() {
    let pieces = SECTORS / 128;
    assert_eq!(left_beside_another(pieces << 16), pieces);
    let left = left_beside_another(0);
    assert!(left < pieces / 2, "{left} of {pieces} although nothing is kept");
}

/// Half of the components keep read cache from now on, in a hybrid group.
pub(super) fn keep_half(group: &DiskGroup) {
    let keeps = group.components().into_iter().filter(|id| id.0.is_multiple_of(2));
    group.keep_cached(&keeps.map(|id| (id, SECTORS * base::SECTOR_SIZE)).collect::<Vec<_>>());
}
