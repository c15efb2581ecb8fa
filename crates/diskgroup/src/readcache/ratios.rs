// SPDX-License-Identifier: Apache-2.0
//! What the read cache is worth, against plain models of LRU and S3-FIFO of the same bytes.

use super::slots::{Slots, piece_of};
use base::{Map, Rng, Set};
use format::PIECES;
use std::collections::VecDeque;

/// Who keeps pieces.
trait Cache {
    /// A block of a piece is read; whether it was a hit.
    fn read(&mut self, piece: u64, block: u32) -> bool;
}

/// What was used longest ago goes.
struct Lru {
    most: usize,
    now: u64,
    at: Map<u64, u64>,
    order: Map<u64, u64>,
}

impl Lru {
    fn new(most: usize) -> Self {
        Self { most, now: 0, at: Map::new(), order: Map::new() }
    }
}

impl Cache for Lru {
    fn read(&mut self, piece: u64, _: u32) -> bool {
        self.now += 1;
        let before = self.at.insert(piece, self.now);
        before.map(|before| self.order.remove(&before));
        self.order.insert(self.now, piece);
        if self.at.len() > self.most {
            let (_, oldest) = self.order.pop_first().expect("it is not empty");
            self.at.remove(&oldest);
        }
        before.is_some()
    }
}

/// As its paper has it: a tenth small, as many ghosts as there are others, three uses at most, two
/// to leave the small queue for the main one.
struct S3Fifo {
    most: usize,
    uses: Map<u64, u32>,
    small: VecDeque<u64>,
    main: VecDeque<u64>,
    ghosts: VecDeque<u64>,
    known: Set<u64>,
}

impl S3Fifo {
    fn new(most: usize) -> Self {
        Self {
            most,
            uses: Map::new(),
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghosts: VecDeque::new(),
            known: Set::new(),
        }
    }

    fn evict(&mut self) {
        if self.small.len() >= self.most / 10 {
            while let Some(piece) = self.small.pop_front() {
                if self.uses[&piece] > 1 {
                    self.uses.insert(piece, 0);
                    self.main.push_back(piece);
                    continue;
                }
                self.uses.remove(&piece);
                self.ghosts.push_back(piece);
                self.known.insert(piece);
                if self.ghosts.len() > self.most * 9 / 10 {
                    let oldest = self.ghosts.pop_front().expect("it is not empty");
                    self.known.remove(&oldest);
                }
                return;
            }
        }
        while let Some(piece) = self.main.pop_front() {
            let uses = self.uses[&piece];
            if uses == 0 {
                self.uses.remove(&piece);
                return;
            }
            self.uses.insert(piece, uses - 1);
            self.main.push_back(piece);
        }
    }
}

impl Cache for S3Fifo {
    fn read(&mut self, piece: u64, _: u32) -> bool {
        if let Some(uses) = self.uses.get_mut(&piece) {
            *uses = 3.min(*uses + 1);
            return true;
        }
        if self.uses.len() >= self.most {
            self.evict();
        }
        match self.known.remove(&piece) {
            true => self.main.push_back(piece),
            false => self.small.push_back(piece),
        }
        self.uses.insert(piece, 0);
        false
    }
}

/// Ours, with headers that are written now and then.
struct Ours {
    slots: Slots,
    reads: u64,
    misses: u64,
    fills: u64,
    headers: u64,
}

impl Ours {
    fn new(lines: u32) -> Self {
        let mut slots = Slots::new(lines);
        (0..lines * PIECES as u32).for_each(|_| slots.install(None, false));
        Self { slots, reads: 0, misses: 0, fills: 0, headers: 0 }
    }

    /// Bytes written to the cache device for each that was read of capacity.
    fn written(&self) -> f64 {
        (self.fills * 16 + self.headers) as f64 / (self.misses * 16).max(1) as f64
    }
}

impl Cache for Ours {
    fn read(&mut self, piece: u64, block: u32) -> bool {
        self.read_of(1, piece, block)
    }
}

