// SPDX-License-Identifier: Apache-2.0
//! Requests to the capacity device for each destaged block, by kind, under uniform random writes of
//! 4 KiB over a region whose checksums need more pages than memory has room for:
//!
//! ```text
//! requests BUDGET_PAGES JOURNAL_KIB SEGMENT_KIB REGION_PAGES
//! ```
//!
//! It runs on the simulator, so the same arguments give the same figures. The region is
//! REGION_PAGES times 3 MiB, which is what a checksum page is about. Every chunk of it has data
//! before counting begins. Counting goes from the end of one checkpoint to that of another. One
//! line of JSON is printed. The device gets a journal of JOURNAL_KIB, whatever its size: so that a
//! small budget can stand to the journal as the one of production does.

use base::{CHUNK_SECTORS, CHUNK_SIZE, ComponentId, GroupId, Lsn, ObjectId, Rng};
use base::{SectorRange, Term};
use diskgroup::{
    Append, AppendKind, CreateSizes, DeviceRequests, DiskGroup, GroupOptions, GroupSpec,
};
use env::{Durability, Env, OpenDisk, Slice, join_all};
use format::{CRC_PAGE_CHUNKS, DeviceKind, PAGE_SIZE, SUPERBLOCK_SLOTS, Superblock};
use sim::{World, WorldOptions};
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;

const ONE: ComponentId = ComponentId(1);
const BLOCK_SECTORS: u64 = 8;
/// Writes under way at a time.
const DEPTH: u64 = 64;
/// Checkpoints that are counted, and blocks at least: a checkpoint before the first one is not.
const CHECKPOINTS: u64 = 3;
const BLOCKS_MIN: u64 = 20_000;
/// Bytes of the write buffer. It is small beside the region, so that nearly each write is destaged.
const BUFFER: u64 = 24 << 20;
const DAYS: Duration = Duration::from_secs(30 * 86_400);

#[derive(Clone, Copy)]
struct Case {
    budget_pages: u64,
    journal_kib: u64,
    segment_kib: u64,
    region_pages: u64,
}

