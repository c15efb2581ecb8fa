// SPDX-License-Identifier: Apache-2.0
//! The decisions of the read cache against a model that knows what every chunk holds.

use super::lines::{Seen, has};
use super::*;
use base::{Map, Rng, Set};

const LINES: u32 = 8;
const KEYS: u64 = 30;
/// Blocks of a chunk that are used: few, so that much happens to each.
const BLOCKS: usize = 8;

/// A fill under way: the checksums that its data had.
struct Filling {
    line: u32,
    key: u64,
    seen: Seen,
    crcs: Vec<Option<u32>>,
}

/// What capacity has, and what stands in the lines.
struct Model {
    lines: Lines,
    rng: Rng,
    /// By key: what each block holds. Absent: the chunk is free.
    truth: Map<u64, [Option<u32>; BLOCKS]>,
    data: Vec<[u32; BLOCKS]>,
    /// Reads of capacity that may become fills.
    looking: Vec<(u64, Seen, Vec<Option<u32>>)>,
    filling: Vec<Filling>,
    /// Lines that are read, and their keys.
    held: Vec<(u32, u64)>,
    next_crc: u32,
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut lines = Lines::new(LINES);
        (0..LINES).for_each(|line| lines.pass(line));
        Self {
            lines,
            rng: Rng::stream(seed, 3),
            truth: Map::new(),
            data: vec![[0; BLOCKS]; LINES as usize],
            looking: Vec::new(),
            filling: Vec::new(),
            held: Vec::new(),
            next_crc: 1,
        }
    }

    fn below(&mut self, most: usize) -> usize {
        self.rng.below(most as u64) as usize
    }

    fn step(&mut self) {
        let key = self.rng.below(KEYS);
        match self.rng.below(10) {
            0..=2 => self.look(key),
            3 => self.begin_fill(),
            4 => self.end_fill(),
            5 => self.destage(key),
            6 => self.hold(key),
            7 if !self.held.is_empty() => {
                let at = self.below(self.held.len());
                let (line, _) = self.held.swap_remove(at);
                self.lines.unpin(line);
            }
            8 if self.rng.below(4) == 0 => {
                self.lines.replace_chunk(key);
                match self.rng.below(2) {
                    0 => drop(self.truth.remove(&key)),
                    _ => drop(self.truth.insert(key, [None; BLOCKS])),
                }
            }
            _ => {
                if let Some((line, body)) = self.lines.body(key) {
                    let blocks: Vec<usize> = (0..2).filter(|b| has(&body.known, *b)).collect();
                    self.lines.note_read(line, blocks.into_iter());
                }
            }
        }
    }

    fn look(&mut self, key: u64) {
        if self.looking.len() < 4
            && let Some(truth) = self.truth.get(&key)
        {
            let crcs = truth.to_vec();
            self.looking.push((key, self.lines.watch(key), crcs));
        }
    }

    fn begin_fill(&mut self) {
        if self.looking.is_empty() {
            return;
        }
        let at = self.below(self.looking.len());
        let (key, seen, crcs) = self.looking.swap_remove(at);
        match self.lines.begin_fill(key, seen) {
            Some(line) => self.filling.push(Filling { line, key, seen, crcs }),
            None => self.lines.unwatch(key),
        }
    }

    fn end_fill(&mut self) {
        if self.filling.is_empty() {
            return;
        }
        let at = self.below(self.filling.len());
        let Filling { line, key, seen, crcs } = self.filling.swap_remove(at);
        for (block, crc) in crcs.iter().enumerate() {
            // The device's write lands now: whatever is there by now is lost.
            if let Some(crc) = crc {
                self.data[line as usize][block] = *crc;
            }
        }
        let is_done = self.rng.below(8) > 0;
        self.lines.end_fill((line, key, seen), crcs.into_iter().enumerate(), is_done);
        self.lines.unwatch(key);
    }

    /// One batch: data to lines, then all checksums in one step.
    fn destage(&mut self, key: u64) {
        let is_fresh = !self.truth.contains_key(&key);
        if is_fresh {
            self.lines.replace_chunk(key);
            self.truth.insert(key, [None; BLOCKS]);
        }
        let (mut written, mut blocks) = (Vec::new(), Set::new());
        for _ in 0..=self.rng.below(4) {
            blocks.insert(self.rng.below(BLOCKS as u64) as usize);
        }
        for block in blocks {
            self.next_crc += 1;
            let crc = self.next_crc;
            if self.rng.below(4) > 0
                && let Some(line) = self.lines.begin_update(key)
            {
                self.data[line as usize][block] = crc;
                self.lines.stage(line, block as u8, crc);
            }
            written.push((block, crc));
        }
        // Fills and reads go on meanwhile.
        for _ in 0..self.rng.below(3) {
            self.begin_fill();
            self.end_fill();
        }
        for (block, crc) in written {
            let is_unset = self.rng.below(6) == 0;
            match is_unset {
                true => self.lines.unset_block(key, block as u8),
                false => self.lines.set_block(key, block as u8, crc),
            }
            let truth = self.truth.get_mut(&key).expect("it was destaged to");
            truth[block] = (!is_unset).then_some(crc);
        }
        self.lines.end_updates();
    }

    fn hold(&mut self, key: u64) {
        if self.held.len() < 5
            && let Some((line, _)) = self.lines.body(key)
        {
            self.lines.pin(line);
            self.held.push((line, key));
        }
    }

    fn check(&self) {
        assert!(self.lines.is_consistent());
        assert!(self.lines.used() <= LINES as usize);
        let mut used = 0;
        for key in 0..KEYS {
            let Some((line, body)) = self.lines.body(key) else { continue };
            used += 1;
            let truth = self.truth.get(&key).expect("a line of a chunk that is free");
            for (block, truth) in truth.iter().enumerate() {
                let Some(known) = body.get(block) else { continue };
                assert_eq!(known, *truth, "block {block} of {key}");
                if let Some(crc) = known {
                    assert_eq!(self.data[line as usize][block], crc, "data of {block} of {key}");
                }
            }
        }
        assert_eq!(used, self.lines.used());
        for (line, key) in &self.held {
            let holder = self.lines.all().find(|(number, ..)| number == line);
            let is_kept = holder.is_none_or(|(_, holder, _)| holder == *key);
            assert!(is_kept, "a line that is held was given to another chunk");
        }
        let pins = self.held.len() + self.filling.len();
        assert_eq!(self.lines.pins(), pins as u64);
    }
}

