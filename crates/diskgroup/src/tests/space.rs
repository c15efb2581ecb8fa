// SPDX-License-Identifier: Apache-2.0
//! Full devices, reserves, and books that add up.

use super::scenarios::{Host, ONE, fresh, open};
use super::*;
use crate::{CreateSizes, DeviceRole, Reserve, Space};

const TWO: ComponentId = ComponentId(2);
const CHUNK: u64 = base::CHUNK_SECTORS;

/// Appends in lsn order, each committed at once.
struct Writer {
    env: Env,
    group: DiskGroup,
    lsn: std::cell::Cell<u64>,
}

impl Writer {
    /// Goes on behind `lsn`; all before it is committed.
    fn new(env: &Env, group: &DiskGroup, lsn: u64) -> Self {
        for id in [ONE, TWO] {
            group.advance_commit(id, Lsn(lsn));
        }
        Self { env: env.clone(), group: group.clone(), lsn: std::cell::Cell::new(lsn) }
    }

    async fn append(
        &self,
        component: ComponentId,
        kind: AppendKind,
        range: SectorRange,
    ) -> Result<(), GroupError> {
        self.lsn.set(self.lsn.get() + 1);
        let lsn = Lsn(self.lsn.get());
        let is_data = kind == AppendKind::Data;
        let payload = match is_data {
            true => payload(&self.env, range, lsn.0 as u32),
            false => self.env.buf(0).freeze(),
        };
        let crcs = if is_data { wire::crcs_of(range, &payload) } else { wire::Crcs::NONE };
        let (crcs, term, marks) = (&*crcs, Term(0), [].as_slice());
        let append = Append { component, lsn, term, range, kind, crcs, payload, marks };
        self.group.append(append).await?;
        self.group.advance_commit(component, lsn);
        Ok(())
    }

    /// One block of a chunk.
    async fn touch(&self, component: ComponentId, chunk: u64) -> Result<(), GroupError> {
        self.append(component, AppendKind::Data, SectorRange::new(chunk * CHUNK, 8)).await
    }

    /// Touches chunks until there is no space; how many.
    async fn fill(&self, component: ComponentId, from: u64) -> u64 {
        for chunk in from.. {
            match self.touch(component, chunk).await {
                Ok(()) => {}
                Err(GroupError::Full { .. }) => return chunk - from,
                Err(error) => panic!("{error}"),
            }
        }
        0
    }

    async fn discard(&self, component: ComponentId, chunk: u64) {
        let range = SectorRange::new(chunk * CHUNK, CHUNK);
        self.append(component, AppendKind::Discard, range).await.expect("a discard");
    }
}

fn space(group: &DiskGroup) -> Space {
    group.audit().unwrap_or_else(|error| panic!("{error}"));
    let devices = group.devices();
    let DeviceRole::Capacity(space) = devices[1].role else { panic!("{devices:?}") };
    assert_eq!(space.total_bytes(), devices[1].size_bytes);
    space
}

fn chunks(bytes: u64) -> u64 {
    assert_eq!(bytes % base::CHUNK_SIZE, 0);
    bytes / base::CHUNK_SIZE
}

async fn settle(env: &Env) {
    env.sleep(Duration::from_secs(10)).await;
}

async fn with_two(env: &Env) -> (DiskGroup, Writer) {
    let group = fresh(env).await;
    group.create_component(TWO, ObjectId(3), CHUNK * 100).await.expect("thin");
    let writer = Writer::new(env, &group, 0);
    (group, writer)
}

