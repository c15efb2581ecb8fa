// SPDX-License-Identifier: Apache-2.0
//! What the copy of the directory makes of keys that come and go.

use super::*;
use crate::simulated::{component, object};
use base::Rng;
use directory::ComponentState;

/// A record as there may be many: of up to three components, on four hosts.
fn record(id: u64, rng: &mut Rng) -> ObjectRecord {
    let components = (0..1 + rng.below(3)).map(|one| {
        let host = 1 + u32::try_from(rng.below(4)).unwrap();
        component(id * 10 + one, host, ComponentState::Active)
    });
    let components = components.collect();
    ObjectRecord { sectors: 1 + rng.below(1 << 20), ..object(id, VolumeId(1), components) }
}

/// What is placed on each host, counted anew.
fn counted(view: &View) -> Map<ShardId, u64> {
    let mut placed = Map::new();
    view.for_each_object(|object| {
        for component in &object.components {
            *placed.entry(component.shard).or_default() += object.sectors * SECTOR_SIZE;
        }
    });
    placed
}

#[test]
fn what_is_placed_is_counted_along() {
    let (view, mut rng) = (View::default(), Rng::new(7));
    for _ in 0..2_000 {
        let id = rng.below(20);
        let entry = Entry { value: record(id, &mut rng).encode(), revision: 1 };
        let key = directory::object_key(ObjectId(id));
        match rng.below(100) {
            0 => {
                let kept = record(rng.below(20), &mut rng);
                let entry = Entry { value: kept.encode(), revision: 1 };
                view.reset(&[(directory::object_key(kept.id), entry)]);
            }
            1..30 => {
                view.delete(&key);
            }
            30..40 => {
                let of_another = directory::object_key(ObjectId(id + 1));
                assert!(matches!(view.put(&of_another, &entry), Some(ObjectChange::Malformed(_))));
            }
            40..50 => {
                view.put(&key, &entry);
                view.put(&key, &entry);
            }
            _ => {
                view.put(&key, &entry);
            }
        }
        let mut placed = view.placed_bytes();
        placed.retain(|_, bytes| *bytes > 0);
        assert_eq!(placed, counted(&view));
    }
}

/// Takes `value` for key `id`: a record is the number in it. Returns how often it was decoded.
fn put(held: &Held<u8, u8>, id: u8, value: &[u8], of: u8) -> (Option<u8>, usize) {
    let mut count = 0;
    let decode = |value: &[u8]| {
        count += 1;
        value.first().map(|record| (of, *record)).ok_or(())
    };
    let taken = held.put(Some(&id), value, decode).ok();
    (taken, count)
}

#[test]
fn a_value_is_decoded_again_once_it_changed() {
    let held = Held::default();
    assert_eq!(put(&held, 1, &[7], 1), (Some(7), 1));
    assert_eq!(put(&held, 1, &[7], 1), (Some(7), 0), "it is what it was");
    assert_eq!(put(&held, 2, &[7], 2), (Some(7), 1), "another key");
    assert_eq!(put(&held, 1, &[7, 0], 1), (Some(7), 1), "other bytes");
    assert_eq!(put(&held, 1, &[8], 1), (Some(8), 1));
    assert_eq!(put(&held, 1, &[], 1), (None, 1), "no record");
    assert_eq!((held.get(&1), held.all()), (Some(8), vec![8, 7]), "it stays what it was");
    assert_eq!(put(&held, 1, &[8], 1), (Some(8), 0));
    assert_eq!(put(&held, 3, &[9], 1), (Some(9), 1), "another key, a record of this one");
    assert_eq!(put(&held, 1, &[8], 1), (Some(8), 1));
    held.remove(&1);
    assert_eq!((held.get(&1), put(&held, 1, &[8], 1)), (None, (Some(8), 1)));
}
