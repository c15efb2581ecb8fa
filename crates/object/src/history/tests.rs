// SPDX-License-Identifier: Apache-2.0

use super::*;
use base::{Incarnation, Rng, Seat, ShardId, WriterEpoch};

#[test]
fn versions_and_terms_of_one_history_rise_together() {
    let at = |version, term| (Version(version), Term(term));
    let seen = at(10, 5);
    for now in [at(10, 5), at(11, 5), at(11, 6), at(40, 9)] {
        assert!(!is_of_before(seen, false, now), "{now:?}");
        assert!(is_of_before(seen, true, now), "{now:?} may be a claim of what was before");
    }
    for now in [at(9, 5), at(9, 6), at(9, 4), at(10, 4), at(10, 6), at(12, 4)] {
        assert!(is_of_before(seen, false, now), "{now:?}");
    }
    assert!(!is_of_before(seen, true, at(10 + ADOPTION_LEAP, 6)));
}

/// A component that is absent is not fenced; its host sees what the others go on with.
#[test]
fn what_a_host_saw_in_later_terms_counts_beside_what_its_component_was_fenced_in() {
    let owner = |host| OwnerRecord { shard: ShardId(host), incarnation: Incarnation(1) };
    let claim = |term, version, host| Claim {
        term: Term(term),
        version: Version(version),
        owner: owner(host),
    };
    let meta = ComponentMeta {
        term: Term(2),
        owner_shard: ShardId(1),
        owner_incarnation: Incarnation(1),
        seat: Seat(1),
        version: Version(5),
    };
    let about = Some((Version(20), Term(9)));
    let known = Known { meta, about, part: None, went_back: false };
    let behind = [claim(2, 5, 1), claim(3, 8, 2), claim(4, 10, 3)];
    assert!(!known.is_other(Version(10), &behind), "news come in any order");
    let other = [claim(2, 5, 1), claim(3, 7, 2)];
    assert!(known.is_other(Version(21), &other), "its version 20 was in an earlier term");
    let later = [claim(2, 5, 1), claim(3, 8, 2), claim(9, 18, 3)];
    assert!(!known.is_other(Version(21), &later));
}

/// A record as far as its history goes.
#[derive(Clone)]
struct Line {
    version: Version,
    term: Term,
    owner: OwnerRecord,
    claims: Vec<Claim>,
}

impl Line {
    /// A claim by a run that has not used this term before, or another change.
    fn step(&mut self, rng: &mut Rng, used: &mut base::Map<OwnerRecord, Term>) {
        if rng.below(2) == 0 {
            self.version.0 += 1;
        } else {
            self.claim(rng, used);
        }
    }

    fn claim(&mut self, rng: &mut Rng, used: &mut base::Map<OwnerRecord, Term>) {
        self.version.0 += 1;
        let term = Term(self.term.0 + 1);
        let owner = loop {
            let shard = ShardId(1 + rng.below(3) as u32);
            let owner = OwnerRecord { shard, incarnation: Incarnation(1 + rng.below(6)) };
            if used.get(&owner).is_none_or(|last| *last < term) {
                break owner;
            }
        };
        used.insert(owner, term);
        (self.term, self.owner) = (term, owner);
        self.claims.push(Claim { term, version: self.version, owner });
    }

    /// A component that was fenced at `fenced`, told of `told` by the one who let go, and whose
    /// host saw all of `seen`.
    fn known(fenced: &Self, told: &Self, seen: &[Self]) -> Known {
        let meta = ComponentMeta {
            term: told.term,
            owner_shard: told.owner.shard,
            owner_incarnation: told.owner.incarnation,
            seat: Seat(1),
            version: fenced.version,
        };
        let mut known = Known { meta, about: None, part: None, went_back: false };
        for line in seen {
            known.part = known.part_beside(&line.record());
            known.about = Some((line.version, line.term));
        }
        known
    }

    fn record(&self) -> ObjectRecord {
        ObjectRecord {
            id: base::ObjectId(1),
            volume: base::VolumeId(1),
            sectors: 8,
            version: self.version,
            term: self.term,
            owner: Some(self.owner),
            handover: None,
            components: Vec::new(),
            removed: Vec::new(),
            claims: self.claims.clone(),
            is_doubted: false,
            writer_epoch: WriterEpoch::ANY,
        }
    }
}

/// However many claims are made of a record of before, no component that saw a later one believes
/// it; and every component believes every later record of its own history.
#[test]
fn a_record_descends_from_what_was_seen_or_is_refused() {
    for seed in 0..2000 {
        let mut rng = Rng::new(seed);
        let mut used = base::Map::new();
        let owner = OwnerRecord { shard: ShardId(1), incarnation: Incarnation(1) };
        let mut line = Line { version: Version(1), term: Term(0), owner, claims: Vec::new() };
        let mut all = Vec::new();
        line.claim(&mut rng, &mut used); // nothing changes before
        for _ in 0..12 {
            line.step(&mut rng, &mut used);
            all.push(line.clone());
        }
        let pick = |rng: &mut Rng, from: usize, to: usize| {
            usize::try_from(rng.between(from as u64, to as u64)).unwrap()
        };
        let fenced = pick(&mut rng, 0, 11);
        let told = pick(&mut rng, fenced, 11);
        let about = pick(&mut rng, 0, 11);
        let known = Line::known(&all[fenced], &all[told], &all[..=about]);
        // News come in any order: a Fence may be older than what the host saw.
        for later in &all[told..] {
            let is_refused = known.is_other(later.version, &later.claims);
            assert!(!is_refused, "seed {seed}: {known:?} {:?}", later.claims);
        }
        // What a directory that was set back makes of it: an owner whose record it does not hold
        // any more changes nothing, so a claim comes first.
        //
        // Nothing is acknowledged in a term before the components that count were fenced in it.
        let end = all.iter().rposition(|line| line.term <= all[told].term).unwrap();
        let newest = about.min(end).max(fenced);
        if newest == 0 {
            continue;
        }
        let mut other = all[pick(&mut rng, 0, newest - 1)].clone();
        other.claim(&mut rng, &mut used);
        for _ in 0..12 {
            other.step(&mut rng, &mut used);
            let is_higher = other.version > known.version() && other.term > known.meta.term;
            if is_higher {
                let is_refused = known.is_other(other.version, &other.claims);
                assert!(is_refused, "seed {seed}: {known:?} {:?}", other.claims);
            }
        }
    }
}
