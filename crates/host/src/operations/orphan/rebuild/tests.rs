// SPDX-License-Identifier: Apache-2.0
//! Which copies are taken for whole, and which never.

use super::*;
use ComponentState::{Absent, Active, Resyncing};
use base::{ComponentId, GroupId, Incarnation, ObjectId, ShardId, VolumeId};
use directory::{About, Missing};

fn component(id: u32, state: ComponentState, seat: u32) -> ComponentRecord {
    ComponentRecord {
        id: ComponentId(id.into()),
        shard: ShardId(id),
        group: GroupId(id.into()),
        state,
        seat: Seat(seat),
        left: Lsn::ZERO,
        replaces: None,
    }
}

/// A component that saw this record version, with these components, and has writes up to `counter`.
fn found(id: u32, version: u64, siblings: &[ComponentRecord], counter: u64) -> OrphanRecord {
    let about = About {
        volume: VolumeId(9),
        name: "web".to_owned(),
        size_bytes: 1 << 20,
        ftt: 1,
        reserve_percent: 0,
        index: 0,
        objects: 1,
        column: 0,
        width: 1,
        version: Version(version),
        term: Term(3),
        siblings: siblings.to_vec(),
    };
    OrphanRecord {
        id: ComponentId(id.into()),
        object: ObjectId(7),
        sectors: 2048,
        shard: ShardId(id),
        incarnation: Incarnation(1),
        group: GroupId(id.into()),
        missing: Missing::Object,
        since: 1,
        used_bytes: 0,
        term: Term(3),
        seat: Seat(1),
        version: Version(version),
        durable: Lsn::new(Term(3), counter),
        is_damaged: false,
        given_up: None,
        about: Some(about),
    }
}

/// Hosts 1 to 9 run.
fn is_up(shard: ShardId) -> bool {
    shard < ShardId(10)
}

/// Components that count, of a record made of these; `None` where none is made.
fn whole(found: &[OrphanRecord], is_forced: bool) -> Option<Vec<u64>> {
    let record = rebuild(found, None, is_up, is_forced).ok()?;
    assert_eq!(record.check().map_err(|error| error.to_string()), Ok(()));
    let active = record.components.iter().filter(|c| c.state == Active);
    Some(active.map(|c| c.id.0).collect())
}

#[test]
fn copies_that_were_active_and_are_equal_stay_active_above_all_that_was() {
    let both = [component(1, Active, 1), component(2, Active, 1)];
    let found = [found(1, 5, &both, 40), found(2, 5, &both, 40)];
    assert_eq!(whole(&found, false), Some(vec![1, 2]));
    let record = rebuild(&found, None, is_up, false).expect("a record");
    assert!(record.version > Version(5) && record.term > Term(3) && record.owner.is_none());
    let old = ObjectRecord { version: Version(1 << 30), term: Term(20), ..record };
    let newer = rebuild(&found, Some(&old), is_up, false).expect("a record");
    assert!(newer.version > old.version && newer.term > old.term);
}

#[test]
fn what_was_made_anew_is_not_made_again_of_what_was_said_before() {
    let both = [component(1, Active, 1), component(2, Active, 1)];
    let said = [found(1, 5, &both, 40), found(2, 5, &both, 40)];
    let made = rebuild(&said, None, is_up, false).expect("a record");
    assert!(is_done(&said, &made));
    let next = ObjectRecord { version: Version(made.version.0 + 7), ..made.clone() };
    assert!(is_done(&said, &next), "an owner went on with it");
    // What they say of later is not done, nor what was put back, nor a copy of a later term.
    let version = made.version.0 + 1;
    assert!(!is_done(&[found(1, 5, &both, 40), found(2, version, &both, 40)], &made));
    assert!(!is_done(&said, &ObjectRecord { is_doubted: true, ..made.clone() }));
    assert!(!is_done(&said, &ObjectRecord { term: Term(3), ..made.clone() }));
    let third = |missing| OrphanRecord { missing, ..found(3, 5, &both, 40) };
    assert!(!is_done(&[third(Missing::Component)], &made), "it is not listed");
    // One was taken out of the new record, and deleted, before its host looked again.
    let fewer = ObjectRecord { components: vec![made.components[0]], ..next };
    assert!(is_done(&said, &fewer));
    for before in [Missing::Version, Missing::Object, Missing::History] {
        assert!(is_done(&[third(before)], &made), "it was said of the record before");
    }
}

