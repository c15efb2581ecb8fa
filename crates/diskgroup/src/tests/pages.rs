// SPDX-License-Identifier: Apache-2.0
//! Checksum pages: what they cost, and that one in memory is what the device and the pending
//! changes say.

use super::scenarios::{Host, ONE, format, layout, open, value, write};
use super::*;
use crate::{CreateSizes, DeviceRequests};
use env::join_all;

/// Pages in memory against what a device has, after all of it was destaged.
pub(super) async fn check_pages(env: &Env, group: &DiskGroup) {
    let inner = group.shared();
    for (device, handle) in inner.devices.iter().enumerate().filter(|(_, one)| !one.is_out()) {
        let numbers: Vec<u32> = {
            let state = inner.state.borrow();
            let pages = state.store.capacity[device].pages.iter();
            pages.map(|cached| cached.page.number).collect()
        };
        for number in numbers {
            let epoch = inner.state.borrow().store.capacity[device].epoch;
            let start = handle.layout.crc_start + u64::from(number) * 8192;
            let both = handle.disk().read(start, env.buf(8192)).await.expect("both slots");
            let mut state = inner.state.borrow_mut();
            let capacity = &mut state.store.capacity[device];
            // Its image is on the way to the device, or was.
            let is_passing = capacity.cached(number).is_none_or(|page| page.is_being_written());
            if is_passing || capacity.epoch != epoch {
                continue;
            }
            let (page, _) = inner.choose(&mut state.store, device, number, &both).expect("sound");
            // A scrub's read may have had it evicted meanwhile.
            let Some(cached) = state.store.capacity[device].page(number) else { continue };
            for (place, block) in (0..3).flat_map(|place| (0..256).map(move |b| (place, b))) {
                let (told, known) = (page.get(place, block), cached.get(place, block));
                assert_eq!(told, known, "page {number}, chunk {place}, block {block}");
            }
        }
    }
}

/// Blocks that are written: every other one, so that no two are neighbours.
pub(super) const BLOCKS: u64 = 7000;
/// Checksum pages of as many chunks as they lie in.
const PAGES: usize = 20;

/// Writes so many blocks at random, many at a time, and destages them.
pub(super) async fn write_blocks(
    env: &Env,
    group: &DiskGroup,
    rng: &mut Rng,
    lsn: &mut u64,
    count: u64,
) {
    for _ in 0..count / 32 {
        let writes = (0..32).map(|_| {
            *lsn += 1;
            let range = SectorRange::new(rng.below(BLOCKS) * 16, 8);
            let data = payload(env, range, u32::try_from(*lsn).expect("few"));
            let (group, lsn) = (group.clone(), Lsn::new(Term(1), *lsn));
            async move {
                let append = Append {
                    component: ONE,
                    lsn,
                    term: Term(1),
                    range,
                    kind: AppendKind::Data,
                    crcs: &wire::crcs_of(range, &data),
                    payload: data.clone(),
                    marks: &[],
                };
                group.append(append).await.expect("a write");
            }
        });
        join_all(writes.collect()).await;
        group.advance_commit(ONE, Lsn::new(Term(1), *lsn));
    }
    while group.status().buffer_fill > 0.0 {
        env.sleep(Duration::from_millis(20)).await;
    }
}

/// Requests to capacity and blocks destaged of a uniform random load over two halves of a journal,
/// with so many pages in memory.
fn requests_of(pages: usize) -> (DeviceRequests, u64) {
    let host = Host::new(41);
    let found = Rc::new(RefCell::new((DeviceRequests::default(), 0)));
    let out = Rc::clone(&found);
    host.run(move |env| async move {
        let sizes = CreateSizes { cache: 32 << 20, capacity: 64 << 20 };
        let made = DiskGroup::format(&env, &spec(1), Some(sizes), false, GroupId(1)).await;
        made.expect("new files");
        let limits = GroupLimits { half_bytes: 256 << 10, ..GroupLimits::default() };
        let options =
            GroupOptions { crc_cache_bytes: pages * 4096, limits, ..GroupOptions::default() };
        let group = DiskGroup::open(&env, &spec(1), options).await.expect("a new group");
        let sectors = BLOCKS * 16;
        group.create_component(ONE, ObjectId(9), sectors).await.expect("a component");
        group.set_active(ONE, true);
        group.drain_buffer(true);
        let (mut rng, mut lsn) = (Rng::stream(1, 1), 0);
        write_blocks(&env, &group, &mut rng, &mut lsn, 8000).await;
        let before = group.status();
        write_blocks(&env, &group, &mut rng, &mut lsn, 80_000).await;
        let after = group.status();
        let state = group.shared().state.borrow();
        let of = sectors.div_ceil(base::CHUNK_SECTORS).div_ceil(3);
        assert!(of >= PAGES as u64 - 1, "{of} pages");
        assert!(state.store.capacity[0].map_meta[0].sequence > 2, "checkpoints");
        drop(state);
        assert!(before.requests.to_capacity() > 0);
        let minus = |of: fn(&DeviceRequests) -> u64| of(&after.requests) - of(&before.requests);
        let requests = DeviceRequests {
            commits: minus(|r| r.commits),
            log_read: minus(|r| r.log_read),
            direct: minus(|r| r.direct),
            merged: minus(|r| r.merged),
            blocks: minus(|r| r.blocks),
            records: minus(|r| r.records),
            heads: minus(|r| r.heads),
            pages_read: minus(|r| r.pages_read),
            pages_written: minus(|r| r.pages_written),
            map_pages: minus(|r| r.map_pages),
            rows: minus(|r| r.rows),
            read_back: minus(|r| r.read_back),
            flushes: minus(|r| r.flushes),
        };
        *out.borrow_mut() = (requests, after.destaged_blocks - before.destaged_blocks);
    });
    found.take()
}