#[test]
fn each_byte_is_in_one_place_from_the_first_write_to_the_deletion() {
    Host::new(31).run(|env| async move {
        let (group, writer) = with_two(&env).await;
        group.drain_buffer(true);
        let empty = space(&group);
        let all = chunks(empty.free_bytes);
        assert_eq!((chunks(empty.taken_bytes()), empty.freeing_bytes), (0, 0));
        assert!(empty.metadata_bytes > 3 << 20 && empty.unusable_bytes < 1 << 20);

        for chunk in 0..4 {
            writer.touch(TWO, chunk).await.expect("room");
        }
        let logged = space(&group);
        assert_eq!((chunks(logged.reserved_bytes), chunks(logged.allocated_bytes)), (4, 0));
        settle(&env).await;
        let settled = space(&group);
        assert_eq!((chunks(settled.reserved_bytes), chunks(settled.allocated_bytes)), (0, 4));

        let component = group.component(TWO).expect("there");
        assert_eq!(component.held, 4);
        group.delete_component(TWO).await.expect("deleted");
        let deleted = space(&group);
        assert_eq!((chunks(deleted.freeing_bytes), chunks(deleted.free_bytes)), (4, all - 4));
        settle(&env).await;
        assert_eq!(space(&group), empty);
    });
}

#[test]
fn a_full_device_does_all_that_takes_no_space() {
    Host::new(32).run(|env| async move {
        let (group, writer) = with_two(&env).await;
        let all = chunks(space(&group).free_bytes);
        assert_eq!(writer.fill(TWO, 0).await, all);
        assert!(writer.touch(ONE, 0).await.is_err(), "of another component neither");
        settle(&env).await;
        assert_eq!(space(&group).taken_percent(), 100);

        // Overwrites, also of blocks that the chunk does not hold yet.
        for chunk in 0..all {
            let range = SectorRange::new(chunk * CHUNK + 16, 64);
            writer.append(TWO, AppendKind::Data, range).await.expect("an overwrite");
        }
        // Zeros: parts of blocks, blocks, whole chunks; also where nothing is.
        for (start, count) in [(3, 2), (8, 24), (CHUNK, CHUNK), ((all + 3) * CHUNK + 1, 20)] {
            let range = SectorRange::new(start, count);
            writer.append(TWO, AppendKind::Zero, range).await.expect("zeros");
        }
        settle(&env).await;
        group.drain_buffer(true);
        settle(&env).await;
        assert_eq!(group.status().buffer_fill, 0.0, "nothing waits for a chunk");
        group.drain_buffer(false);
        let read = group.read(TWO, SectorRange::new(2 * CHUNK + 16, 64)).await.expect("a read");
        assert!(wire::verify(SectorRange::new(2 * CHUNK + 16, 64), &read.crcs, &read.payload));
        let zeros = group.read(TWO, SectorRange::new((all + 3) * CHUNK, 32)).await.expect("a read");
        assert!(zeros.payload.iter().all(|byte| *byte == 0));

        // Chunk 1 reads as zeros: it was given back, and may be taken.
        assert_eq!(writer.fill(TWO, all).await, 1);
        for chunk in 2..5 {
            writer.discard(TWO, chunk).await;
        }
        settle(&env).await;
        assert_eq!(writer.fill(TWO, all + 1).await, 3, "what was discarded is usable");
    });
}

#[test]
fn a_reserve_is_kept_through_the_fill_of_others_a_crash_and_discards() {
    let host = Host::new(33);
    host.run(|env| async move {
        let (group, writer) = with_two(&env).await;
        let all = chunks(space(&group).free_bytes);
        let more = u32::try_from(all + 1).expect("few");
        let refused = group.reserve_space(ONE, more, Reserve::IfFree).await;
        assert!(matches!(refused, Err(GroupError::Full { .. })), "more than there is");
        assert_eq!(space(&group).promised_bytes, 0);
        group.reserve_space(ONE, 3, Reserve::IfFree).await.expect("there is room");
        group.reserve_space(ONE, 3, Reserve::IfFree).await.expect("the same again");
        let room = u32::try_from(all - 2).expect("few");
        let refused = group.reserve_space(TWO, room, Reserve::IfFree).await;
        assert!(refused.is_err(), "three are promised");
        assert_eq!(writer.fill(TWO, 0).await, all - 3);
        assert_eq!((group.free_chunks_of(ONE), group.free_chunks_of(TWO)), (3, 0));
        assert_eq!(group.free_chunks(), 0);
        writer.touch(ONE, 0).await.expect("its own");
        assert_eq!(chunks(space(&group).promised_bytes), 2);
    });
    host.world.crash(host.key);
    host.run(|env| async move {
        let group = open(&env).await.expect("it opens");
        let writer = Writer::new(&env, &group, 1000);
        assert_eq!(chunks(space(&group).promised_bytes), 2, "after a crash too");
        assert_eq!(writer.fill(TWO, 60).await, 0);
        writer.touch(ONE, 1).await.expect("its own");
        writer.touch(ONE, 2).await.expect("its own");
        settle(&env).await;
        writer.discard(ONE, 1).await;
        settle(&env).await;
        assert_eq!(chunks(space(&group).promised_bytes), 1, "what it gives back is its own again");
        assert_eq!(writer.fill(TWO, 60).await, 0);
        writer.touch(ONE, 1).await.expect("its own");
        writer.discard(TWO, 0).await;
        settle(&env).await;
        assert_eq!(writer.fill(TWO, 60).await, 1, "what nobody was promised");
        group.delete_component(ONE).await.expect("deleted");
        settle(&env).await;
        assert_eq!(space(&group).promised_bytes, 0);
        assert_eq!(writer.fill(TWO, 70).await, 3, "a reserve ends with its component");
    });
}

