// SPDX-License-Identifier: Apache-2.0
//! Writes in flight and K (rules 3, 5, 6): which legs each write still needs.
//!
//! Each leg is one bit of a [`Mask`]. Each write in flight is one entry. It was *sent* to some legs
//! and *answered* by some of these. It completes when all legs have answered that it was sent to
//! and that still count. Entries complete in any order, but K stays below the oldest one that is
//! not complete.

use base::{Lsn, SectorRange};
use std::collections::VecDeque;

/// Legs of one object at a time, as bits of a [`Mask`].
pub(crate) const LEGS_MAX: usize = 8;

/// A set of legs.
pub(crate) type Mask = u8;

/// One write in flight. `T` is what its owner needs back when it completes.
#[derive(Debug)]
struct Entry<T> {
    lsn: Lsn,
    range: SectorRange,
    sent: Mask,
    /// Legs that lack data unless they get this write. For a client's write that is every leg. For
    /// a repair, or a copy of a take-over, it is only those that it is sent to: the others hold
    /// the same data already.
    meant: Mask,
    /// Legs that it was kept from on purpose: its range is dirty there already (rule 32).
    deferred: Mask,
    answered: Mask,
    load: Option<T>,
}

/// A write that just completed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Completed<T> {
    /// Its lsn.
    pub(crate) lsn: Lsn,
    /// What it wrote.
    pub(crate) range: SectorRange,
    /// Legs that may lack this write, while nothing notes so yet. Either they have not answered it,
    /// or they came after it was sent (rule 32).
    pub(crate) missing: Mask,
    /// What was given with it.
    pub(crate) load: T,
}

/// For which legs a write is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Legs {
    /// It is sent to these.
    pub(crate) sent: Mask,
    /// Those of these that come later lack it; a repair changes nothing for the others.
    pub(crate) meant: Mask,
    /// Those that get its range by a copy, which waits for the write's lock.
    pub(crate) deferred: Mask,
}

/// The in-flight window of one term.
#[derive(Debug)]
pub(crate) struct Window<T> {
    /// By rising lsn; completed ones stay until all before them are complete.
    entries: VecDeque<Entry<T>>,
    given: Lsn,
    commit: Lsn,
    live: usize,
}

impl<T> Window<T> {
    /// An empty window: every write up to `commit` is complete, `given` is the newest lsn given.
    pub(crate) fn new(commit: Lsn, given: Lsn) -> Self {
        assert!(commit <= given, "K leads the newest lsn");
        Self { entries: VecDeque::new(), given, commit, live: 0 }
    }

    /// The next lsn, for a frame that K does not wait for (a copy to a leg that is not active).
    pub(crate) fn give(&mut self) -> Lsn {
        self.given = self.given.next();
        if self.entries.is_empty() {
            // Nothing outstanding: K is a statement about writes only (rule 6).
            self.commit = self.given;
        }
        self.given
    }

    /// The next lsn for a write to `range` that is sent to the legs in `to.sent`.
    pub(crate) fn push(&mut self, range: SectorRange, to: Legs, load: T) -> Lsn {
        let Legs { sent, meant, deferred } = to;
        assert!(sent != 0, "a write that goes nowhere");
        assert!(sent & deferred == 0, "a write sent to a leg that it is kept from");
        self.given = self.given.next();
        self.live += 1;
        let lsn = self.given;
        let load = Some(load);
        self.entries.push_back(Entry { lsn, range, sent, meant, deferred, answered: 0, load });
        lsn
    }

    /// Leg `leg` has `lsn` durable.
    pub(crate) fn answer(&mut self, lsn: Lsn, leg: Mask) {
        if let Ok(at) = self.entries.binary_search_by_key(&lsn, |entry| entry.lsn) {
            self.entries[at].answered |= leg;
        }
    }

    /// The load of a write that completes if only the legs in `needed` count, and K moves on.
    /// Looks at one entry: the hot path after an answer.
    pub(crate) fn settle_one(&mut self, lsn: Lsn, needed: Mask) -> Option<Completed<T>> {
        let at = self.entries.binary_search_by_key(&lsn, |entry| entry.lsn).ok()?;
        let done = Self::settle_entry(&mut self.entries[at], needed, 0)?;
        self.live -= 1;
        self.advance();
        Some(done)
    }

    /// All writes that complete now; `any` (a mutation) lets one answer be enough.
    pub(crate) fn settle(&mut self, needed: Mask, any: bool) -> Vec<Completed<T>> {
        let any = if any { Mask::MAX } else { 0 };
        let mut done = Vec::new();
        for entry in &mut self.entries {
            done.extend(Self::settle_entry(entry, needed, any));
        }
        self.live -= done.len();
        self.advance();
        done
    }

    fn settle_entry(entry: &mut Entry<T>, needed: Mask, any: Mask) -> Option<Completed<T>> {
        let waits = entry.sent & needed & !entry.answered;
        if waits != 0 && entry.answered & any == 0 {
            return None;
        }
        let load = entry.load.take()?;
        let missing = !entry.answered & entry.meant & !entry.deferred;
        Some(Completed { lsn: entry.lsn, range: entry.range, missing, load })
    }

