// SPDX-License-Identifier: Apache-2.0
//! What the log still needs of one component, so that W rises without a look at every segment.
//!
//! W is just below the lowest lsn in all segments from some segment on. To find that lsn, the
//! lowest one of each segment is kept as a *step*. A step is dropped when a later segment has the
//! same lsn or a lower one, for it can never decide again. So the lsns of the steps rise with the
//! segments, and the first step at or behind a segment has the lowest lsn from there on. There is
//! at most one step per segment of the log, and each is added and dropped once.

use std::collections::VecDeque;

/// See the module.
#[derive(Default)]
pub(crate) struct Lowest {
    /// Segments and lsns, both rising.
    steps: VecDeque<(u64, u64)>,
    /// The segment that was noted last.
    noted: Option<u64>,
    /// The last segment that holds a copy.
    copied: Option<u64>,
}

impl Lowest {
    /// Notes that a segment holds an entry of the component with this lsn. Returns whether the
    /// entry noted before this one was of another segment.
    pub(crate) fn note(&mut self, segment: u64, lsn: u64, is_copy: bool) -> bool {
        if is_copy {
            self.copied = self.copied.max(Some(segment));
        }
        let mut at = self.steps.len();
        while at > 0 && self.steps[at - 1].0 > segment {
            at -= 1;
        }
        if self.steps.get(at).is_none_or(|(_, later)| *later > lsn) {
            let mut first = at;
            while first > 0 && self.steps[first - 1].1 >= lsn {
                first -= 1;
            }
            // Of the same segment, with a lower lsn.
            let is_there = first > 0 && self.steps[first - 1].0 == segment;
            if !is_there {
                self.steps.drain(first..at);
                self.steps.insert(first, (segment, lsn));
            }
        }
        self.noted.replace(segment) != Some(segment)
    }

    /// The lowest lsn in that segment and those behind it.
    pub(crate) fn from(&self, segment: u64) -> Option<u64> {
        let at = self.steps.partition_point(|(of, _)| *of < segment);
        self.steps.get(at).map(|(_, lsn)| *lsn)
    }

    /// Segments before that one are free.
    pub(crate) fn forget_before(&mut self, segment: u64) {
        while self.steps.front().is_some_and(|(of, _)| *of < segment) {
            self.steps.pop_front();
        }
    }

    /// Whether that segment or one behind it holds a copy.
    pub(crate) fn has_copies(&self, segment: u64) -> bool {
        self.copied.is_some_and(|copied| copied >= segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Map, Rng};

    /// Every segment's lowest lsn and whether it holds a copy, looked through each time.
    #[test]
    fn it_is_what_a_look_at_every_segment_gives() {
        for seed in 0..200 {
            let (mut rng, mut lowest) = (Rng::new(seed), Lowest::default());
            let mut model: Map<u64, (u64, bool)> = Map::new();
            let (mut tail, mut head) = (0, 0);
            for lsn in 1..400 {
                match rng.below(4) {
                    0 if tail < head => {
                        tail += 1;
                        model.retain(|segment, _| *segment >= tail);
                        lowest.forget_before(tail);
                    }
                    1 => head += 1,
                    _ => {
                        // Moved entries and copies have old lsns; an earlier segment comes again.
                        let lsn = if rng.below(3) == 0 { rng.below(lsn) + 1 } else { lsn };
                        let segment =
                            if rng.below(8) == 0 { rng.between(tail, head) } else { head };
                        let is_copy = rng.below(16) == 0;
                        let was_known = model.contains_key(&segment);
                        let known = model.entry(segment).or_insert((lsn, false));
                        *known = (known.0.min(lsn), known.1 | is_copy);
                        let is_news = lowest.note(segment, lsn, is_copy);
                        assert!(is_news || was_known, "seed {seed}: a segment nobody knows of");
                    }
                }
                for from in tail..=head + 1 {
                    let expected = model.range(from..).map(|(_, (lsn, _))| *lsn).min();
                    assert_eq!(lowest.from(from), expected, "seed {seed}, from {from}");
                    let has_copies = model.range(from..).any(|(_, (_, is_copy))| *is_copy);
                    assert_eq!(lowest.has_copies(from), has_copies, "seed {seed}, from {from}");
                }
            }
        }
    }

    #[test]
    fn a_component_in_every_segment_costs_a_step_for_each() {
        let mut lowest = Lowest::default();
        for segment in 0..100_000 {
            assert!(lowest.note(segment, segment * 7 + 3, false));
            assert!(!lowest.note(segment, segment * 7 + 4, false));
        }
        assert_eq!(lowest.steps.len(), 100_000);
        for segment in 0..100_000 {
            assert_eq!(lowest.from(segment), Some(segment * 7 + 3));
            lowest.forget_before(segment + 1);
        }
        assert!(lowest.steps.is_empty());
        // What rises no more is dropped at once.
        for segment in 0..1000 {
            lowest.note(segment, 5000 - segment, false);
        }
        assert_eq!(lowest.steps.len(), 1);
    }
}
