// SPDX-License-Identifier: Apache-2.0
//! Neighbours on a device share a request.

use std::ops::Range;

/// Bytes of one request for several places.
pub(crate) const RUN_MAX: u64 = 512 << 10;
/// Bytes between two places that are read along rather than left out. To read them takes less time
/// than another request.
pub(crate) const READ_GAP: u64 = 32 << 10;

/// Places that one request covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Its first byte, and the first one behind it.
    pub(crate) bytes: Range<u64>,
    /// Which of the places.
    pub(crate) places: Range<usize>,
}

impl Run {
    pub(crate) fn length(&self) -> usize {
        usize::try_from(self.bytes.end - self.bytes.start).unwrap_or(usize::MAX)
    }
}

/// Joins places, each with its first byte and length, that follow one another with at most `gap`
/// bytes in between.
pub(crate) fn runs(places: impl Iterator<Item = (u64, usize)>, gap: u64) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (at, (start, length)) in places.enumerate() {
        let end = start.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
        match runs.last_mut() {
            Some(run)
                if run.bytes.end <= start
                    && start - run.bytes.end <= gap
                    && end - run.bytes.start <= RUN_MAX =>
            {
                run.bytes.end = end;
                run.places.end = at + 1;
            }
            _ => runs.push(Run { bytes: start..end, places: at..at + 1 }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_run() {
        let run = |bytes, places| Run { bytes, places };
        let places = [(0, 10), (10, 10), (25, 5), (36, 4), (20, 5)];
        let found = runs(places.into_iter(), 5);
        assert_eq!(found, [run(0..30, 0..3), run(36..40, 3..4), run(20..25, 4..5)]);
        let found = runs(places.into_iter().take(3), 0);
        assert_eq!(found, [run(0..20, 0..2), run(25..30, 2..3)]);
        let long = (0..200).map(|n| (n * 4096, 4096));
        let found = runs(long, 0);
        assert!(found.iter().all(|run| run.bytes.end - run.bytes.start <= RUN_MAX));
        assert_eq!(found.len(), 2);
    }
}
