// SPDX-License-Identifier: Apache-2.0
//! What grows with the size takes many turns, none of them long, and costs what changed.

use super::scenarios::{Host, open, write_to};
use super::*;
use crate::CreateSizes;
use env::{TURN_STEPS_MAX, join_all};
use format::COMPONENT_SECTORS_MAX;

const BIG: ComponentId = ComponentId(2);
const SMALL: ComponentId = ComponentId(3);
/// The most that one loop does before it rests.
const STEP_MAX: u64 = 1024;

async fn fresh(env: &Env, capacity: u64) -> DiskGroup {
    let sizes = CreateSizes { cache: 4 << 20, capacity };
    let made =
        DiskGroup::format_with(env, &spec(1), Some(sizes), false, GroupId(1), 64 << 10).await;
    made.expect("new files");
    open(env).await.expect("a new group")
}

/// The largest component, with data at its start, in the middle and at its end: on capacity, and in
/// the log alone. Beside it one that stays.
async fn with_big(env: &Env) -> DiskGroup {
    let group = fresh(env, 24 << 20).await;
    for (id, sectors) in [(BIG, COMPONENT_SECTORS_MAX), (SMALL, SECTORS)] {
        group.create_component(id, ObjectId(id.0), sectors).await.expect("a component");
        group.set_active(id, true);
    }
    let last = COMPONENT_SECTORS_MAX - base::CHUNK_SECTORS;
    let starts = [0, COMPONENT_SECTORS_MAX / 2, last];
    for (lsn, start) in (1..).zip(starts) {
        write_to(env, &group, BIG, lsn, start, 8).await.expect("a write");
    }
    write_to(env, &group, SMALL, 1, 0, 8).await.expect("a write");
    group.advance_commit(BIG, Lsn::new(Term(1), 3));
    group.advance_commit(SMALL, Lsn::new(Term(1), 1));
    group.drain_buffer(true);
    env.sleep(Duration::from_secs(10)).await;
    group.drain_buffer(false);
    assert_eq!(group.audit().expect("sound").allocated, 4);
    write_to(env, &group, BIG, 4, 2 * base::CHUNK_SECTORS, 8).await.expect("a write");
    group
}

/// Deletes the big component, and comes back when some of its chunks did.
async fn until_halfway(env: &Env, group: &DiskGroup) -> env::Task {
    let (deleted, progress) = (group.clone(), group.shared().progress.wait());
    let deleting = env.spawn("delete", async move {
        deleted.delete_component(BIG).await.expect("deleted");
    });
    progress.await;
    assert!(group.component(BIG).is_none() && !deleting.is_finished());
    let audit = group.audit().expect("sound in the middle of it");
    assert_eq!((audit.allocated, audit.reserved), (3, 0), "some came back, and some not yet");
    deleting
}

#[test]
fn the_largest_component_is_deleted_in_short_turns() {
    let host = Host::new(31);
    host.run(|env| async move {
        let group = with_big(&env).await;
        let deleting = until_halfway(&env, &group).await;
        let refused = write_to(&env, &group, BIG, 5, 0, 8).await;
        assert!(matches!(refused, Err(GroupError::UnknownComponent { .. })), "{refused:?}");
        while !deleting.is_finished() {
            env.sleep(Duration::from_micros(10)).await;
        }
        assert_eq!(group.audit().expect("sound").allocated, 1, "all of it came back");
        assert!(env.most_steps() <= TURN_STEPS_MAX + STEP_MAX, "{} steps", env.most_steps());
    });
}

#[test]
fn what_a_rotten_header_said_is_looked_up_in_short_turns() {
    let host = Host::new(35);
    let (world, key) = (host.world.clone(), host.key);
    host.run(move |env| async move {
        let group = fresh(&env, 24 << 20).await;
        let id = (BIG, ObjectId(BIG.0));
        group.create_component(id.0, id.1, COMPONENT_SECTORS_MAX).await.expect("a component");
        group.set_active(BIG, true);
        let last = COMPONENT_SECTORS_MAX - base::CHUNK_SECTORS;
        // Seven commits fill a segment; what it holds is far apart.
        let start = |lsn: u64| if lsn.is_multiple_of(2) { last + lsn * 8 } else { lsn * 8 };
        for lsn in 1..=12 {
            write_to(&env, &group, BIG, lsn, start(lsn), 8).await.expect("a write");
        }
        let closed = group.closed_segments();
        world.flip_bits(key, "cache", closed[0].start, 512);
        group.advance_commit(BIG, Lsn::new(Term(1), 12));
        group.drain_buffer(true);
        while group.status().buffer_fill > 0.0 {
            env.sleep(Duration::from_millis(10)).await;
        }
        let status = group.status();
        assert_eq!((status.fenced, status.rotten_log_blocks), (None, 1));
        for lsn in 1..=12 {
            let range = SectorRange::new(start(lsn), 1);
            let read = group.read(BIG, range).await.expect("a read");
            assert_eq!(value_of(range.start, &read.payload), Some(lsn as u32));
        }
        assert!(env.most_steps() <= TURN_STEPS_MAX + STEP_MAX, "{} steps", env.most_steps());
        assert!(
            env.most_steps() >= TURN_STEPS_MAX,
            "{} steps: all of it was counted",
            env.most_steps()
        );
        group.close().await;
    });
}

#[test]
fn a_deletion_goes_on_when_nobody_waits_for_it() {
    let host = Host::new(32);
    host.run(|env| async move {
        let group = with_big(&env).await;
        let deleting = until_halfway(&env, &group).await;
        drop(deleting);
        env.sleep(Duration::from_secs(1)).await;
        assert_eq!(group.audit().expect("sound").allocated, 1);
    });
}

