// SPDX-License-Identifier: Apache-2.0
//! The read cache of hybrid groups: what is in it is what is on capacity, through crashes too.

use super::cache_kept::write_blocks;
use super::campaign::{Case, Signs};
use super::check::is_damage;
use super::oracle::Oracle;
use super::scenarios::{Host, ONE, write};
use super::*;
use crate::{CreateSizes, LineAudit, ReadCacheStatus};
use std::cell::Cell;

/// Sectors of one read of what may be in lines.
const PIECE: u64 = 32;

/// Reads everything in small pieces, once the lines of before the restart were taken over.
pub(super) async fn check_warm(
    env: &Env,
    group: &DiskGroup,
    oracle: &RefCell<Oracle>,
    signs: &Signs,
) {
    while !group.status().read_cache.is_loaded && group.status().fenced.is_none() {
        env.sleep(Duration::from_micros(50)).await;
    }
    let before = group.status().read_cache.hits;
    for component in 0..COMPONENTS as usize {
        let id = ComponentId(component as u64 + 1);
        if group.component(id).is_none_or(|info| info.partial) {
            continue; // its device is out, or was
        }
        for range in SectorRange::new(0, SECTORS).split_at_multiples(PIECE) {
            match group.read(id, range).await {
                Ok(read) => {
                    let oracle = oracle.borrow();
                    let lows = oracle.lows(component, range);
                    oracle.check(component, range, &lows, &read.payload);
                }
                Err(error) => {
                    assert!(signs.may_be_bad.get() && is_damage(&error), "{range:?}: {error}");
                }
            }
        }
    }
    let hits = group.status().read_cache.hits - before;
    signs.warm_hits.set(signs.warm_hits.get() + hits);
}

#[test]
fn hybrid_groups_lose_nothing_in_a_crash_and_come_back_warm() {
    let (mut hits, mut gathered, mut cases) = (0, 0, 0);
    for seed in seeds() {
        let case = Case::hybrid(seed, Mutations::default()).run();
        hits += case.signs.warm_hits.get();
        gathered += case.signs.gathered.get();
        cases += 1;
    }
    let is_enough = hits > 10 * cases && gathered > 10 * cases;
    assert!(
        is_enough || asked("DISKGROUP_SEEDS").is_some(),
        "{hits} warm reads, {gathered} segments destaged with others"
    );
}

#[test]
fn rot_and_lies_in_the_read_cache_lose_nothing() {
    let seeds = seeds();
    let count = (seeds.end - seeds.start) / 2;
    for seed in seeds.start..seeds.start + count {
        // Headers and lines are the last two areas of either list.
        Case::hybrid(seed, Mutations::default()).with_damage(8 + seed % 2);
        Case::hybrid(seed, Mutations::default()).with_a_lie(6 + seed % 2);
        Case::hybrid(seed, Mutations::default()).with_errors();
    }
}

const SIZES: CreateSizes = CreateSizes { cache: 8 << 20, capacity: 24 << 20 };

/// A hybrid group with a component.
pub(super) async fn fresh(env: &Env) -> DiskGroup {
    let kind = GroupKind::Hybrid { read_cache_percent: 70 };
    let shape = GroupShape { kind, segment_size: 64 << 10 };
    let spec = spec(1);
    let made = DiskGroup::format_with(env, &spec, Some(SIZES), false, GroupId(1), shape);
    made.await.expect("new files");
    let group = open(env).await;
    group.create_component(ONE, ObjectId(9), SECTORS).await.expect("a component");
    group.set_active(ONE, true);
    group
}

pub(super) async fn open(env: &Env) -> DiskGroup {
    DiskGroup::open(env, &spec(1), options(Mutations::default(), 16)).await.expect("opens")
}

/// Writes blocks and puts them on capacity.
pub(super) async fn fill_up(env: &Env, group: &DiskGroup, blocks: std::ops::Range<u64>, lsn: u64) {
    for (lsn, block) in (lsn..).zip(blocks) {
        write(env, group, lsn, block * 8, 8).await.expect("a write");
        group.advance_commit(ONE, Lsn::new(Term(1), lsn));
    }
    to_capacity(env, group).await;
}

pub(super) async fn to_capacity(env: &Env, group: &DiskGroup) {
    group.drain_buffer(true);
    while group.status().buffer_fill > 0.0 {
        env.sleep(Duration::from_millis(10)).await;
    }
    group.drain_buffer(false);
}