/// Rule 39: the third component took the place of the second one.
#[test]
fn what_was_taken_out_of_the_newest_record_is_deleted_and_not_listed_again() {
    let (before, after) = (
        [component(1, Active, 1), component(2, Active, 1)],
        [component(1, Active, 1), component(3, Active, 1)],
    );
    let left = found(2, 5, &before, 40);
    let all = [found(1, 8, &after, 60), left.clone(), found(3, 8, &after, 60)];
    let made = rebuild(&all, None, is_up, false).expect("a record");
    let ids = |record: &ObjectRecord| record.components.iter().map(|c| c.id.0).collect::<Vec<_>>();
    let removed = RemovedComponent { id: ComponentId(2), shard: ShardId(2) };
    assert_eq!((ids(&made), &made.removed[..]), (vec![1, 3], &[removed][..]));
    assert!(is_done(&all, &made));
    let forced = rebuild(&all, None, is_up, true).expect("a record");
    assert_eq!((ids(&forced), forced.removed.len()), (vec![1, 3, 2], 0), "nobody knows");

    // It is found when the others have been adopted already.
    let made = rebuild(&[all[0].clone(), all[2].clone()], None, is_up, false).expect("a record");
    let left = OrphanRecord { missing: Missing::Component, ..left };
    let next = without(std::slice::from_ref(&left), &made).expect("it was taken out");
    assert_eq!((ids(&next), &next.removed[..]), (vec![1, 3], &[removed][..]));
    assert!(next.version > made.version && next.term > made.term && next.owner.is_none());
    assert!(is_done(std::slice::from_ref(&left), &next));
    assert_eq!(without(&[], &made), None);
    let doubted = ObjectRecord { is_doubted: true, ..made.clone() };
    assert_eq!(without(std::slice::from_ref(&left), &doubted), None);
    let newer = OrphanRecord { version: Version(made.version.0 + 1), ..left.clone() };
    assert_eq!(without(&[newer], &made), None, "it knows more than the record");
    let other = OrphanRecord { missing: Missing::History, ..left.clone() };
    assert_eq!(without(&[other], &made), None, "it is of another history");
    let full = ObjectRecord { removed: vec![removed; REMOVED_MAX], ..made };
    assert_eq!(without(&[left], &full), None);
}

#[test]
fn a_copy_that_others_went_on_without_is_copied_again() {
    let both = [component(1, Active, 1), component(2, Active, 1)];
    assert_eq!(whole(&[found(1, 5, &both, 41), found(2, 5, &both, 40)], false), Some(vec![1]));
    let left = [component(1, Active, 1), component(2, Absent, 1)];
    assert_eq!(whole(&[found(1, 6, &left, 40), found(2, 5, &both, 40)], false), Some(vec![1]));
    let is_down = |_| false;
    let record = rebuild(&[found(1, 6, &left, 40)], None, is_down, false);
    let record = record.expect("its absence was known");
    let absent = record.components.iter().find(|c| c.id.0 == 2).expect("it is still listed");
    assert_eq!((absent.state, absent.left), (Absent, Lsn::ZERO), "all of it is copied");
}

