// SPDX-License-Identifier: Apache-2.0
//! What a group costs by its size, in time and memory, on real (sparse) files:
//!
//! ```text
//! scale make FOLDER CAPACITY_GIB PERCENT BUFFER_MIB FILL_PERCENT
//! scale open FOLDER
//! scale dense FOLDER GROUPS DEVICES CAPACITY_GIB PERCENT BUFFER_MIB COMPONENT_GIB
//! scale live FOLDER GROUPS DEVICES
//! scale table FOLDER COMPONENTS
//! ```
//!
//! `make` formats a group, lets components take PERCENT of its chunks and fills its write buffer
//! with random 4 KiB writes, then ends as by SIGKILL. `open` recovers it in a process of its own
//! and prints one line of JSON. `dense` makes groups of several devices with components of a size;
//! `live` opens them together, lists a component as a resync does, looks at a part of it as a scrub
//! does, deletes it, waits for its space, closes. `table` does with many components what is done
//! with each. Both print a line of JSON for each step, with the most steps that a loop over data
//! took in one turn of the executor. The chunk map is written as a checkpoint leaves it without the
//! data: to write terabytes first would change nothing that opening sees.
#![expect(clippy::disallowed_methods, reason = "it reads what the kernel says of its process")]

use base::{CHUNK_SECTORS, ComponentId, GroupId, Lsn, ObjectId, SectorRange, Term};
use diskgroup::{Append, AppendKind, DeviceRole, DiskGroup, GroupError, GroupOptions, GroupSpec};
use env::{Env, Fifo, IoError, join_all};
use format::{
    COMPONENT_SECTORS_MAX, ChunkEntry, ComponentRow, DeviceKind, MAP_PAGE_CHUNKS, MapPage,
    PAGE_SIZE, Superblock,
};
use ring::RingDriver;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Writes in flight while the buffer is filled.
const DEPTH: usize = 128;
const BLOCK_SECTORS: u64 = 8;
const SCRUBBED_SECTORS: u64 = (256 << 20) / 512;
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
        ["dense", folder, groups, devices, capacity, percent, buffer, component] => {
            let numbers = [groups, devices, capacity, percent, buffer, component];
            let [groups, devices, capacity, percent, buffer, component]: [u64; 6] =
                numbers.map(|text| text.parse().expect("a number"));
            for spec in specs(folder, groups, devices) {
                create(&spec.cache, buffer << 20);
                spec.capacity.iter().for_each(|path| create(path, capacity << 30));
                dense(&env, &spec, capacity * percent / 100, component);
            }
        }
        ["live", folder, groups, devices] => {
            let [groups, devices]: [u64; 2] =
                [groups, devices].map(|text| text.parse().expect("a number"));
            live(&env, specs(folder, groups, devices));
        }
        ["table", folder, components] => {
            create(&spec(folder).cache, 64 << 20);
            create(&spec(folder).capacity[0], 64 << 30);
            table(&env, spec(folder), components.parse().expect("a number"));
        }
        _ => panic!("usage: scale make|open|dense|live|table FOLDER ...; see the source"),
    }
}

fn spec(folder: &str) -> GroupSpec {
    let capacity = vec![format!("{folder}/capacity")];
    GroupSpec { cache: format!("{folder}/cache"), capacity }
}

/// Several groups of several devices.
fn specs(folder: &str, groups: u64, devices: u64) -> Vec<GroupSpec> {
    let of = |group: u64| GroupSpec {
        cache: format!("{folder}/cache{group}"),
        capacity: (0..devices).map(|at| format!("{folder}/capacity{group}-{at}")).collect(),
    };
    (0..groups).map(of).collect()
}