async fn value(group: &DiskGroup, sector: u64) -> u32 {
    let read = group.read(ONE, SectorRange::new(sector, 1)).await.expect("a read");
    value_of(sector, &read.payload).expect("a value of ours")
}

/// Reads a block until it is in the cache.
pub(super) async fn warm(env: &Env, group: &DiskGroup, block: u64) -> ReadCacheStatus {
    let _ = value(group, block * 8).await;
    env.sleep(Duration::from_millis(50)).await;
    group.status().read_cache
}

#[test]
fn a_second_read_is_a_hit_and_so_is_one_after_a_write() {
    Host::new(1).run(|env| async move {
        let group = fresh(&env).await;
        assert_eq!(group.status().kind, GroupKind::Hybrid { read_cache_percent: 70 });
        fill_up(&env, &group, 0..40, 1).await;
        let first = warm(&env, &group, 3).await;
        assert_eq!((first.hits, first.misses, first.fills, first.slots_used), (0, 1, 1, 1));
        assert_eq!(value(&group, 8 * 9 + 1).await, 10, "64 KiB were filled");
        let second = group.status().read_cache;
        assert_eq!((second.hits, second.misses), (1, 1));
        fill_up(&env, &group, 9..10, 100).await;
        assert_eq!(value(&group, 8 * 9 + 1).await, 100);
        let third = group.status().read_cache;
        assert_eq!((third.hits, third.misses), (2, 1), "destage keeps the line warm");
        let audit = group.audit_lines().await.expect("it is what capacity is");
        assert_eq!(audit, LineAudit { known: 16, whole: 16, rotten: 0 });
        group.close().await;
    });
}

#[test]
fn what_was_warm_is_warm_after_a_close_and_after_a_crash() {
    for is_crash in [false, true] {
        let host = Host::new(2);
        host.world.boot(host.key, move |env| {
            Box::pin(async move {
                let group = fresh(&env).await;
                fill_up(&env, &group, 0..16, 1).await;
                // The log forgets them with what comes later.
                fill_up(&env, &group, 300..400, 20).await;
                let _ = warm(&env, &group, 3).await;
                if !is_crash {
                    group.close().await;
                }
                env.sleep(HOUR).await;
                drop(group);
            })
        });
        host.world.run_for(Duration::from_secs(60));
        host.world.crash(host.key);
        let is_checked = Rc::new(Cell::new(false));
        let checked = Rc::clone(&is_checked);
        host.run(move |env| async move {
            let group = open(&env).await;
            env.sleep(Duration::from_millis(50)).await;
            let status = group.status().read_cache;
            assert!(status.is_loaded && status.warm_slots == 1, "{status:?}");
            assert_eq!(value(&group, 24).await, 4);
            let status = group.status().read_cache;
            assert_eq!((status.hits, status.misses), (1, 0), "crash: {is_crash}");
            checked.set(true);
        });
        assert!(is_checked.get());
    }
}

#[test]
fn a_rotten_line_is_a_miss_and_never_an_error() {
    let host = Host::new(3);
    let (world, key) = (host.world.clone(), host.key);
    host.run(move |env| async move {
        let group = fresh(&env).await;
        fill_up(&env, &group, 0..16, 1).await;
        let _ = warm(&env, &group, 3).await;
        let at = {
            let state = group.shared().state.borrow();
            let cache = state.read_cache.as_deref().expect("hybrid");
            let (slot, _) = cache.slots.all().next().expect("a slot");
            cache.layout.slot_start(slot)
        };
        world.flip_bits(key, "cache", at + 3 * 4096 + 5, 3);
        let bad = sim::DiskFault::BadRange { offset: at + 5 * 4096, len: 4096 };
        world.disk_error(key, "cache", bad);
        assert_eq!(value(&group, 24).await, 4);
        assert_eq!(value(&group, 40).await, 6);
        let status = group.status();
        assert_eq!((status.read_cache.rotten_blocks, status.bad_blocks), (2, 0));
        assert_eq!(status.fenced, None);
    });
}