#[test]
fn a_crash_in_the_middle_of_a_deletion_leaves_nothing_of_it() {
    let host = Host::new(33);
    host.run(|env| async move {
        let group = with_big(&env).await;
        let _deleting = until_halfway(&env, &group).await;
        // The process ends here.
    });
    host.run(|env| async move {
        let group = open(&env).await.expect("again");
        let audit = group.audit().expect("sound");
        assert_eq!((audit.allocated, audit.reserved), (1, 0), "only what was not deleted");
        assert_eq!(group.components(), [SMALL]);
        assert!(env.most_steps() <= TURN_STEPS_MAX + STEP_MAX, "{} steps", env.most_steps());
    });
}

/// Rows that changed are written side by side; those of which both pages say the same are not.
#[test]
fn a_checkpoint_costs_what_changed() {
    const COMPONENTS: u64 = 200;
    let host = Host::new(34);
    host.run(|env| async move {
        let group = fresh(&env, 4 << 30).await;
        for id in 1..=COMPONENTS {
            let made = group.create_component(ComponentId(id), ObjectId(id), SECTORS).await;
            made.expect("a component");
        }
        let written = || group.devices()[1].written_bytes;
        let checkpoint = || async {
            let (before, started) = (written(), env.now());
            group.shared().checkpoint(0).await.expect("a checkpoint");
            ((written() - before) / 4096, env.now().since(started))
        };
        let (nothing, alone) = checkpoint().await;
        for id in 1..=COMPONENTS {
            write_to(&env, &group, ComponentId(id), 1, 0, 8).await.expect("a write");
        }
        let (all, together) = checkpoint().await;
        assert_eq!(all - nothing, COMPONENTS);
        let serial = alone * u32::try_from(COMPONENTS / 4).expect("few");
        assert!(together < serial, "{together:?} for {COMPONENTS} rows, {alone:?} for none");
        // Once more, into the other page of each; then not again.
        assert_eq!(checkpoint().await.0 - nothing, COMPONENTS);
        assert_eq!(checkpoint().await.0, nothing);
        write_to(&env, &group, ComponentId(7), 2, 0, 8).await.expect("a write");
        assert_eq!(checkpoint().await.0, nothing + 1);
        // A row that is written elsewhere counts as well.
        let meta = crate::ComponentMeta { seat: base::Seat(3), ..Default::default() };
        group.set_meta(ComponentId(9), meta).await.expect("known");
        assert_eq!(checkpoint().await.0, nothing + 1, "the other page of 7");
        assert_eq!(checkpoint().await.0, nothing);
    });
    host.run(|env| async move {
        let group = open(&env).await.expect("again");
        for id in 1..=COMPONENTS {
            let info = group.component(ComponentId(id)).expect("it is there");
            let lsn = if id == 7 { 2 } else { 1 };
            assert_eq!(info.durable, Lsn::new(Term(1), lsn), "{id}");
        }
        let seat = group.component(ComponentId(9)).expect("it is there").meta.seat;
        assert_eq!(seat, base::Seat(3));
    });
}

/// The map of a large device is read a part at a time. A page that is not where it belongs does not
/// open, for each says its number.
#[test]
fn a_map_of_more_pages_than_are_read_at_once_opens() {
    let host = Host::new(36);
    host.run(|env| async move {
        let group = fresh(&env, 160 << 30).await;
        let (pages, chunks) = {
            let state = group.shared().state.borrow();
            (state.store.capacity[0].map_meta.len(), state.store.capacity[0].map.len())
        };
        assert!(pages > 600, "{pages} pages: not more than one part");
        assert!(chunks > 150_000, "{chunks} chunks");
        group.create_component(SMALL, ObjectId(SMALL.0), SECTORS).await.expect("a component");
        group.set_active(SMALL, true);
        write_to(&env, &group, SMALL, 1, 0, 8).await.expect("a write");
        group.audit().expect("sound");
    });
    host.run(|env| async move {
        let group = open(&env).await.expect("again");
        assert_eq!(group.component(SMALL).map(|info| info.durable), Some(Lsn::new(Term(1), 1)));
        group.audit().expect("sound");
    });
}

/// As many components as rows, each with entries in the log: W rises for each of them when its
/// segment is freed, without a look at the others' segments.
#[test]
fn many_components_share_a_log() {
    const COMPONENTS: u64 = 150;
    let host = Host::new(35);
    host.run(|env| async move {
        let group = fresh(&env, 4 << 30).await;
        let ids: Vec<ComponentId> = (1..=COMPONENTS).map(ComponentId).collect();
        for id in &ids {
            group.create_component(*id, ObjectId(id.0), SECTORS).await.expect("a component");
            group.set_active(*id, true);
        }
        for lsn in 1..=4 {
            let writes = ids.iter().map(|id| write_to(&env, &group, *id, lsn, lsn * 8, 8));
            for written in join_all(writes.collect()).await {
                written.expect("a write");
            }
            ids.iter().for_each(|id| group.advance_commit(*id, Lsn::new(Term(1), lsn)));
        }
        group.drain_buffer(true);
        env.sleep(Duration::from_secs(30)).await;
        assert!(group.status().buffer_fill < 0.05, "{}", group.status().buffer_fill);
        for id in &ids {
            let info = group.component(*id).expect("it is there");
            assert_eq!(info.destaged, Lsn::new(Term(1), 4), "{id}");
        }
        group.audit().expect("sound");
    });
}
