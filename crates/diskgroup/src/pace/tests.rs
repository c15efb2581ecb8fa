// SPDX-License-Identifier: Apache-2.0
//! What the pace promises, over a model of appends and destage in virtual time.

use super::*;
use base::Rng;

const SEGMENT: u64 = 4 << 20;
const BLOCKS: u64 = SEGMENT / 4096;
const SECOND: u64 = 1_000_000_000;

/// A ring before a disk that deals with a block in so many nanoseconds and pauses after each
/// segment, as for its journal.
struct Model {
    pace: Pace,
    ring: u64,
    block_ns: u64,
    pause_ns: u64,
    now: u64,
    /// Blocks in the log, and of the oldest segment those that are written.
    used: u64,
    written: u64,
    /// When destage is done with its block; `None`: it rests.
    busy: Option<u64>,
    /// Highest use of the ring ever.
    used_max: u64,
    /// When commits of writers were written: their blocks, longest time between two of them.
    last: u64,
    gap_max: u64,
    appended: u64,
}

impl Model {
    fn new(segments: u32, block_ns: u64, pause_ns: u64) -> Self {
        Self {
            pace: Pace::new(segments),
            ring: u64::from(segments) * BLOCKS,
            block_ns,
            pause_ns,
            now: SECOND,
            used: 0,
            written: 0,
            busy: None,
            used_max: 0,
            last: SECOND,
            gap_max: 0,
            appended: 0,
        }
    }

    fn fill(&self) -> i64 {
        let done = self.pace.done() / 4096;
        i64::try_from((self.used - done) * 1000 / self.ring).expect("small")
    }

    fn instant(&self) -> Instant {
        Instant(self.now)
    }

    /// Destage deals with what it was about, and takes the next block on if it may.
    fn destage(&mut self) {
        if self.busy.is_some_and(|end| end <= self.now) {
            self.busy = None;
            self.pace.finished(self.instant(), 1);
            self.written += 1;
            if self.written == BLOCKS {
                self.pace.freed(self.instant(), SEGMENT);
                self.written = 0;
                self.used -= BLOCKS;
            }
        }
        if self.busy.is_some() {
            return;
        }
        let fill = self.fill();
        if self.used < 2 * BLOCKS || !self.pace.may_destage(fill) {
            self.pace.rest();
            return;
        }
        if self.pace.drain.since.is_none() {
            self.pace.go_on(self.instant());
        }
        let mut end = self.now + self.block_ns;
        if self.written == 0 {
            let part = BufferPart { bytes: SEGMENT, data: BLOCKS };
            self.pace.begin(self.instant(), part, BLOCKS);
            end += self.pause_ns;
        }
        self.pace.destaged(1);
        self.busy = Some(end);
    }

    /// Writes so many blocks if they may be written now.
    fn append(&mut self, blocks: u64) -> bool {
        let fill = self.fill();
        if self.pace.admission(self.instant(), fill) != Admission::Now {
            return false;
        }
        self.pace.charge(self.instant(), blocks, fill);
        self.used += blocks;
        self.pace.appended(i64::try_from(blocks).expect("small"), fill);
        self.used_max = self.used_max.max(self.used);
        self.gap_max = self.gap_max.max(self.now - self.last);
        self.last = self.now;
        self.appended += blocks;
        true
    }

    /// One after the other, as fast as the pace lets them; blocks per second of it.
    fn press(&mut self, seconds: u64, step_ns: u64, blocks: impl Fn(u64) -> u64) -> Vec<u64> {
        let mut rates = Vec::new();
        for _ in 0..seconds {
            let (begin, end) = (self.appended, self.now + SECOND);
            while self.now < end {
                self.destage();
                let most = self.pace.commit_blocks(self.instant(), self.fill());
                self.append(blocks(most));
                self.now += step_ns;
            }
            rates.push(self.appended - begin);
        }
        rates
    }
}

fn of(segments: u32) -> impl Fn(&i64) -> i64 {
    move |fill| fill * i64::from(segments) * BLOCKS as i64 / 1000
}

#[test]
fn levels_rise_and_leave_room() {
    for segments in 6..3000 {
        for spares in [SPARES, SPARES_OF_SWEEP] {
            let at = Levels::new(segments, spares);
            let rising = [0, at.low, at.equilibrium, at.gate, at.target, at.full, at.end, 1000];
            assert!(rising.is_sorted_by(|a, b| a < b), "{segments} segments: {at:?}");
            let end = i64::from(segments - 3) * 1000 / i64::from(segments);
            assert!(at.end <= end, "{segments} segments: {at:?}");
        }
    }
    // Rings of a size that is measured keep what was measured: a full buffer coalesces.
    let at = Levels::new(256, SPARES);
    assert_eq!((at.low, at.equilibrium, at.gate, at.full), (800, 880, 950, 980));
}