#[test]
fn a_stream_goes_round_the_cache_and_is_read_ahead() {
    Host::new(4).run(|env| async move {
        let group = fresh(&env).await;
        fill_up(&env, &group, 0..600, 1).await;
        let before = group.status().read_cache;
        for range in SectorRange::new(0, 4800).split_at_multiples(64) {
            let read = group.read(ONE, range).await.expect("a read");
            assert_eq!(
                value_of(range.start, &read.payload[..512]),
                Some(range.start as u32 / 8 + 1)
            );
        }
        let status = group.status().read_cache;
        assert!(status.misses - before.misses <= 512 / 64 + 1, "{status:?}");
        assert!(status.bypassed_bytes > 4000 * 512, "{status:?}");
        assert!(status.slots_used <= 5, "only what came before it was a stream");
        group.close().await;
    });
}

/// Checksum pages that one reader after the other would load, each a way for a magnetic arm, come
/// together.
#[test]
fn a_stream_has_the_checksum_pages_of_what_it_comes_to_loaded_at_once() {
    const LONG: ComponentId = ComponentId(2);
    const CHUNKS: u64 = 15;
    Host::new(5).run(|env| async move {
        let group = fresh(&env).await;
        let sectors = CHUNKS * base::CHUNK_SECTORS;
        group.create_component(LONG, ObjectId(9), sectors).await.expect("a component");
        group.set_active(LONG, true);
        let places = (0..CHUNKS).map(|chunk| chunk * base::CHUNK_SECTORS);
        write_blocks(&env, &group, LONG, places).await;
        to_capacity(&env, &group).await;
        group.close().await;
        drop(group);
        let group = open(&env).await;
        let before = group.status().requests.pages_read;
        for range in SectorRange::new(0, sectors).split_at_multiples(64) {
            let read = group.read(LONG, range).await.expect("a read");
            let (chunk, within) =
                (range.start / base::CHUNK_SECTORS, range.start % base::CHUNK_SECTORS);
            let expected = if within == 0 { chunk as u32 + 1 } else { 0 };
            assert_eq!(value_of(range.start, &read.payload[..512]), Some(expected), "{range:?}");
        }
        let requests = group.status().requests.pages_read - before;
        let pages = CHUNKS.div_ceil(format::CRC_PAGE_CHUNKS as u64);
        assert!(requests < pages - 1, "{requests} requests for {pages} pages");
        group.close().await;
    });
}

#[test]
fn more_misses_than_fills_read_the_same() {
    Host::new(6).run(|env| async move {
        let group = fresh(&env).await;
        // Every second block holds data: what is read for a line has holes. On the device stands
        // there what was zeroed.
        fill_up(&env, &group, 0..500, 1).await;
        for (lsn, block) in (1000..).zip((1..500).step_by(2)) {
            let (range, lsn) = (SectorRange::new(block * 8, 8), Lsn::new(Term(1), lsn));
            let (kind, crcs) = (AppendKind::Zero, &wire::Crcs::NONE);
            let (component, term, payload) = (ONE, Term(1), env.buf(0).freeze());
            let zeros = Append { component, lsn, term, range, kind, crcs, payload, marks: &[] };
            group.append(zeros).await.expect("zeros");
            group.advance_commit(ONE, lsn);
        }
        to_capacity(&env, &group).await;
        for _ in 0..3 {
            let mut rng = Rng::new(7);
            let ranges: Vec<SectorRange> = (0..60)
                .map(|_| SectorRange::new(rng.below(31) * 128 + rng.below(8), 8 + rng.below(100)))
                .filter(|range| range.start % 2048 + range.count <= 2048)
                // From the first block of a line that holds data to the last: one read, with holes.
                .chain((0..31).map(|line| SectorRange::new(line * 128, 120)))
                .collect();
            let reads = ranges.iter().map(|range| Box::pin(group.read(ONE, *range))).collect();
            for (range, read) in ranges.iter().zip(env::join_all(reads).await) {
                let read = read.expect("a read");
                assert!(wire::verify(*range, &read.crcs, &read.payload));
                for (at, sector) in (range.start..).zip(read.payload.chunks(512)) {
                    let block = at / 8;
                    let is_held = block % 2 == 0 && block < 500;
                    let expected = if is_held { block as u32 + 1 } else { 0 };
                    assert_eq!(value_of(at, sector), Some(expected), "sector {at}");
                }
            }
            env.sleep(Duration::from_millis(100)).await;
        }
        let status = group.status().read_cache;
        assert!(status.hits > 10 && status.fills < status.misses, "{status:?}");
        group.audit_lines().await.expect("it is what capacity is");
    });
}

