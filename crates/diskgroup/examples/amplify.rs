// SPDX-License-Identifier: Apache-2.0
//! Write amplification: bytes written to a group's devices per byte that a volume was given, on
//! real files and in steady state: `amplify FOLDER [BUFFER_MIB [LOAD]]`. Prints one
//! line of JSON per load, or for those with LOAD in their name.

use base::{CHUNK_SECTORS, ComponentId, GroupId, Lsn, ObjectId, SectorRange, Term};
use diskgroup::{Append, AppendKind, CreateSizes, DiskGroup, GroupOptions, GroupSpec};
use env::{Env, Fifo, Slice, join_all};
use ring::RingDriver;
use std::cell::Cell;

/// Writers, each with one write under way.
const DEPTH: usize = 32;
const ONE: ComponentId = ComponentId(1);
const BLOCK: u64 = 4096;
/// Measured at most.
const WRITES_MAX: u64 = 1 << 20;

/// What is written.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    /// The volume, in sixteenths of the write buffer.
    sixteenths: u64,
    /// Bytes of a write.
    length: u64,
    order: Order,
}

#[derive(Clone, Copy)]
enum Order {
    Uniform,
    /// Ranks by Zipf's law with exponent 1.1, scattered over the volume.
    Zipf,
    Sequential,
}

const LOADS: [Load; 6] = [
    load("random 4 KiB, half the buffer", 8, BLOCK, Order::Uniform),
    load("random 4 KiB, eight buffers", 128, BLOCK, Order::Uniform),
    load("Zipf 1.1 4 KiB, eight buffers", 128, BLOCK, Order::Zipf),
    load("sequential 128 KiB, eight buffers", 128, 32 * BLOCK, Order::Sequential),
    load("sequential 4 KiB, eight buffers", 128, BLOCK, Order::Sequential),
    load("sequential 512 B, eight buffers", 128, BLOCK / 8, Order::Sequential),
];

const fn load(name: &'static str, sixteenths: u64, length: u64, order: Order) -> Load {
    Load { name, sixteenths, length, order }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("usage: amplify FOLDER [BUFFER_MIB [LOAD]]");
    let mib: u64 = arguments.next().map_or(256, |text| text.parse().expect("MiB"));
    let wanted = arguments.next().unwrap_or_default();
    for load in LOADS.into_iter().filter(|load| load.name.contains(&wanted)) {
        let driver = RingDriver::new().expect("io_uring");
        let env = Env::new(Box::new(driver), Box::new(Fifo));
        let (inner, folder) = (env.clone(), folder.clone());
        env.run(async move { measure(&inner, &folder, mib << 20, load).await });
        env.stop();
    }
}

async fn measure(env: &Env, folder: &str, buffer: u64, load: Load) {
    let (cache, capacity) = (format!("{folder}/cache"), format!("{folder}/capacity"));
    let spec = GroupSpec { cache: cache.clone(), capacity: vec![capacity.clone()] };
    let volume = buffer / 16 * load.sixteenths;
    let sizes = CreateSizes { cache: buffer, capacity: volume + volume / 8 + (256 << 20) };
    DiskGroup::format(env, &spec, Some(sizes), false, GroupId(1)).await.expect("a group");
    let group = DiskGroup::open(env, &spec, GroupOptions::default()).await.expect("opens");
    group.create_component(ONE, ObjectId(1), volume / 512).await.expect("a component");
    let fill = Load { length: 32 * BLOCK, order: Order::Sequential, ..load };
    let mut lsn = 0;
    lsn = write(env, &group, fill, volume, volume, lsn).await;
    lsn = write(env, &group, load, volume, 2 * buffer, lsn).await;
    let (before, begun) = (written(&group), env.now());
    let bytes = (8 * buffer).max(volume).min(WRITES_MAX * load.length);
    write(env, &group, load, volume, bytes, lsn).await;
    let seconds = env.now().since(begun).as_secs_f64();
    let after = written(&group);
    println!(
        "{{\"load\":\"{}\",\"buffer_mib\":{},\"user_bytes\":{bytes},\"cache\":{:.3},\
         \"capacity\":{:.3},\"writes_per_second\":{:.0}}}",
        load.name,
        buffer >> 20,
        (after.0 - before.0) as f64 / bytes as f64,
        (after.1 - before.1) as f64 / bytes as f64,
        (bytes / load.length) as f64 / seconds
    );
    group.close().await;
    for path in [cache, capacity] {
        std::fs::remove_file(path).expect("its own file");
    }
}

/// Bytes written so far: to cache, to capacity.
fn written(group: &DiskGroup) -> (u64, u64) {
    let devices = group.devices();
    (devices[0].written_bytes, devices[1].written_bytes)
}

/// Writes `bytes` in all; the last lsn.
async fn write(env: &Env, group: &DiskGroup, load: Load, volume: u64, bytes: u64, lsn: u64) -> u64 {
    let mut buf = env.buf(usize::try_from(load.length).expect("a length"));
    buf.fill(0xA5); // zeros would take no space
    let payload = buf.freeze();
    let (lsn, left, next) = (Cell::new(lsn), Cell::new(bytes / load.length), Cell::new(0));
    let zipf = Zipf::new(volume / load.length);
    let writer = async || {
        while left.get() > 0 {
            left.set(left.get() - 1);
            lsn.set(lsn.get() + 1);
            let places = volume / load.length;
            let place = match load.order {
                Order::Uniform => env.random() % places,
                Order::Zipf => zipf.draw(env.random()),
                Order::Sequential => next.replace((next.get() + 1) % places),
            };
            let mine = Lsn::new(Term(1), lsn.get());
            append(group, place * load.length / 512, &payload, mine).await;
            // Appends are durable in the order of their lsns.
            group.advance_commit(ONE, mine);
        }
    };
    join_all((0..DEPTH).map(|_| Box::pin(writer())).collect()).await;
    lsn.get()
}

async fn append(group: &DiskGroup, start: u64, payload: &Slice, lsn: Lsn) {
    let range = SectorRange::new(start, payload.len() as u64 / 512);
    assert!(start % CHUNK_SECTORS + range.count <= CHUNK_SECTORS, "within a chunk");
    let append = Append {
        component: ONE,
        lsn,
        term: lsn.term(),
        range,
        kind: AppendKind::Data,
        crcs: &wire::crcs_of(range, payload),
        payload: payload.clone(),
        marks: &[],
    };
    group.append(append).await.expect("a write");
}

/// Draws ranks by Zipf's law.
struct Zipf {
    /// Sum of the weights up to each rank.
    sums: Vec<f64>,
}

impl Zipf {
    const EXPONENT: f64 = 1.1;

    fn new(places: u64) -> Self {
        let mut sum = 0.0;
        let weight = |rank: u64| (rank as f64).powf(-Self::EXPONENT);
        let sums = (1..=places).map(|rank| {
            sum += weight(rank);
            sum
        });
        Self { sums: sums.collect() }
    }

    /// A place for a random number: neighbours in rank stand far from each other.
    fn draw(&self, random: u64) -> u64 {
        let places = self.sums.len() as u64;
        let all = self.sums.last().copied().unwrap_or_default();
        let wanted = random as f64 / u64::MAX as f64 * all;
        let rank = self.sums.partition_point(|sum| *sum < wanted) as u64;
        rank.min(places - 1).wrapping_mul(0x9E37_79B1) % places
    }
}
