// SPDX-License-Identifier: Apache-2.0
//! Histories that a register allows, and similar ones that it does not.

use super::*;

const RANGE: SectorRange = SectorRange { start: 2, count: 3 };
const A: Author = Author { host: 0, run: 1 };
const A2: Author = Author { host: 0, run: 2 };
const B: Author = Author { host: 1, run: 1 };

fn content(range: SectorRange, tag: u64) -> Vec<u8> {
    let mut bytes = vec![0; range.bytes() as usize];
    if tag != ZERO {
        fill(range, tag, &mut bytes);
    }
    bytes
}

impl Oracle {
    fn begin(&mut self, author: Author) -> (WriteId, u64) {
        self.begin_write(author, RANGE, false).unwrap()
    }

    fn write(&mut self, author: Author) -> u64 {
        let (id, tag) = self.begin(author);
        self.acknowledged(id);
        tag
    }

    /// A write that ends without an answer in term 1.
    fn lost(&mut self, author: Author) -> u64 {
        let (id, tag) = self.begin(author);
        self.unanswered(id, 1);
        tag
    }

    fn sees(&mut self, author: Author, tag: u64) -> bool {
        let id = self.begin_read(RANGE);
        self.read(id, author, &content(RANGE, tag)).is_ok()
    }
}

#[test]
fn acknowledged_writes_must_be_read_and_unanswered_ones_may() {
    let mut oracle = Oracle::new(8);
    let first = oracle.write(A);
    assert!(!oracle.sees(B, ZERO), "lost");
    assert!(oracle.sees(B, first));
    let second = oracle.lost(A);
    assert!(oracle.sees(B, first), "not there yet");
    assert!(oracle.sees(B, second), "came late");
    assert!(!oracle.sees(B, first), "un-seen");
}

#[test]
fn what_nobody_wrote_holds_zeros_and_takes_no_memory() {
    let mut oracle = Oracle::of_part(SectorRange::new(1000, 100_000));
    let whole = SectorRange::new(1000, 100_000);
    let read = |oracle: &mut Oracle, bytes: &[u8]| {
        let id = oracle.begin_read(whole);
        oracle.read(id, B, bytes)
    };
    let mut bytes = content(whole, ZERO);
    assert!(read(&mut oracle, &bytes).is_ok());
    assert_eq!(oracle.sectors.kept(), 0);
    let range = SectorRange::new(50_000, 3);
    let (id, tag) = oracle.begin_write(A, range, false).unwrap();
    oracle.acknowledged(id);
    assert!(read(&mut oracle, &bytes).is_err(), "lost");
    fill(range, tag, &mut bytes[49_000 * 512..49_003 * 512]);
    assert!(read(&mut oracle, &bytes).is_ok());
    assert!(oracle.sectors.kept() < 200, "{}", oracle.sectors.kept());
    fill(SectorRange::new(90_000, 1), tag, &mut bytes[89_000 * 512..89_001 * 512]);
    let wrong = read(&mut oracle, &bytes).unwrap_err();
    assert_eq!((wrong.sector, wrong.found, wrong.current), (90_000, Some(tag), vec![ZERO]));
}

#[test]
fn writes_do_not_overlap_and_reads_may() {
    let mut oracle = Oracle::new(8);
    let old = oracle.write(A);
    let (id, new) = oracle.begin(A);
    assert!(oracle.begin_write(B, SectorRange::new(4, 2), false).is_none(), "overlaps");
    let early = oracle.begin_read(RANGE);
    assert!(oracle.sees(B, old), "not yet");
    assert!(oracle.sees(B, new), "already");
    assert!(!oracle.sees(B, old), "rule 10: what was seen may not go away");
    assert!(oracle.read(early, B, &content(RANGE, old)).is_ok(), "it began before");
    oracle.acknowledged(id);
    assert!(!oracle.sees(B, old));
    assert!(oracle.sees(B, new));
}

