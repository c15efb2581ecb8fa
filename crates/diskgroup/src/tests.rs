// SPDX-License-Identifier: Apache-2.0
//! Random loads with power loss and device faults against an oracle that knows, for each sector,
//! every value that it may have: the last acknowledged one or one issued after it. What appends
//! said about requests must be known exactly as far as the appends are.

use crate::{
    Append, AppendKind, DiskGroup, GroupError, GroupKind, GroupLimits, GroupOptions, GroupShape,
    GroupSpec, Mutations,
};
use base::{
    ClientTable, ComponentId, GroupId, Incarnation, Lsn, Mark, ObjectId, RequestId, Rng,
    SectorRange, ShardId, Term,
};
use env::{Env, Slice};
use sim::{HostKey, World, WorldOptions};
use std::cell::RefCell;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;

mod budget;
mod cache_kept;
mod campaign;
mod changed;
mod check;
mod counters;
mod direct;
mod evicted;
mod faults;
mod halves;
mod head;
mod inspect;
mod kept;
mod laps;
mod latency;
mod load;
mod open;
mod oracle;
mod out;
mod paced;
mod pages;
mod readcache;
mod rotten;
mod scale;
mod scenarios;
mod settled;
mod space;
mod stored;
mod stuck;
mod switches;
mod vanished;
mod verify;
mod watermark;

const SECTORS: u64 = 5006; // two chunks and a part of a third, ending within a block
const COMPONENTS: u64 = 3;
const HOUR: Duration = Duration::from_secs(3600);
/// Seeds of the random test.
const SEEDS: u64 = 60;
/// Bytes of each capacity device of a random case.
const CAPACITY: u64 = 24 << 20;

fn fill(sector: u64, value: u32, out: &mut [u8]) {
    let seed = u64::from(value) << 32 | sector;
    for (at, word) in out.chunks_mut(8).enumerate() {
        word.copy_from_slice(&seed.wrapping_add(at as u64 * 0x1_0001).to_le_bytes());
    }
}

fn value_of(sector: u64, bytes: &[u8]) -> Option<u32> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Some(0);
    }
    let first = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
    let value = (first >> 32) as u32;
    let mut expected = [0; 512];
    fill(sector, value, &mut expected);
    (expected == bytes).then_some(value)
}

fn payload(env: &Env, range: SectorRange, value: u32) -> Slice {
    let mut buf = env.buf(range.bytes() as usize);
    for (at, sector) in buf.chunks_mut(512).enumerate() {
        fill(range.start + at as u64, value, sector);
    }
    buf.freeze()
}

fn spec(devices: usize) -> GroupSpec {
    let capacity = (0..devices).map(|n| format!("capacity{n}")).collect();
    GroupSpec { cache: "cache".to_owned(), capacity }
}

/// `pages` is how many CRC pages stay in memory; a load touches three, or two on each of two.
fn options(mutations: Mutations, pages: usize) -> GroupOptions {
    GroupOptions {
        crc_cache_bytes: pages * 4096,
        limits: GroupLimits {
            band_pages: 1 + pages / 2,
            half_bytes: 8192 * (1 + pages as u64),
            stream_sectors: 8,
            ahead_part: 1,
            ..GroupLimits::default()
        },
        // Rings as small as these have hardly ever room to gather: half of the loads do not ask.
        elevator_room: if pages.is_multiple_of(2) { 0 } else { 2 },
        headers_every: Duration::from_millis(1),
        mutations,
        ..GroupOptions::default()
    }
}

/// The same with direct writes. No append of random loads has more than eleven blocks; one load in
/// four has none that are large enough.
fn direct_options(mutations: Mutations, pages: usize) -> GroupOptions {
    let direct_blocks = match pages {
        1 => 2,
        2 => 1,
        4 => 3,
        _ => 64,
    };
    let limits = crate::GroupLimits { direct_blocks, direct_spare: 1, ..Default::default() };
    GroupOptions { limits, ..options(mutations, pages) }
}

/// What a person asks for in the environment.
#[expect(clippy::disallowed_methods, reason = "tests run by hand, with seeds of one's choice")]
fn asked(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The seeds of a test: `DISKGROUP_SEED` is the first, `DISKGROUP_SEEDS` how many.
fn seeds() -> std::ops::Range<u64> {
    let number = |name| asked(name).and_then(|text| text.parse().ok());
    let from = number("DISKGROUP_SEED").unwrap_or(0);
    from..from + number("DISKGROUP_SEEDS").unwrap_or(SEEDS)
}

#[test]
fn nothing_acknowledged_is_lost_in_a_crash() {
    let (mut appends, mut reads, mut looks) = (0, 0, 0);
    for seed in seeds() {
        let case = campaign::Case::new(seed, Mutations::default()).run();
        appends += case.oracle.borrow().appends;
        reads += case.oracle.borrow().reads;
        looks += case.oracle.borrow().looks;
    }
    let is_enough = appends > 5000 && reads > 500 && looks > 20;
    assert!(
        is_enough || asked("DISKGROUP_SEEDS").is_some(),
        "{appends} appends, {reads} reads, {looks} looks at capacity alone"
    );
}

/// One page of checksums for each device, and not a byte more for tables than they need.
#[test]
fn nothing_acknowledged_is_lost_with_the_least_memory() {
    let mut appends = 0;
    for seed in seeds().step_by(2) {
        let case = campaign::Case::short(seed).run();
        appends += case.oracle.borrow().appends;
    }
    assert!(appends > 1000 || asked("DISKGROUP_SEEDS").is_some(), "{appends} appends");
}