#[test]
fn where_a_copy_may_have_gone_on_alone_only_the_operator_decides() {
    let both = [component(1, Active, 1), component(2, Active, 1)];
    let alone = [found(1, 5, &both, 40)];
    assert_eq!((whole(&alone, false), whole(&alone, true)), (None, Some(vec![1])));
    // It was absent when the other one last heard of it, and its host is up: what that host says
    // now is newer (seed 320001327).
    let left = [component(1, Active, 1), component(2, Absent, 1)];
    let alone = [found(1, 5, &left, 40)];
    assert_eq!((whole(&alone, false), whole(&alone, true)), (None, Some(vec![1])));
    let back = [component(1, Absent, 1), component(2, Active, 2)];
    let newer = OrphanRecord { seat: Seat(2), ..found(2, 8, &back, 50) };
    assert_eq!(whole(&[alone[0].clone(), newer], false), Some(vec![2]));
    // It was on its way back when last heard of, and is ahead: it may have come back and gone on.
    let back = [component(1, Active, 1), component(2, Resyncing, 2)];
    let ahead = OrphanRecord { seat: Seat(2), ..found(2, 5, &back, 50) };
    let pair = [found(1, 5, &back, 40), ahead.clone()];
    assert_eq!((whole(&pair, false), whole(&pair, true)), (None, Some(vec![1])));
    // A seat that the newest record does not know.
    let left = [component(1, Active, 1), component(2, Absent, 1)];
    let pair = [found(1, 5, &left, 40), OrphanRecord { about: None, ..ahead }];
    assert_eq!((whole(&pair, false), whole(&pair, true)), (None, Some(vec![1])));
    let pair = [found(1, 5, &left, 40), found(2, 5, &left, 40)];
    assert_eq!(whole(&pair, false), Some(vec![1]));
}

#[test]
fn what_lost_data_is_never_whole() {
    let both = [component(1, Active, 1), component(2, Active, 1)];
    let bad = OrphanRecord { is_damaged: true, ..found(1, 5, &both, 40) };
    let pair = [bad.clone(), found(2, 5, &both, 40)];
    assert_eq!(whole(&pair, false), Some(vec![2]));
    let pair =
        [OrphanRecord { durable: Lsn::new(Term(3), 41), ..bad.clone() }, found(2, 5, &both, 40)];
    assert_eq!((whole(&pair, false), whole(&pair, true)), (None, Some(vec![2])));
    assert_eq!(whole(&[bad], true), None, "not even then");
}

#[test]
fn what_is_not_of_one_object_or_says_nothing_makes_no_record() {
    let both = [component(1, Active, 1), component(2, Active, 1)];
    let other = OrphanRecord { sectors: 8, ..found(2, 5, &both, 40) };
    assert_eq!(whole(&[found(1, 5, &both, 40), other], true), None);
    assert_eq!(whole(&[OrphanRecord { about: None, ..found(1, 5, &both, 40) }], true), None);
    assert_eq!(whole(&[], true), None);
}

#[test]
fn where_copies_went_on_separately_what_was_acknowledged_before_is_not_lost() {
    let split = |record: OrphanRecord| OrphanRecord { missing: Missing::History, ..record };
    let left = [component(1, Active, 1), component(2, Absent, 1)];
    let alone = [component(1, Absent, 1), component(2, Active, 1)];
    // The second claimed a record of before, with a higher version, and was not served.
    let pair = [split(found(1, 6, &left, 40)), found(2, 9, &alone, 30)];
    assert_eq!(whole(&pair, false), Some(vec![1]));
    // It was served, and has newer writes; the first has what was acknowledged before.
    let pair = [split(found(1, 6, &left, 40)), found(2, 9, &alone, 50)];
    assert_eq!((whole(&pair, false), whole(&pair, true)), (None, Some(vec![1])));
}

#[test]
fn a_copy_that_was_given_up_counts_for_what_it_had_and_no_more() {
    let both = [component(1, Active, 1), component(2, Active, 1)];
    let gone = OrphanRecord { given_up: Some(9), ..found(1, 5, &both, 40) };
    let here = found(2, 5, &both, 40);
    let pair = [gone.clone(), here.clone()];
    assert_eq!(whole(&pair, false), Some(vec![2]), "nobody can have gone on without it");
    let record = rebuild(&pair, None, is_up, false).expect("a record");
    let absent = record.components.iter().find(|c| c.id.0 == 1).expect("it is made anew there");
    assert_eq!((absent.state, absent.left), (Absent, Lsn::ZERO));

    assert_eq!(whole(std::slice::from_ref(&gone), true), None, "there is nothing left of it");
    let behind = found(2, 5, &both, 39);
    assert_eq!(whole(&[gone.clone(), behind], false), None, "it is not the one that had all");
    let back = [component(1, Active, 2), component(2, Active, 1)];
    let later = found(2, 7, &back, 40);
    assert_eq!(whole(&[gone, later], false), None, "it came back after that, and may be ahead");
}
