// SPDX-License-Identifier: Apache-2.0
//! The decisions of the read cache against a model that knows what every chunk holds.

use super::owners::OwnerSlots;
use super::slots::{ChangeCount, whole_of};
use super::*;
use base::{Map, Rng, Set};
use format::PIECE_BLOCKS;

const LINES: u32 = 2;
const KEYS: u64 = 30;
/// Blocks of a chunk that are used, of two pieces: few, so that much happens to each.
const BLOCKS: usize = 8;
const SLOTS: usize = LINES as usize * PIECES;

/// The piece of a block that is used, its place there, and that in the chunk.
fn place(block: usize) -> (usize, usize, u8) {
    let (piece, within) = (block / 4, block % 4);
    (piece, within, (piece * PIECE_BLOCKS + within) as u8)
}

/// The component that a piece is of: one of three.
fn owner_of(piece: u64) -> u32 {
    (whole_of(piece) % 3) as u32 + 1
}

/// A fill under way: the checksums that its data had.
struct Filling {
    slot: u32,
    key: u64,
    seen: ChangeCount,
    crcs: Vec<Option<u32>>,
}

/// What capacity has of a chunk.
#[derive(Clone)]
struct Truth {
    lsn: u64,
    blocks: [Option<u32>; BLOCKS],
}

/// A header on the device: piece, lsn of the chunk, and what was known.
type Header = (u64, u64, Vec<(usize, Option<u32>)>);