/// One line about a step that began then.
fn tell(env: &Env, step: &str, started: Instant, count: u64) {
    let (now, peak) = resident();
    let ms = started.elapsed().as_secs_f64() * 1000.0;
    println!(
        "{{\"step\":\"{step}\",\"ms\":{ms:.1},\"count\":{count},\"resident\":{now},\
         \"peak\":{peak},\"turn_steps\":{}}}",
        env.most_steps()
    );
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
    let serials = (1..=count).map(|serial| u32::try_from(serial).expect("a serial")).collect();
    allocate(&spec.capacity[0], chunks, each, |_, _| serials);
    let (inner, of) = (env.clone(), spec.clone());
    env.run(async move { fill_buffer(&inner, &of, fill).await });
}

/// A group with as many components as fill so much of each device, all of it allocated.
fn dense(env: &Env, spec: &GroupSpec, gib: u64, component: u64) {
    let (inner, of) = (env.clone(), spec.clone());
    let count = gib.div_ceil(component).max(1) * spec.capacity.len() as u64;
    env.run(async move {
        let made = DiskGroup::format(&inner, &of, None, false, GroupId(1)).await;
        made.expect("a group");
        let group = DiskGroup::open(&inner, &of, GroupOptions::default()).await.expect("opens");
        for number in 1..=count {
            let id = ComponentId(number);
            let made = group.create_component(id, ObjectId(number), (component << 30) / 512).await;
            made.expect("a component");
        }
        group.close().await;
    });
    for path in &spec.capacity {
        allocate(path, gib << 10, component << 10, serials_of);
    }
}

/// The components that a device's table names.
fn serials_of(file: &File, superblock: &Superblock) -> Vec<u32> {
    let DeviceKind::Capacity(layout) = superblock.kind else { panic!("a capacity device") };
    let mut page = vec![0; PAGE_SIZE];
    let row = |place: u32| {
        let at = layout.table_start + u64::from(place) * 2 * PAGE_SIZE as u64;
        file.read_exact_at(&mut page, at).expect("a row");
        ComponentRow::decode(superblock.device, place, &page).ok().map(|row| row.serial)
    };
    (0..layout.rows).filter_map(row).collect()
}