#[test]
fn an_unanswered_write_lands_late_and_not_again_once_it_is_decided() {
    let mut oracle = Oracle::new(8);
    let lost = oracle.lost(A);
    let newer = oracle.write(B);
    assert!(oracle.sees(B, newer));
    assert!(oracle.sees(B, lost), "nobody knows where it was");
    assert!(!oracle.sees(B, newer), "un-seen");
    let newest = oracle.write(B);
    assert!(oracle.sees(B, newest));
    assert!(!oracle.sees(B, lost), "it was sent twice (rule 46)");
    oracle.served(2);
    let last = oracle.write(B);
    assert!(oracle.sees(B, last));
    assert!(!oracle.sees(B, lost), "after it was decided");
}

#[test]
fn an_unanswered_write_is_decided_by_a_higher_term() {
    for is_there in [true, false] {
        let mut oracle = Oracle::new(8);
        let old = oracle.write(A);
        let lost = oracle.lost(A);
        oracle.served(1);
        assert!(oracle.has_undecided(), "the same term");
        oracle.served(2);
        assert!(!oracle.has_undecided());
        if is_there {
            assert!(oracle.sees(B, lost), "it was there in time");
        } else {
            assert!(oracle.sees(B, old), "it was not");
        }
        assert!(!oracle.sees(B, if is_there { old } else { lost }), "decided once");
    }
    let mut oracle = Oracle::new(8);
    let lost = oracle.lost(A);
    oracle.served(2);
    oracle.write(B);
    assert!(!oracle.sees(B, lost), "it landed after it was decided");
}

#[test]
fn an_unanswered_write_is_decided_by_its_own_host() {
    let mut oracle = Oracle::new(8);
    let lost = oracle.lost(A);
    let elsewhere = oracle.begin_read(SectorRange::new(0, 1));
    assert!(oracle.read(elsewhere, A, &content(SectorRange::new(0, 1), ZERO)).is_ok());
    assert!(oracle.has_undecided(), "the same run, another range");
    assert!(oracle.sees(A, ZERO));
    assert!(!oracle.has_undecided(), "the same run, the same range");
    assert!(oracle.sees(B, lost), "it was on its way while the read was");
    assert!(!oracle.sees(B, ZERO));

    let mut oracle = Oracle::new(8);
    let lost = oracle.lost(A);
    let elsewhere = oracle.begin_read(SectorRange::new(0, 1));
    assert!(oracle.read(elsewhere, A2, &content(SectorRange::new(0, 1), ZERO)).is_ok());
    assert!(!oracle.has_undecided(), "rule 45: a later run is served");
    let newer = oracle.write(B);
    assert!(!oracle.sees(B, lost), "a frame of a dead run was applied");
    assert!(oracle.sees(B, newer));
}

#[test]
fn a_read_ends_what_was_decided_before_it_and_nothing_else() {
    let mut oracle = Oracle::new(8);
    let first = oracle.lost(A);
    oracle.served(2);
    let second = oracle.lost(B);
    assert!(oracle.sees(B, ZERO));
    assert!(oracle.sees(B, second), "may still land");
    assert!(!oracle.sees(B, first), "was not there when zeros were read");
}

#[test]
fn zeros_of_several_writers_are_told_apart_by_their_windows() {
    let mut oracle = Oracle::new(8);
    let (id, _) = oracle.begin_write(A, RANGE, true).unwrap();
    oracle.unanswered(id, 1);
    let newer = oracle.write(B);
    assert!(oracle.sees(B, newer));
    assert!(oracle.sees(B, ZERO), "the discard came late");
    assert!(!oracle.sees(B, newer));
    oracle.served(2);
    let newest = oracle.write(B);
    assert!(!oracle.sees(B, ZERO), "after it was decided");
    assert!(oracle.sees(B, newest));
}

