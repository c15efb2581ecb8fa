// SPDX-License-Identifier: Apache-2.0
//! Random loads with power loss against an oracle that knows, for each sector, every value that it
//! may have: the last acknowledged one or one issued after it. What appends said about requests
//! must be known exactly as far as the appends are.

use crate::{Append, AppendKind, DiskGroup, GroupOptions, GroupSpec, Mutations};
use base::{
    ClientTable, ComponentId, GroupId, HostId, Incarnation, Lsn, Mark, ObjectId, RequestId, Rng,
    SectorRange, Term,
};
use env::{Env, Slice};
use sim::{HostKey, World, WorldOptions};
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;

mod scenarios;

const SECTORS: u64 = 5006; // two chunks and a part of a third, ending within a block
const COMPONENTS: u64 = 3;
const HOUR: Duration = Duration::from_secs(3600);

/// Values of one sector in the order of issue; from `acked` on each is possible.
#[derive(Clone, Default)]
struct History {
    values: Vec<u32>,
    acked: usize,
}

struct Oracle {
    /// Per component, per sector.
    sectors: Vec<Vec<History>>,
    next_value: u32,
    /// Highest lsn issued and acknowledged.
    issued: Vec<u64>,
    acked: Vec<Lsn>,
    /// What appends said about requests, in their order.
    marks: Vec<Vec<(Lsn, Vec<Mark>)>>,
    /// Requests begun.
    requests: u64,
    term: u32,
    reads: u64,
    appends: u64,
}

impl Oracle {
    fn new() -> Self {
        let one = History { values: vec![0], acked: 0 };
        Self {
            sectors: vec![vec![one; SECTORS as usize]; COMPONENTS as usize],
            next_value: 1,
            issued: vec![0; COMPONENTS as usize],
            acked: vec![Lsn::ZERO; COMPONENTS as usize],
            marks: vec![Vec::new(); COMPONENTS as usize],
            requests: 0,
            term: 1,
            reads: 0,
            appends: 0,
        }
    }

    /// Nothing, a request, or what a copy brings along and takes back.
    fn some_marks(&mut self, rng: &mut Rng) -> Vec<Mark> {
        let mut done = |rng: &mut Rng| {
            self.requests += 1;
            let (client, slot) = (HostId(1 + rng.below(2) as u32), rng.below(5) as u8);
            let run = Incarnation(1 + self.requests / 400);
            RequestId::new(client, run, slot, self.requests).expect("small numbers")
        };
        match rng.below(8) {
            0 => Vec::new(),
            1 => (0..rng.below(4)).map(|_| Mark::Done(done(rng))).collect(),
            2 => {
                let id = done(rng);
                vec![Mark::Done(id), Mark::Undone(id), Mark::Done(done(rng))]
            }
            _ => vec![Mark::Done(done(rng))],
        }
    }

    fn clients(&self, component: usize) -> ClientTable {
        let mut table = ClientTable::default();
        let marks = self.marks[component].iter().flat_map(|(_, marks)| marks);
        marks.for_each(|mark| table.apply(*mark));
        table
    }

    fn issue(&mut self, component: usize, range: SectorRange, value: u32) -> Vec<usize> {
        let of = &mut self.sectors[component][range.start as usize..range.end() as usize];
        of.iter_mut()
            .map(|history| {
                history.values.push(value);
                history.values.len() - 1
            })
            .collect()
    }

    fn ack(&mut self, component: usize, range: SectorRange, at: &[usize], lsn: Lsn) {
        let of = &mut self.sectors[component][range.start as usize..range.end() as usize];
        for (history, at) in of.iter_mut().zip(at) {
            history.acked = history.acked.max(*at);
        }
        self.acked[component] = self.acked[component].max(lsn);
        self.appends += 1;
    }

    fn lows(&self, component: usize, range: SectorRange) -> Vec<usize> {
        let of = &self.sectors[component][range.start as usize..range.end() as usize];
        of.iter().map(|history| history.acked).collect()
    }

    fn check(&self, component: usize, range: SectorRange, lows: &[usize], bytes: &[u8]) {
        for (at, sector) in bytes.chunks(512).enumerate() {
            let number = range.start + at as u64;
            let value = value_of(number, sector);
            let history = &self.sectors[component][number as usize];
            assert!(
                value.is_some_and(|value| history.values[lows[at]..].contains(&value)),
                "component {component} sector {number} of {range:?}: {value:?} is none of {:?}",
                &history.values[lows[at]..]
            );
        }
    }

    /// What was found after a crash is what is there.
    fn settle(&mut self, component: usize, bytes: &[u8]) {
        for (number, sector) in bytes.chunks(512).enumerate() {
            let value = value_of(number as u64, sector).expect("checked before");
            self.sectors[component][number] = History { values: vec![value], acked: 0 };
        }
    }
}

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
    GroupOptions { crc_cache_bytes: pages * 4096, mutations, ..GroupOptions::default() }
}