#[test]
fn headers_that_cannot_be_read_leave_their_lines_empty_and_usable() {
    let host = Host::new(7);
    host.run(|env| async move {
        let group = fresh(&env).await;
        fill_up(&env, &group, 0..16, 1).await;
        fill_up(&env, &group, 300..400, 20).await;
        let _ = warm(&env, &group, 3).await;
        group.close().await;
    });
    let (world, key) = (host.world.clone(), host.key);
    host.run(move |env| async move {
        let page = world.read_raw(key, "cache", 0, 4096);
        let other = world.read_raw(key, "cache", 64 << 10, 4096);
        let found = [page, other].into_iter().filter_map(|p| format::Superblock::decode(&p).ok());
        let kind = found.max_by_key(|found| found.sequence).expect("a superblock").kind;
        let format::DeviceKind::Cache { read_cache: Some(layout), .. } = kind else {
            panic!("a hybrid group")
        };
        let len = u64::from(layout.lines) * 4096;
        let bad = sim::DiskFault::BadRange { offset: layout.headers_start, len };
        world.disk_error(key, "cache", bad);
        let group = open(&env).await;
        env.sleep(Duration::from_millis(50)).await;
        let status = group.status();
        assert!(status.read_cache.is_loaded && status.fenced.is_none(), "{status:?}");
        assert_eq!(status.read_cache.warm_slots, 0);
        assert_eq!(warm(&env, &group, 3).await.fills, 1);
        assert_eq!(value(&group, 24).await, 4);
        assert_eq!(group.status().read_cache.hits, 1);
        group.close().await;
    });
}

#[test]
fn what_has_no_room_for_a_read_cache_is_refused_and_left_alone() {
    Host::new(8).run(|env| async move {
        for percent in [0, 91, 255] {
            let kind = GroupKind::Hybrid { read_cache_percent: percent };
            let shape = GroupShape { kind, segment_size: 64 << 10 };
            let spec = spec(1);
            let made = DiskGroup::format_with(&env, &spec, Some(SIZES), false, GroupId(1), shape);
            let refused = made.await;
            assert!(matches!(refused, Err(GroupError::TooSmall { .. })), "{percent}: {refused:?}");
            env.sleep(Duration::from_millis(10)).await; // until the devices are closed
        }
        // What was made and not written is empty, and is taken.
        let group = fresh(&env).await;
        let status = group.status();
        assert_eq!(status.kind, GroupKind::Hybrid { read_cache_percent: 70 });
        assert_eq!(status.read_cache.slots, 48, "70 percent of 7 MiB, aligned");
        assert_eq!(status.buffer_bytes, 33 * (64 << 10), "30 percent of 7 MiB, in whole segments");
        group.close().await;
    });
}

#[test]
fn inspection_tells_what_lines_hold_and_calls_nothing_there_damage() {
    let host = Host::new(5);
    host.run(|env| async move {
        let group = fresh(&env).await;
        fill_up(&env, &group, 0..20, 1).await;
        let _ = warm(&env, &group, 3).await;
        group.close().await;
    });
    let look = || {
        let found = Rc::new(RefCell::new(None));
        let place = Rc::clone(&found);
        host.run(move |env| async move {
            *place.borrow_mut() = Some(crate::inspect(&env, "cache", true).await.expect("a look"));
        });
        found.take().expect("it ended")
    };
    let whole = look();
    assert!(whole.findings.is_empty(), "{:?}", whole.findings);
    let crate::Content::Cache(content) = &whole.content else { panic!("a cache device") };
    let cache = content.read_cache.expect("a hybrid group");
    assert_eq!(
        (cache.percent, cache.slots_used, cache.blocks, cache.blocks_checked),
        (70, 1, 16, 16)
    );
    let Some(format::DeviceKind::Cache { read_cache: Some(layout), .. }) =
        whole.superblock.map(|found| found.kind)
    else {
        panic!("a hybrid group")
    };
    let headers = host.world.read_raw(host.key, "cache", layout.headers_start, 4096 * 4);
    let line = headers.chunks(4096).position(|page| page[0] != 0).expect("a header") as u32;
    let header = &headers[line as usize * 4096..][..4096];
    let place = (0..16).find(|at| header[24 + at * 104] != 0).expect("a slot") as u32;
    host.world.flip_bits(host.key, "cache", layout.slot_start(line * 16 + place) + 5000, 1);
    let rotten = look();
    assert!(rotten.is_healthy() && rotten.findings.len() == 1, "{:?}", rotten.findings);
    host.world.flip_bits(host.key, "cache", layout.header_at(line) + 50, 1);
    let torn = look();
    assert!(torn.is_healthy() && torn.findings.len() == 1, "{:?}", torn.findings);
    let crate::Content::Cache(content) = torn.content else { panic!("a cache device") };
    assert_eq!(content.read_cache.expect("a hybrid group").slots_used, 0);
}

