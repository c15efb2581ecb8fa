// SPDX-License-Identifier: Apache-2.0
//! What opening a group costs by its size, in time and memory, on real (sparse) files:
//!
//! ```text
//! scale make FOLDER CAPACITY_GIB PERCENT BUFFER_MIB FILL_PERCENT
//! scale open FOLDER
//! ```
//!
//! `make` formats a group, lets components take PERCENT of its chunks and fills its write buffer
//! with random 4 KiB writes, then ends as by SIGKILL. `open` recovers it in a process of its own
//! and prints one line of JSON. The chunk map is written as a checkpoint leaves it, without the
//! data: to write terabytes first would change nothing that opening sees.
#![expect(clippy::disallowed_methods, reason = "it reads what the kernel says of its process")]

use base::{CHUNK_SECTORS, ComponentId, GroupId, Lsn, ObjectId, SectorRange, Term};
use diskgroup::{Append, AppendKind, DiskGroup, GroupOptions, GroupSpec};
use env::{Env, Fifo, join_all};
use format::{
    COMPONENT_SECTORS_MAX, ChunkEntry, DeviceKind, MAP_PAGE_CHUNKS, MapPage, PAGE_SIZE, Superblock,
};
use ring::RingDriver;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

/// Writes in flight while the buffer is filled.
const DEPTH: usize = 128;
const BLOCK_SECTORS: u64 = 8;
const WRITTEN_BLOCKS: u64 = (8 << 30) / 4096;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let driver = RingDriver::new().expect("io_uring");
    let env = Env::new(Box::new(driver), Box::new(Fifo));
    match words[..] {
        ["make", folder, capacity, percent, buffer, fill] => {
            let [capacity, percent, buffer, fill]: [u64; 4] =
                [capacity, percent, buffer, fill].map(|text| text.parse().expect("a number"));
            let spec = spec(folder);
            create(&spec.cache, buffer << 20);
            create(&spec.capacity[0], capacity << 30);
            make(&env, &spec, (capacity << 30) / base::CHUNK_SIZE * percent / 100, fill);
        }
        ["open", folder] => open(&env, &spec(folder)),
        _ => panic!("usage: scale make FOLDER GIB PERCENT BUFFER_MIB FILL_PERCENT | open FOLDER"),
    }
}

fn spec(folder: &str) -> GroupSpec {
    let capacity = vec![format!("{folder}/capacity")];
    GroupSpec { cache: format!("{folder}/cache"), capacity }
}

/// Bytes of this process in memory: now, and at most so far.
fn resident() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").expect("a process");
    let kib = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).expect("a field");
        line.split_whitespace().nth(1).and_then(|text| text.parse::<u64>().ok()).expect("a number")
    };
    (kib("VmRSS:") << 10, kib("VmHWM:") << 10)
}

fn open(env: &Env, spec: &GroupSpec) {
    let (inner, spec) = (env.clone(), spec.clone());
    let (before, _) = resident();
    env.run(async move {
        let group = DiskGroup::open(&inner, &spec, GroupOptions::default()).await.expect("opens");
        let (now, peak) = resident();
        let (report, status) = (group.recovery(), group.status());
        println!(
            "{{\"ms\":{},\"entries\":{},\"buffer_fill\":{:.3},\"resident\":{},\"peak\":{}}}",
            report.duration.as_millis(),
            report.entries,
            status.buffer_fill,
            now - before,
            peak - before
        );
        std::process::exit(0);
    });
}

/// A file without content, whatever the filesystem has room for.
fn create(path: &str, bytes: u64) {
    let options = OpenOptions::new().write(true).create_new(true).open(path);
    options.expect("a new file").set_len(bytes).expect("its length");
}

fn make(env: &Env, spec: &GroupSpec, chunks: u64, fill: u64) {
    let (inner, of) = (env.clone(), spec.clone());
    let each = COMPONENT_SECTORS_MAX / CHUNK_SECTORS;
    let count = chunks.div_ceil(each).max(1);
    env.run(async move {
        let made = DiskGroup::format(&inner, &of, None, false, GroupId(1)).await;
        made.expect("a group");
        let group = DiskGroup::open(&inner, &of, GroupOptions::default()).await.expect("opens");
        for number in 1..=count {
            let id = ComponentId(number);
            let made = group.create_component(id, ObjectId(number), COMPONENT_SECTORS_MAX).await;
            made.expect("a component");
        }
        group.close().await;
    });
    allocate(&spec.capacity[0], chunks, each);
    let (inner, of) = (env.clone(), spec.clone());
    env.run(async move { fill_buffer(&inner, &of, fill).await });
}

/// Gives `chunks` device chunks to the components in turn, out of order as after years of use.
fn allocate(path: &str, chunks: u64, each: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).expect("a file");
    let mut page = vec![0; PAGE_SIZE];
    file.read_exact_at(&mut page, 0).expect("a superblock");
    let superblock = Superblock::decode(&page).expect("a superblock");
    let DeviceKind::Capacity(layout) = superblock.kind else { panic!("a capacity device") };
    let total = u64::from(layout.chunks).min(chunks);
    // A step that has no divisor in common with the number of chunks meets each of them once.
    let step = (total / 2..).find(|step| gcd(*step, total.max(1)) == 1).expect("a step");
    for number in 0..layout.map_pages() {
        let first = number * MAP_PAGE_CHUNKS as u64;
        let mut map = MapPage::empty(u32::try_from(number).expect("a page"));
        map.sequence = 2;
        for (at, entry) in (first..total).zip(&mut map.chunks) {
            let chunk = at * step % total;
            *entry = ChunkEntry {
                serial: u32::try_from(1 + chunk / each).expect("a serial"),
                index: u32::try_from(chunk % each).expect("an index"),
                lsn: Lsn::new(Term(1), 1),
            };
        }
        map.encode(superblock.device, &mut page);
        let slots = layout.map_start + number * 2 * PAGE_SIZE as u64;
        file.write_all_at(&page, slots).expect("a map page");
    }
    file.sync_all().expect("a flush");
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Random writes to the first 8 GiB of a component, none of them destaged before the last.
async fn fill_buffer(env: &Env, spec: &GroupSpec, percent: u64) {
    let group = DiskGroup::open(env, spec, GroupOptions::default()).await.expect("opens");
    let payload = env.pool().zeroed(4096).freeze();
    let mut lsn = 1;
    let mut is_last = false;
    while !is_last {
        is_last = group.status().buffer_fill * 100.0 >= percent as f64;
        if is_last {
            // The last commit says that all before it is everywhere, as an owner's next write does.
            group.advance_commit(ComponentId(1), Lsn::new(Term(1), lsn));
        }
        let writes = (0..DEPTH).map(|_| {
            lsn += 1;
            let range =
                SectorRange::new(env.random() % WRITTEN_BLOCKS * BLOCK_SECTORS, BLOCK_SECTORS);
            group.append(Append {
                component: ComponentId(1),
                lsn: Lsn::new(Term(1), lsn),
                term: Term(1),
                range,
                kind: AppendKind::Data,
                crcs: &wire::crcs_of(range, &payload),
                payload: payload.clone(),
                marks: &[],
            })
        });
        for written in join_all(writes.collect()).await {
            written.expect("a write");
        }
    }
    // As SIGKILL would: nothing is closed.
    std::process::exit(0);
}