#[test]
fn pressed_appends_get_to_the_rate_of_destage_evenly_and_stay_there() {
    // A magnetic disk, a flash device, and one that pauses for long.
    for (block_ns, pause_ns) in [(2_000_000, 50_000_000), (50_000, 500_000), (500_000, SECOND / 3)]
    {
        for segments in [12, 19, 76, 256] {
            let mut model = Model::new(segments, block_ns, pause_ns);
            let step_ns = block_ns / 4;
            // Filled fast, then for as long as four segments take.
            let fill_seconds = u64::from(segments) * BLOCKS * step_ns / SECOND + 2;
            model.press(fill_seconds, step_ns, |_| 1);
            let segment_ns = BLOCKS * block_ns + pause_ns;
            let settle = 12 * segment_ns / SECOND + 10;
            model.press(settle, step_ns, |most| most.min(32));
            let name = format!("{segments} segments, {block_ns} ns");
            (model.gap_max, model.last) = (0, model.now);
            let rates = model.press(4 * segment_ns / SECOND + 20, step_ns, |most| most.min(32));
            let capacity = SECOND * BLOCKS / segment_ns;
            let mean = rates.iter().sum::<u64>() / rates.len() as u64;
            assert!(mean.abs_diff(capacity) < capacity / 10, "{name}: {mean} of {capacity}");
            // No second is far from the mean: the rate does not swing.
            for rate in &rates {
                assert!(rate.abs_diff(mean) < mean / 4, "{name}: {rates:?}");
            }
            assert!(model.gap_max < 200_000_000, "{name}: a gap of {} ns", model.gap_max);
            let (end, fill) = (of(segments)(&model.pace.levels.end), model.fill());
            assert!(i64::try_from(model.used_max).expect("small") <= end, "{name}: no room");
            let levels = &model.pace.levels;
            assert!(fill > levels.gate && fill <= levels.full, "{name}: fill {fill}, {levels:?}");
        }
    }
}

#[test]
fn a_load_that_capacity_takes_waits_for_nothing_however_full_the_buffer() {
    for segments in [19, 76, 256] {
        let block_ns = 2_000_000;
        let mut model = Model::new(segments, block_ns, 50_000_000);
        model.press(u64::from(segments) + 40, block_ns / 4, |most| most.min(32));
        assert!(model.fill() >= model.pace.levels.gate, "{segments}: {}", model.fill());
        let (mut due, mut worst, begin) = (model.now, 0, model.now);
        let step = block_ns * 10 / 6;
        while model.now < begin + 120 * SECOND {
            model.destage();
            while due <= model.now && model.append(1) {
                worst = worst.max(model.now - due);
                due += step;
            }
            model.now += block_ns / 20;
        }
        assert!(worst < 20_000_000, "{segments} segments: one waits {worst} ns");
        assert!(model.fill() < model.pace.levels.gate, "{segments}: {}", model.fill());
    }
}

#[test]
fn a_destage_that_stands_still_stops_appends_in_time() {
    let mut rng = Rng::new(3);
    for _ in 0..200 {
        let segments = u32::try_from(rng.between(6, 300)).expect("small");
        let block_ns = 1 << rng.between(15, 22);
        let mut model = Model::new(segments, block_ns, 0);
        if rng.below(2) == 0 {
            model.pace.make_room(segments);
        }
        let stop = rng.below(u64::from(segments) * BLOCKS);
        while model.appended < 2 * u64::from(segments) * BLOCKS {
            if model.appended < stop {
                model.destage();
            }
            let before = model.appended;
            model.append(rng.between(1, 256));
            model.now += block_ns;
            if model.appended == before && model.now > model.last + 100 * SECOND {
                break;
            }
            if model.appended == before && model.appended >= stop {
                model.now += SECOND / 10;
            }
        }
        let (full, fill) = (model.pace.levels.full, model.fill());
        assert!(fill >= full, "{segments} segments: {fill} of {full}");
        // Beyond it is one commit at most, and what destage was about.
        let most = of(segments)(&full) + 256 + i64::from(segments) * BLOCKS as i64 / 1000 + 1;
        let used = i64::try_from(model.used - model.pace.done() / 4096).expect("small");
        assert!(used <= most, "{segments} segments: {used} of {most}");
    }
}

#[test]
fn no_commit_holds_the_next_one_up_for_long() {
    let mut pace = Pace::new(64);
    let mut now = Instant(SECOND);
    pace.go_on(now);
    pace.begin(now, BufferPart { bytes: SEGMENT, data: BLOCKS }, BLOCKS);
    for _ in 0..BLOCKS {
        now = now + Duration::from_millis(50);
        pace.finished(now, 1);
    }
    let fill = pace.levels.target;
    pace.charge(now, 256, fill);
    assert_eq!(pace.admission(now, fill), Admission::At(now + WAIT_MAX));
    assert_eq!(pace.admission(now + WAIT_MAX, fill), Admission::Now);
    assert_eq!(pace.admission(now, pace.levels.gate - 1), Admission::Now);
    assert_eq!(pace.admission(now + WAIT_MAX, pace.levels.full), Admission::Never);
    assert_eq!(pace.commit_blocks(now, fill), COMMIT_BLOCKS_MIN);
}

#[test]
fn what_is_written_counts_as_free_block_by_block() {
    let mut pace = Pace::new(64);
    let now = Instant(SECOND);
    pace.begin(now, BufferPart { bytes: SEGMENT, data: 700 }, 7);
    let seen: Vec<u64> = (0..7)
        .map(|_| {
            pace.finished(now, 1);
            pace.done()
        })
        .collect();
    assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
    assert_eq!((seen[6], pace.indexed()), (SEGMENT, 7));
    // The next one is begun before the first is free; nothing of it is to be written.
    pace.begin(now, BufferPart { bytes: SEGMENT, data: 700 }, 0);
    assert_eq!(pace.done(), 2 * SEGMENT);
    pace.freed(now, SEGMENT);
    pace.freed(now, SEGMENT);
    pace.forgotten();
    assert_eq!((pace.done(), pace.indexed()), (0, 0));
}