/// A block costs its own write and little else, also where nearly no page is in memory.
#[test]
fn a_destaged_block_costs_one_request_whatever_the_pages() {
    for pages in [1, 2 * PAGES] {
        let (requests, blocks) = requests_of(pages);
        assert!(blocks > 30_000, "{blocks} blocks");
        let per_block = requests.to_capacity() as f64 / blocks as f64;
        assert!(per_block < 1.02, "{per_block} with {pages} pages: {requests:?}, {blocks} blocks");
        assert!(requests.pages_written >= PAGES as u64 - 1, "{requests:?}");
    }
}

/// The newer slot of the second checksum page rots. The older one was written before lsn 6, whose
/// half of the journal is written again, and the checkpoint of the other half, with lsn 8, has
/// written the first page alone.
fn with_a_rotten_checksum_page(seed: u64) -> Host {
    let host = Host::new(seed);
    host.run(|env| async move {
        format(&env, false).await.expect("new files");
        let mut options = options(Mutations::default(), 1);
        (options.limits.band_pages, options.limits.half_bytes) = (1, 64 << 10);
        let group = DiskGroup::open(&env, &spec(1), options).await.expect("a new group");
        group
            .create_component(ONE, ObjectId(9), 4 * base::CHUNK_SECTORS)
            .await
            .expect("a component");
        group.drain_buffer(true);
        // Three chunks are the first page's, the fourth one is the second page's.
        let mut lsn = 0;
        for sectors in [&[0, 2048, 4096, 6144][..], &[8], &[6152], &[16, 6160], &[24]] {
            if lsn > 0 {
                group.shared().turn(0).await.expect("the other half");
            }
            for sector in sectors {
                lsn += 1;
                write(&env, &group, lsn, *sector, 8).await.expect("a write");
            }
            group.advance_commit(ONE, Lsn::new(Term(1), lsn));
            env.sleep(Duration::from_secs(10)).await;
        }
        assert!(group.shared().state.borrow().store.capacity[0].journal.has_closed);
        group.close().await;
    });
    let page = host.world.read_raw(host.key, "capacity0", 0, 4096);
    let device = format::Superblock::decode(&page).expect("a superblock").device;
    let layout = layout(&host.world, host.key);
    let slots = [0, 1].map(|slot| {
        let at = layout.crc_start + 8192 + slot * 4096;
        let page = host.world.read_raw(host.key, "capacity0", at, 4096);
        (format::CrcPage::decode(device, 1, &page).expect("both are written").sequence, at)
    });
    let (_, newest) = slots.into_iter().max().expect("two slots");
    host.world.flip_bits(host.key, "capacity0", newest + 1000, 1);
    host
}

/// Storm seed 281001965.
#[test]
fn a_checksum_page_whose_newer_slot_rotted_is_not_taken_for_torn() {
    with_a_rotten_checksum_page(16).run(|env| async move {
        let found = crate::inspect(&env, "capacity0", true).await.expect("a look");
        assert!(!found.is_healthy(), "called whole");
        let group = open(&env).await.expect("the map is whole");
        for sector in [6144, 6152] {
            let read = group.read(ONE, SectorRange::new(sector, 1)).await;
            assert!(matches!(read, Err(GroupError::BadCrc { .. })), "until another copy gives it");
        }
        assert_eq!(value(&group, 0).await, Some(1), "the first page is whole");
        write(&env, &group, 10, 6152, 8).await.expect("a write");
        assert_eq!(value(&group, 6152).await, Some(10));
    });
    with_a_rotten_checksum_page(16).run(|env| async move {
        let mutations = Mutations { trust_older_page: true, ..Mutations::default() };
        let group = DiskGroup::open(&env, &spec(1), options(mutations, 1)).await.expect("opens");
        assert_eq!(value(&group, 6152).await, Some(0), "a write is gone without a word");
    });
}