struct Case {
    world: World,
    host: HostKey,
    oracle: Rc<RefCell<Oracle>>,
    rng: Rng,
    devices: usize,
    pages: usize,
    mutations: Mutations,
}

impl Case {
    fn new(seed: u64, mutations: Mutations) -> Self {
        let world = World::new(WorldOptions { seed, ..WorldOptions::default() });
        let host = world.add_host("host", IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
        let mut rng = Rng::stream(seed, 7);
        let devices = 1 + rng.below(2) as usize;
        let segments = rng.between(6, 10);
        let pages = rng.between(1, 4) as usize;
        let cache = (1 << 20) + segments * (64 << 10);
        let is_file = rng.below(2) == 0;
        if !is_file {
            world.add_disk(host, "cache", cache);
            (0..devices).for_each(|n| world.add_disk(host, &format!("capacity{n}"), 24 << 20));
        }
        let sizes = is_file.then_some(crate::CreateSizes { cache, capacity: 24 << 20 });
        world.boot(host, move |env| {
            Box::pin(async move {
                let id = GroupId(5);
                let spec = spec(devices);
                let done = DiskGroup::format_with(&env, &spec, sizes, false, id, 64 << 10);
                done.await.expect("a new group");
                let group = DiskGroup::open(&env, &spec, options(mutations, pages)).await;
                let group = group.expect("an empty group opens");
                for n in 0..COMPONENTS {
                    let (id, object) = (ComponentId(n + 1), ObjectId(n));
                    group.create_component(id, object, SECTORS).await.expect("a component");
                }
                group.close().await;
            })
        });
        assert!(world.run_until(HOUR, || world.is_finished(host)), "formatting ends");
        world.kill(host);
        let oracle = Rc::new(RefCell::new(Oracle::new()));
        Self { world, host, oracle, rng, devices, pages, mutations }
    }

    /// One life: open, check everything, load until it is cut off. Whether the group opened.
    fn live(&mut self, time: Duration) {
        let (oracle, devices) = (Rc::clone(&self.oracle), self.devices);
        let (pages, mutations) = (self.pages, self.mutations);
        let rng = Rng::new(self.rng.next_u64());
        let is_ready = Rc::new(std::cell::Cell::new(false));
        let ready = Rc::clone(&is_ready);
        self.world.boot(self.host, move |env| {
            Box::pin(async move {
                let opened = DiskGroup::open(&env, &spec(devices), options(mutations, pages)).await;
                let group = opened.unwrap_or_else(|error| panic!("after a crash: {error}"));
                check_all(&group, &oracle).await;
                ready.set(true);
                load(env, group, oracle, rng).await;
            })
        });
        assert!(self.world.run_until(HOUR, || is_ready.get()), "opening ends");
        self.world.run_for(time);
    }

    fn run(mut self) -> Self {
        for _ in 0..4 {
            let bits = self.rng.between(10, 22);
            let time = Duration::from_micros(self.rng.below(1 << bits));
            self.live(time);
            match self.rng.below(3) {
                0 => self.world.kill(self.host),
                _ => self.world.crash(self.host),
            }
        }
        self.live(Duration::from_millis(1));
        self.world.kill(self.host);
        self
    }
}

async fn check_all(group: &DiskGroup, oracle: &RefCell<Oracle>) {
    for component in 0..COMPONENTS as usize {
        let id = ComponentId(component as u64 + 1);
        let info = group.component(id).expect("components are durable");
        let mut all = Vec::new();
        for range in SectorRange::new(0, SECTORS).split_at_multiples(base::CHUNK_SECTORS) {
            let read = group.read(id, range).await.unwrap_or_else(|e| panic!("{component}: {e}"));
            assert!(wire::verify(range, &read.crcs, &read.payload), "checksums of what is read");
            let oracle = oracle.borrow();
            oracle.check(component, range, &oracle.lows(component, range), &read.payload);
            all.extend_from_slice(&read.payload);
        }
        let mut oracle = oracle.borrow_mut();
        oracle.settle(component, &all);
        assert!(info.durable >= oracle.acked[component], "the highest lsn goes back");
        assert!(info.destaged <= info.durable, "W beyond what is durable");
        oracle.marks[component].retain(|(lsn, _)| *lsn <= info.durable);
        assert_eq!(group.clients(id), oracle.clients(component), "requests of {component}");
        assert!(group.tail(id).iter().all(|(_, lsn)| *lsn > info.commit));
        oracle.acked[component] = info.durable;
    }
    let mut oracle = oracle.borrow_mut();
    oracle.term += 1;
    oracle.issued.fill(0);
}

async fn load(env: Env, group: DiskGroup, oracle: Rc<RefCell<Oracle>>, mut rng: Rng) {
    let tasks = Rc::new(env::TaskSet::default());
    let room = env::Semaphore::new(24);
    let small = rng.below(3) == 0;
    loop {
        let permit = room.acquire(1).await;
        let component = rng.below(COMPONENTS) as usize;
        let id = ComponentId(component as u64 + 1);
        match rng.below(20) {
            0..=2 => {
                let acked = oracle.borrow().acked[component];
                group.advance_commit(id, acked);
            }
            3..=6 => {
                let range = some_range(&mut rng, 2048);
                let lows = oracle.borrow().lows(component, range);
                let reading = group.read(id, range);
                let oracle = Rc::clone(&oracle);
                tasks.spawn(&env, "read", async move {
                    let read = reading.await.unwrap_or_else(|e| panic!("read {range:?}: {e}"));
                    assert!(wire::verify(range, &read.crcs, &read.payload));
                    oracle.borrow().check(component, range, &lows, &read.payload);
                    oracle.borrow_mut().reads += 1;
                    drop(permit);
                });
            }
            7 => {
                let bits = rng.between(1, 22);
                env.sleep(Duration::from_micros(rng.below(1 << bits))).await;
            }
            8 => drop(group.changed_since(id, Lsn::ZERO, 0)),
            kind => {
                let appended = append(&env, &group, &oracle, &mut rng, component, kind, small);
                tasks.spawn(&env, "append", async move {
                    appended.await;
                    drop(permit);
                });
            }
        }
    }
}

fn some_range(rng: &mut Rng, most: u64) -> SectorRange {
    let start = rng.below(SECTORS);
    let room = (base::CHUNK_SECTORS - start % base::CHUNK_SECTORS).min(SECTORS - start);
    SectorRange::new(start, rng.between(1, most.min(room)))
}

fn append(
    env: &Env,
    group: &DiskGroup,
    oracle: &Rc<RefCell<Oracle>>,
    rng: &mut Rng,
    component: usize,
    kind: u64,
    small: bool,
) -> impl Future<Output = ()> + use<> {
    let (append_kind, range) = match kind {
        9 => (AppendKind::Zero, some_range(rng, 64)),
        10 => (AppendKind::Discard, some_range(rng, 2048)),
        11 => (AppendKind::Discard, SectorRange::new(rng.below(2) * 2048, 2048)),
        12 => (AppendKind::Data, some_range(rng, 80)),
        13..=15 if small => (AppendKind::Data, some_range(rng, 12)),
        _ => (AppendKind::Data, SectorRange::new(rng.below(SECTORS / 8) * 8, 8)),
    };
    let is_data = append_kind == AppendKind::Data;
    let mut state = oracle.borrow_mut();
    let value = if is_data { state.next_value } else { 0 };
    state.next_value += 1;
    state.issued[component] += 1;
    let lsn = Lsn::new(Term(state.term), state.issued[component]);
    let term = Term(state.term);
    let bytes = if is_data { payload(env, range, value) } else { env.buf(0).freeze() };
    let crcs = if is_data { wire::crcs_of(range, &bytes) } else { wire::Crcs::NONE };
    let id = ComponentId(component as u64 + 1);
    let at = state.issue(component, range, value);
    let marks = state.some_marks(rng);
    state.marks[component].push((lsn, marks.clone()));
    let append = Append {
        component: id,
        lsn,
        term,
        range,
        kind: append_kind,
        crcs: &crcs,
        payload: bytes,
        marks: &marks,
    };
    let appended = group.append(append);
    let oracle = Rc::clone(oracle);
    drop(state);
    async move {
        match appended.await {
            Ok(()) => oracle.borrow_mut().ack(component, range, &at, lsn),
            Err(error) => panic!("append {range:?}: {error}"),
        }
    }
}

fn seeds(range: std::ops::Range<u64>) -> (u64, u64) {
    let (mut appends, mut reads) = (0, 0);
    for seed in range {
        let case = Case::new(seed, Mutations::default()).run();
        appends += case.oracle.borrow().appends;
        reads += case.oracle.borrow().reads;
    }
    (appends, reads)
}

/// `DISKGROUP_SEED` in the environment of the build starts elsewhere.
fn from() -> u64 {
    option_env!("DISKGROUP_SEED").and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[test]
fn nothing_acknowledged_is_lost_in_a_crash() {
    let (appends, reads) = seeds(from()..from() + 60);
    assert!(appends > 5000 && reads > 500, "{appends} appends, {reads} reads");
}

/// Whether some seed shows that a rule is broken.
fn is_noticed(mutations: Mutations) -> bool {
    (0..80).any(|seed| {
        let story = move || drop(Case::new(seed, mutations).run());
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(story)).is_err()
    })
}

#[test]
fn rules_that_are_broken_on_purpose_are_noticed() {
    let none = Mutations::default();
    let all = [
        ("ack_before_durable", Mutations { ack_before_durable: true, ..none }),
        ("skip_destage_flush", Mutations { skip_destage_flush: true, ..none }),
        ("skip_journal", Mutations { skip_journal: true, ..none }),
        ("single_page_slot", Mutations { single_page_slot: true, ..none }),
        ("forget_marks", Mutations { forget_marks: true, ..none }),
    ];
    for (name, mutations) in all {
        assert!(is_noticed(mutations), "{name} is not noticed");
    }
}