#[test]
fn a_line_never_knows_anything_else_than_its_chunk() {
    let (mut known, mut full) = (0, 0);
    for seed in 0..60 {
        let mut model = Model::new(seed);
        for _ in 0..1500 {
            model.step();
            model.check();
            known += model.lines.all().filter(|(_, _, body)| body.known != [0; 4]).count();
            full += usize::from(model.lines.used() == LINES as usize);
        }
    }
    assert!(known > 100_000 && full > 20_000, "{known} lines known, {full} times all in use");
}

/// A read of 16 blocks, as of a client; whether it was a hit.
fn read(lines: &mut Lines, key: u64, window: usize) -> bool {
    let blocks = window * 16..window * 16 + 16;
    let found = lines
        .body(key)
        .map(|(line, body)| (line, blocks.clone().all(|block| body.get(block).is_some())));
    if let Some((line, true)) = found {
        lines.note_read(line, blocks);
        return true;
    }
    let seen = lines.watch(key);
    if let Some(line) = lines.begin_fill(key, seen) {
        lines.end_fill((line, key, seen), blocks.clone().map(|block| (block, Some(1))), true);
        lines.note_read(line, blocks);
    }
    lines.unwatch(key);
    false
}

#[test]
fn a_scan_does_not_displace_what_was_read_more_than_once() {
    const ALL: u32 = 200;
    let mut lines = Lines::new(ALL);
    (0..ALL).for_each(|line| lines.pass(line));
    let hot: Vec<u64> = (0..150).collect();
    for _ in 0..2 {
        for key in &hot {
            (0..4).for_each(|window| _ = read(&mut lines, *key, window));
        }
    }
    for key in 1000..1000 + 10 * u64::from(ALL) {
        (0..16).for_each(|window| _ = read(&mut lines, key, window));
    }
    let hits = hot.iter().filter(|key| read(&mut lines, **key, 0)).count();
    assert!(hits * 100 >= hot.len() * 95, "{hits} of {} are left", hot.len());
    // A new hot set takes the place of the old one all the same.
    for _ in 0..6 {
        for key in 5000..5150 {
            (0..4).for_each(|window| _ = read(&mut lines, key, window));
        }
    }
    let hits = (5000..5150).filter(|key| read(&mut lines, *key, 0)).count();
    assert!(hits >= 130, "{hits} of 150 are in");
}

#[test]
fn only_reads_that_follow_one_another_are_a_stream() {
    let mut streams = Streams::default();
    let mut rng = Rng::stream(1, 1);
    let mut is_stream = |serial, start, count| streams.note(serial, start, count);
    for _ in 0..1000 {
        assert!(!is_stream(1, rng.below(1 << 30) * 8, 2048), "random reads, however long");
    }
    let mut begun = 0;
    for at in 0..100 {
        let is_one = is_stream(2, at * 64, 64);
        begun += u64::from(is_one);
        assert_eq!(is_one, at >= 8, "256 KiB in a row, others between them");
        assert!(!is_stream(3, rng.below(1 << 30) * 8, 8));
    }
    assert_eq!(begun, 92);
}

#[test]
fn what_was_read_ahead_is_bounded_and_goes_when_its_chunk_changes() {
    let mut streams = Streams::default();
    let begun: Vec<u64> = (0..20).filter_map(|key| streams.begin(key)).collect();
    assert_eq!(begun.len(), 4, "so many are on their way at most");
    let bytes = env::Pool::default().zeroed(4096).freeze();
    begun.iter().for_each(|number| streams.end(*number, Some((3, bytes.clone()))));
    assert!(matches!(streams.get(0), Known::Data(3, _)));
    streams.forget(0);
    assert!(matches!(streams.get(0), Known::Nothing));
    let again = streams.begin(0).expect("a place");
    streams.forget(0);
    streams.end(again, Some((0, bytes.clone())));
    assert!(matches!(streams.get(0), Known::Nothing), "it changed while it was on its way");
    for key in 100..200 {
        if let Some(number) = streams.begin(key) {
            streams.end(number, Some((0, bytes.clone())));
        }
    }
    let left = (0..200).filter(|key| matches!(streams.get(*key), Known::Data(..))).count();
    assert_eq!(left, 8);
}