fn main() {
    let numbers: Vec<u64> =
        std::env::args().skip(1).map(|text| text.parse().expect("a number")).collect();
    let [budget_pages, journal_kib, segment_kib, region_pages] = numbers[..] else {
        panic!("usage: requests BUDGET_PAGES JOURNAL_KIB SEGMENT_KIB REGION_PAGES");
    };
    let case = Case { budget_pages, journal_kib, segment_kib, region_pages };
    let world = World::new(WorldOptions { seed: 1, ..WorldOptions::default() });
    let host = world.add_host("host", IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
    let done = Rc::new(Cell::new(false));
    let flag = Rc::clone(&done);
    world.boot(host, move |env| {
        Box::pin(async move {
            measure(&env, case).await;
            flag.set(true);
        })
    });
    assert!(world.run_until(DAYS, || done.get()), "it never ends");
}

async fn measure(env: &Env, case: Case) {
    let chunks = case.region_pages * CRC_PAGE_CHUNKS as u64;
    let spec = GroupSpec { cache: "cache".to_owned(), capacity: vec!["capacity".to_owned()] };
    // Room for the region, its pages and a journal that is cut afterwards.
    let capacity = chunks * CHUNK_SIZE / 64 * 65 + (160 << 20);
    let sizes = CreateSizes { cache: BUFFER, capacity };
    let segment = case.segment_kib << 10;
    let made = DiskGroup::format_with(env, &spec, Some(sizes), false, GroupId(1), segment).await;
    made.expect("new files");
    cut_journal(env, &spec.capacity[0], case.journal_kib << 10).await;
    let options = GroupOptions {
        crc_cache_bytes: usize::try_from(case.budget_pages).expect("few") * PAGE_SIZE,
        ..GroupOptions::default()
    };
    let group = DiskGroup::open(env, &spec, options).await.expect("a new group");
    let sectors = chunks * CHUNK_SECTORS;
    group.create_component(ONE, ObjectId(1), sectors).await.expect("a component");
    group.set_active(ONE, true);
    let mut writer = Writer::new(env, &group);
    let starts: Vec<u64> = (0..chunks).map(|chunk| chunk * CHUNK_SECTORS).collect();
    for some in starts.chunks(DEPTH as usize) {
        writer.write(some).await;
    }
    let mut rng = Rng::stream(1, 1);
    let mut random = async || {
        let places = (0..DEPTH).map(|_| rng.below(sectors / BLOCK_SECTORS) * BLOCK_SECTORS);
        writer.write(&places.collect::<Vec<_>>()).await;
    };
    // The first checkpoint is of what filled the region.
    let begun = group.status();
    let mut at = begun.clone();
    let mut from = None;
    let mut checkpoints = 0;
    loop {
        random().await;
        let now = group.status();
        let is_over = now.requests.map_pages > at.requests.map_pages;
        if is_over && now.destaged_blocks > begun.destaged_blocks {
            match &from {
                None => from = Some(now.clone()),
                Some(_) => checkpoints += 1,
            }
        }
        at = now;
        if let Some(from) = &from {
            let blocks = at.destaged_blocks - from.destaged_blocks;
            if is_over && checkpoints >= CHECKPOINTS && blocks >= BLOCKS_MIN {
                tell(case, checkpoints, blocks, &from.requests, &at.requests);
                return;
            }
        }
    }
}

/// Picks one kind of requests, or all.
type Count = fn(&DeviceRequests) -> u64;

fn tell(
    case: Case,
    checkpoints: u64,
    blocks: u64,
    before: &DeviceRequests,
    after: &DeviceRequests,
) {
    let each = |of: Count| (of(after) - of(before)) as f64 / blocks as f64;
    let kinds: [(&str, Count); 9] = [
        ("all", DeviceRequests::to_capacity),
        ("blocks", |r| r.blocks),
        ("records", |r| r.records + r.heads),
        ("pages_read", |r| r.pages_read),
        ("pages_written", |r| r.pages_written),
        ("map_pages", |r| r.map_pages),
        ("rows", |r| r.rows),
        ("read_back", |r| r.read_back),
        ("flushes", |r| r.flushes),
    ];
    let kinds = kinds.map(|(name, of)| format!("\"{name}\":{:.4}", each(of)));
    println!(
        "{{\"budget_pages\":{},\"region_pages\":{},\"blocks_destaged\":{blocks},\
         \"checkpoints\":{checkpoints},{}}}",
        case.budget_pages,
        case.region_pages,
        kinds.join(",")
    );
}

/// Writes the device's superblock again, with a journal that ends earlier. Nothing stands there.
async fn cut_journal(env: &Env, path: &str, journal: u64) {
    let disk = env.open_disk(OpenDisk { path: path.to_owned(), create: None }).await;
    let disk = disk.expect("a device");
    for at in SUPERBLOCK_SLOTS {
        let page = disk.read(at, env.buf(PAGE_SIZE)).await.expect("a slot");
        let mut superblock = Superblock::decode(&page).expect("a superblock");
        let DeviceKind::Capacity(layout) = &mut superblock.kind else {
            panic!("not a capacity device")
        };
        layout.journal_size = layout.journal_size.min(journal);
        let mut page = env.buf(PAGE_SIZE);
        superblock.encode(&mut page);
        disk.write(at, page.freeze(), Durability::Durable).await.expect("written");
    }
}

struct Writer {
    env: Env,
    group: DiskGroup,
    payload: Slice,
    lsn: u64,
}

impl Writer {
    fn new(env: &Env, group: &DiskGroup) -> Self {
        // The simulator keeps one page of zeros for all of them.
        let payload = env.pool().zeroed(PAGE_SIZE).freeze();
        Self { env: env.clone(), group: group.clone(), payload, lsn: 0 }
    }

    /// Writes a block at each of these sectors, all at once.
    async fn write(&mut self, starts: &[u64]) {
        let mut writes = Vec::new();
        for start in starts {
            self.lsn += 1;
            let range = SectorRange::new(*start, BLOCK_SECTORS);
            let (group, payload, lsn) = (&self.group, self.payload.clone(), self.lsn);
            writes.push(async move {
                let crcs = wire::crcs_of(range, &payload);
                let (lsn, term, kind) = (Lsn::new(Term(1), lsn), Term(1), AppendKind::Data);
                let (component, marks) = (ONE, &[][..]);
                let append =
                    Append { component, lsn, term, range, kind, crcs: &crcs, payload, marks };
                group.append(append).await.expect("a write");
            });
        }
        join_all(writes).await;
        self.group.advance_commit(ONE, Lsn::new(Term(1), self.lsn));
        self.env.sleep(Duration::from_nanos(1)).await;
    }
}