    fn advance(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.load.is_none()) {
            if let Some(entry) = self.entries.pop_front() {
                self.commit = self.commit.max(entry.lsn);
            }
        }
        if self.entries.is_empty() {
            self.commit = self.given;
        }
    }

    /// K: every write up to it is complete (rule 6).
    pub(crate) fn commit(&self) -> Lsn {
        self.commit
    }

    /// The newest lsn given.
    pub(crate) fn given(&self) -> Lsn {
        self.given
    }

    /// Writes that are not complete.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Ranges of the writes that are not complete (rule 32: what was in flight at S is dirty).
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = SectorRange> + '_ {
        self.entries.iter().filter(|entry| entry.load.is_some()).map(|entry| entry.range)
    }

    /// Whether every write that is not complete was sent to `leg` (rule 35 demands it), but for
    /// repairs of others.
    pub(crate) fn all_sent_to(&self, leg: Mask) -> bool {
        let has = |entry: &Entry<T>| entry.sent & leg != 0 || entry.meant & leg == 0;
        self.entries.iter().all(|entry| entry.load.is_none() || has(entry))
    }

    /// A leg's bit is given to a new leg: what the old one did must not count for it.
    pub(crate) fn forget(&mut self, leg: Mask) {
        for entry in &mut self.entries {
            entry.sent &= !leg;
            entry.deferred &= !leg;
            entry.answered &= !leg;
        }
    }

    /// Takes every load back: the owner stops.
    pub(crate) fn drain(&mut self) -> Vec<T> {
        self.live = 0;
        self.entries.drain(..).filter_map(|entry| entry.load).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Map, Rng, Term};

    #[test]
    fn a_repair_is_not_missing_where_nothing_was_bad() {
        let zero = Lsn::new(Term(1), 0);
        let mut window = Window::new(zero, zero);
        let (bad, joiner) = (0b01, 0b10);
        let range = SectorRange::new(0, 8);
        let to = |sent, meant| Legs { sent, meant, deferred: 0 };
        let repair = window.push(range, to(bad, bad), ());
        assert!(window.all_sent_to(joiner), "a returning component has to wait for a repair");
        window.answer(repair, bad);
        let done = window.settle_one(repair, bad | joiner);
        assert_eq!(done.map(|done| done.missing & joiner), Some(0));
        let write = window.push(range, to(bad, Mask::MAX), ());
        assert!(!window.all_sent_to(joiner));
        window.answer(write, bad);
        let done = window.settle_one(write, bad | joiner);
        assert_eq!(done.map(|done| done.missing & joiner), Some(joiner));
    }

    /// Rule 32: a write that a joiner does not get.
    #[test]
    fn a_write_kept_from_a_leg_is_not_missing_there_but_it_does_not_have_it_either() {
        let zero = Lsn::new(Term(1), 0);
        let mut window = Window::new(zero, zero);
        let (active, joiner) = (0b01, 0b10);
        let legs = Legs { sent: active, meant: Mask::MAX, deferred: joiner };
        let lsn = window.push(SectorRange::new(0, 8), legs, ());
        assert!(!window.all_sent_to(joiner), "the joiner must not be required now (rule 35)");
        window.answer(lsn, active);
        let done = window.settle_one(lsn, active | joiner);
        assert_eq!(done.map(|done| done.missing & joiner), Some(0), "its range is dirty already");
        // Another leg that gets the bit knows nothing of that.
        let lsn = window.push(SectorRange::new(0, 8), legs, ());
        window.forget(joiner);
        window.answer(lsn, active);
        let done = window.settle_one(lsn, active);
        assert_eq!(done.map(|done| done.missing & joiner), Some(joiner));
    }

    /// Rules 5 and 6.
    #[test]
    fn k_never_leads_a_required_answer_and_every_write_completes() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let zero = Lsn::new(Term(3), 0);
            let mut window = Window::new(zero, zero);
            let mut needed: Mask = 0b111;
            let mut open: Map<Lsn, (Mask, Mask)> = Map::new();
            let mut commit = zero;
            for step in 0..300 {
                match rng.below(6) {
                    0..=2 if step < 200 => {
                        let legs = Legs { sent: needed, meant: Mask::MAX, deferred: 0 };
                        let lsn = window.push(SectorRange::new(rng.below(99), 1), legs, ());
                        open.insert(lsn, (needed, 0));
                    }
                    3 if step < 200 => drop(window.give()),
                    4 if rng.below(20) == 0 && needed.count_ones() > 1 => needed &= needed - 1,
                    _ => {
                        let leg: Mask = 1 << rng.below(3);
                        let lsn = open.iter().find(|(_, e)| e.0 & !e.1 & leg != 0).map(|e| *e.0);
                        if let Some(lsn) = lsn {
                            window.answer(lsn, leg);
                            if let Some(entry) = open.get_mut(&lsn) {
                                entry.1 |= leg;
                            }
                        }
                    }
                }
                for done in window.settle(needed, false) {
                    let (sent, answered) = open.remove(&done.lsn).expect("completes once");
                    assert_eq!(sent & needed & !answered, 0, "seed {seed}: completed too early");
                }
                assert!(window.commit() >= commit, "seed {seed}: K fell");
                commit = window.commit();
                assert!(open.keys().all(|lsn| *lsn > commit), "seed {seed}: K leads");
                assert_eq!(window.live(), open.len());
                if open.is_empty() {
                    assert_eq!(commit, window.given());
                }
            }
            needed = 0;
            window.settle(needed, false);
            assert_eq!(window.commit(), window.given());
        }
    }
}