/// Gives `chunks` device chunks to the components in turn, out of order as after years of use.
fn allocate(
    path: &str,
    chunks: u64,
    each: u64,
    serials: impl FnOnce(&File, &Superblock) -> Vec<u32>,
) {
    let file = OpenOptions::new().read(true).write(true).open(path).expect("a file");
    let mut page = vec![0; PAGE_SIZE];
    file.read_exact_at(&mut page, 0).expect("a superblock");
    let superblock = Superblock::decode(&page).expect("a superblock");
    let DeviceKind::Capacity(layout) = superblock.kind else { panic!("a capacity device") };
    let serials = serials(&file, &superblock);
    let total = u64::from(layout.chunks).min(chunks).min(each * serials.len() as u64);
    // A step that has no divisor in common with the number of chunks meets each of them once.
    let step = (total / 2..).find(|step| gcd(*step, total.max(1)) == 1).expect("a step");
    for number in 0..layout.map_pages() {
        let first = number * MAP_PAGE_CHUNKS as u64;
        let mut map = MapPage::empty(u32::try_from(number).expect("a page"));
        map.sequence = 2;
        for (at, entry) in (first..total).zip(&mut map.chunks) {
            let chunk = at * step % total;
            *entry = ChunkEntry {
                serial: serials[usize::try_from(chunk / each).expect("a place")],
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

/// What is done with groups that are there, one step after the other.
fn live(env: &Env, specs: Vec<GroupSpec>) {
    let inner = env.clone();
    env.run(async move {
        let started = Instant::now();
        let mut groups = Vec::new();
        for spec in &specs {
            let opened = DiskGroup::open(&inner, spec, GroupOptions::default()).await;
            groups.push(opened.expect("opens"));
        }
        let chunks: u64 = groups.iter().map(|g| g.status().used_bytes / base::CHUNK_SIZE).sum();
        tell(&inner, "open", started, chunks);
        let (group, id) = (&groups[0], ComponentId(1));
        list(&inner, group, id).await;
        scrub(&inner, group, id).await;
        delete(&inner, group, id).await;
        let started = Instant::now();
        for group in &groups {
            group.close().await;
        }
        tell(&inner, "close", started, groups.len() as u64);
        std::process::exit(0);
    });
}

/// All that changed since the beginning, page by page.
async fn list(env: &Env, group: &DiskGroup, id: ComponentId) {
    let started = Instant::now();
    let (mut cursor, mut held) = (Some(0), 0);
    while let Some(from) = cursor {
        let changed = group.changed_since(id, Lsn::ZERO, from);
        held += changed.held.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        cursor = changed.next;
        env.yield_now().await;
    }
    tell(env, "list", started, held);
}

/// Looks at the first 256 MiB as a scrub does: all of it takes as long as reading. The data is
/// not there, and so neither are checksums.
async fn scrub(env: &Env, group: &DiskGroup, id: ComponentId) {
    let started = Instant::now();
    let (mut from, mut looks) = (Some(0), 0);
    while let Some(at) = from.filter(|at| *at < SCRUBBED_SECTORS) {
        let verified = group.verify(id, at).await.expect("a look");
        from = verified.next;
        looks += 1;
    }
    tell(env, "scrub 256 MiB", started, looks);
}

/// Deletes a component and waits until its chunks can be given away again.
async fn delete(env: &Env, group: &DiskGroup, id: ComponentId) {
    let started = Instant::now();
    let before = group.status().used_bytes;
    group.delete_component(id).await.expect("deleted");
    tell(env, "delete", started, (before - group.status().used_bytes) / base::CHUNK_SIZE);
    let started = Instant::now();
    let freeing = || {
        let books = group.devices().into_iter().filter_map(|device| match device.role {
            DeviceRole::Capacity(space) => Some(space.freeing_bytes),
            DeviceRole::Cache { .. } => None,
        });
        books.sum::<u64>()
    };
    while freeing() > 0 {
        env.sleep(Duration::from_millis(1)).await;
    }
    tell(env, "free", started, (before - group.status().used_bytes) / base::CHUNK_SIZE);
}

/// Many components in one group: each is made, written, opened, deleted.
fn table(env: &Env, spec: GroupSpec, components: u64) {
    let inner = env.clone();
    env.run(async move {
        let made = DiskGroup::format(&inner, &spec, None, false, GroupId(1)).await;
        made.expect("a group");
        let open = || DiskGroup::open(&inner, &spec, GroupOptions::default());
        let group = open().await.expect("opens");
        let started = Instant::now();
        for number in 1..=components {
            let (id, object) = (ComponentId(number), ObjectId(number));
            group.create_component(id, object, COMPONENT_SECTORS_MAX).await.expect("made");
            group.set_active(id, true);
        }
        tell(&inner, "create", started, components);
        let started = Instant::now();
        let payload = inner.pool().zeroed(4096).freeze();
        // Each in turn, so that every segment has entries of all: several times round the buffer.
        for lsn in 1..=64 * 256 * 4 / components {
            let range = SectorRange::new(lsn % 512 * BLOCK_SECTORS, BLOCK_SECTORS);
            let writes = (1..=components).map(|number| {
                group.append(Append {
                    component: ComponentId(number),
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
            (1..=components).for_each(|number| {
                group.advance_commit(ComponentId(number), Lsn::new(Term(1), lsn));
            });
        }
        tell(&inner, "write", started, components);
        let started = Instant::now();
        group.close().await;
        drop(group);
        tell(&inner, "close", started, components);
        let started = Instant::now();
        // A device is closed beside everything else.
        let group = loop {
            match open().await {
                Err(GroupError::Device { source: IoError::Busy, .. }) => {
                    inner.sleep(Duration::from_millis(1)).await;
                }
                opened => break opened.expect("again"),
            }
        };
        tell(&inner, "open", started, components);
        let started = Instant::now();
        for number in 1..=components {
            group.delete_component(ComponentId(number)).await.expect("deleted");
        }
        tell(&inner, "delete", started, components);
        std::process::exit(0);
    });
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
