// SPDX-License-Identifier: Apache-2.0
//! What the model promises, over drawn loads.

use super::*;
use base::Rng;
use std::collections::BTreeMap;

const SIZE: u64 = 4 << 30;
const BLOCK: u64 = 4096;

fn at(offset: u64, bytes: u64) -> DeviceOp {
    DeviceOp::Transfer { offset, bytes }
}

fn some_block(rng: &mut Rng) -> DeviceOp {
    at(rng.below(SIZE / BLOCK) * BLOCK, BLOCK)
}

/// Everything that is under way ends: names and times in order.
fn run_out(disk: &mut Magnetic) -> Vec<(u64, Instant)> {
    let mut ended = Vec::new();
    let mut now = Instant::default();
    loop {
        while let Some(one) = disk.end(now) {
            ended.push(one);
        }
        let Some(next) = disk.next_end() else { return ended };
        assert!(next > now, "the model stands still");
        now = next;
    }
}

/// Mean milliseconds per random 4 KiB transfer with so many under way.
fn mean_ms(depth: u64) -> f64 {
    let (mut disk, mut rng) = (Magnetic::new(SIZE), Rng::new(7));
    let mut now = Instant(SECOND_NS);
    let begin = now;
    (0..depth).for_each(|name| disk.submit(now, name, some_block(&mut rng)));
    let count = 4000;
    for name in depth..depth + count {
        while disk.end(now).is_none() {
            now = disk.next_end().expect("something is under way");
        }
        disk.submit(now, name, some_block(&mut rng));
    }
    now.since(begin).as_secs_f64() * 1e3 / count as f64
}

#[test]
fn a_random_transfer_takes_eight_milliseconds_and_less_with_a_choice() {
    let single = mean_ms(1);
    assert!((7.8..8.3).contains(&single), "{single} ms");
    let (some, many, more) = (mean_ms(4), mean_ms(32), mean_ms(256));
    assert!(some < 0.8 * single, "{some} ms of four");
    assert!((1.5..0.5 * single).contains(&many), "{many} ms of 32");
    assert!((0.9..1.1).contains(&(more / many)), "it chooses from 32 at a time: {more} ms");
}

#[test]
fn a_row_goes_at_150_mb_per_second_whatever_its_pieces_and_pauses() {
    for piece in [4096, 65_536, 1 << 20] {
        let mut disk = Magnetic::new(SIZE);
        let count = (150_000_000 / piece).min(1000);
        for n in 0..count {
            disk.submit(Instant(5), n, at(n * piece, piece));
        }
        let last = run_out(&mut disk).pop().expect("they end").1;
        let seconds = last.since(Instant(5)).as_secs_f64();
        let rate = (count * piece) as f64 / seconds;
        assert!((149.9e6..150.1e6).contains(&rate), "{rate} bytes per second of {piece}");
        // It goes on where it was, later.
        let later = Instant(last.0 + 12_345_678);
        disk.submit(later, 9999, at(count * piece, 15_000));
        let end = run_out(&mut disk).pop().expect("it ends").1;
        assert_eq!(end.since(later), Duration::from_micros(100));
    }
}

#[test]
fn a_farther_seek_takes_longer() {
    let seeks: Vec<u64> = (1..=100).map(|part| seek_ns(SIZE * part / 100, SIZE)).collect();
    assert!(seeks.is_sorted());
    assert_eq!(seek_ns(0, SIZE), SETTLE_NS);
    assert_eq!(seek_ns(SIZE, SIZE), SETTLE_NS + STROKE_NS);
    assert_eq!(seek_ns(SIZE / 4, SIZE), SETTLE_NS + STROKE_NS / 2);
    assert_eq!(seek_ns(u64::MAX, u64::MAX), SETTLE_NS + STROKE_NS);
}

