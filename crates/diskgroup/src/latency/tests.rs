// SPDX-License-Identifier: Apache-2.0
//! The decision on its own: what may and what must make a device slow.

use super::judge::*;
use base::Rng;
use std::time::Duration;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn sample(median: Duration) -> Sample {
    Sample { operations: 100, median, max: median * 50 }
}

/// So many windows; whether it is slow behind each.
fn feed(
    judge: &mut Judge,
    count: usize,
    seen: WindowContext,
    median: impl Fn() -> Duration,
) -> Vec<bool> {
    let add = |_| {
        judge.add(sample(median()), seen);
        judge.is_slow()
    };
    (0..count).map(add).collect()
}

fn alone(depth: u64) -> WindowContext {
    WindowContext { depth, peers: None }
}

fn changes(seen: &[bool]) -> usize {
    seen.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

#[test]
fn a_stationary_load_with_outliers_never_makes_a_device_slow() {
    for seed in 0..2000 {
        let mut rng = Rng::new(seed);
        let norms = if rng.below(2) == 0 { Norm::FLASH } else { Norm::MAGNETIC };
        let mut judge = Judge::new(norms[rng.below(3) as usize]);
        // Up to what the kind may show, and with one window in forty far beyond.
        let base = 1 + rng.below(50_000);
        for window in 0..1000 {
            let micros = match rng.below(40) {
                0 => base * (1 + rng.below(1000)),
                _ => base * (80 + rng.below(40)) / 100,
            };
            let peers = (rng.below(2) == 0).then(|| Duration::from_micros(base));
            judge.add(sample(Duration::from_micros(micros)), WindowContext { depth: 1, peers });
            assert!(!judge.is_slow(), "seed {seed}, window {window}: {judge:?}");
        }
    }
}

#[test]
fn ten_times_as_long_for_a_minute_is_slow_and_stays_so_until_it_is_well() {
    for seed in 0..500 {
        let mut rng = Rng::new(seed);
        // Where ten times as long is beyond what the kind may show.
        let (norm, least) = match rng.below(2) {
            0 => (Norm::FLASH[0], 6),
            _ => (Norm::MAGNETIC[0], 55),
        };
        let base = least + rng.below(least);
        let mut judge = Judge::new(norm);
        let before = 6 + rng.below(400) as usize;
        assert!(!feed(&mut judge, before, alone(1), || millis(base)).contains(&true));
        let after = feed(&mut judge, 30, alone(1), || millis(base * 10));
        assert_eq!(changes(&after), 1, "seed {seed}");
        assert_eq!(after.iter().filter(|slow| !**slow).count(), 5, "at the sixth window");
        // What is new is not learned as usual.
        let usual = judge.report().usual.expect("an hour is known");
        assert!(usual.abs_diff(millis(base)) < millis(1), "{usual:?}");
        // A moment's rest is none.
        assert!(feed(&mut judge, 11, alone(1), || millis(base)).iter().all(|slow| *slow));
        assert!(feed(&mut judge, 1, alone(1), || millis(base * 10))[0]);
        let well = feed(&mut judge, 12, alone(1), || millis(base));
        assert_eq!((well[10], well[11]), (true, false), "seed {seed}: at the twelfth");
    }
}

#[test]
fn a_load_about_the_limit_does_not_flap() {
    for seed in 0..500 {
        let mut rng = Rng::new(seed);
        let mut judge = Judge::new(Norm::FLASH[0]);
        feed(&mut judge, 60, alone(1), || millis(5));
        // Half of the windows above the limit of 53 ms, none well below it.
        let mut seen = Vec::new();
        for _ in 0..3000 {
            let median = millis(40 + rng.below(27));
            judge.add(sample(median), alone(1));
            seen.push(judge.is_slow());
        }
        assert!(changes(&seen) <= 1, "seed {seed}: {} changes", changes(&seen));
    }
}

#[test]
fn what_waits_in_a_queue_does_not_make_a_device_slow() {
    let mut judge = Judge::new(Norm::MAGNETIC[0]);
    feed(&mut judge, 60, alone(1), || millis(12));
    // A magnetic disk that is asked for 128 things at once answers each after a second.
    assert!(!feed(&mut judge, 100, alone(128), || millis(1100)).contains(&true));
    assert!(feed(&mut judge, 10, alone(2), || millis(1100)).contains(&true));
}

#[test]
fn others_of_its_kind_excuse_a_device_unless_it_is_far_beyond() {
    let with = |peers| WindowContext { depth: 1, peers: Some(millis(peers)) };
    let begun = || {
        let mut judge = Judge::new(Norm::FLASH[0]);
        feed(&mut judge, 60, with(5), || millis(5));
        judge
    };
    // All at once: what they share is slow, not this one.
    assert!(!feed(&mut begun(), 100, with(100), || millis(200)).contains(&true));
    assert!(feed(&mut begun(), 6, with(5), || millis(200)).contains(&true));
    assert!(feed(&mut begun(), 6, with(500), || millis(500)).contains(&true), "far beyond");
    // One that was slow from the beginning is told from others alone.
    let mut new = Judge::new(Norm::FLASH[0]);
    assert!(!feed(&mut new, 5, alone(1), || millis(200)).contains(&true));
    assert!(feed(&mut Judge::new(Norm::FLASH[0]), 6, with(5), || millis(200)).contains(&true));
}

#[test]
fn a_window_without_enough_to_tell_changes_nothing_but_ages() {
    let mut judge = Judge::new(Norm::FLASH[0]);
    assert_eq!(judge.fresh(), None);
    feed(&mut judge, 60, alone(1), || millis(5));
    assert!(judge.fresh().is_some());
    feed(&mut judge, 5, alone(1), || millis(500));
    (0..6).for_each(|_| judge.pass());
    assert_eq!(judge.fresh(), None, "that was a minute ago");
    assert!(!judge.is_slow());
    assert!(feed(&mut judge, 1, alone(1), || millis(500))[0], "the sixth");
}