#[test]
fn a_torn_or_misplaced_sector_is_wrong() {
    let range = SectorRange::new(0, 1);
    let mut oracle = Oracle::new(4);
    let (id, tag) = oracle.begin_write(A, range, false).unwrap();
    oracle.acknowledged(id);
    let mut torn = content(range, tag);
    torn[300] ^= 1;
    let read = oracle.begin_read(range);
    assert!(oracle.read(read, A, &torn).is_err());
    let read = oracle.begin_read(range);
    assert!(oracle.read(read, A, &content(SectorRange::new(1, 1), tag)).is_err());
}

#[test]
fn a_hole_says_as_much_as_a_read_of_zeros_and_data_says_nothing() {
    let (before, behind) = (SectorRange::new(0, 2), SectorRange::new(5, 3));
    let all = SectorRange::new(0, 8);
    let mut oracle = Oracle::new(8);
    let holes = |oracle: &mut Oracle, parts: &[(SectorRange, bool)]| {
        let id = oracle.begin_read(all);
        oracle.status(id, B, parts).is_ok()
    };
    assert!(holes(&mut oracle, &[(all, false)]), "nothing is written");
    assert!(holes(&mut oracle, &[(all, true)]), "more may be called data than holds some");
    oracle.write(A);
    assert!(holes(&mut oracle, &[(before, false), (RANGE, true), (behind, false)]));
    assert!(holes(&mut oracle, &[(before, false)]), "it may end early");
    assert!(!holes(&mut oracle, &[(before, false), (RANGE, false)]), "data is called a hole");

    // An unanswered discard that was seen by block status stays seen.
    let mut oracle = Oracle::new(8);
    let data = oracle.write(A);
    let (id, _) = oracle.begin_write(A, RANGE, true).unwrap();
    oracle.unanswered(id, 1);
    assert!(holes(&mut oracle, &[(before, false), (RANGE, false)]));
    assert!(!oracle.sees(B, data), "un-seen");
}

#[test]
fn rivals_may_land_in_either_order_and_each_once() {
    let part = SectorRange::new(3, 1);
    let tags = |oracle: &mut Oracle| {
        let (first, one) = oracle.begin_rival(A, RANGE, false);
        let (second, two) = oracle.begin_rival(B, RANGE, false);
        assert!(oracle.has_rivals(A.host) && oracle.has_rivals(B.host) && !oracle.has_rivals(7));
        oracle.acknowledged(first);
        oracle.acknowledged(second);
        (one, two)
    };
    for is_first in [true, false] {
        let mut oracle = Oracle::new(8);
        let (one, two) = tags(&mut oracle);
        assert!(!oracle.has_rivals(A.host), "both ended");
        assert!(!oracle.sees(B, ZERO), "lost");
        let (last, other) = if is_first { (one, two) } else { (two, one) };
        assert!(oracle.sees(B, last), "either may be the last one");
        assert!(!oracle.sees(B, other), "their order is known now");
    }

    // One is seen, then the other: the first cannot come again, though nobody was answered.
    let mut oracle = Oracle::new(8);
    let (first, one) = oracle.begin_rival(A, RANGE, false);
    let (second, two) = oracle.begin_rival(B, part, false);
    assert!(oracle.sees(B, one));
    let read = oracle.begin_read(part);
    assert!(oracle.read(read, B, &content(part, two)).is_ok());
    let read = oracle.begin_read(part);
    assert!(oracle.read(read, B, &content(part, one)).is_err(), "it was sent again (rule 46)");
    oracle.acknowledged(first);
    oracle.acknowledged(second);
    let read = oracle.begin_read(part);
    assert!(oracle.read(read, B, &content(part, one)).is_err(), "nor once it is answered");
}