/// What capacity has, what stands in the slots, and in their headers.
struct Model {
    slots: Slots,
    rng: Rng,
    /// By key. Absent: the chunk is free.
    truth: Map<u64, Truth>,
    data: Vec<[u32; PIECE_BLOCKS]>,
    headers: Vec<Option<Header>>,
    /// Reads of capacity that may become fills.
    looking: Vec<(u64, ChangeCount, Vec<Option<u32>>)>,
    filling: Vec<Filling>,
    /// Slots that are read, and their pieces.
    held: Vec<(u32, u64)>,
    next_crc: u32,
    /// Headers that were taken back because of a slot that another piece has.
    believed: usize,
    /// Components that had no more than they keep while another one got a slot, or was refused it.
    spared: usize,
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut slots = Slots::new(LINES);
        (0..SLOTS).for_each(|_| slots.install(None, false));
        Self {
            slots,
            rng: Rng::stream(seed, 3),
            truth: Map::new(),
            data: vec![[0; PIECE_BLOCKS]; SLOTS],
            headers: vec![None; SLOTS],
            looking: Vec::new(),
            filling: Vec::new(),
            held: Vec::new(),
            next_crc: 1,
            believed: 0,
            spared: 0,
        }
    }

    fn below(&mut self, most: usize) -> usize {
        self.rng.below(most as u64) as usize
    }

    fn step(&mut self) {
        let key = self.rng.below(KEYS);
        match self.rng.below(11) {
            0..=2 => self.look(key),
            3 => self.begin_fill(),
            4 => self.end_fill(),
            5 => self.destage(key),
            6 => self.hold(key),
            7 if !self.held.is_empty() => {
                let at = self.below(self.held.len());
                let (slot, _) = self.held.swap_remove(at);
                self.slots.unpin(slot);
            }
            8 if self.rng.below(4) == 0 => match self.rng.below(2) {
                0 => {
                    self.slots.replace_chunk(key);
                    self.truth.remove(&key);
                }
                _ => self.allocate(key),
            },
            9 => {
                let lines = self.slots.take_dirty(1, 1);
                lines.into_iter().for_each(|line| self.write_headers(line, &Map::new()));
            }
            _ => {
                let slots: Vec<u32> = self.slots.of_chunk(key).collect();
                slots.into_iter().for_each(|slot| self.slots.note_read(slot, 3));
                if self.rng.below(40) == 0 {
                    let count = self.rng.below(3) as usize;
                    let wanted: Vec<(u32, u64)> =
                        (1..=3).map(|serial| (serial, self.rng.below(24))).collect();
                    self.slots.keep(&wanted[..count]);
                }
            }
        }
    }

    /// As a record of the journal that gives the chunk to somebody, with whatever lsn.
    fn allocate(&mut self, key: u64) {
        self.take_back(&Map::from([(key, u16::MAX)]));
        self.slots.replace_chunk(key);
        let lsn = self.rng.below(20);
        self.truth.insert(key, Truth { lsn, blocks: [None; BLOCKS] });
    }

    fn take_back(&mut self, pieces: &Map<u64, u16>) {
        for line in self.slots.lines_naming(pieces) {
            self.write_headers(line, pieces);
        }
    }

    fn write_headers(&mut self, line: u32, without: &Map<u64, u16>) {
        let claims = self.slots.claims(line, without);
        for (at, claim) in claims.iter().enumerate() {
            let slot = line as usize * PIECES + at;
            self.headers[slot] = claim.map(|key| {
                let of = self.slots.slot(slot as u32);
                let known = (0..4).filter_map(|block| of.get(block).map(|crc| (block, crc)));
                (key, self.truth[&whole_of(key)].lsn, known.collect())
            });
        }
        self.slots.set_stored(line, &claims);
    }

    fn look(&mut self, key: u64) {
        if self.looking.len() < 4
            && let Some(truth) = self.truth.get(&key)
        {
            let piece = self.rng.below(2) as usize;
            let crcs = truth.blocks[piece * 4..piece * 4 + 4].to_vec();
            self.looking.push((piece_of(key, piece), self.slots.watch(key), crcs));
        }
    }

    fn begin_fill(&mut self) {
        if self.looking.is_empty() {
            return;
        }
        let at = self.below(self.looking.len());
        let (key, seen, crcs) = self.looking.swap_remove(at);
        let before = [1, 2, 3].map(|serial| (serial, self.slots.of_component(serial)));
        match self.slots.begin_fill(key, owner_of(key), seen) {
            Some(slot) => self.filling.push(Filling { slot, key, seen, crcs }),
            None => self.slots.unwatch(whole_of(key)),
        }
        for (serial, OwnerSlots { held, kept, .. }) in before {
            let now = self.slots.of_component(serial).held;
            assert!(now >= held.min(kept), "{serial} keeps {kept} and has {now} of {held}");
            self.spared += usize::from(held > 0 && held <= kept && serial != owner_of(key));
        }
    }

    fn end_fill(&mut self) {
        if self.filling.is_empty() {
            return;
        }
        let at = self.below(self.filling.len());
        let Filling { slot, key, seen, crcs } = self.filling.swap_remove(at);
        for (block, crc) in crcs.iter().enumerate() {
            // The device's write lands now: whatever is there by now is lost.
            if let Some(crc) = crc {
                self.data[slot as usize][block] = *crc;
            }
        }
        let is_done = self.rng.below(8) > 0;
        self.slots.end_fill((slot, key, seen), crcs.into_iter().enumerate(), is_done);
        self.slots.unwatch(whole_of(key));
    }

    /// One batch: data to slots, then all checksums in one step.
    fn destage(&mut self, key: u64) {
        if !self.truth.contains_key(&key) {
            self.allocate(key);
        }
        let (mut written, mut blocks) = (Vec::new(), Set::new());
        for _ in 0..=self.rng.below(4) {
            blocks.insert(self.rng.below(BLOCKS as u64) as usize);
        }
        for block in blocks {
            self.next_crc += 1;
            let crc = self.next_crc;
            let (piece, within, _) = place(block);
            if self.rng.below(4) > 0
                && let Some(slot) = self.slots.begin_update(piece_of(key, piece))
            {
                self.data[slot as usize][within] = crc;
                self.slots.stage(slot, within as u8, crc);
            }
            written.push((block, crc));
        }
        // Fills and reads go on meanwhile.
        for _ in 0..self.rng.below(3) {
            self.begin_fill();
            self.end_fill();
        }
        match self.rng.below(2) {
            0 => {
                let pieces = written.iter().fold(0, |bits, (block, _)| bits | 1 << place(*block).0);
                self.take_back(&Map::from([(key, pieces)]));
            }
            _ => self.truth.get_mut(&key).expect("it is allocated").lsn += 1,
        }
        for (block, crc) in written {
            let is_unset = self.rng.below(6) == 0;
            match is_unset {
                true => self.slots.unset_block(key, place(block).2),
                false => self.slots.set_block(key, place(block).2, crc),
            }
            let truth = self.truth.get_mut(&key).expect("it was destaged to");
            truth.blocks[block] = (!is_unset).then_some(crc);
        }
        self.slots.end_updates();
    }

    fn hold(&mut self, key: u64) {
        if self.held.len() < 5
            && let Some(slot) = self.slots.find(piece_of(key, 0))
        {
            self.slots.pin(slot);
            self.held.push((slot, piece_of(key, 0)));
        }
    }

    /// What slots know, and what headers say that would be believed, is so.
    fn is_right(&mut self) -> bool {
        for (slot, of) in self.slots.all() {
            let Some(truth) = self.truth.get(&whole_of(of.key())) else { return false };
            for block in 0..4 {
                let Some(known) = of.get(block) else { continue };
                let is_there = known.is_none_or(|crc| self.data[slot as usize][block] == crc);
                if known != truth.blocks[(of.key() & 15) as usize * 4 + block] || !is_there {
                    return false;
                }
            }
        }
        for (key, lsn, blocks) in self.headers.iter().flatten() {
            let Some(truth) = self.truth.get(&whole_of(*key)) else { continue };
            let is_so = |(block, crc): &(usize, Option<u32>)| {
                truth.blocks[(*key & 15) as usize * 4 + block] == *crc
            };
            if *lsn > truth.lsn || *lsn == truth.lsn && !blocks.iter().all(is_so) {
                return false;
            }
            self.believed += usize::from(*lsn == truth.lsn);
        }
        true
    }

    fn check(&mut self) {
        assert!(self.is_right());
        assert!(self.slots.is_consistent());
        for (slot, key) in &self.held {
            let holder = self.slots.all().find(|(number, _)| number == slot);
            let is_kept = holder.is_none_or(|(_, of)| of.key() == *key);
            assert!(is_kept, "a slot that is held was given to another piece");
        }
        let pins = self.held.len() + self.filling.len();
        assert_eq!(self.slots.pins(), pins as u64);
    }
}