impl Ours {
    /// A block of a piece of a component is read; whether it was a hit.
    fn read_of(&mut self, serial: u32, piece: u64, block: u32) -> bool {
        self.reads += 1;
        // So many as magnetic devices serve in a second, at best.
        if self.reads.is_multiple_of(100) {
            for line in self.slots.take_dirty(1024, 256) {
                let claims = self.slots.claims(line, &Map::new());
                self.slots.set_stored(line, &claims);
                self.headers += 1;
            }
        }
        let key = piece_of(piece / PIECES as u64, piece as usize % PIECES);
        if let Some(slot) = self.slots.find(key) {
            self.slots.note_read(slot, 1 << block);
            return true;
        }
        self.misses += 1;
        let seen = self.slots.watch(key >> 4);
        if let Some(slot) = self.slots.begin_fill(key, serial, seen) {
            self.fills += 1;
            let blocks = (0..16).map(|block| (block, Some(1)));
            self.slots.end_fill((slot, key, seen), blocks, true);
            self.slots.note_read(slot, 1 << block);
        }
        self.slots.unwatch(key >> 4);
        false
    }
}

/// How pieces are chosen.
#[derive(Clone, Copy, Debug)]
enum Law {
    Uniform,
    /// By Zipf's law over pieces.
    Pieces(f64),
    /// By Zipf's law over blocks that lie anywhere.
    Blocks(f64),
}

#[derive(Clone, Copy, Debug)]
struct Load {
    law: Law,
    /// Of a hundred reads, those of scans that never come back, a piece at a time. Those of smaller
    /// steps are streams, which go round the cache.
    scan_percent: u64,
    /// Pieces that are read, for each that the cache can hold.
    times: f64,
}

/// The sums of probabilities up to each of `count` places.
fn zipf(count: usize, power: f64) -> Vec<f64> {
    let mut sums: Vec<f64> = Vec::with_capacity(count);
    for place in 1..=count {
        let before = sums.last().copied().unwrap_or(0.0);
        sums.push(before + (place as f64).powf(-power));
    }
    sums
}