/// The component is deleted so much later than destage began to write blocks that are in the cache.
/// Whether the slots know nothing afterwards of the chunk that it had.
fn is_forgotten_with_its_component(later: Duration) -> bool {
    let host = Host::new(11);
    let (world, key) = (host.world.clone(), host.key);
    let found = Rc::new(Cell::new(false));
    let place = Rc::clone(&found);
    host.run(move |env| async move {
        let group = fresh(&env).await;
        fill_up(&env, &group, 0..16, 1).await;
        let _ = warm(&env, &group, 3).await;
        for (lsn, block) in (100..).zip(2..6) {
            write(&env, &group, lsn, block * 8, 8).await.expect("a write");
            group.advance_commit(ONE, Lsn::new(Term(1), lsn));
        }
        world.disk_error(key, "capacity0", sim::DiskFault::Slow(20));
        group.drain_buffer(true);
        env.sleep(later).await;
        group.delete_component(ONE).await.expect("it is gone");
        world.disk_error(key, "capacity0", sim::DiskFault::Clear);
        to_capacity(&env, &group).await;
        place.set(group.audit().is_ok() && group.audit_lines().await.is_ok());
        // The chunk goes to the next component, and to the cache with it.
        group.create_component(ONE, ObjectId(9), SECTORS).await.expect("a component");
        group.set_active(ONE, true);
        fill_up(&env, &group, 0..3, 200).await;
        assert_eq!(value(&group, 8).await, 201);
        assert_eq!(value(&group, 32).await, 0, "it was written before");
        group.audit_lines().await.expect("it is what capacity is");
        group.close().await;
    });
    found.get()
}

#[test]
fn a_component_that_is_deleted_while_it_is_destaged_leaves_nothing_in_the_cache() {
    let moments = || (0..200).map(|step| Duration::from_micros(step * 250));
    let kept: Vec<Duration> =
        moments().filter(|later| !is_forgotten_with_its_component(*later)).collect();
    assert!(kept.is_empty(), "slots knew of its chunk where it went after {kept:?}");
}

const TWO: ComponentId = ComponentId(2);

/// One group with a component on each of two devices.
async fn fresh_pair(env: &Env, mutations: Mutations) -> DiskGroup {
    let kind = GroupKind::Hybrid { read_cache_percent: 70 };
    let shape = GroupShape { kind, segment_size: 64 << 10 };
    let spec = spec(2);
    let made = DiskGroup::format_with(env, &spec, Some(SIZES), false, GroupId(1), shape);
    made.await.expect("new files");
    let group = open_pair(env, mutations, Duration::from_millis(1)).await;
    for id in [ONE, TWO] {
        group.create_component(id, ObjectId(id.0), SECTORS).await.expect("a component");
        group.reserve_space(id, 3, crate::Reserve::IfFree).await.expect("room");
        group.set_active(id, true);
    }
    group
}

async fn open_pair(env: &Env, mutations: Mutations, headers_every: Duration) -> DiskGroup {
    let options = crate::GroupOptions { headers_every, ..options(mutations, 16) };
    let group = DiskGroup::open(env, &spec(2), options).await.expect("opens");
    for (id, commit) in [(ONE, 299), (TWO, 2)] {
        group.set_active(id, true);
        group.advance_commit(id, Lsn::new(Term(1), commit));
    }
    group
}