#[test]
fn a_flush_ends_with_what_was_before_it_and_waits_for_nothing_else() {
    let mut disk = Magnetic::new(SIZE);
    let now = Instant(1);
    disk.submit(now, 0, DeviceOp::Flush);
    assert_eq!(disk.end(now), Some((0, now)), "nothing to wait for");
    disk.submit(now, 1, at(SIZE / 2, BLOCK));
    disk.submit(now, 2, DeviceOp::Flush);
    disk.submit(now, 3, at(0, BLOCK));
    disk.submit(now, 4, DeviceOp::Flush);
    let ended = run_out(&mut disk);
    let when: BTreeMap<u64, Instant> = ended.iter().copied().collect();
    assert_eq!(ended.first().map(|one| one.0), Some(3), "the head is there already");
    assert_eq!(when[&2], when[&1]);
    assert_eq!(when[&4], when[&1].max(when[&3]));
}

/// The rules that hold for every load: all end, once, not before they could, one at a time, a flush
/// never before what it covers, and nothing waits for ever.
#[test]
fn drawn_loads_keep_the_rules() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut disk = Magnetic::new(SIZE);
        let (mut now, mut submitted, mut ended) = (Instant(1), Vec::new(), Vec::new());
        let most = rng.between(1, 100);
        while submitted.len() < 400 {
            let under_way = submitted.len() - ended.len();
            if (under_way as u64) < most && rng.below(3) > 0 {
                let bytes = 512 << rng.below(12);
                let op = match rng.below(8) {
                    0 => DeviceOp::Flush,
                    1..=3 => at(rng.below(64) * BLOCK, bytes),
                    _ => at(rng.below((SIZE - bytes) / 512) * 512, bytes),
                };
                disk.submit(now, submitted.len() as u64, op);
                submitted.push((now, op));
            } else {
                let bits = rng.between(1, 26);
                now = now + Duration::from_nanos(rng.below(1 << bits));
            }
            while let Some(one) = disk.end(now) {
                assert!(one.1 <= now, "seed {seed}: it ends in the future");
                ended.push(one);
            }
        }
        ended.extend(run_out(&mut disk));
        check(seed, &submitted, &ended);
        assert!(disk.is_idle());
    }
}

fn check(seed: u64, submitted: &[(Instant, DeviceOp)], ended: &[(u64, Instant)]) {
    let when: BTreeMap<u64, Instant> = ended.iter().copied().collect();
    assert_eq!((when.len(), ended.len()), (submitted.len(), submitted.len()), "seed {seed}: once");
    assert!(ended.is_sorted_by_key(|one| one.1), "seed {seed}: in order of time");
    let mut free = Instant::default();
    for (name, end) in ended {
        let (begin, op) = submitted[*name as usize];
        match op {
            DeviceOp::Transfer { bytes, .. } => {
                let least = begin.max(free) + Duration::from_nanos(transfer_ns(bytes));
                assert!(*end >= least, "seed {seed}: {name} was too fast");
                let most = least + Duration::from_nanos(SETTLE_NS + STROKE_NS + TURN_NS);
                let waited = submitted.len() as u32 * most.since(least);
                assert!(*end <= begin + waited, "seed {seed}: {name} waited too long");
                free = *end;
            }
            DeviceOp::Flush => {
                let covered = (0..*name).filter(|n| submitted[*n as usize].1 != DeviceOp::Flush);
                let last = covered.map(|n| when[&n]).max().unwrap_or_default();
                assert_eq!(*end, begin.max(last), "seed {seed}: flush {name}");
            }
        }
    }
}

#[test]
fn the_oldest_is_not_passed_over_for_ever() {
    let mut disk = Magnetic::new(SIZE);
    let mut now = Instant(1);
    disk.submit(now, 0, at(SIZE - BLOCK, BLOCK));
    for name in 1..1000 {
        // There is always one that costs nothing.
        disk.submit(now, name, at((name - 1) * BLOCK, BLOCK));
        if name % 2 == 0 {
            continue;
        }
        let ended = loop {
            match disk.end(now) {
                Some((ended, _)) => break ended,
                None => now = disk.next_end().expect("something is under way"),
            }
        };
        if ended == 0 {
            assert!(name <= 2 * u64::from(PASSED_MAX) + 3, "after {name}");
            return;
        }
    }
    panic!("it starved");
}