#[test]
fn a_reserve_changes_while_its_component_is_in_use_and_what_it_may_be_is_known() {
    let host = Host::new(35);
    host.run(|env| async move {
        let (group, writer) = with_two(&env).await;
        let all = u32::try_from(chunks(space(&group).free_bytes)).expect("few");
        assert_eq!((group.reserve_limit(ONE), group.reserve_limit(TWO)), (Some(all), Some(all)));
        assert_eq!(group.reserve_limit(ComponentId(77)), None);
        let mut rng = Rng::new(35);
        let mut kept = [0, 0];
        for round in 0..300 {
            let which = (rng.below(2)) as usize;
            let id = [ONE, TWO][which];
            match rng.below(5) {
                0 | 1 => drop(writer.touch(id, rng.below(3)).await),
                2 => writer.discard(id, rng.below(2)).await,
                _ => {
                    // About the limit, which is exact.
                    let limit = group.reserve_limit(id).expect("it is there");
                    let wanted = match rng.below(4) {
                        0 => 0,
                        1 => limit,
                        2 => limit + 1,
                        _ => rng.below(u64::from(all)) as u32,
                    };
                    let changed = group.reserve_space(id, wanted, Reserve::IfFree).await;
                    assert_eq!(changed.is_ok(), wanted <= limit.max(kept[which]), "{round}");
                    if changed.is_ok() {
                        kept[which] = wanted;
                    }
                }
            }
            let found = [ONE, TWO].map(|id| group.component(id).expect("there").reserve);
            assert_eq!(found, kept, "round {round}: all or nothing");
            space(&group);
        }
        for (id, kept) in [(ONE, 2), (TWO, 0)] {
            group.reserve_space(id, kept, Reserve::IfFree).await.expect("less always works");
        }
    });
    host.world.crash(host.key);
    host.run(|env| async move {
        let group = open(&env).await.expect("it opens");
        let found = [ONE, TWO].map(|id| group.component(id).expect("there").reserve);
        assert_eq!(found, [2, 0], "the last change is durable");
        space(&group);
    });
}

#[test]
fn a_reserve_that_is_taken_over_waits_for_its_space() {
    Host::new(34).run(|env| async move {
        let (group, writer) = with_two(&env).await;
        let all = writer.fill(TWO, 0).await;
        settle(&env).await;
        group.reserve_space(ONE, 2, Reserve::Anyway).await.expect("taken over");
        assert!(writer.touch(ONE, 0).await.is_err(), "it is not there");
        space(&group);
        for chunk in 0..3 {
            writer.discard(TWO, chunk).await;
        }
        settle(&env).await;
        assert_eq!(writer.fill(TWO, all).await, 1, "the first two are promised");
        writer.touch(ONE, 0).await.expect("its own");
        writer.touch(ONE, 1).await.expect("its own");
        space(&group);
    });
}

