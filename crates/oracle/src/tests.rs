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