/// A block of the first device gets an older write's data, which the lsn of its chunk does not
/// tell; the group is closed so much later than destage began. Whether the lines that are taken
/// over afterwards are what capacity is.
fn is_true_after_a_close(mutations: Mutations, later: Duration) -> bool {
    let host = Host::new(9);
    host.run(move |env| async move {
        let group = fresh_pair(&env, mutations).await;
        super::scenarios::write_to(&env, &group, TWO, 1, 0, 8).await.expect("a write");
        group.advance_commit(TWO, Lsn::new(Term(1), 1));
        fill_up(&env, &group, 0..40, 100).await;
        // The log forgets them with what comes later.
        fill_up(&env, &group, 300..400, 200).await;
        let _ = warm(&env, &group, 3).await;
        group.close().await;
    });
    let (world, key) = (host.world.clone(), host.key);
    host.run(move |env| async move {
        let group = open_pair(&env, mutations, HOUR).await;
        to_capacity(&env, &group).await;
        // More of the line, so that it has a header to write.
        assert_eq!(warm(&env, &group, 20).await.fills, 1);
        let range = SectorRange::new(24, 8);
        let payload = payload(&env, range, 50);
        let crcs = wire::crcs_of(range, &payload);
        let (term, lsn, kind) = (Term(1), Lsn::new(Term(1), 50), AppendKind::Data);
        let append =
            Append { component: ONE, lsn, term, range, kind, crcs: &crcs, payload, marks: &[] };
        group.append_as(append, true).await.expect("a copy");
        super::scenarios::write_to(&env, &group, TWO, 2, 0, 8).await.expect("a write");
        group.advance_commit(TWO, Lsn::new(Term(1), 2));
        // The second device's record ends while the first one's is under way.
        world.disk_error(key, "capacity0", sim::DiskFault::Slow(20));
        world.disk_error(key, "capacity1", sim::DiskFault::Slow(10));
        group.drain_buffer(true);
        env.sleep(later).await;
        group.close().await;
    });
    for device in ["capacity0", "capacity1"] {
        host.world.disk_error(host.key, device, sim::DiskFault::Clear);
    }
    let found = Rc::new(Cell::new(false));
    let place = Rc::clone(&found);
    host.run(move |env| async move {
        let group = open_pair(&env, mutations, HOUR).await;
        while !group.status().read_cache.is_loaded {
            env.sleep(Duration::from_micros(50)).await;
        }
        place.set(group.audit_lines().await.is_ok());
        to_capacity(&env, &group).await;
        assert_eq!(value(&group, 24).await, 50);
    });
    found.get()
}

#[test]
fn headers_wait_for_the_record_of_their_own_device() {
    let moments = || (0..120).map(|step| Duration::from_micros(step * 250));
    assert!(moments().all(|later| is_true_after_a_close(Mutations::default(), later)));
    let broken = Mutations { thaw_for_others: true, ..Mutations::default() };
    let is_noticed = moments().any(|later| !is_true_after_a_close(broken, later));
    assert!(is_noticed, "that they are thawed too early is not noticed");
}

#[test]
fn the_cache_of_an_older_group_is_empty_and_older_builds_refuse_it_then() {
    let host = Host::new(10);
    host.run(|env| async move {
        let group = fresh(&env).await;
        fill_up(&env, &group, 0..16, 1).await;
        fill_up(&env, &group, 300..400, 20).await;
        let _ = warm(&env, &group, 3).await;
        group.close().await;
    });
    let (world, key) = (host.world.clone(), host.key);
    let change = |offset: u64, change: &dyn Fn(&mut [u8])| {
        let mut page = world.read_raw(key, "cache", offset, 4096);
        change(&mut page);
        let crc = base::crc32c(&page[..4092]);
        page[4092..].copy_from_slice(&crc.to_le_bytes());
        world.write_raw(key, "cache", offset, &page);
    };
    let kinds = || {
        format::SUPERBLOCK_SLOTS.map(|at| {
            let page = world.read_raw(key, "cache", at, 4096);
            format::Superblock::decode(&page).expect("a superblock");
            page[6]
        })
    };
    assert_eq!(kinds(), [6, 6]);
    for offset in format::SUPERBLOCK_SLOTS {
        change(offset, &|page| page[6] = 3);
    }
    let page = world.read_raw(key, "cache", format::SUPERBLOCK_SLOTS[0], 4096);
    let kind = format::Superblock::decode(&page).expect("an older superblock").kind;
    let format::DeviceKind::Cache { read_cache: Some(layout), .. } = kind else {
        panic!("a hybrid group")
    };
    for line in 0..layout.lines {
        change(layout.header_at(line), &|page| page[..4].copy_from_slice(b"GBRL"));
    }
    host.run(move |env| async move {
        let group = open(&env).await;
        env.sleep(Duration::from_millis(50)).await;
        let status = group.status().read_cache;
        assert!(status.is_loaded && status.warm_slots == 0, "{status:?}");
        assert_eq!(warm(&env, &group, 3).await.fills, 1);
        assert_eq!(value(&group, 24).await, 4);
        assert_eq!(group.status().read_cache.hits, 1, "and it is used");
        group.close().await;
    });
    assert_eq!(kinds(), [6, 6], "both slots");
}