#[test]
fn a_device_that_is_too_full_takes_no_new_volume() {
    Host::new(35).run(|env| async move {
        let sizes = crate::CreateSizes { cache: 2 << 20, capacity: 24 << 20 };
        let made =
            DiskGroup::format_with(&env, &spec(2), Some(sizes), false, GroupId(1), 64 << 10).await;
        made.expect("new files");
        let options = GroupOptions { full_percent: 50, ..GroupOptions::default() };
        let group = DiskGroup::open(&env, &spec(2), options).await.expect("a new group");
        let taken = |place: usize| {
            let DeviceRole::Capacity(space) = group.devices()[place].role else { panic!() };
            space.taken_percent()
        };
        group.admit_component(ONE, ObjectId(1), CHUNK * 100).await.expect("empty");
        let writer = Writer::new(&env, &group, 0);
        let all = group.free_chunks_of(ONE);
        for chunk in 0..all / 2 + 1 {
            writer.touch(ONE, chunk).await.expect("room");
        }
        assert!(taken(1) >= 50 && taken(2) == 0, "on the first device");
        group.admit_component(TWO, ObjectId(1), CHUNK * 100).await.expect("on the second");
        assert_eq!(group.free_chunks_of(TWO), all, "each component has its own device");
        // A reserve counts like data.
        let half = u32::try_from(all / 2 + 1).expect("few");
        group.reserve_space(TWO, half, Reserve::IfFree).await.expect("room");
        let third = ComponentId(3);
        let refused = group.admit_component(third, ObjectId(1), CHUNK).await;
        assert!(matches!(refused, Err(GroupError::Full { .. })), "{refused:?}");
        group.create_component(third, ObjectId(1), CHUNK).await.expect("made again all the same");
        group.audit().expect("in order");
    });
}

/// What a component of the model holds: chunks that were written and not discarded.
#[derive(Default)]
struct Model {
    reserve: u64,
    held: base::Set<u64>,
}

/// Random writes, discards, reserves, deletions and restarts beside a model that counts; the books
/// are audited at every step, not only at rest.
#[test]
fn the_books_are_right_at_every_step() {
    for seed in 0..20 {
        let host = Host::new(100 + seed);
        let model: Rc<RefCell<[Model; 2]>> = Rc::default();
        for run in 0..3 {
            let model = Rc::clone(&model);
            host.run(move |env| async move {
                let group = match run {
                    0 => with_two(&env).await.0,
                    _ => open(&env).await.expect("it opens"),
                };
                random_steps(&env, &group, &model, Rng::new(seed * 10 + run), run * 1000).await;
            });
            host.world.crash(host.key);
        }
    }
}

async fn random_steps(
    env: &Env,
    group: &DiskGroup,
    model: &Rc<RefCell<[Model; 2]>>,
    mut rng: Rng,
    lsn: u64,
) {
    let writer = Writer::new(env, group, lsn);
    group.drain_buffer(true);
    for _ in 0..60 {
        let at = rng.below(2) as usize;
        let id = [ONE, TWO][at];
        let chunk = rng.below([2, 40][at]);
        match rng.below(7) {
            0..=3 => {
                let room = group.free_chunks_of(id);
                let is_held = model.borrow()[at].held.contains(&chunk);
                match writer.touch(id, chunk).await {
                    Ok(()) => drop(model.borrow_mut()[at].held.insert(chunk)),
                    Err(GroupError::Full { .. }) => assert!(!is_held && room == 0),
                    Err(error) => panic!("{error}"),
                }
            }
            4 => {
                writer.discard(id, chunk).await;
                settle(env).await;
                model.borrow_mut()[at].held.remove(&chunk);
            }
            5 => {
                let reserve = rng.below(12) as u32;
                let reserved = group.reserve_space(id, reserve, Reserve::IfFree).await;
                if reserved.is_ok() {
                    model.borrow_mut()[at].reserve = u64::from(reserve);
                }
            }
            _ => env.sleep(Duration::from_millis(rng.below(2000))).await,
        }
        let space = space(group);
        let model = model.borrow();
        let held: u64 = model.iter().map(|m| m.held.len() as u64).sum();
        let promised: u64 =
            model.iter().map(|m| m.reserve.saturating_sub(m.held.len() as u64)).sum();
        let found = chunks(space.allocated_bytes + space.reserved_bytes);
        assert_eq!((found, chunks(space.promised_bytes)), (held, promised), "{space:?}");
    }
}