#[test]
fn a_slot_never_knows_anything_else_than_its_piece_and_no_header_says_so() {
    let (mut known, mut full, mut believed, mut spared) = (0, 0, 0, 0);
    for seed in 0..60 {
        let mut model = Model::new(seed);
        for _ in 0..1500 {
            model.step();
            model.check();
            known += model.slots.all().count();
            full += usize::from(model.slots.used() == SLOTS);
        }
        (believed, spared) = (believed + model.believed, spared + model.spared);
    }
    assert!(spared > 1000, "{spared} times something was kept");
    let is_much = known > 300_000 && full > 10_000 && believed > 100_000;
    assert!(is_much, "{known} slots known, {full} times all in use, {believed} true headers");
}

#[test]
fn what_the_header_of_a_slot_says_that_was_given_away_must_not_be_forgotten() {
    let is_noticed = (0..60).any(|seed| {
        let mut model = Model::new(seed);
        model.slots.mutations.forget_given_slots = true;
        (0..1500).any(|_| {
            model.step();
            !model.is_right()
        })
    });
    assert!(is_noticed);
}

#[test]
fn the_memory_of_the_slots_is_bounded_by_what_they_hold() {
    for lines in [100, 1000, 30_000] {
        let mut slots = Slots::new(lines);
        (0..lines * PIECES as u32).for_each(|_| slots.install(None, false));
        for chunk in 0..2 * lines {
            for piece in 0..PIECES {
                let seen = slots.watch(u64::from(chunk));
                let key = piece_of(u64::from(chunk), piece);
                if let Some(slot) = slots.begin_fill(key, 1, seen) {
                    slots.end_fill((slot, key, seen), [(1, Some(7))].into_iter(), true);
                }
                slots.unwatch(u64::from(chunk));
            }
            if chunk % 64 == 0 {
                for line in slots.take_dirty(1024, 256) {
                    let claims = slots.claims(line, &Map::new());
                    slots.set_stored(line, &claims);
                }
            }
        }
        assert_eq!(slots.used(), lines as usize * PIECES);
        let each = slots.memory() / lines as usize;
        assert!(each <= 1536, "{each} bytes for a MiB of {lines} MiB");
    }
}

#[test]
fn no_more_slots_are_given_away_than_headers_can_be_remembered() {
    let mut slots = Slots::new(64);
    (0..1024).for_each(|_| slots.install(None, false));
    let fill = |slots: &mut Slots, chunk: u64| {
        let (key, seen) = (piece_of(chunk, 3), slots.watch(chunk));
        let slot = slots.begin_fill(key, 1, seen);
        if let Some(slot) = slot {
            slots.end_fill((slot, key, seen), [(1, Some(7))].into_iter(), true);
        }
        slots.unwatch(chunk);
        slot.is_some()
    };
    let write = |slots: &mut Slots, most: usize| {
        for line in slots.take_dirty(most, most) {
            let claims = slots.claims(line, &Map::new());
            slots.set_stored(line, &claims);
        }
    };
    assert!((0..1024).all(|chunk| fill(&mut slots, chunk)), "as long as slots are free");
    write(&mut slots, 100);
    // What comes a second time gets a slot that nobody uses.
    let twice = || (2000..2900).chain(2000..2900);
    let given = twice().filter(|chunk| fill(&mut slots, *chunk)).count();
    assert!((128..500).contains(&given) && slots.is_crowded(), "{given}: an eighth, at first");
    assert!(!twice().any(|chunk| fill(&mut slots, chunk + 1000)));
    // Headers of a chunk that a record changes meanwhile are not written.
    let frozen: Vec<u64> = (0..7000).collect();
    slots.freeze(frozen.into_iter());
    assert_eq!(slots.take_dirty(100, 100), Vec::<u32>::new());
    slots.thaw();
    write(&mut slots, 100);
    assert!(!slots.is_crowded());
    assert!(twice().any(|chunk| fill(&mut slots, chunk + 5000)));
}

#[test]
fn only_reads_that_follow_one_another_are_a_stream() {
    let mut streams = Streams::default();
    let mut rng = Rng::stream(1, 1);
    let mut is_stream = |serial, start, count| streams.note(serial, start, count, 512);
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
    assert!(matches!(streams.get(0), AheadState::Data(3, _)));
    streams.forget(0);
    assert!(matches!(streams.get(0), AheadState::Nothing));
    let again = streams.begin(0).expect("a place");
    streams.forget(0);
    streams.end(again, Some((0, bytes.clone())));
    assert!(matches!(streams.get(0), AheadState::Nothing), "it changed while it was on its way");
    for key in 100..200 {
        if let Some(number) = streams.begin(key) {
            streams.end(number, Some((0, bytes.clone())));
        }
    }
    let left = (0..200).filter(|key| matches!(streams.get(*key), AheadState::Data(..))).count();
    assert_eq!(left, 8);
}