fn pick(sums: &[f64], rng: &mut Rng) -> u64 {
    let all = sums.last().copied().unwrap_or(0.0);
    let wanted = rng.below(1 << 52) as f64 / (1_u64 << 52) as f64 * all;
    sums.partition_point(|sum| *sum < wanted) as u64
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Hit ratios of all of them, after a warm start, and what ours writes.
struct Ratios {
    lru: f64,
    s3_fifo: f64,
    ours: f64,
    written: f64,
}

fn ratios(load: Load, lines: u32, seed: u64) -> Ratios {
    let most = lines as usize * PIECES;
    let count = (most as f64 * load.times) as usize;
    let sums = match load.law {
        Law::Uniform => Vec::new(),
        Law::Pieces(power) => zipf(count, power),
        Law::Blocks(power) => zipf(count * 16, power),
    };
    let mut rng = Rng::stream(seed, 5);
    let (mut lru, mut s3_fifo) = (Lru::new(most), S3Fifo::new(most));
    let mut ours = Ours::new(lines);
    let (mut hits, mut reads, mut scanned) = ([0_u64; 3], 0_u64, 0_u64);
    // Places are mixed up: what is hot does not lie together.
    let is_prime_to = |step: &u64| gcd(*step, count as u64 * 16) == 1;
    let step = (count as u64 * 5 / 13..).find(is_prime_to).expect("a prime comes some day");
    let rounds = most * 40;
    for round in 0..rounds {
        let (piece, block) = if rng.below(100) < load.scan_percent {
            scanned += 1;
            ((1 << 30) + scanned, 0)
        } else {
            match load.law {
                Law::Uniform => (rng.below(count as u64), rng.below(16)),
                Law::Pieces(_) => (pick(&sums, &mut rng) * step % count as u64, rng.below(16)),
                Law::Blocks(_) => {
                    let at = pick(&sums, &mut rng) * step % (count as u64 * 16);
                    (at % count as u64, at / count as u64)
                }
            }
        };
        let all: [&mut dyn Cache; 3] = [&mut lru, &mut s3_fifo, &mut ours];
        let is_hit = all.map(|cache| cache.read(piece, block as u32));
        if round == rounds / 2 {
            (ours.fills, ours.misses, ours.headers) = (0, 0, 0);
        }
        if round > rounds / 2 {
            reads += 1;
            hits.iter_mut().zip(is_hit).for_each(|(hits, is_hit)| *hits += u64::from(is_hit));
        }
    }
    assert!(ours.slots.is_consistent());
    let [lru, s3_fifo, of] = hits.map(|hits| hits as f64 / reads as f64);
    Ratios { lru, s3_fifo, ours: of, written: ours.written() }
}

#[test]
fn it_hits_as_often_as_an_lru_of_the_same_bytes_and_writes_little() {
    let laws =
        [Law::Uniform, Law::Pieces(0.8), Law::Pieces(1.1), Law::Blocks(0.8), Law::Blocks(1.1)];
    println!("| load | scans | times the cache | LRU | S3-FIFO | ours | written per byte read |");
    for (seed, law) in (1..).zip(laws) {
        for scan_percent in [0, 30] {
            for (lines, times) in [(20, 1.3), (40, 2.2), (30, 8.0)] {
                let load = Load { law, scan_percent, times };
                let Ratios { lru, s3_fifo, ours, written } = ratios(load, lines, seed);
                let all = [lru, s3_fifo, ours].map(|ratio| format!("{:.1} %", ratio * 100.0));
                let name = format!("{law:?} | {scan_percent} % | {times}");
                println!("| {name} | {} | {written:.2} |", all.join(" | "));
                assert!(ours >= lru * 0.95, "{load:?}: {ours} of LRU's {lru}");
                assert!(ours >= s3_fifo * 0.95, "{load:?}: {ours} of S3-FIFO's {s3_fifo}");
                assert!(written <= 2.0, "{load:?}: {written}");
            }
        }
    }
}

#[test]
fn what_is_read_once_is_kept_away_when_the_cache_is_full() {
    let mut ours = Ours::new(20);
    let most = 20 * PIECES as u64;
    let mut rng = Rng::stream(9, 5);
    for _ in 0..20 * most {
        ours.read(rng.below(most / 2), rng.below(16) as u32);
    }
    for piece in 0..20 * most {
        ours.read((1 << 30) + piece, 0);
    }
    (ours.fills, ours.misses) = (0, 0);
    for piece in 0..20 * most {
        ours.read((1 << 31) + piece, 0);
    }
    let share = ours.fills as f64 / ours.misses as f64;
    assert!(share < 0.1, "{share} of what is read once is written");
    let hits = (0..most / 2).filter(|piece| ours.read(*piece, 0)).count() as u64;
    assert!(hits * 100 >= most / 2 * 95, "{hits} of {} are left", most / 2);
}

/// Component 1 seldom reads one of `mine` pieces at random, and keeps `kept`; component 2 reads far
/// more than the cache has, and most of the time. How often each of them hits.
fn beside_others(kept: u64, mine: u64, lines: u32) -> [f64; 2] {
    let mut ours = Ours::new(lines);
    ours.slots.keep(&[(1, kept)]);
    let slots = u64::from(lines) * PIECES as u64;
    let mut rng = Rng::stream(11, 5);
    let (mut hits, mut reads) = ([0_u64; 2], [0_u64; 2]);
    let rounds = 400 * slots;
    for round in 0..rounds {
        let is_mine = rng.below(20) == 0;
        let block = rng.below(16) as u32;
        let is_hit = match is_mine {
            true => ours.read_of(1, rng.below(mine), block),
            false => ours.read_of(2, (1 << 20) + rng.below(8 * slots), block),
        };
        if round > rounds / 2 {
            let at = usize::from(!is_mine);
            (reads[at], hits[at]) = (reads[at] + 1, hits[at] + u64::from(is_hit));
        }
    }
    assert!(ours.slots.is_consistent());
    [0, 1].map(|at| hits[at] as f64 / reads[at] as f64)
}

#[test]
fn what_is_kept_for_a_component_is_not_taken_by_one_that_reads_far_more() {
    let (lines, slots) = (20, 20 * PIECES as u64);
    let half = slots / 2;
    let [free, others_then] = beside_others(0, half, lines);
    assert!(free < 0.5, "{free} where nothing is kept");
    let [all, others] = beside_others(half, half, lines);
    assert!(all > 0.99, "{all} of what is kept is there");
    assert!(others > others_then * 0.4, "{others} with half of the cache, {others_then} with all");
    let [part, _] = beside_others(half, slots, lines);
    assert!((0.45..0.65).contains(&part), "{part} where twice as much is read as is kept");
    let [_, others] = beside_others(slots, slots, lines);
    assert!(others > others_then * 0.05, "{others}, {others_then} with all: a tenth is nobody's");
}