/// A device that is to rest for half a second gets 600 chunks to discard, while so many are free:
/// when the first discard went out, for how long some were under way, and when all had ended.
async fn reclaimed(env: &Env, free: u64) -> [Duration; 3] {
    const DELETED: u64 = 600;
    let spec = spec(1);
    let sizes = CreateSizes { cache: 64 << 20, capacity: 1200 << 20 };
    DiskGroup::format(env, &spec, Some(sizes), false, GroupId(1)).await.expect("formats");
    let group = DiskGroup::open(env, &spec, GroupOptions::default()).await.expect("opens");
    for id in [ONE, TWO] {
        group.create_component(id, ObjectId(id.0), CHUNK * 2000).await.expect("thin");
    }
    let writer = Writer::new(env, &group, 0);
    let all = chunks(space(&group).free_bytes);
    for chunk in 0..DELETED {
        writer.touch(TWO, chunk).await.expect("room");
    }
    for chunk in 0..all - DELETED - free {
        writer.touch(ONE, chunk).await.expect("room");
    }
    group.drain_buffer(true);
    settle(env).await;
    assert_eq!(chunks(space(&group).free_bytes), free);
    let begun = env.now();
    let until = begun + Duration::from_millis(500);
    group.shared().state.borrow_mut().store.capacity[0].discarded(&[], until);
    group.delete_component(TWO).await.expect("deleted");
    let (mut first, mut under_way) = (None, Duration::ZERO);
    loop {
        let before = env.now();
        let is_under_way = group.shared().state.borrow().store.capacity[0].in_transit() > 0;
        if is_under_way {
            first.get_or_insert(before.since(begun));
        } else if let Some(first) = first
            && space(&group).freeing_bytes == 0
        {
            return [first, under_way, before.since(begun)];
        }
        env.sleep(Duration::from_micros(20)).await;
        under_way += if is_under_way { env.now().since(before) } else { Duration::ZERO };
    }
}

#[test]
fn a_device_rests_between_discards_unless_it_is_short_of_space() {
    Host::new(38).run(|env| async move {
        let [first, under_way, end] = reclaimed(&env, 300).await;
        assert!(first >= Duration::from_millis(500), "{first:?}: it was to rest");
        // The last of three lots is followed by no rest.
        assert!(end - first > under_way * 5, "{under_way:?} of {:?}", end - first);
    });
    Host::new(39).run(|env| async move {
        let [first, ..] = reclaimed(&env, 20).await;
        assert!(first < Duration::from_millis(1), "{first:?}: somebody may wait for it");
    });
}

/// Pages of the capacity device that one block in a fresh chunk takes.
fn taken_by_one_block(seed: u64, is_sparse: bool) -> usize {
    let host = Host::new(seed);
    host.run(|env| async move { fresh(&env).await.close().await });
    if is_sparse {
        host.world.make_sparse(host.key, "capacity0");
    }
    let pages = || host.world.written(host.key, "capacity0").len();
    let before = pages();
    host.run(|env| async move {
        let group = open(&env).await.expect("it opens");
        let writer = Writer::new(&env, &group, 0);
        writer.touch(ONE, 1).await.expect("room");
        group.drain_buffer(true);
        env.sleep(Duration::from_secs(20)).await;
        assert_eq!(group.audit().expect("sound").pending, 0, "it is on capacity");
    });
    pages() - before
}

/// The journal and the pages of the map take some as well.
#[test]
fn a_sparse_file_takes_what_is_written_and_another_one_the_whole_chunk() {
    let (sparse, whole) = (taken_by_one_block(70, true), taken_by_one_block(70, false));
    assert!(whole >= 256 && sparse < 32, "{sparse} and {whole} pages");
    assert_eq!(whole - sparse, 255);
}