/// What a register of one sector does is never called wrong, whatever overlaps, and whoever dies.
#[test]
fn whatever_a_register_does_is_right() {
    let one = SectorRange::new(0, 1);
    for seed in 0..3000 {
        let mut rng = base::Rng::new(seed);
        let mut oracle = Oracle::new(1);
        let (mut value, mut term, mut hosts) = (ZERO, 1, 0);
        // Writes: id, tag, whether it took effect. Reads: what they saw, if they looked already.
        let mut writes: Vec<(WriteId, u64, bool)> = Vec::new();
        let mut dead: Vec<u64> = Vec::new();
        let mut reads: Vec<(ReadId, Option<u64>)> = Vec::new();
        for _ in 0..120 {
            let at = |rng: &mut base::Rng, count: usize| {
                usize::try_from(rng.below(count.max(1) as u64)).unwrap()
            };
            match rng.below(8) {
                0 if writes.len() < 5 => {
                    // Each of another host: a host's later answers would end its earlier windows.
                    hosts += 1;
                    let author = Author { host: hosts, run: 1 };
                    let (id, tag) = oracle.begin_rival(author, one, rng.below(4) == 0);
                    writes.push((id, tag, false));
                }
                1 | 2 if !writes.is_empty() => {
                    let which = at(&mut rng, writes.len());
                    if !std::mem::replace(&mut writes[which].2, true) {
                        value = writes[which].1;
                    }
                }
                3 if !writes.is_empty() => {
                    let which = at(&mut rng, writes.len());
                    let (id, tag, is_done) = writes[which];
                    match (is_done, rng.below(3)) {
                        (true, 0 | 1) => oracle.acknowledged(id),
                        (_, 2) => {
                            oracle.unanswered(id, term);
                            dead.extend((!is_done).then_some(tag));
                        }
                        _ => continue,
                    }
                    writes.remove(which);
                }
                4 if !dead.is_empty() => value = dead.remove(at(&mut rng, dead.len())),
                5 if rng.below(4) == 0 => {
                    dead.clear();
                    term += 1;
                    oracle.served(term);
                }
                6 if reads.len() < 3 => reads.push((oracle.begin_read(one), None)),
                _ if !reads.is_empty() => {
                    let which = at(&mut rng, reads.len());
                    match reads[which] {
                        (_, None) => reads[which].1 = Some(value),
                        (id, Some(tag)) => {
                            reads.remove(which);
                            // A host of its own, so that its answers end no window.
                            let reader = Author { host: 0, run: 1 };
                            let seen = oracle.read(id, reader, &content(one, tag));
                            assert!(seen.is_ok(), "seed {seed}: {seen:?}");
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

#[test]
fn what_a_shut_out_host_sent_takes_no_effect_until_it_may_write_again() {
    let mut oracle = Oracle::new(8);
    let (late, tag) = oracle.begin(A);
    let lost = {
        let (id, tag) = oracle.begin_rival(A, RANGE, false);
        oracle.unanswered(id, 1);
        tag
    };
    oracle.fenced(1);
    assert!(!oracle.has_undecided());
    let (mine, of_b) = oracle.begin_rival(B, RANGE, false);
    oracle.acknowledged(mine);
    assert!(!oracle.sees(B, tag) && !oracle.sees(B, lost), "both came too late");
    assert!(oracle.sees(B, of_b));
    oracle.admitted(Some(1));
    assert!(!oracle.sees(B, tag), "another host may");
    oracle.admitted(Some(0));
    assert!(!oracle.sees(B, lost), "nobody sends it anew");
    assert!(oracle.sees(B, tag), "it was sent anew");
    oracle.acknowledged(late);
}

#[test]
fn what_had_taken_effect_before_the_take_over_may_be_there() {
    let mut oracle = Oracle::new(8);
    let before = oracle.write(B);
    let (late, tag) = oracle.begin(A);
    oracle.fenced(1);
    assert!(oracle.sees(B, tag), "it had taken effect");
    assert!(!oracle.sees(B, before));
    oracle.unanswered(late, 1);
    assert!(oracle.sees(B, tag));
}
